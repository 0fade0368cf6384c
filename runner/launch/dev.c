/* The contents of a sandbox's /dev. Runs in the launcher; called by own.c. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "launch/sandbox.h"

/* The complete list: no request can add to it. The last one is only for policies that allow FUSE.
 */
static const struct {
    const char *name;
    unsigned major, minor;
} devices[] = {
    {"null", 1, 3},    {"zero", 1, 5}, {"full", 1, 7},    {"random", 1, 8},
    {"urandom", 1, 9}, {"tty", 5, 0},  {"fuse", 10, 229},
};
static const size_t device_count = sizeof(devices) / sizeof(devices[0]);

static const struct {
    const char *name, *target;
} links[] = {
    {"ptmx", "pts/ptmx"},          {"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"},
    {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"}, {"core", "/proc/kcore"},
};

static const char *const mount_points[] = {"pts", "shm", "mqueue"};

int dev_fill(int dir, uid_t base, bool fuse)
{
    for (size_t i = 0; i < device_count - (fuse ? 0 : 1); i++)
        if (mknodat(dir, devices[i].name, S_IFCHR | 0666,
                    makedev(devices[i].major, devices[i].minor)) < 0 ||
            fchownat(dir, devices[i].name, base, base, AT_SYMLINK_NOFOLLOW) < 0)
            return -errno;
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++)
        if (symlinkat(links[i].target, dir, links[i].name) < 0 ||
            fchownat(dir, links[i].name, base, base, AT_SYMLINK_NOFOLLOW) < 0)
            return -errno;
    for (size_t i = 0; i < sizeof(mount_points) / sizeof(mount_points[0]); i++)
        if (mkdirat(dir, mount_points[i], 0755) < 0 ||
            fchownat(dir, mount_points[i], base, base, AT_SYMLINK_NOFOLLOW) < 0)
            return -errno;
    return 0;
}
