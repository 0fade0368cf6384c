#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U /* Linux 6.3 */
#endif

int file_read_fd(int fd, size_t max, char **ret, size_t *ret_len, struct err *err)
{
    auto_free char *data = NULL;
    size_t len = 0, cap = 4096;

    data = malloc(cap + 1);
    if (data == NULL)
        return err_errno(err, -ENOMEM, "read");

    for (;;) {
        ssize_t n = read(fd, data + len, cap - len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, -errno, "read");
        if (n == 0)
            break;
        len += (size_t)n;
        if (len > max)
            return err_set(err, -EFBIG, "longer than %zu bytes", max);
        if (len == cap) {
            char *more = realloc(data, cap * 2 + 1);

            if (more == NULL)
                return err_errno(err, -ENOMEM, "read");
            data = more;
            cap *= 2;
        }
    }

    data[len] = '\0';
    *ret = take(data);
    if (ret_len != NULL)
        *ret_len = len;
    return 0;
}

int file_read_at(int dirfd, const char *path, size_t max, char **ret, size_t *ret_len,
                 struct err *err)
{
    auto_close int fd = FD_NONE;
    struct stat st;

    /* O_NONBLOCK: opening a FIFO in the file's place must not block; fstat refuses it below. */
    fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return err_errno(err, -errno, "%s", path);
    if (fstat(fd, &st) < 0)
        return err_errno(err, -errno, "%s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, -EINVAL, "%s: not a regular file", path);

    int r = file_read_fd(fd, max, ret, ret_len, err);
    return r < 0 ? err_wrap(err, r, "%s", path) : 0;
}

int file_open_trusted(int dirfd, const char *path, int flags, struct err *err)
{
    auto_close int fd =
        openat(dirfd, path,
               flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (dirfd == AT_FDCWD ? 0 : O_NOFOLLOW));
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(err, -errno, "%s", path);
    if ((st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return err_set(err, -EPERM, "%s: must be root's, and writable by root alone", path);
    return take_fd(&fd);
}

int write_all(int fd, const void *data, size_t len)
{
    const char *p = data;

    while (len > 0) {
        ssize_t n = write(fd, p, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

size_t read_held(int fd, void *data, size_t len)
{
    size_t have = 0;

    while (have < len) {
        ssize_t n = read(fd, (char *)data + have, len - have);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        have += (size_t)n;
    }
    return have;
}

int file_poke_at(int dirfd, const char *path, const char *text)
{
    auto_close int fd = FD_NONE;
    size_t len = strlen(text);
    ssize_t n;

    fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -errno;
    n = write(fd, text, len);
    if (n < 0)
        return -errno;
    return (size_t)n == len ? 0 : -EIO;
}

int file_replace_at(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                    struct err *err)
{
    auto_close int fd = FD_NONE;
    char tmp[280];
    int r;

    if ((size_t)snprintf(tmp, sizeof(tmp), ".%s.%d.tmp", name, (int)getpid()) >= sizeof(tmp))
        return err_set(err, -ENAMETOOLONG, "%s: name too long", name);

    (void)unlinkat(dirfd, tmp, 0); /* left by a crashed process with this pid; O_EXCL below
                                    * detects others */
    fd = openat(dirfd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        return err_errno(err, -errno, "create %s", tmp);

    r = write_all(fd, data, len);
    if (r == 0 && fsync(fd) < 0)
        r = -errno;
    if (r == 0 && renameat(dirfd, tmp, dirfd, name) < 0)
        r = -errno;
    if (r < 0) {
        (void)unlinkat(dirfd, tmp, 0);
        return err_errno(err, r, "write %s", name);
    }
    if (fsync(dirfd) < 0)
        return err_errno(err, -errno, "sync directory of %s", name);
    return 0;
}

static int memfd_seal(int created, const void *data, size_t len)
{
    auto_close int fd = created;
    int r;

    if (fd < 0)
        return -errno;
    r = write_all(fd, data, len);
    if (r < 0)
        return r;
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        return -errno;
    return take_fd(&fd);
}

int memfd_sealed(const char *name, const void *data, size_t len)
{
    return memfd_seal(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING), data, len);
}

int memfd_program(const char *name, const void *data, size_t len)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);

    /* Before Linux 6.3 the flag is unknown, and every memfd can be executed. */
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return memfd_seal(fd, data, len);
}
