/* Encodes a checked request as the flat plan that init executes. The order of the operations is the
 * order of the mounts. Runs in the launcher; called by launcher.c. */
#include <errno.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "launch/sandbox.h"
#include "launch/seccomp-baseline.h"
#include "proto/plan.h"
#include "proto/syscalls.h"

enum {
    ATTR_KERNEL_FS = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
    SHM_DEFAULT = 64 << 20, /* bytes of /dev/shm; Docker's default */
    TMPFS_INODES_MIN = 1024,
    TMPFS_OPTIONS_MAX = 128, /* the words, and numbers: two of 19 digits, two of 5 */
    TMPFS_MODE = 01777,
};

struct plan_build_builder {
    struct buf ops, strings;
    uint32_t op_count;
    bool failed;
};

static uint32_t plan_add_string(struct plan_build_builder *b, const char *text)
{
    uint32_t at = (uint32_t)b->strings.len;

    if (text == NULL || *text == '\0')
        return 0;
    if (buf_append(&b->strings, text, strlen(text) + 1) < 0)
        b->failed = true;
    return at;
}

struct op {
    enum plan_op_type type;
    uint16_t flags;
    int fd;
    const char *path, *text, *options;
    uint32_t attr;
};

static void plan_add_op(struct plan_build_builder *b, struct op o)
{
    struct plan_op op = {.type = (uint16_t)o.type, .flags = o.flags, .fd = o.fd, .attr = o.attr};

    /* The request's paths are absolute, the plan's are relative to the new root. */
    op.path = plan_add_string(b, o.path != NULL && o.path[0] == '/' ? o.path + 1 : o.path);
    op.text = plan_add_string(b, o.text);
    op.options = plan_add_string(b, o.options);
    if (b->op_count == PLAN_OPS_MAX || buf_append(&b->ops, &op, sizeof(op)) < 0)
        b->failed = true;
    b->op_count++;
}

/* has_cgroup: init makes a cgroup namespace for itself and one per exec, which are added to the
 * sandbox's limit. */
static void plan_add_counters(struct plan_build_builder *b, const struct launch_request *q,
                              bool has_cgroup)
{
    char path[96], text[24];

    for (size_t i = 0; i < q->counter_count; i++) {
        uint64_t limit = q->counters[i].limit;

        if (has_cgroup && (q->capabilities & UINT64_C(1) << CAP_SYS_ADMIN) == 0 &&
            strcmp(q->counters[i].name, "max_cgroup_namespaces") == 0)
            limit += INIT_EXECS_MAX + 1;
        (void)snprintf(path, sizeof(path), "proc/sys/user/%s", q->counters[i].name);
        (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)limit);
        plan_add_op(b, (struct op){.type = PLAN_OP_SYSCTL,
                                   .fd = -1,
                                   .path = path,
                                   .text = text,
                                   .flags = PLAN_OPTIONAL});
    }
}

/* Skipped for a joined network: its owner has set the sysctls already. */
static void plan_add_net_sysctls(struct plan_build_builder *b)
{
    /* The net namespace belongs to the outer user namespace, so no process inside has capabilities
     * over it. These two sysctls grant what Docker's default capabilities do: low ports and ping.
     */
    plan_add_op(b, (struct op){.type = PLAN_OP_SYSCTL,
                               .fd = -1,
                               .path = "proc/sys/net/ipv4/ip_unprivileged_port_start",
                               .text = "0",
                               .flags = PLAN_OPTIONAL});
    plan_add_op(b, (struct op){.type = PLAN_OP_SYSCTL,
                               .fd = -1,
                               .path = "proc/sys/net/ipv4/ping_group_range",
                               .text = "0 65535",
                               .flags = PLAN_OPTIONAL});
}

/* What the client asks for its own namespaces. The launcher has checked the names (request.c);
 * those of the net namespace are skipped for a joined one, which is another sandbox's. */
static void plan_add_sysctls(struct plan_build_builder *b, const struct launch_request *q,
                             bool joined)
{
    char path[sizeof("proc/sys/") + SYSCTL_NAME_MAX + 1];

    for (size_t i = 0; i < q->sysctl_count; i++) {
        const char *value = strchr(q->sysctls[i], '=') + 1;

        if (joined && sysctl_judge(q->sysctls[i]) == SYSCTL_NET)
            continue;
        (void)snprintf(path, sizeof(path), "proc/sys/%.*s", (int)(value - 1 - q->sysctls[i]),
                       q->sysctls[i]);
        for (char *p = path + sizeof("proc/sys"); *p != '\0'; p++)
            if (*p == '.')
                *p = '/';
        plan_add_op(b, (struct op){.type = PLAN_OP_SYSCTL, .fd = -1, .path = path, .text = value});
    }
}

