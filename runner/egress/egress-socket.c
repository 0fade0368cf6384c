/*
 * Sockets for outgoing connections of a sandbox, made in the launcher. A socket to a server comes
 * from the sandbox's pool of spare ones (net-socket.h). A round trip to the launcher would take 60
 * of the 240 us that such a connection costs, and two context switches. Runs in the supervisor's
 * event loop.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "egress/egress-internal.h"
#include "launch/request.h"
#include "ports/net-socket.h"
#include "sandbox/launcher-client.h"
#include "sandbox/shared.h"

enum {
    /*
     * Requests to handlers and name servers that one sandbox may have pending. Each is a request to
     * the launcher, which serves other sandboxes as well.
     */
    OPENING_MAX = 256,
};

/* A socket that the egress engine has requested. */
struct egress_socket_opening {
    struct net_socket_wait wait; /* first member; used for a socket of the pool */
    /* A reference. NULL: a socket of the pool, which does not outlive the sandbox. */
    struct sandbox *s;
    dns_socket_fn *cb; /* NULL = cancelled */
    void *who;
};

/* ---- sockets to servers: from the pool ---- */

static void on_pool_socket(struct net_socket_wait *w, int r, const struct err *err)
{
    struct egress_socket_opening *o = (struct egress_socket_opening *)(void *)w;
    dns_socket_fn *cb = o->cb;
    void *who = o->who;

    free(o);
    cb(who, r < 0 ? r : 0, r < 0 ? FD_NONE : r, err);
}

static int open_direct(struct sandbox *s, int family, struct egress_socket_opening *o,
                       struct err *err)
{
    if (s->net.place.sandbox4.family == 0)
        return err_set(err, -ENETUNREACH, "it has no network: only handlers are reached");
    return net_socket_wait(s, family, NET_SOCKET_MARKED, &o->wait, on_pool_socket, err);
}

int egress_spare(void *data, int family)
{
    struct sandbox_egress *e = data;

    return net_socket_take(e->s, family, NET_SOCKET_MARKED);
}

/* ---- sockets to handlers and name servers: from the launcher ---- */

static void on_launcher_socket(void *data, int r, const struct launch_reply *reply, int fds[2],
                               const struct err *err)
{
    struct egress_socket_opening *o = data;
    struct err own = ERR_NONE;

    (void)reply;
    if (r == 0 && fds[0] < 0) {
        r = err_set(&own, -EPROTO, "no socket came");
        err = &own;
    }
    if (o->cb != NULL)
        o->cb(o->who, r, r == 0 ? take_fd(&fds[0]) : FD_NONE, err);
    o->s->parts.egress.opening--;
    sandbox_unref(o->s);
    free(o);
}

static int send_want(struct sandbox *s, const struct egress_want *w,
                     struct egress_socket_opening *o, struct err *err)
{
    auto_buf struct buf b = BUF_INIT(0);
    int r;

    if (w->kind == EGRESS_HANDLER) {
        launch_begin(&b, LAUNCH_DIAL);
        launch_put_string(&b, TAG_ID, s->id);
        launch_put_string(&b, TAG_HANDLER, w->handler);
    } else {
        launch_begin(&b, LAUNCH_RESOLVER);
        launch_put_number(&b, TAG_INDEX, w->index);
        if (w->udp)
            launch_put_number(&b, TAG_UDP, 1);
    }
    r = launch_end(&b);
    return r < 0 ? r : launcher_client_send(s->sup->launcher, &b, on_launcher_socket, o, err);
}

static int open_other(struct sandbox_egress *e, const struct egress_want *want,
                      struct egress_socket_opening *o, struct err *err)
{
    int r;

    /* The launcher knows NET_DNS_MAX name servers. The engine asks for indexes until one fails. */
    if (want->kind == EGRESS_RESOLVER && want->index >= NET_DNS_MAX)
        return err_set(err, -ENOENT, "name servers: no %u", want->index);
    if (e->s->parts.egress.opening >= OPENING_MAX) {
        egress_ctx_trouble(e->ctx, "more connections at a time than the launcher makes");
        return err_set(err, -EAGAIN, "%d sockets are being opened", OPENING_MAX);
    }
    r = send_want(e->s, want, o, err);
    if (r < 0)
        return r;
    o->s = e->s;
    sandbox_ref(e->s);
    e->s->parts.egress.opening++;
    return 0;
}

/* ---- the engine's ops ---- */

int egress_open_socket(void *data, const struct egress_want *want, dns_socket_fn *cb, void *who,
                       void **ret_handle, struct err *err)
{
    struct sandbox_egress *e = data;
    struct egress_socket_opening *o = calloc(1, sizeof(*o));
    int r;

    if (o == NULL)
        return err_errno(err, -ENOMEM, "egress");
    *o = (struct egress_socket_opening){.cb = cb, .who = who};
    if (want->kind == EGRESS_DIRECT)
        r = open_direct(e->s, want->family, o, err);
    else
        r = open_other(e, want, o, err);
    if (r < 0) {
        free(o);
        return r;
    }
    *ret_handle = o;
    return 0;
}

void egress_cancel_socket(void *handle)
{
    struct egress_socket_opening *o = handle;

    o->cb = NULL;
    if (o->s != NULL)
        return; /* on_launcher_socket frees it */
    net_socket_forget(&o->wait);
    free(o);
}
