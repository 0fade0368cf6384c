/*
 * The command rind-tar-in: unpacks an archive below a directory. Every name is resolved beneath
 * that directory and through no link, so that neither the archive's links nor those made meanwhile
 * lead out of it. Existing files are replaced, but no directory by another type of file, and no
 * other type by a directory.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "files/cmd.h"
#include "proto/syscalls.h"
#include "proto/tar.h"

enum {
    READ_BYTES = 128 << 10,
    /* directories whose times are set when all is unpacked; further ones keep the time of unpacking
     */
    DIRS_MAX = 65536,
};

struct unpack_dir {
    char *path; /* owned */
    struct timespec mtime;
};

struct made_dirs {
    struct unpack_dir *list; /* owned */
    size_t count, cap;
};

struct tar_unpack {
    struct tar_in in;
    struct tar_piece map[TAR_SPARSE_MAX];
    struct tar_item item;
    char path[FILE_PATH_MAX + 1]; /* the item's path, cleaned */
    int top, parent;  /* the target directory; the directory in which the item is made */
    const char *base; /* the item's name in parent, points into path */
    bool owners;
    struct made_dirs dirs;
    const char *what;
};

static int unpack_fail(struct tar_unpack *t, int code, const char *what)
{
    t->what = what;
    return code;
}

static ssize_t read_stdin(void *data, void *buf, size_t len)
{
    (void)data;
    return cmd_read_full(STDIN_FILENO, buf, len);
}

/* ---- directories ---- */

/* Opens a directory beneath the top, and makes missing ones, owned by root, like mkdir -p. path is
 * modified temporarily. */
static int unpack_open_dir(const struct tar_unpack *t, char *path)
{
    char *slash = path;
    int fd;

    if (path[0] == '\0')
        return fcntl(t->top, F_DUPFD_CLOEXEC, 3);
    fd = cmd_open_beneath(t->top, path);
    if (fd != -ENOENT)
        return fd;
    fd = fcntl(t->top, F_DUPFD_CLOEXEC, 3);
    while (fd >= 0 && slash != NULL) {
        char *name = slash;
        int next;

        slash = strchr(name, '/');
        if (slash != NULL)
            *slash = '\0';
        next = mkdirat(fd, name, 0755) < 0 && errno != EEXIST
                   ? -errno
                   : cmd_open_at(fd, name, O_RDONLY | O_DIRECTORY, 0);
        (void)close(fd);
        fd = next;
        if (slash != NULL)
            *slash++ = '/';
    }
    return fd;
}

/* Splits path, a clean name, and opens the directory of its last component. *ret_base points into
 * path. */
static int unpack_open_parent(struct tar_unpack *t, char *path, const char **ret_base, bool make)
{
    char *slash = strrchr(path, '/');
    int fd;

    *ret_base = slash == NULL ? path : slash + 1;
    if (slash == NULL)
        return fcntl(t->top, F_DUPFD_CLOEXEC, 3);
    *slash = '\0';
    fd = make ? unpack_open_dir(t, path) : cmd_open_beneath(t->top, path);
    *slash = '/';
    return fd;
}

static void unpack_record_dir(struct tar_unpack *t)
{
    struct made_dirs *d = &t->dirs;
    size_t size = strlen(t->path) + 1;
    char *path;

    if (d->count == DIRS_MAX)
        return;
    if (d->count == d->cap) {
        size_t cap = d->cap == 0 ? 64 : 2 * d->cap;
        struct unpack_dir *bigger = realloc(d->list, cap * sizeof(*bigger));

        if (bigger == NULL)
            return;
        d->list = bigger;
        d->cap = cap;
    }
    path = malloc(size);
    if (path == NULL)
        return;
    memcpy(path, t->path, size);
    d->list[d->count++] = (struct unpack_dir){
        .path = path, .mtime = {.tv_sec = t->item.mtime, .tv_nsec = (long)t->item.mtime_ns}};
}

