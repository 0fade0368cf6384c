/*
 * Sockets for a supervisor that filters what a sandbox sends. In the sandbox's net namespace: the
 * table that redirects connections (net/egress.c, through net-ops.h) and the listeners that it
 * redirects to.
 *
 * On the host: a socket to one of the host's name servers, which the supervisor cannot choose, and
 * one to a client's handler. The handler is a unix socket, connected with the rights of the
 * sandbox's creator, or a TCP port on the host's loopback. No other destination on the host can be
 * reached with these.
 *
 * Runs in the launcher.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/address.h"
#include "base/auto.h"
#include "base/err.h"
#include "launch/launcher.h"
#include "launch/net-ops.h"
#include "launch/request.h"
#include "launch/sandbox.h"
#include "policy/egress-handler.h"
#include "policy/egress-net.h"

enum { EGRESS_BACKLOG = 512 };

/* ---- in the namespace ---- */

static int egress_listen_inside(int family, int type, uint16_t port)
{
    const struct sockaddr_in v4 = {.sin_family = AF_INET,
                                   .sin_port = htons(port),
                                   .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    const struct sockaddr_in6 v6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    auto_close int fd =
        socket(family == 6 ? AF_INET6 : AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int on = 1;
    int r;

    if (fd < 0)
        return -errno;
    /* Lets bind succeed while connections of an earlier listener are in TIME_WAIT. UDP has none. */
    if (type == SOCK_STREAM && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
        return -errno;
    r = family == 6 ? bind(fd, (const struct sockaddr *)(const void *)&v6, sizeof(v6))
                    : bind(fd, (const struct sockaddr *)(const void *)&v4, sizeof(v4));
    if (r < 0 || (type == SOCK_STREAM && listen(fd, EGRESS_BACKLOG) < 0))
        return -errno;
    return take_fd(&fd);
}

/*
 * Checks that a net namespace is owned by a sandbox's outer user namespace, the one whose parent is
 * the launcher's. No process inside has capabilities there. If an inner one owns it (init's
 * admin.c), a process inside could remove the table. The kernel is asked, whatever the saved state
 * says.
 */
static int egress_check_owner(int ns, struct err *err)
{
    auto_close int ours = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
    auto_close int owner = ioctl(ns, NS_GET_USERNS);
    auto_close int parent = owner < 0 ? FD_NONE : ioctl(owner, NS_GET_PARENT);
    struct stat a, b;

    if (ours < 0 || parent < 0 || fstat(ours, &a) < 0 || fstat(parent, &b) < 0)
        return err_errno(err, -errno, "egress: whose the net namespace is");
    if (a.st_ino == b.st_ino && a.st_dev == b.st_dev)
        return 0;
    return err_set(err, -EPERM,
                   "egress: the sandbox administers its network (netAdmin), and could take the "
                   "table of these rules away");
}

/* Runs in the sandbox's net namespace for a few system calls. *ret_ns: an fd of it. */
static int egress_make_inside(int family, bool sockets, const struct stat *host, int *ret_ns,
                              int ret[2], struct err *err)
{
    auto_close int tcp = FD_NONE, udp = FD_NONE;
    struct stat st;
    int r;

    *ret_ns = own_net_namespace(&st);
    if (*ret_ns < 0)
        return err_errno(err, *ret_ns, "egress: net namespace");
    if (st.st_ino == host->st_ino && st.st_dev == host->st_dev)
        return err_set(err, -EPERM, "egress: the sandbox has the host's network");
    r = egress_check_owner(*ret_ns, err);
    if (r < 0)
        return r;
    if (!sockets)
        return 0;
    tcp = egress_listen_inside(family, SOCK_STREAM, EGRESS_TCP_PORT);
    if (tcp < 0)
        return err_errno(err, tcp, "egress: port %d inside", EGRESS_TCP_PORT);
    udp = egress_listen_inside(family, SOCK_DGRAM, EGRESS_DNS_PORT);
    if (udp < 0)
        return err_errno(err, udp, "egress: port %d inside", EGRESS_DNS_PORT);
    ret[0] = take_fd(&tcp);
    ret[1] = take_fd(&udp);
    return 0;
}

int launcher_egress(struct launcher *l, const struct launch_request *q, int ret[2], struct err *err)
{
    struct launch_sandbox *s = launcher_find(l, q->id);
    const bool sockets = (q->egress & (LAUNCH_EGRESS_TABLE | LAUNCH_EGRESS_NONE)) == 0;
    const enum egress_table table = (q->egress & LAUNCH_EGRESS_NONE) != 0   ? EGRESS_TABLE_NONE
                                    : (q->egress & LAUNCH_EGRESS_OPEN) != 0 ? EGRESS_TABLE_OPEN
                                                                            : EGRESS_TABLE_CLOSED;
    auto_close int home = FD_NONE, ns = FD_NONE;
    struct stat host;
    int r;

    if (s == NULL)
        return err_set(err, -ENOENT, "no sandbox %s", q->id);
    if (l->net == NULL || l->net->egress == NULL)
        return err_set(err, -EOPNOTSUPP, "egress: this launcher makes no networks");
    home = own_net_namespace(&host);
    if (home < 0)
        return err_errno(err, home, "egress: our own net namespace");
    if (setns(s->pidfd, CLONE_NEWNET) < 0)
        return err_errno(err, errno == ESRCH ? -EBUSY : -errno,
                         "egress: enter the network of sandbox %s", q->id);
    r = egress_make_inside(q->family, sockets, &host, &ns, ret, err);
    if (setns(home, CLONE_NEWNET) < 0)
        r = err_set(err, -ENOTRECOVERABLE, "egress: the launcher cannot leave a sandbox's network");
    /* One table serves both families. */
    if (r == 0 && (!sockets || q->family == 4))
        r = l->net->egress(l->net->data, s->net, ns, table, err);
    for (int i = 0; r < 0 && i < 2; i++)
        if (ret[i] >= 0)
            (void)close(take_fd(&ret[i]));
    return r;
}

/* ---- on the host ---- */

int launcher_resolver(struct launcher *l, unsigned index, bool udp, struct err *err)
{
    struct sockaddr_storage to;
    auto_close int fd = FD_NONE;
    socklen_t len;
    int r;

    if (l->net == NULL || l->net->resolver == NULL)
        return err_set(err, -EOPNOTSUPP, "resolver: this launcher makes no networks");
    r = l->net->resolver(l->net->data, index, &to, err);
    if (r < 0)
        return r;
    len = to.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    fd = socket(to.ss_family, (udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_errno(err, -errno, "resolver: socket");
    if (connect(fd, (struct sockaddr *)(void *)&to, len) < 0 && errno != EINPROGRESS)
        return err_errno(err, -errno, "resolver: name server %u", index);
    return take_fd(&fd);
}

static int handler_dial_unix(const struct creator *c, const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int r;

    if (fd < 0)
        return -errno;
    if (strlen(path) >= sizeof(name.sun_path))
        return -ENAMETOOLONG;
    (void)snprintf(name.sun_path, sizeof(name.sun_path), "%s", path);
    /* connect does not block: -EAGAIN when the handler's backlog is full. */
    r = creator_connect(c, fd, &name);
    return r < 0 ? r : take_fd(&fd);
}

static int handler_dial_tcp(const char *text)
{
    struct address a;
    struct sockaddr_storage to;
    auto_close int fd = FD_NONE;
    socklen_t len;

    if (address_parse(text, &a) < 0 || a.port == 0 || !egress_handler_ok(text))
        return -EINVAL;
    len = address_socket(&a, &to);
    fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, (struct sockaddr *)(void *)&to, len) < 0 && errno != EINPROGRESS)
        return -errno;
    return take_fd(&fd);
}

/* Reads the sandbox's creator from a file that only the launcher writes: the client that restarts a
 * sandbox later may be another one. */
static int sandbox_load_creator(const struct launch_sandbox *s, struct creator *ret,
                                struct err *err)
{
    if (!s->kept) {
        *ret = *s->creator;
        return 0;
    }
    return creator_load(s->dir_fd, KEEP_FILE, ret, err);
}

int launcher_dial(struct launcher *l, const char *id, const char *handler, struct err *err)
{
    struct launch_sandbox *s = launcher_find(l, id);
    struct creator *who;
    int r;

    if (s == NULL)
        return err_set(err, -ENOENT, "no sandbox %s", id);
    if (handler[0] != '/') {
        r = handler_dial_tcp(handler);
        return r < 0 ? err_errno(err, r, "handler %s", handler) : r;
    }
    who = malloc(sizeof(*who)); /* the array of groups is too large for the stack */
    if (who == NULL)
        return err_errno(err, -ENOMEM, "handler");
    r = sandbox_load_creator(s, who, err);
    if (r == 0) {
        r = handler_dial_unix(who, handler);
        if (r < 0)
            (void)err_errno(err, r, "handler %s", handler);
    }
    free(who);
    return r;
}
