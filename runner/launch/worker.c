/*
 * Starts workers, which read hostile archives. Each runs in namespaces of its own, as root of a
 * user namespace that maps the ids of its files. It has an empty root directory and only its tree
 * (image/worker-proto.h). The worker's own seccomp filter limits it further. What it makes has no
 * name until it has exited and a layer is committed (layers.c). Runs in the launcher and, until
 * execveat, in the cloned child.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/file.h"
#include "base/list.h"
#include "image/worker-proto.h"
#include "launch/launcher.h"
#include "launch/sandbox.h"
#include "launch/volume-internal.h"
#include "proto/syscalls.h"

enum {
    WORKS_MAX = 64,
    WAIT_MS = 5000, /* from SIGKILL to the exit */
    TREES_MAX = 1 + WORKER_PARENTS_MAX,
    FILES_OPEN = 1024,
    PROCESSES = 64,
    OUT_OF_THE_WAY = 512, /* above every fd number that the worker gets */
    NICENESS = 5,         /* a third of the default share, for all processes of a worker together */
    WALK_DEPTH = 4096,
};
/* the default of imageWorkerMemory, for requests without a limit */
#define MEMORY_MAX (INT64_C(2) << 30)

/* ---- registered workers ---- */

struct work *work_find(struct launcher *l, const char *id)
{
    struct work *w = l->works;

    while (w != NULL && strcmp(w->id, id) != 0)
        w = w->next;
    return w;
}

static bool work_has_exited(struct work *w, int timeout_ms)
{
    struct pollfd p = {.fd = w->pidfd, .events = POLLIN};
    siginfo_t info;
    int r;

    if (w->pid == 0)
        return true;
    do
        r = poll(&p, 1, timeout_ms);
    while (r < 0 && errno == EINTR);
    if (r <= 0)
        return false;
    (void)waitid(P_PIDFD, (id_t)w->pidfd, &info, WEXITED | WNOHANG);
    w->pid = 0;
    return true;
}

/* Waits for the exit of a worker that has sent its last message; kills it after a time-out. */
static int work_wait(struct work *w, struct err *err)
{
    if (work_has_exited(w, 0))
        return 0;
    (void)sys_pidfd_send_signal(w->pidfd, SIGKILL);
    return work_has_exited(w, WAIT_MS) ? 0
                                       : err_set(err, -EBUSY, "worker %s does not go away", w->id);
}

int work_over(struct work *w, struct err *err)
{
    if (work_has_exited(w, 0))
        return 0;
    (void)sys_pidfd_send_signal(w->pidfd, SIGKILL);
    return err_set(err, -EAGAIN, "worker %s has not gone yet", w->id);
}

