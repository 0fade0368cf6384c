#include "ports/publish.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/evloop.h"
#include "base/log.h"
#include "base/socket.h"
#include "gateway/listener.h"
#include "gateway/relay.h"
#include "json/decode.h"
#include "json/parse.h"
#include "launch/request.h"
#include "ports/gateway.h"
#include "ports/port.h"
#include "ports/publish-udp.h"
#include "sandbox/launcher-client.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/sandbox-parts.h"
#include "sandbox/shared.h"
#include "sandbox/store.h"

/* One entry of spec->ports. */
struct published {
    struct published_ports *all;
    const struct publish *spec; /* borrowed */
    struct address at;          /* port 0: was never open */
    unsigned tried;             /* ports of a range that another socket has */
    struct listener *listener;  /* TCP; NULL unless open */
    struct udp_port *udp;       /* UDP */
    bool open;
};

struct published_ports {
    struct sandbox *s;
    publish_cb *cb; /* not NULL while the ports are being opened */
    int64_t until;  /* CLOCK_MONOTONIC ms: -EADDRINUSE is retried until then */
    unsigned asking;
    struct deadline again;
    struct err err; /* the first error */
    bool open, closing;
    struct joining *joining; /* clients waiting for the connection to their port */
    size_t count;
    struct published list[];
};

/* ---- connections ---- */

struct joining {
    struct published_ports *all;
    struct joining *next, **link;
    struct port_connect *port;
    struct publish_look *look;
    uint16_t to;  /* the port inside */
    int fd;       /* owned: the client's socket */
    bool entered; /* counts against maxPortConnections */
};

/* Resets the connection, so that the client sees a refused connect. */
static void drop_client(int fd)
{
    socket_reset_on_close(fd);
    (void)close(fd);
}

static void joining_free(struct joining *j)
{
    *j->link = j->next;
    if (j->next != NULL)
        j->next->link = j->link;
    if (j->fd >= 0)
        drop_client(j->fd);
    if (j->entered)
        port_leave(j->all->s->sup, j->all->s->id);
    free(j);
}

static void on_port_connected(void *data, int r, int fd, const struct err *err)
{
    struct joining *j = data;
    struct sandbox *s = j->all->s;
    struct relay *relay;

    (void)err;
    if (r == 0) {
        r = relay_start(gateway_hub(s->sup->gateway), j->fd, fd, relay_group(s->id), NULL, NULL,
                        &relay, NULL);
        if (r < 0) {
            (void)close(fd);
        } else {
            j->fd = FD_NONE;
            j->entered = false; /* the relay counts the connection from now on */
            relay_counted(relay);
        }
    }
    joining_free(j);
}

static void joining_join(struct joining *j)
{
    struct err err = ERR_NONE;
    int inside = FD_NONE;

    if (port_connect(j->all->s, j->to, on_port_connected, j, &j->port, &inside, &err) < 0)
        joining_free(j);
    else if (inside >= 0)
        on_port_connected(j, 0, inside, NULL);
}

static void on_client_looked(void *data, int r)
{
    struct joining *j = data;

    j->look = NULL;
    if (r < 0)
        joining_free(j);
    else
        joining_join(j);
}

void publish_set_taker(struct supervisor *sup, const struct publish_taker *taker)
{
    sup->taker = taker;
}

static void on_published_client(void *data, int fd, const struct sockaddr *peer)
{
    struct published *p = data;
    const struct publish_screen *screen = p->all->s->sup->screen;
    const struct publish_taker *taker = p->all->s->sup->taker;
    struct joining *j = NULL;
    struct err err = ERR_NONE;

    (void)peer;
    if (taker != NULL && taker->takes(taker->data, p->all->s, p->spec->port, fd))
        return;
    if (gateway_room(p->all->s->sup->gateway, false, &err) == 0)
        j = calloc(1, sizeof(*j));
    if (j == NULL) {
        drop_client(fd);
        return;
    }
    relay_tune(fd);
    *j = (struct joining){.all = p->all,
                          .next = p->all->joining,
                          .link = &p->all->joining,
                          .to = p->spec->port,
                          .fd = fd};
    if (j->next != NULL)
        j->next->link = &j->next;
    p->all->joining = j;
    sandbox_touch(p->all->s);
    j->entered = port_enter(p->all->s, &err) == 0;
    if (!j->entered || (screen != NULL && screen->wants(p->all->s, j->to) &&
                        screen->look(p->all->s, fd, on_client_looked, j, &j->look, &err) < 0))
        joining_free(j);
    else if (j->look == NULL)
        joining_join(j);
}

/* ---- closing ---- */

