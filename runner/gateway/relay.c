#include "gateway/relay.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/list.h"
#include "base/socket.h"
#include "gateway/listener.h"
#include "gateway/sched-batch.h"

enum {
    COPY_SIZE = 64 << 10,  /* bytes of one read; the least that a new pipe holds */
    BULK_FROM = 32 << 10,  /* a read of this size shows a bulk transfer: use splice */
    SPLICE_SIZE = 4 << 20, /* asked of one splice; the pipe's size decides */
    TURN_BYTES = 4 << 20,  /* moved in one direction before other watches are served */
    /* A shorter splice has emptied the queue, and the sender is only now being woken: other
     * watches are served first. The queue of a unix socket has at most 208 KiB, unless its
     * sender asked for more. */
    EMPTIED_BELOW = 256 << 10,
    /* Each page from a socket takes a pipe slot, and a splice moves as many pages as there are
     * slots. So pipes are large while there are few: a user may have 64 MiB of them. */
    BIG_PIPES = 32,
    BIG_PIPE = 1 << 20,
    /* Set on a unix socket that receives a bulk transfer: unlike TCP's its queue does not grow
     * by itself, and with the default 208 KiB its sender mostly sleeps. The host's wmem_max is
     * the upper bound. */
    UNIX_QUEUE = 512 << 10,
    PIPES_KEPT = 32, /* empty pipes kept for reuse */
};

struct pipe_pair {
    int fds[2]; /* read, write */
    struct pipe_pair *next;
};

struct relay_hub {
    struct evloop *evloop; /* borrowed */
    struct relay_config config;
    struct relay *first;
    unsigned count, pipes; /* pipes: in use */
    struct pipe_pair *spare;
    unsigned spare_count;
    struct sched_batch sched_batch;
    char scratch[COPY_SIZE];
};

/* One of the two sockets of a relay. */
struct side {
    struct fd_watch watch; /* first */
    struct relay *relay;
    int fd; /* owned */
    bool readable, writable;
    bool output; /* watch_output was called */
    bool eof;    /* all input was read */
    bool shut;   /* its output was shut down */
    /* Bytes read from this socket that the other did not take. */
    struct pipe_pair *pipe; /* owned; NULL when it would be empty */
    size_t held;
    bool bulk, emptied;
    bool roomy; /* SO_SNDBUF was raised (UNIX_QUEUE) */
    uint64_t sent;
};

struct relay {
    struct relay_hub *hub;
    struct relay *next, **link;
    struct side sides[2];
    struct deadline idle;
    uint64_t group;
    unsigned idle_ms;
    bool counted, outlasts;
    relay_fn *on_end;
    void *data;
};

/* ---- pipes ---- */

static struct pipe_pair *pipe_make(bool big)
{
    struct pipe_pair *p = malloc(sizeof(*p));

    if (p == NULL)
        return NULL;
    if (pipe2(p->fds, O_CLOEXEC | O_NONBLOCK) < 0) {
        free(p);
        return NULL;
    }
    if (big)
        (void)fcntl(p->fds[1], F_SETPIPE_SZ, BIG_PIPE);
    /* Users with many pipes get small ones (pipe-user-pages-soft), but a whole read must fit. */
    if (fcntl(p->fds[1], F_GETPIPE_SZ) < COPY_SIZE) {
        (void)close(p->fds[0]);
        (void)close(p->fds[1]);
        free(p);
        return NULL;
    }
    return p;
}

static void pipe_free(struct pipe_pair *p)
{
    (void)close(p->fds[0]);
    (void)close(p->fds[1]);
    free(p);
}

/* True if the next pipe_get cannot fail. */
static bool pipe_ready(struct relay_hub *hub)
{
    if (hub->pipes >= hub->config.pipes)
        return false;
    if (hub->spare == NULL && (hub->spare = pipe_make(hub->pipes < BIG_PIPES)) != NULL) {
        hub->spare->next = NULL;
        hub->spare_count = 1;
    }
    return hub->spare != NULL;
}

static struct pipe_pair *pipe_get(struct relay_hub *hub)
{
    struct pipe_pair *p = hub->spare;

    hub->spare = p->next;
    hub->spare_count--;
    hub->pipes++;
    return p;
}

/* Returns a pipe; an empty one is kept for reuse. */
static void pipe_put(struct relay_hub *hub, struct pipe_pair *p, bool empty)
{
    if (p == NULL)
        return;
    hub->pipes--;
    if (!empty || hub->spare_count >= PIPES_KEPT) {
        pipe_free(p);
        return;
    }
    p->next = hub->spare;
    hub->spare = p;
    hub->spare_count++;
}

/* ---- end of a relay ---- */

