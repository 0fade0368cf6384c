#include <assert.h>
#include <errno.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>

#include "base/log.h"
#include "base/socket.h"
#include "http/error.h"
#include "http/route.h"
#include "http/server-internal.h"

static const char *date_now(struct http_server *s)
{
    time_t now = time(NULL);
    struct tm tm;

    if (now != s->date_at && gmtime_r(&now, &tm) != NULL) {
        s->date_at = now;
        (void)strftime(s->date, sizeof(s->date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
    }
    return s->date;
}

static bool status_has_no_body(int status)
{
    return status < 200 || status == 204 || status == 304;
}

/* Refuses control bytes: a CR or LF in a value could inject headers or a body. */
static bool header_is_clean(const char *s)
{
    for (; *s != '\0'; s++)
        if (((unsigned char)*s < 0x20 && *s != '\t') || *s == 0x7f)
            return false;
    return true;
}

static int head_add_header(struct buf *b, const char *name, const char *value)
{
    int r;

    if (!header_is_clean(name) || !header_is_clean(value))
        return -EBADMSG;
    r = buf_append_str(b, name);
    if (r == 0)
        r = buf_append(b, ": ", 2);
    if (r == 0)
        r = buf_append_str(b, value);
    return r < 0 ? r : buf_append(b, "\r\n", 2);
}

static int head_add_headers(struct http_request *req, struct buf *b,
                            const struct http_header *headers)
{
    int r = 0;

    for (; headers != NULL && headers->name != NULL && r == 0; headers++) {
        if (strcasecmp(headers->name, "content-length") == 0)
            req->reply_left = strtoll(headers->value, NULL, 10);
        r = head_add_header(b, headers->name, headers->value);
    }
    return r;
}

static int head_add_first_line(struct http_request *req, struct buf *b, int status)
{
    char line[160];
    int n;

    n = snprintf(line, sizeof(line),
                 "HTTP/1.1 %d %s\r\nDate: %s\r\nServer: rind/" RIND_VERSION "\r\n", status,
                 error_reason(status), date_now(req->conn->server));
    return buf_append(b, line, (size_t)n);
}

/* Writes the header that delimits the body. len: of the complete body, or -1. */
static int head_add_framing(struct http_request *req, struct buf *b, int status, int64_t len)
{
    char line[64];
    int n;

    if (status_has_no_body(status))
        return 0;
    if (len >= 0) {
        n = snprintf(line, sizeof(line), "Content-Length: %lld\r\n", (long long)len);
        return buf_append(b, line, (size_t)n);
    }
    if (req->reply_left >= 0)
        return 0;
    if (req->http10) {
        req->keep_alive = false;
        return 0;
    }
    req->chunked = true;
    return buf_append_str(b, "Transfer-Encoding: chunked\r\n");
}

static int head_add_connection(struct http_request *req, struct buf *b)
{
    const struct http_conn *c = req->conn;

    /* An unread body is read and discarded so that the connection can be reused. That is not
     * done for a large one, nor for one that the client withholds until "100 Continue". */
    if (!req->body_done && (req->expect_continue || req->content_length > HTTP_DRAIN_MAX))
        req->keep_alive = false;
    if (c->server->closing)
        req->keep_alive = false;
    if (!req->keep_alive)
        return buf_append_str(b, "Connection: close\r\n");
    return req->http10 ? buf_append_str(b, "Connection: keep-alive\r\n") : 0;
}

static int reply_make_head(struct http_request *req, struct buf *b, int status,
                           const struct http_header *headers, const char *type, int64_t len)
{
    int r;

    b->len = 0;
    r = head_add_first_line(req, b, status);
    if (r == 0 && type != NULL)
        r = head_add_header(b, "Content-Type", type);
    if (r == 0)
        r = head_add_headers(req, b, headers);
    if (r == 0)
        r = head_add_framing(req, b, status, len);
    if (r == 0)
        r = head_add_connection(req, b);
    return r < 0 ? r : buf_append(b, "\r\n", 2);
}

void reply_tell(struct http_request *req, int status)
{
    bool again = req->told && req->error != req->told_error;

    if (req->told && !again)
        return;
    if (!req->told)
        req->status = status;
    req->told = true;
    req->told_error = req->error;
    if (req->route != NULL && req->set->replied != NULL)
        req->set->replied(req);
}

/* Writes the head into the server's scratch buffer. False: failed, and the connection is broken. */
static bool reply_start(struct http_request *req, int status, const struct http_header *headers,
                        const char *type, int64_t len)
{
    struct http_conn *c = req->conn;
    int r;

    assert(!req->started && !req->ended);
    req->started = true;
    req->bodiless = req->head || status_has_no_body(status);
    reply_tell(req, status);
    r = reply_make_head(req, &c->server->scratch, status, headers, type, len);
    if (r == 0)
        return true;
    log_warn("http", "%s %s: no reply: its head cannot be sent (%s)", req->method, req->path,
             error_name(r));
    conn_break(c);
    return false;
}

void http_reply(struct http_request *req, int status, const struct http_header *headers,
                const char *type, const void *body, size_t len)
{
    struct http_conn *c = req->conn;
    struct iovec iov[2];

    if (reply_start(req, status, headers, type, (int64_t)len)) {
        iov[0] =
            (struct iovec){.iov_base = c->server->scratch.data, .iov_len = c->server->scratch.len};
        iov[1] = (struct iovec){.iov_base = (char *)(uintptr_t)body, .iov_len = len};
        out_send(c, iov, req->bodiless || len == 0 ? 1 : 2);
    }
    req->chunked = false;
    req->reply_left = -1;
    http_end(req);
}

void http_start(struct http_request *req, int status, const struct http_header *headers,
                const char *type)
{
    struct http_conn *c = req->conn;
    struct iovec iov;

    req->patient = true;
    if (!reply_start(req, status, headers, type, -1))
        return;
    iov = (struct iovec){.iov_base = c->server->scratch.data, .iov_len = c->server->scratch.len};
    out_send(c, &iov, 1);
}

static void reply_send_chunk(struct http_conn *c, const void *data, size_t len)
{
    static char crlf[] = "\r\n";
    char size[24];
    int n = snprintf(size, sizeof(size), "%zx\r\n", len);
    struct iovec iov[3] = {
        {.iov_base = size, .iov_len = (size_t)n},
        {.iov_base = (char *)(uintptr_t)data, .iov_len = len},
        {.iov_base = crlf, .iov_len = 2},
    };

    out_send(c, iov, 3);
}

/* True if the handler should pause writing; on_drain follows. */
static bool reply_request_drain(struct http_request *req)
{
    const struct http_conn *c = req->conn;

    req->want_drain = c->broken || bytes_left(&c->out) > c->server->config.queue_pause;
    return req->want_drain;
}

bool http_write(struct http_request *req, const void *data, size_t len)
{
    struct http_conn *c = req->conn;
    struct iovec iov = {.iov_base = (char *)(uintptr_t)data, .iov_len = len};

    assert(req->started && !req->ended);
    if (c->broken || req->gone)
        return true;
    if (len == 0 || (req->bodiless && !req->upgraded))
        return false;
    if (req->reply_left >= 0) {
        if ((uint64_t)len > (uint64_t)req->reply_left) {
            /* The excess would be read as the next reply. */
            log_warn("http", "%s %s: a body longer than its Content-Length", req->method,
                     req->path);
            conn_break(c);
            return true;
        }
        req->reply_left -= (int64_t)len;
    }
    if (req->chunked)
        reply_send_chunk(c, data, len);
    else
        out_send(c, &iov, 1);
    return reply_request_drain(req);
}

size_t http_queued(const struct http_request *req)
{
    return bytes_left(&req->conn->out);
}

void http_end(struct http_request *req)
{
    static char last[] = "0\r\n\r\n";
    const struct iovec iov = {.iov_base = last, .iov_len = 5};
    struct http_conn *c = req->conn;

    assert(!req->ended && (req->started || req->gone));
    if (req->chunked && !req->bodiless)
        out_send(c, &iov, 1);
    if (req->reply_left > 0 && !req->bodiless)
        conn_break(c); /* the body is too short: only a broken connection tells the client */
    req->ended = true;
    conn_settle(c);
}

void http_abort(struct http_request *req)
{
    struct http_conn *c = req->conn;

    assert(!req->ended);
    /* On TCP an orderly close could look like the end of the reply. */
    if (c->fd >= 0)
        socket_reset_on_close(c->fd);
    req->ended = true;
    conn_break(c);
    conn_settle(c);
}

void reply_continue(struct http_conn *c)
{
    static char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    const struct iovec iov = {.iov_base = text, .iov_len = sizeof(text) - 1};

    if (!c->req->expect_continue)
        return;
    c->req->expect_continue = false;
    /* A client that sends already does not wait for it. */
    if (c->body_seen == 0 && bytes_left(&c->in) == 0)
        out_send(c, &iov, 1);
}

/* ---- upgrades ---- */

static int reply_make_upgrade_head(struct http_request *req, struct buf *b, const char *protocol,
                                   const struct http_header *headers)
{
    int r;

    b->len = 0;
    r = head_add_first_line(req, b, protocol == NULL ? 200 : 101);
    if (r == 0 && protocol != NULL)
        r = buf_append_str(b, "Connection: Upgrade\r\n");
    if (r == 0 && protocol != NULL)
        r = head_add_header(b, "Upgrade", protocol);
    if (r == 0)
        r = head_add_headers(req, b, headers);
    return r < 0 ? r : buf_append(b, "\r\n", 2);
}

void http_upgrade(struct http_request *req, const char *protocol, const struct http_header *headers,
                  http_body_fn *on_body)
{
    struct http_conn *c = req->conn;
    struct buf *b = &c->server->scratch;
    struct iovec iov;
    int r;

    assert(!req->started && !req->ended && (protocol == NULL || req->upgrade));
    req->started = req->upgraded = req->patient = true;
    req->keep_alive = false;
    req->on_body = on_body;
    reply_tell(req, protocol == NULL ? 200 : 101);
    r = reply_make_upgrade_head(req, b, protocol, headers);
    req->reply_left = -1;
    if (r < 0) {
        conn_break(c);
        return;
    }
    iov = (struct iovec){.iov_base = b->data, .iov_len = b->len};
    out_send(c, &iov, 1);
    conn_kick(c);
}

void http_wait_for_head(struct http_request *req)
{
    struct http_conn *c = req->conn;

    assert(req->upgraded && !req->ended);
    /* If the head is still queued, it is sent together with what follows. */
    if (!c->broken && c->fd >= 0 && bytes_left(&c->out) == 0)
        server_watch_head(c);
}

int http_give_away(struct http_request *req, const char *protocol, struct buf *unsent,
                   struct buf *unread)
{
    struct http_conn *c = req->conn;
    struct buf *head = &c->server->scratch;
    int r;

    assert(!req->started && !req->ended && req->upgrade && c->fd >= 0);
    r = reply_make_upgrade_head(req, head, protocol, NULL);
    if (r == 0)
        r = buf_append(unsent, c->out.data + c->out.pos, bytes_left(&c->out));
    if (r == 0)
        r = buf_append(unsent, head->data, head->len);
    if (r == 0)
        r = buf_append(unread, c->in.data + c->in.pos, bytes_left(&c->in));
    if (r == 0)
        reply_tell(req, 101);
    return r < 0 ? r : conn_detach(c);
}

bool http_write_pipe(struct http_request *req, int pipe, size_t len)
{
    assert(req->upgraded && !req->ended);
    if (req->conn->broken || req->gone)
        return true;
    out_send_pipe(req->conn, pipe, len);
    return reply_request_drain(req);
}

bool http_all_taken(const struct http_request *req)
{
    const struct http_conn *c = req->conn;
    int unread = 0;

    return bytes_left(&c->out) == 0 && ioctl(c->fd, SIOCOUTQ, &unread) == 0 && unread == 0;
}