/* Comes last: making a file in a directory changes the directory's time. */
static void unpack_set_dir_times(const struct tar_unpack *t)
{
    for (size_t i = t->dirs.count; i-- > 0;) {
        const struct unpack_dir *d = &t->dirs.list[i];
        const struct timespec times[2] = {d->mtime, d->mtime};
        int fd = cmd_open_beneath(t->top, d->path[0] == '\0' ? "." : d->path);

        if (fd < 0)
            continue; /* replaced meanwhile */
        (void)futimens(fd, times);
        (void)close(fd);
    }
}

/* ---- attributes ---- */

/*
 * As Docker, and as an image's layers: a file arrives without the attributes that cannot be set
 * here. The file system may not support them or not take the value, and the kernel refuses what the
 * sandbox's rights do not cover: capabilities below a guarded volume or without CAP_SETFCAP.
 */
static bool xattr_is_skipped(int error)
{
    return error == EOPNOTSUPP || error == EPERM || error == EACCES || error == EINVAL ||
           error == ERANGE || error == E2BIG;
}

static int unpack_set_xattrs(struct tar_unpack *t, int fd)
{
    for (size_t i = 0; i < t->item.xattr_count; i++) {
        const struct tar_xattr *x = &t->item.xattrs[i];

        if (fsetxattr(fd, x->name, x->value, x->len, 0) < 0 && !xattr_is_skipped(errno))
            return unpack_fail(t, -errno, "set an extended attribute");
    }
    return 0;
}

/* The order matters: fchown clears set-id bits and capabilities, and setting an attribute takes the
 * right to write, which the mode may take away. */
static int unpack_set_attributes(struct tar_unpack *t, int fd)
{
    const struct timespec time = {.tv_sec = t->item.mtime, .tv_nsec = (long)t->item.mtime_ns};
    const struct timespec times[2] = {time, time};
    int r;

    if (t->owners && fchown(fd, t->item.uid, t->item.gid) < 0)
        return unpack_fail(t, -errno, "set owner");
    r = unpack_set_xattrs(t, fd);
    if (r < 0)
        return r;
    r = shim_fchmod(fd, t->item.mode);
    if (r < 0)
        return unpack_fail(t, r, "set mode");
    if (futimens(fd, times) < 0)
        r = unpack_fail(t, -errno, "set time");
    return r;
}

/* For files that are not opened. */
static int unpack_set_attributes_at(struct tar_unpack *t)
{
    const struct timespec time = {.tv_sec = t->item.mtime, .tv_nsec = (long)t->item.mtime_ns};
    const struct timespec times[2] = {time, time};

    if (t->owners &&
        fchownat(t->parent, t->base, t->item.uid, t->item.gid, AT_SYMLINK_NOFOLLOW) < 0)
        return unpack_fail(t, -errno, "set owner");
    /* some file systems do not support it for links */
    (void)utimensat(t->parent, t->base, times, AT_SYMLINK_NOFOLLOW);
    return 0;
}

/* ---- kinds of entries ---- */

static int unpack_write_bytes(struct tar_unpack *t, int fd, uint64_t len)
{
    static char buf[READ_BYTES];

    while (len > 0) {
        ssize_t n = tar_read_data(&t->in, buf, len < sizeof(buf) ? (size_t)len : sizeof(buf));
        int r = n > 0 ? shim_write(fd, buf, (size_t)n) : 0;

        if (n <= 0)
            return n < 0 ? unpack_fail(t, (int)n, t->in.why) : 0;
        if (r < 0)
            return unpack_fail(t, r, "write");
        len -= (uint64_t)n;
    }
    return 0;
}

/* Holes are left out: an archive of a few blocks may describe a file of any size. */
static int unpack_write_contents(struct tar_unpack *t, int fd)
{
    int r = 0;

    if (!t->item.sparse)
        return unpack_write_bytes(t, fd, t->item.size);
    for (size_t i = 0; r == 0 && i < t->in.map_count; i++) {
        const struct tar_piece *piece = &t->map[i];

        if (lseek(fd, (off_t)piece->offset, SEEK_SET) < 0)
            return unpack_fail(t, -errno, "write");
        r = unpack_write_bytes(t, fd, piece->len);
    }
    if (r == 0 && ftruncate(fd, (off_t)t->item.real_size) < 0)
        r = unpack_fail(t, -errno, "write");
    return r;
}

/* Copies the complete new file into one that cannot be replaced because it is a mount point
 * (/etc/hosts). */
