/* The command rind-write. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "files/cmd.h"
#include "proto/syscalls.h"

enum { MODE_UNSET = 1 << 16, TRIES = 16, FD_DIR = 14 /* length of "/proc/self/fd/" */ };

struct write {
    const char *path;
    uint64_t mode;
    bool atomic, append, exclusive;
    int fd;                  /* the fd that is written */
    int dirfd;               /* atomic: the target's directory */
    char base[NAME_MAX + 1]; /* atomic: the target's name in it */
    char temp[NAME_MAX + 1]; /* atomic, without O_TMPFILE: the temporary file's name */
    bool exists;             /* atomic: the target exists, old is its stat */
    struct stat old;
};

/* Opens a file without a name, which vanishes with this process. If the file system does not
 * support O_TMPFILE, opens a file with a temporary name beside the target. */
static int write_open_temp(struct write *w)
{
    int fd = openat(w->dirfd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);

    if (fd >= 0)
        return fd;
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL && errno != ENOENT)
        return -errno;
    for (int i = 0; i < TRIES; i++) {
        cmd_temp_name(w->base, w->temp);
        fd = cmd_open_at(w->dirfd, w->temp, O_WRONLY | O_CREAT | O_EXCL, 0600);
        if (fd != -EEXIST)
            break;
    }
    if (fd < 0)
        w->temp[0] = '\0';
    return fd;
}

static int write_open_atomic(struct write *w)
{
    bool slash;

    w->dirfd = cmd_open_parent(w->path, w->base, &slash);
    if (w->dirfd < 0)
        return w->dirfd;
    if (slash || strcmp(w->base, ".") == 0 || strcmp(w->base, "..") == 0)
        return -EISDIR;
    w->exists = fstatat(w->dirfd, w->base, &w->old, AT_SYMLINK_NOFOLLOW) == 0;
    if (w->exists && w->exclusive)
        return -EEXIST;
    if (w->exists && S_ISDIR(w->old.st_mode))
        return -EISDIR;
    return write_open_temp(w);
}

static int write_open_plain(struct write *w)
{
    int flags = O_WRONLY | O_CREAT | (w->append ? O_APPEND : 0) | (w->exclusive ? O_EXCL : 0);
    struct stat st;
    int fd = cmd_open_regular(w->path, flags, w->mode == MODE_UNSET ? 0666 : (mode_t)w->mode, &st);

    /* Truncated here and not by O_TRUNC, as only now it is known to be a regular file. */
    if (fd >= 0 && !w->append && st.st_size > 0 && ftruncate(fd, 0) < 0) {
        int r = -errno;

        (void)close(fd);
        return r;
    }
    return fd;
}

/* Reads pieces of stdin until the empty one. EOF without it means that the client is gone. */
static int write_read_body(int fd)
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
        r = shim_write(fd, buf, len);
        if (r < 0)
            return r;
    }
}

/* The new file gets the old one's mode and owner unless a mode was given. */
static int write_set_attributes(const struct write *w)
{
    mode_t mode = (mode_t)w->mode;

    if (w->mode == MODE_UNSET && w->exists && S_ISREG(w->old.st_mode)) {
        mode = w->old.st_mode & 07777;
        if (fchown(w->fd, w->old.st_uid, w->old.st_gid) < 0 && errno != EPERM)
            return -errno;
    } else if (w->mode == MODE_UNSET) {
        mode_t mask = umask(0);

        mode = 0666 & ~mask;
    }
    return shim_fchmod(w->fd, mode);
}

/* Gives the nameless file a name. */
static int write_link_temp(const struct write *w, const char *name)
{
    char self[] = "/proc/self/fd/0000000000", *p = self + sizeof(self) - 1;
    unsigned n = (unsigned)w->fd;

    if (linkat(w->fd, "", w->dirfd, name, AT_EMPTY_PATH) == 0)
        return 0;
    if (errno != ENOENT && errno != EPERM)
        return -errno;
    /* Uses /proc/self/fd/N; memmove puts the digits right after the prefix, without leading zeros.
     */
    do
        *--p = (char)('0' + n % 10);
    while ((n /= 10) > 0);
    memmove(self + FD_DIR, p, (size_t)(self + sizeof(self) - p));
    return linkat(AT_FDCWD, self, w->dirfd, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

static int write_publish(struct write *w)
{
    int r = 0;

    if (w->temp[0] == '\0') {
        /* Without an existing target one linkat is enough; otherwise a temporary name is linked and
         * renamed. */
        r = w->exists ? -EEXIST : write_link_temp(w, w->base);
        if (r != -EEXIST || w->exclusive)
            return r;
        for (int i = 0; i < TRIES && r == -EEXIST; i++) {
            cmd_temp_name(w->base, w->temp);
            r = write_link_temp(w, w->temp);
        }
        if (r < 0) {
            w->temp[0] = '\0';
            return r;
        }
    }
    if (syscall(SYS_renameat2, w->dirfd, w->temp, w->dirfd, w->base,
                w->exclusive ? 1U /* RENAME_NOREPLACE */ : 0U) < 0)
        return -errno;
    w->temp[0] = '\0';
    return 0;
}

static int write_finish(struct write *w)
{
    int r = 0;

    if (w->atomic) {
        r = write_set_attributes(w);
        /* The data must be on disk before the new name. */
        if (r == 0 && fsync(w->fd) < 0 && errno != EINVAL && errno != EROFS)
            r = -errno;
        if (r == 0)
            r = write_publish(w);
    } else if (w->mode != MODE_UNSET) {
        r = shim_fchmod(w->fd, (mode_t)w->mode);
    }
    /* NFS and quotas may report errors of write only at close. */
    if (close(w->fd) < 0 && errno != EINTR && r == 0)
        r = -errno;
    return r;
}

/*
 * rind-write PATH [--mode=OCTAL] [--atomic] [--append] [--exclusive]: writes an empty data frame
 * when the file is open; then reads stdin in pieces (file-msg.h) up to the empty one; then writes
 * the result. --atomic: the path is the complete old file or the complete new one, which is on
 * disk; a link is replaced, not followed.
 */
int cmd_write(char **args)
{
    static struct write w = {.mode = MODE_UNSET};
    uint8_t frame[FRAME_HEADER_SIZE];
    int r;

    cmd_options(args + 1, (const struct cmd_option[]){
                              {.name = "--mode", .value = &w.mode, .base = 8, .max = 07777},
                              {.name = "--atomic", .flag = &w.atomic},
                              {.name = "--append", .flag = &w.append},
                              {.name = "--exclusive", .flag = &w.exclusive},
                              {.name = NULL}});
    if (w.atomic && w.append)
        shim_die("--atomic and --append exclude each other");
    w.path = args[0];
    w.fd = w.atomic ? write_open_atomic(&w) : write_open_plain(&w);
    if (w.fd < 0)
        return cmd_answer_error(STDOUT_FILENO, w.fd,
                                w.fd == -EINVAL ? "not a regular file" : "open", w.path);
    frame_put_header(frame, FRAME_DATA, 0);
    r = shim_write(STDOUT_FILENO, frame, sizeof(frame));
    if (r < 0)
        r = -ECANCELED; /* the reader is gone */
    if (r == 0)
        r = write_read_body(w.fd);
    if (r == 0)
        r = write_finish(&w);
    if (r < 0 && w.temp[0] != '\0')
        (void)unlinkat(w.dirfd, w.temp, 0);
    return r < 0 ? cmd_answer_error(STDOUT_FILENO, r, "write", w.path)
                 : shim_answer_success(STDOUT_FILENO);
}
