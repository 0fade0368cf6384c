/* Kills the processes of a sandbox. Init's exit ends both pid namespaces; a SIGKILL to
 * each process lets init exit. Runs in the launcher. */
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

enum { LEFTOVERS_MS = 20 /* for orphans, when the caller can retry */ };

static int sandbox_wait_gone(const struct launch_sandbox *s, int timeout_ms, struct err *err)
{
    struct pollfd p = {.fd = s->pidfd, .events = POLLIN};
    siginfo_t info;
    int r;

    do
        r = poll(&p, 1, timeout_ms);
    while (r < 0 && errno == EINTR);
    if (r == 0 && s->cgroup != NULL && cgroup_explain(s->cgroup, -ETIMEDOUT, err) < 0)
        return err_wrap(err, -ETIMEDOUT, "sandbox %s has not ended", s->id);
    if (r == 0)
        return err_set(err, -ETIMEDOUT, "sandbox %s: its processes do not go away", s->id);
    /* Reaps init only if the launcher started it: a reattached init is not its child. */
    (void)waitid(P_PIDFD, (id_t)s->pidfd, &info, WEXITED | WNOHANG);
    return 0;
}

/*
 * The exit of init ends both pid namespaces, and with them every process inside. But init may sleep
 * for the lock of a pipe that a process inside holds (shim/init/relay.h); then it exits only after
 * that process.
 */
static int sandbox_kill(const struct launch_sandbox *s, struct err *err)
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
        /* on v1 a frozen task does not die of SIGKILL */
        (void)cgroup_freeze(s->cgroup, false, NULL);
    if (s->cgroup != NULL)
        cgroup_signal_kill(s->cgroup);
    return 0;
}

int sandbox_end(struct launcher *l, struct launch_sandbox *s, int timeout_ms, struct err *err)
{
    int r = sandbox_kill(s, err);

    if (r < 0 || s->pidfd < 0)
        return r;
    fuse_end_here(l, s);
    return sandbox_wait_gone(s, timeout_ms, err);
}

/*
 * Holds the root mount open beyond init's exit. Unmounting an overlay with kept files syncs the
 * file system below its upper layer, which would delay init's exit. The fd is closed once it is
 * known whether the files stay or are removed (janitor.c). If it cannot be opened, the
 * unmount happens with init's exit.
 */
static void sandbox_hold_root(struct launch_sandbox *s)
{
    auto_close int fd = FD_NONE;
    struct statfs fs;
    char path[64];

    if (!s->kept || s->root_fd >= 0)
        return;
    (void)snprintf(path, sizeof(path), "/proc/%d/root", (int)s->pid);
    fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    /* The process of the pidfd is alive, so its pid was not reused and this is its root. */
    if (fd >= 0 && fstatfs(fd, &fs) == 0 && fs.f_type == OVERLAYFS_SUPER_MAGIC &&
        sys_pidfd_send_signal(s->pidfd, 0) == 0)
        s->root_fd = take_fd(&fd);
}

int launcher_end(struct launcher *l, const char *id, struct err *err)
{
    struct launch_sandbox *s = launcher_find(l, id);
    int r;

    if (s == NULL)
        return err_set(err, -ENOENT, "no sandbox %s", id);
    sandbox_hold_root(s);
    r = sandbox_kill(s, err);
    if (r == 0 && s->pidfd >= 0)
        fuse_end(l, s);
    return r;
}

int launcher_pidfd(struct launcher *l, const char *id, struct err *err)
{
    const struct launch_sandbox *s = launcher_find(l, id);
    int fd = s != NULL && s->pidfd >= 0 ? fcntl(s->pidfd, F_DUPFD_CLOEXEC, 3) : FD_NONE;

    if (fd >= 0)
        return fd;
    return err_errno(err, s != NULL && s->pidfd >= 0 ? -errno : -ESRCH, "init of sandbox %s", id);
}

int launcher_kill(struct launcher *l, const char *id, struct err *err)
{
    struct launch_sandbox *s = launcher_find(l, id);

    return s == NULL ? err_set(err, -ENOENT, "no sandbox %s", id)
                     : sandbox_end(l, s, SANDBOX_END_MS, err);
}

bool sandbox_ended(const struct launch_sandbox *s)
{
    struct pollfd p = {.fd = s->pidfd, .events = POLLIN};

    return s->pidfd < 0 || (poll(&p, 1, 0) > 0 && sandbox_wait_gone(s, 0, NULL) == 0);
}

int sandbox_end_orphans(struct launcher *l, const struct launch_sandbox *s, struct err *err)
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
    if (r == -ETIMEDOUT)
        r = cgroup_explain(c, -EAGAIN, err);
    cgroup_free(c);
    if (r == -EAGAIN)
        return r;
    return r == -EOPNOTSUPP ? 0 : r;
}
