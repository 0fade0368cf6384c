#include "ports/publish-udp.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/evloop.h"
#include "base/hash.h"
#include "base/log.h"
#include "launch/request.h"
#include "ports/gateway.h"
#include "sandbox/launcher-client.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/shared.h"

enum { BUCKETS = 256 };

struct held {
    struct held *next;
    size_t len;
    char data[];
};

struct flow {
    struct fd_watch watch; /* first member */
    struct udp_port *port;
    struct flow *next, **link; /* in its bucket */
    struct sockaddr_storage peer;
    socklen_t peer_len;
    int fd;      /* owned; -1 while the launcher's reply is pending */
    bool asking; /* the reply frees a closed flow */
    bool closed;
    bool settled; /* the address is known to work: sent datagrams are no longer queued */
    int family;   /* family of the sandbox's loopback: 4, then 6 */
    /* Datagrams received before the socket existed and the address was settled. */
    struct held *held, **held_last;
    unsigned held_count;
    struct deadline idle, settle;
};

struct udp_port {
    struct fd_watch watch; /* first member */
    struct sandbox *s;     /* borrowed: the sandbox closes this before it is freed */
    struct evloop *evloop;
    int fd; /* owned */
    uint16_t port;
    unsigned count;
    struct flow *buckets[BUCKETS];
};

static char scratch[UDP_SIZE_MAX + 1];

/* ---- flows ---- */

static void flow_drop_held(struct flow *f)
{
    while (f->held != NULL) {
        struct held *h = f->held;

        f->held = h->next;
        f->port->s->sup->udp_held -= h->len;
        free(h);
    }
    f->held_last = &f->held;
    f->held_count = 0;
}

/*
 * Counts a flow against the limit: a sender can forge thousands of addresses, for each of many
 * ports.
 */
static bool udp_flows_take(struct supervisor *sup)
{
    if (sup->udp_flows < sup->limits.udp_flows) {
        sup->udp_flows++;
        return true;
    }
    if (!sup->udp_full)
        log_warn("publish",
                 "limit maxUdpFlows: %u peers of published UDP ports are there; others are dropped",
                 sup->udp_flows);
    sup->udp_full = true;
    return false;
}

static void udp_flows_give_back(struct supervisor *sup)
{
    sup->udp_flows--;
    if (sup->udp_flows <= sup->limits.udp_flows / 2)
        sup->udp_full = false;
}

static void flow_close(struct flow *f)
{
    if (f->closed)
        return;
    f->closed = true;
    watch_remove(&f->watch);
    deadline_clear(&f->idle);
    deadline_clear(&f->settle);
    if (f->fd >= 0)
        (void)close(take_fd(&f->fd));
    flow_drop_held(f);
    udp_flows_give_back(f->port->s->sup);
    *f->link = f->next;
    if (f->next != NULL)
        f->next->link = f->link;
    f->port->count--;
    if (!f->asking)
        free(f);
}

static void on_flow_idle(struct deadline *d)
{
    flow_close((struct flow *)(void *)((char *)d - offsetof(struct flow, idle)));
}

static void flow_restart_idle(struct flow *f)
{
    deadline_set(f->port->evloop, &f->idle, UDP_IDLE_MS, on_flow_idle);
}

static void flow_hold(struct flow *f, const char *data, size_t len)
{
    size_t *all = &f->port->s->sup->udp_held;
    struct held *h;

    if (f->held_count >= UDP_HELD_MAX || len > UDP_HELD_BYTES - *all ||
        (h = malloc(sizeof(*h) + len)) == NULL)
        return;
    *all += len;
    h->next = NULL;
    h->len = len;
    (void)memcpy(h->data, data, len);
    *f->held_last = h;
    f->held_last = &h->next;
    f->held_count++;
}

static int flow_request_socket(struct flow *f);

