/*
 * A raw stream to a TCP port of a sandbox: an upgraded connection on the client's side, a socket of
 * the sandbox's own net namespace on the other (core/port.h). Bytes go both ways as they come; an
 * end of one direction ends that direction only; whoever does not read makes the other wait.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "api/http.h"
#include "api/native/common.h"
#include "api/reply.h"
#include "api/route.h"
#include "base/auto.h"
#include "base/err.h"
#include "core/port.h"
#include "core/sandbox.h"

static const char protocol[] = "tcp";

enum {
    CHUNK = 64 << 10,       /* bytes read at a time */
    KEEPALIVE_SECONDS = 60, /* a sandbox whose end is lost is noticed */
};

struct port_stream {
    struct http_request *req; /* NULL once it has been ended */
    struct port_connect *connecting;
    struct sandbox *sandbox; /* a reference, and a place in its count */
    uv_tcp_t socket;
    uv_shutdown_t shutdown;
    bool open;      /* socket is a handle of the loop's */
    bool read_end;  /* the sandbox says no more */
    bool write_end; /* the client says no more */
    size_t waiting; /* bytes for the sandbox that it has not taken */
};

/* Bytes that wait; freed with its answer. */
struct chunk {
    uv_write_t write;
    struct port_stream *p;
    size_t len;
    char data[];
};

static void on_closed(uv_handle_t *h)
{
    free(h->data);
}

static void release(struct port_stream *p)
{
    p->req = NULL;
    port_connect_cancel(p->connecting);
    port_leave(sandbox_supervisor(p->sandbox), sandbox_id(p->sandbox));
    sandbox_unref(p->sandbox);
    if (p->open)
        uv_close((uv_handle_t *)&p->socket, on_closed);
    else
        free(p);
}

static void end(struct port_stream *p)
{
    struct http_request *req = p->req;

    release(p);
    http_end(req);
}

static void break_off(struct port_stream *p)
{
    struct http_request *req = p->req;

    release(p);
    http_abort(req);
}

static void on_gone(struct http_request *req)
{
    break_off(req->data);
}

/* ---- from the sandbox ---- */

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *ret)
{
    static char buffer[CHUNK]; /* the loop has one thread, and what is read is taken at once */

    (void)h;
    (void)suggested;
    *ret = uv_buf_init(buffer, sizeof(buffer));
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    struct port_stream *p = s->data;

    if (n == 0 || p->req == NULL)
        return;
    if (n > 0) {
        if (http_write(p->req, buf->base, (size_t)n))
            (void)uv_read_stop(s);
        return;
    }
    (void)uv_read_stop(s);
    if (n != UV_EOF) {
        break_off(p);
        return;
    }
    p->read_end = true;
    if (p->write_end)
        end(p);
    else
        http_shutdown(p->req);
}

static void on_drain(struct http_request *req)
{
    struct port_stream *p = req->data;

    if (!p->read_end)
        (void)uv_read_start((uv_stream_t *)&p->socket, on_alloc, on_read);
}

/* ---- from the client ---- */

static void on_written(uv_write_t *w, int status)
{
    struct chunk *c = (struct chunk *)(void *)w; /* its first member */
    struct port_stream *p = c->p;

    p->waiting -= c->len;
    free(c);
    if (p->req == NULL)
        return;
    if (status < 0)
        break_off(p);
    else if (p->waiting == 0)
        http_body_resume(p->req);
}

static void on_shut(uv_shutdown_t *s, int status)
{
    struct port_stream *p = s->handle->data;

    (void)status; /* what cannot be shut is read to its end all the same */
    if (p->req != NULL && p->read_end)
        end(p);
}

static int queue(struct port_stream *p, const char *data, size_t len)
{
    struct chunk *c = malloc(sizeof(*c) + len);
    uv_buf_t buf;
    int r;

    if (c == NULL)
        return -ENOMEM;
    c->p = p;
    c->len = len;
    (void)memcpy(c->data, data, len);
    buf = uv_buf_init(c->data, (unsigned)len);
    r = uv_write(&c->write, (uv_stream_t *)&p->socket, &buf, 1, on_written);
    if (r < 0) {
        free(c);
        return r;
    }
    p->waiting += len;
    return 0;
}

