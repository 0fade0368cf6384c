/* init's side of the guard: the listener, the guarded mounts, and the lives of brokers. */
#include "init/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <linux/stat.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "init/init.h"
#include "proto/syscalls.h"

/* The kernel's struct may be longer than the headers', and the kernel writes all of it. */
enum { NOTIF_MAX = 512, FCHMODAT2_NR = 452 };

/* The plan's descriptors take the lowest numbers (plan.c). */
enum { BEHIND_PLAN = PLAN_FD_OPS + PLAN_FDS_MAX };

/* ---- the seccomp baseline ---- */

static int guard_notif_fits(void)
{
    struct seccomp_notif_sizes sizes;

    if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) < 0)
        return -errno;
    return sizes.seccomp_notif <= NOTIF_MAX &&
                   sizes.seccomp_notif_resp == sizeof(struct seccomp_notif_resp)
               ? 0
               : -EMSGSIZE;
}

int guard_install_baseline(struct init *init)
{
    const struct plan_header *h = init->plan.header;
    int fd, r;

    init->guard.listener = init->guard.proc = -1;
    if ((h->flags & PLAN_GUARD) == 0)
        return plan_install_baseline(&init->plan, 0);
    r = guard_notif_fits();
    if (r < 0)
        return r;
    /*
     * A signal must not interrupt a call that a broker has begun, or the call would be done twice.
     * Kernels before 5.19 lack this flag.
     */
    fd = plan_install_baseline(&init->plan, SECCOMP_FILTER_FLAG_NEW_LISTENER |
                                                SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);
    if (fd == -EINVAL)
        fd = plan_install_baseline(&init->plan, SECCOMP_FILTER_FLAG_NEW_LISTENER);
    /*
     * Only one filter of a process and its ancestors may have a listener. EBUSY: rind runs below
     * another listener, as in a container whose manager handles calls.
     */
    if (fd == -EBUSY)
        return plan_install_baseline_alone(&init->plan);
    if (fd < 0)
        return fd;
    init->guard.listener = fcntl(fd, F_DUPFD_CLOEXEC, BEHIND_PLAN);
    r = init->guard.listener < 0 ? -errno : 0;
    (void)close(fd);
    init->guard.fsetid = (h->flags & PLAN_GUARD_FSETID) != 0;
    init->guard.capabilities = h->capabilities;
    return r;
}

/* ---- the mounts ---- */

static int statx_mount(int fd, struct statx *st)
{
    const unsigned want = STATX_TYPE | STATX_INO | STATX_MNT_ID;

    if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, want, st) < 0)
        return -errno;
    return (st->stx_mask & want) == want ? 0 : -EOPNOTSUPP;
}

static uint64_t statx_device(const struct statx *st)
{
    return (uint64_t)st->stx_dev_major << 32 | st->stx_dev_minor;
}

int guard_note_volume(struct guard *g, uint32_t op, int mount_fd)
{
    struct statx st;
    int r = statx_mount(mount_fd, &st);

    if (r < 0)
        return r;
    if (g->volume_count == GUARD_MOUNTS_MAX)
        return -E2BIG;
    g->volumes[g->volume_count] = op;
    g->devices[g->volume_count] = statx_device(&st);
    g->inodes[g->volume_count++] = st.stx_ino;
    return 0;
}

static bool guard_is_guarded(const struct guard *g, uint64_t id)
{
    for (unsigned i = 0; i < g->mount_count; i++)
        if (g->mounts[i] == id)
            return true;
    return false;
}

/*
 * Mounts get new ids in the locked namespace, so each is looked up by its path. The path may have
 * changed since the mount was attached: another mount may cover it, or another sandbox may have
 * changed a volume on the way. So the path must lead to a writable mount of the same directory, and
 * to a different mount for each volume. Otherwise the start fails.
 */
