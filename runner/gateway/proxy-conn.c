/* Owns one client connection of the proxy. conn_step alone advances it; events only note what
 * may be possible now. Each phase's step does one thing and returns whether more can be done.
 *
 * Runs in the supervisor's loop thread; called by proxy.c and the poller. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/list.h"
#include "gateway/proxy-internal.h"
#include "gateway/relay.h"
#include "http/error.h"

/* ---- the proxy's own replies ---- */

static void conn_drop_server(struct proxy_conn *c, bool reset)
{
    if (c->connecting != NULL)
        c->proxy->ops->cancel(take(c->connecting));
    endpoint_close(&c->server, reset);
    buf_done(&c->head);
}

/* Sends a JSON body. Nothing of the server's reply has been sent yet. */
static void conn_answer(struct proxy_conn *c, int status, const char *body)
{
    struct buf *out = &c->client.out;
    bool head = c->req.method != NULL && strcmp(c->req.method, "HEAD") == 0;
    int r;

    conn_drop_server(c, true);
    /* An unread rest of the request would be taken for the next one, so the connection closes. */
    c->keep = c->req.keep_alive && !c->request.in_body && !c->once && !c->req.http10;
    r = buf_printf(out,
                   "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                   "Cache-Control: no-store\r\n%s\r\n%s",
                   status, error_reason(status), strlen(body),
                   c->keep ? "" : "Connection: close\r\n", head ? "" : body);
    message_done(&c->req);
    c->phase = r < 0 ? PHASE_OVER : PHASE_FLUSH;
}

static void append_quoted(struct buf *b, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            (void)buf_append(b, "\\", 1);
        (void)buf_append(b, (unsigned char)*text < ' ' ? " " : text, 1);
    }
}

/* Sends an error in the API's format. */
static void conn_refuse(struct proxy_conn *c, int status, int code, const char *message)
{
    const char *name = strerrorname_np(-code);
    auto_buf struct buf body = BUF_INIT(4096);

    (void)buf_printf(&body, "{\"error\":{\"code\":\"%s\",\"message\":\"",
                     name != NULL ? name : "EIO");
    append_quoted(&body, message);
    (void)buf_append_str(&body, "\"}}");
    conn_answer(c, status, body.data != NULL ? body.data : "{}");
}

static void conn_refuse_logged(struct proxy_conn *c, const char *key, int status, int code,
                               const char *message)
{
    if (c->proxy->ops->refused != NULL)
        c->proxy->ops->refused(c->proxy->data, key, c->peer, status, message);
    conn_refuse(c, status, code, message);
}

/* The reply cannot be completed: reset the client. */
static void conn_abort_reply(struct proxy_conn *c)
{
    c->reset = true;
    c->phase = PHASE_OVER;
}

static void conn_fail(struct proxy_conn *c, int status, int code, const char *message)
{
    if (c->replying)
        conn_abort_reply(c);
    else
        conn_refuse(c, status, code, message);
}

/* ---- HEAD ---- */

static void conn_connect_server(struct proxy_conn *c, bool fresh);

/* A pooled connection may be closed by the server at this moment, so it carries only requests
 * that are safe to repeat. */
static bool message_may_reuse(const struct message *m)
{
    static const char *const safe[] = {"GET", "HEAD", "OPTIONS"};

    if (m->framing != FRAMING_NONE || m->upgrade != NULL)
        return false;
    for (size_t i = 0; i < sizeof(safe) / sizeof(safe[0]); i++)
        if (strcmp(m->method, safe[i]) == 0)
            return true;
    return false;
}

static void conn_begin_exchange(struct proxy_conn *c)
{
    const struct forward forward = {.peer = c->peer,
                                    .proto = c->client.ssl != NULL ? "https" : "http",
                                    .trusted = c->trusted,
                                    .outbound = c->proxy->config.outbound};
    auto_buf struct buf body = BUF_INIT(4096);
    int status = 0;

    c->keep = c->replying = c->deaf = false;
    c->interim = 0;
    if (!c->once)
        status = c->proxy->ops->route(c->proxy->data, c, &c->req, c->key, &body);
    if (status != 0) {
        conn_answer(c, status, body.data != NULL ? body.data : "{}");
        return;
    }
    if (message_forward_request(&c->req, &forward, c->req.upgrade != NULL, &c->head) < 0) {
        conn_refuse(c, 503, -ENOMEM, "out of memory");
        return;
    }
    conn_connect_server(c, !message_may_reuse(&c->req));
}

