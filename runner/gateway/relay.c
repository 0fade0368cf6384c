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
#include "gateway/throughput.h"

enum {
    COPY_SIZE = 64 << 10,  /* one read; what a new pipe holds for certain */
    BULK_FROM = 32 << 10,  /* a read of this size says that there is much: splice from now on */
    SPLICE_SIZE = 4 << 20, /* asked of one splice; the pipe decides */
    TURN_BYTES = 4 << 20,  /* moved in a direction before others get their turn */
    /* A splice of less has left nothing behind, and who waited for the room is only now being
     * woken: others who wait get their turn at once. A unix socket's queue has no more than 208
     * KiB, unless its sender has asked for it. */
    EMPTIED_BELOW = 256 << 10,
    /* A page of a socket takes a slot of a pipe, and a splice is as long as there are slots; so the
     * pipes are large while they are few. A user can have 64 MiB of them. */
    BIG_PIPES = 32,
    BIG_PIPE = 1 << 20,
    /* Asked for when much goes to a unix socket, whose queue does not grow by itself as TCP's does:
     * with the 208 KiB that it begins with, its sender sleeps more often than it sends. The host's
     * wmem_max has the last word. */
    UNIX_QUEUE = 512 << 10,
    PIPES_KEPT = 32, /* empty pipes that are kept for the next */
};

struct pipe_pair {
    int fds[2]; /* read, write */
    struct pipe_pair *next;
};

struct relay_hub {
    struct poller *poller; /* borrowed */
    struct relay_config config;
    struct relay *first;
    unsigned count, pipes; /* pipes: in use */
    struct pipe_pair *spare;
    unsigned spare_count;
    struct throughput throughput;
    char scratch[COPY_SIZE];
};

/* One of the two sockets. */
struct side {
    struct watch watch; /* first */
    struct relay *relay;
    int fd; /* owned */
    bool readable, writable;
    bool output; /* its watch tells of room */
    bool eof;    /* all of its input has been read */
    bool shut;   /* its output has been shut */
    /* What was read of it and did not fit into the other one. */
    struct pipe_pair *pipe; /* owned; NULL when nothing is held */
    size_t held;
    bool bulk, emptied;
    bool roomy; /* its queue has been made long enough for much */
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
    /* Who has many pipes gets small ones (pipe-user-pages-soft): a whole read must fit. */
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

/* Whether the next pipe_take works for certain. */
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

static struct pipe_pair *pipe_take(struct relay_hub *hub)
{
    struct pipe_pair *p = hub->spare;

