/*
 * Unpacks an archive beneath a directory. Every name is resolved beneath that directory
 * and through no link, so that neither the archive's own links nor those that somebody makes
 * meanwhile lead elsewhere. What is there is replaced, but no directory by what is none, nor the
 * other way round.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "files/own.h"
#include "proto/syscalls.h"
#include "proto/tar.h"

enum {
    READ_BYTES = 128 << 10,
    DIRS_MAX = 65536, /* directories that get their times when all is unpacked; further ones keep
                         the time of unpacking */
};

struct made_dir {
    char *path; /* owned */
    struct timespec mtime;
};

struct made_dirs {
    struct made_dir *list; /* owned */
    size_t count, cap;
};

struct tar_unpack {
    struct tar_in in;
    struct tar_item item;
    char path[FILE_PATH_MAX + 1]; /* of the item, clean */
    int top, parent;              /* the target; the directory that the item is made in */
    const char *base;             /* its name there, in path */
    bool owners;
    struct made_dirs dirs;
    const char *what;
};

static int fail(struct tar_unpack *t, int code, const char *what)
{
    t->what = what;
    return code;
}

static ssize_t read_stdin(void *data, void *buf, size_t len)
{
    (void)data;
    return own_read_full(STDIN_FILENO, buf, len);
}

/* ---- directories ---- */

/* Opens a directory beneath the top, making what is missing of it: plainly, for root, as mkdir -p
 * would. path is changed and put back. */
static int open_made(const struct tar_unpack *t, char *path)
{
    char *slash = path;
    int fd;

    if (path[0] == '\0')
        return fcntl(t->top, F_DUPFD_CLOEXEC, 3);
    fd = own_open_beneath(t->top, path);
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
                   : own_open_at(fd, name, O_RDONLY | O_DIRECTORY, 0);
        (void)close(fd);
        fd = next;
        if (slash != NULL)
            *slash++ = '/';
    }
    return fd;
}

/* Splits path, a clean name, and opens the directory of its last component. *ret_base points into
 * path. */
static int open_parent(struct tar_unpack *t, char *path, const char **ret_base, bool make)
{
    char *slash = strrchr(path, '/');
    int fd;

    *ret_base = slash == NULL ? path : slash + 1;
    if (slash == NULL)
        return fcntl(t->top, F_DUPFD_CLOEXEC, 3);
    *slash = '\0';
    fd = make ? open_made(t, path) : own_open_beneath(t->top, path);
    *slash = '/';
    return fd;
}

static void remember_dir(struct tar_unpack *t)
{
    struct made_dirs *d = &t->dirs;
    size_t size = strlen(t->path) + 1;
    char *path;

    if (d->count == DIRS_MAX)
        return;
    if (d->count == d->cap) {
        size_t cap = d->cap == 0 ? 64 : 2 * d->cap;
        struct made_dir *bigger = realloc(d->list, cap * sizeof(*bigger));

        if (bigger == NULL)
            return;
        d->list = bigger;
        d->cap = cap;
    }
    path = malloc(size);
    if (path == NULL)
        return;
    memcpy(path, t->path, size);
    d->list[d->count++] = (struct made_dir){
        .path = path, .mtime = {.tv_sec = t->item.mtime, .tv_nsec = (long)t->item.mtime_ns}};
}

/* Last of all: what is made in a directory changes its time. */
static void set_dir_times(const struct tar_unpack *t)
{
    for (size_t i = t->dirs.count; i-- > 0;) {
        const struct made_dir *d = &t->dirs.list[i];
        const struct timespec times[2] = {d->mtime, d->mtime};
        int fd = own_open_beneath(t->top, d->path[0] == '\0' ? "." : d->path);

        if (fd < 0)
            continue; /* replaced since */
        (void)futimens(fd, times);
        (void)close(fd);
    }
}

/* ---- facts ---- */

static int set_xattrs(struct tar_unpack *t, int fd)
{
    for (size_t i = 0; i < t->item.xattr_count; i++) {
        const struct tar_xattr *x = &t->item.xattrs[i];

        if (fsetxattr(fd, x->name, x->value, x->len, 0) < 0)
            return fail(t, -errno, x->name);
    }
    return 0;
}