static void endpoint_skip_blank_lines(struct endpoint *e, const struct reader *r)
{
    size_t n = 0;

    while (r->scan.pos == 0 && e->in.len - n >= 2 && memcmp(e->in.data + n, "\r\n", 2) == 0)
        n += 2;
    if (n > 0)
        endpoint_used(e, n);
}

static bool step_head(struct proxy_conn *c)
{
    const struct proxy_config *config = &c->proxy->config;
    const struct head_limits limits = {
        .bytes = config->head_bytes, .lines = config->headers, .url = config->url_bytes};
    struct endpoint *client = &c->client;
    struct err err = ERR_NONE;
    int status = 400;
    long n = 0;

    endpoint_skip_blank_lines(client, &c->request);
    if (client->in.len > 0)
        n = reader_head(&c->request, client->in.data, client->in.len, &limits, &c->req, &status,
                        &err);
    if (n < 0) {
        c->request.in_body = true; /* the end of the request is unknown */
        conn_refuse_logged(c, "", status, (int)n, err.msg);
    } else if (n > 0) {
        endpoint_used(client, (size_t)n);
        conn_begin_exchange(c);
    } else if (client->eof || client->failed) {
        c->phase = PHASE_OVER;
    } else {
        return endpoint_read(client, config->head_bytes + ENDPOINT_READ);
    }
    return true;
}

/* ---- CONNECT ---- */

/* Advances c as far as possible. May free c. */
static void conn_step(struct proxy_conn *c);

static void on_server_event(struct fd_watch *w, unsigned events)
{
    struct endpoint *e = (struct endpoint *)(void *)w;

    endpoint_event(e, events);
    conn_step(e->owner);
}

static int conn_use_server(struct proxy_conn *c, int fd)
{
    int r;

    r = endpoint_open(&c->server, c->proxy->evloop, fd, NULL, on_server_event, c);
    if (r < 0)
        return r;
    relay_tune(fd);
    r = buf_append(&c->server.out, c->head.data, c->head.len);
    reader_done(&c->reply);
    reader_init(&c->reply, true, on_reply_data, c);
    c->reply.head_of_get = strcmp(c->req.method, "HEAD") == 0;
    c->phase = PHASE_EXCHANGE;
    return r;
}

static int connect_status(int code)
{
    switch (code) {
    case -ETIMEDOUT:
        return 504;
    case -EBUSY:
    case -EAGAIN:
    case -ENOMEM:
    case -EMFILE:
        return 503;
    default:
        return 502;
    }
}

static int conn_enter_key(struct proxy_conn *c, struct err *err)
{
    const struct proxy_ops *ops = c->proxy->ops;
    int r = c->entered || ops->enter == NULL ? 0 : ops->enter(c->proxy->data, c->key, err);

    c->entered = r == 0 && ops->enter != NULL;
    return r;
}

static void conn_leave_key(struct proxy_conn *c)
{
    if (c->entered)
        c->proxy->ops->leave(c->proxy->data, c->key);
    c->entered = false;
}

static void conn_connect_server(struct proxy_conn *c, bool fresh)
{
    struct err err = ERR_NONE;
    int fd = FD_NONE, r = conn_enter_key(c, &err);

    c->phase = PHASE_CONNECT;
    if (r < 0) {
        conn_refuse(c, connect_status(r), r, err.msg);
        return;
    }
    if (!fresh)
        fd = pool_get(c->proxy, c->key);
    c->reused = fd >= 0;
    if (!c->reused)
        r = c->proxy->ops->connect(c->proxy->data, c->key, c, &c->connecting, &fd, &err);
    if (r == 0 && fd >= 0) {
        r = conn_use_server(c, fd);
        if (r < 0 && c->server.fd < 0)
            (void)close(fd);
        if (r < 0)
            (void)err_errno(&err, r, "a server's connection");
    }
    if (r < 0)
        conn_refuse(c, connect_status(r), r, err.msg);
}

