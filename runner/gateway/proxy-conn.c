/*
 * One client's connection. conn_step is the one place that moves it on; events only say what may be
 * possible again. Each phase's step does one thing and says whether there may be more to do.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/list.h"
#include "gateway/proxy-internal.h"
#include "gateway/relay.h"

static const struct {
    int status;
    const char *reason;
} reasons[] = {
    {400, "Bad Request"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {414, "URI Too Long"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {431, "Request Header Fields Too Large"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
};

/* ---- replies of our own ---- */

static void drop_server(struct proxy_conn *c, bool reset)
{
    if (c->connecting != NULL)
        c->proxy->ops->cancel(take(c->connecting));
    endpoint_close(&c->server, reset);
    buf_done(&c->head);
}

/* body: JSON. Nothing of the server's reply has gone out. */
static void answer(struct proxy_conn *c, int status, const char *body)
{
    struct buf *out = &c->client.out;
    const char *reason = "Error";
    bool head = c->req.method != NULL && strcmp(c->req.method, "HEAD") == 0;
    int r;

    drop_server(c, true);
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        if (reasons[i].status == status)
            reason = reasons[i].reason;
    /* What is left of a request that was not read to its end is in the way of the next. */
    c->keep = c->req.keep_alive && !c->request.in_body && !c->once && !c->req.http10;
    r = buf_printf(out,
                   "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                   "Cache-Control: no-store\r\n%s\r\n%s",
                   status, reason, strlen(body), c->keep ? "" : "Connection: close\r\n",
                   head ? "" : body);
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

/* An error in the API's own shape. */
static void refuse(struct proxy_conn *c, int status, int code, const char *message)
{
    const char *name = strerrorname_np(-code);
    auto_buf struct buf body = BUF_INIT(4096);

    (void)buf_printf(&body, "{\"error\":{\"code\":\"%s\",\"message\":\"",
                     name != NULL ? name : "EIO");
    append_quoted(&body, message);
    (void)buf_append_str(&body, "\"}}");
    answer(c, status, body.data != NULL ? body.data : "{}");
}

static void refuse_logged(struct proxy_conn *c, const char *key, int status, int code,
                          const char *message)
{
    if (c->proxy->ops->refused != NULL)
        c->proxy->ops->refused(c->proxy->data, key, c->peer, status, message);
    refuse(c, status, code, message);
}

/* The reply cannot be finished. */
static void abort_reply(struct proxy_conn *c)
{
    c->reset = true;
    c->phase = PHASE_OVER;
}

static void fail(struct proxy_conn *c, int status, int code, const char *message)
{
    if (c->replying)
        abort_reply(c);
    else
        refuse(c, status, code, message);
}

/* ---- HEAD ---- */

static void connect_server(struct proxy_conn *c, bool fresh);

/* Only what may be repeated without harm goes over a connection that the server could just be
 * closing. */
static bool may_reuse(const struct message *m)
{
    static const char *const safe[] = {"GET", "HEAD", "OPTIONS"};

    if (m->framing != FRAMING_NONE || m->upgrade != NULL)
        return false;
    for (size_t i = 0; i < sizeof(safe) / sizeof(safe[0]); i++)
        if (strcmp(m->method, safe[i]) == 0)
            return true;
    return false;
}

static void begin_exchange(struct proxy_conn *c)
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
        answer(c, status, body.data != NULL ? body.data : "{}");
        return;
    }
    if (message_forward_request(&c->req, &forward, c->req.upgrade != NULL, &c->head) < 0) {
        refuse(c, 503, -ENOMEM, "out of memory");
        return;
    }
    connect_server(c, !may_reuse(&c->req));
}

