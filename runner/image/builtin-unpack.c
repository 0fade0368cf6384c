#include "image/builtin-unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "proto/syscalls.h"
#include "proto/tar.h"

enum { PIECE = 64 << 10 };

struct layer_unpack {
    int dirfd;                 /* borrowed; the destination */
    const unsigned char *data; /* borrowed; the part of the archive that has not been read */
    size_t len;
    struct tar_in in;
    struct tar_item item;
    char path[FILE_PATH_MAX + 1]; /* the item's name, normalized */
    char piece[PIECE];
};

static ssize_t on_tar_read(void *data, void *buf, size_t len)
{
    struct layer_unpack *u = data;

    if (len > u->len)
        len = u->len;
    (void)memcpy(buf, u->data, len);
    u->data += len;
    u->len -= len;
    return (ssize_t)len;
}

/* Returns the fd of the parent directory, owned by the caller, and the path's last component. */
static int unpack_open_parent(struct layer_unpack *u, const char **ret_last)
{
    const char *slash = strrchr(u->path, '/');
    char parent[FILE_PATH_MAX + 1] = ".";

    *ret_last = slash == NULL ? u->path : slash + 1;
    if (slash != NULL)
        (void)snprintf(parent, sizeof(parent), "%.*s", (int)(slash - u->path), u->path);
    return sys_openat2(u->dirfd, parent, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0, OPEN_PLAIN);
}

static int set_attributes(int fd, const struct tar_item *item)
{
    struct timespec times[2] = {{.tv_sec = item->mtime}, {.tv_sec = item->mtime}};

    /* chown clears mode bits, so chmod follows. */
    if (fchown(fd, item->uid, item->gid) < 0 || fchmod(fd, item->mode) < 0 ||
        futimens(fd, times) < 0)
        return -errno;
    return 0;
}

static int unpack_make_file(struct layer_unpack *u, int parent, const char *last)
{
    auto_close int fd = FD_NONE;
    ssize_t n;
    int r = 0;

    fd = openat(parent, last, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    while (r == 0 && (n = tar_read_data(&u->in, u->piece, sizeof(u->piece))) != 0)
        r = n < 0 ? (int)n : write_all(fd, u->piece, (size_t)n);
    return r < 0 ? r : set_attributes(fd, &u->item);
}

static int unpack_make_symlink(struct layer_unpack *u, int parent, const char *last)
{
    const struct tar_item *item = &u->item;
    struct timespec times[2] = {{.tv_sec = item->mtime}, {.tv_sec = item->mtime}};

    if (symlinkat(item->link, parent, last) < 0 ||
        fchownat(parent, last, item->uid, item->gid, AT_SYMLINK_NOFOLLOW) < 0 ||
        utimensat(parent, last, times, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return 0;
}

static int unpack_make_entry(struct layer_unpack *u)
{
    auto_close int parent = FD_NONE;
    const char *last;

    parent = unpack_open_parent(u, &last);
    if (parent < 0)
        return parent;
    if (u->item.kind == TAR_REGULAR)
        return unpack_make_file(u, parent, last);
    if (u->item.kind == TAR_SYMBOLIC)
        return unpack_make_symlink(u, parent, last);
    /* unpack_finish_entry sets the final mode, when the directory is complete. */
    return mkdirat(parent, last, 0700) < 0 ? -errno : 0;
}

/*
 * Second pass: sets directories' attributes, and syncs everything. The first fsync writes most of
 * the data.
 */
static int unpack_finish_entry(struct layer_unpack *u)
{
    auto_close int fd = FD_NONE;
    int r = 0;

    if (u->item.kind == TAR_SYMBOLIC)
        return 0;
    fd = sys_openat2(u->dirfd, u->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, OPEN_PLAIN);
    if (fd < 0)
        return fd;
    if (u->item.kind == TAR_DIRECTORY)
        r = set_attributes(fd, &u->item);
    if (r < 0)
        return r;
    return fsync(fd) < 0 ? -errno : 0;
}

/* Refuses an item that ustar.py never writes, and normalizes its name. */
static int unpack_check(struct layer_unpack *u, struct err *err)
{
    const struct tar_item *item = &u->item;

    if (tar_clean_name(item->name, u->path) < 0 || u->path[0] == '\0')
        return err_set(err, -EBADMSG, "archive: %s: not a relative path below the top", item->name);
    if (item->kind != TAR_REGULAR && item->kind != TAR_SYMBOLIC && item->kind != TAR_DIRECTORY)
        return err_set(err, -EBADMSG, "archive: %s: not a file, directory or symbolic link",
                       u->path);
    if ((item->mode & (S_ISUID | S_ISGID)) != 0)
        return err_set(err, -EBADMSG, "archive: %s: a set-id bit", u->path);
    return 0;
}

static int unpack_pass(struct layer_unpack *u, int (*do_entry)(struct layer_unpack *),
                       struct err *err)
{
    int r, failed;

    while ((r = tar_read(&u->in, &u->item)) > 0) {
        r = unpack_check(u, err);
        if (r < 0)
            return r;
        failed = do_entry(u);
        if (failed < 0)
            return err_errno(err, failed, "%s", u->path);
    }
    return r < 0 ? err_set(err, r, "archive: %s", u->in.why) : 0;
}

int builtin_unpack(int dirfd, const void *data, size_t len, struct err *err)
{
    static int (*const passes[])(struct layer_unpack *) = {unpack_make_entry, unpack_finish_entry};
    int r = 0;

    for (size_t i = 0; r == 0 && i < sizeof(passes) / sizeof(passes[0]); i++) {
        auto_free struct layer_unpack *u = calloc(1, sizeof(*u));

        if (u == NULL)
            return err_errno(err, -ENOMEM, "archive");
        u->dirfd = dirfd;
        u->data = data;
        u->len = len;
        u->in.read = on_tar_read;
        u->in.data = u;
        r = unpack_pass(u, passes[i], err);
    }
    return r;
}
