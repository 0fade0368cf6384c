#include <errno.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "init/init.h"
#include "proto/syscalls.h"

/*
 * The launcher wrote the plan and sealed it. The checks find a launcher and an init of different
 * versions, and bugs.
 */

static bool plan_holds(const struct plan_header *h, uint32_t offset, uint64_t count, uint64_t size)
{
    return offset % 8 == 0 && offset >= sizeof(*h) && offset <= h->size &&
           count * size <= h->size - offset;
}

static bool plan_string_ok(const struct plan_header *h, uint32_t offset)
{
    return offset < h->strings_size;
}

/* Checks that exactly the operations that need a descriptor have one. */
static bool plan_fd_ok(const struct plan_header *h, const struct plan_op *op)
{
    if (op->type == PLAN_OP_ROOT || op->type == PLAN_OP_ATTACH || op->type == PLAN_OP_MASK ||
        op->type == PLAN_OP_DISCARD)
        return op->fd >= 0 && op->fd < (int32_t)h->fd_count;
    return op->fd == -1;
}

static bool plan_ops_ok(const struct plan *p)
{
    const struct plan_header *h = p->header;

    for (uint32_t i = 0; i < h->op_count; i++) {
        const struct plan_op *op = &p->ops[i];

        if (op->type == PLAN_OP_INVALID || op->type >= PLAN_OP_MAX ||
            (op->flags & ~PLAN_OP_FLAGS_ALL) != 0 || !plan_fd_ok(h, op))
            return false;
        if (!plan_string_ok(h, op->path) || !plan_string_ok(h, op->text) ||
            !plan_string_ok(h, op->options))
            return false;
        if (p->strings[op->path] == '/')
            return false;
        if ((op->flags & PLAN_GUARDED) != 0 &&
            (op->type != PLAN_OP_ATTACH || (h->flags & PLAN_GUARD) == 0))
            return false;
    }
    return true;
}

static bool plan_rlimits_ok(const struct plan *p)
{
    for (uint32_t i = 0; i < p->header->rlimit_count; i++)
        if (p->rlimits[i].resource >= RLIM_NLIMITS || p->rlimits[i].soft > p->rlimits[i].hard)
            return false;
    return true;
}

static bool plan_counts_ok(const struct plan_header *h)
{
    return h->op_count <= PLAN_OPS_MAX && h->rlimit_count <= PLAN_RLIMITS_MAX &&
           h->fd_count <= PLAN_FDS_MAX && h->baseline_count <= PLAN_FILTER_MAX &&
           h->guard_count <= PLAN_FILTER_MAX && h->policy_count <= PLAN_FILTER_MAX;
}

/* A guard with these capabilities inside would protect nothing, so the plan is refused. */
static bool plan_guard_ok(const struct plan_header *h)
{
    const uint64_t never =
        UINT64_C(1) << CAP_FSETID | UINT64_C(1) << CAP_SETFCAP | UINT64_C(1) << CAP_SYS_ADMIN;

    if ((h->flags & PLAN_GUARD) == 0)
        return h->guard_count == 0 && (h->flags & PLAN_GUARD_FSETID) == 0;
    return h->guard_count > 0 && (h->capabilities & never) == 0;
}

int plan_check(struct plan *p, const void *data, size_t size)
{
    const struct plan_header *h = data;

    if (size < sizeof(*h) || size > PLAN_SIZE_MAX || h->size != size || h->magic != PLAN_MAGIC ||
        h->version != PLAN_VERSION || (h->flags & ~(uint32_t)PLAN_FLAGS_ALL) != 0)
        return -EPROTO;
    if (!plan_counts_ok(h))
        return -E2BIG;
    /* A plan without a seccomp baseline is refused. */
    if (h->baseline_count == 0 || h->strings_size == 0 || !plan_guard_ok(h))
        return -EPROTO;
    if (!plan_holds(h, h->ops, h->op_count, sizeof(struct plan_op)) ||
        !plan_holds(h, h->rlimits, h->rlimit_count, sizeof(struct plan_rlimit)) ||
        !plan_holds(h, h->baseline, h->baseline_count, sizeof(struct sock_filter)) ||
        !plan_holds(h, h->guard, h->guard_count, sizeof(struct sock_filter)) ||
        !plan_holds(h, h->policy, h->policy_count, sizeof(struct sock_filter)) ||
        !plan_holds(h, h->strings, h->strings_size, 1))
        return -EPROTO;

    *p = (struct plan){.base = data, .header = h};
    p->ops = (const struct plan_op *)(const void *)(p->base + h->ops);
    p->rlimits = (const struct plan_rlimit *)(const void *)(p->base + h->rlimits);
    p->strings = (const char *)p->base + h->strings;
    if (p->strings[0] != '\0' || p->strings[h->strings_size - 1] != '\0')
        return -EPROTO;
    return plan_string_ok(h, h->hostname) && plan_ops_ok(p) && plan_rlimits_ok(p) ? 0 : -EPROTO;
}