static void skip_blank_lines(struct endpoint *e, const struct reader *r)
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

    skip_blank_lines(client, &c->request);
    if (client->in.len > 0)
        n = reader_head(&c->request, client->in.data, client->in.len, &limits, &c->req, &status,
                        &err);
    if (n < 0) {
        c->request.in_body = true; /* nobody knows where it ends */
        refuse_logged(c, "", status, (int)n, err.msg);
    } else if (n > 0) {
        endpoint_used(client, (size_t)n);
        begin_exchange(c);
    } else if (client->eof || client->failed) {
        c->phase = PHASE_OVER;
    } else {
        return endpoint_read(client, config->head_bytes + ENDPOINT_READ);
    }
    return true;
}

/* ---- CONNECT ---- */

/* Everything that can be done now. May free c. */
static void conn_step(struct proxy_conn *c);

static void on_server_event(struct watch *w, unsigned events)
{
    struct endpoint *e = (struct endpoint *)(void *)w;

    endpoint_event(e, events);
    conn_step(e->owner);
}

static int use_server(struct proxy_conn *c, int fd)
{
    int r;

    r = endpoint_open(&c->server, c->proxy->poller, fd, NULL, on_server_event, c);
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

static int enter(struct proxy_conn *c, struct err *err)
{
    const struct proxy_ops *ops = c->proxy->ops;
    int r = c->entered || ops->enter == NULL ? 0 : ops->enter(c->proxy->data, c->key, err);

    c->entered = r == 0 && ops->enter != NULL;
    return r;
}

static void leave(struct proxy_conn *c)
{
    if (c->entered)
        c->proxy->ops->leave(c->proxy->data, c->key);
    c->entered = false;
}

static void connect_server(struct proxy_conn *c, bool fresh)
{
    struct err err = ERR_NONE;
    int fd = FD_NONE, r = enter(c, &err);

    c->phase = PHASE_CONNECT;
    if (r < 0) {
        refuse(c, connect_status(r), r, err.msg);
        return;
    }
    if (!fresh)
        fd = pool_get(c->proxy, c->key);
    c->reused = fd >= 0;
    if (!c->reused)
        r = c->proxy->ops->connect(c->proxy->data, c->key, c, &c->connecting, &fd, &err);
    if (r == 0 && fd >= 0) {
        r = use_server(c, fd);
        if (r < 0 && c->server.fd < 0)
            (void)close(fd);
        if (r < 0)
            (void)err_errno(&err, r, "a server's connection");
    }
    if (r < 0)
        refuse(c, connect_status(r), r, err.msg);
}

void proxy_connected(struct proxy_conn *c, int r, int fd, const struct err *err)
{
    struct err own = ERR_NONE;

    c->connecting = NULL;
    if (r == 0) {
        r = use_server(c, fd);
        if (r < 0 && c->server.fd < 0)
            (void)close(fd);
        if (r < 0)
            (void)err_errno(&own, r, "a server's connection");
        err = &own;
    }
    if (r == -ECONNABORTED)
        abort_reply(c);
    else if (r < 0)
        refuse(c, connect_status(r), r, err->msg);
    conn_step(c);
}

static bool step_connect(struct proxy_conn *c)
{
    (void)c;
    return false; /* proxy_connected */
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

static void end_request(struct proxy_conn *c)
{
    if (c->req.framing == FRAMING_CHUNKED && !c->deaf &&
        chunk_end(&c->server.out, &c->request.trailers) < 0)
        c->server.failed = true;
}

static bool move_request(struct proxy_conn *c)
{
    struct endpoint *client = &c->client;
    struct err err = ERR_NONE;
    long n;

    if (!c->request.in_body || endpoint_queued(&c->server) >= PROXY_QUEUE)
        return false;
    if (client->in.len == 0) {
        if (client->eof || client->failed)
            abort_reply(c); /* a part must not be taken for the whole */
        return c->phase == PHASE_OVER || endpoint_read(client, ENDPOINT_READ);
    }
    n = reader_body(&c->request, client->in.data, client->in.len, &err);
    if (n < 0) {
        fail(c, n == -ENOMEM ? 503 : 400, (int)n, err.msg);
        return true;
    }
    endpoint_used(client, (size_t)n);
    if (c->request.done)
        end_request(c);
    return true;
}

static bool write_server(struct proxy_conn *c)
{
    bool any = endpoint_write(&c->server);

    if (!c->server.failed || c->deaf)
        return any;
    /* It may have answered before it closed: that is to be read. */
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

static void end_reply(struct proxy_conn *c)
{
    if (c->out_framing == FRAMING_CHUNKED && chunk_end(&c->client.out, &c->reply.trailers) < 0)
        c->client.failed = true;
}

static void begin_tunnel(struct proxy_conn *c)
{
    c->phase = PHASE_TUNNEL;
    c->replying = true;
}

static int pass_interim(struct proxy_conn *c, struct message *m)
{
    if (m->status == 101) {
        if (c->req.upgrade == NULL || m->upgrade == NULL)
            return -EBADMSG;
        begin_tunnel(c);
        return message_forward_reply(m, FRAMING_NONE, false, &c->client.out);
    }
    if (++c->interim > PROXY_INTERIM)
        return -EBADMSG;
    return c->req.http10 ? 0 : message_forward_reply(m, FRAMING_NONE, false, &c->client.out);
}

static int pass_final(struct proxy_conn *c, struct message *m)
{
    c->out_framing = m->framing;
    if (m->framing == FRAMING_CLOSE || m->framing == FRAMING_CHUNKED)
        c->out_framing = c->req.http10 ? FRAMING_CLOSE : FRAMING_CHUNKED;
    c->keep = c->req.keep_alive && !c->once && !c->req.http10 && !c->request.in_body;
    c->replying = true;
    c->server_keep = m->keep_alive;
    buf_done(&c->head);
    return message_forward_reply(m, c->out_framing, !c->keep, &c->client.out);
}

static bool begin_reply(struct proxy_conn *c)
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
        n = m.status < 200 ? pass_interim(c, &m) : pass_final(c, &m);
        if (n < 0)
            (void)err_errno(&err, (int)n, "the reply");
    }
    message_done(&m);
    if (n < 0) {
        c->replying = c->replying || c->phase == PHASE_TUNNEL;
        c->phase = PHASE_EXCHANGE;
        if (!c->replying)
            refuse_logged(c, c->key, 502, (int)n, err.msg);
        else
            abort_reply(c);
    } else if (c->replying && c->phase == PHASE_EXCHANGE && c->reply.done) {
        end_reply(c);
    }
    return true;
}

/* The server is gone. */
static bool lost_server(struct proxy_conn *c)
{
    struct err err = ERR_NONE;

    if (c->replying) {
        if (c->server.failed || reader_eof(&c->reply, &err) < 0)
            abort_reply(c);
        else
            end_reply(c);
        return true;
    }
    if (c->reused && c->server.in.len == 0) { /* closed by its server just then: once more */
        endpoint_close(&c->server, false);
        connect_server(c, true);
        return true;
    }
    refuse(c, 502, -ECONNRESET, "the server closed the connection without an answer");
    return true;
}

static bool move_reply(struct proxy_conn *c)
{
    struct endpoint *server = &c->server;
    struct err err = ERR_NONE;
    long n;

    if (c->replying && c->reply.done)
        return false;
    if (endpoint_queued(&c->client) >= PROXY_QUEUE)
        return false;
    if (server->in.len > 0 && !c->replying && begin_reply(c))
        return true;
    if (server->in.len > 0 && c->replying) {
        n = reader_body(&c->reply, server->in.data, server->in.len, &err);
        if (n < 0) {
            abort_reply(c);
            return true;
        }
        endpoint_used(server, (size_t)n);
        if (c->reply.done)
            end_reply(c);
        return true;
    }
    if (server->eof || server->failed)
        return lost_server(c);
    return endpoint_read(server,
                         c->replying ? ENDPOINT_READ : c->proxy->config.head_bytes + ENDPOINT_READ);
}

/* ---- EXCHANGE: the end ---- */

static void next_request(struct proxy_conn *c)
{
    leave(c);
    message_done(&c->req);
    reader_done(&c->request);
    reader_init(&c->request, false, on_request_data, c);
    c->replying = false;
    c->phase = PHASE_HEAD;
}

static void end_exchange(struct proxy_conn *c)
{
    bool whole = !c->request.in_body;
    bool clean = whole && c->server_keep && !c->deaf && c->server.in.len == 0 && !c->server.eof &&
                 !c->server.failed && !c->server.hung && endpoint_queued(&c->server) == 0;

    if (clean)
        pool_put(c->proxy, c->key, endpoint_take_fd(&c->server));
    else
        drop_server(c, !whole);
    if (c->keep && whole)
        next_request(c);
    else
        c->phase = PHASE_FLUSH; /* and from there to its end */
    if (c->phase == PHASE_FLUSH)
        c->keep = false;
}

static bool step_exchange(struct proxy_conn *c)
{
    bool any = move_request(c);

    if (c->phase == PHASE_EXCHANGE)
        any = write_server(c) || any;
    if (c->phase == PHASE_EXCHANGE)
        any = move_reply(c) || any;
    if (c->phase != PHASE_EXCHANGE)
        return true;
    any = endpoint_write(&c->client) || any;
    if (c->replying && c->reply.done && endpoint_queued(&c->client) == 0 && !c->client.failed) {
        end_exchange(c);
        return true;
    }
    return any;
}

/* ---- TUNNEL ---- */

/* Nothing is under way here any more: the kernel does the rest. */
static bool hand_over(struct proxy_conn *c)
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
        c->entered = false; /* the relay's now */
        relay_counted(relay);
    }
    return true;
}

