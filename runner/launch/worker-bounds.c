/*
 * Limits of a worker beside its resource limits: a cgroup and, for a worker that makes a layer, a
 * child that watches how much it writes.
 *
 * The cgroup is empty once the worker has exited, at the latest with its supervisor. So a killed
 * launcher leaves only the directory, which the next launcher removes.
 *
 * The kernel has no limit for what a process writes to all its files together. But its count of
 * written bytes (/proc/PID/io) is exact: an unpacker can write only with write(2)
 * (rootfs-builder/confine.c), and has no children.
 *
 * Runs in the launcher and in that child.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "image/worker-proto.h"
#include "launch/sandbox.h"
#include "proto/syscalls.h"

#define PREFIX "worker-"

enum {
    CPU_WEIGHT = 33,  /* the default is 100 */
    PIDS_MAX = 16,    /* it has three processes of one thread each */
    NAMES_TRIED = 8,  /* in case cgroups of an earlier process with this pid still exist */
    LOOK_MS = 50,     /* between two checks of the written bytes */
    PROC_MAX = 4096,  /* bytes of a file of /proc */
    INODE_SHARE = 50, /* fraction of the file system's inodes to keep free */
    KEPT_FDS = 5,     /* 0, 1, 2, the worker's pidfd, the layer's directory */
    OUT_OF_THE_WAY = 100,
};
/* Bytes written beside contents: the list of opaque directories, and messages to P. */
#define SLACK ((uint64_t)WORKER_OPAQUE_MAX + (1 << 20))

/* ---- its cgroup ---- */

/* Makes a prefix that is unique to the state directory, as each may have a launcher. */
static void work_cgroup_prefix(const struct launcher *l, char ret[WORK_CGROUP_MAX])
{
    struct stat st = {.st_ino = 0};

    (void)fstat(l->state_fd, &st);
    (void)snprintf(ret, WORK_CGROUP_MAX, PREFIX "%" PRIx64 "-%" PRIx64 "-", (uint64_t)st.st_dev,
                   (uint64_t)st.st_ino);
}

int work_cgroup_lock(const struct launcher *l)
{
    /* Opened again, for a flock of its own, which lasts until the last copy, including the child's,
     * is closed. */
    int fd = openat(l->state_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    while (fd >= 0 && flock(fd, LOCK_SH) < 0)
        if (errno != EINTR) {
            int r = -errno;

            (void)close(fd);
            return r;
        }
    return fd < 0 ? -errno : fd;
}

int work_cgroup_make(struct launcher *l, struct work *w, int64_t memory, struct err *err)
{
    const struct cgroup_host *h = l->cgroups;
    /* Without a controller (doctor reports it) only resource limits apply. */
    const struct cgroup_limits limits = {
        .memory_bytes = cgroup_host_controller(h, CG_MEMORY) > 0 ? memory : -1,
        .pids = cgroup_host_controller(h, CG_PIDS) > 0 ? PIDS_MAX : -1,
        .cpu_millis = -1,
    };
    char prefix[WORK_CGROUP_MAX], name[2 * WORK_CGROUP_MAX];
    int r = -EEXIST;

    if (cgroup_host_mode(h) == CG_MODE_NONE)
        return 0;
    work_cgroup_prefix(l, prefix);
    for (int i = 0; i < NAMES_TRIED && r == -EEXIST; i++) {
        (void)snprintf(name, sizeof(name), "%s%x-%x", prefix, (unsigned)getpid(), ++l->work_number);
        r = cgroup_create(l->cgroups, name, &limits, CGROUP_NOBODY, &w->cgroup, err);
    }
    if (r < 0)
        return err_wrap(err, r, "worker");
    (void)snprintf(w->cgroup_name, sizeof(w->cgroup_name), "%s", name);
    cgroup_weigh(w->cgroup, CPU_WEIGHT);
    return 0;
}

void work_cgroup_end(struct launcher *l, struct work *w)
{
    if (w->cgroup == NULL)
        return;
    cgroup_free(w->cgroup);
    w->cgroup = NULL;
    /* on failure the next launcher removes it */
    (void)cgroup_remove(l->cgroups, w->cgroup_name, NULL);
}

void works_cgroup_sweep(struct launcher *l)
{
    auto_close int fd = openat(l->state_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char prefix[WORK_CGROUP_MAX];

    /* cgroups is NULL if launcher_open has failed. A held lock means that a process has made a
     * cgroup and is not in it yet. */
    if (l->cgroups == NULL || fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return;
    work_cgroup_prefix(l, prefix);
    cgroup_sweep(l->cgroups, prefix);
}

/* ---- written bytes ---- */

/* Reads a file of /proc, NUL-terminated. */
static int proc_read_file(const char *path, char text[PROC_MAX])
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, PROC_MAX - 1);

    if (n < 0)
        return -errno;
    text[n] = '\0';
    return 0;
}

/* Reads the bytes written by the unpacker, which is the last of the worker's children. */
static int worker_read_written(pid_t worker, uint64_t *ret)
{
    char path[96], text[PROC_MAX];
    const char *at;
    long pid = 0;
    char *end;
    int r;

    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)worker, (int)worker);
    r = proc_read_file(path, text);
    if (r < 0)
        return r;
    for (at = text; strtol(at, &end, 10) > 0 && end != at; at = end)
        pid = strtol(at, NULL, 10);
    *ret = 0;
    if (pid == 0)
        return 0; /* not started yet */
    (void)snprintf(path, sizeof(path), "/proc/%ld/io", pid);
    r = proc_read_file(path, text);
    if (r < 0)
        return r;
    at = strstr(text, "wchar: ");
    if (at == NULL)
        return -EPROTO;
    *ret = strtoull(at + strlen("wchar: "), NULL, 10);
    return 0;
}

