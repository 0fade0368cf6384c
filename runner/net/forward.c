#include "net/forward.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"

enum { PATH_BYTES = 128 };

/*
 * For IPv4 each interface has its own switch. For IPv6 "forwarding" counts for all only, and makes
 * the host deaf to router advertisements; "force_forwarding" (Linux 6.17) is the one like IPv4's.
 */
static void path_of(char path[PATH_BYTES], const char *ifname, int family)
{
    (void)snprintf(path, PATH_BYTES, "/proc/sys/net/ipv%d/conf/%s/%s", family, ifname,
                   family == 4 ? "forwarding" : "force_forwarding");
}

static int read_switch(const char *path)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    char text[8] = "";

    if (fd < 0)
        return -errno;
    if (read(fd, text, sizeof(text) - 1) < 0)
        return -errno;
    return text[0] == '1';
}

bool forward_all(int family)
{
    char path[PATH_BYTES];

    (void)snprintf(path, sizeof(path), "/proc/sys/net/ipv%d/conf/all/forwarding", family);
    return read_switch(path) == 1;
}

int forward_get(const char *ifname, int family)
{
    char path[PATH_BYTES];

    if (family == 6 && forward_all(6))
        return 1;
    path_of(path, ifname, family);
    return read_switch(path);
}

int forward_set(const char *ifname, int family, bool on, struct err *err)
{
    char path[PATH_BYTES];
    int r;

    path_of(path, ifname, family);
    r = file_poke_at(AT_FDCWD, path, on ? "1" : "0");
    if (r == -ENOENT && family == 6)
        return err_set(err, -EOPNOTSUPP,
                       "IPv6 forwarding of %s alone needs Linux 6.17; sysctl -w "
                       "net.ipv6.conf.all.forwarding=1 switches it on for all interfaces",
                       ifname);
    return r < 0 ? err_errno(err, r, "switch forwarding of %s", ifname) : 0;
}
