#include "init/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "init/exec-table.h"

enum {
    CHUNK = 1 << 20,           /* bytes of one splice, at most */
    TURNS = 4,                 /* splices of a stream before other streams are served */
    SCRATCH = 16 << 10,        /* bytes of one read from a terminal or a sink */
    TERMINAL_LEFT = 256 << 10, /* more than a terminal can hold */
    SINK_TURNS = 4,
};

enum moved {
    MOVED_SOME,    /* there may be more, but other streams come first */
    MOVED_ALL,     /* nothing is there now */
    MOVED_NO_ROOM, /* the destination is full */
    MOVED_END,     /* no more bytes come, or the destination is gone */
};

static char scratch[SCRATCH];

/* ---- the epoll set ---- */

uint64_t watch_slot(const struct table *t, const struct slot *s, unsigned stream, enum about about)
{
    return (uint64_t)s->serial << 32 | (uint64_t)(s - t->slots) << 8 | stream << 4 |
           (unsigned)about;
}

void watch_set(const struct table *t, int fd, int *watched, int events, uint64_t data)
{
    struct epoll_event event = {.events = (uint32_t)events, .data = {.u64 = data}};
    int op = EPOLL_CTL_MOD;

    if (fd < 0 || *watched == events)
        return;
    if (events < 0)
        op = EPOLL_CTL_DEL;
    else if (*watched < 0)
        op = EPOLL_CTL_ADD;
    if (epoll_ctl(t->epoll, op, fd, &event) == 0 || events < 0)
        *watched = events;
}

static bool fd_is_ready(int fd, short events)
{
    struct pollfd p = {.fd = fd, .events = events};

    return poll(&p, 1, 0) > 0 && (p.revents & events) != 0;
}

/*
 * A source with a full destination is removed from the set, because its hang-up would be reported
 * again and again. A destination stays in the set even without events: its hang-up shows that its
 * reader or writer has exited.
 */
static void relay_watch(const struct table *t, struct slot *s, unsigned stream)
{
    struct stdio_relay *r = &s->relays[stream];
    int inner = 0, outer = 0;

    if (r->kind != RELAY_INPUT)
        inner = r->out_blocked ? -1 : EPOLLIN;
    if (r->input && r->in_blocked)
        inner = inner < 0 ? EPOLLOUT : inner | EPOLLOUT;
    if (r->input && !r->in_blocked)
        outer = EPOLLIN | EPOLLRDHUP;
    else if (r->kind == RELAY_INPUT)
        outer = -1;
    if (r->out_blocked)
        outer |= EPOLLOUT;
    watch_set(t, r->inner, &r->inner_watched, inner, watch_slot(t, s, stream, ABOUT_INNER));
    watch_set(t, r->outer, &r->outer_watched, outer, watch_slot(t, s, stream, ABOUT_OUTER));
}

/* ---- sinks ---- */

static void sink_remove(struct table *t, unsigned i)
{
    int watched = EPOLLIN;

    watch_set(t, t->sinks[i], &watched, -1, 0);
    (void)close(t->sinks[i]);
    t->sink_count--;
    (void)memmove(t->sinks + i, t->sinks + i + 1, (t->sink_count - i) * sizeof(t->sinks[0]));
}

static void sink_add(struct table *t, int fd)
{
    int watched = -1;

    if (t->sink_count == SINKS_MAX)
        sink_remove(t, 0);
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    watch_set(t, fd, &watched, EPOLLIN, (uint64_t)(unsigned)fd << 8 | ABOUT_SINK);
    if (watched < 0)
        (void)close(fd);
    else
        t->sinks[t->sink_count++] = fd;
}

void sink_drain(struct table *t, int fd)
{
    unsigned i = 0;
    ssize_t n = 1;

    while (i < t->sink_count && t->sinks[i] != fd)
        i++;
    if (i == t->sink_count)
        return; /* the sink was removed in this round */
    for (int k = 0; k < SINK_TURNS && n > 0; k++)
        n = read(fd, scratch, sizeof(scratch));
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        sink_remove(t, i);
}

/* ---- life ---- */

int relay_open(struct table *t, struct slot *s, unsigned stream, enum relay_kind kind, int inner,
               int outer, struct log *log)
{
    struct stdio_relay *r = &s->relays[stream];

    *r = (struct stdio_relay){.kind = kind,
                              .inner = inner,
                              .outer = outer,
                              .log = log,
                              .inner_watched = -1,
                              .outer_watched = -1,
                              .input = kind == RELAY_INPUT || kind == RELAY_TERMINAL};
    relay_watch(t, s, stream);
    if (r->inner_watched >= 0 && (outer < 0 || r->outer_watched >= 0))
        return 0;
    watch_set(t, inner, &r->inner_watched, -1, 0);
    watch_set(t, outer, &r->outer_watched, -1, 0);
    r->kind = RELAY_NONE;
    return -ENOSPC; /* the user's limit of epoll watches */
}

