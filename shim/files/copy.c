/* Copies a file or a tree by fds on both sides: a process that changes the trees meanwhile can
 * change what is copied, but never where to. Used by rind-copy and rind-move. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "files/cmd.h"

enum { COPY_BYTES = 128 << 10 };

struct copy {
    struct walk walk;
    struct links links;
    int to_top;   /* the copy of the top directory; -1 for a single file */
    dev_t to_dev; /* device and inode of the copy, which is not copied itself */
    ino_t to_ino;
    int to[FILE_LIST_DEPTH_MAX + 2];           /* owned; the copies of the open directories */
    struct stat dirs[FILE_LIST_DEPTH_MAX + 2]; /* their attributes, set when they are complete */
    bool replace, root;
    const char *what;
};

static int copy_fail(struct copy *c, int code, const char *what)
{
    c->what = what;
    return code;
}

/* ---- attributes ---- */

static int copy_set_attributes(const struct copy *c, int fd, const struct stat *st)
{
    const struct timespec times[2] = {st->st_atim, st->st_mtim};

    int r;

    /* The owner comes first: fchown clears set-id bits. */
    if (c->root && fchown(fd, st->st_uid, st->st_gid) < 0 && errno != EPERM && errno != EINVAL)
        return -errno;
    r = shim_fchmod(fd, st->st_mode & 07777);
    if (r < 0)
        return r;
    return futimens(fd, times) < 0 && errno != EPERM ? -errno : 0;
}