void proxy_connected(struct proxy_conn *c, int r, int fd, const struct err *err)
{
    struct err own = ERR_NONE;

    c->connecting = NULL;
    if (r == 0) {
        r = conn_use_server(c, fd);
        if (r < 0 && c->server.fd < 0)
            (void)close(fd);
        if (r < 0)
            (void)err_errno(&own, r, "a server's connection");
        err = &own;
    }
    if (r == -ECONNABORTED)
        conn_abort_reply(c);
    else if (r < 0)
        conn_refuse(c, connect_status(r), r, err->msg);
    conn_step(c);
}

static bool step_connect(struct proxy_conn *c)
{
    (void)c;
    return false; /* proxy_connected advances it */
}

/* ---- EXCHANGE: the request's body ---- */

int on_request_data(void *data, const char *at, size_t len)
{
    struct proxy_conn *c = data;

    if (c->deaf)
        return 0;
    return c->req.framing == FRAMING_CHUNKED ? chunk_write(&c->server.out, at, len)
                                             : buf_append(&c->server.out, at, len);
}

static void conn_end_request(struct proxy_conn *c)
{
    if (c->req.framing == FRAMING_CHUNKED && !c->deaf &&
        chunk_end(&c->server.out, &c->request.trailers) < 0)
        c->server.failed = true;
}

static bool conn_move_request(struct proxy_conn *c)
{
    struct endpoint *client = &c->client;
    struct err err = ERR_NONE;
    long n;

    if (!c->request.in_body || endpoint_queued(&c->server) >= PROXY_QUEUE)
        return false;
    if (client->in.len == 0) {
        if (client->eof || client->failed)
            conn_abort_reply(c); /* a truncated body must not look complete */
        return c->phase == PHASE_OVER || endpoint_read(client, ENDPOINT_READ);
    }
    n = reader_body(&c->request, client->in.data, client->in.len, &err);
    if (n < 0) {
        conn_fail(c, n == -ENOMEM ? 503 : 400, (int)n, err.msg);
        return true;
    }
    endpoint_used(client, (size_t)n);
    if (c->request.done)
        conn_end_request(c);
    return true;
}

static bool conn_write_server(struct proxy_conn *c)
{
    bool any = endpoint_write(&c->server);

    if (!c->server.failed || c->deaf)
        return any;
    /* The server may have answered before it closed, so its reply is still read. */
    c->deaf = true;
    c->server.failed = false;
    c->server.readable = true;
    buf_done(&c->server.out);
    c->server.out_at = 0;
    return true;
}

/* ---- EXCHANGE: the reply ---- */

int on_reply_data(void *data, const char *at, size_t len)
{
    struct proxy_conn *c = data;

    return c->out_framing == FRAMING_CHUNKED ? chunk_write(&c->client.out, at, len)
                                             : buf_append(&c->client.out, at, len);
}

static void conn_end_reply(struct proxy_conn *c)
{
    if (c->out_framing == FRAMING_CHUNKED && chunk_end(&c->client.out, &c->reply.trailers) < 0)
        c->client.failed = true;
}

/* True for clients of the gateway's listener, by which preview URLs are served. */
static bool conn_is_preview(const struct proxy_conn *c)
{
    return c->proxy->config.previews && !c->proxy->config.outbound && !c->once;
}

static void conn_begin_tunnel(struct proxy_conn *c)
{
    c->phase = PHASE_TUNNEL;
    c->replying = true;
}

