/* The archive reader behind unpack.h; runs in the client process, with the user's rights. */

#include "cli/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
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

enum {
    MODE_MAX = 0777,    /* clears set-id and sticky bits */
    DIRS_MAX = 1 << 20, /* most directories created, and files that a hard link may name */
    SHOWN_MAX = 200,    /* bytes of a name in a message */
};

struct made_dir {
    char *path; /* owned */
    mode_t mode;
    struct timespec mtime;
};

/* A file created by this run; hard links may only name such files. */
struct made_file {
    dev_t dev;
    ino_t ino;
};

struct unpack {
    int top;          /* borrowed */
    const char *only; /* borrowed */
    struct tar_in in;
    struct tar_item item;
    char path[FILE_PATH_MAX + 1]; /* normalized path of the item */
    struct made_dir *dirs;        /* owned */
    size_t dir_count, dir_cap;
    struct made_file *files; /* owned; a hash table; ino 0 = free slot */
    size_t file_count, file_cap;
    size_t skipped;
};

/* ---- created directories and files ---- */

static int note_dir(struct unpack *u)
{
    if (u->dir_count == DIRS_MAX)
        return -E2BIG;
    if (u->dir_count == u->dir_cap) {
        size_t cap = u->dir_cap * 2 + 64;
        struct made_dir *dirs = realloc(u->dirs, cap * sizeof(*dirs));

        if (dirs == NULL)
            return -ENOMEM;
        u->dirs = dirs;
        u->dir_cap = cap;
    }
    u->dirs[u->dir_count] =
        (struct made_dir){.path = strdup(u->path[0] != '\0' ? u->path : "."),
                          .mode = u->item.mode & MODE_MAX,
                          .mtime = {.tv_sec = u->item.mtime, .tv_nsec = u->item.mtime_ns}};
    if (u->dirs[u->dir_count].path == NULL)
        return -ENOMEM;
    u->dir_count++;
    return 0;
}

static struct made_file *find_slot(struct made_file *files, size_t cap, dev_t dev, ino_t ino)
{
    size_t at = (size_t)((uint64_t)ino * UINT64_C(0x9e3779b97f4a7c15) >> 20);

    for (;; at++) {
        struct made_file *f = &files[at & (cap - 1)];

        if (f->ino == 0 || (f->ino == ino && f->dev == dev))
            return f;
    }
}

static int grow_files(struct unpack *u)
{
    size_t cap = u->file_cap > 0 ? u->file_cap * 2 : 64;
    struct made_file *files = calloc(cap, sizeof(*files));

    if (files == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < u->file_cap; i++)
        if (u->files[i].ino != 0)
            *find_slot(files, cap, u->files[i].dev, u->files[i].ino) = u->files[i];
    free(u->files);
    u->files = files;
    u->file_cap = cap;
    return 0;
}

static int note_file(struct unpack *u, const struct stat *st)
{
    int r = 0;

    if (u->file_count == DIRS_MAX)
        return 0; /* the table is full; hard links to this file are refused */
    if (u->file_count * 2 >= u->file_cap)
        r = grow_files(u);
    if (r < 0)
        return r;
    *find_slot(u->files, u->file_cap, st->st_dev, st->st_ino) =
        (struct made_file){.dev = st->st_dev, .ino = st->st_ino};
    u->file_count++;
    return 0;
}

static bool is_own_file(const struct unpack *u, const struct stat *st)
{
    return u->file_cap > 0 && find_slot(u->files, u->file_cap, st->st_dev, st->st_ino)->ino != 0;
}

/* ---- paths ---- */

/* True if a normalized path is `only`, or beneath it. */
static bool is_wanted_path(const struct unpack *u, const char *path)
{
    size_t len = u->only != NULL ? strlen(u->only) : 0;

    return u->only == NULL ||
           (strncmp(path, u->only, len) == 0 && (path[len] == '\0' || path[len] == '/'));
}

/* Opens the parent directory of a normalized path; *ret_base is the last component. */
static int open_parent(const struct unpack *u, const char *path, const char **ret_base)
{
    char parent[FILE_PATH_MAX + 1];
    const char *slash = strrchr(path, '/');

    *ret_base = slash != NULL ? slash + 1 : path;
    if (slash == NULL)
        return sys_openat2(u->top, ".", O_PATH | O_DIRECTORY | O_CLOEXEC, 0, OPEN_PLAIN);
    (void)snprintf(parent, sizeof(parent), "%.*s", (int)(slash - path), path);
    return sys_openat2(u->top, parent, O_PATH | O_DIRECTORY | O_CLOEXEC, 0, OPEN_PLAIN);
}

/*
 * Removes an existing file, so that no file is written through. A directory stays, and is an error.
 */
static int make_room(int parent, const char *base)
{
    if (unlinkat(parent, base, 0) == 0 || errno == ENOENT)
        return 0;
    return -errno; /* EISDIR: a directory is not replaced */
}

/* ---- entries ---- */

