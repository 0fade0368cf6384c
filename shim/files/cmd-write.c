/*
 * The command rind-write. A write that fails has changed nothing: the body is collected before the
 * target is touched, unless --in-place says otherwise.
 *
 *   --atomic     the target's name is given to a new file, which is on disk; a link is replaced
 *   (default)    the same for a regular file with one name, through links and without waiting for
 *                the disk. Where that would lose something the old file is filled at the end:
 *                WRITE_FILL below says when
 *   --in-place   the old file is truncated, and filled as the body arrives
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "files/cmd.h"
#include "proto/syscalls.h"

enum {
    MODE_UNSET = 1 << 16,
    SET_ID = S_ISUID | S_ISGID,
    /* A body of this size is collected in memory where no file can be made beside the target. */
    SPOOL_BYTES = 1 << 20,
    XATTR_BYTES = 65536, /* the kernel's limit of names, and of a value */
    MOUNT_ROOT = 0x2000, /* STATX_ATTR_MOUNT_ROOT */
    WHAT_MAX = 96,
};

enum write_way {
    WRITE_NEW = 1, /* the target is made when the body is complete */
    WRITE_REPLACE, /* likewise, in place of an old file, whose attributes it gets */
    /* The body is collected, and then put into the old file. It has several names, or is a mount
     * point (/etc/hosts), or of the kernel's own; or its directory may not be written to; or its
     * owner or attributes could not be kept; or bytes are appended. */
    WRITE_FILL,
    WRITE_STREAM, /* the body goes to the file as it arrives */
};

struct write {
    const char *path;
    uint64_t mode;
    bool atomic, append, exclusive, in_place;
    enum write_way way;
    int fd;           /* what the body is written to; -1: the spool */
    int target;       /* WRITE_FILL: the old file */
    struct beside to; /* the target's directory and name in it */
    bool exists;      /* the target exists, old is its stat */
    struct stat old;
    size_t spooled;
    uint64_t touched; /* bytes that are in a file which others see */
};

static uint8_t spool[SPOOL_BYTES];

/* ---- a file beside the target ---- */

static int write_open_parent(struct write *w, const char *path)
{
    bool slash;

    w->to.dirfd = cmd_open_parent(path, w->to.base, &slash);
    if (w->to.dirfd < 0)
        return w->to.dirfd;
    if (slash || strcmp(w->to.base, ".") == 0 || strcmp(w->to.base, "..") == 0)
        return -EISDIR;
    return 0;
}

static int write_open_atomic(struct write *w)
{
    int r = write_open_parent(w, w->path);

    if (r < 0)
        return r;
    w->exists = fstatat(w->to.dirfd, w->to.base, &w->old, AT_SYMLINK_NOFOLLOW) == 0;
    if (w->exists && w->exclusive)
        return -EEXIST;
    if (w->exists && S_ISDIR(w->old.st_mode))
        return -EISDIR;
    w->way = w->exists ? WRITE_REPLACE : WRITE_NEW;
    return beside_open(&w->to, 0600);
}

static int write_open_stream(struct write *w)
{
    int flags = O_WRONLY | O_CREAT | (w->append ? O_APPEND : 0) | (w->exclusive ? O_EXCL : 0);
    struct stat st;
    int fd = cmd_open_regular(w->path, flags, w->mode == MODE_UNSET ? 0666 : (mode_t)w->mode, &st);

    w->way = WRITE_STREAM;
    /* Truncated here and not by O_TRUNC, as only now it is known to be a regular file. */
    if (fd >= 0 && !w->append && st.st_size > 0 && ftruncate(fd, 0) < 0) {
        int r = -errno;

        (void)close(fd);
        return r;
    }
    return fd;
}

/* ---- an old file ---- */

/* The rights of the file's mode, without the copy into a sandbox's layer that an open for writing
 * makes of an image's file. */
static int write_check_right(int fd)
{
    static const int effective_empty = AT_EACCESS | AT_EMPTY_PATH;

    return syscall(SYS_faccessat2, fd, "", W_OK, effective_empty) < 0 ? -errno : 0;
}

static bool write_is_mount_point(int fd)
{
    /* struct statx, which musl has only in later versions: its second word is stx_attributes */
    uint64_t words[32] = {0};

    return syscall(SYS_statx, fd, "", AT_EMPTY_PATH, 0, words) == 0 && (words[1] & MOUNT_ROOT) != 0;
}