static int conn_pass_interim(struct proxy_conn *c, struct message *m)
{
    if (m->status == 101) {
        if (c->req.upgrade == NULL || m->upgrade == NULL)
            return -EBADMSG;
        conn_begin_tunnel(c);
        return message_forward_reply(m, FRAMING_NONE, false, conn_is_preview(c), &c->client.out);
    }
    if (++c->interim > PROXY_INTERIM)
        return -EBADMSG;
    return c->req.http10
               ? 0
               : message_forward_reply(m, FRAMING_NONE, false, conn_is_preview(c), &c->client.out);
}

static int conn_pass_final(struct proxy_conn *c, struct message *m)
{
    c->out_framing = m->framing;
    if (m->framing == FRAMING_CLOSE || m->framing == FRAMING_CHUNKED)
        c->out_framing = c->req.http10 ? FRAMING_CLOSE : FRAMING_CHUNKED;
    c->keep = c->req.keep_alive && !c->once && !c->req.http10 && !c->request.in_body;
    c->replying = true;
    c->server_keep = m->keep_alive;
    buf_done(&c->head);
    return message_forward_reply(m, c->out_framing, !c->keep, conn_is_preview(c), &c->client.out);
}

static bool conn_begin_reply(struct proxy_conn *c)
{
    const struct head_limits limits = {.bytes = c->proxy->config.head_bytes,
                                       .lines = c->proxy->config.headers,
                                       .url = c->proxy->config.url_bytes};
    struct message m = {.text = NULL};
    struct err err = ERR_NONE;
    int status;
    long n;

    n = reader_head(&c->reply, c->server.in.data, c->server.in.len, &limits, &m, &status, &err);
    if (n == 0)
        return false;
    if (n > 0) {
        endpoint_used(&c->server, (size_t)n);
        n = m.status < 200 ? conn_pass_interim(c, &m) : conn_pass_final(c, &m);
        if (n < 0)
            (void)err_errno(&err, (int)n, "the reply");
    }
    message_done(&m);
    if (n < 0) {
        c->replying = c->replying || c->phase == PHASE_TUNNEL;
        c->phase = PHASE_EXCHANGE;
        if (!c->replying)
            conn_refuse_logged(c, c->key, 502, (int)n, err.msg);
        else
            conn_abort_reply(c);
    } else if (c->replying && c->phase == PHASE_EXCHANGE && c->reply.done) {
        conn_end_reply(c);
    }
    return true;
}

/* The server's connection has ended. */
static bool conn_lost_server(struct proxy_conn *c)
{
    struct err err = ERR_NONE;

    if (c->replying) {
        if (c->server.failed || reader_eof(&c->reply, &err) < 0)
            conn_abort_reply(c);
        else
            conn_end_reply(c);
        return true;
    }
    if (c->reused && c->server.in.len == 0) { /* closed while idle: retry once with a new
                                               * connection */
        endpoint_close(&c->server, false);
        conn_connect_server(c, true);
        return true;
    }
    conn_refuse(c, 502, -ECONNRESET, "the server closed the connection without an answer");
    return true;
}

static bool conn_move_reply(struct proxy_conn *c)
{
    struct endpoint *server = &c->server;
    struct err err = ERR_NONE;
    long n;

    if (c->replying && c->reply.done)
        return false;
    if (endpoint_queued(&c->client) >= PROXY_QUEUE)
        return false;
    if (server->in.len > 0 && !c->replying && conn_begin_reply(c))
        return true;
    if (server->in.len > 0 && c->replying) {
        n = reader_body(&c->reply, server->in.data, server->in.len, &err);
        if (n < 0) {
            conn_abort_reply(c);
            return true;
        }
        endpoint_used(server, (size_t)n);
        if (c->reply.done)
            conn_end_reply(c);
        return true;
    }
    if (server->eof || server->failed)
        return conn_lost_server(c);
    return endpoint_read(server,
                         c->replying ? ENDPOINT_READ : c->proxy->config.head_bytes + ENDPOINT_READ);
}

/* ---- EXCHANGE: the end ---- */

static void conn_next_request(struct proxy_conn *c)
{
    conn_leave_key(c);
    message_done(&c->req);
    reader_done(&c->request);
    reader_init(&c->request, false, on_request_data, c);
    c->replying = false;
    c->phase = PHASE_HEAD;
}