/* In the one order that works: a change of owner takes set-id bits and capabilities away. */
static int set_facts(struct tar_unpack *t, int fd)
{
    const struct timespec time = {.tv_sec = t->item.mtime, .tv_nsec = (long)t->item.mtime_ns};
    const struct timespec times[2] = {time, time};
    int r;

    if (t->owners && fchown(fd, t->item.uid, t->item.gid) < 0)
        return fail(t, -errno, "set owner");
    r = shim_fchmod(fd, t->item.mode);
    if (r < 0)
        return fail(t, r, "set mode");
    r = set_xattrs(t, fd);
    if (r == 0 && futimens(fd, times) < 0)
        r = fail(t, -errno, "set time");
    return r;
}

/* Of what has no descriptor. */
static int set_facts_at(struct tar_unpack *t)
{
    const struct timespec time = {.tv_sec = t->item.mtime, .tv_nsec = (long)t->item.mtime_ns};
    const struct timespec times[2] = {time, time};

    if (t->owners &&
        fchownat(t->parent, t->base, t->item.uid, t->item.gid, AT_SYMLINK_NOFOLLOW) < 0)
        return fail(t, -errno, "set owner");
    (void)utimensat(t->parent, t->base, times, AT_SYMLINK_NOFOLLOW); /* not all can, of a link */
    return 0;
}

/* ---- kinds ---- */

static int fill(struct tar_unpack *t, int fd)
{
    static char buf[READ_BYTES];
    ssize_t n;

    while ((n = tar_read_data(&t->in, buf, sizeof(buf))) > 0) {
        int r = shim_write(fd, buf, (size_t)n);

        if (r < 0)
            return fail(t, r, "write");
    }
    return n < 0 ? fail(t, (int)n, t->in.why) : 0;
}

/* A file that cannot be unlinked because something is mounted on it (/etc/hosts) is filled anew. */
static int open_mounted(struct tar_unpack *t)
{
    int fd = own_open_at(t->parent, t->base, O_WRONLY, 0);
    struct stat st;

    if (fd < 0)
        return fd;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && ftruncate(fd, 0) == 0)
        return fd;
    (void)close(fd);
    return -EBUSY;
}

/* Makes way for what is no directory. 1: a mount point is in the way. */
static int make_way(struct tar_unpack *t)
{
    if (unlinkat(t->parent, t->base, 0) == 0 || errno == ENOENT)
        return 0;
    return errno == EBUSY ? 1 : -errno;
}

static int put_file(struct tar_unpack *t, bool mounted)
{
    int fd = mounted ? open_mounted(t)
                     : own_open_at(t->parent, t->base, O_WRONLY | O_CREAT | O_EXCL, 0600);
    int r;

    if (fd < 0)
        return fail(t, fd, "create");
    r = fill(t, fd);
    if (r == 0)
        r = set_facts(t, fd);
    if (close(fd) < 0 && errno != EINTR && r == 0)
        r = fail(t, -errno, "write");
    return r;
}

static int put_link(struct tar_unpack *t)
{
    if (symlinkat(t->item.link, t->parent, t->base) < 0)
        return fail(t, -errno, "make link");
    return set_facts_at(t);
}

/* To a name in the same archive or of what is there: beneath the top, as every other. */
static int put_hard_link(struct tar_unpack *t)
{
    static char target[FILE_PATH_MAX + 1];
    const char *base;
    int fd, r = tar_clean_name(t->item.link, target);

    if (r < 0 || target[0] == '\0')
        return fail(t, -EINVAL, "a link to outside of the archive");
    fd = open_parent(t, target, &base, false);
    if (fd < 0)
        return fail(t, fd, "the link's target");
    /* Not followed: a link to a link is one more name of the link. */
    r = linkat(fd, base, t->parent, t->base, 0) < 0 ? fail(t, -errno, "make link") : 0;
    (void)close(fd);
    return r;
}

static int put_pipe(struct tar_unpack *t)
{
    if (mknodat(t->parent, t->base, S_IFIFO | (t->item.mode & 07777), 0) < 0)
        return fail(t, -errno, "make FIFO");
    return set_facts_at(t);
}

