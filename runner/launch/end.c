/* The end of what runs in a sandbox: init's death ends both pid namespaces, and a SIGKILL to each
 * of its processes sees to it that init can die. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "base/err.h"
#include "launch/cgroup.h"
#include "launch/launcher.h"
#include "launch/sandbox.h"
#include "proto/syscalls.h"

enum { LEFTOVERS_MS = 20 /* for what is left of one, where it can be asked again */ };

static int wait_gone(const struct sandbox *s, int timeout_ms, struct err *err)
{
    struct pollfd p = {.fd = s->pidfd, .events = POLLIN};
    siginfo_t info;
    int r;

    do
        r = poll(&p, 1, timeout_ms);
    while (r < 0 && errno == EINTR);
    if (r == 0)
        return err_set(err, -ETIMEDOUT, "sandbox %s: its processes do not go away", s->id);
    /* Ours to reap only when we started it. */
    (void)waitid(P_PIDFD, (id_t)s->pidfd, &info, WEXITED | WNOHANG);
    return 0;
}

/*
 * Init's death ends both pid namespaces, and with them everything that runs inside. But init may
 * sleep for the lock of a pipe that a process inside holds (shim/init/relay.h), and dies only when
 * that process has.
 */
static int kill_processes(const struct sandbox *s, struct err *err)
{
    int r;

    if (s->pidfd < 0)
        return 0;
    r = sys_pidfd_send_signal(s->pidfd, SIGKILL);
    if (r < 0 && r != -ESRCH)
        return err_errno(err, r, "kill sandbox %s", s->id);
    if (s->cgroup != NULL)
        cgroup_hurry(s->cgroup);
    if (s->cgroup != NULL && cgroup_v2_fd(s->cgroup) < 0)
        (void)cgroup_freeze(s->cgroup, false, NULL); /* frozen tasks do not die on v1 */
    if (s->cgroup != NULL)
        cgroup_signal_kill(s->cgroup);
    return 0;
}

int sandbox_end(struct launcher *l, struct sandbox *s, int timeout_ms, struct err *err)
{
    int r = kill_processes(s, err);

    if (r < 0 || s->pidfd < 0)
        return r;
    fuse_end_here(l, s);
    return wait_gone(s, timeout_ms, err);
}

/*
 * The end of an overlay whose files are kept syncs the file system below its upper layer, and would
 * be part of init's death. Held by us it outlives that, until it is known whether the files stay
 * (settle.c) or go (removal.c). Where it cannot be held, it ends as any other.
 */
static void hold_root(struct sandbox *s)
{
    auto_close int fd = FD_NONE;
    struct statfs fs;
    char path[64];

    if (!s->kept || s->root_fd >= 0)
        return;
    (void)snprintf(path, sizeof(path), "/proc/%d/root", (int)s->pid);
    fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    /* Its root and not that of somebody who has got its number since: it lives. */
    if (fd >= 0 && fstatfs(fd, &fs) == 0 && fs.f_type == OVERLAYFS_SUPER_MAGIC &&
        sys_pidfd_send_signal(s->pidfd, 0) == 0)
        s->root_fd = take_fd(&fd);
}

int launcher_end(struct launcher *l, const char *id, struct err *err)
{
    struct sandbox *s = launcher_find(l, id);
    int r;

    if (s == NULL)
        return err_set(err, -ENOENT, "no sandbox %s", id);
    hold_root(s);
    r = kill_processes(s, err);
    if (r == 0 && s->pidfd >= 0)
        fuse_end(l, s);
    return r;
}

int launcher_pidfd(struct launcher *l, const char *id, struct err *err)
{
    const struct sandbox *s = launcher_find(l, id);
    int fd = s != NULL && s->pidfd >= 0 ? fcntl(s->pidfd, F_DUPFD_CLOEXEC, 3) : FD_NONE;

    if (fd >= 0)
        return fd;
    return err_errno(err, s != NULL && s->pidfd >= 0 ? -errno : -ESRCH, "init of sandbox %s", id);
}

int launcher_kill(struct launcher *l, const char *id, struct err *err)
{
    struct sandbox *s = launcher_find(l, id);

    return s == NULL ? err_set(err, -ENOENT, "no sandbox %s", id)
                     : sandbox_end(l, s, SANDBOX_END_MS, err);
}

bool sandbox_ended(const struct sandbox *s)
{
    struct pollfd p = {.fd = s->pidfd, .events = POLLIN};

    return s->pidfd < 0 || (poll(&p, 1, 0) > 0 && wait_gone(s, 0, NULL) == 0);
}

int sandbox_end_leftovers(struct launcher *l, const struct sandbox *s, struct err *err)
{
    struct cgroup *c = NULL;
    int r;

    fuse_abort(l, s->ids.base);
    r = cgroup_open(l->cgroups, s->id, &c, err);
    if (r == -ENOENT)
        return 0;
    if (r == 0) {
        cgroup_hurry(c);
        r = cgroup_kill(c, LEFTOVERS_MS, err);
    }
    cgroup_free(c);
    if (r == -ETIMEDOUT)
        return err_set(err, -EAGAIN, "sandbox %s: its processes have not gone yet", s->id);
    return r == -EOPNOTSUPP ? 0 : r;
}
