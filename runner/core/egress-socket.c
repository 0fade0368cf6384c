/*
 * Sockets of the launcher's for what leaves a sandbox. A round trip to it is a quarter of what a
 * connection costs that goes through here (60 us of 240, and two switches of processes), so a
 * sandbox that connects to servers has a few spare sockets of its namespace, for a while: made
 * while nobody waits for them.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "core/egress_internal.h"
#include "core/gateway.h"
#include "core/launcher-client.h"
#include "core/supervisor_internal.h"
#include "launch/request.h"

enum {
    OPENING_MAX = 256, /* sockets that one sandbox waits for: the launcher has others to serve */
    SPARES_MS = 10 * 1000, /* without a connection; then they are closed */
};

/* One that the engine has asked for. */
struct opening {
    struct sandbox *s; /* a reference */
    dns_socket_fn *cb; /* NULL = cancelled */
    void *who;
};

static void on_opened(void *data, int r, const struct launch_reply *reply, int fds[2],
                      const struct err *err)
{
    struct opening *o = data;
    struct err own = ERR_NONE;

    (void)reply;
    if (r == 0 && fds[0] < 0) {
        r = err_set(&own, -EPROTO, "no socket came");
        err = &own;
    }
    if (o->cb != NULL)
        o->cb(o->who, r, r == 0 ? take_fd(&fds[0]) : FD_NONE, err);
    o->s->opening--;
    sandbox_unref(o->s);
    free(o);
}

static void put_want(struct buf *b, const struct sandbox *s, const struct egress_want *w)
{
    static const enum launch_verb verbs[] = {[EGRESS_DIRECT] = LAUNCH_CONNECT,
                                             [EGRESS_HANDLER] = LAUNCH_DIAL,
                                             [EGRESS_RESOLVER] = LAUNCH_RESOLVER};

    launch_begin(b, verbs[w->kind]);
    if (w->kind != EGRESS_RESOLVER)
        launch_put_string(b, TAG_ID, s->id);
    if (w->kind == EGRESS_DIRECT) {
        launch_put_number(b, TAG_FAMILY, (uint64_t)w->family);
        launch_put_number(b, TAG_MARK, 1);
    } else if (w->kind == EGRESS_HANDLER) {
        launch_put_string(b, TAG_HANDLER, w->handler);
    } else {
        launch_put_number(b, TAG_INDEX, w->index);
        if (w->udp)
            launch_put_number(b, TAG_UDP, 1);
    }
}

int egress_open_socket(void *data, const struct egress_want *want, dns_socket_fn *cb, void *who,
                       void **ret_handle, struct err *err)
{
    struct sandbox_egress *e = data;
    auto_buf struct buf b = BUF_INIT(0);
    struct opening *o;
    int r;

    /* The launcher takes as many of them; one more is no socket, but an index is an answer. */
    if (want->kind == EGRESS_RESOLVER && want->index >= NET_DNS_MAX)
        return err_set(err, -ENOENT, "name servers: no %u", want->index);
    if (want->kind == EGRESS_DIRECT && e->s->net.box4.family == 0)
        return err_set(err, -ENETUNREACH, "it has no network: only handlers are reached");
    if (e->s->opening >= OPENING_MAX) {
        egress_box_trouble(e->box, "more connections at a time than the launcher makes");
        return err_set(err, -EAGAIN, "%d sockets are being opened", OPENING_MAX);
    }
    o = calloc(1, sizeof(*o));
    if (o == NULL)
        return err_errno(err, -ENOMEM, "egress");
    *o = (struct opening){.s = e->s, .cb = cb, .who = who};
    put_want(&b, e->s, want);
    r = launch_end(&b);
    if (r == 0)
        r = launcher_client_send(e->s->sup->launcher, &b, on_opened, o, err);
    if (r < 0) {
        free(o);
        return r;
    }
    sandbox_ref(e->s);
    e->s->opening++;
    *ret_handle = o;
    return 0;
}

void egress_cancel_socket(void *handle)
{
    struct opening *o = handle;

    o->cb = NULL;
}

/* ---- spare ones ---- */

/* A spare one that the launcher makes; the sandbox's egress may be gone when it is there. */
struct egress_filling {
    struct sandbox_egress *e; /* NULL: gone */
    struct sandbox *s;        /* a reference */
    int family;
};

static struct egress_spares *spares_of(struct sandbox_egress *e, int family)
{
    return &e->spares[family == 6];
}

static void fill(struct sandbox_egress *e, int family);

static void on_spare(void *data, int r, const struct launch_reply *reply, int fds[2],
                     const struct err *err)
{
    struct egress_filling *f = data;
    struct egress_spares *p;

    (void)reply;
    (void)err; /* who needs one next asks by itself, and is told */
    if (f->e != NULL) {
        p = spares_of(f->e, f->family);
        p->filling = NULL;
        if (r == 0 && fds[0] >= 0) {
            p->fds[p->count++] = take_fd(&fds[0]);
            fill(f->e, f->family);
        }
    }
    sandbox_unref(f->s);
    free(f);
}

/* One at a time: a sandbox that connects faster waits for its own sockets as without them. */
static void fill(struct sandbox_egress *e, int family)
{
    const struct egress_want want = {.kind = EGRESS_DIRECT, .family = family};
    struct egress_spares *p = spares_of(e, family);
    auto_buf struct buf b = BUF_INIT(0);
    struct egress_filling *f;

    if (p->filling != NULL || p->count == EGRESS_SPARES)
        return;
    f = calloc(1, sizeof(*f));
    if (f == NULL)
        return;
    *f = (struct egress_filling){.e = e, .s = e->s, .family = family};
    put_want(&b, e->s, &want);
    if (launch_end(&b) < 0 ||
        launcher_client_send(e->s->sup->launcher, &b, on_spare, f, NULL) < 0) {
        free(f);
        return;
    }
    sandbox_ref(e->s);
    p->filling = f;
}

void egress_spares_drop(struct sandbox_egress *e)
{
    deadline_clear(&e->spares_go);
    for (size_t i = 0; i < sizeof(e->spares) / sizeof(e->spares[0]); i++) {
        struct egress_spares *p = &e->spares[i];

        while (p->count > 0)
            (void)close(p->fds[--p->count]);
        if (p->filling != NULL)
            take(p->filling)->e = NULL;
    }
}

static void on_unused(struct deadline *d)
{
    egress_spares_drop(
        (struct sandbox_egress *)(void *)((char *)d - offsetof(struct sandbox_egress, spares_go)));
}

int egress_spare(void *data, int family)
{
    struct sandbox_egress *e = data;
    struct egress_spares *p = spares_of(e, family);
    int fd = p->count > 0 ? p->fds[--p->count] : FD_NONE;

    if (e->s->net.box4.family == 0)
        return FD_NONE; /* egress_open_socket says why */
    deadline_set(gateway_poller(e->s->sup->gateway), &e->spares_go, SPARES_MS, on_unused);
    fill(e, family);
    return fd;
}