/* Frees a worker that has exited. */
static void work_close(struct launcher *l, struct work *w)
{
    const int fds[] = {w->pidfd, w->dir_fd, w->opaque_fd};

    work_unwatch(w);
    if (w->marker > 0) {
        (void)kill(w->marker, SIGKILL); /* an unreaped child: its pid is not reused */
        while (waitpid(w->marker, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    work_cgroup_end(l, w);
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            (void)close(fds[i]);
    free(w);
}

void work_end(struct launcher *l, struct work *w)
{
    (void)work_wait(w, NULL);
    list_remove(w);
    l->work_count--;
    work_close(l, w);
}

/* Workers without a layer only need to be reaped. */
static void works_reap(struct launcher *l)
{
    for (struct work *w = l->works, *next; w != NULL; w = next) {
        next = w->next;
        if (w->kind != LAUNCH_WORK_LAYER && work_has_exited(w, 0))
            work_end(l, w);
    }
}

void works_free(struct launcher *l)
{
    while (l->works != NULL) {
        bool layer = l->works->kind == LAUNCH_WORK_LAYER;
        char id[LAUNCH_ID_MAX + 1];

        (void)snprintf(id, sizeof(id), "%s", l->works->id);
        work_end(l, l->works);
        if (layer)
            layer_discard(l, id);
    }
    works_cgroup_sweep(l);
}

/* ---- the trees ---- */

/* The state of one start, until the worker runs. */
struct worker_starting {
    struct launcher *l;
    const struct launch_request *q;
    struct work *work;    /* owned */
    uid_t base;           /* the host id of inside id 0 */
    int trees[TREES_MAX]; /* owned; the first one is the worker's own */
    size_t tree_count;
    struct root_sources layers; /* owned; the layers of an overlay */
    int upper;                  /* owned; a directory to search for opaque ones, or FD_NONE */
    int disk;                   /* owned; the mount that `upper` is in, or FD_NONE */
    int userns, control[2];     /* owned */
    int lock;                   /* owned; work_cgroup_lock */
    int tasks[CGROUP_TASKS_MAX], task_count; /* owned; v1 cgroups to enter */
};

static int starting_add_tree(struct worker_starting *st, int dir, bool read_only, struct err *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                          (read_only ? MOUNT_ATTR_RDONLY : 0)};
    int fd;

    if (st->tree_count == TREES_MAX)
        return err_set(err, -E2BIG, "more than %d layers", WORKER_PARENTS_MAX);
    fd = mount_clone(dir, &attr, "a layer", err);
    if (fd < 0)
        return fd;
    st->trees[st->tree_count++] = fd;
    return 0;
}

/* An empty tree, for a worker without files. */
static int tree_none(struct worker_starting *st, struct err *err)
{
    auto_close int fs = sys_fsopen("tmpfs");
    int r = fs < 0 ? fs : sys_fsconfig(fs, FSCONFIG_SET_STRING, "size", "4k", 0);

    if (r == 0)
        r = sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
    if (r == 0)
        r = sys_fsmount(fs, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (r < 0)
        return err_errno(err, r, "an empty tree");
    st->trees[st->tree_count++] = r;
    return 0;
}

static int tree_layer(struct worker_starting *st, struct err *err)
{
    auto_close int tree = FD_NONE;
    int r;

    r = layer_make(st->l, st->q->id, &st->work->dir_fd, &tree, err);
    if (r == 0)
        r = starting_add_tree(st, tree, false, err);
    for (size_t i = 0; r == 0 && i < st->q->image_layer_count; i++) {
        auto_close int parent = layer_open(st->l, st->q->image_layers[i], err);

        r = parent < 0 ? parent : starting_add_tree(st, parent, true, err);
    }
    return r;
}

/* The layers as one tree, with their ids on disk. */
static int tree_image(struct worker_starting *st, struct err *err)
{
    struct root_sources *s = &st->layers;
    int r;

    if (st->q->image_layer_count == 1) {
        auto_close int only = layer_open(st->l, st->q->image_layers[0], err);

        return only < 0 ? only : starting_add_tree(st, only, true, err);
    }
    r = root_add_image_layers(st->l, st->q, FD_NONE, s, err);
    if (r == 0)
        r = root_mount_lowers(s, err);
    if (r < 0)
        return r;
    st->trees[st->tree_count++] = r;
    return 0;
}

static int starting_open_upper(struct worker_starting *st, struct launch_sandbox *s,
                               struct err *err)
{
    int r = sandbox_dir_peek(st->l, s, err);

    if (r == 0)
        r = sandbox_dir_whole(s, err);
    if (r < 0)
        return r;
    st->base = s->ids.base;
    st->upper = upper_open(s, &st->disk, err);
    return st->upper < 0 ? st->upper : 0;
}

static int tree_upper(struct worker_starting *st, struct err *err)
{
    struct launch_sandbox *s = sandbox_new(st->q->sandbox);
    int r = s != NULL ? starting_open_upper(st, s, err) : err_errno(err, -ENOMEM, "worker");

    sandbox_free(s);
    return r < 0 ? r : starting_add_tree(st, st->upper, true, err);
}

/* The writable layer, to be added up: opaque directories take no space. */
static int tree_sandbox_size(struct worker_starting *st, struct err *err)
{
    int r = tree_upper(st, err);

    if (st->upper >= 0)
        (void)close(take_fd(&st->upper));
    return r;
}

/* A volume that was never used has no directory of contents yet. */
static int tree_volume_size(struct worker_starting *st, struct err *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
    auto_close int dir = volume_open(st->l, st->q->volume_name, err);
    auto_close int lock = FD_NONE;
    int r;

    if (dir < 0)
        return dir;
    lock = volume_lock(dir, st->q->volume_name, false, err);
    if (lock < 0)
        return lock;
    if (!volume_has_contents(dir))
        return tree_none(st, err);
    r = volume_data_mount(dir, st->q->volume_name, &attr, err);
    if (r < 0)
        return r;
    st->trees[st->tree_count++] = r;
    return 0;
}

/* The layers that a sandbox is started with, with its ids. */
static int tree_lowers(struct worker_starting *st, struct err *err)
{
    auto_close int userns = FD_NONE;
    int r = userns = idmap_range(0, st->base, err);

    if (r >= 0)
        r = root_add_layers(st->l, st->q, st->base, userns, &st->layers, err);
    if (r == 0)
        r = root_mount_lowers(&st->layers, err);
    if (r < 0)
        return r;
    st->trees[st->tree_count++] = r;
    return 0;
}

static int tree_changes(struct worker_starting *st, struct err *err)
{
    int r = tree_upper(st, err);

    return r < 0 ? r : tree_lowers(st, err);
}

/* The tree that a sandbox is started with, its writable layer as the topmost read-only one. */
static int tree_root(struct worker_starting *st, struct err *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV};
    struct launch_sandbox *s = sandbox_new(st->q->sandbox);
    int r = s != NULL ? starting_open_upper(st, s, err) : err_errno(err, -ENOMEM, "worker");

    sandbox_free(s);
    if (r == 0)
        r = mount_clone(st->upper, &attr, "the writable layer", err);
    if (r >= 0)
        r = root_add_mount(&st->layers, r, err);
    if (r == 0)
        r = tree_lowers(st, err);
    if (st->upper >= 0)
        (void)close(take_fd(&st->upper)); /* the overlay hides what opaque directories hide */
    return r;
}

static int (*const tree_steps[LAUNCH_WORK_MAX])(struct worker_starting *st, struct err *err) = {
    [LAUNCH_WORK_STREAM] = tree_none,
    [LAUNCH_WORK_LAYER] = tree_layer,
    [LAUNCH_WORK_IMAGE] = tree_image,
    [LAUNCH_WORK_UPPER] = tree_upper,
    [LAUNCH_WORK_ROOT] = tree_root,
    [LAUNCH_WORK_CHANGES] = tree_changes,
    [LAUNCH_WORK_SANDBOX_SIZE] = tree_sandbox_size,
    [LAUNCH_WORK_VOLUME_SIZE] = tree_volume_size,
};

/* ---- the child, until it executes the worker ---- */

/* Lists the opaque directories of an upper layer, because only the launcher can read the xattr. The
 * tree is hostile, so no link is followed. If it changes meanwhile, a path that is removed or no
 * directory any more is skipped. */
static int upper_list_opaque(int dir, char *path, size_t len, unsigned depth, int out)
{
    char value[2];
    auto_ptr(dir_close) DIR *d = dir_take(dir);
    const struct dirent *e;
    int r = 0;

    if (d == NULL)
        return -errno;
    if (len > 0 && fgetxattr(dirfd(d), "trusted.overlay.opaque", value, sizeof(value)) == 1 &&
        value[0] == 'y')
        r = write_all(out, path, len + 1);
    while (r == 0 && (e = dir_next(d)) != NULL) {
        size_t n = strlen(e->d_name);
        int fd;

        if (e->d_type != DT_DIR)
            continue;
        if (depth == WALK_DEPTH || len + 1 + n > WORKER_PATH_MAX)
            return -ENAMETOOLONG;
        fd = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
            continue;
        if (fd < 0)
            return -errno;
        (void)snprintf(path + len, WORKER_PATH_MAX + 1 - len, "%s%s", len > 0 ? "/" : "",
                       e->d_name);
        r = upper_list_opaque(fd, path, len + (len > 0) + n, depth + 1, out);
        path[len] = '\0';
    }
    return r == 0 && errno != 0 ? -errno : r; /* an unread directory may contain opaque ones */
}

/* Returns the step that failed, with errno set, or NULL. */
static const char *starting_list_opaque(struct worker_starting *st)
{
    char path[WORKER_PATH_MAX + 1] = "";
    int r = upper_list_opaque(dup(st->upper), path, 0, 0, st->work->opaque_fd);

    if (r == 0 && lseek(st->work->opaque_fd, 0, SEEK_SET) < 0)
        r = -errno;
    if (r == 0)
        return NULL;
    errno = -r;
    return r == -ENAMETOOLONG ? "a path of the sandbox's files is too long, or too deep"
                              : "look for opaque directories";
}

static int worker_empty_root(void)
{
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("rind", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=4k,mode=0555") < 0 ||
        chdir("/tmp") < 0 || sys_pivot_root(".", ".") < 0 || umount2(".", MNT_DETACH) < 0 ||
        chdir("/") < 0 ||
        mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) < 0)
        return -errno;
    return 0;
}

static int worker_set_rlimits(void)
{
    static const struct {
        __rlimit_resource_t resource;
        rlim_t max;
    } rows[] = {
        {RLIMIT_CORE, 0},    {RLIMIT_NOFILE, FILES_OPEN}, {RLIMIT_NPROC, PROCESSES},
        {RLIMIT_MEMLOCK, 0}, {RLIMIT_MSGQUEUE, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct rlimit limit = {.rlim_cur = rows[i].max, .rlim_max = rows[i].max};

        if (setrlimit(rows[i].resource, &limit) < 0)
            return -errno;
    }
    return 0;
}

/* Moves its fds to their numbers and closes all others. Returns the program's fd. */
static int worker_place_fds(struct worker_starting *st, int opaque)
{
    const int first[] = {st->l->null_fd, st->l->null_fd, st->l->null_fd,
                         st->control[1], st->trees[0],   opaque};
    int fds[8 + TREES_MAX], n = 0, program;

    for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++)
        fds[n++] = first[i];
    for (size_t i = 1; i < st->tree_count; i++)
        fds[n++] = st->trees[i];
    fds[n++] = st->l->worker_exe;
    for (int i = 0; i < n; i++) {
        fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, OUT_OF_THE_WAY);
        if (fds[i] < 0)
            return -errno;
    }
    for (int i = 0; i < n; i++)
        if (dup2(fds[i], i) < 0)
            return -errno;
    program = n - 1;
    if (fcntl(program, F_SETFD, FD_CLOEXEC) < 0)
        return -errno;
    return sys_close_range((unsigned)n, ~0U, 0) < 0 ? -errno : program;
}

