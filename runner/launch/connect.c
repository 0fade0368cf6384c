/*
 * Makes sockets inside a sandbox's net namespace, which the supervisor connects. So it reaches
 * servers on the sandbox's own loopback, and only what the sandbox itself could connect to; the
 * launcher need not check destinations.
 *
 * The launcher thread is in that namespace for a few system calls. It is the only thread of the
 * process and serves one request at a time, so nothing else runs there meanwhile.
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

static int connect_make_socket(const struct launch_request *q, struct err *err)
{
    auto_close int fd = FD_NONE;
    const uint32_t value = EGRESS_MARK;

    fd = socket(q->family == 6 ? AF_INET6 : AF_INET,
                (q->udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC | SOCK_NONBLOCK,
                q->udp ? IPPROTO_UDP : IPPROTO_TCP);
    if (fd < 0)
        return err_errno(err, -errno, "connect: socket");
    if (q->mark && setsockopt(fd, SOL_SOCKET, SO_MARK, &value, sizeof(value)) < 0)
        return err_errno(err, -errno, "connect: mark");
    return take_fd(&fd);
}

/* Runs in the sandbox's namespace. host: the launcher's own namespace, which is refused. */
static int connect_make_sockets(const struct launch_request *q, const struct stat *host, int *ret,
                                struct err *err)
{
    auto_close int here = FD_NONE;
    struct stat st;
    unsigned made;
    int fd = 0;

    here = own_net_namespace(&st);
    if (here < 0)
        return err_errno(err, here, "connect: net namespace");
    if (st.st_ino == host->st_ino && st.st_dev == host->st_dev)
        return err_set(err, -EPERM, "connect: the sandbox has the host's network");
    for (made = 0; made < q->count && (fd = connect_make_socket(q, err)) >= 0; made++)
        ret[made] = fd;
    return made > 0 ? (int)made : fd;
}

int launcher_sockets(struct launcher *l, const struct launch_request *q, int *ret, struct err *err)
{
    struct launch_sandbox *s = launcher_find(l, q->id);
    auto_close int home = FD_NONE;
    struct stat host;
    int made;

    if (s == NULL)
        return err_set(err, -ENOENT, "no sandbox %s", q->id);
    home = own_net_namespace(&host);
    if (home < 0)
        return err_errno(err, home, "connect: our own net namespace");
    /* The pidfd is used because a pid may have been reused. */
    if (setns(s->pidfd, CLONE_NEWNET) < 0)
        return err_errno(err, errno == ESRCH ? -EBUSY : -errno,
                         "connect: enter the network of sandbox %s", q->id);
    made = connect_make_sockets(q, &host, ret, err);
    if (setns(home, CLONE_NEWNET) == 0)
        return made;
    while (made > 0)
        (void)close(ret[--made]);
    return err_set(err, -ENOTRECOVERABLE, "connect: the launcher cannot leave a sandbox's network");
}
