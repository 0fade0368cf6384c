#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "files/own.h"
#include "proto/tar.h"

enum { COPY_BYTES = 128 << 10, XATTR_NAMES_MAX = 65536 };

struct tar_out {
    struct walk walk;
    struct links links;
    struct tar_item item;
    const char *prefix; /* in front of every name; "" = none */
    uint64_t written;
    uint8_t head[TAR_HEAD_MAX];
    char xattr_names[XATTR_NAMES_MAX];
    char xattr_values[TAR_PAX_MAX];
    const char *what;
};

static int fail(struct tar_out *t, int code, const char *what)
{
    t->what = what;
    return code;
}

/* Nobody reads any more: there is nobody to tell. */
static void put(struct tar_out *t, const void *data, size_t len)
{
    int r = shim_write(STDOUT_FILENO, data, len);

    if (r < 0)
        shim_die_errno(r);
    t->written += len;
}

static void put_zeros(struct tar_out *t, uint64_t len)
{
    static char zeros[64 << 10]; /* not const: it would be part of the program */

    for (; len > 0; len -= len < sizeof(zeros) ? len : sizeof(zeros))
        put(t, zeros, len < sizeof(zeros) ? (size_t)len : sizeof(zeros));
}

/* ---- one entry ---- */

static int set_name(struct tar_out *t, const char *path)
{
    size_t a = strlen(t->prefix), b = strlen(path), slash = a > 0 && b > 0;

    if (a + slash + b > FILE_PATH_MAX)
        return fail(t, -ENAMETOOLONG, "archive");
    memcpy(t->item.name, t->prefix, a);
    if (slash)
        t->item.name[a] = '/';
    memcpy(t->item.name + a + slash, path, b + 1);
    if (t->item.name[0] == '\0')
        memcpy(t->item.name, ".", 2);
    return 0;
}

static void set_facts(struct tar_item *item, const struct stat *st)
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

/* Of an open file; those that do not fit any more are an error when the header is made. */
static int add_xattrs(struct tar_out *t, int fd)
{
    ssize_t n = flistxattr(fd, t->xattr_names, sizeof(t->xattr_names));
    size_t used = 0;

    for (ssize_t at = 0; at < n; at += (ssize_t)strlen(t->xattr_names + at) + 1) {
        const char *name = t->xattr_names + at;
        ssize_t size;

        if (!own_xattr_carried(name))
            continue;
        if (t->item.xattr_count == TAR_XATTRS_MAX)
            return fail(t, -E2BIG, "more than 32 extended attributes");
        size = fgetxattr(fd, name, t->xattr_values + used, sizeof(t->xattr_values) - used);
        if (size < 0 && errno == ERANGE)
            return fail(t, -E2BIG, "extended attributes of more than 256 KiB");
        if (size < 0)
            continue; /* gone meanwhile */
        t->item.xattrs[t->item.xattr_count++] =
            (struct tar_xattr){.name = name, .value = t->xattr_values + used, .len = (size_t)size};
        used += (size_t)size;
    }
    return 0;
}

static int put_head(struct tar_out *t)
{
    ssize_t n = tar_put_item(t->head, &t->item);

    if (n < 0)
        return fail(t, (int)n, "header");
    put(t, t->head, (size_t)n);
    return 0;
}

/* What is read from where fd stands; *left is what of that is not there any more. */
static int put_data(struct tar_out *t, int fd, uint64_t *left)
{
    static char buf[COPY_BYTES];

    while (*left > 0) {
        ssize_t n = shim_read(fd, buf, *left < sizeof(buf) ? (size_t)*left : sizeof(buf));

        if (n < 0)
            return fail(t, (int)n, "read");
        if (n == 0)
            break;
        put(t, buf, (size_t)n);
        *left -= (uint64_t)n;
    }
    return 0;
}

/* Where from `at` on the next data (SEEK_DATA) or hole begins; size where there is none before, or
 * `otherwise` where nobody can say. */
static uint64_t seek(int fd, uint64_t at, uint64_t size, int what, uint64_t otherwise)
{
    off_t found = lseek(fd, (off_t)at, what);

    if (found < 0)
        return errno == ENXIO ? size : otherwise;
    return (uint64_t)found < at ? at : (uint64_t)found < size ? (uint64_t)found : size;
}

/* Exactly size bytes: what a file has lost meanwhile is zeros, what it has won is left out. A hole
 * is not read: its zeros would fill the page cache, at the expense of the sandbox. It is written as
 * zeros, though, because most readers, our own among them, take no sparse entries. */
