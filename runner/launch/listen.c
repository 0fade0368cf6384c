/*
 * Makes listening sockets: host sockets for published ports, and sockets on a sandbox's loopback
 * for host loopback forwards. The supervisor cannot make them: it may not bind ports below 1024,
 * and its seccomp filter allows no socket(2). Its requests are checked against the rules of the
 * owner's configuration. Runs in the launcher.
 */
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/address.h"
#include "base/auto.h"
#include "base/err.h"
#include "launch/launcher.h"
#include "launch/sandbox.h"
#include "policy/publish.h"

enum { LISTEN_BACKLOG = 1024, LOOPBACK_NET = 127 };

static int bind_socket(int fd, const struct address *a, bool udp)
{
    struct sockaddr_storage name;
    const int on = 1;
    socklen_t len = address_socket(a, &name);

    /* Only for TCP, where it lets bind succeed while old connections are in TIME_WAIT. Two UDP
     * sockets with SO_REUSEADDR would share a port, and one could receive the other's datagrams. */
    if (!udp && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
        return -errno;
    if (a->family == 6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0)
        return -errno;
    if (bind(fd, (struct sockaddr *)(void *)&name, len) < 0)
        return -errno;
    return !udp && listen(fd, LISTEN_BACKLOG) < 0 ? -errno : 0;
}

int launcher_listen(struct launcher *l, const struct address *a, bool udp, struct err *err)
{
    char text[ADDRESS_TEXT_MAX];
    auto_close int fd = FD_NONE;
    int r;

    address_format(a, text);
    if (l->publish == NULL || !publish_allowed(l->publish, a))
        return err_set(err, -EPERM, "publish %s: the daemon's configuration does not allow it",
                       text);
    fd = socket(a->family == 6 ? AF_INET6 : AF_INET,
                (udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    r = fd < 0 ? -errno : bind_socket(fd, a, udp);
    return r < 0 ? err_errno(err, r, "publish %s/%s", text, udp ? "udp" : "tcp") : take_fd(&fd);
}

int launcher_listen_inside(struct launcher *l, const char *id, const struct address *a,
                           struct err *err)
{
    struct launch_sandbox *s = launcher_find(l, id);
    char text[ADDRESS_TEXT_MAX];
    auto_close int home = FD_NONE, fd = FD_NONE, here = FD_NONE;
    struct stat host, st;
    int r = 0;

    address_format(a, text);
    if (a->family != 4 || a->bytes[0] != LOOPBACK_NET)
        return err_set(err, -EPERM, "listen in a sandbox: %s is no address of its loopback", text);
    if (s == NULL)
        return err_set(err, -ENOENT, "no sandbox %s", id);
    home = own_net_namespace(&host);
    if (home < 0)
        return err_errno(err, home, "listen in a sandbox: our own net namespace");
    if (setns(s->pidfd, CLONE_NEWNET) < 0)
        return err_errno(err, errno == ESRCH ? -EBUSY : -errno,
                         "listen in a sandbox: enter the network of %s", id);
    here = own_net_namespace(&st);
    if (here < 0 || (st.st_ino == host.st_ino && st.st_dev == host.st_dev))
        r = here < 0 ? here : -EPERM;
    if (r == 0)
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (r == 0)
        r = fd < 0 ? -errno : bind_socket(fd, a, false);
    if (setns(home, CLONE_NEWNET) < 0)
        return err_set(err, -ENOTRECOVERABLE,
                       "listen in a sandbox: the launcher cannot leave its network");
    return r < 0 ? err_errno(err, r, "listen in sandbox %s at %s", id, text) : take_fd(&fd);
}