static void relay_end(struct relay *r, enum relay_end how)
{
    struct relay_result result = {.end = how};
    relay_fn *on_end = r->on_end;
    void *data = r->data;

    for (int i = 0; i < 2; i++) {
        struct side *s = &r->sides[i];

        result.bytes[i] = s->sent;
        watch_remove(&s->watch);
        pipe_put(r->hub, take(s->pipe), s->held == 0);
        if (how != RELAY_FINISHED)
            socket_reset_on_close(s->fd);
        (void)close(take_fd(&s->fd));
    }
    deadline_clear(&r->idle);
    list_remove(r);
    r->hub->count--;
    if (r->counted)
        r->hub->config.left(r->hub->config.data, r->group);
    free(r);
    if (on_end != NULL)
        on_end(data, &result);
}

void relay_stop(struct relay *r)
{
    relay_end(r, RELAY_CLOSED);
}

static void on_relay_idle(struct deadline *d)
{
    relay_end((struct relay *)(void *)((char *)d - offsetof(struct relay, idle)), RELAY_IDLE);
}

/* ---- moving bytes ---- */

/* One step from s to t. Returns the bytes moved (1 for another change), 0 if an event must come
 * first, or a negative errno: one of the two sockets was reset. */

/* Called after a failed read or write. EAGAIN is no error; any other errno ends the connection. */
static ssize_t side_blocked(bool *ready)
{
    if (errno == EINTR)
        return 1;
    if (errno != EAGAIN)
        return -errno;
    *ready = false;
    return 0;
}

/* Called after a failed write. EPOLLOUT is requested only now, as most sockets always have room. */
static ssize_t side_blocked_output(struct side *t)
{
    ssize_t r = side_blocked(&t->writable);

    if (r != 0 || t->output)
        return r;
    t->output = true;
    return watch_output(&t->watch);
}

static void side_has_sent(struct relay_hub *hub, struct side *s, size_t bytes)
{
    s->sent += bytes;
    sched_batch_moved(&hub->sched_batch, bytes);
}