static int become_root_inside(int userns)
{
    if (setns(userns, CLONE_NEWUSER) < 0 || setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 ||
        setresuid(0, 0, 0) < 0)
        return -errno;
    return 0;
}

/* Lowers the worker's CPU priority. By niceness, because only sandboxes with a CPU limit are in a
 * CPU cgroup. And by that of its session, because a kernel with autogroup divides the CPU among
 * sessions. */
static void worker_lower_priority(void)
{
    char text[16];

    (void)setsid();
    (void)setpriority(PRIO_PROCESS, 0, NICENESS);
    (void)snprintf(text, sizeof(text), "%d", NICENESS);
    (void)file_poke_at(AT_FDCWD, "/proc/self/autogroup", text);
}

static void reset_signals(void)
{
    sigset_t none;

    for (int i = 1; i < NSIG; i++)
        (void)sys_signal_default(i);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static const char *worker_child_steps(struct worker_starting *st, char *parents, size_t size)
{
    static char name[] = "rind-rootfs", word[] = "worker";
    char *argv[] = {name, word, parents, NULL};
    char *envp[] = {NULL};
    const char *step;
    int program;

    (void)snprintf(parents, size, "%zu", st->tree_count - 1);
    if (cgroup_enter(st->tasks, st->task_count) < 0)
        return "enter its cgroups";
    step = st->upper >= 0 ? starting_list_opaque(st) : NULL;
    if (step != NULL)
        return step;
    worker_lower_priority();
    if (worker_empty_root() < 0)
        return "make an empty root";
    if (worker_set_rlimits() < 0)
        return "bound its resources";
    if (become_root_inside(st->userns) < 0)
        return "enter its user namespace";
    program = worker_place_fds(st, st->work->opaque_fd);
    if (program < 0)
        return "place its descriptors";
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return "bind it to the launcher";
    (void)sys_execveat(program, "", argv, envp, AT_EMPTY_PATH);
    return "execute it";
}

/* Reports a failed step as the worker itself would. */
static _Noreturn void worker_child_main(struct worker_starting *st)
{
    struct worker_msg m = {.type = WORKER_FAILED};
    char parents[16];
    int control = st->control[1];
    const char *step;

    reset_signals();
    step = worker_child_steps(st, parents, sizeof(parents));
    m.code = errno > 0 ? -errno : -EIO;
    (void)snprintf(m.text, sizeof(m.text), "start the worker: %s: %s", step, strerror(-m.code));
    if (worker_msg_send(control, &m, FD_NONE, NULL) < 0)
        (void)worker_msg_send(WORKER_FD_CONTROL, &m, FD_NONE, NULL);
    _exit(1);
}

/* ---- starting ---- */

static int starting_clone(struct worker_starting *st, struct err *err)
{
    struct clone_args args = {.flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                                       CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_PIDFD,
                              .pidfd = (uint64_t)(uintptr_t)&st->work->pidfd,
                              .exit_signal = SIGCHLD};
    int cgroup = st->work->cgroup != NULL ? cgroup_v2_fd(st->work->cgroup) : FD_NONE;
    sigset_t all, old;
    int pid;

    if (cgroup >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)(unsigned)cgroup;
    }
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &old);
    pid = sys_clone3(&args);
    if (pid == 0)
        worker_child_main(st);
    (void)sigprocmask(SIG_SETMASK, &old, NULL);
    if (pid < 0)
        return err_errno(err, pid, "clone a worker");
    st->work->pid = pid;
    return 0;
}

