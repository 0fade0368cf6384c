#include "core/door.h"

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
#include "core/gateway.h"
#include "core/launcher-client.h"
#include "core/sandbox_internal.h"
#include "core/supervisor_internal.h"
#include "gateway/connect.h"
#include "gateway/listener.h"
#include "gateway/relay.h"
#include "json/parse.h"
#include "launch/request.h"
#include "policy/egress-net.h"

enum {
    LOOK_MS = 30 * 1000,   /* time for a request to arrive */
    LOOK_BYTES = 64 << 10, /* bytes of a request that are inspected; longer requests go to the
                              sidecar uninspected */
    PASS_MS = 10 * 1000,   /* time for the connection on the host's side */
    OPENING_RETRY_MS = 20,
};

/* One connection through the host loopback forward. */
struct passing {
    struct watch watch; /* first member */
    struct door *door;  /* NULL: the forward has been closed */
    struct passing *next, **link;
    struct deadline clock;
    int inside, outside; /* owned, until a relay takes both */
    bool asking;         /* the launcher's reply frees it */
};

/* A listening socket requested from the launcher. */
struct opening {
    struct sandbox *s; /* a reference */
    struct opening *next, **link;
    struct door *door; /* NULL: the forward has been closed */
    uint16_t port;
    int64_t until;
    struct deadline again;
    door_cb *cb; /* NULL: has been called, or the caller does not wait */
    void *data;
};

struct door {
    struct sandbox *s;
    struct door_config config;
    struct listener *listener;
    uint16_t port; /* the port it listens on; 0: none */
    struct passing *passings;
    struct opening *openings;
    unsigned count;
};

struct door_look {
    struct watch watch; /* first member */
    struct sandbox *s;  /* borrowed: the caller cancels before the sandbox is freed */
    struct opening *opening;
    struct deadline clock;
    int fd;
    void (*cb)(void *data, int r);
    void *data;
};

static struct poller *poller_of(const struct sandbox *s)
{
    return gateway_poller(s->sup->gateway);
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
    if (p->door != NULL) {
        *p->link = p->next;
        if (p->next != NULL)
            p->next->link = p->link;
        p->door->count--;
    }
    free(p);
}

static void on_passing_deadline(struct deadline *d)
{
    passing_free((struct passing *)(void *)((char *)d - offsetof(struct passing, clock)));
}

static void on_relay_ended(void *data, const struct relay_result *result)
{
    (void)result;
    passing_free(data);
}