static void conn_end_exchange(struct proxy_conn *c)
{
    bool whole = !c->request.in_body;
    bool clean = whole && c->server_keep && !c->deaf && c->server.in.len == 0 && !c->server.eof &&
                 !c->server.failed && !c->server.hung && endpoint_queued(&c->server) == 0;

    if (clean)
        pool_put(c->proxy, c->key, endpoint_take_fd(&c->server));
    else
        conn_drop_server(c, !whole);
    if (c->keep && whole)
        conn_next_request(c);
    else
        c->phase = PHASE_FLUSH; /* then the connection ends */
    if (c->phase == PHASE_FLUSH)
        c->keep = false;
}

static bool step_exchange(struct proxy_conn *c)
{
    bool any = conn_move_request(c);

    if (c->phase == PHASE_EXCHANGE)
        any = conn_write_server(c) || any;
    if (c->phase == PHASE_EXCHANGE)
        any = conn_move_reply(c) || any;
    if (c->phase != PHASE_EXCHANGE)
        return true;
    any = endpoint_write(&c->client) || any;
    if (c->replying && c->reply.done && endpoint_queued(&c->client) == 0 && !c->client.failed) {
        conn_end_exchange(c);
        return true;
    }
    return any;
}

/* ---- TUNNEL ---- */

/* With nothing buffered the kernel does the rest: a relay takes both sockets. */
static bool conn_hand_over(struct proxy_conn *c)
{
    const struct endpoint *a = &c->client, *b = &c->server;
    struct relay *relay;
    int fds[2];

    if (a->ssl != NULL || a->in.len > 0 || b->in.len > 0 || endpoint_queued(a) > 0 ||
        endpoint_queued(b) > 0 || a->eof || b->eof)
        return false;
    fds[0] = endpoint_take_fd(&c->client);
    fds[1] = endpoint_take_fd(&c->server);
    c->phase = PHASE_OVER;
    if (c->proxy->ops->upgraded != NULL) {
        c->proxy->ops->upgraded(c->proxy->data, c->context, fds[0], fds[1]);
        return true;
    }
    if (relay_start(c->proxy->hub, fds[0], fds[1], relay_group(c->key), NULL, NULL, &relay, NULL) <
        0) {
        (void)close(fds[0]);
        (void)close(fds[1]);
    } else if (c->entered) {
        c->entered = false; /* relay_counted: the relay calls `left` */
        relay_counted(relay);
    }
    return true;
}

static bool step_tunnel(struct proxy_conn *c)
{
    bool any;

    if (conn_hand_over(c))
        return true;
    any = endpoint_pump(&c->client, &c->server, PROXY_QUEUE);
    any = endpoint_pump(&c->server, &c->client, PROXY_QUEUE) || any;
    if (c->client.failed || c->server.failed)
        conn_abort_reply(c);
    else if (c->client.shut && c->server.shut)
        c->phase = PHASE_OVER;
    return any || c->phase == PHASE_OVER;
}

/* ---- FLUSH, LINGER ---- */

static bool step_flush(struct proxy_conn *c)
{
    bool any = endpoint_write(&c->client);

    if (c->client.failed) {
        c->phase = PHASE_OVER;
        return true;
    }
    if (endpoint_queued(&c->client) > 0)
        return any;
    if (c->keep) {
        conn_next_request(c);
        return true;
    }
    endpoint_shut(&c->client);
    c->phase = PHASE_LINGER;
    c->discarded = 0;
    return true;
}

static bool step_linger(struct proxy_conn *c)
{
    bool any = endpoint_read(&c->client, ENDPOINT_READ);

    c->discarded += c->client.in.len;
    endpoint_used(&c->client, c->client.in.len);
    if (c->client.eof || c->client.failed || c->discarded > PROXY_LINGER_MAX)
        c->phase = PHASE_OVER;
    return any || c->phase == PHASE_OVER;
}

/* ---- time ---- */