static int starting_prepare_cgroup(struct worker_starting *st, struct err *err)
{
    int r;

    /* A worker left by a killed launcher may still have been exiting when this launcher started. */
    works_cgroup_sweep(st->l);
    r = st->lock = work_cgroup_lock(st->l);
    if (r < 0)
        return err_errno(err, r, "worker");
    r = work_cgroup_make(st->l, st->work, st->q->memory > 0 ? st->q->memory : MEMORY_MAX, err);
    return r < 0 || st->work->cgroup == NULL
               ? r
               : cgroup_open_tasks(st->work->cgroup, st->tasks, &st->task_count, err);
}

static int starting_prepare(struct worker_starting *st, struct err *err)
{
    int r = st->q->work == LAUNCH_WORK_LAYER ? disk_check_reserve(st->l, 0, err) : 0;

    if (r == 0)
        r = starting_prepare_cgroup(st, err);
    if (r < 0)
        return r;

    st->work->opaque_fd = memfd_create("rind-opaque", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (st->work->opaque_fd < 0 || ftruncate(st->work->opaque_fd, WORKER_OPAQUE_MAX) < 0 ||
        ftruncate(st->work->opaque_fd, 0) < 0)
        return err_errno(err, -errno, "worker");
    st->base = IDRANGE_LAYERS;
    r = tree_steps[st->q->work](st, err);
    if (r < 0)
        return r;
    r = st->userns = idmap_range(0, st->base, err);
    if (r < 0)
        return r;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, st->control) < 0)
        return err_errno(err, -errno, "worker");
    return 0;
}