static ssize_t side_step_held(struct relay_hub *hub, struct side *s, struct side *t)
{
    ssize_t n;

    if (!t->writable)
        return 0;
    n = splice(s->pipe->fds[0], NULL, t->fd, NULL, s->held, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (n <= 0)
        return n == 0 ? -EPIPE : side_blocked_output(t);
    s->held -= (size_t)n;
    side_has_sent(hub, s, (size_t)n);
    if (s->held == 0)
        pipe_put(hub, take(s->pipe), true);
    return n;
}

static ssize_t side_step_eof(const struct side *s, struct side *t)
{
    if (t->shut)
        return 0;
    t->shut = true;
    /* When the other direction is already shut down, both sockets are closed next: no call is
     * needed. */
    if (!s->shut)
        (void)shutdown(t->fd, SHUT_WR); /* ENOTCONN: reset, which the next read reports */
    return 1;
}

static ssize_t side_set_eof(struct side *s)
{
    s->eof = true;
    return 1;
}

static void side_raise_sndbuf(struct side *t)
{
    int domain = 0, size = UNIX_QUEUE;
    socklen_t len = sizeof(domain);

    t->roomy = true;
    if (getsockopt(t->fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_UNIX)
        (void)setsockopt(t->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
}

static ssize_t side_step_splice(struct relay_hub *hub, struct side *s, struct side *t)
{
    ssize_t n;

    if (!t->roomy)
        side_raise_sndbuf(t);
    s->pipe = pipe_get(hub);
    n = splice(s->fd, NULL, s->pipe->fds[1], NULL, SPLICE_SIZE, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (n > 0) {
        s->held = (size_t)n;
        s->bulk = n >= BULK_FROM; /* otherwise the next piece may be small, too */
        s->emptied = n < EMPTIED_BELOW;
        return n;
    }
    pipe_put(hub, take(s->pipe), true);
    return n == 0 ? side_set_eof(s) : side_blocked(&s->readable);
}

/* Without a pipe for the bytes that t does not take, they are peeked at and only consumed once
 * sent. */
static ssize_t side_step_copy(struct relay_hub *hub, struct side *s, struct side *t)
{
    bool hold = pipe_ready(hub);
    ssize_t n, m;

    n = recv(s->fd, hub->scratch, sizeof(hub->scratch), MSG_DONTWAIT | (hold ? 0 : MSG_PEEK));
    if (n <= 0)
        return n == 0 ? side_set_eof(s) : side_blocked(&s->readable);
    m = send(t->fd, hub->scratch, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (m < 0) {
        m = side_blocked_output(t);
        if (m < 0)
            return m;
        m = 0;
    }
    side_has_sent(hub, s, (size_t)m);
    if (!hold)
        return m == 0 ? 0 : recv(s->fd, hub->scratch, (size_t)m, MSG_DONTWAIT) == m ? m : -EPROTO;
    if (m < n) {
        s->pipe = pipe_get(hub);
        s->held = (size_t)(n - m);
        if (write(s->pipe->fds[1], hub->scratch + m, s->held) != (ssize_t)s->held)
            return -EIO; /* impossible: a pipe holds COPY_SIZE */
    } else if (n >= BULK_FROM) {
        s->bulk = true;
    }
    return n;
}

static ssize_t side_step(struct relay_hub *hub, struct side *s, struct side *t)
{
    if (s->held > 0)
        return side_step_held(hub, s, t);
    if (s->eof)
        return side_step_eof(s, t);
    if (!s->readable || !t->writable)
        return 0;
    if (s->bulk && pipe_ready(hub))
        return side_step_splice(hub, s, t);
    return side_step_copy(hub, s, t);
}

/* Moves bytes until no more can be done or TURN_BYTES are moved. */
static int side_move(struct relay *r, struct side *s, struct side *t, bool *ret_moved)
{
    size_t moved = 0;
    ssize_t n;

    while ((n = side_step(r->hub, s, t)) > 0) {
        *ret_moved = true;
        moved += (size_t)n;
        if (moved >= TURN_BYTES || (s->emptied && s->held == 0 && evloop_crowded(r->hub->evloop))) {
            s->emptied = false;
            watch_again(&s->watch);
            return 0;
        }
    }
    return (int)n;
}

/* One socket was reset. Bytes that it sent before are passed on as far as the other takes them
 * at once; then both are reset. */
static void relay_cut(struct relay *r)
{
    for (int i = 0; i < 2; i++) {
        struct side *s = &r->sides[i];
        size_t moved = 0;
        ssize_t n = 1;

        s->readable = true;
        while (n > 0 && moved < TURN_BYTES && (s->held > 0 || !s->eof)) {
            n = side_step(r->hub, s, &r->sides[1 - i]);
            moved += n > 0 ? (size_t)n : 0;
        }
    }
    relay_end(r, RELAY_RESET);
}

static void relay_turn(struct relay *r)
{
    struct side *a = &r->sides[0], *b = &r->sides[1];
    bool moved = false;

    if (side_move(r, a, b, &moved) < 0 || side_move(r, b, a, &moved) < 0) {
        relay_cut(r);
        return;
    }
    if (a->shut && b->shut)
        relay_end(r, RELAY_FINISHED);
    else if (moved)
        deadline_set(r->hub->evloop, &r->idle, r->idle_ms, on_relay_idle);
}

/* A reset is reported even while we do not read, so that the other side need not wait for it. */
static bool socket_is_reset(int fd)
{
    int error = 0;
    socklen_t len = sizeof(error);

    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error != 0;
}

static void on_side_event(struct fd_watch *w, unsigned events)
{
    struct side *s = (struct side *)(void *)w;

    if ((events & EPOLLERR) != 0 && socket_is_reset(s->fd)) {
        relay_cut(s->relay);
        return;
    }
    if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP)) != 0)
        s->readable = true;
    if ((events & (EPOLLOUT | EPOLLHUP)) != 0)
        s->writable = true;
    relay_turn(s->relay);
}

/* ---- start ---- */

struct tcp_option {
    int level, name, value;
};

static void socket_set_options(int fd, const struct tcp_option *options, size_t count)
{
    for (size_t i = 0; i < count; i++)
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value,
                         sizeof(options[i].value));
}

static const struct tcp_option always[] = {{IPPROTO_TCP, TCP_NODELAY, 1}};

/* Local connections share no link with other traffic: a host's default of bbr would only pace
 * them, with a timer per segment. reno is always built in and always allowed. */
void relay_tune_local(int fd)
{
    static const char name[] = "reno";

    socket_set_options(fd, always, sizeof(always) / sizeof(always[0]));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, sizeof(name) - 1);
}

/* A remote peer can vanish silently, so it gets keep-alive probes; a local one cannot. */
void relay_tune(int fd)
{
    static const struct tcp_option far[] = {
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, RELAY_KEEPALIVE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, RELAY_KEEPALIVE_INTERVAL_S},
        {IPPROTO_TCP, TCP_KEEPCNT, RELAY_KEEPALIVE_PROBES},
    };

    struct sockaddr_storage peer;
    socklen_t len = sizeof(peer);

    if (getpeername(fd, (struct sockaddr *)(void *)&peer, &len) < 0 || peer.ss_family == AF_UNIX)
        return;
    if (address_is_loopback((const struct sockaddr *)(const void *)&peer)) {
        relay_tune_local(fd);
        return;
    }
    socket_set_options(fd, always, sizeof(always) / sizeof(always[0]));
    socket_set_options(fd, far, sizeof(far) / sizeof(far[0]));
}