/* Gives up the second address: 127.0.0.1 works, or has not refused for UDP_SETTLE_MS. */
static void flow_settle(struct flow *f)
{
    f->settled = true;
    deadline_clear(&f->settle);
    flow_drop_held(f);
}

static void on_settle_deadline(struct deadline *d)
{
    flow_settle((struct flow *)(void *)((char *)d - offsetof(struct flow, settle)));
}

/*
 * ECONNREFUSED at 127.0.0.1: tries ::1. Once settled, the flow is closed; UDP may lose its
 * datagrams.
 */
static void flow_refused(struct flow *f)
{
    if (f->settled) {
        flow_close(f);
        return;
    }
    deadline_clear(&f->settle);
    watch_remove(&f->watch);
    (void)close(take_fd(&f->fd));
    f->family = 6;
    if (flow_request_socket(f) < 0)
        flow_close(f);
}

static void on_sandbox_datagram(struct fd_watch *w, unsigned events)
{
    struct flow *f = (struct flow *)(void *)w;
    struct udp_port *p = f->port;

    (void)events;
    for (int i = 0; i < UDP_BATCH; i++) {
        ssize_t n = recv(f->fd, scratch, sizeof(scratch), MSG_DONTWAIT);

        if (n < 0 && errno == ECONNREFUSED) {
            flow_refused(f);
            return;
        }
        if (n < 0)
            return;
        flow_settle(f);
        flow_restart_idle(f);
        (void)sendto(p->fd, scratch, (size_t)n, MSG_DONTWAIT, (struct sockaddr *)(void *)&f->peer,
                     f->peer_len);
    }
    watch_again(w);
}

static int flow_connect(struct flow *f)
{
    struct address to = {.family = f->family, .port = f->port->port};
    struct sockaddr_storage name;
    socklen_t len;

    if (f->family == 6)
        to.bytes[15] = 1;
    else
        (void)memcpy(to.bytes, (const unsigned char[]){127, 0, 0, 1}, 4);
    len = address_socket(&to, &name);
    if (connect(f->fd, (struct sockaddr *)(void *)&name, len) < 0)
        return -errno;
    return watch_add(f->port->evloop, &f->watch, f->fd, on_sandbox_datagram);
}

static void on_launcher_socket(void *data, int r, const struct launch_reply *reply, int fds[2],
                               const struct err *err)
{
    struct flow *f = data;

    (void)reply;
    (void)err;
    f->asking = false;
    if (f->closed) {
        free(f);
        return;
    }
    if (r == 0)
        f->fd = take_fd(&fds[0]);
    if (r < 0 || f->fd < 0 || flow_connect(f) < 0) {
        flow_close(f);
        return;
    }
    for (const struct held *h = f->held; h != NULL; h = h->next)
        (void)send(f->fd, h->data, h->len, MSG_DONTWAIT);
    if (f->family == 6)
        flow_settle(f);
    else
        deadline_set(f->port->evloop, &f->settle, UDP_SETTLE_MS, on_settle_deadline);
}

static int flow_request_socket(struct flow *f)
{
    auto_buf struct buf b = BUF_INIT(0);
    int r;

    launch_begin(&b, LAUNCH_CONNECT);
    launch_put_string(&b, TAG_ID, f->port->s->id);
    launch_put_number(&b, TAG_FAMILY, (uint64_t)f->family);
    launch_put_number(&b, TAG_UDP, 1);
    r = launch_end(&b);
    if (r == 0)
        r = launcher_client_send(f->port->s->sup->launcher, &b, on_launcher_socket, f, NULL);
    f->asking = r == 0;
    return r;
}

/* ---- the port ---- */

/* Hashes address and port only: other bytes of the struct are undefined. */
static unsigned bucket_of(const struct address *a)
{
    uint32_t h = hash_bytes(HASH_BEGIN ^ a->port, a->bytes, sizeof(a->bytes));

    return (h ^ h >> 16) % BUCKETS;
}

