#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "launch/sandbox.h"
#include "proto/rmtree.h"

static int lock_file(int dir_fd)
{
    auto_close int fd = openat(dir_fd, "lock", O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return -errno;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return -errno;
    return take_fd(&fd);
}

static int fill(const struct sandbox *s, int dir_fd)
{
    /* The root directory's own attributes come from upper: it is the sandbox's root's. */
    if (mkdirat(dir_fd, "upper", 0755) < 0 || mkdirat(dir_fd, "work", 0700) < 0)
        return -errno;
    if (fchownat(dir_fd, "upper", s->ids.base, s->ids.base, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return 0;
}

int sandbox_dir_make(struct launcher *l, struct sandbox *s, struct err *err)
{
    auto_close int dir = FD_NONE;
    auto_close int lock = FD_NONE;
    int r;

    /* Shared with other starters, against the sweep (sweep.c): a directory that is not locked yet
     * must not look dead. */
    (void)flock(l->sandboxes_fd, LOCK_SH);
    if (mkdirat(l->sandboxes_fd, s->id, 0700) < 0) {
        r = -errno;
        (void)flock(l->sandboxes_fd, LOCK_UN);
        return err_errno(err, r, "make the directory of sandbox %s", s->id);
    }
    dir = openat(l->sandboxes_fd, s->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    r = dir < 0 ? -errno : 0;
    if (r == 0) {
        lock = lock_file(dir);
        r = lock < 0 ? lock : fill(s, dir);
    }
    (void)flock(l->sandboxes_fd, LOCK_UN);
    if (r < 0) {
        (void)rmtree_at(l->sandboxes_fd, s->id, 0);
        return err_errno(err, r, "make the writable layer of sandbox %s", s->id);
    }
    s->dir_fd = take_fd(&dir);
    s->lock_fd = take_fd(&lock);
    return 0;
}

int sandbox_dir_remove(struct launcher *l, const char *id, struct err *err)
{
    int r = rmtree_at(l->sandboxes_fd, id, RMTREE_ONE_MOUNT);

    return r < 0 && r != -ENOENT ? err_errno(err, r, "remove the files of sandbox %s", id) : 0;
}
