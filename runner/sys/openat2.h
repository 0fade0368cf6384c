#pragma once

/* openat2(2), Linux 5.6: glibc has no wrapper for it. O_CLOEXEC is always added. */

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Beneath dirfd and through no symbolic link at all: for our own directories, where none belongs.
 */
enum { OPEN_PLAIN = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };

/* Returns the fd or a negative errno. */
static inline int sys_openat2(int dirfd, const char *path, int flags, mode_t mode, unsigned resolve)
{
    struct open_how how = {
        .flags = (unsigned)(flags | O_CLOEXEC), .mode = mode, .resolve = resolve};
    long fd;

    /* EAGAIN: a rename or mount raced with the walk; the kernel asks to try again. */
    for (int tries = 0; tries < 16; tries++) {
        fd = syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
        if (fd >= 0)
            return (int)fd;
        if (errno != EAGAIN && errno != EINTR)
            break;
    }
    return -errno;
}