/* Formats options of a tmpfs of this size. size= does not count inodes, each of which costs about 1
 * KiB of kernel memory. So the number of inodes is limited to the same amount once more. */
static void tmpfs_options(char *buf, size_t cap, long long bytes, unsigned mode)
{
    long long inodes = bytes / 1024 > TMPFS_INODES_MIN ? bytes / 1024 : TMPFS_INODES_MIN;

    (void)snprintf(buf, cap, "mode=%o,size=%lld,nr_inodes=%lld", mode, bytes, inodes);
}

/* The ids are those inside: init makes the mount in the sandbox's user namespace. */
static void plan_add_tmpfs(struct plan_build_builder *b, const struct launch_tmpfs *t)
{
    char options[TMPFS_OPTIONS_MAX];
    size_t len;

    tmpfs_options(options, sizeof(options), (long long)t->bytes,
                  t->has_root ? t->root.mode : TMPFS_MODE);
    len = strlen(options);
    if (t->has_root)
        (void)snprintf(options + len, sizeof(options) - len, ",uid=%u,gid=%u", t->root.uid,
                       t->root.gid);
    plan_add_op(b, (struct op){.type = PLAN_OP_FSMOUNT,
                               .fd = -1,
                               .path = t->target,
                               .text = "tmpfs",
                               .options = options,
                               .attr = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                       (t->read_only ? MOUNT_ATTR_RDONLY : 0U) |
                                       (t->no_exec ? MOUNT_ATTR_NOEXEC : 0U),
                               .flags = PLAN_MAKE_DIR});
}

/* Adds the sandbox's own limits in /sys: its cgroups and its processors. /proc/cpuinfo is added
 * after /proc. */
static void plan_add_limits_view(struct plan_build_builder *b, const struct plan_mounts *mounts)
{
    const uint16_t ours = PLAN_STRICT | PLAN_READY;
    char path[sizeof("sys/fs/cgroup/") + CGROUP_VIEW_NAME_MAX];

    if (mounts->has_cgroups)
        plan_add_op(b, (struct op){.type = PLAN_OP_ATTACH,
                                   .fd = mounts->cgroups,
                                   .path = "sys/fs/cgroup",
                                   .flags = ours});
    /* The exec cgroups belong to the sandbox's root. With an fd of one, even a read-only one, a
     * process could start another process in it (CLONE_INTO_CGROUP), out of reach of a time-out. */
    if (mounts->has_cgroups && mounts->cgroup_part_count == 0)
        plan_add_op(b, (struct op){.type = PLAN_OP_MASK,
                                   .fd = mounts->mask,
                                   .path = "sys/fs/cgroup/" CGROUP_EXEC});
    for (int i = 0; i < mounts->cgroup_part_count; i++) {
        (void)snprintf(path, sizeof(path), "sys/fs/cgroup/%s", mounts->cgroup_parts[i].name);
        plan_add_op(b, (struct op){.type = PLAN_OP_ATTACH,
                                   .fd = mounts->cgroup_parts[i].mount,
                                   .path = path,
                                   .flags = ours});
        if (strcmp(mounts->cgroup_parts[i].name, CGROUP_UNIFIED) == 0)
            plan_add_op(b, (struct op){.type = PLAN_OP_MASK,
                                       .fd = mounts->mask,
                                       .path = "sys/fs/cgroup/" CGROUP_UNIFIED "/" CGROUP_EXEC});
    }
    if (mounts->has_cpus)
        plan_add_op(b, (struct op){.type = PLAN_OP_ATTACH,
                                   .fd = mounts->cpus,
                                   .path = "sys/devices/system/cpu/online",
                                   .flags = ours});
}

