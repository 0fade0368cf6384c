/*
 * Aborts FUSE connections of a sandbox whose policy allows FUSE. A process that waits for an answer
 * of a FUSE server cannot be killed, and a server that waits for itself would never exit. So the
 * connections of a killed sandbox are aborted.
 *
 * The kernel lists all connections of the host in fusectl. Each is owned by the user that mounted
 * it, an id that only the sandbox's own user namespace maps. So connections are found by the id
 * range, whatever is unmounted, moved or hidden inside.
 *
 * There may be many, and a sandbox may be slow to exit. So a child process does this, because the
 * launcher has one thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/file.h"
#include "launch/sandbox.h"
#include "proto/syscalls.h"

enum {
    END_WAIT_MS = 10, /* between two passes */
    END_LOOKS_MAX =
        /* a killed sandbox usually exits in the first pass; one that does not is reported by the
         * caller's own wait */
    200,
};

int fuse_open(struct launcher *l, struct err *err)
{
    auto_close int fs = FD_NONE;
    auto_close int mnt = FD_NONE;
    int r;

    if (l->fusectl >= 0)
        return 0;
    fs = sys_fsopen("fusectl");
    r = fs < 0 ? fs : sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
    mnt = r < 0 ? r : sys_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    if (mnt == -ENODEV)
        return err_set(err, -EOPNOTSUPP,
                       "fuse: this kernel has no FUSE (CONFIG_FUSE_FS; modprobe fuse)");
    if (mnt < 0)
        return err_errno(err, mnt, "fuse: mount fusectl, by which its connections are ended");
    l->fusectl = take_fd(&mnt);
    return 0;
}

static void fuse_abort_one(int dir, const char *name, uid_t base)
{
    auto_close int fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid >= base && st.st_uid - base < IDRANGE_SIZE)
        (void)file_poke_at(fd, "abort", "1"); /* ENOENT: the connection ended meanwhile */
}

void fuse_abort(struct launcher *l, uid_t base)
{
    auto_ptr(dir_close) DIR *d = NULL;
    const struct dirent *e;

    if (base == 0 || fuse_open(l, NULL) < 0)
        return; /* the host has no FUSE, so no sandbox has connections */
    d = dir_open(l->fusectl, ".");
    while (d != NULL && (e = dir_next(d)) != NULL)
        if (e->d_type == DT_DIR)
            fuse_abort_one(dirfd(d), e->d_name, base);
}

void fuse_end_here(struct launcher *l, const struct launch_sandbox *s)
{
    struct pollfd p = {.fd = s->pidfd, .events = POLLIN};

    if (!s->fuse)
        return;
    /* Repeated, because a process that runs until its own SIGKILL arrives may make a new
     * connection. */
    for (int i = 0; i < END_LOOKS_MAX; i++) {
        fuse_abort(l, s->ids.base);
        if (poll(&p, 1, END_WAIT_MS) > 0)
            return;
    }
}

static _Noreturn void fuse_ender(const struct launcher *l, const struct launch_sandbox *s)
{
    enum { FUSECTL, PIDFD, COUNT };
    int fds[COUNT] = {l->fusectl, s->pidfd};
    struct launcher own = *l;
    const struct launch_sandbox its = {.pidfd = PIDFD, .ids = {.base = s->ids.base}, .fuse = true};

    if (child_keep_fds(fds, COUNT, 0) < 0)
        _exit(1);
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGINT, SIG_IGN); /* a terminal sends SIGINT to its whole process group */
    (void)prctl(PR_SET_NAME, "rind-fuse");
    own.fusectl = FUSECTL;
    fuse_end_here(&own, &its);
    _exit(0);
}

void fuse_end(struct launcher *l, const struct launch_sandbox *s)
{
    pid_t pid = -1;

    if (!s->fuse || fuse_open(l, NULL) < 0)
        return;
    if (child_table_has_room(&l->children))
        pid = fork();
    if (pid == 0)
        fuse_ender(l, s);
    if (pid > 0)
        child_table_add(&l->children, pid, NULL, NULL);
    else
        fuse_abort(l, s->ids.base);
}
