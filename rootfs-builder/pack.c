/* The walk is a stack of levels: for each directory above the current entry its sorted names, read
 * when it is entered. Only the deepest level has an open fd. A directory is opened again by its
 * path, through no link, when the walk returns to it. */
#include "pack.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "pack-internal.h"
#include "proto/syscalls.h"
#include "xattrs.h"

enum { END_BLOCKS = 2 };

static int packer_too_many(const struct packer *p, struct err *err)
{
    return err_set(err, -E2BIG, "more than %" PRIu64 " entries", p->o->entries);
}

static int packer_count(struct packer *p, struct err *err)
{
    if (p->result->entries >= p->o->entries)
        return packer_too_many(p, err);
    p->result->entries++;
    if (p->o->shown != NULL)
        *p->o->shown = p->result->entries;
    return 0;
}

/* Sets the item's name: prefix + path. */
static int packer_set_name(struct packer *p, const char *path, struct err *err)
{
    size_t a = strlen(p->o->prefix), b = strlen(path);

    if (a + b == 0 || a + b > FILE_PATH_MAX)
        return err_errno(err, -ENAMETOOLONG, "its name");
    (void)memcpy(p->item.name, p->o->prefix, a);
    (void)memcpy(p->item.name + a, path, b + 1);
    /* tar_put_item appends the slash of a directory itself. */
    if (p->item.name[a + b - 1] == '/')
        p->item.name[a + b - 1] = '\0';
    return 0;
}

static int packer_start_item(struct packer *p, const char *path, const struct stat *st,
                             enum tar_kind kind, struct err *err)
{
    p->item.kind = kind;
    p->item.mode = st->st_mode & 07777;
    p->item.uid = st->st_uid;
    p->item.gid = st->st_gid;
    p->item.dev_major = p->item.dev_minor = 0;
    p->item.size = 0;
    p->item.mtime = st->st_mtim.tv_sec;
    p->item.mtime_ns = (uint32_t)st->st_mtim.tv_nsec;
    p->item.sparse = false;
    p->item.link[0] = '\0';
    p->item.xattr_count = 0;
    return packer_set_name(p, path, err);
}

/* Adds an attribute; its value is appended to xattr_values. */
static int packer_add_xattr(struct packer *p, int fd, const char *name, size_t *used,
                            struct err *err)
{
    ssize_t n = fgetxattr(fd, name, p->xattr_values + *used, sizeof(p->xattr_values) - *used);

    if (n < 0 && errno != ERANGE)
        return 0; /* removed meanwhile */
    if (n < 0 || p->item.xattr_count == TAR_XATTRS_MAX)
        return err_errno(err, -E2BIG, "its attributes");
    p->item.xattrs[p->item.xattr_count++] =
        (struct tar_xattr){.name = name, .value = p->xattr_values + *used, .len = (size_t)n};
    *used += (size_t)n;
    return 0;
}

static int xattr_compare(const void *a, const void *b)
{
    return strcmp(((const struct tar_xattr *)a)->name, ((const struct tar_xattr *)b)->name);
}

static int packer_add_xattrs(struct packer *p, int fd, struct err *err)
{
    ssize_t len = flistxattr(fd, p->xattr_names, sizeof(p->xattr_names));
    size_t used = 0;
    int r = 0;

    if (len < 0)
        return errno == EOPNOTSUPP ? 0 : err_errno(err, -errno, "its attributes");
    for (const char *name = p->xattr_names; r == 0 && name < p->xattr_names + len;
         name += strlen(name) + 1) {
        if (xattr_is_carried(name))
            r = packer_add_xattr(p, fd, name, &used, err);
        else
            p->result->xattrs++;
    }
    if (p->item.xattr_count > 1)
        qsort(p->item.xattrs, p->item.xattr_count, sizeof(p->item.xattrs[0]), xattr_compare);
    return r;
}

/* ---- one entry ---- */

/* Packs another name of a file that has been packed as a hard link. Returns 1 if it was one. */
static int pack_if_linked(struct packer *p, const struct stat *st, struct err *err)
{
    const char *first;
    int r;

    if (st->st_nlink < 2)
        return 0;
    r = links_find(&p->links, st, p->item.name, &first);
    if (r < 0)
        return err_errno(err, r, "remember it");
    if (first == NULL)
        return 0;
    p->item.kind = TAR_HARD_LINK;
    (void)snprintf(p->item.link, sizeof(p->item.link), "%s", first);
    r = put_item(p, err);
    return r < 0 ? r : 1;
}

