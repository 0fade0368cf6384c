/*
 * Sockets of the host's for published ports. The supervisor cannot make them itself: it has no
 * right to ports below 1024, and its filter lets it make no socket at all. It is not believed: only
 * what the daemon's owner allows (the rules of the configuration) is opened.
 */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/address.h"
#include "base/auto.h"
#include "base/err.h"
#include "launch/launcher.h"
#include "launch/sandbox.h"
#include "policy/publish.h"

enum { LISTEN_BACKLOG = 1024 };

static int bind_socket(int fd, const struct address *a, bool udp)
{
    struct sockaddr_storage name;
    const int on = 1;
    socklen_t len = address_socket(a, &name);

    /* For TCP alone, where it means "although connections of an earlier one still end": two UDP
     * sockets that both set it share a port, and one of them could take the other's datagrams. */
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
