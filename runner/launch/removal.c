/*
 * Removes the files of a sandbox outside of the launcher, which has one thread. Otherwise clients
 * would wait for a file system that discards each freed block, or for the removal of another user's
 * million files.
 *
 * Most sandboxes have few files: one process, the remover (remover.c), removes them in turn. A
 * sandbox with many files gets a child of its own.
 *
 * The caller has called sandbox_dir_forget before: if the child or the host dies, the next start
 * removes the rest. The child holds the lock of the sandbox and that of its id range. So neither is
 * reused while files with those ids exist.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/log.h"
#include "launch/sandbox.h"
#include "launch/stall.h"
#include "proto/syscalls.h"

enum {
    SMALL_ENTRIES = 2048, /* few enough for the remover: some milliseconds */
    SMALL_DEPTH = 16,
    SMALL_BLOCKS = 256 << 11, /* of 512 bytes; of the disk image: 256 MiB */
    NICENESS = 10,
};

/* Returns true if the tree is small; stops counting when it is not. */
static bool tree_is_small(int at, const char *name, int depth, unsigned *left)
{
    auto_ptr(dir_close) DIR *d = dir_open(at, name);
    const struct dirent *e;
    bool small = true;

    if (d == NULL)
        return true; /* an unreadable directory is not walked by the removal either */
    while (small && (e = dir_next(d)) != NULL) {
        small = --*left > 0;
        if (small && e->d_type == DT_DIR)
            small = depth > 0 && tree_is_small(dirfd(d), e->d_name, depth - 1, left);
    }
    return small;
}

/* Logs a failed removal: its client was answered long ago. */
static void removal_log_failure(const struct removal *r, int status)
{
    if (WIFSIGNALED(status))
        log_warn("launcher",
                 "sandbox=%s removing its files was killed by signal %d, another one goes on",
                 r->id, WTERMSIG(status));
    else
        log_warn("launcher", "sandbox=%s removing its files failed: %s, the next start tries again",
                 r->id, strerror(WEXITSTATUS(status)));
}

void removal_reap(struct launcher *l)
{
    bool sweep = false;
    size_t kept = 0;

    for (size_t i = 0; i < l->removal_count; i++) {
        int status = 0;

        if (waitpid(l->removals[i].pid, &status, WNOHANG) == 0) {
            l->removals[kept++] = l->removals[i];
            continue;
        }
        if (l->removals[i].pidfd >= 0)
            (void)close(l->removals[i].pidfd);
        stall_reaped(l, l->removals[i].pid, status);
        if (l->removals[i].id[0] == '\0') { /* it may have made or removed a volume */
            sweep |= WIFSIGNALED(status);
            continue;
        }
        if (status == 0)
            continue;
        removal_log_failure(&l->removals[i], status);
        if (WIFSIGNALED(status))
            sweep_later(l);
    }
    l->removal_count = kept;
    if (sweep)
        volumes_sweep(l);
}

int removal_keep_only(int *fds, int count, int first)
{
    for (int i = 0; i < count; i++) {
        fds[i] = fcntl(fds[i], F_DUPFD, first + count); /* a number above the target numbers */
        if (fds[i] < 0)
            return -errno;
    }
    for (int i = 0; i < count; i++) {
        if (dup2(fds[i], first + i) < 0)
            return -errno;
        fds[i] = first + i;
    }
    return sys_close_range((unsigned)(first + count), ~0U, 0);
}

void removal_become(const char *name, void (*on_stop)(int))
{
    (void)signal(SIGTERM, on_stop);
    (void)signal(SIGINT, on_stop);
    (void)prctl(PR_SET_NAME, name);
    /* SCHED_BATCH, so that a removal does not preempt the client that requested it. */
    (void)sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){.sched_priority = 0});
}

void removal_close_root(int root, int gate)
{
    struct pollfd p = {.fd = gate, .events = 0};

    while (poll(&p, 1, -1) < 0 && errno == EINTR)
        ;
    (void)close(root);
    (void)close(gate);
}

static _Noreturn void removal_child_main(const struct launcher *l, const struct sandbox *s,
                                         int gate)
{
    enum { SANDBOXES, IDS, LOCK, IDS_LOCK, ROOT, GATE };
    int fds[] = {l->sandboxes_fd, l->ids_fd, s->lock_fd, s->ids.lock_fd, s->root_fd, gate};
    struct launcher own = *l;
    struct idrange ids = {.base = s->ids.base, .lock_fd = IDS_LOCK};
    int r;

    removal_become("rind-remove", SIG_DFL);
    /* there may be many, and no client waits for them */
    (void)setpriority(PRIO_PROCESS, 0, NICENESS);
    r = removal_keep_only(fds, gate >= 0 ? GATE + 1 : ROOT, 0);
    own.sandboxes_fd = SANDBOXES;
    own.ids_fd = IDS;
    if (r == 0)
        r = sandbox_dir_remove(&own, s->id, NULL);
    if (r < 0)
        _exit(-r < 256 ? -r : EIO); /* the exit status is the errno */
    if (gate >= 0)
        removal_close_root(ROOT, GATE);
    idrange_give_back(own.ids_fd, &ids);
    _exit(0);
}

bool removal_has_room(struct launcher *l)
{
    removal_reap(l);
    return l->removal_count < LAUNCH_REMOVALS_MAX;
}

void removal_keep(struct launcher *l, pid_t pid, const char *id)
{
    struct removal *r = &l->removals[l->removal_count++];

    r->pid = pid;
    r->pidfd = sys_pidfd_open(pid);
    r->makes_volume = false;
    (void)snprintf(r->id, sizeof(r->id), "%s", id != NULL ? id : "");
}

/* ---- choosing a process ---- */

static bool sandbox_is_small(const struct sandbox *s)
{
    unsigned left = SMALL_ENTRIES;
    struct stat st;

    return tree_is_small(s->dir_fd, "upper", SMALL_DEPTH, &left) &&
           (fstatat(s->dir_fd, DISK_FILE, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            st.st_blocks < SMALL_BLOCKS);
}

/* The launcher closes gate_fd after its own root_fd (sandbox_free). */
int removal_make_gate(struct sandbox *s)
{
    int pair[2];

    if (s->root_fd < 0 || pipe2(pair, O_CLOEXEC) < 0)
        return FD_NONE;
    s->gate_fd = pair[1];
    return pair[0];
}

/* Starts a child for this removal. */
static bool removal_start_child(struct launcher *l, const struct sandbox *s, bool cgroups, int gate)
{
    pid_t pid;

    if (!removal_has_room(l))
        return false;
    if (cgroups && cgroup_remove(l->cgroups, s->id, NULL) < 0)
        return false; /* the caller tries again itself, and reports the error */
    pid = fork();
    if (pid == 0)
        removal_child_main(l, s, gate);
    if (pid < 0)
        return false;
    removal_keep(l, pid, s->id);
    return true;
}

bool removal_start(struct launcher *l, struct sandbox *s, bool cgroups)
{
    auto_close int gate = FD_NONE;

    if (s->dir_fd < 0 || s->ids.lock_fd < 0 || sandbox_dir_lock(s) < 0)
        return false;
    gate = removal_make_gate(s);
    /* The remover's socket may be full. */
    return (sandbox_is_small(s) && remover_take(l, s, cgroups, gate)) ||
           removal_start_child(l, s, cgroups, gate);
}

bool removal_start_large(struct launcher *l, const struct sandbox *s)
{
    return !sandbox_is_small(s) && removal_start_child(l, s, false, FD_NONE);
}
