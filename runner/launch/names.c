/*
 * Sockets for the name server of named networks: the listeners inside a sandbox that the supervisor
 * answers at (ports/names.c), and the sockets by which it asks others. The latter are of the
 * sandbox's net namespace too, so that a question goes where the sandbox's own packets may go.
 *
 * Runs in the launcher.
 */
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "launch/launcher.h"
#include "launch/net-ops.h"
#include "launch/network.h"
#include "launch/request.h"
#include "launch/sandbox.h"
#include "policy/egress-net.h"

enum { NAMES_BACKLOG = 64, DNS_PORT = 53 };

static int names_listen(int type, const uint8_t address[4], uint16_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    auto_close int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int on = 1;

    if (fd < 0)
        return -errno;
    (void)memcpy(&at.sin_addr, address, 4);
    /* Not for UDP, where a second socket with SO_REUSEADDR would get the datagrams. */
    if (type == SOCK_STREAM && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
        return -errno;
    if (bind(fd, (const struct sockaddr *)(const void *)&at, sizeof(at)) < 0)
        return -errno;
    return type == SOCK_STREAM && listen(fd, NAMES_BACKLOG) < 0 ? -errno : take_fd(&fd);
}

/* direct: at the name server's own address, for a namespace that gets no table. */
static int names_listen_both(bool direct, int ret[2], struct err *err)
{
    static const uint8_t own[4] = NAMES_BYTES, loopback[4] = {127, 0, 0, 1};
    const uint8_t *address = direct ? own : loopback;
    const uint16_t port = direct ? DNS_PORT : NAMES_PORT;
    auto_close int tcp = names_listen(SOCK_STREAM, address, port);
    auto_close int udp = tcp < 0 ? tcp : names_listen(SOCK_DGRAM, address, port);

    if (udp < 0)
        return err_errno(err, udp, "names: port %u inside", port);
    ret[0] = take_fd(&tcp);
    ret[1] = take_fd(&udp);
    return 0;
}

/* Enters the net namespace of a sandbox. *ret_home: an fd of the launcher's own, to return to. */
static int names_enter(const struct launch_sandbox *s, int *ret_home, int *ret_ns, struct err *err)
{
    auto_close int home = FD_NONE, ns = FD_NONE;
    struct stat host, st;

    home = own_net_namespace(&host);
    if (home < 0)
        return err_errno(err, home, "names: our own net namespace");
    /* The pidfd is used because a pid may have been reused. */
    if (setns(s->pidfd, CLONE_NEWNET) < 0)
        return err_errno(err, errno == ESRCH ? -EBUSY : -errno,
                         "names: enter the network of sandbox %s", s->id);
    ns = own_net_namespace(&st);
    *ret_home = take_fd(&home);
    if (ns < 0)
        return err_errno(err, ns, "names: net namespace");
    if (st.st_ino == host.st_ino && st.st_dev == host.st_dev)
        return err_set(err, -EPERM, "names: the sandbox has the host's network");
    *ret_ns = take_fd(&ns);
    return 0;
}

/* r: the result so far. */
static int names_return(int home, int r, struct err *err)
{
    if (home >= 0 && setns(home, CLONE_NEWNET) < 0)
        return err_set(err, -ENOTRECOVERABLE,
                       "names: the launcher cannot leave a sandbox's network");
    return r;
}

int launcher_names(struct launcher *l, const char *id, int ret[2], struct err *err)
{
    struct launch_sandbox *s = launcher_find(l, id);
    auto_close int home = FD_NONE, ns = FD_NONE;
    int fds[2] = {FD_NONE, FD_NONE};
    bool direct;
    int r;

    if (s == NULL)
        return err_set(err, -ENOENT, "no sandbox %s", id);
    if (l->net == NULL || l->net->names == NULL || !network_is_grouped(s))
        return err_set(err, -EOPNOTSUPP, "names: sandbox %s is in no named network", id);
    r = names_enter(s, &home, &ns, err);
    r = names_return(home, r, err);
    if (r < 0)
        return r;
    /* A sandbox that administers its network could take a table away, and has none. Nor has one on
     * a kernel that cannot redirect. */
    r = s->net->admin ? -EOPNOTSUPP : l->net->names(l->net->data, ns, err);
    direct = r == -EOPNOTSUPP;
    if (r < 0 && !direct)
        return r;
    if (setns(ns, CLONE_NEWNET) < 0)
        return err_errno(err, -errno, "names: enter the network of sandbox %s", id);
    r = names_listen_both(direct, fds, err);
    r = names_return(home, r, err);
    for (int i = 0; i < 2; i++)
        if (r == 0)
            ret[i] = fds[i];
        else if (fds[i] >= 0)
            (void)close(fds[i]);
    return r;
}

static socklen_t server_name(const struct net_addr *a, struct sockaddr_storage *ret)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(DNS_PORT)};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(DNS_PORT)};

    (void)memset(ret, 0, sizeof(*ret));
    if (a->family == 6) {
        (void)memcpy(&v6.sin6_addr, a->bytes, 16);
        (void)memcpy(ret, &v6, sizeof(v6));
        return sizeof(v6);
    }
    (void)memcpy(&v4.sin_addr, a->bytes, 4);
    (void)memcpy(ret, &v4, sizeof(v4));
    return sizeof(v4);
}

/* Without the internet and exceptions the host refuses each question, and slowly. */
static bool asks_in_vain(const struct net_setup *setup)
{
    for (size_t i = 0; i < setup->access.rule_count; i++)
        if (!setup->access.rules[i].deny)
            return false;
    return !setup->internet;
}

int launcher_ask(struct launcher *l, const struct launch_request *q, struct err *err)
{
    const struct launch_sandbox *s = launcher_find(l, q->id);
    auto_close int home = FD_NONE, ns = FD_NONE, fd = FD_NONE;
    struct sockaddr_storage to;
    socklen_t len;
    int r;

    if (s == NULL)
        return err_set(err, -ENOENT, "no sandbox %s", q->id);
    if (s->net == NULL || q->index >= s->net->dns_count)
        return err_set(err, -ENOENT, "names: sandbox %s has no name server %u", q->id, q->index);
    if (asks_in_vain(s->net))
        return err_set(err, -ENETUNREACH, "names: sandbox %s may reach no name server", q->id);
    len = server_name(&s->net->dns[q->index], &to);
    r = names_enter(s, &home, &ns, err);
    if (r == 0) {
        fd = socket(to.ss_family,
                    (q->udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        r = fd < 0 ? -errno : connect(fd, (struct sockaddr *)(void *)&to, len) < 0 ? -errno : 0;
        r = r == -EINPROGRESS ? 0 : r;
        if (r < 0)
            (void)err_errno(err, r, "names: name server %u", q->index);
    }
    r = names_return(home, r, err);
    return r < 0 ? r : take_fd(&fd);
}