static void on_conn_timeout(struct deadline *d)
{
    struct proxy_conn *c =
        (struct proxy_conn *)(void *)((char *)d - offsetof(struct proxy_conn, clock));

    c->clock_ms = 0;
    if (c->phase == PHASE_HEAD && c->client.in.len > 0) {
        c->request.in_body = true;
        conn_refuse(c, 408, -ETIMEDOUT, "the head of the request did not come in time");
    } else if (c->phase == PHASE_CONNECT || (c->phase == PHASE_EXCHANGE && !c->replying)) {
        conn_refuse(c, 504, -ETIMEDOUT, "the server did not answer in time");
    } else {
        c->reset = c->phase == PHASE_EXCHANGE || c->phase == PHASE_TUNNEL;
        c->phase = PHASE_OVER;
    }
    conn_step(c);
}

/* HEAD's time-out runs from the first byte, the others from the last byte moved. */
static void conn_set_clock(struct proxy_conn *c, bool moved)
{
    const struct proxy_config *config = &c->proxy->config;
    const unsigned phases[PHASES] = {
        [PHASE_HEAD] = c->client.in.len > 0 ? config->head_ms : config->idle_ms,
        [PHASE_CONNECT] = config->reply_ms,
        [PHASE_EXCHANGE] = c->replying || c->request.in_body ? config->stream_ms : config->reply_ms,
        [PHASE_TUNNEL] = config->stream_ms,
        [PHASE_FLUSH] = PROXY_FLUSH_MS,
        [PHASE_LINGER] = PROXY_LINGER_MS,
    };
    unsigned ms = phases[c->phase];
    bool once = c->phase == PHASE_HEAD || c->phase == PHASE_LINGER;

    if (ms == c->clock_ms && (once || !moved))
        return;
    c->clock_ms = ms;
    deadline_set(c->proxy->evloop, &c->clock, ms, on_conn_timeout);
}

/* ---- running ---- */

static void conn_step(struct proxy_conn *c)
{
    static bool (*const steps[PHASES])(struct proxy_conn *) = {
        [PHASE_HEAD] = step_head,         [PHASE_CONNECT] = step_connect,
        [PHASE_EXCHANGE] = step_exchange, [PHASE_TUNNEL] = step_tunnel,
        [PHASE_FLUSH] = step_flush,       [PHASE_LINGER] = step_linger,
    };
    bool moved = false;
    int rounds = 0;

    /* The client is gone: no answer is possible. */
    if ((c->client.hung && !c->client.shut && c->phase != PHASE_TUNNEL) || c->client.failed)
        c->phase = PHASE_OVER;
    while (c->phase != PHASE_OVER && rounds < PROXY_ROUNDS && steps[c->phase](c)) {
        moved = true;
        rounds++;
        if (c->client.failed)
            c->phase = PHASE_OVER;
    }
    if (c->phase == PHASE_OVER) {
        conn_destroy(c);
        return;
    }
    if (rounds == PROXY_ROUNDS)
        watch_again(&c->client.watch);
    conn_set_clock(c, moved);
}

void on_client_event(struct fd_watch *w, unsigned events)
{
    struct endpoint *e = (struct endpoint *)(void *)w;

    endpoint_event(e, events);
    conn_step(e->owner);
}

/* Starts from the loop, so that the caller of proxy_adopt is not called back from within. */
void conn_begin(struct proxy_conn *c)
{
    conn_set_clock(c, true);
    watch_again(&c->client.watch);
}

void conn_destroy(struct proxy_conn *c)
{
    struct proxy *p = c->proxy;
    const uint64_t bytes[2] = {c->client.received, c->client.sent};

    conn_drop_server(c, true);
    conn_leave_key(c);
    endpoint_close(&c->client, c->reset);
    if (p->ops->closed != NULL)
        p->ops->closed(p->data, c->context, bytes);
    deadline_clear(&c->clock);
    message_done(&c->req);
    reader_done(&c->request);
    reader_done(&c->reply);
    list_remove(c);
    p->count--;
    free(c);
}
