/* The tar writer behind pack.h; runs in the client process. */

#include "cli/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/dir.h"
#include "base/err.h"
#include "proto/tar.h"

enum { PIECE = 64 << 10, MODES = 07777 };

struct pack {
    pack_put *put;
    void *data;
    struct err *err;
    size_t skipped;
    bool changed; /* a file was shorter than its header says */
    struct tar_item item;
    unsigned char head[TAR_HEAD_MAX];
    char piece[PIECE];
};

static int put_entry(struct pack *p, int dirfd, const char *base, const struct stat *st);

static int pack_error(struct pack *p, int code)
{
    return err_errno(p->err, code, "'%s'", p->item.name);
}

static int put_head(struct pack *p)
{
    ssize_t n = tar_put_item(p->head, &p->item);

    return n < 0 ? pack_error(p, (int)n) : p->put(p->data, p->head, (size_t)n, p->err);
}

static void set_facts(struct tar_item *item, enum tar_kind kind, const struct stat *st)
{
    item->kind = kind;
    item->mode = st->st_mode & MODES;
    item->uid = st->st_uid;
    item->gid = st->st_gid;
    item->size = kind == TAR_REGULAR ? (uint64_t)st->st_size : 0;
    item->mtime = st->st_mtim.tv_sec;
    item->mtime_ns = (uint32_t)st->st_mtim.tv_nsec;
    item->link[0] = '\0';
}

/* Writes as many bytes as the header says; pads a file that has shrunk with zeros. */
static int put_contents(struct pack *p, int fd)
{
    uint64_t left = p->item.size;
    size_t pad = (size_t)((TAR_BLOCK - left % TAR_BLOCK) % TAR_BLOCK);
    int r = 0;

    while (r == 0 && left > 0) {
        ssize_t n = read(fd, p->piece, left < sizeof(p->piece) ? (size_t)left : sizeof(p->piece));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return pack_error(p, -errno);
        if (n == 0) {
            n = left < sizeof(p->piece) ? (ssize_t)left : (ssize_t)sizeof(p->piece);
            (void)memset(p->piece, 0, (size_t)n);
            p->changed = true;
        }
        r = p->put(p->data, p->piece, (size_t)n, p->err);
        left -= (uint64_t)n;
    }
    (void)memset(p->piece, 0, pad);
    return r == 0 && pad > 0 ? p->put(p->data, p->piece, pad, p->err) : r;
}

static int put_file(struct pack *p, int dirfd, const char *base)
{
    auto_close int fd = openat(dirfd, base, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    int r;

    if (fd < 0)
        return pack_error(p, -errno);
    if (fstat(fd, &st) < 0)
        return pack_error(p, -errno);
    if (!S_ISREG(st.st_mode))
        return pack_error(p, -ESTALE); /* replaced by another file meanwhile */
    set_facts(&p->item, TAR_REGULAR, &st);
    r = put_head(p);
    return r == 0 ? put_contents(p, fd) : r;
}

static int put_link(struct pack *p, int dirfd, const char *base, const struct stat *st)
{
    ssize_t n;

    set_facts(&p->item, TAR_SYMBOLIC, st);
    n = readlinkat(dirfd, base, p->item.link, FILE_PATH_MAX);
    if (n < 0)
        return pack_error(p, -errno);
    p->item.link[n] = '\0';
    return put_head(p);
}

/* Writes one child of a directory, with its name appended to the item's name. */
static int put_child(struct pack *p, int dirfd, const char *base)
{
    size_t len = strlen(p->item.name), more = strlen(base);
    struct stat st;
    int r;

    if (len + 1 + more > FILE_PATH_MAX)
        return pack_error(p, -ENAMETOOLONG);
    (void)snprintf(p->item.name + len, sizeof(p->item.name) - len, "%s%s", len > 0 ? "/" : "",
                   base);
    if (fstatat(dirfd, base, &st, AT_SYMLINK_NOFOLLOW) == 0)
        r = put_entry(p, dirfd, base, &st);
    else
        r = errno == ENOENT ? 0 : pack_error(p, -errno); /* the file has vanished */
    p->item.name[len] = '\0';
    return r;
}

/* Writes a directory and its contents; takes fd. */
static int put_dir(struct pack *p, int fd)
{
    auto_ptr(dir_close) DIR *d = dir_take(fd);
    const struct dirent *e;
    struct stat st;
    int r = 0;

    if (d == NULL)
        return pack_error(p, -errno);
    if (fstat(fd, &st) < 0)
        r = pack_error(p, -errno);
    if (r == 0 && p->item.name[0] != '\0') {
        set_facts(&p->item, TAR_DIRECTORY, &st);
        r = put_head(p);
    }
    while (r == 0 && (e = dir_next(d)) != NULL)
        r = put_child(p, fd, e->d_name);
    return r == 0 && errno != 0 ? pack_error(p, -errno) : r;
}

static int put_entry(struct pack *p, int dirfd, const char *base, const struct stat *st)
{
    int fd;

    if (S_ISREG(st->st_mode))
        return put_file(p, dirfd, base);
    if (S_ISLNK(st->st_mode))
        return put_link(p, dirfd, base, st);
    if (S_ISDIR(st->st_mode)) {
        fd = openat(dirfd, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? pack_error(p, -errno) : put_dir(p, fd);
    }
    p->skipped++;
    (void)fprintf(stderr, "rind: '%s' is no file, directory or link: left out\n", p->item.name);
    return 0;
}

/* Writes the two zero blocks that end an archive. */
static int put_end(struct pack *p)
{
    (void)memset(p->piece, 0, (size_t)TAR_BLOCK * 2);
    return p->put(p->data, p->piece, (size_t)TAR_BLOCK * 2, p->err);
}

static int put_top(struct pack *p, const char *path, bool follow)
{
    struct stat st;
    int fd;

    if ((follow ? stat(path, &st) : lstat(path, &st)) < 0)
        return err_errno(p->err, -errno, "'%s'", path);
    if (!follow || !(S_ISDIR(st.st_mode) || S_ISREG(st.st_mode)))
        return put_entry(p, AT_FDCWD, path, &st);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(p->err, -errno, "'%s'", path);
    if (S_ISDIR(st.st_mode))
        return put_dir(p, fd);
    set_facts(&p->item, TAR_REGULAR, &st);

    int r = put_head(p);

    r = r == 0 ? put_contents(p, fd) : r;
    (void)close(fd);
    return r;
}

int pack(const char *path, const char *name, int follow, pack_put *put, void *data,
         size_t *ret_skipped, struct err *err)
{
    struct pack *p = calloc(1, sizeof(*p));
    int r;

    if (p == NULL)
        return err_errno(err, -ENOMEM, "pack");
    p->put = put;
    p->data = data;
    p->err = err;
    (void)snprintf(p->item.name, sizeof(p->item.name), "%s", name);
    r = put_top(p, path, follow != 0);
    if (r == 0)
        r = put_end(p);
    if (r == 0 && p->changed)
        r = err_set(err, -EIO, "'%s': files became shorter while they were read", path);
    *ret_skipped = p->skipped;
    free(p);
    return r;
}