static int pack_file(struct packer *p, int dir_fd, const char *name, struct err *err)
{
    auto_close int fd =
        openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;
    int r;

    if (fd < 0)
        return errno == ENOENT ? 0 : err_errno(err, -errno, "open");
    if (fstat(fd, &st) < 0)
        return err_errno(err, -errno, "stat");
    if (!S_ISREG(st.st_mode))
        return err_set(err, -EBUSY, "it changes while it is packed");
    r = packer_start_item(p, p->path, &st, TAR_REGULAR, err);
    if (r == 0)
        r = pack_if_linked(p, &st, err);
    if (r != 0)
        return r < 0 ? r : 0;
    if ((uint64_t)st.st_size > p->o->files - p->result->files)
        return err_set(err, -EFBIG, "files of more than %" PRIu64 " bytes", p->o->files);
    p->result->files += (uint64_t)st.st_size;
    r = packer_add_xattrs(p, fd, err);
    return r < 0 ? r : put_file(p, fd, &st, err);
}

static int pack_symlink(struct packer *p, int dir_fd, const char *name, const struct stat *st,
                        struct err *err)
{
    ssize_t n;
    int r;

    r = packer_start_item(p, p->path, st, TAR_SYMBOLIC, err);
    if (r < 0)
        return r;
    p->item.mode = 0777;
    r = pack_if_linked(p, st, err);
    if (r != 0)
        return r < 0 ? r : 0;
    n = readlinkat(dir_fd, name, p->item.link, sizeof(p->item.link));
    if (n < 0)
        return errno == ENOENT ? 0 : err_errno(err, -errno, "read the link");
    if ((size_t)n >= sizeof(p->item.link))
        return err_errno(err, -ENAMETOOLONG, "read the link");
    p->item.link[n] = '\0';
    return put_item(p, err);
}

static int pack_fifo(struct packer *p, const struct stat *st, struct err *err)
{
    int r = packer_start_item(p, p->path, st, TAR_PIPE, err);

    if (r == 0)
        r = pack_if_linked(p, st, err);
    return r != 0 ? (r < 0 ? r : 0) : put_item(p, err);
}

/* Packs an empty file that represents a whiteout or an opaque mark, in the directory
 * path[0..dir_len]. Its times are 0: the time of a deletion is not recorded and would make archives
 * differ. */
static int pack_mark(struct packer *p, size_t dir_len, const char *mark, const char *name,
                     struct err *err)
{
    const struct stat nothing = {.st_mode = S_IFREG | 0600};
    char path[PATH_ROOM];
    size_t len = dir_len + (dir_len > 0) + strlen(mark) + strlen(name);
    int r = packer_count(p, err);

    if (r < 0)
        return r;
    if (len > WORKER_PATH_MAX)
        return err_errno(err, -ENAMETOOLONG, "its whiteout");
    (void)snprintf(path, sizeof(path), "%.*s%s%s%s", (int)dir_len, p->path, dir_len > 0 ? "/" : "",
                   mark, name);
    r = packer_start_item(p, path, &nothing, TAR_REGULAR, err);
    return r < 0 ? r : put_item(p, err);
}

/* ---- directories ---- */

static void level_done(struct level *l)
{
    names_done(&l->names);
    if (l->fd >= 0)
        (void)close(l->fd);
    l->fd = FD_NONE;
}

/* Enters the directory p->path. Takes ownership of fd. */
static int packer_push_level(struct packer *p, int fd, struct err *err)
{
    struct level l = {.fd = fd, .path_len = strlen(p->path)};
    int r;

    if (p->depth == p->cap) {
        size_t cap = p->cap > 0 ? p->cap * 2 : 32;
        struct level *levels = realloc(p->levels, cap * sizeof(*levels));

        if (levels == NULL) {
            level_done(&l);
            return err_errno(err, -ENOMEM, "go deeper");
        }
        p->levels = levels;
        p->cap = cap;
    }
    r = names_read(&l.names, fd, p->o->entries - p->result->entries);
    if (r < 0) {
        level_done(&l);
        return r == -E2BIG ? packer_too_many(p, err) : err_errno(err, r, "read the directory");
    }
    /* One open fd is enough: the level above is opened again later. */
    if (p->depth > 0) {
        (void)close(p->levels[p->depth - 1].fd);
        p->levels[p->depth - 1].fd = FD_NONE;
    }
    p->levels[p->depth++] = l;
    return 0;
}

/* Packs the entry of a directory with its attributes. */
static int pack_directory_entry(struct packer *p, int fd, const char *as, struct err *err)
{
    struct stat st;
    int r;

    if (fstat(fd, &st) < 0)
        return err_errno(err, -errno, "stat");
    r = packer_start_item(p, as, &st, TAR_DIRECTORY, err);
    if (r == 0)
        r = packer_add_xattrs(p, fd, err);
    return r < 0 ? r : put_item(p, err);
}

static int packer_enter_directory(struct packer *p, int dir_fd, const char *name, struct err *err)
{
    auto_close int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r;

    if (fd < 0)
        return errno == ENOENT ? 0 : err_errno(err, -errno, "open");
    r = pack_directory_entry(p, fd, p->path, err);
    if (r == 0 && p->o->overlay && opaque_has(&p->opaque, p->path))
        r = pack_mark(p, strlen(p->path), WHITEOUT_OPAQUE, "", err);
    return r < 0 ? r : packer_push_level(p, take_fd(&fd), err);
}

