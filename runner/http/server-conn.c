#include <assert.h>
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "http/error.h"
#include "http/route.h"
#include "http/server-internal.h"

/* Owns one connection: its states, time-outs, reading, and calling handlers.
 *
 * conn_run is the only function that advances a connection and calls handlers. The loop alone
 * calls it (socket ready, time-out, conn_kick), never an API call, so a handler is never
 * re-entered. API calls change the request's flags and the queues; conn_settle then does the
 * work that needs no handler.
 *
 * Runs in the loop thread; called by server.c and the other server-*.c. */

/* ---- states ---- */

static void on_conn_timeout(struct deadline *d);

static void conn_set_clock(struct http_conn *c, unsigned ms)
{
    deadline_set(c->server->evloop, &c->clock, ms, on_conn_timeout);
}

static void conn_enter(struct http_conn *c, enum conn_state to)
{
    static const unsigned char allowed[CONN_STATES] = {
        [CONN_HEAD] = 1 << CONN_BODY | 1 << CONN_HANDLE | 1 << CONN_FINISH | 1 << CONN_CLOSED,
        [CONN_BODY] = 1 << CONN_HANDLE | 1 << CONN_FINISH | 1 << CONN_CLOSED,
        [CONN_HANDLE] = 1 << CONN_RAW | 1 << CONN_FINISH | 1 << CONN_CLOSED,
        [CONN_RAW] = 1 << CONN_FINISH | 1 << CONN_CLOSED,
        [CONN_FINISH] = 1 << CONN_HEAD | 1 << CONN_LINGER | 1 << CONN_CLOSED,
        [CONN_LINGER] = 1 << CONN_CLOSED,
    };
    const struct http_config *config = &c->server->config;
    const unsigned clocks[CONN_STATES] = {
        [CONN_HEAD] = config->idle_ms,
        [CONN_BODY] = config->body_ms,
        [CONN_FINISH] = c->write_ms,
        [CONN_LINGER] = HTTP_LINGER_MS,
    };

    assert((allowed[c->state] & 1 << to) != 0);
    c->state = to;
    if (to == CONN_CLOSED)
        return;
    deadline_clear(&c->clock);
    if (clocks[to] > 0)
        conn_set_clock(c, clocks[to]);
}

static void conn_free_if_done(struct http_conn *c)
{
    if (c->state != CONN_CLOSED || c->req != NULL || c->busy > 0)
        return;
    conn_free(c);
}

static void conn_drop_request(struct http_conn *c)
{
    if (c->req != NULL && c->req->dispatched)
        reply_tell(c->req, 0);
    request_free(c->req);
    c->req = NULL;
}

/* Called with the buffers of a connection still there, and again without. The allocator keeps freed
 * memory below any block that lives on, so after a peak it is told to give whole pages back. */
static void server_trim(struct http_server *s)
{
    enum { TRIM_ABOVE = 8 << 20, TRIM_BELOW = 8 /* of the peak */ };

    if (s->held.used > s->held_most)
        s->held_most = s->held.used;
    if (s->held_most < TRIM_ABOVE || s->held.used > s->held_most / TRIM_BELOW)
        return;
    s->held_most = s->held.used;
    (void)malloc_trim(0);
}

/* Releases everything except a request that a handler still holds, and calls its on_gone once. */
static void conn_tear_down(struct http_conn *c)
{
    struct http_request *req = c->req;

    if (c->state != CONN_CLOSED) {
        conn_enter(c, CONN_CLOSED);
        out_release(c);
        watch_remove(&c->watch);
        deadline_clear(&c->clock);
        if (c->fd >= 0) /* -1 after conn_detach */
            (void)close(take_fd(&c->fd));
        server_trim(c->server);
        bytes_done(&c->in);
        bytes_done(&c->out);
        server_trim(c->server);
    }
    if (req != NULL && req->dispatched && !req->ended && !req->gone) {
        req->gone = true;
        if (req->on_gone != NULL)
            req->on_gone(req);
    }
    if (req != NULL && (req->ended || !req->dispatched))
        conn_drop_request(c);
}

/* ---- watching ---- */