static void plan_add_system(struct plan_build_builder *b, const struct launch_request *q,
                            const struct plan_mounts *mounts)
{
    const uint16_t strict = PLAN_STRICT | PLAN_MAKE_DIR;
    char shm[TMPFS_OPTIONS_MAX], pts[64];

    (void)snprintf(pts, sizeof(pts), "ptmxmode=0666,mode=0620,gid=5,max=%u",
                   mounts->terminals > 0 ? mounts->terminals : 1);
    tmpfs_options(shm, sizeof(shm), q->shm >= 0 ? q->shm : SHM_DEFAULT, TMPFS_MODE);
    plan_add_op(b, (struct op){.type = PLAN_OP_ROOT, .fd = mounts->root});
    plan_add_op(
        b, (struct op){.type = PLAN_OP_ATTACH, .fd = mounts->dev, .path = "dev", .flags = strict});
    /* Done while the inner PID 1 starts; PLAN_OP_PROC below waits for its /proc. */
    for (int i = 0; i < mounts->discard_count; i++)
        plan_add_op(b, (struct op){.type = PLAN_OP_DISCARD, .fd = mounts->discards + i});
    if (q->masked_count == 0 && !mounts->has_cgroups)
        plan_add_op(b, (struct op){.type = PLAN_OP_DISCARD, .fd = mounts->mask});
    plan_add_op(b, (struct op){.type = PLAN_OP_FSMOUNT,
                               .fd = -1,
                               .path = "dev/pts",
                               .text = "devpts",
                               .options = pts,
                               .attr = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC,
                               .flags = PLAN_STRICT});
    plan_add_op(b, (struct op){.type = PLAN_OP_FSMOUNT,
                               .fd = -1,
                               .path = "dev/shm",
                               .text = "tmpfs",
                               .options = shm,
                               .attr = ATTR_KERNEL_FS,
                               .flags = PLAN_STRICT});
    plan_add_op(b, (struct op){.type = PLAN_OP_FSMOUNT,
                               .fd = -1,
                               .path = "dev/mqueue",
                               .text = "mqueue",
                               .attr = ATTR_KERNEL_FS,
                               .flags = PLAN_STRICT});
    if (mounts->joined)
        plan_add_op(b, (struct op){.type = PLAN_OP_ATTACH,
                                   .fd = mounts->sys,
                                   .path = "sys",
                                   .flags = PLAN_MAKE_DIR | PLAN_STRICT | PLAN_READY});
    else
        plan_add_op(b, (struct op){.type = PLAN_OP_FSMOUNT,
                                   .fd = -1,
                                   .path = "sys",
                                   .text = "sysfs",
                                   .attr = ATTR_KERNEL_FS | MOUNT_ATTR_RDONLY,
                                   .flags = strict});
    plan_add_limits_view(b, mounts);
    plan_add_op(b, (struct op){.type = PLAN_OP_PROC, .fd = -1, .path = "proc", .flags = strict});
    if (mounts->has_cpuinfo)
        plan_add_op(b, (struct op){.type = PLAN_OP_ATTACH,
                                   .fd = mounts->cpuinfo,
                                   .path = "proc/cpuinfo",
                                   .flags = PLAN_STRICT | PLAN_READY});
}

/* ---- the client's mounts ---- */

struct client_mount {
    const char *target;
    const struct launch_tmpfs *tmpfs; /* or NULL: it is a volume */
    int fd_index;
    bool is_dir, guarded;
};

static int client_mount_compare(const void *a, const void *b)
{
    return strcmp(((const struct client_mount *)a)->target,
                  ((const struct client_mount *)b)->target);
}

static void plan_add_client_mounts(struct plan_build_builder *b, struct client_mount *mounts,
                                   size_t count)
{
    /* A mount point comes before the mount points below it. */
    qsort(mounts, count, sizeof(*mounts), client_mount_compare);
    for (size_t i = 0; i < count; i++) {
        const struct client_mount *m = &mounts[i];

        if (m->tmpfs == NULL) {
            const uint16_t make = m->is_dir ? PLAN_MAKE_DIR : PLAN_MAKE_FILE;

            plan_add_op(b, (struct op){.type = PLAN_OP_ATTACH,
                                       .fd = m->fd_index,
                                       .path = m->target,
                                       .flags = m->guarded ? make | PLAN_GUARDED : make});
            continue;
        }
        plan_add_tmpfs(b, m->tmpfs);
    }
}

/* ---- the complete plan ---- */

static int append_aligned(struct buf *b, const void *data, size_t len, uint32_t *ret_offset)
{
    static const char zero[8];
    int r;

    r = buf_append(b, zero, (8 - b->len % 8) % 8);
    *ret_offset = (uint32_t)b->len;
    return r < 0 ? r : buf_append(b, data, len);
}

static int append_rlimits(struct buf *b, const struct launch_request *q, uint32_t *ret_offset)
{
    struct plan_rlimit list[LAUNCH_RLIMITS_MAX];

    for (size_t i = 0; i < q->rlimit_count; i++)
        list[i] = (struct plan_rlimit){.resource = (uint32_t)q->rlimits[i].resource,
                                       .soft = q->rlimits[i].soft,
                                       .hard = q->rlimits[i].hard};
    return append_aligned(b, list, sizeof(list[0]) * q->rlimit_count, ret_offset);
}

