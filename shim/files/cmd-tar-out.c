/* The command rind-tar-out: archives a file or a tree. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "files/cmd.h"
#include "proto/tar.h"

enum { COPY_BYTES = 128 << 10, XATTR_NAMES_MAX = 65536 };

struct tar_out {
    struct walk walk;
    struct links links;
    struct tar_item item;
    const char *prefix; /* put before every name; "" = none */
    uint64_t written;
    uint8_t head[TAR_HEAD_MAX];
    char xattr_names[XATTR_NAMES_MAX];
    char xattr_values[TAR_PAX_MAX];
    const char *what;
};

static int archive_fail(struct tar_out *t, int code, const char *what)
{
    t->what = what;
    return code;
}

/* If stdout fails, its reader has gone and no error can be reported. */
static void archive_write(struct tar_out *t, const void *data, size_t len)
{
    int r = shim_write(STDOUT_FILENO, data, len);

    if (r < 0)
        shim_die_errno(r);
    t->written += len;
}

static void archive_put_zeros(struct tar_out *t, uint64_t len)
{
    static char zeros[64 << 10]; /* not const, so that it is in .bss */

    for (; len > 0; len -= len < sizeof(zeros) ? len : sizeof(zeros))
        archive_write(t, zeros, len < sizeof(zeros) ? (size_t)len : sizeof(zeros));
}

/* ---- one entry ---- */

static int archive_set_name(struct tar_out *t, const char *path)
{
    size_t a = strlen(t->prefix), b = strlen(path), slash = a > 0 && b > 0;

    if (a + slash + b > FILE_PATH_MAX)
        return archive_fail(t, -ENAMETOOLONG, "archive");
    memcpy(t->item.name, t->prefix, a);
    if (slash)
        t->item.name[a] = '/';
    memcpy(t->item.name + a + slash, path, b + 1);
    if (t->item.name[0] == '\0')
        memcpy(t->item.name, ".", 2);
    return 0;
}

static void item_set_attributes(struct tar_item *item, const struct stat *st)
{
    static const unsigned char kinds[16] = {
        [S_IFREG >> 12] = TAR_REGULAR,      [S_IFDIR >> 12] = TAR_DIRECTORY,
        [S_IFLNK >> 12] = TAR_SYMBOLIC,     [S_IFCHR >> 12] = TAR_CHARACTER,
        [S_IFBLK >> 12] = TAR_BLOCK_DEVICE, [S_IFIFO >> 12] = TAR_PIPE,
    };

    item->kind = (enum tar_kind)kinds[(st->st_mode & S_IFMT) >> 12];
    item->mode = st->st_mode & 07777;
    item->uid = st->st_uid;
    item->gid = st->st_gid;
    item->dev_major = S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode) ? major(st->st_rdev) : 0;
    item->dev_minor = S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode) ? minor(st->st_rdev) : 0;
    item->size = S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0;
    item->mtime = st->st_mtim.tv_sec;
    item->link[0] = '\0';
    item->xattr_count = 0;
}

/* Adds the xattrs of an open file; too many of them are an error when the header is made. */
static int archive_add_xattrs(struct tar_out *t, int fd)
{
    ssize_t n = flistxattr(fd, t->xattr_names, sizeof(t->xattr_names));
    size_t used = 0;

    for (ssize_t at = 0; at < n; at += (ssize_t)strlen(t->xattr_names + at) + 1) {
        const char *name = t->xattr_names + at;
        ssize_t size;

        if (!cmd_xattr_carried(name))
            continue;
        if (t->item.xattr_count == TAR_XATTRS_MAX)
            return archive_fail(t, -E2BIG, "more than 32 extended attributes");
        size = fgetxattr(fd, name, t->xattr_values + used, sizeof(t->xattr_values) - used);
        if (size < 0 && errno == ERANGE)
            return archive_fail(t, -E2BIG, "extended attributes of more than 256 KiB");
        if (size < 0)
            continue; /* removed meanwhile */
        t->item.xattrs[t->item.xattr_count++] =
            (struct tar_xattr){.name = name, .value = t->xattr_values + used, .len = (size_t)size};
        used += (size_t)size;
    }
    return 0;
}

static int archive_put_header(struct tar_out *t)
{
    ssize_t n = tar_put_item(t->head, &t->item);

    if (n < 0)
        return archive_fail(t, (int)n, "header");
    archive_write(t, t->head, (size_t)n);
    return 0;
}

/* Copies from fd's current offset; *left becomes the number of missing bytes. */
static int archive_put_data(struct tar_out *t, int fd, uint64_t *left)
{
    static char buf[COPY_BYTES];

    while (*left > 0) {
        ssize_t n = shim_read(fd, buf, *left < sizeof(buf) ? (size_t)*left : sizeof(buf));

        if (n < 0)
            return archive_fail(t, (int)n, "read");
        if (n == 0)
            break;
        archive_write(t, buf, (size_t)n);
        *left -= (uint64_t)n;
    }
    return 0;
}