static void on_host_connected(struct watch *w, unsigned events)
{
    struct passing *p = (struct passing *)(void *)w;
    struct sandbox *s = p->door->s;
    int error = 0;
    socklen_t len = sizeof(error);

    if ((events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) == 0)
        return;
    watch_remove(&p->watch);
    deadline_clear(&p->clock);
    if (getsockopt(p->outside, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error != 0 ||
        relay_start(gateway_hub(s->sup->gateway), p->inside, p->outside, relay_group(s->id),
                    on_relay_ended, p, NULL, NULL) < 0) {
        passing_free(p);
        return;
    }
    p->inside = p->outside = FD_NONE;
}

static void on_launcher_dialled(void *data, int r, const struct launch_reply *reply, int fds[2],
                                const struct err *err)
{
    struct passing *p = data;

    (void)reply;
    (void)err;
    p->asking = false;
    if (p->door == NULL || r < 0 || fds[0] < 0) {
        passing_free(p);
        return;
    }
    p->outside = take_fd(&fds[0]);
    if (watch_add(poller_of(p->door->s), &p->watch, p->outside, on_host_connected) < 0)
        passing_free(p);
    else
        deadline_set(poller_of(p->door->s), &p->clock, PASS_MS, on_passing_deadline);
}

static int passing_dial(struct passing *p)
{
    auto_buf struct buf b = BUF_INIT(0);
    char handler[ADDRESS_TEXT_MAX];
    const struct address to = {.family = 4, .bytes = {127, 0, 0, 1}, .port = p->door->port};
    int r;

    address_format(&to, handler);
    launch_begin(&b, LAUNCH_DIAL);
    launch_put_string(&b, TAG_ID, p->door->s->id);
    launch_put_string(&b, TAG_HANDLER, handler);
    r = launch_end(&b);
    return r < 0
               ? r
               : launcher_client_send(p->door->s->sup->launcher, &b, on_launcher_dialled, p, NULL);
}

static void on_listener_client(void *data, int fd, const struct sockaddr *peer)
{
    struct door *d = data;
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
        .door = d, .next = d->passings, .link = &d->passings, .inside = fd, .outside = FD_NONE};
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

static void opening_end(struct opening *o, int r, const struct err *err)
{
    struct sandbox *s = o->s;

    deadline_clear(&o->again);
    if (o->door != NULL) {
        *o->link = o->next;
        if (o->next != NULL)
            o->next->link = o->link;
    }
    if (o->cb != NULL)
        o->cb(o->data, r, err);
    else if (r < 0 && o->door != NULL)
        log_warn("sandbox", "id=%s no door to port %u: %s", s->id, o->port, err->msg);
    free(o);
    sandbox_unref(s);
}

static int door_use_socket(struct door *d, uint16_t port, int fd, struct err *err)
{
    struct listener *l = NULL;
    int r = listener_new(poller_of(d->s), fd, on_listener_client, d, &l, err);

    if (r < 0)
        return r;
    listener_close(d->listener);
    d->listener = l;
    d->port = d->config.port = port;
    if (d->config.moved != NULL)
        d->config.moved(d->s, port);
    return 0;
}

static int opening_request(struct opening *o, struct err *err);

static void on_retry_due(struct deadline *clock)
{
    struct opening *o = (struct opening *)(void *)((char *)clock - offsetof(struct opening, again));
    struct err err = ERR_NONE;

    if (opening_request(o, &err) < 0)
        opening_end(o, err.code, &err);
}

static void on_launcher_socket(void *data, int r, const struct launch_reply *reply, int fds[2],
                               const struct err *err)
{
    struct opening *o = data;
    struct err own = ERR_NONE;

    (void)reply;
    if (o->door == NULL) {
        r = err_set(&own, -ECANCELED, "sandbox %s is ended", sandbox_name(o->s));
        err = &own;
    } else if (o->door->port == o->port) {
        r = 0; /* another request was completed first */
    } else if (r == -EADDRINUSE && clock_mono_ms() < o->until) {
        deadline_set(poller_of(o->s), &o->again, OPENING_RETRY_MS, on_retry_due);
        return;
    } else if (r == 0) {
        r = fds[0] < 0 ? err_set(&own, -EPROTO, "door: no socket came")
                       : door_use_socket(o->door, o->port, fds[0], &own);
        if (r == 0)
            fds[0] = FD_NONE;
        err = &own;
    }
    opening_end(o, r, err);
}

static int opening_request(struct opening *o, struct err *err)
{
    struct address at = {.family = 4, .bytes = DOOR_BYTES, .port = o->port};
    auto_buf struct buf b = BUF_INIT(0);
    int r;

    launch_begin(&b, LAUNCH_LISTEN);
    launch_put_string(&b, TAG_ID, o->s->id);
    launch_put_bind(&b, &at, false);
    r = launch_end(&b);
    if (r < 0)
        return err_errno(err, r, "door");
    return launcher_client_send(o->s->sup->launcher, &b, on_launcher_socket, o, err);
}

static struct opening *opening_new(struct door *d, uint16_t port, door_cb *cb, void *data,
                                   struct err *err)
{
    struct opening *o = calloc(1, sizeof(*o));

    if (o == NULL) {
        (void)err_errno(err, -ENOMEM, "door");
        return NULL;
    }
    *o = (struct opening){.s = d->s,
                          .door = d,
                          .next = d->openings,
                          .link = &d->openings,
                          .port = port,
                          .until = clock_mono_ms() + DOOR_OPENING_MS,
                          .cb = cb,
                          .data = data};
    if (opening_request(o, err) < 0) {
        free(o);
        return NULL;
    }
    if (o->next != NULL)
        o->next->link = &o->next;
    d->openings = o;
    sandbox_ref(d->s);
    return o;
}

int door_open(struct sandbox *s, const struct door_config *config, door_cb *cb, void *data,
              struct err *err)
{
    if (config->port < DOOR_PORT_MIN)
        return err_set(err, -EINVAL, "door: port %u of the host: must be %d or above", config->port,
                       DOOR_PORT_MIN);
    if (s->channel == NULL || s->ending)
        return err_set(err, -EBUSY, "door: sandbox %s does not run", sandbox_name(s));
    if (s->door == NULL) {
        s->door = calloc(1, sizeof(*s->door));
        if (s->door == NULL)
            return err_errno(err, -ENOMEM, "door");
        s->door->s = s;
    }
    s->door->config = *config;
    if (s->door->port == config->port) {
        cb(data, 0, NULL);
        return 0;
    }
    return opening_new(s->door, config->port, cb, data, err) != NULL ? 0
           : err != NULL && err->code < 0                            ? err->code
                                                                     : -ENOMEM;
}

void door_reopen(struct sandbox *s)
{
    struct err err = ERR_NONE;

    if (s->door != NULL && s->door->port == 0 && s->door->openings == NULL &&
        opening_new(s->door, s->door->config.port, NULL, NULL, &err) == NULL)
        log_warn("sandbox", "id=%s no door: %s", s->id, err.msg);
}

static void door_end_passings(struct door *d)
{
    struct passing *p = take(d->passings);

    /* Joined connections are ended with the sandbox's other relays (publish_close). */
    for (struct passing *next; p != NULL; p = next) {
        next = p->next;
        p->door = NULL;
        if (!p->asking && p->inside >= 0)
            passing_free(p);
    }
    d->count = 0;
}

static void door_end_openings(struct door *d)
{
    struct opening *o = take(d->openings);
    struct err err = ERR_NONE;

    (void)err_set(&err, -ECANCELED, "sandbox %s is ended", sandbox_name(d->s));
    for (struct opening *next; o != NULL; o = next) {
        door_cb *cb = o->cb;

        next = o->next;
        o->door = NULL;
        o->cb = NULL;
        if (cb != NULL)
            cb(o->data, -ECANCELED, &err);
        if (o->again.link != NULL) /* waits for a retry, so no reply is pending */
            opening_end(o, -ECANCELED, &err);
    }
}

void door_close(struct sandbox *s)
{
    struct door *d = s->door;

    if (d == NULL)
        return;
    listener_close(take(d->listener));
    d->port = 0;
    door_end_passings(d);
    door_end_openings(d);
}

void door_free(struct sandbox *s)
{
    free(take(s->door));
}

/* ---- inspecting requests ---- */

bool door_looks_at(const struct sandbox *s, uint16_t port)
{
    return s->door != NULL && s->door->config.ingress == port;
}

static void look_end(struct door_look *l, int r)
{
    void (*cb)(void *data, int r) = l->cb;
    void *data = l->data;

    door_look_cancel(l);
    cb(data, r);
}

void door_look_cancel(struct door_look *l)
{
    if (l == NULL)
        return;
    if (l->opening != NULL)
        l->opening->cb = NULL;
    watch_remove(&l->watch);
    deadline_clear(&l->clock);
    free(l);
}

static void on_look_deadline(struct deadline *d)
{
    look_end((struct door_look *)(void *)((char *)d - offsetof(struct door_look, clock)),
             -ETIMEDOUT);
}

static void on_door_moved(void *data, int r, const struct err *err)
{
    struct door_look *l = data;

    l->opening = NULL;
    if (r < 0)
        log_warn("sandbox", "id=%s its sidecar does not reach port: %s", l->s->id, err->msg);
    look_end(l, 0);
}

/* Returns the port named in a body of PUT /egress; 0: none. */
static uint16_t named_port(const char *text, size_t len)
{
    auto_ptr(json_decref) json_t *root = NULL;
    json_int_t n;

    if (json_parse(text, len, LOOK_BYTES, &root, NULL) < 0)
        return 0;
    n = json_integer_value(json_object_get(root, "port"));
    return n >= DOOR_PORT_MIN && n <= 65535 ? (uint16_t)n : 0;
}

/* Moves the forward to the named port. 0: the caller waits for it; 1: there is nothing to do. */
static int look_move_door(struct door_look *l, uint16_t port)
{
    struct err err = ERR_NONE;
    struct door *d = l->s->door;

    if (port == 0 || d == NULL || d->port == port)
        return 1;
    watch_remove(&l->watch);
    l->opening = opening_new(d, port, on_door_moved, l, &err);
    if (l->opening != NULL)
        return 0;
    log_warn("sandbox", "id=%s its sidecar does not reach port %u: %s", l->s->id, port, err.msg);
    return 1;
}

static void on_client_bytes(struct watch *w, unsigned events)
{
    static char scratch[LOOK_BYTES];
    struct door_look *l = (struct door_look *)(void *)w;
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
    if (look_move_door(l, named_port(scratch + len, head.length)) != 0)
        look_end(l, 0);
}

int door_look(struct sandbox *s, int fd, void (*cb)(void *data, int r), void *data,
              struct door_look **ret, struct err *err)
{
    struct door_look *l = calloc(1, sizeof(*l));
    int r;

    if (l == NULL)
        return err_errno(err, -ENOMEM, "door");
    *l = (struct door_look){.s = s, .fd = fd, .cb = cb, .data = data};
    r = watch_add(poller_of(s), &l->watch, fd, on_client_bytes);
    if (r < 0) {
        free(l);
        return err_errno(err, r, "door");
    }
    deadline_set(poller_of(s), &l->clock, LOOK_MS, on_look_deadline);
    *ret = l;
    return 0;
}