static bool write_is_old(const struct write *w)
{
    struct stat st;

    return fstatat(w->to.dirfd, w->to.base, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           st.st_dev == w->old.st_dev && st.st_ino == w->old.st_ino;
}

/* Finds the directory and the name of the file that a link leads to. A path that has changed
 * meanwhile does not match. */
static bool write_follow(struct write *w, int old)
{
    static char path[FILE_PATH_MAX + 1];
    char text[BESIDE_PATH_MAX];
    ssize_t n;

    if (write_is_old(w))
        return true;
    n = readlink(beside_fd_path(text, old), path, sizeof(path) - 1);
    if (n <= 0 || path[0] != '/')
        return false;
    path[n] = '\0';
    (void)close(w->to.dirfd);
    return write_open_parent(w, path) == 0 && write_is_old(w);
}

/* Gives the new file an attribute of the old one. Capabilities are not kept, as after any write;
 * labels are the system's. False: the new file would lose it. */
static bool write_keep_xattr(int old, int new, const char *name)
{
    static char value[XATTR_BYTES];
    ssize_t size;

    if (strncmp(name, "security.", 9) == 0 || strncmp(name, "trusted.", 8) == 0)
        return true;
    if (strncmp(name, "user.", 5) != 0 && strcmp(name, "system.posix_acl_access") != 0)
        return false;
    size = fgetxattr(old, name, value, sizeof(value));
    return size >= 0 ? fsetxattr(new, name, value, (size_t)size, 0) == 0 : errno == ENODATA;
}

/* The new file gets owner and attributes of the old one now; the mode comes last. */
static bool write_keep_attributes(const struct write *w, int old, int new)
{
    static char names[XATTR_BYTES];
    struct stat st;
    ssize_t n;

    if (fstat(new, &st) < 0)
        return false;
    if ((st.st_uid != w->old.st_uid || st.st_gid != w->old.st_gid) &&
        fchown(new, w->old.st_uid, w->old.st_gid) < 0)
        return false;
    n = flistxattr(old, names, sizeof(names));
    if (n < 0)
        return errno == EOPNOTSUPP || errno == ENOSYS;
    for (ssize_t at = 0; at < n; at += (ssize_t)strlen(names + at) + 1)
        if (!write_keep_xattr(old, new, names + at))
            return false;
    return true;
}

/* Opens a new file beside the old one, which can take its place. False: WRITE_FILL. */
static bool write_open_replacement(struct write *w, int old)
{
    if (w->append || w->old.st_nlink != 1 || cmd_is_pseudo(old) || write_is_mount_point(old) ||
        !write_follow(w, old))
        return false;
    w->fd = beside_open(&w->to, 0600);
    if (w->fd >= 0 && write_keep_attributes(w, old, w->fd))
        return true;
    if (w->fd >= 0)
        (void)close(w->fd);
    beside_drop(&w->to);
    w->fd = -1;
    return false;
}

static int write_open_target(struct write *w)
{
    w->way = WRITE_FILL;
    w->target = cmd_open_regular(w->path, O_WRONLY | (w->append ? O_APPEND : 0), 0, &w->old);
    if (w->target < 0)
        return w->target;
    /* Whether the mode may be set is asked before anything is changed. */
    return w->mode != MODE_UNSET ? shim_fchmod(w->target, w->old.st_mode & 07777) : 0;
}

/* Opens the old file to be filled, and something to collect the body in: a file beside it that is
 * never given a name, or else the spool. */
static int write_open_fill(struct write *w)
{
    w->fd = openat(w->to.dirfd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (w->fd < 0)
        w->fd = -1;
    return write_open_target(w);
}

/* Returns 0 if the old file is ready to be replaced or filled. */
static int write_open_old(struct write *w, int old)
{
    int r;

    if (fstat(old, &w->old) < 0)
        return -errno;
    r = cmd_regular(&w->old);
    if (r == 0 && w->exclusive)
        r = -EEXIST;
    if (r == 0)
        r = write_check_right(old);
    if (r < 0 && r != -ENOSYS)
        return r;
    w->exists = true;
    w->way = WRITE_REPLACE;
    return r == 0 && write_open_replacement(w, old) ? 0 : write_open_fill(w);
}

/* Opens what the body is collected in. */
static int write_open_whole(struct write *w)
{
    struct stat st;
    int old, r = write_open_parent(w, w->path);

    if (r < 0)
        return r;
    old = cmd_open(w->path, O_RDONLY, 0);
    if (old == -EACCES)
        old = cmd_open(w->path, O_WRONLY, 0);
    if (old >= 0) {
        r = write_open_old(w, old);
        (void)close(old);
        return r;
    }
    if (old != -ENOENT)
        return old == -ENXIO ? -EINVAL : old; /* a socket */
    /* A link to a file that does not exist: only the kernel can say where it leads. */
    if (fstatat(w->to.dirfd, w->to.base, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        w->fd = write_open_stream(w);
        return w->fd < 0 ? w->fd : 0;
    }
    w->way = WRITE_NEW;
    /* Nothing sees the file yet, so it may have its mode at once. */
    w->fd = beside_open(&w->to, w->mode == MODE_UNSET ? 0666 : (mode_t)w->mode);
    return w->fd < 0 ? w->fd : 0;
}

static int write_open(struct write *w)
{
    if (!w->atomic && !w->in_place)
        return write_open_whole(w);
    w->fd = w->atomic ? write_open_atomic(w) : write_open_stream(w);
    return w->fd < 0 ? w->fd : 0;
}

/* ---- the body ---- */

/* Writes to a file that others see, and counts. */
static int write_touch(struct write *w, int fd, const uint8_t *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        w->touched += (uint64_t)n;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

/* The body does not fit into the spool: from here on the file is written as it arrives. */
static int write_spill(struct write *w)
{
    w->way = WRITE_STREAM;
    w->fd = w->target;
    if (!w->append && ftruncate(w->fd, 0) < 0)
        return -errno;
    return write_touch(w, w->fd, spool, w->spooled);
}

static int write_take(struct write *w, const uint8_t *data, size_t len)
{
    int r;

    if (w->fd < 0 && len <= sizeof(spool) - w->spooled) {
        memcpy(spool + w->spooled, data, len);
        w->spooled += len;
        return 0;
    }
    r = w->fd < 0 ? write_spill(w) : 0;
    if (r < 0)
        return r;
    return w->way == WRITE_STREAM ? write_touch(w, w->fd, data, len) : shim_write(w->fd, data, len);
}

/* Reads pieces of stdin until the empty one. EOF without it means that the client is gone. */
static int write_read_body(struct write *w)
{
    static uint8_t buf[FILE_CHUNK_MAX];
    uint8_t head[FILE_CHUNK_HEAD];

    for (;;) {
        ssize_t n = cmd_read_full(STDIN_FILENO, head, sizeof(head));
        uint32_t len;
        int r;

        if (n != (ssize_t)sizeof(head))
            return n < 0 ? (int)n : -ECANCELED;
        len = file_get_chunk(head);
        if (len == 0)
            return 0;
        if (len > sizeof(buf))
            return -EPROTO;
        n = cmd_read_full(STDIN_FILENO, buf, len);
        if (n != (ssize_t)len)
            return n < 0 ? (int)n : -ECANCELED;
        r = write_take(w, buf, len);
        if (r < 0)
            return r;
    }
}

/* ---- publishing ---- */

/* The new file gets the old one's mode unless one was given; with --atomic also the owner. */
static int write_set_attributes(const struct write *w)
{
    mode_t mode = (mode_t)w->mode;

    if (w->mode == MODE_UNSET && w->exists && S_ISREG(w->old.st_mode)) {
        mode = w->old.st_mode & 07777;
        /* As a write by such a user clears them. */
        if (!w->atomic && geteuid() != 0)
            mode &= ~(mode_t)SET_ID;
        if (w->atomic && fchown(w->fd, w->old.st_uid, w->old.st_gid) < 0 && errno != EPERM)
            return -errno;
    } else if (w->mode == MODE_UNSET && w->atomic) {
        mode_t mask = umask(0);

        mode = 0666 & ~mask;
    } else if (w->mode == MODE_UNSET) {
        return 0;
    }
    return shim_fchmod(w->fd, mode);
}

static int write_finish_new(struct write *w)
{
    int r = write_set_attributes(w);

    /* With --atomic the data must be on disk before the new name. */
    if (r == 0 && w->atomic && fsync(w->fd) < 0 && errno != EINVAL && errno != EROFS)
        r = -errno;
    return r < 0 ? r : beside_publish(&w->to, w->fd, w->exists, w->exclusive);
}

/* Reserves the room before the first byte is changed, where the file system can. */
static int write_reserve(const struct write *w, off_t size)
{
    const off_t from = w->append ? w->old.st_size : 0;

    if (size == 0 || fallocate(w->target, FALLOC_FL_KEEP_SIZE, from, size) == 0)
        return 0;
    if (errno != ENOSPC && errno != EDQUOT && errno != EFBIG)
        return 0;
    {
        const int r = -errno;

        /* Gives back what was reserved so far; appended bytes of others are not cut off. */
        if (!w->append)
            (void)!ftruncate(w->target, w->old.st_size);
        return r;
    }
}

static int write_copy(struct write *w)
{
    static uint8_t buf[FILE_CHUNK_MAX];

    if (w->fd < 0)
        return write_touch(w, w->target, spool, w->spooled);
    if (lseek(w->fd, 0, SEEK_SET) < 0)
        return -errno;
    for (;;) {
        ssize_t n = read(w->fd, buf, sizeof(buf));
        int r;

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        r = write_touch(w, w->target, buf, (size_t)n);
        if (r < 0)
            return r;
    }
}

static int write_finish_fill(struct write *w)
{
    struct stat st = {.st_size = (off_t)w->spooled};
    int r;

    if (w->fd >= 0 && fstat(w->fd, &st) < 0)
        return -errno;
    r = write_reserve(w, st.st_size);
    if (r == 0)
        r = write_copy(w);
    if (r == 0 && !w->append && st.st_size < w->old.st_size && ftruncate(w->target, st.st_size) < 0)
        r = -errno;
    if (r == 0 && w->mode != MODE_UNSET)
        r = shim_fchmod(w->target, (mode_t)w->mode);
    if (close(w->target) < 0 && errno != EINTR && r == 0)
        r = -errno;
    return r;
}

/* The new file is complete, but may not take the old one's place: another user's directory is
 * sticky, or a mount was made there meanwhile. */
static int write_fill_instead(struct write *w)
{
    int r;

    beside_drop(&w->to);
    r = write_open_target(w);
    return r < 0 ? r : write_finish_fill(w);
}

/* Watchers wait for the close of a written file (IN_CLOSE_WRITE), and the new one was closed when
 * it had no name, or another. */
static void write_notify(const struct write *w)
{
    const int fd = cmd_open_at(w->to.dirfd, w->to.base, O_WRONLY, 0);

    if (fd >= 0)
        (void)close(fd);
}

static int write_finish(struct write *w)
{
    int r = 0;

    if (w->way == WRITE_FILL)
        return write_finish_fill(w);
    if (w->way != WRITE_STREAM)
        r = write_finish_new(w);
    if ((r == -EPERM || r == -EACCES || r == -EBUSY) && w->way == WRITE_REPLACE && !w->atomic)
        return write_fill_instead(w);
    if (w->way == WRITE_STREAM && w->mode != MODE_UNSET)
        r = shim_fchmod(w->fd, (mode_t)w->mode);
    /* NFS and quotas may report errors of write only at close. */
    if (close(w->fd) < 0 && errno != EINTR && r == 0)
        r = -errno;
    if (r == 0 && !w->atomic && w->way != WRITE_STREAM)
        write_notify(w);
    return r;
}

/* ---- the command ---- */

/* A failed write says how much of it is in the file; nothing else than "write" if nothing is. */
static const char *write_what(const struct write *w, char text[static WHAT_MAX])
{
    static const char before[] = "write (the file has ", after[] = " bytes of it)";
    char digits[24], *p = digits + sizeof(digits) - 1;
    uint64_t n = w->touched;
    size_t at = sizeof(before) - 1;

    if (n == 0)
        return "write";
    *p = '\0';
    do
        *--p = (char)('0' + n % 10);
    while ((n /= 10) > 0);
    memcpy(text, before, at);
    for (; *p != '\0'; p++)
        text[at++] = *p;
    memcpy(text + at, after, sizeof(after));
    return text;
}

/*
 * rind-write PATH [--mode=OCTAL] [--atomic | --in-place] [--append] [--exclusive]: writes an empty
 * data frame when the file is open; then reads stdin in pieces (file-msg.h) up to the empty one;
 * then writes the result.
 */
int cmd_write(char **args)
{
    static struct write w = {.mode = MODE_UNSET, .fd = -1, .target = -1};
    uint8_t frame[FRAME_HEADER_SIZE];
    char what[WHAT_MAX];
    int r;

    cmd_options(args + 1, (const struct cmd_option[]){
                              {.name = "--mode", .value = &w.mode, .base = 8, .max = 07777},
                              {.name = "--atomic", .flag = &w.atomic},
                              {.name = "--in-place", .flag = &w.in_place},
                              {.name = "--append", .flag = &w.append},
                              {.name = "--exclusive", .flag = &w.exclusive},
                              {.name = NULL}});
    if (w.atomic && (w.append || w.in_place))
        shim_die("--atomic excludes --append and --in-place");
    w.path = args[0];
    r = write_open(&w);
    if (r < 0)
        return cmd_answer_error(STDOUT_FILENO, r, r == -EINVAL ? "not a regular file" : "open",
                                w.path);
    frame_put_header(frame, FRAME_DATA, 0);
    r = shim_write(STDOUT_FILENO, frame, sizeof(frame));
    if (r < 0)
        r = -ECANCELED; /* the reader is gone */
    if (r == 0)
        r = write_read_body(&w);
    if (r == 0)
        r = write_finish(&w);
    if (r < 0)
        beside_drop(&w.to);
    return r < 0 ? cmd_answer_error(STDOUT_FILENO, r, write_what(&w, what), w.path)
                 : shim_answer_success(STDOUT_FILENO);
}
