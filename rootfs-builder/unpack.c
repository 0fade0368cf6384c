/* Each entry is made in its parent directory, which stays open for the next one. Files are opened
 * with O_EXCL; an existing file is noticed by EEXIST and removed. Times of directories are set at
 * the end. */
#include "unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "proto/syscalls.h"
#include "unpack-internal.h"

int count_entry(struct unpack *u, struct err *err)
{
    if (u->result->entries >= u->o->entries)
        return err_set(err, -E2BIG, "more than %" PRIu64 " entries", u->o->entries);
    u->result->entries++;
    if (u->o->shown != NULL)
        *u->o->shown = u->result->entries;
    return 0;
}

int count_size(struct unpack *u, uint64_t size, struct err *err)
{
    if (size > u->o->files - u->result->files)
        return err_set(err, -EFBIG, "files of more than %" PRIu64 " bytes", u->o->files);
    u->result->files += size;
    return 0;
}

/* Removes an existing file, to make another. *ret_whiteout: it was a whiteout. */
static int unpack_clear(struct unpack *u, const char *name, bool *ret_whiteout, struct err *err)
{
    int r = parent_clear(u, name, ret_whiteout);

    return r < 0 && r != -ENOENT ? err_errno(err, r, "replace what is there") : 0;
}

static int write_piece(int fd, const void *data, size_t len, uint64_t at, uint64_t *pos)
{
    if (at != *pos && lseek(fd, (off_t)at, SEEK_SET) < 0)
        return -errno;
    *pos = at + len;
    return write_all(fd, data, len);
}

static int write_contents(struct unpack *u, int fd, uint64_t size, struct err *err)
{
    uint64_t pos = 0, at = 0;
    const void *data = NULL;
    size_t len = 0;
    int r;

    while ((r = tarball_data(u->t, &data, &len, &at, err)) > 0) {
        if (at > size || len > size - at || at < pos)
            return err_set(err, -EBADMSG, "contents beyond its size");
        r = write_piece(fd, data, len, at, &pos);
        if (r < 0)
            return err_errno(err, r, "write");
    }
    if (r < 0)
        return r;
    /* The rest is a hole. */
    if (pos < size && ftruncate(fd, (off_t)size) < 0)
        return err_errno(err, -errno, "set its size");
    return 0;
}

static int create_file(struct unpack *u, const char *name, mode_t mode, struct err *err)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(u->parent_fd, name, flags, mode & 0777);
    bool whiteout;
    int r;

    if (fd >= 0)
        return fd;
    if (errno != EEXIST)
        return err_errno(err, -errno, "create");
    r = unpack_clear(u, name, &whiteout, err);
    if (r < 0)
        return r;
    fd = openat(u->parent_fd, name, flags, mode & 0777);
    return fd < 0 ? err_errno(err, -errno, "create") : fd;
}

static int make_file(struct unpack *u, const struct entry *e, const char *name, struct err *err)
{
    const struct facts facts = meta_of_entry(e);
    auto_close int fd = FD_NONE;
    int r;

    r = count_size(u, e->size, err);
    if (r < 0)
        return r;
    fd = create_file(u, name, e->mode, err);
    if (fd < 0)
        return fd;
    r = write_contents(u, fd, e->size, err);
    if (r < 0)
        return r;
    /* ACLs are set before the mode, which overrides their common part; all after the owner, because
     * chown clears capabilities. */
    if (e->has_xattrs) {
        r = meta_apply(u, fd, NULL, &facts, false, err);
        if (r == 0)
            r = meta_xattrs(u, fd, err);
        if (r == 0 && fchmod(fd, facts.mode) < 0)
            r = err_errno(err, -errno, "set mode");
        return r;
    }
    return meta_apply(u, fd, NULL, &facts, true, err);
}

/* Records the attributes of a directory that has an entry. */
static int directory_record(struct unpack *u, const char *path, const struct facts *facts,
                            bool opaque, struct err *err)
{
    struct dir *d = dirs_get(&u->dirs, path);

    if (d == NULL)
        return err_errno(err, -ENOMEM, "remember %s", path);
    d->atime = facts->atime;
    d->mtime = facts->mtime;
    d->has_times = true;
    d->implied = false;
    d->opaque |= opaque;
    return 0;
}

/* Sets the attributes of a directory, which need an fd; the mode after them, as for files. */
static int directory_xattrs(struct unpack *u, int parent_fd, const char *name, mode_t mode,
                            struct err *err)
{
    auto_close int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r;

    if (fd < 0)
        return err_errno(err, -errno, "open");
    r = meta_xattrs(u, fd, err);
    if (r == 0 && fchmod(fd, mode) < 0)
        r = err_errno(err, -errno, "set mode");
    return r;
}

static int make_directory(struct unpack *u, const struct entry *e, const char *name,
                          struct err *err)
{
    const struct facts facts = meta_of_entry(e);
    bool created = true, whiteout = false;
    char path[PATH_ROOM];
    struct stat st;
    int r;

