#include "proto/dents.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

long dents_read(int fd, void *buf, size_t len)
{
    long n = syscall(SYS_getdents64, fd, buf, len);

    /* A directory that was removed while it is open has no entries: the kernel returns ENOENT. */
    if (n < 0)
        return errno == ENOENT ? 0 : -errno;
    return n;
}

bool dent_is_dot(const struct dent *e)
{
    return strcmp(e->name, ".") == 0 || strcmp(e->name, "..") == 0;
}