static bool step_tunnel(struct proxy_conn *c)
{
    bool any;

    if (hand_over(c))
        return true;
    any = endpoint_pump(&c->client, &c->server, PROXY_QUEUE);
    any = endpoint_pump(&c->server, &c->client, PROXY_QUEUE) || any;
    if (c->client.failed || c->server.failed)
        abort_reply(c);
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
        next_request(c);
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

static void on_due(struct deadline *d)
{
    struct proxy_conn *c =
        (struct proxy_conn *)(void *)((char *)d - offsetof(struct proxy_conn, clock));

    c->clock_ms = 0;
    if (c->phase == PHASE_HEAD && c->client.in.len > 0) {
        c->request.in_body = true;
        refuse(c, 408, -ETIMEDOUT, "the head of the request did not come in time");
    } else if (c->phase == PHASE_CONNECT || (c->phase == PHASE_EXCHANGE && !c->replying)) {
        refuse(c, 504, -ETIMEDOUT, "the server did not answer in time");
    } else {
        c->reset = c->phase == PHASE_EXCHANGE || c->phase == PHASE_TUNNEL;
        c->phase = PHASE_OVER;
    }
    conn_step(c);
}

/* A head's clock runs from its first byte, the others from the last thing that moved. */
static void set_clock(struct proxy_conn *c, bool moved)
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
    deadline_set(c->proxy->poller, &c->clock, ms, on_due);
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

    /* Nobody is there to be answered. */
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
    set_clock(c, moved);
}

void on_client_event(struct watch *w, unsigned events)
{
    struct endpoint *e = (struct endpoint *)(void *)w;

    endpoint_event(e, events);
    conn_step(e->owner);
}

/* From the loop: whoever adopts it is not called back from within. */
void conn_begin(struct proxy_conn *c)
{
    set_clock(c, true);
    watch_again(&c->client.watch);
}

void conn_destroy(struct proxy_conn *c)
{
    struct proxy *p = c->proxy;
    const uint64_t bytes[2] = {c->client.received, c->client.sent};

    drop_server(c, true);
    leave(c);
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