static void starting_done(struct worker_starting *st)
{
    const int fds[] = {st->upper, st->disk, st->userns, st->control[0], st->control[1], st->lock};

    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            (void)close(fds[i]);
    for (size_t i = 0; i < st->tree_count; i++)
        (void)close(st->trees[i]);
    for (int i = 0; i < st->task_count; i++)
        (void)close(st->tasks[i]);
    root_sources_close(&st->layers);
}

int launcher_worker(struct launcher *l, const struct launch_request *q, struct launch_worker *ret,
                    struct err *err)
{
    struct worker_starting st = {.l = l,
                                 .q = q,
                                 .layers = {.host = HOST_LAYERS_NONE, .own = FD_NONE},
                                 .upper = FD_NONE,
                                 .disk = FD_NONE,
                                 .userns = FD_NONE,
                                 .lock = FD_NONE,
                                 .control = {FD_NONE, FD_NONE}};
    bool made;
    int r, pidfd = FD_NONE;

    if (l->worker_exe < 0)
        return err_set(err, -EOPNOTSUPP, "worker: there is no program for it");
    works_reap(l);
    if (work_find(l, q->id) != NULL)
        return err_set(err, -EEXIST, "worker %s exists", q->id);
    if (l->work_count == WORKS_MAX)
        return err_set(err, -EAGAIN, "there are %d workers already", WORKS_MAX);
    st.work = calloc(1, sizeof(*st.work));
    if (st.work == NULL)
        return err_errno(err, -ENOMEM, "worker");
    st.work->pidfd = st.work->dir_fd = st.work->opaque_fd = FD_NONE;
    st.work->kind = q->work;
    (void)snprintf(st.work->id, sizeof(st.work->id), "%s", q->id);
    r = starting_prepare(&st, err);
    if (r == 0)
        r = starting_clone(&st, err);
    if (r == 0 && q->work == LAUNCH_WORK_LAYER)
        r = work_watch(l, st.work, (uint64_t)(q->bytes > 0 ? q->bytes : 0), err);
    if (r == 0) {
        pidfd = fcntl(st.work->pidfd, F_DUPFD_CLOEXEC, 3);
        if (pidfd < 0)
            r = err_errno(err, -errno, "worker");
    }
    made = st.work->dir_fd >= 0;
    if (r == 0)
        *ret = (struct launch_worker){.pidfd = pidfd, .control = take_fd(&st.control[0])};
    starting_done(&st);
    if (r < 0) {
        (void)work_wait(st.work, NULL);
        work_close(l, st.work);
        if (made)
            layer_discard(l, q->id);
        return r;
    }
    list_add(&l->works, st.work);
    l->work_count++;
    return 0;
}