static void published_close_all(struct published_ports *all)
{
    for (size_t i = 0; i < all->count; i++) {
        struct published *p = &all->list[i];

        listener_close(take(p->listener));
        udp_port_close(take(p->udp));
        p->open = false;
    }
    while (all->joining != NULL) {
        port_connect_cancel(all->joining->port);
        if (all->joining->look != NULL)
            all->s->sup->screen->cancel(all->joining->look);
        joining_free(all->joining);
    }
    all->open = false;
}

void publish_free(struct sandbox *s)
{
    free(take(s->parts.published));
}

/* ---- ports chosen by the kernel ---- */

static json_t *published_encode(const struct published_ports *all)
{
    json_t *list = json_array();

    for (size_t i = 0; list != NULL && i < all->count; i++)
        (void)json_array_append_new(list, json_integer(all->list[i].at.port));
    return json_pack("{s:o}", "hostPorts", list);
}

static void published_save(struct published_ports *all)
{
    auto_ptr(json_decref) json_t *root = published_encode(all);
    struct err err = ERR_NONE;

    if (store_save_ports(all->s->sup->store, all->s->id, root, &err) < 0)
        log_warn("sandbox", "id=%s ports: %s; the next start may get others", all->s->id, err.msg);
}

/* True if the port was chosen here for p: any, or one of its range. */
static bool publish_may_be(const struct publish *p, json_int_t port)
{
    if (p->host_last != 0)
        return port >= p->host.port && port <= p->host_last;
    return p->host.port == 0 && port > 0 && port <= 65535;
}

static void published_load(struct published_ports *all)
{
    auto_ptr(json_decref) json_t *root = NULL;
    json_t *list, *number;
    size_t i;

    if (store_load_ports(all->s->sup->store, all->s->id, &root, NULL) < 0)
        return;
    list = json_object_get(root, "hostPorts");
    json_array_foreach(list, i, number) {
        json_int_t port = json_integer_value(number);

        if (i < all->count && publish_may_be(all->list[i].spec, port))
            all->list[i].at.port = (uint16_t)port;
    }
}

/* ---- opening ---- */

static void published_ask_all(struct published_ports *all);

static void on_published_again(struct deadline *d)
{
    published_ask_all(
        (struct published_ports *)(void *)((char *)d - offsetof(struct published_ports, again)));
}

static void published_finish(struct published_ports *all)
{
    struct sandbox *s = all->s;
    publish_cb *cb = all->cb;
    struct err err = all->err;
    bool again = err.code == -EADDRINUSE && !all->closing && clock_mono_ms() < all->until;

    if (again) {
        all->err = (struct err)ERR_NONE;
        deadline_set(gateway_evloop(s->sup->gateway), &all->again, PUBLISH_RETRY_MS,
                     on_published_again);
        return;
    }
    if (all->closing)
        (void)err_set(&err, -ECANCELED, "sandbox %s is ended", sandbox_name(s));
    all->cb = NULL;
    all->closing = false;
    all->open = err.code == 0;
    if (err.code < 0)
        published_close_all(all);
    else
        published_save(all);
    cb(s, err.code, &err);
    sandbox_unref(s);
}

/*
 * Runs from the loop when no request could be sent, as cb must not be called inside publish_open.
 */
static void on_published_not_asked(struct deadline *d)
{
    published_finish(
        (struct published_ports *)(void *)((char *)d - offsetof(struct published_ports, again)));
}

static int published_use_socket(struct published *p, int fd, struct err *err)
{
    struct gateway *g = p->all->s->sup->gateway;
    struct sockaddr_storage name;
    socklen_t len = sizeof(name);
    int r;

    if (getsockname(fd, (struct sockaddr *)(void *)&name, &len) < 0)
        return err_errno(err, -errno, "publish");
    (void)address_from_socket((struct sockaddr *)(void *)&name, &p->at);
    if (address_is_loopback((struct sockaddr *)(void *)&name))
        relay_tune_local(fd);
    if (p->spec->udp)
        r = udp_port_new(p->all->s, fd, p->spec->port, &p->udp, err);
    else
        r = listener_new(gateway_evloop(g), fd, on_published_client, p, &p->listener, err);
    p->open = r == 0;
    return r;
}

static int published_ask(struct published *p, struct err *err);

/* Goes on to the next port of p's range; false if there is none left. */
static bool published_ask_next(struct published *p)
{
    const struct publish *spec = p->spec;

    if (spec->host_last == 0 || p->all->closing || p->all->err.code < 0 ||
        p->tried >= (unsigned)(spec->host_last - spec->host.port))
        return false;
    p->tried++;
    p->at.port = p->at.port < spec->host_last ? (uint16_t)(p->at.port + 1) : spec->host.port;
    return published_ask(p, &p->all->err) == 0;
}

