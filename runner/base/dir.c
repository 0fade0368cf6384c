#include "base/dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>

DIR *dir_take(int fd)
{
    DIR *d;
    int failure;

    if (fd < 0)
        return NULL;
    d = fdopendir(fd);
    if (d == NULL) {
        failure = errno;
        (void)close(fd);
        errno = failure;
    }
    return d;
}

DIR *dir_open(int dirfd, const char *name)
{
    return dir_take(openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

static bool is_dots(const char *name)
{
    return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

struct dirent *dir_next(DIR *d)
{
    struct dirent *e;

    do {
        errno = 0;
        e = readdir(d);
    } while (e != NULL && is_dots(e->d_name));
    return e;
}

void dir_close(DIR *d)
{
    if (d != NULL)
        (void)closedir(d);
}