static void on_body(struct http_request *req, const char *data, size_t len)
{
    struct port_stream *p = req->data;
    uv_buf_t buf;
    int n;

    if (data == NULL) {
        p->write_end = true;
        if (uv_shutdown(&p->shutdown, (uv_stream_t *)&p->socket, on_shut) < 0 && p->read_end)
            end(p);
        return;
    }
    buf = uv_buf_init((char *)(uintptr_t)data, (unsigned)len); /* written, not changed */
    n = p->waiting > 0 ? UV_EAGAIN : uv_try_write((uv_stream_t *)&p->socket, &buf, 1);
    if (n == UV_EAGAIN)
        n = 0;
    if (n >= 0 && (size_t)n < len) {
        http_body_pause(req); /* one piece waits, and no more */
        n = queue(p, data + n, len - (size_t)n);
    }
    if (n < 0)
        break_off(p);
}

/* ---- beginning ---- */

static int begin(struct port_stream *p, int fd)
{
    const int on = 1, idle = KEEPALIVE_SECONDS;
    int r = uv_tcp_init(http_loop(p->req), &p->socket);

    if (r < 0)
        return r;
    p->socket.data = p;
    p->open = true;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    return uv_tcp_open(&p->socket, fd);
}

static void on_connected(void *data, int r, int fd, const struct err *err)
{
    struct port_stream *p = data;
    struct http_request *req = p->req;
    struct err own = ERR_NONE;

    p->connecting = NULL; /* it is dead */
    if (r == 0) {
        r = begin(p, fd);
        if (r < 0) {
            (void)close(fd);
            (void)err_errno(&own, r, "port");
            err = &own;
        }
    }
    if (r < 0) {
        release(p);
        reply_error(req, err);
        return;
    }
    req->on_drain = on_drain;
    http_upgrade(req, protocol, NULL, on_body);
    (void)uv_read_start((uv_stream_t *)&p->socket, on_alloc, on_read);
}

static int parse_port(const char *text, uint16_t *ret, struct err *err)
{
    unsigned n = 0;
    size_t len = strlen(text);

    if (len >= 1 && len <= 5 && strspn(text, "0123456789") == len)
        n = (unsigned)atoi(text);
    if (n < 1 || n > UINT16_MAX)
        return err_set(err, -EINVAL, "port: '%.16s' is not a number from 1 to 65535", text);
    *ret = (uint16_t)n;
    return 0;
}

static int connect_port(struct http_request *req, struct sandbox *s, struct err *err)
{
    const char *asked = http_header(req, "upgrade");
    struct port_stream *p;
    uint16_t port = 0;
    int r;

    r = parse_port(http_param(req, "port"), &port, err);
    if (r < 0)
        return r;
    if (!req->upgrade || asked == NULL || strcmp(asked, protocol) != 0)
        return err_set(err, -EINVAL, "Upgrade: a port's stream is '%s'", protocol);
    p = calloc(1, sizeof(*p));
    if (p == NULL)
        return err_errno(err, -ENOMEM, "port");
    p->req = req;
    r = port_enter(s, err);
    if (r == 0) {
        r = port_connect(s, port, on_connected, p, &p->connecting, err);
        if (r < 0)
            port_leave(sandbox_supervisor(s), sandbox_id(s));
    }
    if (r < 0) {
        free(p);
        return r;
    }
    p->sandbox = s;
    sandbox_ref(s);
    req->data = p;
    req->on_gone = on_gone;
    return 0;
}

static void post_connect(struct http_request *req)
{
    struct sandbox *s = native_sandbox(req);
    struct err err = ERR_NONE;

    if (s != NULL && connect_port(req, s, &err) < 0)
        reply_error(req, &err);
}

const struct route native_port_routes[] = {
    {"POST", "/v1/sandboxes/{id}/ports/{port}/connect", post_connect, ROUTE_UPGRADE, 0},
    {0},
};