static struct flow *flow_find(struct udp_port *p, const struct sockaddr_storage *peer,
                              unsigned bucket)
{
    struct address want, have;

    (void)address_from_socket((const struct sockaddr *)(const void *)peer, &want);
    for (struct flow *f = p->buckets[bucket]; f != NULL; f = f->next) {
        (void)address_from_socket((const struct sockaddr *)(const void *)&f->peer, &have);
        if (address_equal(&want, &have))
            return f;
    }
    return NULL;
}

static struct flow *flow_new(struct udp_port *p, const struct sockaddr_storage *peer,
                             socklen_t peer_len, unsigned bucket)
{
    struct flow *f;

    if (p->count >= UDP_FLOWS_MAX || !udp_flows_take(p->s->sup))
        return NULL;
    f = calloc(1, sizeof(*f));
    if (f == NULL) {
        udp_flows_give_back(p->s->sup);
        return NULL;
    }
    f->port = p;
    f->fd = FD_NONE;
    f->family = 4;
    f->peer = *peer;
    f->peer_len = peer_len;
    f->held_last = &f->held;
    f->next = p->buckets[bucket];
    f->link = &p->buckets[bucket];
    if (f->next != NULL)
        f->next->link = &f->next;
    p->buckets[bucket] = f;
    p->count++;
    flow_restart_idle(f);
    if (flow_request_socket(f) < 0) {
        flow_close(f);
        return NULL;
    }
    return f;
}

static void port_forward_datagram(struct udp_port *p, const struct sockaddr_storage *peer,
                                  socklen_t peer_len, const char *data, size_t len)
{
    struct address a;
    struct flow *f;
    unsigned bucket;

    if (!address_from_socket((const struct sockaddr *)(const void *)peer, &a))
        return;
    bucket = bucket_of(&a);
    f = flow_find(p, peer, bucket);
    if (f == NULL)
        f = flow_new(p, peer, peer_len, bucket);
    if (f == NULL)
        return;
    flow_restart_idle(f);
    sandbox_touch(p->s);
    /* Queued also while 127.0.0.1 is tried, so that ::1 gets the datagrams if it refuses. */
    if (!f->settled)
        flow_hold(f, data, len);
    if (f->fd >= 0)
        (void)send(f->fd, data, len, MSG_DONTWAIT);
}

static void on_port_datagram(struct fd_watch *w, unsigned events)
{
    struct udp_port *p = (struct udp_port *)(void *)w;

    (void)events;
    for (int i = 0; i < UDP_BATCH; i++) {
        struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
        socklen_t len = sizeof(peer);
        ssize_t n = recvfrom(p->fd, scratch, sizeof(scratch), MSG_DONTWAIT,
                             (struct sockaddr *)(void *)&peer, &len);

        if (n < 0 && errno == EAGAIN)
            return;
        if (n >= 0)
            port_forward_datagram(p, &peer, len, scratch, (size_t)n);
    }
    watch_again(w);
}

int udp_port_new(struct sandbox *s, int fd, uint16_t port, struct udp_port **ret, struct err *err)
{
    struct udp_port *p = calloc(1, sizeof(*p));
    int r;

    if (p == NULL)
        return err_errno(err, -ENOMEM, "publish");
    p->s = s;
    p->evloop = gateway_evloop(s->sup->gateway);
    p->port = port;
    r = watch_add(p->evloop, &p->watch, fd, on_port_datagram);
    if (r < 0) {
        free(p);
        return err_errno(err, r, "publish");
    }
    p->fd = fd;
    *ret = p;
    return 0;
}

void udp_port_close(struct udp_port *p)
{
    if (p == NULL)
        return;
    for (size_t i = 0; i < BUCKETS; i++)
        while (p->buckets[i] != NULL)
            flow_close(p->buckets[i]);
    watch_remove(&p->watch);
    (void)close(p->fd);
    free(p);
}