static int socket_set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0)
        return -errno;
    if ((flags & O_NONBLOCK) != 0)
        return 0;
    return fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

static int side_attach(struct relay *r, int i, int fd)
{
    struct side *s = &r->sides[i];
    int n;

    n = socket_set_nonblocking(fd);
    if (n < 0)
        return n;
    s->relay = r;
    s->fd = fd;
    s->writable = true; /* until a write returns EAGAIN */
    return watch_add_input(r->hub->evloop, &s->watch, fd, on_side_event);
}

int relay_start(struct relay_hub *hub, int a, int b, uint64_t group, relay_fn *on_end, void *data,
                struct relay **ret, struct err *err)
{
    struct relay *r;
    int n;

    if (hub->count >= hub->config.max)
        return err_set(err, -EAGAIN, "limit maxGatewayConnections: %u connections are open",
                       hub->count);
    r = calloc(1, sizeof(*r));
    if (r == NULL)
        return err_errno(err, -ENOMEM, "join connections");
    r->hub = hub;
    r->group = group;
    r->idle_ms = hub->config.idle_ms;
    r->on_end = on_end;
    r->data = data;
    n = side_attach(r, 0, a);
    if (n == 0)
        n = side_attach(r, 1, b);
    if (n < 0) {
        watch_remove(&r->sides[0].watch);
        free(r);
        return err_errno(err, n, "join connections");
    }
    list_add(&hub->first, r);
    hub->count++;
    deadline_set(hub->evloop, &r->idle, r->idle_ms, on_relay_idle);
    if (ret != NULL)
        *ret = r;
    return 0;
}

int relay_hub_new(struct evloop *evloop, const struct relay_config *config, struct relay_hub **ret,
                  struct err *err)
{
    static const struct relay_config defaults = {
        .max = RELAY_MAX, .pipes = RELAY_PIPES, .idle_ms = RELAY_IDLE_MS, .rest_ms = RELAY_REST_MS};
    struct relay_hub *hub = calloc(1, sizeof(*hub));

    if (hub == NULL)
        return err_errno(err, -ENOMEM, "join connections");
    hub->evloop = evloop;
    hub->config = config != NULL ? *config : defaults;
    sched_batch_init(&hub->sched_batch, evloop);
    *ret = hub;
    return 0;
}

void relay_hub_close(struct relay_hub *hub)
{
    if (hub == NULL)
        return;
    while (hub->first != NULL)
        relay_end(hub->first, RELAY_CLOSED);
    while (hub->spare != NULL) {
        struct pipe_pair *p = hub->spare;

        hub->spare = p->next;
        pipe_free(p);
    }
    sched_batch_close(&hub->sched_batch);
    free(hub);
}

int relay_early(struct relay *r, int i, const void *data, size_t len, struct err *err)
{
    struct side *from = &r->sides[1 - i];
    ssize_t n = 0, held;

    if (len > 0)
        n = send(r->sides[i].fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0)
        n = 0; /* an event reports its end */
    if ((size_t)n == len)
        return 0;
    if (!pipe_ready(r->hub))
        return err_set(err, -EAGAIN, "join connections: no pipe is left");
    from->pipe = pipe_get(r->hub);
    held = write(from->pipe->fds[1], (const char *)data + n, len - (size_t)n);
    from->held = held > 0 ? (size_t)held : 0;
    watch_again(&from->watch);
    return from->held == len - (size_t)n
               ? 0
               : err_set(err, -EAGAIN, "join connections: %zu bytes do not fit into a pipe", len);
}

void relay_counted(struct relay *r)
{
    assert(r->hub->config.left != NULL);
    r->counted = true;
}

void relay_outlasts(struct relay *r)
{
    r->outlasts = true;
}

static void relay_shorten_idle(struct relay *r)
{
    if (r->idle_ms <= r->hub->config.rest_ms)
        return;
    r->idle_ms = r->hub->config.rest_ms;
    deadline_set(r->hub->evloop, &r->idle, r->idle_ms, on_relay_idle);
}

uint64_t relay_group(const char *id)
{
    return strtoull(id, NULL, 16);
}

void relay_end_group(struct relay_hub *hub, uint64_t group)
{
    for (struct relay *r = hub->first, *next; r != NULL; r = next) {
        next = r->next;
        if (r->group != group)
            continue;
        if (r->outlasts)
            relay_shorten_idle(r);
        else
            relay_end(r, RELAY_CLOSED);
    }
}

unsigned relay_count(const struct relay_hub *hub)
{
    return hub->count;
}

unsigned relay_pipes(const struct relay_hub *hub)
{
    return hub->pipes;
}