/*
 * Drops the capabilities with which a sandbox could give a host directory, that it writes as the
 * owner, files with more rights.
 *
 * CAP_FSETID: without it a write clears set-id bits; its broker (shim/init/guard.h) may have it
 * elsewhere. CAP_SETFCAP: file capabilities set there would be effective on the host.
 * CAP_SYS_ADMIN: an overlay mounted inside, with its upper layer there, copies up set-id files of
 * the image, which no filter sees. A policy that grants CAP_SYS_ADMIN needs it, so such a start is
 * refused.
 */
static int plan_drop_capabilities(struct plan_header *h, const char *target, struct err *err)
{
    const uint64_t fsetid = UINT64_C(1) << CAP_FSETID;

    if ((h->capabilities & UINT64_C(1) << CAP_SYS_ADMIN) != 0)
        return err_set(
            err, -EPERM,
            "volume '%s': a policy that grants CAP_SYS_ADMIN could put set-id files into "
            "a directory of root's; mount it read-only (:ro), or use a named volume",
            target);
    h->flags |= PLAN_GUARD | ((h->capabilities & fsetid) != 0 ? PLAN_GUARD_FSETID : 0);
    h->capabilities &= ~(fsetid | UINT64_C(1) << CAP_SETFCAP);
    return 0;
}

static uint32_t plan_flags(const struct launch_request *q, bool joined, bool has_cgroup)
{
    uint32_t flags = joined ? 0 : PLAN_LOOPBACK;

    if (q->flags & LAUNCH_ATTACHED)
        flags |= PLAN_ATTACHED;
    if (q->flags & LAUNCH_REAPER)
        flags |= PLAN_REAPER;
    if (q->flags & LAUNCH_KEEP)
        flags |= PLAN_LISTEN;
    if (q->flags & LAUNCH_NO_NEW_PRIVS)
        flags |= PLAN_NO_NEW_PRIVS;
    if (q->flags & LAUNCH_NO_EXEC)
        flags |= PLAN_NO_EXEC;
    return has_cgroup ? flags | PLAN_HAS_CGROUP : flags;
}

static int plan_assemble(const struct launch_request *q, struct plan_build_builder *b,
                         struct plan_header *h, struct err *err)
{
    auto_buf struct buf plan = BUF_INIT(PLAN_SIZE_MAX);
    struct sock_filter baseline[BASELINE_MAX], guard[BASELINE_MAX];
    const bool guarded = (h->flags & PLAN_GUARD) != 0;
    int r, fd;

    h->baseline_count = (uint32_t)baseline_build(baseline, guarded);
    h->guard_count = guarded ? (uint32_t)baseline_build_guard(guard) : 0;
    h->policy_count = (uint32_t)q->filter_count;
    h->rlimit_count = (uint32_t)q->rlimit_count;
    h->op_count = b->op_count;
    h->strings_size = (uint32_t)b->strings.len;

    r = buf_append(&plan, h, sizeof(*h));
    if (r == 0)
        r = append_aligned(&plan, b->ops.data, b->ops.len, &h->ops);
    if (r == 0)
        r = append_rlimits(&plan, q, &h->rlimits);
    if (r == 0)
        r = append_aligned(&plan, baseline, sizeof(baseline[0]) * h->baseline_count, &h->baseline);
    if (r == 0)
        r = append_aligned(&plan, guard, sizeof(guard[0]) * h->guard_count, &h->guard);
    if (r == 0)
        r = append_aligned(&plan, q->filter, q->filter_count * sizeof(struct sock_filter),
                           &h->policy);
    if (r == 0)
        r = append_aligned(&plan, b->strings.data, b->strings.len, &h->strings);
    if (r < 0 || b->failed)
        return err_set(err, -E2BIG, "set-up plan: larger than %d bytes or %d operations",
                       PLAN_SIZE_MAX, PLAN_OPS_MAX);
    h->size = (uint32_t)plan.len;
    (void)memcpy(plan.data, h, sizeof(*h));

    fd = memfd_sealed("rind-plan", plan.data, plan.len);
    return fd < 0 ? err_errno(err, fd, "set-up plan") : fd;
}

