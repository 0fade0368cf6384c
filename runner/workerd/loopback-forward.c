#include "workerd/loopback-forward.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/socket.h"
#include "gateway/connect.h"
#include "gateway/listener.h"
#include "gateway/relay.h"
#include "json/parse.h"
#include "launch/request.h"
#include "policy/egress-net.h"
#include "ports/gateway.h"
#include "ports/publish.h"
#include "sandbox/launcher-client.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/shared.h"

enum {
    LOOK_MS = 30 * 1000, /* time for a request to arrive */
    LOOK_BYTES =
        64 << 10, /* bytes of a request that are inspected; a longer one passes uninspected */
    PASS_MS = 10 * 1000, /* time for the connection on the host's side */
    OPENING_RETRY_MS = 20,
};

/* One connection through the host loopback forward. */
struct passing {
    struct fd_watch watch; /* first member */
    struct fwd *fwd;       /* NULL: the forward has been closed */
    struct passing *next, **link;
    struct deadline clock;
    int inside, outside; /* owned, until a relay takes both */
    bool asking;         /* the launcher's reply frees it */
};

/* A listening socket requested from the launcher. */
struct loopback_forward_opening {
    struct sandbox *s; /* a reference */
    struct loopback_forward_opening *next, **link;
    struct fwd *fwd; /* NULL: the forward has been closed */
    uint16_t port;
    int64_t until;
    struct deadline again;
    loopback_forward_cb *cb; /* NULL: has been called, or the caller does not wait */
    void *data;
};

struct fwd {
    struct sandbox *s;
    struct loopback_forward_config config;
    struct listener *listener;
    uint16_t port; /* the port it listens on; 0: none */
    struct passing *passings;
    struct loopback_forward_opening *openings;
    unsigned count;
};

struct publish_look {
    struct fd_watch watch; /* first member */
    struct sandbox *s;     /* borrowed: the caller cancels before the sandbox is freed */
    struct loopback_forward_opening *opening;
    struct deadline clock;
    int fd;
    void (*cb)(void *data, int r);
    void *data;
};

static struct evloop *evloop_of(const struct sandbox *s)
{
    return gateway_evloop(s->sup->gateway);
}

/* ---- connections ---- */

static void passing_free(struct passing *p)
{
    watch_remove(&p->watch);
    deadline_clear(&p->clock);
    if (p->inside >= 0) {
        socket_reset_on_close(p->inside);
        (void)close(p->inside);
    }
    if (p->outside >= 0)
        (void)close(p->outside);
    if (p->fwd != NULL) {
        *p->link = p->next;
        if (p->next != NULL)
            p->next->link = p->link;
        p->fwd->count--;
    }
    free(p);
}

static void on_passing_late(struct deadline *d)
{
    passing_free((struct passing *)(void *)((char *)d - offsetof(struct passing, clock)));
}

static void on_passed(void *data, const struct relay_result *result)
{
    (void)result;
    passing_free(data);
}

