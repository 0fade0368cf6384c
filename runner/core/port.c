#include "core/port.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "core/launcher-client.h"
#include "core/sandbox_internal.h"
#include "core/supervisor_internal.h"
#include "launch/request.h"

struct port_connect {
    struct sandbox *sandbox; /* a reference */
    port_cb cb;              /* NULL = cancelled */
    void *data;
    uint16_t port;
    int family; /* 4, then 6 */
    int fd;     /* owned, while it connects */
    uv_timer_t deadline;
    uv_poll_t poll;
    bool polling, asking; /* asking: the launcher's answer is awaited */
    unsigned handles;
};

static int ask(struct port_connect *c, struct err *err);

static void release(struct port_connect *c)
{
    if (c->handles > 0 || c->asking)
        return;
    sandbox_unref(c->sandbox);
    free(c);
}

static void on_closed(uv_handle_t *h)
{
    struct port_connect *c = h->data;

    c->handles--;
    release(c);
}

static void close_poll(struct port_connect *c)
{
    if (c->polling && !uv_is_closing((uv_handle_t *)&c->poll))
        uv_close((uv_handle_t *)&c->poll, on_closed);
    c->polling = false;
    if (c->fd >= 0)
        (void)close(take_fd(&c->fd));
}

void port_connect_cancel(struct port_connect *c)
{
    if (c == NULL)
        return;
    c->cb = NULL;
    close_poll(c);
    uv_close((uv_handle_t *)&c->deadline, on_closed);
}

static void finish(struct port_connect *c, int r, int fd, const struct err *err)
{
    port_cb cb = c->cb;
    void *data = c->data;

    port_connect_cancel(c);
    cb(data, r, fd, err);
}

static void fail(struct port_connect *c, int r)
{
    struct err err = ERR_NONE;

    (void)err_errno(&err, r, "port %u", c->port);
    finish(c, r, FD_NONE, &err);
}

/* Nobody there: perhaps at the other address. */
static void on_refused(struct port_connect *c, int r)
{
    struct err err = ERR_NONE;

    if (c->family == 6) {
        fail(c, r == -EAFNOSUPPORT || r == -EADDRNOTAVAIL ? -ECONNREFUSED : r);
        return;
    }
    c->family = 6;
    r = ask(c, &err);
    if (r < 0)
        finish(c, r, FD_NONE, &err);
}

static void on_poll_closed(uv_handle_t *h)
{
    struct port_connect *c = h->data;

    c->handles--;
    c->polling = false;
    if (c->cb == NULL)
        release(c);
    else
        on_refused(c, -ECONNREFUSED);
}

static void on_writable(uv_poll_t *h, int status, int events)
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
        finish(c, 0, fd, NULL);
        return;
    }
    (void)close(fd);
    if (c->family == 6)
        fail(c, -error);
    else
        uv_close((uv_handle_t *)h, on_poll_closed); /* it is needed again */
}

static int start_connect(struct port_connect *c)
{
    const struct sockaddr_in v4 = {.sin_family = AF_INET,
                                   .sin_port = htons(c->port),
                                   .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    const struct sockaddr_in6 v6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(c->port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    const struct sockaddr *to = c->family == 6 ? (const struct sockaddr *)(const void *)&v6
                                               : (const struct sockaddr *)(const void *)&v4;

    if (connect(c->fd, to, c->family == 6 ? sizeof(v6) : sizeof(v4)) == 0)
        return 0;
    return -errno;
}

/* Over loopback the answer is there as soon as it has been asked for: only the call that asks does
 * not tell it yet, as it holds the socket meanwhile. The second one does, and spares the loop a
 * watch of the socket. It waits (-EALREADY) for a listener whose queue is full alone. */
static void on_socket(struct port_connect *c)
{
    int r = start_connect(c), fd;

    if (r == -EINPROGRESS)
        r = start_connect(c);
    if (r == -EALREADY)
        r = -EINPROGRESS;
    if (r == 0) {
        fd = take_fd(&c->fd);
        finish(c, 0, fd, NULL);
        return;
    }
    if (r != -EINPROGRESS) {
        (void)close(take_fd(&c->fd));
        on_refused(c, r);
        return;
    }
    r = uv_poll_init(supervisor_loop(c->sandbox->sup), &c->poll, c->fd);
    if (r == 0) {
        c->poll.data = c;
        c->polling = true;
        c->handles++;
        r = uv_poll_start(&c->poll, UV_WRITABLE, on_writable);
    }
    if (r < 0)
        fail(c, r);
}

static void on_answer(void *data, int r, const struct launch_reply *reply, int fds[2],
                      const struct err *err)
{
    struct port_connect *c = data;

    (void)reply;
    c->asking = false;
    if (c->cb == NULL) {
        release(c);
        return;
    }
    if (r == 0 && fds[0] < 0)
        fail(c, -EPROTO);
    else if (r == -EAFNOSUPPORT)
        on_refused(c, r);
    else if (r < 0)
        finish(c, r, FD_NONE, err);
    else {
        c->fd = take_fd(&fds[0]);
        on_socket(c);
    }
}

static int ask(struct port_connect *c, struct err *err)
{
    auto_buf struct buf b = BUF_INIT(0);
    int r;

    launch_begin(&b, LAUNCH_CONNECT);
    launch_put_string(&b, TAG_ID, c->sandbox->id);
    launch_put_number(&b, TAG_FAMILY, (uint64_t)c->family);
    r = launch_end(&b);
    if (r == 0)
        r = launcher_client_send(c->sandbox->sup->launcher, &b, on_answer, c, err);
    c->asking = r == 0;
    return r;
}

int port_enter(struct sandbox *s, struct err *err)
{
    const unsigned most = s->sup->limits.port_connections;

    if (s->port_links < most) {
        s->port_links++;
        return 0;
    }
    if (!s->port_full)
        log_warn("sandbox",
                 "id=%s limit maxPortConnections: %u connections to its ports are open; more are "
                 "refused",
                 s->id, s->port_links);
    s->port_full = true;
    return err_set(err, -EAGAIN,
                   "limit maxPortConnections: %u connections to ports of sandbox %s are open",
                   s->port_links, sandbox_name(s));
}

void port_leave(struct supervisor *sup, const char *id)
{
    struct sandbox *s = sandbox_by_id(sup, id);

    if (s == NULL)
        return;
    assert(s->port_links > 0);
    s->port_links--;
    if (s->port_links <= sup->limits.port_connections / 2)
        s->port_full = false;
}

static void on_deadline(uv_timer_t *h)
{
    fail(h->data, -ETIMEDOUT);
}

int port_connect(struct sandbox *s, uint16_t port, port_cb cb, void *data,
                 struct port_connect **ret, struct err *err)
{
    struct port_connect *c;
    int r;

    if (s->channel == NULL)
        return err_set(err, -EBUSY, "sandbox %s does not run", sandbox_name(s));
    c = calloc(1, sizeof(*c));
    if (c == NULL)
        return err_errno(err, -ENOMEM, "port %u", port);
    *c = (struct port_connect){.sandbox = s,
                               .cb = cb,
                               .data = data,
                               .port = port,
                               .family = 4,
                               .fd = FD_NONE,
                               .handles = 1};
    sandbox_ref(s);
    (void)uv_timer_init(supervisor_loop(s->sup), &c->deadline); /* cannot fail */
    c->deadline.data = c;
    r = ask(c, err);
    if (r < 0) {
        port_connect_cancel(c);
        return r;
    }
    (void)uv_timer_start(&c->deadline, on_deadline, PORT_CONNECT_MS, 0);
    *ret = c;
    return 0;
}