/* True if the reserve is reached, whoever uses the space: others that write there need some. */
static bool disk_is_full(int fs, uint64_t reserve)
{
    struct statvfs st;

    return fstatvfs(fs, &st) == 0 && ((uint64_t)st.f_bavail * st.f_frsize < reserve ||
                                      (st.f_files > 0 && st.f_favail < st.f_files / INODE_SHARE));
}

/* Returns why the worker must be killed, in words for its client, or NULL. */
static const char *watcher_check(pid_t worker, uint64_t most, int fs, uint64_t reserve)
{
    static bool told;
    uint64_t written = 0;
    int r = worker_read_written(worker, &written);

    /* A worker that is just exiting cannot be read. */
    if (r < 0 && r != -ENOENT && r != -ESRCH && !told) {
        told = true;
        log_warn("launcher", "what workers write cannot be counted: %s, going on", strerror(-r));
    }
    if (r == 0 && written > most)
        return "limit maxImageBytes: it has written more than the layer may have";
    return disk_is_full(fs, reserve)
               ? "limit diskReserveBytes: the host's reserve of disk or inodes is reached"
               : NULL;
}

/* Sends the reason to the client as the worker itself would, on the worker's socket. */
static void watcher_send_reason(int worker_pidfd, const char *why)
{
    struct worker_msg m = {.type = WORKER_FAILED, .code = -ENOSPC};
    auto_close int control = sys_pidfd_getfd(worker_pidfd, WORKER_FD_CONTROL);

    (void)snprintf(m.text, sizeof(m.text), "%s", why);
    if (control >= 0)
        /* otherwise only the log has the reason */
        (void)worker_msg_send(control, &m, FD_NONE, NULL);
}

static _Noreturn void watcher_main(struct launcher *l, const struct work *w, uint64_t most)
{
    const uint64_t reserve = disk_reserve_bytes(l);
    struct pollfd p = {.fd = KEPT_FDS - 2, .events = POLLIN};
    int fds[2] = {w->pidfd, w->dir_fd};
    const char *why = NULL;

    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGINT, SIG_DFL);
    (void)prctl(PR_SET_NAME, "rind-watch");
    for (int i = 0; i < 2; i++)
        fds[i] = fcntl(fds[i], F_DUPFD, OUT_OF_THE_WAY);
    /* Closes all other fds, because it must not hold locks of others. It does hold the layer's,
     * until the worker has exited. */
    for (int i = 0; i < 2; i++)
        if (dup2(fds[i], KEPT_FDS - 2 + i) < 0)
            _exit(1);
    if (sys_close_range(KEPT_FDS, ~0U, 0) < 0)
        _exit(1);
    for (;;) {
        if (poll(&p, 1, LOOK_MS) > 0)
            _exit(0);
        why = watcher_check(w->pid, most, KEPT_FDS - 1, reserve);
        if (why == NULL)
            continue;
        log_warn("launcher", "worker=%s is ended: %s", w->id, why);
        watcher_send_reason(p.fd, why);
        (void)sys_pidfd_send_signal(p.fd, SIGKILL);
        _exit(0);
    }
}

int work_watch(struct launcher *l, struct work *w, uint64_t most, struct err *err)
{
    pid_t pid = fork();

    if (pid == 0)
        watcher_main(l, w, most > UINT64_MAX - SLACK ? UINT64_MAX : most + SLACK);
    if (pid < 0)
        return err_errno(err, -errno, "watch a worker");
    w->watcher = pid;
    return 0;
}

void work_unwatch(struct work *w)
{
    if (w->watcher <= 0)
        return;
    (void)kill(w->watcher, SIGKILL); /* an unreaped child: its pid is not reused */
    while (waitpid(w->watcher, NULL, 0) < 0 && errno == EINTR)
        ;
    w->watcher = 0;
}