/* For links and FIFOs, which are not opened. */
static int copy_set_attributes_at(const struct copy *c, int dirfd, const char *name,
                                  const struct stat *st)
{
    const struct timespec times[2] = {st->st_atim, st->st_mtim};

    if (c->root && fchownat(dirfd, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0 &&
        errno != EPERM && errno != EINVAL)
        return -errno;
    /* some file systems do not support it */
    (void)utimensat(dirfd, name, times, AT_SYMLINK_NOFOLLOW);
    return 0;
}

/* ---- contents ---- */

static int copy_range_by_hand(int in, int out, off_t at, off_t end)
{
    static char buf[COPY_BYTES];

    while (at < end) {
        size_t want = end - at < (off_t)sizeof(buf) ? (size_t)(end - at) : sizeof(buf);
        ssize_t n = pread(in, buf, want, at);
        size_t done = 0;

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        while (done < (size_t)n) {
            ssize_t w = pwrite(out, buf + done, (size_t)n - done, at + (off_t)done);

            if (w < 0 && errno != EINTR)
                return -errno;
            done += w > 0 ? (size_t)w : 0;
        }
        at += n;
    }
    return 0;
}

/* copy_file_range, if both file systems support it; it never copies beyond the range. */
static int copy_extent(int in, int out, off_t at, off_t end)
{
    off_t to = at;

    while (at < end) {
        ssize_t n = copy_file_range(in, &at, out, &to, (size_t)(end - at), 0);

        if (n == 0)
            break;
        if (n < 0 && errno != EINTR)
            return errno == ENOSPC || errno == EDQUOT ? -errno
                                                      : copy_range_by_hand(in, out, at, end);
    }
    return 0;
}

/* Holes stay holes. If the size is not exact (procfs), copies to EOF. */
static int copy_contents(int in, int out, const struct stat *st)
{
    off_t at = 0;
    int r;

    if (!cmd_size_exact(in, st))
        return copy_range_by_hand(in, out, 0, INT64_MAX);
    while (at < st->st_size) {
        off_t data = lseek(in, at, SEEK_DATA), hole;

        if (data < 0 && errno == ENXIO)
            break;
        if (data < 0)
            data = at;
        hole = lseek(in, data, SEEK_HOLE);
        if (hole < 0 || hole > st->st_size)
            hole = st->st_size;
        if (data >= hole)
            break;
        r = copy_extent(in, out, data, hole);
        if (r < 0)
            return r;
        at = hole;
    }
    return ftruncate(out, st->st_size) < 0 ? -errno : 0;
}

/* ---- one entry ---- */

/* Removes an existing target that is no directory, if c->replace. */
static int copy_remove_target(const struct copy *c, int dirfd, const char *name)
{
    if (!c->replace)
        return 0;
    return unlinkat(dirfd, name, 0) < 0 && errno != ENOENT ? -errno : 0;
}

static int copy_file(struct copy *c, int from_dir, const char *from, int to_dir, const char *to,
                     const struct stat *seen)
{
    struct stat st;
    int in, out, r;

    in = cmd_open_at(from_dir, from, O_RDONLY, 0);
    if (in < 0)
        return copy_fail(c, in, "open");
    if (fstat(in, &st) < 0 || st.st_dev != seen->st_dev || st.st_ino != seen->st_ino ||
        !S_ISREG(st.st_mode)) {
        (void)close(in);
        return copy_fail(c, -ESTALE, "replaced meanwhile");
    }
    out = cmd_open_at(to_dir, to, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (out < 0) {
        (void)close(in);
        return copy_fail(c, out, "create");
    }
    r = copy_contents(in, out, &st);
    if (r < 0)
        c->what = "copy";
    cmd_copy_xattrs(in, out);
    if (r == 0) {
        r = copy_set_attributes(c, out, &st);
        c->what = "set mode, owner or times";
    }
    if (close(out) < 0 && errno != EINTR && r == 0)
        r = copy_fail(c, -errno, "copy");
    (void)close(in);
    return r;
}

static int copy_link(struct copy *c, int from_dir, const char *from, int to_dir, const char *to,
                     const struct stat *st)
{
    static char target[FILE_PATH_MAX + 1];
    ssize_t n = readlinkat(from_dir, from, target, sizeof(target) - 1);

    if (n < 0)
        return copy_fail(c, -errno, "read link");
    target[n] = '\0';
    if (symlinkat(target, to_dir, to) < 0)
        return copy_fail(c, -errno, "make link");
    return copy_set_attributes_at(c, to_dir, to, st);
}

static int copy_node(struct copy *c, int to_dir, const char *to, const struct stat *st)
{
    /* The others are devices: a copy would give access to the device. */
    if (!S_ISFIFO(st->st_mode) && !S_ISSOCK(st->st_mode))
        return copy_fail(c, -EPERM, "a device");
    if (mknodat(to_dir, to, st->st_mode & (S_IFMT | 07777), 0) < 0)
        return copy_fail(c, -errno, "make node");
    return copy_set_attributes_at(c, to_dir, to, st);
}

/* Copies anything but a directory. path: of the entry, for further names of the file. */
static int copy_leaf(struct copy *c, int from_dir, const char *from, int to_dir, const char *to,
                     const struct stat *st, const char *path)
{
    const char *first = NULL;
    int r = copy_remove_target(c, to_dir, to);

    if (r < 0)
        return copy_fail(c, r, "replace");
    if (st->st_nlink > 1 && c->to_top >= 0)
        first = links_seen(&c->links, st, path);
    if (first != NULL && linkat(c->to_top, first, to_dir, to, 0) == 0)
        return 0;
    if (S_ISREG(st->st_mode))
        return copy_file(c, from_dir, from, to_dir, to, st);
    if (S_ISLNK(st->st_mode))
        return copy_link(c, from_dir, from, to_dir, to, st);
    return copy_node(c, to_dir, to, st);
}

/* ---- directories ---- */

static int copy_make_dir(const struct copy *c, int dirfd, const char *name)
{
    if (mkdirat(dirfd, name, 0700) < 0 && (errno != EEXIST || !c->replace))
        return -errno;
    return cmd_open_at(dirfd, name, O_RDONLY | O_DIRECTORY, 0);
}

static int copy_enter_dir(struct copy *c)
{
    unsigned level = c->walk.depth;
    int fd, r;

    if (c->walk.st.st_dev == c->to_dev && c->walk.st.st_ino == c->to_ino)
        return copy_fail(c, -EINVAL, "the target is inside of what is copied");
    fd = copy_make_dir(c, c->to[level - 1], c->walk.name);
    if (fd < 0)
        return copy_fail(c, fd, "make directory");
    r = walk_enter(&c->walk);
    if (r < 0) {
        (void)close(fd);
        return copy_fail(c, r, "enter");
    }
    cmd_copy_xattrs(walk_dir(&c->walk), fd);
    c->to[level] = fd;
    c->dirs[level] = c->walk.st;
    return 0;
}

static int copy_leave_dir(struct copy *c, unsigned level)
{
    int r;

    r = copy_set_attributes(c, c->to[level], &c->dirs[level]);
    (void)close(c->to[level]);
    return r < 0 ? copy_fail(c, r, "set mode, owner or times") : 0;
}

static int copy_entry(struct copy *c)
{
    struct walk *w = &c->walk;
    int r;

    if (w->error < 0)
        return copy_fail(c, w->error, "stat");
    if (S_ISDIR(w->st.st_mode))
        return copy_enter_dir(c);
    r = copy_leaf(c, w->dirfd, w->name, c->to[w->depth - 1], w->name, &w->st, w->path);
    /* The entry has vanished: as if it had never existed. */
    return r == -ENOENT ? 0 : r;
}

/* Copies the contents of the directory fd, which it takes, to c->to[0]. */
static int copy_contained(struct copy *c, int fd)
{
    int r;

    walk_init(&c->walk, fd);
    while ((r = walk_next(&c->walk)) > 0) {
        r = r == WALK_LEAVE ? copy_leave_dir(c, c->walk.depth) : copy_entry(c);
        if (r < 0)
            return r;
    }
    return r < 0 ? copy_fail(c, r, "list") : 0;
}

static int copy_dir(struct copy *c, int from_dir, const char *from, int to_dir, const char *to)
{
    int fd = cmd_open_at(from_dir, from, O_RDONLY | O_DIRECTORY, 0), r;
    struct stat st;

    if (fd < 0 || fstat(fd, &c->dirs[0]) < 0)
        return copy_fail(c, fd < 0 ? fd : -errno, "open directory");
    c->to[0] = copy_make_dir(c, to_dir, to);
    if (c->to[0] < 0 || fstat(c->to[0], &st) < 0)
        return copy_fail(c, c->to[0] < 0 ? c->to[0] : -errno, "make directory");
    if (st.st_dev == c->dirs[0].st_dev && st.st_ino == c->dirs[0].st_ino)
        return copy_fail(c, -EINVAL, "source and target are the same");
    c->to_top = c->to[0];
    c->to_dev = st.st_dev;
    c->to_ino = st.st_ino;
    cmd_copy_xattrs(fd, c->to[0]);
    r = copy_contained(c, fd);
    if (r < 0)
        return r;
    r = copy_set_attributes(c, c->to[0], &c->dirs[0]);
    return r < 0 ? copy_fail(c, r, "set mode, owner or times") : 0;
}

int copy_tree(int from_dir, const char *from, int to_dir, const char *to, bool replace,
              const char **ret_what, const char **ret_path)
{
    static struct copy c; /* not initialised here, so that the buffers are in .bss */
    struct stat st, there;
    int r;

    c.to_top = -1;
    c.replace = replace;
    c.root = geteuid() == 0;
    (void)umask(0);
    *ret_path = c.walk.path;
    if (fstatat(from_dir, from, &st, AT_SYMLINK_NOFOLLOW) < 0)
        r = copy_fail(&c, -errno, "stat");
    else if (S_ISDIR(st.st_mode))
        r = copy_dir(&c, from_dir, from, to_dir, to);
    else if (fstatat(to_dir, to, &there, AT_SYMLINK_NOFOLLOW) == 0 && there.st_dev == st.st_dev &&
             there.st_ino == st.st_ino)
        r = copy_fail(&c, -EINVAL, "source and target are the same");
    else
        r = copy_leaf(&c, from_dir, from, to_dir, to, &st, "");
    *ret_what = c.what;
    return r;
}
