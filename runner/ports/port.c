#include "ports/port.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "gateway/relay.h"
#include "ports/net-socket.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/shared.h"

struct port_connect {
    struct net_socket_wait socket; /* first member */
    struct sandbox *sandbox;       /* a reference */
    port_cb cb;                    /* NULL = cancelled */
    void *data;
    uint16_t port;
    unsigned step; /* STEP_* */
    int fd;        /* owned while connecting */
    uv_timer_t deadline;
    uv_poll_t poll;
    bool polling;
    unsigned handles;
};

/* Where a server may listen, one after the other: on loopback, or at one of its sandbox's addresses
 * in networks with a subnet. */
enum { STEP_LOOPBACK4, STEP_LOOPBACK6, STEP_NETWORKS, STEPS_MAX = STEP_NETWORKS + NET_GROUPS_MAX };

static int step_family(unsigned step)
{
    return step == STEP_LOOPBACK6 ? 6 : 4;
}

/* Returns the step behind this one; STEPS_MAX: none. */
static unsigned step_next(const struct sandbox *s, unsigned step)
{
    do
        step++;
    while (step >= STEP_NETWORKS && step < STEPS_MAX &&
           s->net.place.lan[step - STEP_NETWORKS].prefix == 0);
    return step;
}

/* ---- one socket ---- */