/*
 * Closes a relay. If processes that were left behind may still write to the pipe, it is drained
 * from now on, so that they get no SIGPIPE. If its own process still runs, the pipe is closed, and
 * the process gets the SIGPIPE that it should get.
 */
void relay_close(struct table *t, struct stdio_relay *r)
{
    if (r->kind == RELAY_NONE)
        return;
    watch_set(t, r->inner, &r->inner_watched, -1, 0);
    watch_set(t, r->outer, &r->outer_watched, -1, 0);
    if (r->outer >= 0)
        (void)close(r->outer);
    if (r->log != NULL)
        log_close(r->log);
    else if (r->kind == RELAY_OUTPUT && r->ended && !fd_is_ready(r->inner, POLLHUP))
        sink_add(t, r->inner);
    else
        (void)close(r->inner);
    r->kind = RELAY_NONE;
}

/* ---- output ---- */

/* Counts n moved bytes. Returns whether they were the last that the process has written. */
static bool relay_count(struct stdio_relay *r, size_t n)
{
    if (!r->ended)
        return false;
    r->left -= n < r->left ? n : r->left;
    return r->left == 0;
}

/*
 * Copies one piece, with the result of splice(2). Needed for a pipe that begins with empty buffers,
 * on which a splice to a socket returns 0. A write that faults leaves such a buffer, on kernels up
 * to 6.14.
 */