    hub->spare = p->next;
    hub->spare_count--;
    hub->pipes++;
    return p;
}

/* An empty one goes to the next who needs one. */
static void pipe_give(struct relay_hub *hub, struct pipe_pair *p, bool empty)
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

/* ---- the end ---- */

static void end(struct relay *r, enum relay_end how)
{
    struct relay_result result = {.end = how};
    relay_fn *on_end = r->on_end;
    void *data = r->data;

    for (int i = 0; i < 2; i++) {
        struct side *s = &r->sides[i];

        result.bytes[i] = s->sent;
        watch_remove(&s->watch);
        pipe_give(r->hub, take(s->pipe), s->held == 0);
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
    end(r, RELAY_CLOSED);
}

static void on_idle(struct deadline *d)
{
    end((struct relay *)(void *)((char *)d - offsetof(struct relay, idle)), RELAY_IDLE);
}

/* ---- moving ---- */

/*
 * One step of the direction from s to t. Bytes moved (1 for something else that changed), 0 when
 * there is nothing to do until an event comes, or a negative errno: one of the two has been reset.
 */

/* After a read or write that failed: EAGAIN is not an error; everything else is the end of the
 * connection. */
static ssize_t blocked(bool *ready)
{
    if (errno == EINTR)
        return 1;
    if (errno != EAGAIN)
        return -errno;
    *ready = false;
    return 0;
}

/* After a write. Most sockets always have room: only who has had none is told of it. */
static ssize_t blocked_output(struct side *t)
{
    ssize_t r = blocked(&t->writable);

    if (r != 0 || t->output)
        return r;
    t->output = true;
    return watch_output(&t->watch);
}

static void has_sent(struct relay_hub *hub, struct side *s, size_t bytes)
{
    s->sent += bytes;
    throughput_moved(&hub->throughput, bytes);
}

static ssize_t step_held(struct relay_hub *hub, struct side *s, struct side *t)
{
    ssize_t n;

    if (!t->writable)
        return 0;
    n = splice(s->pipe->fds[0], NULL, t->fd, NULL, s->held, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (n <= 0)
        return n == 0 ? -EPIPE : blocked_output(t);
    s->held -= (size_t)n;
    has_sent(hub, s, (size_t)n);
    if (s->held == 0)
        pipe_give(hub, take(s->pipe), true);
    return n;
}

static ssize_t step_end(const struct side *s, struct side *t)
{
    if (t->shut)
        return 0;
    t->shut = true;
    /* As the last of the two directions it needs no call: both are closed now. */
    if (!s->shut)
        (void)shutdown(t->fd, SHUT_WR); /* ENOTCONN: it has been reset, and reading will tell */
    return 1;
}

static ssize_t ended(struct side *s)
{
    s->eof = true;
    return 1;
}

static void make_roomy(struct side *t)
{
    int domain = 0, size = UNIX_QUEUE;
    socklen_t len = sizeof(domain);

    t->roomy = true;
    if (getsockopt(t->fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_UNIX)
        (void)setsockopt(t->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
}

static ssize_t step_splice(struct relay_hub *hub, struct side *s, struct side *t)
{
    ssize_t n;

    if (!t->roomy)
        make_roomy(t);
    s->pipe = pipe_take(hub);
    n = splice(s->fd, NULL, s->pipe->fds[1], NULL, SPLICE_SIZE, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (n > 0) {
        s->held = (size_t)n;
        s->bulk = n >= BULK_FROM; /* else what comes next may be little, too */
        s->emptied = n < EMPTIED_BELOW;
        return n;
    }
    pipe_give(hub, take(s->pipe), true);
    return n == 0 ? ended(s) : blocked(&s->readable);
}

/* Without a pipe for what may not fit, bytes are only looked at until they have been sent. */
static ssize_t step_copy(struct relay_hub *hub, struct side *s, struct side *t)
{
    bool hold = pipe_ready(hub);
    ssize_t n, m;

    n = recv(s->fd, hub->scratch, sizeof(hub->scratch), MSG_DONTWAIT | (hold ? 0 : MSG_PEEK));
    if (n <= 0)
        return n == 0 ? ended(s) : blocked(&s->readable);
    m = send(t->fd, hub->scratch, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (m < 0) {
        m = blocked_output(t);
        if (m < 0)
            return m;
        m = 0;
    }
    has_sent(hub, s, (size_t)m);
    if (!hold)
        return m == 0 ? 0 : recv(s->fd, hub->scratch, (size_t)m, MSG_DONTWAIT) == m ? m : -EPROTO;
    if (m < n) {
        s->pipe = pipe_take(hub);
        s->held = (size_t)(n - m);
        if (write(s->pipe->fds[1], hub->scratch + m, s->held) != (ssize_t)s->held)
            return -EIO; /* cannot be: it holds COPY_SIZE */
    } else if (n >= BULK_FROM) {
        s->bulk = true;
    }
    return n;
}

static ssize_t step(struct relay_hub *hub, struct side *s, struct side *t)
{
    if (s->held > 0)
        return step_held(hub, s, t);
    if (s->eof)
        return step_end(s, t);
    if (!s->readable || !t->writable)
        return 0;
    if (s->bulk && pipe_ready(hub))
        return step_splice(hub, s, t);
    return step_copy(hub, s, t);
}

/* Everything that can be done now, within a turn's bounds. */
static int move(struct relay *r, struct side *s, struct side *t, bool *ret_moved)
{
    size_t moved = 0;
    ssize_t n;

    while ((n = step(r->hub, s, t)) > 0) {
        *ret_moved = true;
        moved += (size_t)n;
        if (moved >= TURN_BYTES || (s->emptied && s->held == 0 && poller_crowded(r->hub->poller))) {
            s->emptied = false;
            watch_again(&s->watch);
            return 0;
        }
    }
    return (int)n;
}

/* One of the two has been reset: what it sent before goes first, as far as the other takes it at
 * once, and its end is no clean one. */
static void cut(struct relay *r)
{
    for (int i = 0; i < 2; i++) {
        struct side *s = &r->sides[i];
        size_t moved = 0;
        ssize_t n = 1;

        s->readable = true;
        while (n > 0 && moved < TURN_BYTES && (s->held > 0 || !s->eof)) {
            n = step(r->hub, s, &r->sides[1 - i]);
            moved += n > 0 ? (size_t)n : 0;
        }
    }
    end(r, RELAY_RESET);
}

static void turn(struct relay *r)
{
    struct side *a = &r->sides[0], *b = &r->sides[1];
    bool moved = false;

    if (move(r, a, b, &moved) < 0 || move(r, b, a, &moved) < 0) {
        cut(r);
        return;
    }
    if (a->shut && b->shut)
        end(r, RELAY_FINISHED);
    else if (moved)
        deadline_set(r->hub->poller, &r->idle, r->idle_ms, on_idle);
}

/* What is told of a reset, also while we do not read: the other side must not wait for it. */
static bool is_reset(int fd)
{
    int error = 0;
    socklen_t len = sizeof(error);

    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error != 0;
}

static void on_event(struct watch *w, unsigned events)
{
    struct side *s = (struct side *)(void *)w;

    if ((events & EPOLLERR) != 0 && is_reset(s->fd)) {
        cut(s->relay);
        return;
    }
    if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP)) != 0)
        s->readable = true;
    if ((events & (EPOLLOUT | EPOLLHUP)) != 0)
        s->writable = true;
    turn(s->relay);
}

/* ---- the beginning ---- */

struct tcp_option {
    int level, name, value;
};

static void set_options(int fd, const struct tcp_option *options, size_t count)
{
    for (size_t i = 0; i < count; i++)
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value,
                         sizeof(options[i].value));
}

static const struct tcp_option always[] = {{IPPROTO_TCP, TCP_NODELAY, 1}};

/* What stays on this machine shares no line with anybody: bbr, where it is the host's choice, would
 * only pace it, with a timer for each segment. reno is always there and always allowed. */
void relay_tune_local(int fd)
{
    static const char name[] = "reno";

    set_options(fd, always, sizeof(always) / sizeof(always[0]));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, sizeof(name) - 1);
}

/* A peer of this machine does not vanish without a word, as one behind a line may, which is what
 * probes are for. */
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
    set_options(fd, always, sizeof(always) / sizeof(always[0]));
    set_options(fd, far, sizeof(far) / sizeof(far[0]));
}

static int set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0)
        return -errno;
    if ((flags & O_NONBLOCK) != 0)
        return 0;
    return fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