static int unpack_fill_mounted(struct tar_unpack *t, int from)
{
    static char buf[READ_BYTES];
    int fd = cmd_open_at(t->parent, t->base, O_WRONLY, 0), r = 0;
    struct stat st;
    ssize_t n = 1;

    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || lseek(from, 0, SEEK_SET) < 0 ||
        ftruncate(fd, 0) < 0)
        r = -EBUSY;
    while (r == 0 && n > 0) {
        n = shim_read(from, buf, sizeof(buf));
        r = n > 0 ? shim_write(fd, buf, (size_t)n) : (int)n;
    }
    if (r == 0)
        r = unpack_set_attributes(t, fd);
    if (close(fd) < 0 && errno != EINTR && r == 0)
        r = -errno;
    return r;
}

/* An old file is replaced when the new one is complete. A new name needs no such care: a part of
 * the file is removed again. */
static int unpack_put_file(struct tar_unpack *t, bool exists)
{
    struct beside b = {.dirfd = t->parent};
    int fd, r;

    (void)strncpy(b.base, t->base, sizeof(b.base) - 1);
    fd = exists ? beside_open(&b, 0600)
                : cmd_open_at(t->parent, t->base, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0)
        return unpack_fail(t, fd, "create");
    r = unpack_write_contents(t, fd);
    if (r == 0)
        r = unpack_set_attributes(t, fd);
    if (r == 0 && exists) {
        r = beside_publish(&b, fd, true, false);
        if (r == -EBUSY)
            r = unpack_fill_mounted(t, fd);
        if (r < 0)
            (void)unpack_fail(t, r, "replace");
    }
    if (close(fd) < 0 && errno != EINTR && r == 0)
        r = unpack_fail(t, -errno, "write");
    beside_drop(&b);
    if (r < 0 && !exists)
        (void)unlinkat(t->parent, t->base, 0);
    return r;
}

static int unpack_put_symlink(struct tar_unpack *t)
{
    if (symlinkat(t->item.link, t->parent, t->base) < 0)
        return unpack_fail(t, -errno, "make link");
    return unpack_set_attributes_at(t);
}

/* The target is a name in the archive or an existing file, beneath the top like any other. */
static int unpack_put_hard_link(struct tar_unpack *t)
{
    static char target[FILE_PATH_MAX + 1];
    const char *base;
    int fd, r = tar_clean_name(t->item.link, target);

    if (r < 0 || target[0] == '\0')
        return unpack_fail(t, -EINVAL, "a link to outside of the archive");
    fd = unpack_open_parent(t, target, &base, false);
    if (fd < 0)
        return unpack_fail(t, fd, "the link's target");
    /* Not followed: a link to a symbolic link is another name of the symbolic link. */
    r = linkat(fd, base, t->parent, t->base, 0) < 0 ? unpack_fail(t, -errno, "make link") : 0;
    (void)close(fd);
    return r;
}

static int unpack_put_fifo(struct tar_unpack *t)
{
    if (mknodat(t->parent, t->base, S_IFIFO | (t->item.mode & 07777), 0) < 0)
        return unpack_fail(t, -errno, "make FIFO");
    return unpack_set_attributes_at(t);
}

