/*
 * Sockets inside a sandbox's net namespace, for the supervisor to connect: so a server that listens
 * on the sandbox's own loopback is reached, and nothing else. The launcher says nothing about where
 * to: whatever the supervisor connects to is what the sandbox itself could connect to.
 *
 * This thread is in that namespace for two system calls. It is the only one of the process, and
 * serves one request at a time, so nothing else can happen there meanwhile.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/err.h"
#include "launch/launcher.h"
#include "launch/sandbox.h"
#include "policy/egress-net.h"

int own_net_namespace(struct stat *ret)
{
    auto_close int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, ret) < 0)
        return -errno;
    return take_fd(&fd);
}

/* In the sandbox's namespace. host: ours. */
static int make_socket(int domain, bool udp, bool mark, const struct stat *host, struct err *err)
{
    auto_close int here = FD_NONE, fd = FD_NONE;
    const uint32_t value = EGRESS_MARK;
    struct stat st;

    here = own_net_namespace(&st);
    if (here < 0)
        return err_errno(err, here, "connect: net namespace");
    if (st.st_ino == host->st_ino && st.st_dev == host->st_dev)
        return err_set(err, -EPERM, "connect: the sandbox has the host's network");
    fd = socket(domain, (udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC | SOCK_NONBLOCK,
                udp ? IPPROTO_UDP : IPPROTO_TCP);
    if (fd < 0)
        return err_errno(err, -errno, "connect: socket");
    if (mark && setsockopt(fd, SOL_SOCKET, SO_MARK, &value, sizeof(value)) < 0)
        return err_errno(err, -errno, "connect: mark");
    return take_fd(&fd);
}

int launcher_socket(struct launcher *l, const char *id, int family, bool udp, bool mark,
                    struct err *err)
{
    struct sandbox *s = *launcher_find(l, id);
    auto_close int home = FD_NONE;
    struct stat host;
    int fd;

    if (s == NULL)
        return err_set(err, -ENOENT, "no sandbox %s", id);
    home = own_net_namespace(&host);
    if (home < 0)
        return err_errno(err, home, "connect: our own net namespace");
    /* By init's pidfd: a pid could be somebody else's by now. */
    if (setns(s->pidfd, CLONE_NEWNET) < 0)
        return err_errno(err, errno == ESRCH ? -EBUSY : -errno,
                         "connect: enter the network of sandbox %s", id);
    fd = make_socket(family == 6 ? AF_INET6 : AF_INET, udp, mark, &host, err);
    if (setns(home, CLONE_NEWNET) == 0)
        return fd;
    if (fd >= 0)
        (void)close(fd);
    return err_set(err, -ENOTRECOVERABLE, "connect: the launcher cannot leave a sandbox's network");
}