static int attach(struct relay *r, int i, int fd)
{
    struct side *s = &r->sides[i];
    int n;

    n = set_nonblocking(fd);
    if (n < 0)
        return n;
    s->relay = r;
    s->fd = fd;
    s->writable = true; /* until a write tells otherwise */
    return watch_add_input(r->hub->poller, &s->watch, fd, on_event);
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
    n = attach(r, 0, a);
    if (n == 0)
        n = attach(r, 1, b);
    if (n < 0) {
        watch_remove(&r->sides[0].watch);
        free(r);
        return err_errno(err, n, "join connections");
    }
    list_add(&hub->first, r);
    hub->count++;
    deadline_set(hub->poller, &r->idle, r->idle_ms, on_idle);
    if (ret != NULL)
        *ret = r;
    return 0;
}

int relay_hub_new(struct poller *poller, const struct relay_config *config, struct relay_hub **ret,
                  struct err *err)
{
    static const struct relay_config defaults = {
        .max = RELAY_MAX, .pipes = RELAY_PIPES, .idle_ms = RELAY_IDLE_MS, .rest_ms = RELAY_REST_MS};
    struct relay_hub *hub = calloc(1, sizeof(*hub));

    if (hub == NULL)
        return err_errno(err, -ENOMEM, "join connections");
    hub->poller = poller;
    hub->config = config != NULL ? *config : defaults;
    throughput_init(&hub->throughput, poller);
    *ret = hub;
    return 0;
}

void relay_hub_close(struct relay_hub *hub)
{
    if (hub == NULL)
        return;
    while (hub->first != NULL)
        end(hub->first, RELAY_CLOSED);
    while (hub->spare != NULL) {
        struct pipe_pair *p = hub->spare;

        hub->spare = p->next;
        pipe_free(p);
    }
    throughput_close(&hub->throughput);
    free(hub);
}

int relay_early(struct relay *r, int i, const void *data, size_t len, struct err *err)
{
    struct side *from = &r->sides[1 - i];
    ssize_t n = 0, held;

    if (len > 0)
        n = send(r->sides[i].fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0)
        n = 0; /* its end, too, is told of by an event */
    if ((size_t)n == len)
        return 0;
    if (!pipe_ready(r->hub))
        return err_set(err, -EAGAIN, "join connections: no pipe is left");
    from->pipe = pipe_take(r->hub);
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

static void hurry(struct relay *r)
{
    if (r->idle_ms <= r->hub->config.rest_ms)
        return;
    r->idle_ms = r->hub->config.rest_ms;
    deadline_set(r->hub->poller, &r->idle, r->idle_ms, on_idle);
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
            hurry(r);
        else
            end(r, RELAY_CLOSED);
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