static int put_contents(struct tar_out *t, int fd, uint64_t size)
{
    for (uint64_t at = 0; at < size;) {
        const uint64_t data = seek(fd, at, size, SEEK_DATA, at);
        uint64_t end = seek(fd, data, size, SEEK_HOLE, size), left;
        int r = 0;

        if (end == data && data < size) /* it has changed in between */
            end = size;
        left = end - data;
        put_zeros(t, data - at);
        if (left > 0 && lseek(fd, (off_t)data, SEEK_SET) >= 0)
            r = put_data(t, fd, &left);
        if (r < 0)
            return r;
        put_zeros(t, left);
        at = end;
    }
    put_zeros(t, (TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK);
    return 0;
}

static int put_file(struct tar_out *t, int dirfd, const char *name)
{
    int fd = own_open_at(dirfd, name, O_RDONLY, 0), r;
    struct stat st;

    if (fd < 0)
        return fail(t, fd, "open");
    r = fstat(fd, &st) < 0 ? -errno : own_regular(&st);
    if (r < 0)
        (void)fail(t, r, "replaced meanwhile");
    else
        set_facts(&t->item, &st);
    if (r == 0)
        r = add_xattrs(t, fd);
    if (r == 0)
        r = put_head(t);
    if (r == 0)
        r = put_contents(t, fd, t->item.size);
    (void)close(fd);
    return r;
}

static int put_link(struct tar_out *t, int dirfd, const char *name)
{
    ssize_t n = readlinkat(dirfd, name, t->item.link, FILE_PATH_MAX);

    if (n < 0)
        return fail(t, -errno, "read link");
    t->item.link[n] = '\0';
    return put_head(t);
}

/* Whatever is no directory. */
static int put_leaf(struct tar_out *t, int dirfd, const char *name, const struct stat *st)
{
    const char *first = NULL;

    if (S_ISSOCK(st->st_mode))
        return 0; /* an archive cannot hold one, and it is nothing without its process */
    set_facts(&t->item, st);
    if (st->st_nlink > 1)
        first = links_seen(&t->links, st, t->item.name);
    if (first != NULL) {
        t->item.kind = TAR_HARD_LINK;
        t->item.size = 0;
        memcpy(t->item.link, first, strlen(first) + 1);
        return put_head(t);
    }
    if (S_ISREG(st->st_mode))
        return put_file(t, dirfd, name);
    return S_ISLNK(st->st_mode) ? put_link(t, dirfd, name) : put_head(t);
}

/* An open directory. */
static int put_dir(struct tar_out *t, int fd, const struct stat *st)
{
    int r;

    set_facts(&t->item, st);
    r = add_xattrs(t, fd);
    return r < 0 ? r : put_head(t);
}

/* ---- all of it ---- */

static int enter(struct tar_out *t)
{
    struct stat st = t->walk.st;
    int r = walk_enter(&t->walk);

    if (r < 0)
        return fail(t, r, "open directory");
    r = put_dir(t, walk_dir(&t->walk), &st);
    /* The directory itself is there; what the kernel shows in it is no file. */
    if (r == 0 && own_is_pseudo(walk_dir(&t->walk)))
        walk_leave(&t->walk);
    return r;
}

static int one_entry(struct tar_out *t)
{
    struct walk *w = &t->walk;
    int r;

    if (w->error < 0)
        return fail(t, w->error, "stat");
    r = set_name(t, w->path);
    if (r == 0)
        r = S_ISDIR(w->st.st_mode) ? enter(t) : put_leaf(t, w->dirfd, w->name, &w->st);
    return r == -ENOENT ? 0 : r; /* it has vanished before anything of it was written */
}

static int put_tree(struct tar_out *t, int fd, const struct stat *st)
{
    int r = set_name(t, "");

    walk_init(&t->walk, fd);
    if (r == 0)
        r = put_dir(t, fd, st);
    if (r < 0 || own_is_pseudo(fd))
        return r;
    while (r == 0 && (r = walk_next(&t->walk)) > 0)
        r = r == WALK_LEAVE ? 0 : one_entry(t);
    return r;
}

static int archive(struct tar_out *t, const char *path, bool follow)
{
    char base[NAME_MAX + 1];
    bool slash;
    struct stat st;
    int dirfd, fd, r;

    t->what = "open";
    dirfd = own_open_parent(path, base, &slash);
    if (dirfd < 0)
        return dirfd;
    if (fstatat(dirfd, base, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (S_ISDIR(st.st_mode) || (S_ISLNK(st.st_mode) && (slash || follow))) {
        fd = own_open(path, O_RDONLY | (S_ISDIR(st.st_mode) ? O_DIRECTORY : 0), 0);
        if (fd < 0 || fstat(fd, &st) < 0)
            return fd < 0 ? fd : -errno;
        if (S_ISDIR(st.st_mode))
            return put_tree(t, fd, &st);
        (void)close(fd);
        return slash ? -ENOTDIR : -EINVAL; /* a link to a file: ask for the file */
    }
    if (slash)
        return -ENOTDIR;
    if (S_ISSOCK(st.st_mode))
        return fail(t, -EINVAL, "a socket");
    r = set_name(t, t->prefix[0] != '\0' ? "" : base);
    return r < 0 ? r : put_leaf(t, dirfd, base, &st);
}

/* Whether every directory can be entered and every path named. What vanishes, or becomes something
 * else, is for the archive itself to find out. */
static int check_dir(struct tar_out *t)
{
    struct walk *w = &t->walk;
    int r;

    if (w->depth > FILE_LIST_DEPTH_MAX)
        return fail(t, -ENAMETOOLONG, "more than 256 directories in one another");
    r = walk_enter(w);
    if (r == 0 && own_is_pseudo(walk_dir(w)))
        walk_leave(w);
    if (r == 0 || r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
        return 0;
    return fail(t, r, "open directory");
}

static int check_tree(struct tar_out *t, int fd)
{
    int r;

    walk_init(&t->walk, fd);
    t->walk.kinds_only = true;
    if (own_is_pseudo(fd)) {
        walk_done(&t->walk);
        return 0;
    }
    t->what = "archive";
    while ((r = walk_next(&t->walk)) > 0) {
        if (r == WALK_LEAVE || t->walk.error < 0)
            continue;
        r = set_name(t, t->walk.path);
        if (r == 0 && S_ISDIR(t->walk.st.st_mode))
            r = check_dir(t);
        if (r < 0)
            return r;
    }
    return r;
}

/* What cannot be archived, as far as it can be known by a look at the directories alone: that costs
 * a small part of what the archive does. Whoever gets half of one is not told why. */
static int check(struct tar_out *t, const char *path, bool follow)
{
    struct stat st;
    int fd = own_open(path, O_PATH | O_NOFOLLOW, 0), r;

    t->what = "open";
    if (fd < 0)
        return fd;
    r = fstat(fd, &st) < 0 ? -errno : 0;
    (void)close(fd);
    if (r < 0 || (!S_ISDIR(st.st_mode) && !(S_ISLNK(st.st_mode) && follow)))
        return r;
    fd = own_open(path, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return S_ISDIR(st.st_mode) ? fd : 0; /* a link to none */
    return check_tree(t, fd);
}

/*
 * rind-tar-out PATH [--name=PREFIX] [--follow]: on stderr an empty data frame when the path is
 * there and can be archived, on stdout the archive, on stderr the outcome. A directory's entries
 * are named from
 * "./" on, or from PREFIX; a file by its last component, or PREFIX. --follow: a link to a
 * directory stands for the directory.
 */
int own_cmd_tar_out(char **args)
{
    static struct tar_out t; /* not initialised here: the buffers would be part of the program */
    uint8_t frame[FRAME_HEADER_SIZE];
    bool follow = false;
    int r;

    t.prefix = "";
    own_options(args + 1, (const struct own_option[]){{.name = "--name", .text = &t.prefix},
                                                      {.name = "--follow", .flag = &follow},
                                                      {.name = NULL}});
    r = check(&t, args[0], follow);
    if (r < 0)
        return own_answer_error(STDERR_FILENO, r, t.what,
                                t.walk.path_len > 0 ? t.walk.path : args[0]);
    frame_put_header(frame, FRAME_DATA, 0);
    r = shim_write(STDERR_FILENO, frame, sizeof(frame));
    if (r < 0)
        shim_die_errno(r);
    r = archive(&t, args[0], follow);
    if (r == 0) {
        const uint64_t zeros = (uint64_t)2 * TAR_BLOCK, end = t.written + zeros;

        put_zeros(&t, zeros + (TAR_RECORD - end % TAR_RECORD) % TAR_RECORD);
        return shim_answer_success(STDERR_FILENO);
    }
    return own_answer_error(STDERR_FILENO, r, t.what, t.walk.path_len > 0 ? t.walk.path : args[0]);
}
