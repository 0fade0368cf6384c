/* A raw stream to a TCP port of a sandbox, by a socket of the sandbox's net namespace
 * (ports/port.h).
 *
 * `Upgrade: tcp`: a relay joins the client's connection with that socket, and the HTTP server
 * gives it away. The relay outlasts the sandbox, so that what a server sent before its end still
 * arrives. `Upgrade: tcp-socket`: the client gets the socket itself, and its traffic costs the
 * daemon nothing. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/common.h"
#include "api/native/port-number.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "gateway/fd-passing.h"
#include "gateway/relay.h"
#include "http/reply.h"
#include "http/route.h"
#include "http/server.h"
#include "ports/gateway.h"
#include "ports/port.h"
#include "sandbox/sandbox.h"
#include "sandbox/services.h"

static const char relayed[] = "tcp", handed_over[] = "tcp-socket";

enum { EARLY_MAX = 256 << 10 /* bytes read or unsent before the stream begins */ };

struct port_stream {
    struct http_request *req; /* until its connection is given away */
    bool hand_over;
    struct port_connect *connecting;
    struct sandbox *sandbox; /* a reference, and a place in its count of connections */
};

static void stream_free(struct port_stream *p)
{
    port_leave(sandbox_supervisor(p->sandbox), sandbox_id(p->sandbox));
    sandbox_unref(p->sandbox);
    free(p);
}

static void on_stream_gone(struct http_request *req)
{
    struct port_stream *p = req->data;

    port_connect_cancel(p->connecting);
    stream_free(p);
    http_abort(req);
}

static void on_relay_end(void *data, const struct relay_result *result)
{
    (void)result;
    stream_free(data);
}

/* Takes inside. Out of memory or pipes: the client's connection is closed. */
static void stream_join(struct port_stream *p, int client, int inside, const struct buf *unsent,
                        const struct buf *unread)
{
    struct relay_hub *hub = gateway_hub(supervisor_gateway(sandbox_supervisor(p->sandbox)));
    struct relay *relay;

    relay_tune(client);
    if (relay_start(hub, client, inside, relay_group(sandbox_id(p->sandbox)), on_relay_end, p,
                    &relay, NULL) < 0) {
        (void)close(client);
        (void)close(inside);
        stream_free(p);
        return;
    }
    relay_outlasts(relay);
    if (relay_early(relay, 0, unsent->data, unsent->len, NULL) < 0 ||
        relay_early(relay, 1, unread->data, unread->len, NULL) < 0)
        relay_stop(relay);
}

/* Takes inside. */
static void stream_relay(struct port_stream *p, int inside)
{
    auto_buf struct buf unsent = BUF_INIT(EARLY_MAX), unread = BUF_INIT(EARLY_MAX);
    struct http_request *req = p->req;
    int client = http_give_away(req, relayed, &unsent, &unread);

    if (client >= 0) {
        stream_join(p, client, inside, &unsent, &unread);
        return;
    }
    (void)close(inside);
    stream_free(p);
    reply_errorf(req, client, "the request is too long");
}

static void on_socket_taken(void *data)
{
    stream_free(data);
}

/* Takes inside. A client without room for the answer sees its connection break. */
static void stream_hand_over(struct port_stream *p, int inside)
{
    auto_buf struct buf unsent = BUF_INIT(EARLY_MAX), unread = BUF_INIT(EARLY_MAX);
    struct gateway *g = supervisor_gateway(sandbox_supervisor(p->sandbox));
    struct http_request *req = p->req;
    int flags = fcntl(inside, F_GETFL), client;

    client = flags < 0 || fcntl(inside, F_SETFL, flags & ~O_NONBLOCK) < 0
                 ? -errno
                 : http_give_away(req, handed_over, &unsent, &unread);
    if (client < 0) {
        stream_free(p);
        reply_errorf(req, client, "hand the socket over");
    } else if (fd_passing_start(gateway_handovers(g), client, inside, &unsent, on_socket_taken, p) <
               0) {
        (void)close(client);
        stream_free(p);
    }
    (void)close(inside);
}

static void on_port_connected(void *data, int r, int fd, const struct err *err)
{
    struct port_stream *p = data;
    struct http_request *req = p->req;

    p->connecting = NULL;
    if (r < 0) {
        stream_free(p);
        reply_error(req, err);
    } else if (p->hand_over) {
        stream_hand_over(p, fd);
    } else {
        stream_relay(p, fd);
    }
}

/* Only for the owner: a socket keeps its net namespace and memory alive even after the sandbox
 * is removed, and nothing limits how many a client keeps. */
static int client_may_have_socket(struct http_request *req, struct err *err)
{
    if (api_is_owner(req))
        return 0;
    return err_set(err, -EPERM, "Upgrade: '%s' is for the daemon's owner and root; others use '%s'",
                   handed_over, relayed);
}

static int connect_port(struct http_request *req, struct sandbox *s, struct err *err)
{
    const char *asked = req->upgrade ? http_header(req, "upgrade") : NULL;
    const bool hand_over = asked != NULL && strcmp(asked, handed_over) == 0;
    struct port_stream *p;
    uint16_t port = 0;
    int r, fd;

    r = port_number(http_param(req, "port"), 1, &port, err);
    if (r < 0)
        return r;
    if (!hand_over && (asked == NULL || strcmp(asked, relayed) != 0))
        return err_set(err, -EINVAL, "Upgrade: a port's stream is '%s' or '%s'", relayed,
                       handed_over);
    r = hand_over ? client_may_have_socket(req, err) : 0;
    if (r == 0)
        r = gateway_room(supervisor_gateway(sandbox_supervisor(s)), api_is_owner(req), err);
    if (r < 0)
        return r;
    p = calloc(1, sizeof(*p));
    if (p == NULL)
        return err_errno(err, -ENOMEM, "port");
    r = port_enter(s, err);
    if (r < 0) {
        free(p);
        return r;
    }
    p->req = req;
    p->hand_over = hand_over;
    p->sandbox = s;
    sandbox_ref(s);
    req->data = p;
    req->on_gone = on_stream_gone;
    r = port_connect(s, port, on_port_connected, p, &p->connecting, &fd, err);
    if (r < 0)
        stream_free(p);
    else if (fd >= 0)
        on_port_connected(p, 0, fd, NULL);
    return r;
}

static void post_connect(struct http_request *req)
{
    struct sandbox *s = api_sandbox(req);
    struct err err = ERR_NONE;

    if (s != NULL && connect_port(req, s, &err) < 0)
        reply_error(req, &err);
}

const struct route native_port_routes[] = {
    {"POST", "/v1/sandboxes/{id}/ports/{port}/connect", post_connect, ROUTE_UPGRADE, 0},
    {0},
};
