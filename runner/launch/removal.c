/*
 * Removing the files of a sandbox: not by the launcher, which has one thread. Whoever waits for a
 * removal or a start would wait for a file system that discards each block as it is freed, or for
 * the end of somebody else's million files.
 *
 * The files of most are few: one process, the remover (remover.c), removes them one after another.
 * Those of a sandbox that has many have a process of their own.
 *
 * The caller has made the sandbox one that nobody keeps (sandbox_dir_forget): should the process,
 * or the host, die in the middle, the next start removes the rest. It holds the sandbox's lock and
 * that of its id range, so that neither is anybody else's while a file carries those ids.
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
#include "proto/syscalls.h"

enum {
    SMALL_ENTRIES = 2048, /* removed at once: some milliseconds */
    SMALL_DEPTH = 16,
    SMALL_BLOCKS = 256 << 11, /* of 512 bytes, of a disk's image: 256 MiB */
    NICENESS = 10,
};

/* Whether it is known, without looking at all of it, that there is little. */
static bool is_small(int at, const char *name, int depth, unsigned *left)
{
    auto_ptr(dir_close) DIR *d = dir_open(at, name);
    const struct dirent *e;
    bool small = true;

    if (d == NULL)
        return true; /* what cannot be read is not walked here either */
    while (small && (e = dir_next(d)) != NULL) {
        small = --*left > 0;
        if (small && e->d_type == DT_DIR)
            small = depth > 0 && is_small(dirfd(d), e->d_name, depth - 1, left);
    }
    return small;
}

/* Whoever asked for the removal was answered long ago: the log is all that can tell. */
static void tell_failed(const struct removal *r, int status)
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
        if (l->removals[i].id[0] == '\0') { /* perhaps it made a volume, or removed one */
            sweep |= WIFSIGNALED(status);
            continue;
        }
        if (status == 0)
            continue;
        tell_failed(&l->removals[i], status);
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
        fds[i] = fcntl(fds[i], F_DUPFD, first + count); /* out of the way */
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
    /* Who has asked for the removal is not interrupted on its way to the answer. */
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

static _Noreturn void child(const struct launcher *l, const struct sandbox *s, int gate)
{
    enum { SANDBOXES, IDS, LOCK, IDS_LOCK, ROOT, GATE };
    int fds[] = {l->sandboxes_fd, l->ids_fd, s->lock_fd, s->ids.lock_fd, s->root_fd, gate};
    struct launcher own = *l;
    struct idrange ids = {.base = s->ids.base, .lock_fd = IDS_LOCK};
    int r;

    removal_become("rind-remove", SIG_DFL);
    (void)setpriority(PRIO_PROCESS, 0, NICENESS); /* there may be many, and nobody waits for them */
    r = removal_keep_only(fds, gate >= 0 ? GATE + 1 : ROOT, 0);
    own.sandboxes_fd = SANDBOXES;
    own.ids_fd = IDS;
    if (r == 0)
        r = sandbox_dir_remove(&own, s->id, NULL);
    if (r < 0)
        _exit(-r < 256 ? -r : EIO); /* the status is the errno */
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

/* ---- choosing ---- */

static bool has_little(const struct sandbox *s)
{
    unsigned left = SMALL_ENTRIES;
    struct stat st;

    return is_small(s->dir_fd, "upper", SMALL_DEPTH, &left) &&
           (fstatat(s->dir_fd, DISK_FILE, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            st.st_blocks < SMALL_BLOCKS);
}

/* The launcher's end of the pipe goes after its copy of the root (sandbox_free). */
int removal_make_gate(struct sandbox *s)
{
    int pair[2];

    if (s->root_fd < 0 || pipe2(pair, O_CLOEXEC) < 0)
        return FD_NONE;
    s->gate_fd = pair[1];
    return pair[0];
}

/* By a process of its own. */
static bool start_child(struct launcher *l, const struct sandbox *s, bool cgroups, int gate)
{
    pid_t pid;

    if (!removal_has_room(l))
        return false;
    if (cgroups && cgroup_remove(l->cgroups, s->id, NULL) < 0)
        return false; /* the caller finds that out once more, and says why */
    pid = fork();
    if (pid == 0)
        child(l, s, gate);
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
    /* The remover may have more to do than its socket holds. */
    return (has_little(s) && remover_take(l, s, cgroups, gate)) || start_child(l, s, cgroups, gate);
}

bool removal_start_large(struct launcher *l, const struct sandbox *s)
{
    return !has_little(s) && start_child(l, s, false, FD_NONE);
}
