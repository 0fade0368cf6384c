/* The directory of one sandbox, sandboxes/<id>: making, locking, opening and removing it, and
 * init's socket in it. Runs in the launcher, and in its children that remove files. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "launch/sandbox.h"
#include "proto/rmtree.h"
#include "proto/syscalls.h"

#define SOCKET_FILE "init.sock"

enum { PEERPIDFD = 77 }; /* SO_PEERPIDFD, Linux 6.5 */

static int sandbox_lock_file(int dir_fd)
{
    auto_close int fd = openat(dir_fd, "lock", O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return -errno;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return -errno;
    return take_fd(&fd);
}

static int sandbox_dir_fill(const struct launch_sandbox *s, int dir_fd, int64_t disk,
                            struct err *err)
{
    int r;

    /* The sandbox's root directory gets its attributes from `upper`, so the sandbox's root owns it.
     * fchmodat, because the caller's umask applies to mkdirat. */
    if (mkdirat(dir_fd, "upper", 0755) < 0 || fchmodat(dir_fd, "upper", 0755, 0) < 0 ||
        mkdirat(dir_fd, "work", 0700) < 0)
        return -errno;
    if (fchownat(dir_fd, "upper", s->ids.base, s->ids.base, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (disk >= 0) {
        r = disk_make(dir_fd, DISK_FILE, (uint64_t)disk, s->kept, err);
        if (r < 0)
            return r;
    }
    /* KEEP_FILE is made last and removed first: a directory with it is complete, and any other
     * belongs to the sweep. */
    if (!s->kept)
        return 0;
    r = creator_save(dir_fd, KEEP_FILE ".new", s->creator, NULL);
    if (r < 0)
        return r;
    return renameat(dir_fd, KEEP_FILE ".new", dir_fd, KEEP_FILE) < 0 ? -errno : 0;
}

void sandbox_dirs_spread(int dir_fd)
{
    int flags = 0;

    if (ioctl(dir_fd, FS_IOC_GETFLAGS, &flags) < 0 || (flags & FS_TOPDIR_FL) != 0)
        return;
    flags |= FS_TOPDIR_FL;
    (void)ioctl(dir_fd, FS_IOC_SETFLAGS, &flags); /* only a hint: other file systems ignore it */
}

int sandbox_dir_make(struct launcher *l, struct launch_sandbox *s, int64_t disk, struct err *err)
{
    auto_close int dir = FD_NONE;
    auto_close int lock = FD_NONE;
    struct err why = ERR_NONE;
    int r;

    /* A shared lock, against the sweep (sweep.c): a directory that is not locked yet must not look
     * abandoned. */
    while (flock(l->sandboxes_fd, LOCK_SH) < 0)
        if (errno != EINTR)
            return err_errno(err, -errno, "lock the directory of sandboxes");
    if (mkdirat(l->sandboxes_fd, s->id, 0700) < 0) {
        r = -errno;
        (void)flock(l->sandboxes_fd, LOCK_UN);
        return err_errno(err, r, "make the directory of sandbox %s", s->id);
    }
    dir = openat(l->sandboxes_fd, s->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    r = dir < 0 ? -errno : 0;
    if (r == 0) {
        lock = sandbox_lock_file(dir);
        r = lock < 0 ? lock : sandbox_dir_fill(s, dir, disk, &why);
    }
    (void)flock(l->sandboxes_fd, LOCK_UN);
    if (r < 0) {
        (void)rmtree_at(l->sandboxes_fd, s->id, 0);
        return why.code < 0 ? err_set(err, r, "%s", why.msg)
                            : err_errno(err, r, "make the writable layer of sandbox %s", s->id);
    }
    s->dir_fd = take_fd(&dir);
    s->lock_fd = take_fd(&lock);
    return 0;
}

/* Finds the id range of its files. Root inside may have chowned `upper` to any id of the range. */
static int sandbox_find_base(struct launcher *l, struct launch_sandbox *s, int dir)
{
    auto_free char *owner = NULL;
    struct stat st;
    int r;

    if (fstatat(dir, "upper", &st, AT_SYMLINK_NOFOLLOW) == 0) {
        s->upper_missing = !S_ISDIR(st.st_mode) || st.st_uid < IDRANGE_FIRST;
    } else {
        if (errno != ENOENT)
            return -errno;
        s->upper_missing = true;
    }
    if (!s->upper_missing) {
        s->ids.base = st.st_uid - (st.st_uid - IDRANGE_FIRST) % IDRANGE_SIZE;
        return 0;
    }
    owner = sandbox_owner(l, s->id);
    if (owner == NULL)
        return -ENOMEM;
    r = idrange_find(l->ids_fd, owner, &s->ids.base, NULL);
    return r == -ENOENT ? 0 : r;
}

/* Opens a kept sandbox's directory and finds its id range: -ENOENT when there is none. */
static int sandbox_open_dir(struct launcher *l, struct launch_sandbox *s)
{
    auto_close int dir =
        sys_openat2(l->sandboxes_fd, s->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, OPEN_PLAIN);
    int r;

    if (dir < 0)
        return dir;
    if (faccessat(dir, KEEP_FILE, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    r = sandbox_find_base(l, s, dir);
    if (r < 0)
        return r;
    s->kept = true;
    s->dir_fd = take_fd(&dir);
    return 0;
}

int sandbox_dir_whole(const struct launch_sandbox *s, struct err *err)
{
    return !s->upper_missing
               ? 0
               : err_set(err, -EUCLEAN,
                         "sandbox %s: its writable layer is gone from the state directory; "
                         "it can only be removed",
                         s->id);
}

int sandbox_dir_peek(struct launcher *l, struct launch_sandbox *s, struct err *err)
{
    int r = sandbox_open_dir(l, s);

    return r < 0 ? err_errno(err, r, "sandbox %s", s->id) : 0;
}

int sandbox_dir_open(struct launcher *l, struct launch_sandbox *s, struct err *err)
{
    int r = sandbox_open_dir(l, s);

    if (r == 0) {
        s->lock_fd = sandbox_lock_file(s->dir_fd);
        r = s->lock_fd < 0 ? s->lock_fd : 0;
    }
    if (r == -EWOULDBLOCK)
        return err_set(err, -EBUSY, "sandbox %s is running", s->id);
    return r < 0 ? err_errno(err, r, "sandbox %s", s->id) : 0;
}

int sandbox_dir_lock(struct launch_sandbox *s)
{
    if (s->lock_fd < 0)
        s->lock_fd = sandbox_lock_file(s->dir_fd);
    return s->lock_fd < 0 ? take_fd(&s->lock_fd) : 0;
}

void sandbox_dir_unlock(struct launch_sandbox *s)
{
    if (s->lock_fd < 0)
        return;
    (void)flock(s->lock_fd, LOCK_UN);
    (void)close(take_fd(&s->lock_fd));
}

int sandbox_dir_forget(struct launch_sandbox *s, struct err *err)
{
    int r = sandbox_dir_lock(s);

    if (r == 0 && unlinkat(s->dir_fd, KEEP_FILE, 0) < 0 && errno != ENOENT)
        r = -errno;
    return r < 0 ? err_errno(err, r, "remove the files of sandbox %s", s->id) : 0;
}

/* Names the socket below the directory's fd: a state directory's path may be longer than sun_path.
 */
static struct sockaddr_un socket_name(const struct launch_sandbox *s)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};

    (void)snprintf(name.sun_path, sizeof(name.sun_path), "/proc/self/fd/%d/" SOCKET_FILE,
                   s->dir_fd);
    return name;
}

int sandbox_socket_bind(const struct launch_sandbox *s, struct err *err)
{
    const struct sockaddr_un name = socket_name(s);
    auto_close int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return err_errno(err, -errno, "init's socket");
    (void)unlinkat(s->dir_fd, SOCKET_FILE, 0);
    if (bind(fd, (const struct sockaddr *)&name, sizeof(name)) < 0)
        return err_errno(err, -errno, "init's socket");
    return take_fd(&fd);
}

int sandbox_socket_connect(const struct launch_sandbox *s, struct err *err)
{
    const struct sockaddr_un name = socket_name(s);
    auto_close int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || connect(fd, (const struct sockaddr *)&name, sizeof(name)) < 0)
        return err_errno(err, -errno, "connect to init of sandbox %s", s->id);
    return take_fd(&fd);
}

int sandbox_socket_peer(int fd, pid_t *ret_pid, struct err *err)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);
    int pidfd = -1;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
        return err_errno(err, -errno, "init's credentials");
    len = sizeof(pidfd);
    if (getsockopt(fd, SOL_SOCKET, PEERPIDFD, &pidfd, &len) < 0) {
        /* Before 6.5: the connection is open, so init runs and its pid has not been reused. */
        pidfd = sys_pidfd_open(cred.pid);
        if (pidfd < 0)
            return err_errno(err, pidfd, "init's process");
    }
    *ret_pid = cred.pid;
    return pidfd;
}

/* Removes the files that overlayfs has left in its work directory, among them the mark of a
 * volatile mount. The overlay is unmounted. */
static void overlay_remove_leftovers(int dir)
{
    auto_close int work = openat(dir, "work", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (work < 0)
        return;
    (void)unlinkat(work, "work/incompat/volatile/dirty", 0);
    (void)unlinkat(work, "work/incompat/volatile", AT_REMOVEDIR);
    (void)unlinkat(work, "work/incompat", AT_REMOVEDIR);
    (void)unlinkat(work, "work", AT_REMOVEDIR);
}

/* Removes a sandbox with an empty upper layer, which most have, without a tree walk. Returns false
 * if files are left. *ret_disk: a disk image was removed as well. */
static bool sandbox_dir_clear_empty(int dir, bool *ret_disk)
{
    if (faccessat(dir, KEEP_FILE, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
        (unlinkat(dir, "upper", AT_REMOVEDIR) < 0 && errno != ENOENT))
        return false;
    (void)unlinkat(dir, SOCKET_FILE, 0);
    *ret_disk = unlinkat(dir, DISK_FILE, 0) == 0;
    overlay_remove_leftovers(dir);
    return (unlinkat(dir, "work", AT_REMOVEDIR) == 0 || errno == ENOENT) &&
           (unlinkat(dir, "net", 0) == 0 || errno == ENOENT);
}

static int sandbox_dir_clear_tree(int dir)
{
    static const char *const trees[] = {"upper", "work"};
    static const char *const files[] = {SOCKET_FILE, DISK_FILE, "net", "net.new"};
    int r = 0;

    for (size_t i = 0; r == 0 && i < sizeof(trees) / sizeof(trees[0]); i++) {
        r = rmtree_at(dir, trees[i], RMTREE_ONE_MOUNT);
        if (r == -ENOTDIR) /* made by another process; a link is not followed */
            r = unlinkat(dir, trees[i], 0) < 0 ? -errno : 0;
        r = r == -ENOENT ? 0 : r;
    }
    for (size_t i = 0; r == 0 && i < sizeof(files) / sizeof(files[0]); i++)
        r = unlinkat(dir, files[i], 0) == 0 || errno == ENOENT ? 0 : -errno;
    return r;
}

int sandbox_dir_clear(struct launcher *l, const char *id, struct err *err)
{
    auto_close int dir =
        openat(l->sandboxes_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool disk = false;
    int r;

    if (dir < 0 || sandbox_dir_clear_empty(dir, &disk))
        return !disk;
    r = sandbox_dir_clear_tree(dir);
    return r < 0 ? err_errno(err, r, "remove the files of sandbox %s", id) : 0;
}

int sandbox_dir_remove(struct launcher *l, const char *id, struct err *err)
{
    /* The lock file is removed last: a sweep may then assume that a directory without one is empty.
     */
    auto_close int dir =
        openat(l->sandboxes_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool disk;
    int r = 0;

    if (dir >= 0 && sandbox_dir_clear_empty(dir, &disk) && unlinkat(dir, "lock", 0) == 0 &&
        unlinkat(l->sandboxes_fd, id, AT_REMOVEDIR) == 0)
        return 0;
    if (dir >= 0)
        r = sandbox_dir_clear_tree(dir);
    if (r == 0)
        r = rmtree_at(l->sandboxes_fd, id, RMTREE_ONE_MOUNT);
    return r < 0 && r != -ENOENT ? err_errno(err, r, "remove the files of sandbox %s", id) : 0;
}