static void on_outside(struct fd_watch *w, unsigned events)
{
    struct passing *p = (struct passing *)(void *)w;
    struct sandbox *s = p->fwd->s;
    int error = 0;
    socklen_t len = sizeof(error);

    if ((events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) == 0)
        return;
    watch_remove(&p->watch);
    deadline_clear(&p->clock);
    if (getsockopt(p->outside, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error != 0 ||
        relay_start(gateway_hub(s->sup->gateway), p->inside, p->outside, relay_group(s->id),
                    on_passed, p, NULL, NULL) < 0) {
        passing_free(p);
        return;
    }
    p->inside = p->outside = FD_NONE;
}

static void on_dial_reply(void *data, int r, const struct launch_reply *reply, int fds[2],
                          const struct err *err)
{
    struct passing *p = data;

    (void)reply;
    (void)err;
    p->asking = false;
    if (p->fwd == NULL || r < 0 || fds[0] < 0) {
        passing_free(p);
        return;
    }
    p->outside = take_fd(&fds[0]);
    if (watch_add(evloop_of(p->fwd->s), &p->watch, p->outside, on_outside) < 0)
        passing_free(p);
    else
        deadline_set(evloop_of(p->fwd->s), &p->clock, PASS_MS, on_passing_late);
}

static int passing_dial(struct passing *p)
{
    auto_buf struct buf b = BUF_INIT(0);
    char handler[ADDRESS_TEXT_MAX];
    const struct address to = {.family = 4, .bytes = {127, 0, 0, 1}, .port = p->fwd->port};
    int r;

    address_format(&to, handler);
    launch_begin(&b, LAUNCH_DIAL);
    launch_put_string(&b, TAG_ID, p->fwd->s->id);
    launch_put_string(&b, TAG_HANDLER, handler);
    r = launch_end(&b);
    return r < 0 ? r : launcher_client_send(p->fwd->s->sup->launcher, &b, on_dial_reply, p, NULL);
}

static void on_forward_client(void *data, int fd, const struct sockaddr *peer)
{
    struct fwd *d = data;
    struct passing *p = NULL;

    (void)peer;
    if (d->count < d->s->sup->limits.egress_connections &&
        gateway_room(d->s->sup->gateway, false, NULL) == 0)
        p = calloc(1, sizeof(*p));
    if (p == NULL) {
        socket_reset_on_close(fd);
        (void)close(fd);
        return;
    }
    *p = (struct passing){
        .fwd = d, .next = d->passings, .link = &d->passings, .inside = fd, .outside = FD_NONE};
    if (p->next != NULL)
        p->next->link = &p->next;
    d->passings = p;
    d->count++;
    relay_tune(fd);
    p->asking = passing_dial(p) == 0;
    if (!p->asking)
        passing_free(p);
}

/* ---- opening the listener ---- */

static void opening_end(struct loopback_forward_opening *o, int r, const struct err *err)
{
    struct sandbox *s = o->s;

    deadline_clear(&o->again);
    if (o->fwd != NULL) {
        *o->link = o->next;
        if (o->next != NULL)
            o->next->link = o->link;
    }
    if (o->cb != NULL)
        o->cb(o->data, r, err);
    else if (r < 0 && o->fwd != NULL)
        log_warn("sandbox", "id=%s no host loopback forward to port %u: %s", s->id, o->port,
                 err->msg);
    free(o);
    sandbox_unref(s);
}

static int loopback_forward_use_socket(struct fwd *d, uint16_t port, int fd, struct err *err)
{
    struct listener *l = NULL;
    int r = listener_new(evloop_of(d->s), fd, on_forward_client, d, &l, err);

    if (r < 0)
        return r;
    listener_close(d->listener);
    d->listener = l;
    d->port = d->config.port = port;
    if (d->config.moved != NULL)
        d->config.moved(d->s, port);
    return 0;
}

static int opening_ask(struct loopback_forward_opening *o, struct err *err);

static void on_opening_again(struct deadline *clock)
{
    struct loopback_forward_opening *o =
        (struct loopback_forward_opening *)(void *)((char *)clock -
                                                    offsetof(struct loopback_forward_opening,
                                                             again));
    struct err err = ERR_NONE;

    if (opening_ask(o, &err) < 0)
        opening_end(o, err.code, &err);
}

static void on_listen_reply(void *data, int r, const struct launch_reply *reply, int fds[2],
                            const struct err *err)
{
    struct loopback_forward_opening *o = data;
    struct err own = ERR_NONE;

    (void)reply;
    if (o->fwd == NULL) {
        r = err_set(&own, -ECANCELED, "sandbox %s is ended", sandbox_name(o->s));
        err = &own;
    } else if (o->fwd->port == o->port) {
        r = 0; /* another request was completed first */
    } else if (r == -EADDRINUSE && clock_mono_ms() < o->until) {
        deadline_set(evloop_of(o->s), &o->again, OPENING_RETRY_MS, on_opening_again);
        return;
    } else if (r == 0) {
        r = fds[0] < 0 ? err_set(&own, -EPROTO, "host loopback forward: no socket came")
                       : loopback_forward_use_socket(o->fwd, o->port, fds[0], &own);
        if (r == 0)
            fds[0] = FD_NONE;
        err = &own;
    }
    opening_end(o, r, err);
}

static int opening_ask(struct loopback_forward_opening *o, struct err *err)
{
    struct address at = {.family = 4, .bytes = LOOPBACK_FORWARD_BYTES, .port = o->port};
    auto_buf struct buf b = BUF_INIT(0);
    int r;

    launch_begin(&b, LAUNCH_LISTEN);
    launch_put_string(&b, TAG_ID, o->s->id);
    launch_put_bind(&b, &at, false);
    r = launch_end(&b);
    if (r < 0)
        return err_errno(err, r, "host loopback forward");
    return launcher_client_send(o->s->sup->launcher, &b, on_listen_reply, o, err);
}

static struct loopback_forward_opening *
opening_new(struct fwd *d, uint16_t port, loopback_forward_cb *cb, void *data, struct err *err)
{
    struct loopback_forward_opening *o = calloc(1, sizeof(*o));

    if (o == NULL) {
        (void)err_errno(err, -ENOMEM, "host loopback forward");
        return NULL;
    }
    *o = (struct loopback_forward_opening){.s = d->s,
                                           .fwd = d,
                                           .next = d->openings,
                                           .link = &d->openings,
                                           .port = port,
                                           .until = clock_mono_ms() + LOOPBACK_FORWARD_OPENING_MS,
                                           .cb = cb,
                                           .data = data};
    if (opening_ask(o, err) < 0) {
        free(o);
        return NULL;
    }
    if (o->next != NULL)
        o->next->link = &o->next;
    d->openings = o;
    sandbox_ref(d->s);
    return o;
}

int loopback_forward_open(struct sandbox *s, const struct loopback_forward_config *config,
                          loopback_forward_cb *cb, void *data, struct err *err)
{
    if (config->port < LOOPBACK_FORWARD_PORT_MIN)
        return err_set(err, -EINVAL,
                       "host loopback forward: port %u of the host: must be %d or above",
                       config->port, LOOPBACK_FORWARD_PORT_MIN);
    if (s->channel == NULL || s->init == INIT_ENDING)
        return err_set(err, -EBUSY, "host loopback forward: sandbox %s does not run",
                       sandbox_name(s));
    if (s->parts.fwd == NULL) {
        s->parts.fwd = calloc(1, sizeof(*s->parts.fwd));
        if (s->parts.fwd == NULL)
            return err_errno(err, -ENOMEM, "host loopback forward");
        s->parts.fwd->s = s;
    }
    s->parts.fwd->config = *config;
    if (s->parts.fwd->port == config->port) {
        cb(data, 0, NULL);
        return 0;
    }
    return opening_new(s->parts.fwd, config->port, cb, data, err) != NULL ? 0
           : err != NULL && err->code < 0                                 ? err->code
                                                                          : -ENOMEM;
}

int loopback_forward_start(struct sandbox *s, struct err *err)
{
    if (s->parts.fwd != NULL && s->parts.fwd->port == 0 && s->parts.fwd->openings == NULL &&
        opening_new(s->parts.fwd, s->parts.fwd->config.port, NULL, NULL, err) == NULL)
        log_warn("sandbox", "id=%s no host loopback forward: %s", s->id, err->msg);
    return 1;
}

static void loopback_forward_end_passings(struct fwd *d)
{
    struct passing *p = take(d->passings);

    /* Joined connections are ended with the sandbox's other relays (publish_close). */
    for (struct passing *next; p != NULL; p = next) {
        next = p->next;
        p->fwd = NULL;
        if (!p->asking && p->inside >= 0)
            passing_free(p);
    }
    d->count = 0;
}

static void loopback_forward_end_openings(struct fwd *d)
{
    struct loopback_forward_opening *o = take(d->openings);
    struct err err = ERR_NONE;

    (void)err_set(&err, -ECANCELED, "sandbox %s is ended", sandbox_name(d->s));
    for (struct loopback_forward_opening *next; o != NULL; o = next) {
        loopback_forward_cb *cb = o->cb;

        next = o->next;
        o->fwd = NULL;
        o->cb = NULL;
        if (cb != NULL)
            cb(o->data, -ECANCELED, &err);
        if (o->again.link != NULL) /* waits for a retry, so no reply is pending */
            opening_end(o, -ECANCELED, &err);
    }
}

void loopback_forward_close(struct sandbox *s)
{
    struct fwd *d = s->parts.fwd;

    if (d == NULL)
        return;
    listener_close(take(d->listener));
    d->port = 0;
    loopback_forward_end_passings(d);
    loopback_forward_end_openings(d);
}

void loopback_forward_free(struct sandbox *s)
{
    free(take(s->parts.fwd));
}

/* ---- inspecting requests ---- */

static bool loopback_forward_looks_at(const struct sandbox *s, uint16_t port)
{
    return s->parts.fwd != NULL && s->parts.fwd->config.ingress == port;
}

static void look_cancel(struct publish_look *l);

static void look_end(struct publish_look *l, int r)
{
    void (*cb)(void *data, int r) = l->cb;
    void *data = l->data;

    look_cancel(l);
    cb(data, r);
}

static void look_cancel(struct publish_look *l)
{
    if (l == NULL)
        return;
    if (l->opening != NULL)
        l->opening->cb = NULL;
    watch_remove(&l->watch);
    deadline_clear(&l->clock);
    free(l);
}

static void on_look_late(struct deadline *d)
{
    look_end((struct publish_look *)(void *)((char *)d - offsetof(struct publish_look, clock)),
             -ETIMEDOUT);
}

static void on_loopback_forward_moved(void *data, int r, const struct err *err)
{
    struct publish_look *l = data;

    l->opening = NULL;
    if (r < 0)
        log_warn("sandbox", "id=%s its sidecar does not reach port: %s", l->s->id, err->msg);
    look_end(l, 0);
}

/* Returns the port named in a body of PUT /egress; 0: none. */
static uint16_t look_named_port(const char *text, size_t len)
{
    auto_ptr(json_decref) json_t *root = NULL;
    json_int_t n;

    if (json_parse(text, len, LOOK_BYTES, &root, NULL) < 0)
        return 0;
    n = json_integer_value(json_object_get(root, "port"));
    return n >= LOOPBACK_FORWARD_PORT_MIN && n <= 65535 ? (uint16_t)n : 0;
}

/* Moves the forward to the named port. 0: the caller waits for it; 1: there is nothing to do. */
static int look_move(struct publish_look *l, uint16_t port)
{
    struct err err = ERR_NONE;
    struct fwd *d = l->s->parts.fwd;

    if (port == 0 || d == NULL || d->port == port)
        return 1;
    watch_remove(&l->watch);
    l->opening = opening_new(d, port, on_loopback_forward_moved, l, &err);
    if (l->opening != NULL)
        return 0;
    log_warn("sandbox", "id=%s its sidecar does not reach port %u: %s", l->s->id, port, err.msg);
    return 1;
}

static void on_look_bytes(struct fd_watch *w, unsigned events)
{
    static char scratch[LOOK_BYTES];
    struct publish_look *l = (struct publish_look *)(void *)w;
    ssize_t n = recv(l->fd, scratch, sizeof(scratch), MSG_DONTWAIT | MSG_PEEK);
    struct connect_head head;
    long len;

    (void)events;
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        look_end(l, n < 0 ? -errno : -ECONNRESET);
        return;
    }
    len = connect_head(scratch, (size_t)n < CONNECT_HEAD_MAX ? (size_t)n : CONNECT_HEAD_MAX, &head,
                       NULL);
    if (len == 0 && n < CONNECT_HEAD_MAX)
        return;
    if (len <= 0 || strcmp(head.method, "PUT") != 0 || strcmp(head.target, "/egress") != 0 ||
        head.length > sizeof(scratch) - (size_t)len) {
        look_end(l, 0);
        return;
    }
    if ((size_t)n < (size_t)len + head.length)
        return;
    if (look_move(l, look_named_port(scratch + len, head.length)) != 0)
        look_end(l, 0);
}

static int loopback_forward_look(struct sandbox *s, int fd, void (*cb)(void *data, int r),
                                 void *data, struct publish_look **ret, struct err *err)
{
    struct publish_look *l = calloc(1, sizeof(*l));
    int r;

    if (l == NULL)
        return err_errno(err, -ENOMEM, "host loopback forward");
    *l = (struct publish_look){.s = s, .fd = fd, .cb = cb, .data = data};
    r = watch_add(evloop_of(s), &l->watch, fd, on_look_bytes);
    if (r < 0) {
        free(l);
        return err_errno(err, r, "host loopback forward");
    }
    deadline_set(evloop_of(s), &l->clock, LOOK_MS, on_look_late);
    *ret = l;
    return 0;
}

const struct publish_screen loopback_forward_screen = {
    .wants = loopback_forward_looks_at, .look = loopback_forward_look, .cancel = look_cancel};