static int guard_find_mount(struct guard *g, unsigned i, const char *path)
{
    struct statx st;
    struct statfs fs;
    int fd, r;

    fd = sys_openat2(AT_FDCWD, path[0] != '\0' ? path : ".", O_PATH, 0,
                     RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
    if (fd < 0)
        return fd;
    r = statx_mount(fd, &st);
    if (r == 0 && fstatfs(fd, &fs) < 0)
        r = -errno;
    (void)close(fd);
    if (r < 0)
        return r;
    if ((st.stx_attributes & STATX_ATTR_MOUNT_ROOT) == 0 || statx_device(&st) != g->devices[i] ||
        st.stx_ino != g->inodes[i] || (fs.f_flags & ST_RDONLY) != 0 ||
        guard_is_guarded(g, st.stx_mnt_id))
        return -EBUSY;
    g->mounts[g->mount_count++] = st.stx_mnt_id;
    return 0;
}

/*
 * No client's mount can cover /proc (client_target_ok); the file system type is checked
 * nevertheless.
 */
static int guard_open_proc(void)
{
    int fd = open("/proc", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct statfs fs;

    if (fd < 0)
        return -errno;
    if (fstatfs(fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC)
        return fd;
    (void)close(fd);
    return -ENODEV;
}

/* Parses mountinfo by characters: the number at the beginning of each line. */
struct mount_reader {
    uint64_t id;
    bool in_id, begun;
};

static int guard_read_mount_id(struct guard *g, struct mount_reader *m, char c)
{
    if (m->in_id && c >= '0' && c <= '9') {
        m->id = m->id * 10 + (uint64_t)(c - '0');
        m->begun = true;
        return 0;
    }
    if (m->in_id && m->begun && !guard_is_guarded(g, m->id)) {
        if (g->other_count == GUARD_OTHERS_MAX)
            return -E2BIG;
        g->others[g->other_count++] = m->id;
    }
    *m = (struct mount_reader){.in_id = c == '\n'};
    return 0;
}

/*
 * Collects all mounts of the locked namespace, as its PID 1 sees them. No process inside can add
 * mounts: plan.c refuses a guard together with CAP_SYS_ADMIN.
 */
static int guard_note_others(struct guard *g)
{
    struct mount_reader m = {.in_id = true};
    char text[4096];
    ssize_t n = 0;
    int fd = openat(g->proc, "1/mountinfo", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    int r = fd < 0 ? -errno : 0;

    while (r == 0 && (n = read(fd, text, sizeof(text))) > 0)
        for (ssize_t i = 0; i < n && r == 0; i++)
            r = guard_read_mount_id(g, &m, text[i]);
    if (r == 0 && n < 0)
        r = -errno;
    if (fd >= 0)
        (void)close(fd);
    return r == 0 && g->other_count == 0 ? -ENODATA : r;
}

int guard_find_mounts(struct init *init, int *ret_op)
{
    struct guard *g = &init->guard;
    int r;

    *ret_op = 0;
    if (g->listener < 0)
        return 0;
    for (unsigned i = 0; i < g->volume_count; i++) {
        const struct plan_op *op = &init->plan.ops[g->volumes[i]];

        *ret_op = (int)g->volumes[i];
        r = guard_find_mount(g, i, plan_string(&init->plan, op->path));
        if (r < 0)
            return r;
    }
    g->proc = guard_open_proc();
    return g->proc < 0 ? g->proc : guard_note_others(g);
}

/* ---- answers ---- */

void guard_answer(int listener, uint64_t id, int64_t result)
{
    struct seccomp_notif_resp answer = {.id = id};

    if (result < 0)
        answer.error = (int32_t)result;
    else
        answer.val = result;
    (void)guard_ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND,
                      &answer); /* ENOENT: the caller has been killed */
}

/* Lets a call proceed; used for calls of brokers only. */
static void guard_let_through(int listener, uint64_t id)
{
    struct seccomp_notif_resp answer = {.id = id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};

    (void)guard_ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}

/* ---- brokers ---- */

static int64_t now_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static struct guard_call *guard_broker_of(struct guard *g, pid_t pid)
{
    for (unsigned i = 0; i < GUARD_BROKERS_MAX; i++)
        if (g->brokers[i].pid == pid)
            return &g->brokers[i];
    return NULL;
}

/*
 * Makes a file whose owner is the thread. A child in the inner pid namespace can read the owner,
 * which the kernel translates into that namespace's pids. The file refers to the thread itself, so
 * a reused pid is noticed.
 */
static int guard_open_owner(pid_t thread)
{
    struct f_owner_ex owner = {.type = F_OWNER_TID, .pid = thread};
    int fd = eventfd(0, EFD_CLOEXEC), r;

    if (fd < 0)
        return -errno;
    if (fcntl(fd, F_SETOWN_EX, &owner) == 0)
        return fd;
    r = -errno;
    (void)close(fd);
    return r;
}

/*
 * Starts a broker. It stays in init's own cgroup, so a pause of the sandbox does not stop a call in
 * progress. That cgroup still counts as the sandbox's.
 */
static void guard_start_broker(struct guard *g, const struct guard_call *call)
{
    struct clone_args args = {.exit_signal = SIGCHLD};
    struct guard_call *b = guard_broker_of(g, 0);
    const bool ids_open = spawn_vm_ids_open_memory();
    int owner, pid;

    owner = guard_open_owner(call->pid);
    if (owner < 0) {
        guard_answer(g->listener, call->id, owner == -ESRCH ? -EPERM : -EAGAIN);
        return;
    }
    pid = sys_clone3(&args);
    if (pid == 0)
        broker_main(g, call, owner, ids_open);
    (void)close(owner);
    if (pid < 0) {
        guard_answer(g->listener, call->id, -EAGAIN);
        return;
    }
    *b = *call;
    b->pid = pid;
    b->deadline = now_ms() + GUARD_BROKER_MS;
    g->broker_count++;
}

static void guard_start_waiting(struct guard *g)
{
    while (g->wait_count > 0 && g->broker_count < GUARD_BROKERS_MAX) {
        const struct guard_call call = g->waiting[g->wait_first];

        g->wait_first = (g->wait_first + 1) % GUARD_WAITING_MAX;
        g->wait_count--;
        guard_start_broker(g, &call);
    }
}

/* True for calls that a broker makes on a descriptor of its own. */
static bool guard_is_broker(int nr)
{
    return nr == SYS_fchmod || nr == SYS_fchmodat || nr == FCHMODAT2_NR;
}

void guard_take(struct guard *g)
{
    union {
        struct seccomp_notif notif;
        char bytes[NOTIF_MAX];
    } in = {.bytes = {0}};
    struct guard_call call;

    /* ENOENT: the caller was killed meanwhile. */
    if (guard_ioctl(g->listener, SECCOMP_IOCTL_NOTIF_RECV, &in) < 0)
        return;
    call =
        (struct guard_call){.id = in.notif.id, .nr = in.notif.data.nr, .pid = (pid_t)in.notif.pid};
    for (int i = 0; i < 6; i++)
        call.args[i] = in.notif.data.args[i];
    if (call.pid <= 0) {
        guard_answer(g->listener, call.id, -EPERM);
    } else if (guard_broker_of(g, call.pid) != NULL) {
        if (guard_is_broker(call.nr))
            guard_let_through(g->listener, call.id);
        else
            guard_answer(g->listener, call.id, -EPERM);
    } else if (g->broker_count < GUARD_BROKERS_MAX) {
        guard_start_broker(g, &call);
    } else if (g->wait_count < GUARD_WAITING_MAX) {
        call.deadline = now_ms() + GUARD_WAIT_MS;
        g->waiting[(g->wait_first + g->wait_count++) % GUARD_WAITING_MAX] = call;
    } else {
        guard_answer(g->listener, call.id, -EAGAIN);
    }
}

bool guard_reaped(struct guard *g, pid_t pid)
{
    struct guard_call *b = g->listener < 0 ? NULL : guard_broker_of(g, pid);

    if (b == NULL)
        return false;
    /* The broker may have been killed before its answer. If it has answered, this answer fails. */
    guard_answer(g->listener, b->id, -EPERM);
    b->pid = 0;
    g->broker_count--;
    guard_start_waiting(g);
    return true;
}

int64_t guard_expire(struct guard *g, int64_t now)
{
    int64_t next = INT64_MAX;

    for (unsigned i = 0; i < GUARD_BROKERS_MAX; i++) {
        struct guard_call *b = &g->brokers[i];

        if (b->pid == 0 || b->deadline == 0)
            continue;
        if (b->deadline <= now) {
            b->deadline = 0;
            (void)kill(b->pid, SIGKILL);
            guard_answer(g->listener, b->id, -EPERM); /* the broker may take a while to exit */
        } else if (b->deadline < next) {
            next = b->deadline;
        }
    }
    while (g->wait_count > 0 && g->waiting[g->wait_first].deadline <= now) {
        guard_answer(g->listener, g->waiting[g->wait_first].id, -EAGAIN);
        g->wait_first = (g->wait_first + 1) % GUARD_WAITING_MAX;
        g->wait_count--;
    }
    if (g->wait_count > 0 && g->waiting[g->wait_first].deadline < next)
        next = g->waiting[g->wait_first].deadline;
    return next;
}