int plan_build(const struct launch_request *q, const struct plan_mounts *mounts, bool has_cgroup,
               struct err *err)
{
    struct client_mount client[LAUNCH_VOLUMES_MAX + LAUNCH_TMPFS_MAX];
    struct plan_header h = {
        .magic = PLAN_MAGIC, .version = PLAN_VERSION, .capabilities = q->capabilities};
    struct plan_build_builder b = {.ops = BUF_INIT(PLAN_OPS_MAX * sizeof(struct plan_op)),
                                   .strings = BUF_INIT(PLAN_SIZE_MAX)};
    size_t n = 0;
    const char *guarded = NULL; /* the target of one guarded volume */
    int fd = 0;

    (void)buf_append(&b.strings, "", 1); /* offset 0 is the empty string */
    plan_add_system(&b, q, mounts);
    plan_add_counters(&b, q, has_cgroup);
    if (!mounts->joined)
        plan_add_net_sysctls(&b);
    plan_add_sysctls(&b, q, mounts->joined);
    /* A read-only path becomes a new mount on top, so a mask below it must be mounted later. */
    for (size_t i = 0; i < q->read_only_count; i++)
        plan_add_op(&b, (struct op){.type = PLAN_OP_READONLY, .fd = -1, .path = q->read_only[i]});
    for (size_t i = 0; i < q->masked_count; i++)
        plan_add_op(&b,
                    (struct op){.type = PLAN_OP_MASK, .fd = mounts->mask, .path = q->masked[i]});
    /* The files of /etc come before the client's mounts, which may cover them. */
    for (int i = 0; mounts->has_etc && i < ETC_FILES; i++)
        plan_add_op(&b, (struct op){.type = PLAN_OP_ATTACH,
                                    .fd = mounts->etc[i],
                                    .path = etc_path((enum etc_file)i),
                                    .flags = PLAN_MAKE_FILE});
    for (size_t i = 0; i < q->volume_count; i++) {
        client[n++] = (struct client_mount){.target = q->volumes[i].target,
                                            .fd_index = mounts->volumes[i],
                                            .is_dir = mounts->volume_is_dir[i],
                                            .guarded = mounts->volume_guarded[i]};
        if (mounts->volume_guarded[i])
            guarded = q->volumes[i].target;
    }
    for (size_t i = 0; i < q->tmpfs_count; i++)
        client[n++] = (struct client_mount){.target = q->tmpfs[i].target, .tmpfs = &q->tmpfs[i]};
    plan_add_client_mounts(&b, client, n);
    if (q->flags & LAUNCH_READ_ONLY)
        plan_add_op(&b, (struct op){.type = PLAN_OP_ROOT_RO, .fd = -1});

    h.hostname = plan_add_string(&b, q->hostname);
    h.flags = plan_flags(q, mounts->joined, has_cgroup);
    if (guarded != NULL)
        fd = plan_drop_capabilities(&h, guarded, err);
    h.fd_count = (uint32_t)mounts->count;
    if (fd == 0)
        fd = plan_assemble(q, &b, &h, err);
    buf_done(&b.ops);
    buf_done(&b.strings);
    return fd;
}

void plan_describe(int plan_fd, int index, char *text, size_t size)
{
    static const char *const verbs[PLAN_OP_MAX] = {
        [PLAN_OP_ROOT] = "attach the root",
        [PLAN_OP_ATTACH] = "mount on",
        [PLAN_OP_FSMOUNT] = "mount on",
        [PLAN_OP_PROC] = "mount on",
        [PLAN_OP_MASK] = "mask",
        [PLAN_OP_READONLY] = "make read-only:",
        [PLAN_OP_SYSCTL] = "set",
        [PLAN_OP_ROOT_RO] = "make the root read-only",
        [PLAN_OP_DISCARD] = "put a mount aside",
    };
    struct plan_header h;
    struct plan_op op;
    char path[160] = "";
    ssize_t n;

    (void)snprintf(text, size, "set up operation %d", index);
    if (pread(plan_fd, &h, sizeof(h), 0) != (ssize_t)sizeof(h) || index < 0 ||
        (uint32_t)index >= h.op_count)
        return;
    if (pread(plan_fd, &op, sizeof(op), (off_t)h.ops + (off_t)index * (off_t)sizeof(op)) !=
        (ssize_t)sizeof(op))
        return;
    n = pread(plan_fd, path, sizeof(path) - 1, (off_t)h.strings + (off_t)op.path);
    if (n < 0 || op.type >= PLAN_OP_MAX || verbs[op.type] == NULL)
        return;
    if (path[0] == '\0')
        (void)snprintf(text, size, "%s", verbs[op.type]);
    else
        (void)snprintf(text, size, "%s /%s", verbs[op.type], path);
}