static void on_listen_reply(void *data, int r, const struct launch_reply *reply, int fds[2],
                            const struct err *err)
{
    struct published *p = data;
    struct published_ports *all = p->all;
    struct err own = ERR_NONE;

    (void)reply;
    if (r == -EADDRINUSE && published_ask_next(p))
        return;
    if (r == 0 && fds[0] < 0)
        r = err_set(&own, -EPROTO, "publish: no socket came");
    else if (r == 0 && !all->closing && all->err.code == 0) {
        r = published_use_socket(p, fds[0], &own);
        if (r == 0)
            fds[0] = FD_NONE;
    }
    if (r < 0 && all->err.code == 0)
        all->err = own.code < 0 ? own : *err;
    if (--all->asking == 0)
        published_finish(all);
}

static int published_ask(struct published *p, struct err *err)
{
    auto_buf struct buf b = BUF_INIT(0);
    int r;

    launch_begin(&b, LAUNCH_LISTEN);
    launch_put_bind(&b, &p->at, p->spec->udp);
    r = launch_end(&b);
    return r < 0 ? r : launcher_client_send(p->all->s->sup->launcher, &b, on_listen_reply, p, err);
}

static void published_ask_all(struct published_ports *all)
{
    all->asking = 1; /* one for this loop, as replies may come before its end */
    for (size_t i = 0; all->err.code == 0 && i < all->count; i++) {
        if (all->list[i].open)
            continue;
        all->list[i].tried = 0;
        if (published_ask(&all->list[i], &all->err) == 0)
            all->asking++;
        else if (all->err.code == 0)
            (void)err_errno(&all->err, -ENOMEM, "publish");
    }
    if (--all->asking == 0)
        deadline_set(gateway_evloop(all->s->sup->gateway), &all->again, 1, on_published_not_asked);
}

static struct published_ports *published_new(struct sandbox *s)
{
    size_t count = s->spec->port_count;
    struct published_ports *all = calloc(1, sizeof(*all) + count * sizeof(all->list[0]));

    if (all == NULL)
        return NULL;
    all->s = s;
    all->count = count;
    for (size_t i = 0; i < count; i++)
        all->list[i] = (struct published){
            .all = all, .spec = &s->spec->ports[i], .at = s->spec->ports[i].host};
    published_load(all);
    return all;
}

int publish_open(struct sandbox *s, unsigned wait_ms, publish_cb *cb, struct err *err)
{
    struct published_ports *all = s->parts.published;

    if (s->spec->port_count == 0 || (all != NULL && all->open))
        return 1;
    if (all == NULL)
        all = s->parts.published = published_new(s);
    if (all == NULL)
        return err_errno(err, -ENOMEM, "publish");
    if (all->cb != NULL)
        return err_set(err, -EBUSY, "the ports of sandbox %s are being opened", sandbox_name(s));
    all->cb = cb;
    all->err = (struct err)ERR_NONE;
    all->until = clock_mono_ms() + wait_ms;
    sandbox_ref(s);
    published_ask_all(all);
    return 0;
}

int publish_start(struct sandbox *s, struct err *err)
{
    return publish_open(s, 0, sandbox_part_done, err);
}

static void log_not_reopened(struct sandbox *s, int r, const struct err *err)
{
    if (r >= 0 || r == -ECANCELED)
        return;
    log_error("sandbox", "id=%s ports are closed: %s", s->id, err->msg);
    (void)snprintf(s->error, sizeof(s->error), "%s", err->msg);
}

/* The sandbox runs on without a port that another program has taken meanwhile. */
static void on_published_reopened(struct sandbox *s, int r, const struct err *err)
{
    log_not_reopened(s, r, err);
    sandbox_part_done(s, 0, NULL);
}

int publish_reopen(struct sandbox *s, struct err *err)
{
    int r = 1;

    if (s->state == SANDBOX_CREATED || s->state == SANDBOX_RUNNING || s->state == SANDBOX_PAUSED ||
        s->state == SANDBOX_STARTING)
        r = publish_open(s, PUBLISH_WAIT_MS, on_published_reopened, err);
    log_not_reopened(s, r, err);
    return r < 0 ? 1 : r;
}

void publish_close(struct sandbox *s)
{
    struct published_ports *all = s->parts.published;

    if (s->sup->gateway != NULL)
        relay_end_group(gateway_hub(s->sup->gateway), relay_group(s->id));
    if (all == NULL || (!all->open && all->cb == NULL))
        return;
    published_close_all(all);
    if (all->cb == NULL)
        return;
    all->closing = true;
    deadline_clear(&all->again);
    if (all->asking == 0) /* else the last reply does it */
        published_finish(all);
}

bool publish_where(const struct sandbox *s, size_t i, struct address *ret)
{
    if (s->parts.published == NULL || !s->parts.published->list[i].open)
        return false;
    *ret = s->parts.published->list[i].at;
    return true;
}