/*
 * Receives the descriptors, which take the lowest free numbers in order: PLAN_FD, PLAN_LEASE_FD, …
 * Returns how many belong to operations.
 */
static uint32_t plan_receive(void)
{
    static union {
        char bytes[CMSG_SPACE(sizeof(int) * (PLAN_FDS_MAX - 3))]; /* SCM_MAX_FD is 253 */
        struct cmsghdr first;
    } control;
    const int fixed = PLAN_FD_OPS - PLAN_FD;
    struct imsg msg;
    struct iovec iov = {.iov_base = &msg, .iov_len = sizeof(msg)};
    struct msghdr hdr = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    const struct cmsghdr *c;
    ssize_t n;
    int count;

    do
        n = recvmsg(PLAN_CONTROL_FD, &hdr, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof(msg) || msg.magic != IMSG_MAGIC || msg.type != IMSG_GO)
        _exit(1); /* the launcher has exited, or the peer is no launcher */
    c = CMSG_FIRSTHDR(&hdr);
    if (c == NULL || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
        (hdr.msg_flags & MSG_CTRUNC) != 0)
        init_fail(INIT_STAGE_PLAN, 0, EPROTO);
    count = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    for (int i = 0; i < count; i++) {
        int fd;

        (void)memcpy(&fd, CMSG_DATA(c) + (size_t)i * sizeof(int), sizeof(fd));
        if (fd != PLAN_FD + i)
            init_fail(INIT_STAGE_PLAN, 0, EPROTO);
    }
    if (count < fixed)
        init_fail(INIT_STAGE_PLAN, 0, EPROTO);
    return (uint32_t)(count - fixed);
}

void plan_load(struct plan *p)
{
    const uint32_t fd_count = plan_receive();
    struct stat st;
    void *base;
    int r;

    if (fstat(PLAN_FD, &st) < 0)
        init_fail(INIT_STAGE_PLAN, 0, errno);
    if (st.st_size < (off_t)sizeof(struct plan_header) || st.st_size > PLAN_SIZE_MAX)
        init_fail(INIT_STAGE_PLAN, 0, EPROTO);

    base = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, PLAN_FD, 0);
    if (base == MAP_FAILED)
        init_fail(INIT_STAGE_PLAN, 0, errno);
    r = plan_check(p, base, (size_t)st.st_size);
    if (r == 0 && p->header->fd_count != fd_count)
        r = -EPROTO;
    if (r < 0)
        init_fail(INIT_STAGE_PLAN, 0, -r);
}

int plan_install_baseline(const struct plan *p, unsigned flags)
{
    struct sock_fprog prog = {.len = (unsigned short)p->header->baseline_count,
                              .filter =
                                  (struct sock_filter *)(uintptr_t)(p->base + p->header->baseline)};

    return sys_seccomp_filter(flags, &prog);
}

int plan_install_baseline_alone(const struct plan *p)
{
    static struct sock_filter filter[PLAN_FILTER_MAX];
    struct sock_fprog prog = {.len = (unsigned short)p->header->baseline_count, .filter = filter};

    (void)memcpy(filter, p->base + p->header->baseline,
                 p->header->baseline_count * sizeof(struct sock_filter));
    for (uint32_t i = 0; i < p->header->baseline_count; i++)
        if (filter[i].code == (BPF_RET | BPF_K) && filter[i].k == SECCOMP_RET_USER_NOTIF)
            filter[i].k = SECCOMP_RET_ERRNO | EPERM;
    return sys_seccomp_filter(0, &prog);
}

int plan_drop_capabilities(const struct plan *p)
{
    for (unsigned cap = 0; cap < 64; cap++) {
        if (p->header->capabilities & (1ULL << cap))
            continue;
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0) {
            if (errno == EINVAL)
                break; /* past the kernel's last capability */
            return -errno;
        }
    }
    return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ? -errno : 0;
}