static int pack_device(struct packer *p, const char *name, size_t dir_len, const struct stat *st,
                       struct err *err)
{
    if (p->o->overlay && S_ISCHR(st->st_mode) && st->st_rdev == 0) {
        p->result->entries--; /* pack_mark counts it */
        return pack_mark(p, dir_len, WHITEOUT, name, err);
    }
    p->result->devices++;
    return 0;
}

/* p->path is the entry `name` of the directory. */
static int pack_entry(struct packer *p, int dir_fd, const char *name, size_t dir_len,
                      struct err *err)
{
    struct stat st;
    int r;

    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : err_errno(err, -errno, "stat");
    r = packer_count(p, err);
    if (r < 0)
        return r;
    switch (st.st_mode & S_IFMT) {
    case S_IFREG:
        return pack_file(p, dir_fd, name, err);
    case S_IFDIR:
        return packer_enter_directory(p, dir_fd, name, err);
    case S_IFLNK:
        return pack_symlink(p, dir_fd, name, &st, err);
    case S_IFIFO:
        return pack_fifo(p, &st, err);
    default: /* devices and sockets */
        return pack_device(p, name, dir_len, &st, err);
    }
}

/* Packs the next name of the deepest level, or returns to the level above. */
static int packer_step(struct packer *p, struct err *err)
{
    struct level *l = &p->levels[p->depth - 1];
    const char *name;
    size_t len;

    p->path[l->path_len] = '\0';
    if (l->names.next == l->names.count) {
        level_done(l);
        p->depth--;
        return 0;
    }
    if (l->fd < 0)
        l->fd = sys_openat2(p->root_fd, l->path_len > 0 ? p->path : ".", O_RDONLY | O_DIRECTORY, 0,
                            OPEN_PLAIN);
    if (l->fd < 0)
        return err_errno(err, l->fd, "open it again");
    name = l->names.items[l->names.next++];
    len = strlen(name);
    if (l->path_len + 1 + len > WORKER_PATH_MAX)
        return err_errno(err, -ENAMETOOLONG, "%.64s in it", name);
    if (l->path_len > 0)
        p->path[l->path_len] = '/';
    (void)memcpy(p->path + l->path_len + (l->path_len > 0), name, len + 1);
    return pack_entry(p, l->fd, name, l->path_len, err);
}

static int packer_put_end(struct packer *p, struct err *err)
{
    static const uint8_t zeros[TAR_RECORD + 2 * TAR_BLOCK];
    size_t len = (size_t)END_BLOCKS * TAR_BLOCK;

    return put_bytes(
        p, zeros, len + (TAR_RECORD - (size_t)((p->written + len) % TAR_RECORD)) % TAR_RECORD, err);
}

static int pack_all(struct packer *p, struct err *err)
{
    int fd = openat(p->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;

    if (fd < 0)
        return err_errno(err, -errno, "open it");
    r = p->o->root_entry ? packer_count(p, err) : 0;
    if (r == 0 && p->o->root_entry)
        r = pack_directory_entry(p, fd, p->o->prefix[0] != '\0' ? "" : "./", err);
    if (r == 0 && p->o->overlay && opaque_has(&p->opaque, ""))
        r = pack_mark(p, 0, WHITEOUT_OPAQUE, "", err);
    if (r < 0)
        (void)close(fd);
    else
        r = packer_push_level(p, fd, err);
    while (r == 0 && p->depth > 0)
        r = packer_step(p, err);
    return r < 0 ? r : packer_put_end(p, err);
}

/* ---- beginning and end ---- */

static int packer_open_root(struct packer *p, struct err *err)
{
    const char *sub = p->o->sub[0] != '\0' ? p->o->sub : ".";

    p->root_fd = sys_openat2(p->o->tree_fd, sub, O_RDONLY | O_DIRECTORY, 0,
                             RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
    return p->root_fd < 0 ? err_errno(err, p->root_fd, "%s", sub) : 0;
}

int tree_pack(const struct pack_options *o, const struct pack_sink *sink, struct pack_result *ret,
              char *reterr_entry, struct err *err)
{
    struct packer *p = calloc(1, sizeof(*p));
    int r;

    reterr_entry[0] = '\0';
    *ret = (struct pack_result){.files = 0};
    if (p == NULL)
        return err_errno(err, -ENOMEM, "pack");
    p->o = o;
    p->sink = sink;
    p->result = ret;
    p->root_fd = FD_NONE;
    r = packer_open_root(p, err);
    if (r == 0)
        r = opaque_index(&p->opaque, o->opaque, o->opaque_len, err);
    if (r == 0)
        r = pack_all(p, err);
    if (r < 0)
        path_copy(reterr_entry, p->path);
    while (p->depth > 0)
        level_done(&p->levels[--p->depth]);
    free(p->levels);
    opaque_done(&p->opaque);
    links_done(&p->links);
    if (p->root_fd >= 0)
        (void)close(p->root_fd);
    free(p);
    return r;
}
