/*
 * The slow part of a stop: closing the root that was held beyond init's exit, which syncs the file
 * system below the writable layer, and syncing the reservation of the id range. Both wait for a
 * disk, and the launcher has one thread. So a child does it, and holds the locks of the sandbox and
 * of its range meanwhile. The child is forked by the launcher.
 */
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "launch/sandbox.h"
#include "proto/syscalls.h"

static _Noreturn void settle_child_main(const struct launcher *l, const struct sandbox *s,
                                        const char *owner, int gate)
{
    enum { FIRST = STDERR_FILENO + 1, IDS = 0, LOCK, IDS_LOCK, ROOT, GATE, COUNT };
    int fds[COUNT] = {l->ids_fd, s->lock_fd, s->ids.lock_fd, s->root_fd, gate};
    struct idrange ids = s->ids;
    struct err err = ERR_NONE;

    removal_become("rind-stop", SIG_DFL);
    if (removal_keep_only(fds, gate >= 0 ? COUNT : ROOT, FIRST) < 0)
        _exit(1);
    ids.lock_fd = fds[IDS_LOCK];
    if (idrange_reserve(fds[IDS], &ids, owner, &err) < 0)
        /* the range is reserved, but not synced */
        log_warn("launcher", "sandbox=%s %s", s->id, err.msg);
    if (gate >= 0)
        removal_close_root(fds[ROOT], fds[GATE]);
    _exit(0);
}

int settle_start(struct launcher *l, struct sandbox *s, const char *owner)
{
    auto_close int gate = FD_NONE;
    pid_t pid;
    int fd;

    if (!removal_has_room(l) || sandbox_dir_lock(s) < 0)
        return -EAGAIN;
    gate = removal_make_gate(s);
    pid = s->root_fd >= 0 && gate < 0 ? -1 : fork();
    if (pid == 0)
        settle_child_main(l, s, owner, gate);
    if (pid < 0)
        return -EAGAIN;
    /* without it the caller cannot wait, and an immediate restart may get -EBUSY */
    fd = sys_pidfd_open(pid);
    removal_keep(l, pid, NULL);
    return fd >= 0 ? fd : FD_NONE;
}