static int connect_step(const struct sandbox *s, int fd, unsigned step, uint16_t port)
{
    const int family = step_family(step);
    struct sockaddr_in v4 = {.sin_family = AF_INET,
                             .sin_port = htons(port),
                             .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    const struct sockaddr_in6 v6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    const struct sockaddr *to = family == 6 ? (const struct sockaddr *)(const void *)&v6
                                            : (const struct sockaddr *)(const void *)&v4;

    if (step >= STEP_NETWORKS)
        (void)memcpy(&v4.sin_addr, s->net.place.lan[step - STEP_NETWORKS].address, 4);
    return connect(fd, to, family == 6 ? sizeof(v6) : sizeof(v4)) == 0 ? 0 : -errno;
}

/*
 * connect on loopback completes within the call, but reports EINPROGRESS, since it holds the socket
 * lock. A second call returns the result and saves a poll handle. -EINPROGRESS: the listener's
 * queue is full.
 */
static int connect_now(const struct sandbox *s, int fd, unsigned step, uint16_t port)
{
    int r;

    relay_tune_local(fd);
    r = connect_step(s, fd, step, port);
    if (r == -EINPROGRESS)
        r = connect_step(s, fd, step, port);
    return r == -EALREADY ? -EINPROGRESS : r;
}

/* Without IPv6, or without ::1, no process can listen there. */
static int port_map_errno(int r)
{
    return r == -EAFNOSUPPORT || r == -EADDRNOTAVAIL ? -ECONNREFUSED : r;
}

/* ---- the handle ---- */

static void port_connect_unref(struct port_connect *c)
{
    if (c->handles > 0)
        return;
    sandbox_unref(c->sandbox);
    free(c);
}

static void on_handle_closed(uv_handle_t *h)
{
    struct port_connect *c = h->data;

    c->handles--;
    port_connect_unref(c);
}

static void close_poll(struct port_connect *c)
{
    if (c->polling && !uv_is_closing((uv_handle_t *)&c->poll))
        uv_close((uv_handle_t *)&c->poll, on_handle_closed);
    c->polling = false;
    if (c->fd >= 0)
        (void)close(take_fd(&c->fd));
}

void port_connect_cancel(struct port_connect *c)
{
    if (c == NULL)
        return;
    c->cb = NULL;
    net_socket_forget(&c->socket);
    close_poll(c);
    uv_close((uv_handle_t *)&c->deadline, on_handle_closed);
}

static void port_connect_finish(struct port_connect *c, int r, int fd, const struct err *err)
{
    port_cb cb = c->cb;
    void *data = c->data;

    port_connect_cancel(c);
    cb(data, r, fd, err);
}

static void port_connect_fail(struct port_connect *c, int r)
{
    struct err err = ERR_NONE;

    (void)err_errno(&err, r, "port %u", c->port);
    port_connect_finish(c, r, FD_NONE, &err);
}

/* ---- connecting ---- */

static void on_net_socket(struct net_socket_wait *w, int fd, const struct err *err);

/* No listener at this address: tries the next one. */
static void on_step_refused(struct port_connect *c, int r)
{
    struct err err = ERR_NONE;

    c->step = step_next(c->sandbox, c->step);
    if (c->step == STEPS_MAX) {
        port_connect_fail(c, port_map_errno(r));
        return;
    }
    r = net_socket_wait(c->sandbox, step_family(c->step), NET_SOCKET_PLAIN, &c->socket,
                        on_net_socket, &err);
    if (r < 0)
        port_connect_finish(c, r, FD_NONE, &err);
}

static void on_poll_closed(uv_handle_t *h)
{
    struct port_connect *c = h->data;

    c->handles--;
    c->polling = false;
    if (c->cb == NULL)
        port_connect_unref(c);
    else
        on_step_refused(c, -ECONNREFUSED);
}

static void on_socket_writable(uv_poll_t *h, int status, int events)
{
    struct port_connect *c = h->data;
    socklen_t len = sizeof(int);
    int error = 0, fd;

    (void)status;
    (void)events;
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        error = errno;
    (void)uv_poll_stop(&c->poll);
    fd = take_fd(&c->fd);
    if (error == 0) {
        port_connect_finish(c, 0, fd, NULL);
        return;
    }
    (void)close(fd);
    if (step_next(c->sandbox, c->step) == STEPS_MAX)
        port_connect_fail(c, -error);
    else
        uv_close((uv_handle_t *)h, on_poll_closed); /* c->poll is reused for the next address */
}

/* Waits for the result of the connect on c->fd. */
static int watch_socket(struct port_connect *c)
{
    int r = uv_poll_init(supervisor_loop(c->sandbox->sup), &c->poll, c->fd);

    if (r < 0)
        return r;
    c->poll.data = c;
    c->polling = true;
    c->handles++;
    return uv_poll_start(&c->poll, UV_WRITABLE, on_socket_writable);
}

static void on_net_socket(struct net_socket_wait *w, int fd, const struct err *err)
{
    struct port_connect *c = (struct port_connect *)(void *)w;
    int r;

    if (fd == -EAFNOSUPPORT) {
        on_step_refused(c, fd);
        return;
    }
    if (fd < 0) {
        port_connect_finish(c, fd, FD_NONE, err);
        return;
    }
    c->fd = fd;
    r = connect_now(c->sandbox, fd, c->step, c->port);
    if (r == 0) {
        port_connect_finish(c, 0, take_fd(&c->fd), NULL);
    } else if (r == -EINPROGRESS) {
        r = watch_socket(c);
        if (r < 0)
            port_connect_fail(c, r);
    } else {
        (void)close(take_fd(&c->fd));
        on_step_refused(c, r);
    }
}

static void on_connect_deadline(uv_timer_t *h)
{
    port_connect_fail(h->data, -ETIMEDOUT);
}

/* fd: still connecting, taken; or FD_NONE: no ready socket of this family. */
static int connect_later(struct sandbox *s, const struct port_connect *what,
                         struct port_connect **ret, struct err *err)
{
    struct port_connect *c = malloc(sizeof(*c));
    int r;

    if (c == NULL) {
        if (what->fd >= 0)
            (void)close(what->fd);
        return err_errno(err, -ENOMEM, "port %u", what->port);
    }
    *c = *what;
    c->sandbox = s;
    c->handles = 1;
    sandbox_ref(s);
    (void)uv_timer_init(supervisor_loop(s->sup), &c->deadline); /* cannot fail */
    c->deadline.data = c;
    if (c->fd < 0)
        r = net_socket_wait(s, step_family(c->step), NET_SOCKET_PLAIN, &c->socket, on_net_socket,
                            err);
    else if ((r = watch_socket(c)) < 0)
        (void)err_errno(err, r, "port %u", c->port);
    if (r < 0) {
        port_connect_cancel(c);
        return r;
    }
    (void)uv_timer_start(&c->deadline, on_connect_deadline, PORT_CONNECT_MS, 0);
    *ret = c;
    return 0;
}

int port_connect(struct sandbox *s, uint16_t port, port_cb cb, void *data,
                 struct port_connect **ret, int *ret_fd, struct err *err)
{
    struct port_connect c = {.cb = cb, .data = data, .port = port, .fd = FD_NONE};
    int r = -ECONNREFUSED;

    if (s->channel == NULL)
        return err_set(err, -EBUSY, "sandbox %s does not run", sandbox_name(s));
    *ret_fd = FD_NONE;
    for (c.step = 0; c.step < STEPS_MAX; c.step = step_next(s, c.step)) {
        c.fd = net_socket_take(s, step_family(c.step), NET_SOCKET_PLAIN);
        if (c.fd < 0)
            return connect_later(s, &c, ret, err);
        r = connect_now(s, c.fd, c.step, port);
        if (r == -EINPROGRESS)
            return connect_later(s, &c, ret, err);
        if (r == 0) {
            *ret_fd = c.fd;
            return 0;
        }
        (void)close(c.fd);
    }
    return err_errno(err, port_map_errno(r), "port %u", port);
}

int port_enter(struct sandbox *s, struct err *err)
{
    const unsigned most = s->sup->limits.port_connections;

    if (s->parts.ports.links < most) {
        s->parts.ports.links++;
        return 0;
    }
    if (!s->parts.ports.full)
        log_warn("sandbox",
                 "id=%s limit maxPortConnections: %u connections to its ports are open; more are "
                 "refused",
                 s->id, s->parts.ports.links);
    s->parts.ports.full = true;
    return err_set(err, -EAGAIN,
                   "limit maxPortConnections: %u connections to ports of sandbox %s are open",
                   s->parts.ports.links, sandbox_name(s));
}

void port_leave(struct supervisor *sup, const char *id)
{
    struct sandbox *s = sandbox_by_id(sup, id);

    if (s == NULL)
        return;
    assert(s->parts.ports.links > 0);
    s->parts.ports.links--;
    if (s->parts.ports.links <= sup->limits.port_connections / 2)
        s->parts.ports.full = false;
}