static int put_dir(struct unpack *u, int parent, const char *base)
{
    struct stat st;

    if (u->path[0] == '\0')
        return 0; /* the destination directory itself */
    if (mkdirat(parent, base, 0700) == 0)
        return note_dir(u);
    if (errno != EEXIST)
        return -errno;
    if (fstatat(parent, base, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

static int fill_file(struct unpack *u, int fd)
{
    char piece[64 << 10];
    const struct timespec times[2] = {{.tv_nsec = UTIME_NOW},
                                      {.tv_sec = u->item.mtime, .tv_nsec = u->item.mtime_ns}};
    ssize_t n;
    int r = 0;

    while (r == 0 && (n = tar_read_data(&u->in, piece, sizeof(piece))) != 0)
        r = n < 0 ? (int)n : write_all(fd, piece, (size_t)n);
    if (r == 0 && fchmod(fd, u->item.mode & MODE_MAX) < 0)
        r = -errno;
    if (r == 0)
        (void)futimens(fd, times); /* ignored: the file system may not support the time */
    return r;
}

static int put_file(struct unpack *u, int parent, const char *base)
{
    auto_close int fd = FD_NONE;
    struct stat st;
    int r = make_room(parent, base);

    if (r < 0)
        return r;
    fd = openat(parent, base, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    r = fill_file(u, fd);
    if (r == 0 && fstat(fd, &st) < 0)
        r = -errno;
    if (r == 0)
        r = note_file(u, &st);
    if (r < 0)
        (void)unlinkat(parent, base, 0); /* a partial file is removed */
    return r;
}

static int put_symlink(struct unpack *u, int parent, const char *base)
{
    int r = make_room(parent, base);

    if (r < 0)
        return r;
    return symlinkat(u->item.link, parent, base) < 0 ? -errno : 0;
}

/* Creates a hard link, only to a file of this archive; an existing file gets no further name. */
static int put_hard_link(struct unpack *u, int parent, const char *base)
{
    char clean[FILE_PATH_MAX + 1];
    auto_close int target = FD_NONE;
    const char *name;
    struct stat st;
    int r = tar_clean_name(u->item.link, clean);

    if (r < 0 || clean[0] == '\0' || !is_wanted_path(u, clean))
        return -EXDEV;
    target = open_parent(u, clean, &name);
    if (target < 0)
        return target;
    if (fstatat(target, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || !is_own_file(u, &st))
        return -EXDEV;
    if (strcmp(clean, u->path) == 0)
        return 0;
    r = make_room(parent, base);
    if (r < 0)
        return r;
    return linkat(target, name, parent, base, 0) < 0 ? -errno : 0;
}

static int put_entry(struct unpack *u)
{
    auto_close int parent = FD_NONE;
    const char *base;

    parent = open_parent(u, u->path, &base);
    if (parent < 0)
        return parent;
    switch (u->item.kind) {
    case TAR_DIRECTORY:
        return put_dir(u, parent, base);
    case TAR_REGULAR:
        return u->path[0] == '\0' ? -EISDIR : put_file(u, parent, base);
    case TAR_SYMBOLIC:
        return u->path[0] == '\0' ? -EISDIR : put_symlink(u, parent, base);
    case TAR_HARD_LINK:
        return u->path[0] == '\0' ? -EISDIR : put_hard_link(u, parent, base);
    case TAR_KIND_INVALID:
    case TAR_CHARACTER:
    case TAR_BLOCK_DEVICE:
    case TAR_PIPE:
    default:
        u->skipped++;
        return 0;
    }
}

static int unpack_entry(struct unpack *u, struct err *err)
{
    size_t skipped = u->skipped;
    struct err name = ERR_NONE; /* a name with control characters replaced */
    int r = tar_clean_name(u->item.name, u->path);

    (void)err_set(&name, -EINVAL, "%.*s", SHOWN_MAX, u->item.name);
    if (r < 0 || !is_wanted_path(u, u->path))
        return err_set(err, -EXDEV,
                       "the archive holds '%s', which is not beneath what was asked for", name.msg);
    r = put_entry(u);
    if (u->skipped > skipped)
        (void)fprintf(stderr, "rind: '%s' is a device or a FIFO: left out\n", name.msg);
    if (r == -EXDEV)
        return err_set(err, r, "'%s' is a link to a file that is not in the archive", name.msg);
    return r < 0 ? err_errno(err, r, "'%s'", name.msg) : 0;
}

/* Deepest first, as a directory's final mode may forbid writing in it. */
static int finish_dirs(struct unpack *u, struct err *err)
{
    for (size_t i = u->dir_count; i-- > 0;) {
        const struct made_dir *d = &u->dirs[i];
        const struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, d->mtime};
        auto_close int fd =
            sys_openat2(u->top, d->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, OPEN_PLAIN);

        if (fd < 0)
            return err_errno(err, fd, "'%s'", d->path);
        (void)futimens(fd, times);
        if (fchmod(fd, d->mode) < 0)
            return err_errno(err, -errno, "'%s'", d->path);
    }
    return 0;
}

static void unpack_done(struct unpack *u)
{
    for (size_t i = 0; i < u->dir_count; i++)
        free(u->dirs[i].path);
    free(u->dirs);
    free(u->files);
    free(u);
}

int unpack(int dirfd, const char *only, unpack_read *read, void *data, size_t *ret_skipped,
           struct err *err)
{
    struct unpack *u = calloc(1, sizeof(*u));
    int r, finish;

    if (u == NULL)
        return err_errno(err, -ENOMEM, "unpack");
    u->top = dirfd;
    u->only = only;
    u->in.read = read;
    u->in.data = data;
    while ((r = tar_read(&u->in, &u->item)) > 0) {
        r = unpack_entry(u, err);
        if (r < 0)
            break;
    }
    if (r < 0 && err != NULL && err->code == 0)
        (void)err_set(err, r, "the archive: %s", u->in.why != NULL ? u->in.why : strerror(-r));
    finish = finish_dirs(u, r < 0 ? NULL : err); /* also after a failure */
    *ret_skipped = u->skipped;
    unpack_done(u);
    return r < 0 ? r : finish;
}