static int unpack_put_dir(struct tar_unpack *t)
{
    int fd, r;

    if (t->path[0] == '\0')
        fd = fcntl(t->top, F_DUPFD_CLOEXEC, 3);
    else if (mkdirat(t->parent, t->base, 0700) < 0 && errno != EEXIST)
        fd = -errno;
    else
        fd = cmd_open_at(t->parent, t->base, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return unpack_fail(t, fd, "make directory");
    r = unpack_set_attributes(t, fd);
    (void)close(fd);
    if (r == 0)
        unpack_record_dir(t);
    return r;
}

static int unpack_put_other(struct tar_unpack *t)
{
    switch (t->item.kind) {
    case TAR_HARD_LINK:
        return unpack_put_hard_link(t);
    case TAR_SYMBOLIC:
        return unpack_put_symlink(t);
    case TAR_PIPE:
        return unpack_put_fifo(t);
    case TAR_REGULAR:
    case TAR_CHARACTER:
    case TAR_BLOCK_DEVICE:
    case TAR_DIRECTORY:
    case TAR_KIND_INVALID:
    default:
        return unpack_fail(t, -EPERM, "a device");
    }
}

static int unpack_put_non_directory(struct tar_unpack *t)
{
    const char *base = t->base;
    char temp[NAME_MAX + 1];
    struct stat st;
    bool exists;
    int r;

    if (strlen(base) > NAME_MAX)
        return unpack_fail(t, -ENAMETOOLONG, "create");
    exists = fstatat(t->parent, base, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (exists && S_ISDIR(st.st_mode))
        return unpack_fail(t, -EISDIR, "replace");
    if (t->item.kind == TAR_REGULAR)
        return unpack_put_file(t, exists);
    if (!exists)
        return unpack_put_other(t);
    cmd_temp_name(base, temp);
    t->base = temp;
    r = unpack_put_other(t);
    t->base = base;
    if (r == 0 && syscall(SYS_renameat2, t->parent, temp, t->parent, base, 0) < 0)
        r = unpack_fail(t, -errno, "replace");
    /* Where it was not made, or where both were names of one file already, which rename leaves. */
    (void)unlinkat(t->parent, temp, 0);
    return r;
}

/* Checks before anything is made: refuses entries that an archive from outside must not contain. */
static int unpack_check_item(struct tar_unpack *t)
{
    if (tar_clean_name(t->item.name, t->path) < 0)
        return unpack_fail(t, -EINVAL, "a name that leads outside");
    if (t->item.kind == TAR_CHARACTER || t->item.kind == TAR_BLOCK_DEVICE)
        return unpack_fail(t, -EPERM, "a device");
    if (t->path[0] == '\0' && t->item.kind != TAR_DIRECTORY)
        return unpack_fail(t, -EINVAL, "the top is not a directory");
    return 0;
}

static int unpack_put_item(struct tar_unpack *t)
{
    int r = unpack_check_item(t);

    if (r < 0)
        return r;
    t->parent = unpack_open_parent(t, t->path, &t->base, true);
    if (t->parent < 0)
        return unpack_fail(t, t->parent, "make directory");
    r = t->item.kind == TAR_DIRECTORY ? unpack_put_dir(t) : unpack_put_non_directory(t);
    (void)close(t->parent);
    return r;
}

static int unpack_archive(struct tar_unpack *t)
{
    int r;

    t->item.name[0] = '\0';
    while ((r = tar_read(&t->in, &t->item)) > 0) {
        r = unpack_put_item(t);
        if (r < 0)
            return r;
        t->item.name[0] = '\0';
    }
    unpack_set_dir_times(t);
    return r < 0 ? unpack_fail(t, r, t->in.why) : 0;
}

/* rind-tar-in PATH [--no-owners]: writes an empty data frame when the directory is open; then reads
 * the archive from stdin; then writes the result. Files unpacked before an error stay. Only root
 * sets owners; ids above a sandbox's highest become nobody's. */
int cmd_tar_in(char **args)
{
    static struct tar_unpack t; /* not initialised here, so that the buffers are in .bss */
    uint8_t frame[FRAME_HEADER_SIZE];
    bool no_owners = false;
    int r;

    t.in.read = read_stdin;
    t.in.map = t.map;
    cmd_options(args + 1, (const struct cmd_option[]){{.name = "--no-owners", .flag = &no_owners},
                                                      {.name = NULL}});
    t.owners = geteuid() == 0 && !no_owners;
    (void)umask(0);
    t.top = cmd_open(args[0], O_RDONLY | O_DIRECTORY, 0);
    if (t.top < 0)
        return cmd_answer_error(STDOUT_FILENO, t.top, "open directory", args[0]);
    frame_put_header(frame, FRAME_DATA, 0);
    r = shim_write(STDOUT_FILENO, frame, sizeof(frame));
    if (r < 0)
        shim_die_errno(r);
    r = unpack_archive(&t);
    return r < 0 ? cmd_answer_error(STDOUT_FILENO, r, t.what,
                                    t.item.name[0] != '\0' ? t.item.name : NULL)
                 : shim_answer_success(STDOUT_FILENO);
}