/* Returns where the next data (SEEK_DATA) or hole begins, from `at` on: `size` if there is none
 * before, `otherwise` if the file system cannot tell. */
static uint64_t file_seek(int fd, uint64_t at, uint64_t size, int what, uint64_t otherwise)
{
    off_t found = lseek(fd, (off_t)at, what);

    if (found < 0)
        return errno == ENXIO ? size : otherwise;
    return (uint64_t)found < at ? at : (uint64_t)found < size ? (uint64_t)found : size;
}

/* Writes exactly size bytes: missing data becomes zeros, added data is left out. Holes are not
 * read, because their zeros would fill the page cache at the sandbox's expense. They are written as
 * zeros, because most readers, including rind's, do not support sparse entries. */
static int archive_put_contents(struct tar_out *t, int fd, uint64_t size)
{
    for (uint64_t at = 0; at < size;) {
        const uint64_t data = file_seek(fd, at, size, SEEK_DATA, at);
        uint64_t end = file_seek(fd, data, size, SEEK_HOLE, size), left;
        int r = 0;

        if (end == data && data < size) /* the file has changed between the two seeks */
            end = size;
        left = end - data;
        archive_put_zeros(t, data - at);
        if (left > 0 && lseek(fd, (off_t)data, SEEK_SET) >= 0)
            r = archive_put_data(t, fd, &left);
        if (r < 0)
            return r;
        archive_put_zeros(t, left);
        at = end;
    }
    archive_put_zeros(t, (TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK);
    return 0;
}

static int archive_put_file(struct tar_out *t, int dirfd, const char *name)
{
    int fd = cmd_open_at(dirfd, name, O_RDONLY, 0), r;
    struct stat st;

    if (fd < 0)
        return archive_fail(t, fd, "open");
    r = fstat(fd, &st) < 0 ? -errno : cmd_regular(&st);
    if (r < 0)
        (void)archive_fail(t, r, "replaced meanwhile");
    else
        item_set_attributes(&t->item, &st);
    if (r == 0)
        r = archive_add_xattrs(t, fd);
    if (r == 0)
        r = archive_put_header(t);
    if (r == 0)
        r = archive_put_contents(t, fd, t->item.size);
    (void)close(fd);
    return r;
}

static int archive_put_symlink(struct tar_out *t, int dirfd, const char *name)
{
    ssize_t n = readlinkat(dirfd, name, t->item.link, FILE_PATH_MAX);

    if (n < 0)
        return archive_fail(t, -errno, "read link");
    t->item.link[n] = '\0';
    return archive_put_header(t);
}

/* Archives anything but a directory. */
static int archive_put_non_directory(struct tar_out *t, int dirfd, const char *name,
                                     const struct stat *st)
{
    const char *first = NULL;

    if (S_ISSOCK(st->st_mode))
        return 0; /* an archive cannot contain a socket */
    item_set_attributes(&t->item, st);
    if (st->st_nlink > 1)
        first = links_seen(&t->links, st, t->item.name);
    if (first != NULL) {
        t->item.kind = TAR_HARD_LINK;
        t->item.size = 0;
        memcpy(t->item.link, first, strlen(first) + 1);
        return archive_put_header(t);
    }
    if (S_ISREG(st->st_mode))
        return archive_put_file(t, dirfd, name);
    return S_ISLNK(st->st_mode) ? archive_put_symlink(t, dirfd, name) : archive_put_header(t);
}

/* Archives an open directory itself. */
static int archive_put_dir(struct tar_out *t, int fd, const struct stat *st)
{
    int r;

    item_set_attributes(&t->item, st);
    r = archive_add_xattrs(t, fd);
    return r < 0 ? r : archive_put_header(t);
}

/* ---- all of it ---- */

static int archive_enter_dir(struct tar_out *t)
{
    struct stat st = t->walk.st;
    int r = walk_enter(&t->walk);

    if (r < 0)
        return archive_fail(t, r, "open directory");
    r = archive_put_dir(t, walk_dir(&t->walk), &st);
    /* Entries of a pseudo file system are not archived, only the directory itself. */
    if (r == 0 && cmd_is_pseudo(walk_dir(&t->walk)))
        walk_leave(&t->walk);
    return r;
}

static int archive_put_entry(struct tar_out *t)
{
    struct walk *w = &t->walk;
    int r;

    if (w->error < 0)
        return archive_fail(t, w->error, "stat");
    r = archive_set_name(t, w->path);
    if (r == 0)
        r = S_ISDIR(w->st.st_mode) ? archive_enter_dir(t)
                                   : archive_put_non_directory(t, w->dirfd, w->name, &w->st);
    return r == -ENOENT ? 0 : r; /* the entry has vanished before any of it was written */
}

static int archive_put_tree(struct tar_out *t, int fd, const struct stat *st)
{
    int r = archive_set_name(t, "");

    walk_init(&t->walk, fd);
    if (r == 0)
        r = archive_put_dir(t, fd, st);
    if (r < 0 || cmd_is_pseudo(fd))
        return r;
    while (r == 0 && (r = walk_next(&t->walk)) > 0)
        r = r == WALK_LEAVE ? 0 : archive_put_entry(t);
    return r;
}

static int archive_path(struct tar_out *t, const char *path, bool follow)
{
    char base[NAME_MAX + 1];
    bool slash;
    struct stat st;
    int dirfd, fd, r;

    t->what = "open";
    dirfd = cmd_open_parent(path, base, &slash);
    if (dirfd < 0)
        return dirfd;
    if (fstatat(dirfd, base, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (S_ISDIR(st.st_mode) || (S_ISLNK(st.st_mode) && (slash || follow))) {
        fd = cmd_open(path, O_RDONLY | (S_ISDIR(st.st_mode) ? O_DIRECTORY : 0), 0);
        if (fd < 0 || fstat(fd, &st) < 0)
            return fd < 0 ? fd : -errno;
        if (S_ISDIR(st.st_mode))
            return archive_put_tree(t, fd, &st);
        (void)close(fd);
        return slash ? -ENOTDIR : -EINVAL; /* a link to a file: the client must name the file */
    }
    if (slash)
        return -ENOTDIR;
    if (S_ISSOCK(st.st_mode))
        return archive_fail(t, -EINVAL, "a socket");
    r = archive_set_name(t, t->prefix[0] != '\0' ? "" : base);
    return r < 0 ? r : archive_put_non_directory(t, dirfd, base, &st);
}

/* Checks that a directory can be entered and named. If it vanishes or is replaced, archiving finds
 * that out. */
static int archive_check_dir(struct tar_out *t)
{
    struct walk *w = &t->walk;
    int r;

    if (w->depth > FILE_LIST_DEPTH_MAX)
        return archive_fail(t, -ENAMETOOLONG, "more than 256 directories in one another");
    r = walk_enter(w);
    if (r == 0 && cmd_is_pseudo(walk_dir(w)))
        walk_leave(w);
    if (r == 0 || r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
        return 0;
    return archive_fail(t, r, "open directory");
}

static int archive_check_tree(struct tar_out *t, int fd)
{
    int r;

    walk_init(&t->walk, fd);
    t->walk.kinds_only = true;
    if (cmd_is_pseudo(fd)) {
        walk_done(&t->walk);
        return 0;
    }
    t->what = "archive";
    while ((r = walk_next(&t->walk)) > 0) {
        if (r == WALK_LEAVE || t->walk.error < 0)
            continue;
        r = archive_set_name(t, t->walk.path);
        if (r == 0 && S_ISDIR(t->walk.st.st_mode))
            r = archive_check_dir(t);
        if (r < 0)
            return r;
    }
    return r;
}

/* Finds entries that cannot be archived by walking the directories only, which costs little
 * compared to archiving. Otherwise the client would get a partial archive without a reason. */
static int archive_check(struct tar_out *t, const char *path, bool follow)
{
    struct stat st;
    int fd = cmd_open(path, O_PATH | O_NOFOLLOW, 0), r;

    t->what = "open";
    if (fd < 0)
        return fd;
    r = fstat(fd, &st) < 0 ? -errno : 0;
    (void)close(fd);
    if (r < 0 || (!S_ISDIR(st.st_mode) && !(S_ISLNK(st.st_mode) && follow)))
        return r;
    fd = cmd_open(path, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return S_ISDIR(st.st_mode) ? fd : 0; /* a link to another type of file */
    return archive_check_tree(t, fd);
}

/*
 * rind-tar-out PATH [--name=PREFIX] [--follow]: writes an empty data frame to stderr when the path
 * exists and can be archived, the archive to stdout, and the result to stderr. A directory's
 * entries are named from "./" on, or from PREFIX; a file by its last component, or PREFIX.
 * --follow: a link to a directory stands for the directory.
 */
int cmd_tar_out(char **args)
{
    static struct tar_out t; /* not initialised here, so that the buffers are in .bss */
    uint8_t frame[FRAME_HEADER_SIZE];
    bool follow = false;
    int r;

    t.prefix = "";
    cmd_options(args + 1, (const struct cmd_option[]){{.name = "--name", .text = &t.prefix},
                                                      {.name = "--follow", .flag = &follow},
                                                      {.name = NULL}});
    r = archive_check(&t, args[0], follow);
    if (r < 0)
        return cmd_answer_error(STDERR_FILENO, r, t.what,
                                t.walk.path_len > 0 ? t.walk.path : args[0]);
    frame_put_header(frame, FRAME_DATA, 0);
    r = shim_write(STDERR_FILENO, frame, sizeof(frame));
    if (r < 0)
        shim_die_errno(r);
    r = archive_path(&t, args[0], follow);
    if (r == 0) {
        const uint64_t zeros = (uint64_t)2 * TAR_BLOCK, end = t.written + zeros;

        archive_put_zeros(&t, zeros + (TAR_RECORD - end % TAR_RECORD) % TAR_RECORD);
        return shim_answer_success(STDERR_FILENO);
    }
    return cmd_answer_error(STDERR_FILENO, r, t.what, t.walk.path_len > 0 ? t.walk.path : args[0]);
}