static bool conn_wants_read(const struct http_conn *c)
{
    const struct http_request *req = c->req;

    if (c->eof)
        return false;
    switch (c->state) {
    case CONN_HEAD:
    case CONN_BODY:
    case CONN_LINGER:
        return true;
    case CONN_HANDLE:
        assert(req != NULL);
        if (!req->body_done)
            return req->on_body != NULL && !req->body_paused;
        return bytes_left(&c->in) < c->server->config.max_pipeline;
    case CONN_RAW:
        assert(req != NULL);
        return !req->body_paused;
    case CONN_FINISH:
        return c->keep && !c->message_done && bytes_left(&c->out) == 0;
    case CONN_CLOSED:
    case CONN_STATES:
        break;
    }
    return false;
}

/* A streamed body's time-out runs only while the client must send. */
static void conn_set_body_clock(struct http_conn *c, bool reading)
{
    assert(c->req != NULL);
    if (!reading || c->req->body_done)
        deadline_clear(&c->clock);
    else if (c->clock.link == NULL)
        conn_set_clock(c, c->server->config.body_ms);
}

void conn_watch(struct http_conn *c)
{
    bool reading;

    if (c->state == CONN_CLOSED)
        return;
    reading = conn_wants_read(c);
    if (c->state == CONN_HANDLE)
        conn_set_body_clock(c, reading);
    if (reading && c->readable) {
        watch_again(&c->watch);
    } else if (c->hung_up) {
        conn_break(c);
        return;
    }
    if (bytes_left(&c->out) == 0 || c->head_unread || c->out_awaited)
        return;
    c->out_awaited = true;
    if (watch_output(&c->watch) < 0)
        conn_break(c);
}

void conn_kick(struct http_conn *c)
{
    if (c->busy == 0)
        watch_again(&c->watch);
}

void conn_break(struct http_conn *c)
{
    c->broken = true;
    conn_kick(c);
}

/* ---- reading ---- */

static size_t conn_read_size(const struct http_conn *c)
{
    size_t left = bytes_left(&c->in), max = c->server->config.max_pipeline;

    if (c->state == CONN_HEAD && left < HTTP_READ_SIZE)
        return left < HTTP_READ_FIRST ? HTTP_READ_FIRST : left;
    if (c->state == CONN_HANDLE && c->req->body_done)
        return max - left < HTTP_READ_FIRST ? max - left : HTTP_READ_FIRST;
    return HTTP_READ_SIZE;
}

/* Reserves *size bytes, or fewer if the budget has no room for a larger buffer. */
static int conn_reserve_in(struct http_conn *c, size_t *size)
{
    int r = bytes_reserve(&c->in, *size);

    if (r == -EAGAIN && c->in.cap > c->in.len) {
        *size = c->in.cap - c->in.len;
        return 0;
    }
    return r;
}

