/* Files of the layers below, for unpack.c: copying a directory's attributes, and copying a file up.
 * Runs in B of worker.c. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "proto/syscalls.h"
#include "unpack-internal.h"

/* Opens (O_PATH) `path` as the layers below show it. -ENOENT. */
static int lower_open(const struct unpack *u, const char *path, int *ret_fd, size_t *ret_parent,
                      struct stat *ret)
{
    for (size_t i = 0; i < u->o->parent_count; i++) {
        auto_close int fd = sys_openat2(u->o->parents[i], path, O_PATH | O_NOFOLLOW, 0, OPEN_PLAIN);

        if (fd == -ENOENT)
            continue;
        if (fd == -ELOOP || fd == -ENOTDIR)
            return -ENOENT; /* another file there hides the layers below it */
        if (fd < 0)
            return fd;
        if (fstat(fd, ret) < 0)
            return -errno;
        if (is_whiteout(ret))
            return -ENOENT;
        *ret_fd = take_fd(&fd);
        *ret_parent = i;
        return 0;
    }
    return -ENOENT;
}

int lower_copy_directory(struct unpack *u, const char *path, int fd, struct err *err)
{
    auto_close int below = FD_NONE, readable = FD_NONE;
    struct facts facts;
    size_t parent;
    struct stat st;
    struct dir *d;
    int r;

    r = lower_open(u, path, &below, &parent, &st);
    if (r == -ENOENT || (r == 0 && !S_ISDIR(st.st_mode)))
        return 0;
    if (r < 0)
        return err_errno(err, r, "%s in a layer below", path);
    facts = meta_of_stat(&st);
    r = meta_apply(u, fd, NULL, &facts, false, err);
    if (r < 0)
        return r;
    d = dirs_get(&u->dirs, path);
    if (d == NULL)
        return err_errno(err, -ENOMEM, "remember %s", path);
    d->atime = facts.atime;
    d->mtime = facts.mtime;
    d->has_times = true;
    readable = openat(below, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (readable < 0)
        return err_errno(err, -errno, "%s in a layer below", path);
    return meta_copy_xattrs(u, readable, fd, err);
}

static int lower_copy_contents(int from, int to, uint64_t size)
{
    char buf[65536];
    uint64_t left = size;

    while (left > 0) {
        ssize_t n = read(from, buf, left < sizeof(buf) ? (size_t)left : sizeof(buf));
        int r;

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            return -EIO; /* layers are immutable */
        r = write_all(to, buf, (size_t)n);
        if (r < 0)
            return r;
        left -= (uint64_t)n;
    }
    return 0;
}

static int lower_copy_link(struct unpack *u, int below, const char *name, const struct facts *facts,
                           struct err *err)
{
    char target[PATH_ROOM];
    ssize_t n = readlinkat(below, "", target, sizeof(target));

    if (n < 0 || n >= PATH_ROOM)
        return err_errno(err, n < 0 ? -errno : -ENAMETOOLONG, "a link in a layer below");
    target[n] = '\0';
    if (symlinkat(target, u->parent_fd, name) < 0)
        return err_errno(err, -errno, "copy a link of a layer below");
    return meta_apply_link(u, name, facts, err);
}

static int lower_copy_file(struct unpack *u, const char *path, size_t parent, const char *name,
                           const struct stat *st, struct err *err)
{
    const struct facts facts = meta_of_stat(st);
    auto_close int from = FD_NONE, to = FD_NONE;
    int r;

    r = count_size(u, (uint64_t)st->st_size, err);
    if (r < 0)
        return r;
    from = sys_openat2(u->o->parents[parent], path, O_RDONLY | O_NONBLOCK, 0, OPEN_PLAIN);
    if (from < 0)
        return err_errno(err, from, "open the file in a layer below");
    to = openat(u->parent_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (to < 0)
        return err_errno(err, -errno, "copy a file of a layer below");
    r = lower_copy_contents(from, to, (uint64_t)st->st_size);
    if (r < 0)
        return err_errno(err, r, "copy a file of a layer below");
    /* The owner is set first: fchown clears capabilities. */
    r = meta_apply(u, to, NULL, &facts, false, err);
    return r < 0 ? r : meta_copy_xattrs(u, from, to, err);
}

int lower_copy_up(struct unpack *u, const char *path, struct err *err)
{
    char parent_path[PATH_ROOM];
    auto_close int below = FD_NONE;
    const char *name = path_split(path, parent_path);
    struct facts facts;
    struct stat st;
    size_t parent;
    int r;

    u->result->of_parents = true;
    r = lower_open(u, path, &below, &parent, &st);
    if (r < 0)
        return r;
    if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
        return -EPERM;
    r = count_entry(u, err);
    if (r < 0)
        return r;
    r = parent_enter(u, parent_path, false, err);
    if (r < 0)
        return r;
    facts = meta_of_stat(&st);
    return S_ISLNK(st.st_mode) ? lower_copy_link(u, below, name, &facts, err)
                               : lower_copy_file(u, path, parent, name, &st, err);
}