static int put_dir(struct tar_unpack *t)
{
    int fd, r;

    if (t->path[0] == '\0')
        fd = fcntl(t->top, F_DUPFD_CLOEXEC, 3);
    else if (mkdirat(t->parent, t->base, 0700) < 0 && errno != EEXIST)
        fd = -errno;
    else
        fd = own_open_at(t->parent, t->base, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return fail(t, fd, "make directory");
    r = set_facts(t, fd);
    (void)close(fd);
    if (r == 0)
        remember_dir(t);
    return r;
}

static int put_leaf(struct tar_unpack *t)
{
    int way = make_way(t);

    if (way < 0)
        return fail(t, way, "replace");
    if (way > 0 && t->item.kind != TAR_REGULAR)
        return fail(t, -EBUSY, "replace");
    switch (t->item.kind) {
    case TAR_REGULAR:
        return put_file(t, way > 0);
    case TAR_HARD_LINK:
        return put_hard_link(t);
    case TAR_SYMBOLIC:
        return put_link(t);
    case TAR_PIPE:
        return put_pipe(t);
    case TAR_CHARACTER:
    case TAR_BLOCK_DEVICE:
    case TAR_DIRECTORY:
    case TAR_KIND_INVALID:
    default:
        return fail(t, -EPERM, "a device");
    }
}

/* Refused before anything is made: what an archive from outside must not bring in. */
static int check_item(struct tar_unpack *t)
{
    if (tar_clean_name(t->item.name, t->path) < 0)
        return fail(t, -EINVAL, "a name that leads outside");
    if (t->item.kind == TAR_CHARACTER || t->item.kind == TAR_BLOCK_DEVICE)
        return fail(t, -EPERM, "a device");
    if (t->path[0] == '\0' && t->item.kind != TAR_DIRECTORY)
        return fail(t, -EINVAL, "the top is not a directory");
    for (size_t i = 0; i < t->item.xattr_count; i++)
        if (!own_xattr_carried(t->item.xattrs[i].name))
            return fail(t, -EPERM,
                        "an extended attribute that is not user.* or security.capability");
    return 0;
}

static int put_item(struct tar_unpack *t)
{
    int r = check_item(t);

    if (r < 0)
        return r;
    t->parent = open_parent(t, t->path, &t->base, true);
    if (t->parent < 0)
        return fail(t, t->parent, "make directory");
    r = t->item.kind == TAR_DIRECTORY ? put_dir(t) : put_leaf(t);
    (void)close(t->parent);
    return r;
}

static int unpack(struct tar_unpack *t)
{
    int r;

    t->item.name[0] = '\0';
    while ((r = tar_read(&t->in, &t->item)) > 0) {
        r = put_item(t);
        if (r < 0)
            return r;
        t->item.name[0] = '\0';
    }
    set_dir_times(t);
    return r < 0 ? fail(t, r, t->in.why) : 0;
}

/*
 * rind-tar-in PATH [--no-owners]: an empty data frame when the directory is open; then stdin is the
 * archive; then the outcome. What was unpacked before an error stays. Owners are set by root alone,
 * ids beyond a sandbox's become nobody's.
 */
int own_cmd_tar_in(char **args)
{
    static struct tar_unpack t; /* not initialised here: the buffers would be part of the program */
    uint8_t frame[FRAME_HEADER_SIZE];
    bool no_owners = false;
    int r;

    t.in.read = read_stdin;
    own_options(args + 1, (const struct own_option[]){{.name = "--no-owners", .flag = &no_owners},
                                                      {.name = NULL}});
    t.owners = geteuid() == 0 && !no_owners;
    (void)umask(0);
    t.top = own_open(args[0], O_RDONLY | O_DIRECTORY, 0);
    if (t.top < 0)
        return own_answer_error(STDOUT_FILENO, t.top, "open directory", args[0]);
    frame_put_header(frame, FRAME_DATA, 0);
    r = shim_write(STDOUT_FILENO, frame, sizeof(frame));
    if (r < 0)
        shim_die_errno(r);
    r = unpack(&t);
    return r < 0 ? own_answer_error(STDOUT_FILENO, r, t.what,
                                    t.item.name[0] != '\0' ? t.item.name : NULL)
                 : shim_answer_success(STDOUT_FILENO);
}
