/*
 * Removing the files of a sandbox that has many: in a process of its own, because the launcher has
 * one thread, and whoever waits for a start would wait for the end of somebody else's million
 * files.
 *
 * The caller has made the sandbox one that nobody keeps (sandbox_dir_forget): should the process,
 * or the host, die in the middle, the next start removes the rest. It holds the sandbox's lock and
 * that of its id range, so that neither is anybody else's while a file carries those ids.
 */
#include <errno.h>
#include <fcntl.h>
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
    OUT_OF_THE_WAY = 100, /* a number above those that are used below */
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
                 "sandbox=%s removing its files was killed by signal %d, the next start goes on",
                 r->id, WTERMSIG(status));
    else
        log_warn("launcher", "sandbox=%s removing its files failed: %s, the next start tries again",
                 r->id, strerror(WEXITSTATUS(status)));
}

void removal_reap(struct launcher *l)
{
    size_t kept = 0;

    for (size_t i = 0; i < l->removal_count; i++) {
        int status = 0;

        if (waitpid(l->removals[i].pid, &status, WNOHANG) == 0) {
            l->removals[kept++] = l->removals[i];
            continue;
        }
        if (l->removals[i].pidfd >= 0)
            (void)close(l->removals[i].pidfd);
        if (status != 0 && l->removals[i].id[0] != '\0')
            tell_failed(&l->removals[i], status);
    }
    l->removal_count = kept;
}

/* Of all descriptors only these four stay: locks of other sandboxes must not be held by us. */
static int keep_only(int fds[4])
{
    for (int i = 0; i < 4; i++) {
        fds[i] = fcntl(fds[i], F_DUPFD, OUT_OF_THE_WAY);
        if (fds[i] < 0)
            return -errno;
    }
    for (int i = 0; i < 4; i++)
        if (dup2(fds[i], i) < 0)
            return -errno;
    return sys_close_range(4, ~0U, 0);
}

static _Noreturn void child(const struct launcher *l, const struct sandbox *s)
{
    int fds[4] = {l->sandboxes_fd, l->ids_fd, s->lock_fd, s->ids.lock_fd};
    struct launcher own = *l;
    struct idrange ids = {.base = s->ids.base, .lock_fd = 3};
    int r;

    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGINT, SIG_DFL);
    (void)prctl(PR_SET_NAME, "rind-remove");
    (void)setpriority(PRIO_PROCESS, 0, NICENESS); /* there may be many, and nobody waits for them */
    r = keep_only(fds);
    own.sandboxes_fd = 0;
    own.ids_fd = 1;
    if (r == 0)
        r = sandbox_dir_remove(&own, s->id, NULL);
    if (r < 0)
        _exit(-r < 256 ? -r : EIO); /* the status is the errno */
    idrange_release(own.ids_fd, &ids);
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
    (void)snprintf(r->id, sizeof(r->id), "%s", id != NULL ? id : "");
}

bool removal_start(struct launcher *l, struct sandbox *s)
{
    unsigned left = SMALL_ENTRIES;
    struct stat st;
    bool small;
    pid_t pid;

    if (l->clients.len == 0 || s->dir_fd < 0 || s->ids.lock_fd < 0 || sandbox_dir_lock(s) < 0)
        return false; /* nobody else waits for us */
    small = is_small(s->dir_fd, "upper", SMALL_DEPTH, &left) &&
            (fstatat(s->dir_fd, DISK_FILE, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
             st.st_blocks < SMALL_BLOCKS);
    if (!removal_has_room(l) || small)
        return false;
    if (idrange_reserve(l->ids_fd, &s->ids, NULL, NULL) < 0)
        return false;
    pid = fork();
    if (pid == 0)
        child(l, s);
    if (pid < 0)
        return false;
    removal_keep(l, pid, s->id);
    return true;
}