    r = path_join(u->parent, name, path);
    if (r < 0)
        return err_errno(err, r, "its path");
    if (mkdirat(u->parent_fd, name, e->mode & 0777) < 0) {
        if (errno != EEXIST || fstatat(u->parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            return err_errno(err, -errno, "make the directory");
        created = !S_ISDIR(st.st_mode);
        if (created) {
            r = unpack_clear(u, name, &whiteout, err);
            if (r < 0)
                return r;
            if (mkdirat(u->parent_fd, name, e->mode & 0777) < 0)
                return err_errno(err, -errno, "make the directory");
        }
    }
    r = meta_apply(u, FD_NONE, name, &facts, created, err);
    if (r == 0 && e->has_xattrs)
        r = directory_xattrs(u, u->parent_fd, name, facts.mode, err);
    return r < 0 ? r : directory_record(u, path, &facts, whiteout, err);
}

/* Applies the entry of the top directory itself. */
static int unpack_apply_root(struct unpack *u, const struct entry *e, struct err *err)
{
    const struct facts facts = meta_of_entry(e);
    int r;

    r = meta_apply(u, u->root_fd, NULL, &facts, false, err);
    if (r == 0 && e->has_xattrs)
        r = directory_xattrs(u, u->root_fd, ".", facts.mode, err);
    return r < 0 ? r : directory_record(u, "", &facts, false, err);
}

static int make_symlink(struct unpack *u, const struct entry *e, const char *name, struct err *err)
{
    const struct facts facts = meta_of_entry(e);
    bool whiteout;
    int r;

    r = unpack_clear(u, name, &whiteout, err);
    if (r < 0)
        return r;
    if (symlinkat(e->link, u->parent_fd, name) < 0)
        return err_errno(err, -errno, "make the link");
    r = meta_xattrs(u, FD_NONE, err);
    return r < 0 ? r : meta_apply_link(u, name, &facts, err);
}

static int make_fifo(struct unpack *u, const struct entry *e, const char *name, struct err *err)
{
    const struct facts facts = meta_of_entry(e);
    bool whiteout;
    int r;

    r = unpack_clear(u, name, &whiteout, err);
    if (r < 0)
        return r;
    if (mknodat(u->parent_fd, name, S_IFIFO | (e->mode & 0777), 0) < 0)
        return err_errno(err, -errno, "make the pipe");
    r = meta_xattrs(u, FD_NONE, err);
    return r < 0 ? r : meta_apply(u, FD_NONE, name, &facts, true, err);
}

/* Opens (O_PATH) the directory of a hard link's target, which may not exist. */
static int open_target_parent(const struct unpack *u, const char *asked, char path[PATH_ROOM])
{
    int fd = sys_openat2(u->root_fd, asked[0] != '\0' ? asked : ".", O_PATH | O_DIRECTORY, 0,
                         OPEN_PLAIN);
    int r;

    path_copy(path, asked);
    if (fd >= 0)
        return fd;
    r = parent_resolve(u, asked, path);
    return r < 0 ? r
                 : sys_openat2(u->root_fd, path[0] != '\0' ? path : ".", O_PATH | O_DIRECTORY, 0,
                               OPEN_PLAIN);
}

/* True if `name` in dir_fd exists and is no whiteout. */
static bool entry_exists(int dir_fd, const char *name, struct stat *st)
{
    return dir_fd >= 0 && fstatat(dir_fd, name, st, AT_SYMLINK_NOFOLLOW) == 0 && !is_whiteout(st);
}

/* Finds a hard link's target in the tree, or copies it up from the layers below, as overlayfs would
 * for link(2). *ret_fd: an fd of its directory. */
static int link_find_target(struct unpack *u, const char *target, const char **ret_name,
                            int *ret_fd, struct stat *st, struct err *err)
{
    char asked[PATH_ROOM], dir_path[PATH_ROOM], path[PATH_ROOM];
    const char *name = path_split(target, asked);
    auto_close int dir = open_target_parent(u, asked, dir_path);
    int r;

    *ret_name = name;
    if (name[0] == '\0')
        return err_set(err, -EPERM, "a hard link to the top");
    if (!entry_exists(dir, name, st)) {
        r = dir == -ELOOP ? dir : path_join(dir_path, name, path);
        if (r == 0)
            r = lower_copy_up(u, path, err);
        if (r == -ENOENT)
            return err_set(err, r, "a hard link to %s, which is not there", target);
        if (r < 0)
            return err_wrap(err, r, "a hard link to %s", target);
        if (dir >= 0)
            (void)close(take_fd(&dir));
        dir = open_target_parent(u, asked, dir_path);
        if (!entry_exists(dir, name, st))
            return err_set(err, -ENOENT, "a hard link to %s, which is not there", target);
    }
    *ret_fd = take_fd(&dir);
    return 0;
}

static int make_hard_link(struct unpack *u, const struct entry *e, const char *parent,
                          const char *name, struct err *err)
{
    auto_close int dir = FD_NONE;
    char target[PATH_ROOM];
    const char *target_name;
    struct stat st, there;
    bool whiteout;
    int r;

    r = path_clean(e->link, target);
    if (r < 0)
        return err_errno(err, r, "its target");
    r = link_find_target(u, target, &target_name, &dir, &st, err);
    if (r == 0)
        r = parent_enter(u, parent, false, err);
    if (r < 0)
        return r;
    if (S_ISDIR(st.st_mode))
        return err_set(err, -EPERM, "a hard link to %s, which is a directory", target);
    if (entry_exists(u->parent_fd, name, &there) && there.st_dev == st.st_dev &&
        there.st_ino == st.st_ino)
        return 0; /* the name is that link already, or the target itself */
    r = unpack_clear(u, name, &whiteout, err);
    if (r < 0)
        return r;
    if (linkat(dir, target_name, u->parent_fd, name, 0) < 0)
        return err_errno(err, -errno, "link to %s", target);
    return 0;
}

/* Skips a device, which cannot be made in a user namespace. An existing file is removed as if it
 * had been made. */
static int unpack_skip_device(struct unpack *u, const char *name, struct err *err)
{
    bool whiteout;

    u->result->devices++;
    return unpack_clear(u, name, &whiteout, err);
}

static int unpack_apply(struct unpack *u, const struct entry *e, const char *parent,
                        const char *name, struct err *err)
{
    int r = parent_enter(u, parent, false, err);

    if (r < 0)
        return r;
    switch (e->kind) {
    case ENTRY_FILE:
        return make_file(u, e, name, err);
    case ENTRY_HARD_LINK:
        return make_hard_link(u, e, parent, name, err);
    case ENTRY_SYMBOLIC:
        return make_symlink(u, e, name, err);
    case ENTRY_DIRECTORY:
        return make_directory(u, e, name, err);
    case ENTRY_FIFO:
        return make_fifo(u, e, name, err);
    case ENTRY_CHARACTER:
    case ENTRY_BLOCK:
        return unpack_skip_device(u, name, err);
    case ENTRY_OTHER:
    case ENTRY_INVALID:
    default:
        return err_set(err, -EOPNOTSUPP, "an entry of a type that is not known");
    }
}

static int unpack_apply_entry(struct unpack *u, const struct entry *e, struct err *err)
{
    char path[PATH_ROOM], parent[PATH_ROOM];
    const char *name;
    int r;

    r = path_clean(e->name, path);
    if (r < 0)
        return err_errno(err, r, "its name");
    r = count_entry(u, err);
    if (r < 0)
        return r;
    if (path[0] == '\0') /* the top cannot become another type of file */
        return e->kind == ENTRY_DIRECTORY ? unpack_apply_root(u, e, err) : 0;
    name = path_split(path, parent);
    if (!u->o->plain && strncmp(name, WHITEOUT, strlen(WHITEOUT)) == 0)
        return whiteout_apply(u, parent, name, err);
    return unpack_apply(u, e, parent, name, err);
}

/* Comes last: no file is made in them any more. */
static int set_directory_times(struct unpack *u, struct err *err)
{
    for (size_t i = 0; i < u->dirs.count; i++) {
        const struct dir *d = &u->dirs.items[i];
        const char *path = dirs_path(&u->dirs, d);
        auto_close int fd = FD_NONE;

        if (!d->has_times)
            continue;
        fd = sys_openat2(u->root_fd, path[0] != '\0' ? path : ".",
                         O_RDONLY | O_DIRECTORY | O_NOATIME, 0, OPEN_PLAIN);
        if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
            continue; /* replaced by another type of file */
        if (fd < 0)
            return err_errno(err, fd, "%s", path);
        if (futimens(fd, (struct timespec[2]){d->atime, d->mtime}) < 0)
            return err_errno(err, -errno, "set times of %s", path);
    }
    return 0;
}

static int unpack_entries(struct unpack *u, char *entry, struct err *err)
{
    struct entry e;
    int r;

    while ((r = tarball_next(u->t, &e, err)) > 0) {
        (void)snprintf(entry, PATH_ROOM, "%s", e.name);
        r = unpack_apply_entry(u, &e, err);
        if (r < 0)
            return r;
    }
    if (r == 0)
        r = tarball_drain(u->t, err);
    if (r < 0)
        return r; /* broken after the entry that is named */
    entry[0] = '\0';
    r = set_directory_times(u, err);
    return r < 0 || u->o->plain ? r : opaque_report(u, err);
}

int tree_unpack(struct tarball *t, const struct unpack_options *o, struct unpack_result *ret,
                char *reterr_entry, struct err *err)
{
    struct unpack u = {.o = o, .t = t, .result = ret, .root_fd = FD_NONE, .parent_fd = FD_NONE};
    int r;

    *ret = (struct unpack_result){.files = 0};
    reterr_entry[0] = '\0';
    (void)umask(0);
    parent_forget(&u);
    u.root_fd = openat(o->tree_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    r = u.root_fd < 0 ? err_errno(err, -errno, "open the tree")
                      : unpack_entries(&u, reterr_entry, err);
    if (u.root_fd >= 0)
        (void)close(u.root_fd);
    if (u.parent_fd >= 0)
        (void)close(u.parent_fd);
    dirs_done(&u.dirs);
    return r;
}