static ssize_t relay_copy(struct stdio_relay *r, size_t most)
{
    ssize_t n;

    if (!fd_is_ready(r->outer, POLLOUT)) {
        errno = EAGAIN;
        return -1;
    }
    (void)fcntl(r->inner, F_SETFL, O_NONBLOCK);
    n = read(r->inner, scratch, most < SCRATCH ? most : SCRATCH);
    return n <= 0 ? n : send(r->outer, scratch, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* poll(2) takes no pipe's lock, so an empty pipe is not touched at all. */
static enum moved relay_move_output(struct stdio_relay *r)
{
    for (int i = 0; i < TURNS; i++) {
        if (i > 0 && !fd_is_ready(r->inner, POLLIN | POLLHUP))
            return r->ended ? MOVED_END : MOVED_ALL;

        const size_t most = r->ended && r->left < CHUNK ? (size_t)r->left : CHUNK;
        ssize_t n = splice(r->inner, NULL, r->outer, NULL, most, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);

        if (n == 0 && !fd_is_ready(r->inner, POLLHUP))
            n = relay_copy(r, most);
        if (n > 0 && relay_count(r, (size_t)n))
            return MOVED_END;
        if (n > 0 || (n < 0 && errno == EINTR))
            continue;
        if (n == 0 || errno != EAGAIN)
            return MOVED_END;
        if (fd_is_ready(r->inner, POLLIN))
            return MOVED_NO_ROOM;
        return r->ended ? MOVED_END : MOVED_ALL; /* ended: a process inside read its own pipe */
    }
    return MOVED_SOME;
}

/* As read(2), but reads everything that the terminal has: it returns at most 4 KiB at a time. */
static ssize_t relay_read_terminal(const struct stdio_relay *r)
{
    size_t len = 0;
    ssize_t n;

    do {
        n = read(r->inner, scratch + len, SCRATCH - len);
        len += n > 0 ? (size_t)n : 0;
    } while (n > 0 && len < SCRATCH);
    return len > 0 ? (ssize_t)len : n;
}

/* A writable socket has room for more than one read returns. */
static enum moved relay_move_terminal(struct stdio_relay *r)
{
    for (int i = 0; i < TURNS; i++) {
        ssize_t n;

        if (!fd_is_ready(r->outer, POLLOUT))
            return MOVED_NO_ROOM;
        n = relay_read_terminal(r);
        if (n > 0 && send(r->outer, scratch, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
            return MOVED_END;
        if (n > 0 && relay_count(r, (size_t)n))
            return MOVED_END;
        if (n > 0 || (n < 0 && errno == EINTR))
            continue;
        if (n == 0 || errno != EAGAIN)
            return MOVED_END; /* EIO: no process has it open any more */
        return r->ended ? MOVED_END : MOVED_ALL;
    }
    return MOVED_SOME;
}

/* Returns whether the relay is still open. */
static bool relay_output(struct table *t, struct stdio_relay *r)
{
    enum moved m;

    if (r->kind == RELAY_LOG)
        m = log_move(r->log) ? MOVED_SOME : MOVED_END;
    else
        m = r->kind == RELAY_TERMINAL ? relay_move_terminal(r) : relay_move_output(r);
    r->out_blocked = m == MOVED_NO_ROOM;
    if (m == MOVED_END)
        relay_close(t, r);
    return m != MOVED_END;
}

/* ---- input ---- */

static enum moved relay_move_input(struct stdio_relay *r)
{
    for (int i = 0; i < TURNS; i++) {
        if (i > 0 && !fd_is_ready(r->outer, POLLIN))
            return MOVED_ALL;

        const ssize_t n =
            splice(r->outer, NULL, r->inner, NULL, CHUNK, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);

        if (n > 0 || (n < 0 && errno == EINTR))
            continue;
        if (n == 0 || errno != EAGAIN)
            return MOVED_END;
        return fd_is_ready(r->outer, POLLIN) ? MOVED_NO_ROOM : MOVED_ALL;
    }
    return MOVED_SOME;
}

/* Writes input to the terminal; bytes that it does not take stay in the socket. */
static enum moved relay_type_input(struct stdio_relay *r)
{
    const ssize_t n = recv(r->outer, scratch, SCRATCH, MSG_PEEK | MSG_DONTWAIT);
    ssize_t taken;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return MOVED_ALL;
    if (n <= 0)
        return MOVED_END;
    taken = write(r->inner, scratch, (size_t)n);
    if (taken == 0 || (taken < 0 && (errno == EAGAIN || errno == EINTR)))
        return MOVED_NO_ROOM;
    if (taken < 0)
        taken = n; /* no process has it open any more */
    (void)recv(r->outer, scratch, (size_t)taken, MSG_DONTWAIT);
    return taken < n ? MOVED_NO_ROOM : MOVED_SOME;
}

/* Returns whether the relay is still open. */
static bool relay_input(struct table *t, struct stdio_relay *r)
{
    const enum moved m = r->kind == RELAY_TERMINAL ? relay_type_input(r) : relay_move_input(r);

    r->in_blocked = m == MOVED_NO_ROOM;
    if (m != MOVED_END)
        return true;
    r->input = false;
    if (r->kind == RELAY_TERMINAL && !fd_is_ready(r->outer, POLLHUP))
        return true; /* the reader sends no more input, but still reads */
    relay_close(t, r);
    return false;
}

/* ---- events ---- */

/*
 * True if the other side of a destination has exited. A source's hang-up is found by moving
 * instead, because input that was sent before still counts.
 */
static bool relay_is_deserted(const struct stdio_relay *r, bool outer, uint32_t events)
{
    if ((events & (EPOLLHUP | EPOLLERR)) == 0)
        return false;
    return r->kind == RELAY_INPUT ? !outer : outer;
}

void relay_event(struct table *t, struct slot *s, unsigned stream, bool outer, uint32_t events)
{
    struct stdio_relay *r = &s->relays[stream];
    bool open = true;

    if (r->kind == RELAY_NONE)
        return;
    if (relay_is_deserted(r, outer, events)) {
        relay_close(t, r);
        return;
    }
    if (r->kind != RELAY_INPUT && outer == r->out_blocked)
        open = relay_output(t, r);
    if (open && r->input && outer != r->in_blocked)
        open = relay_input(t, r);
    if (open)
        relay_watch(t, s, stream);
}

/* Returns the number of bytes that the process has written and that are still in the pipe. */
static uint64_t relay_pending(const struct stdio_relay *r)
{
    int n = 0;

    if (r->kind == RELAY_TERMINAL)
        return TERMINAL_LEFT;
    if (!fd_is_ready(r->inner, POLLIN))
        return 0;
    return ioctl(r->inner, FIONREAD, &n) < 0 || n < 0 ? 0 : (uint64_t)n;
}

/*
 * Moves only the bytes that are there now, because processes that are left behind may write for
 * ever.
 */
static void relay_finish_log(struct table *t, struct stdio_relay *r)
{
    uint64_t at = log_total(r->log), before = UINT64_MAX;
    const uint64_t end = at + relay_pending(r);

    while (at < end && at != before && relay_output(t, r)) {
        before = at;
        at = log_total(r->log);
    }
}

/*
 * Enlarges the socket's buffer, so that a pipe's content fits, unless its process has enlarged the
 * pipe.
 */
static void relay_make_room(const struct stdio_relay *r)
{
    const int most = INT32_MAX; /* the kernel takes what net.core.wmem_max allows */

    (void)setsockopt(r->outer, SOL_SOCKET, SO_SNDBUF, &most, sizeof(most));
}

void relay_finish(struct table *t, struct slot *s, unsigned stream)
{
    struct stdio_relay *r = &s->relays[stream];
    bool open = true;

    if (r->kind == RELAY_NONE || r->ended)
        return;
    if (r->kind == RELAY_LOG) {
        relay_finish_log(t, r);
        return;
    }
    r->ended = true;
    r->left = r->kind == RELAY_INPUT ? 0 : relay_pending(r);
    if (r->left == 0) {
        relay_close(t, r);
        return;
    }
    relay_make_room(r);
    do
        open = relay_output(t, r);
    while (open && !r->out_blocked);
    if (open)
        relay_watch(t, s, stream);
}

void relay_resize(struct stdio_relay *r, uint16_t rows, uint16_t cols)
{
    const struct winsize size = {.ws_row = rows, .ws_col = cols};

    if (r->kind == RELAY_TERMINAL)
        (void)ioctl(r->inner, TIOCSWINSZ, &size);
}
