/* A new file beside an old one, which takes its name when it is complete. Used by rind-write and
 * rind-tar-in. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "files/cmd.h"
#include "proto/syscalls.h"

enum {
    TRIES = 16,
    FD_DIR = 14, /* length of "/proc/self/fd/" */
};

char *beside_fd_path(char text[static BESIDE_PATH_MAX], int fd)
{
    char *p = text + BESIDE_PATH_MAX - 1;
    unsigned n = (unsigned)fd;

    *p = '\0';
    do
        *--p = (char)('0' + n % 10);
    while ((n /= 10) > 0);
    p -= FD_DIR;
    memcpy(p, "/proc/self/fd/", FD_DIR);
    return p;
}

int beside_open(struct beside *b, mode_t mode)
{
    int fd = openat(b->dirfd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, mode);

    b->temp[0] = '\0';
    if (fd >= 0)
        return fd;
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL && errno != ENOENT)
        return -errno;
    for (int i = 0; i < TRIES; i++) {
        cmd_temp_name(b->base, b->temp);
        fd = cmd_open_at(b->dirfd, b->temp, O_RDWR | O_CREAT | O_EXCL, mode);
        if (fd != -EEXIST)
            break;
    }
    if (fd < 0)
        b->temp[0] = '\0';
    return fd;
}

/* Gives the nameless file a name. */
static int beside_link(const struct beside *b, int fd, const char *name)
{
    char text[BESIDE_PATH_MAX];

    if (linkat(fd, "", b->dirfd, name, AT_EMPTY_PATH) == 0)
        return 0;
    if (errno != ENOENT && errno != EPERM)
        return -errno;
    return linkat(AT_FDCWD, beside_fd_path(text, fd), b->dirfd, name, AT_SYMLINK_FOLLOW) < 0
               ? -errno
               : 0;
}

int beside_publish(struct beside *b, int fd, bool exists, bool exclusive)
{
    int r = 0;

    if (b->temp[0] == '\0') {
        /* Without an existing target one linkat is enough; otherwise a temporary name is linked and
         * renamed. */
        r = exists ? -EEXIST : beside_link(b, fd, b->base);
        if (r != -EEXIST || exclusive)
            return r;
        for (int i = 0; i < TRIES && r == -EEXIST; i++) {
            cmd_temp_name(b->base, b->temp);
            r = beside_link(b, fd, b->temp);
        }
        if (r < 0) {
            b->temp[0] = '\0';
            return r;
        }
    }
    if (syscall(SYS_renameat2, b->dirfd, b->temp, b->dirfd, b->base,
                exclusive ? 1U /* RENAME_NOREPLACE */ : 0U) < 0)
        return -errno;
    b->temp[0] = '\0';
    return 0;
}

void beside_drop(struct beside *b)
{
    if (b->temp[0] != '\0')
        (void)unlinkat(b->dirfd, b->temp, 0);
    b->temp[0] = '\0';
}