static void conn_read(struct http_conn *c)
{
    size_t size = conn_read_size(c);
    ssize_t n;
    int r = conn_reserve_in(c, &size);

    if (r == -EAGAIN && c->state == CONN_HEAD) {
        c->no_room = true; /* step_head answers with 503 */
        return;
    }
    if (r < 0) {
        conn_break(c);
        return;
    }
    do
        n = recv(c->fd, c->in.data + c->in.len, size, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    /* Less than asked for: the socket is empty, and what comes next is announced. */
    c->readable = n == (ssize_t)size || (n > 0 && c->half_closed);
    if (n > 0)
        c->in.len += (size_t)n;
    else if (n == 0)
        c->eof = true;
    else if (errno != EAGAIN)
        conn_break(c);
    if (c->state == CONN_HANDLE)
        deadline_clear(&c->clock); /* conn_watch restarts it */
}

/* ---- from head to handler ---- */

static void conn_fail_request(struct http_conn *c, int status, int code, const char *message,
                              const char *allow)
{
    request_fail(c->req, status, code, message, allow);
}

/* Refuses an unreadable request and closes: where the next request would begin is unknown. */
static void conn_refuse_request(struct http_conn *c, int status, int code, const char *message)
{
    if (c->req == NULL && request_blank(c) < 0) {
        conn_break(c);
        return;
    }
    c->req->keep_alive = false;
    c->message_done = false;
    conn_fail_request(c, status, code, message, NULL);
}

static void conn_dispatch(struct http_conn *c)
{
    struct http_request *req = c->req;

    conn_enter(c, CONN_HANDLE);
    req->dispatched = true;
    req->body_done = c->message_done;
    if (req->set->admit == NULL || req->set->admit(req))
        req->route->handler(req);
}

static void conn_route_request(struct http_conn *c)
{
    struct http_request *req = c->req;
    struct err err = ERR_NONE;
    char allow[64] = "";
    unsigned flags;
    int r;

    r = route_match(c->server->sets, req, req->store, allow, sizeof(allow), &err);
    if (r < 0) {
        conn_fail_request(c, r == -EOPNOTSUPP ? 405 : error_status(r), r, err.msg,
                          r == -EOPNOTSUPP ? allow : NULL);
        return;
    }
    flags = req->route->flags;
    req->upgrade = req->upgrade && (flags & ROUTE_UPGRADE) != 0;
    if ((flags & (ROUTE_BODY | ROUTE_STREAM)) == 0)
        req->body.max = 0;
    else if (req->route->max_body > 0)
        req->body.max = req->route->max_body;
    else if ((flags & ROUTE_LARGE) != 0)
        req->body.max = c->server->config.max_large_body;

    if ((flags & ROUTE_STREAM) != 0 || c->message_done) {
        conn_dispatch(c);
    } else if (req->content_length > 0 && (uint64_t)req->content_length > req->body.max) {
        r = body_refusal(req, &err);
        conn_fail_request(c, error_status(r), r, err.msg, NULL);
    } else {
        reply_continue(c);
        conn_enter(c, CONN_BODY);
    }
}

static void conn_begin_request(struct http_conn *c, size_t len)
{
    struct err err = ERR_NONE;
    int status, r;

    c->framing = c->body_seen = 0;
    c->body_error = 0;
    r = request_parse(c, c->in.data + c->in.pos, len, c->scan.lines, &status, &err);
    bytes_use(&c->in, len);
    c->scan = (struct head_scan){0};
    c->head_clock = false;
    if (r < 0)
        conn_refuse_request(c, status, r, err.msg);
    else
        conn_route_request(c);
}

/* ---- one step per state; true if more can be done ---- */

/* Old clients send empty lines after a body. */
static void conn_skip_blank_lines(struct http_conn *c)
{
    while (c->scan.pos == 0 && bytes_left(&c->in) >= 2 &&
           memcmp(c->in.data + c->in.pos, "\r\n", 2) == 0)
        bytes_use(&c->in, 2);
}

static bool conn_wait_for_head(struct http_conn *c)
{
    size_t left = bytes_left(&c->in);

    if (c->eof || (left == 0 && c->server->closing)) {
        conn_break(c);
    } else if (left > 0 && !c->head_clock) {
        c->head_clock = true;
        conn_set_clock(c, c->server->config.head_ms);
    }
    return false;
}

static bool step_head(struct http_conn *c)
{
    const struct http_config *config = &c->server->config;
    const struct head_limits limits = {
        .bytes = config->max_head, .lines = config->max_headers, .url = config->max_url};
    struct err err = ERR_NONE;
    long r;

    conn_skip_blank_lines(c);
    if (bytes_left(&c->in) == 0)
        return conn_wait_for_head(c);
    r = head_scan(&c->scan, c->in.data + c->in.pos, bytes_left(&c->in), &limits, &err);
    if (r == 0 && !c->no_room)
        return conn_wait_for_head(c);
    if (r == 0)
        conn_refuse_request(c, 503, -EAGAIN, HTTP_NO_ROOM_FOR_HEAD);
    else if (r > 0)
        conn_begin_request(c, (size_t)r);
    else
        conn_refuse_request(c, r == -E2BIG ? 431 : r == -ENAMETOOLONG ? 414 : 400, (int)r, err.msg);
    return true;
}

static bool step_body(struct http_conn *c)
{
    struct err err = ERR_NONE;
    int r;

    if (bytes_left(&c->in) == 0) {
        if (c->eof)
            conn_refuse_request(c, 400, -EBADMSG, "the body ends early");
        return c->eof;
    }
    r = body_feed(c, &err);
    if (r < 0)
        conn_refuse_request(c, error_status(r), r, err.msg);
    else if (c->message_done)
        conn_dispatch(c);
    return true;
}

static bool step_handle(struct http_conn *c)
{
    struct http_request *req = c->req;
    struct err err = ERR_NONE;

    if (req->upgraded) {
        c->raw = true;
        conn_enter(c, CONN_RAW);
        return true;
    }
    if (req->on_body == NULL || req->body_paused || req->end_told)
        return false;
    if (req->body_done) {
        req->end_told = true;
        req->on_body(req, NULL, 0);
        return true;
    }
    if (bytes_left(&c->in) == 0 && llhttp_get_errno(&c->parser) != HPE_PAUSED) {
        c->broken = c->broken || c->eof; /* EOF within a body: a truncated body must not look
                                          * complete */
        return false;
    }
    if (body_feed(c, &err) < 0) {
        c->broken = true;
        return false;
    }
    if (!req->ended)
        req->body_done = c->message_done;
    return true;
}

static bool socket_hung_up(int fd)
{
    struct pollfd pfd = {.fd = fd};

    return poll(&pfd, 1, 0) > 0 && (pfd.revents & (POLLHUP | POLLERR)) != 0;
}

static bool step_raw(struct http_conn *c)
{
    struct http_request *req = c->req;
    size_t len = bytes_left(&c->in);

    if (req->body_paused)
        return false;
    if (len > 0) {
        req->on_body(req, c->in.data + c->in.pos, len);
        bytes_use(&c->in, len);
        return true;
    }
    if (!c->eof || req->end_told)
        return false;
    /* The kernel reports only one of EOF and hang-up of a peer that closed both directions at once:
     * that is not a half-close. */
    if (socket_hung_up(c->fd)) {
        c->broken = true;
        return false;
    }
    req->end_told = true;
    req->on_body(req, NULL, 0);
    return true;
}

static void conn_linger(struct http_conn *c)
{
    /* close() with unread input sends a RST, which can destroy our last bytes before the client
     * reads them. */
    bool unread = !c->message_done || bytes_left(&c->in) > 0 || c->raw;

    if (c->eof || !unread) {
        c->broken = true;
        return;
    }
    (void)shutdown(c->fd, SHUT_WR);
    c->discarded = 0;
    conn_enter(c, CONN_LINGER);
}

static bool step_finish(struct http_conn *c)
{
    struct err err = ERR_NONE;

    if (bytes_left(&c->out) > 0)
        return false;
    if (!c->keep) {
        conn_linger(c);
        return true;
    }
    if (c->message_done) {
        conn_enter(c, CONN_HEAD);
        return true;
    }
    if (bytes_left(&c->in) == 0 && llhttp_get_errno(&c->parser) != HPE_PAUSED) {
        c->broken = c->broken || c->eof;
        return false;
    }
    if (body_feed(c, &err) < 0 || c->discarded > HTTP_DRAIN_MAX)
        c->keep = c->message_done = false;
    return true;
}

static bool step_linger(struct http_conn *c)
{
    c->discarded += bytes_left(&c->in);
    bytes_use(&c->in, bytes_left(&c->in));
    c->broken = c->broken || c->eof || c->discarded > HTTP_LINGER_MAX;
    return false;
}

/* The handler has ended the request. */
static void conn_finish_request(struct http_conn *c)
{
    c->keep = c->req->keep_alive && !c->req->upgraded;
    c->raw = c->req->upgraded;
    c->write_ms = c->req->patient ? c->server->config.stream_write_ms : c->server->config.write_ms;
    c->discarded = 0;
    conn_drop_request(c);
    conn_enter(c, CONN_FINISH);
}

static bool conn_call_on_drain(struct http_conn *c)
{
    struct http_request *req = c->req;

    if (!req->want_drain || bytes_left(&c->out) > c->server->config.queue_pause / 2)
        return false;
    req->want_drain = false;
    if (req->on_drain != NULL)
        req->on_drain(req);
    return true;
}

static bool conn_step(struct http_conn *c)
{
    static bool (*const steps[CONN_STATES])(struct http_conn *) = {
        [CONN_HEAD] = step_head, [CONN_BODY] = step_body,     [CONN_HANDLE] = step_handle,
        [CONN_RAW] = step_raw,   [CONN_FINISH] = step_finish, [CONN_LINGER] = step_linger,
    };

    if (c->req != NULL && c->req->ended) {
        conn_finish_request(c);
        return true;
    }
    if (c->req != NULL && conn_call_on_drain(c))
        return true;
    return steps[c->state](c);
}

void conn_run(struct http_conn *c)
{
    c->busy++;
    while (!c->broken && c->state != CONN_CLOSED && conn_step(c))
        ;
    if (c->broken)
        conn_tear_down(c);
    if (bytes_left(&c->in) == 0)
        bytes_done(&c->in); /* idle streams keep no buffer */
    c->busy--;
    conn_watch(c);
    conn_free_if_done(c);
}

/* No handler is called, as the request has ended. */
int conn_detach(struct http_conn *c)
{
    int fd = take_fd(&c->fd);

    watch_remove(&c->watch);
    c->req->ended = true;
    c->broken = true;
    if (c->busy == 0)
        conn_run(c);
    return fd;
}

void conn_settle(struct http_conn *c)
{
    if (c->busy > 0)
        return;
    if (c->state == CONN_CLOSED) {
        conn_drop_request(c);
        conn_free_if_done(c);
        return;
    }
    if (c->broken) /* conn_break has kicked it */
        return;
    conn_finish_request(c);
    c->busy++;
    while (!c->broken && c->state == CONN_FINISH && step_finish(c))
        ;
    c->busy--;
    if (c->broken || bytes_left(&c->in) > 0 || c->eof || c->server->closing)
        conn_kick(c);
    conn_watch(c);
}

/* ---- callbacks of the loop ---- */

static void on_conn_event(struct fd_watch *w, unsigned events)
{
    struct http_conn *c = (struct http_conn *)(void *)w;

    c->busy++;
    /* HTTP has no urgent data. */
    if ((events & EPOLLPRI) != 0)
        conn_break(c);
    /* A request that arrived whole before the client closed is carried out: the socket is read
     * to its end first, and conn_watch then breaks the connection. */
    c->hung_up = c->hung_up || (events & (EPOLLHUP | EPOLLERR)) != 0;
    c->half_closed = c->half_closed || c->hung_up || (events & EPOLLRDHUP) != 0;
    c->readable = c->readable || c->hung_up || (events & (EPOLLIN | EPOLLRDHUP)) != 0;
    if ((events & EPOLLOUT) != 0) {
        c->out_awaited = false;
        if (!c->broken && !c->head_unread && out_flush(c) && c->state == CONN_FINISH)
            conn_set_clock(c, c->write_ms);
    }
    if (!c->broken && c->readable && conn_wants_read(c))
        conn_read(c);
    c->busy--;
    conn_run(c);
}

static void on_conn_timeout(struct deadline *d)
{
    struct http_conn *c =
        (struct http_conn *)(void *)((char *)d - offsetof(struct http_conn, clock));

    c->busy++;
    if (c->state == CONN_HEAD && c->head_clock)
        conn_refuse_request(c, 408, ETIME, "the head of the request did not come in time");
    else if (c->state == CONN_BODY)
        conn_refuse_request(c, 408, ETIME, "the body of the request did not come in time");
    else
        conn_break(c);
    c->busy--;
    conn_run(c);
}

void conn_refuse(struct http_conn *c, int status, int code, const char *message)
{
    c->busy++;
    conn_refuse_request(c, status, code, message);
    c->busy--;
    conn_run(c);
}

void conn_shut_down(struct http_conn *c, bool force)
{
    if (force || c->state == CONN_HEAD || c->state == CONN_LINGER)
        conn_break(c);
}

int conn_start(struct http_conn *c)
{
    int r = watch_add_input(c->server->evloop, &c->watch, c->fd, on_conn_event);

    if (r == 0)
        conn_set_clock(c, c->server->config.idle_ms);
    return r;
}

bool http_closing(const struct http_request *req)
{
    return req->conn->server->closing;
}

uv_loop_t *http_loop(const struct http_request *req)
{
    return req->conn->server->loop;
}
