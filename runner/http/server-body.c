#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "http/route.h"
#include "http/server-internal.h"

/* Reads request bodies. llhttp stops after each message (on_message_complete pauses it), so it
 * never sees a byte of the next one. Within a streamed body it stops where the handler pauses,
 * so that nothing more is delivered. */

static int on_message_complete(llhttp_t *parser)
{
    ((struct http_conn *)parser->data)->message_done = true;
    return HPE_PAUSED;
}

static int body_deliver(struct http_request *req, const char *at, size_t len)
{
    if (req->on_body != NULL && !req->ended)
        req->on_body(req, at, len);
    return req->body_paused || req->ended ? HPE_PAUSED : 0;
}

static int on_body_span(llhttp_t *parser, const char *at, size_t len)
{
    struct http_conn *c = parser->data;
    struct http_request *req = c->req;

    if (len == 0) /* llhttp reports its resumption */
        return 0;
    c->framing += (size_t)(at - c->mark);
    if (c->framing > c->server->config.max_head)
        return HPE_USER;
    c->framing = 0;
    c->mark = at + len;
    c->body_seen += len;
    if (req == NULL || req->ended) { /* no handler reads it */
        c->discarded += len;
        return 0;
    }
    if (req->dispatched)
        return body_deliver(req, at, len);
    c->body_error = buf_append(&req->body, at, len);
    return c->body_error < 0 ? HPE_USER : 0;
}

const llhttp_settings_t http_parser_settings = {
    .on_header_value_complete = request_on_value_complete,
    .on_headers_complete = request_on_headers,
    .on_body = on_body_span,
    .on_message_complete = on_message_complete,
};

int body_refusal(const struct http_request *req, struct err *err)
{
    if (req->body.max == 0)
        return err_set(err, -EINVAL, "takes no body");
    return err_set(err, -E2BIG, "limit %s: a body of more than %zu bytes",
                   (req->route->flags & ROUTE_LARGE) != 0 ? "maxExecBodyBytes" : "maxBodyBytes",
                   req->body.max);
}

static int body_explain_error(struct http_conn *c, enum llhttp_errno e, struct err *err)
{
    const struct http_request *req = c->req;

    if (c->framing > c->server->config.max_head)
        return err_set(err, -EBADMSG, "malformed body: more than %zu bytes between its parts",
                       c->server->config.max_head);
    if (e != HPE_USER || req == NULL)
        return err_set(err, -EBADMSG, "malformed body: %s", llhttp_get_error_reason(&c->parser));
    if (c->body_seen > req->body.max)
        return body_refusal(req, err);
    if (c->body_error == -EAGAIN)
        return err_set(err, -EAGAIN, "limit maxBufferedBytes: no room for this body now");
    return err_errno(err, -ENOMEM, "a body");
}

int body_feed(struct http_conn *c, struct err *err)
{
    const char *data = c->in.data + c->in.pos;
    size_t len = bytes_left(&c->in), used = len;
    enum llhttp_errno e;

    if (len == 0)
        data = "";

    if (llhttp_get_errno(&c->parser) == HPE_PAUSED)
        llhttp_resume(&c->parser);
    /* Called without new bytes, too: after a pause behind the last piece the end of the body is
     * still to be reported. */
    c->mark = data;
    e = llhttp_execute(&c->parser, data, len);
    if (e == HPE_PAUSED && len > 0)
        used = (size_t)(llhttp_get_error_pos(&c->parser) - data);
    else if (e != HPE_OK && e != HPE_PAUSED)
        return body_explain_error(c, e, err);
    c->framing += (size_t)(data + used - c->mark);
    bytes_use(&c->in, used);
    return c->framing > c->server->config.max_head ? body_explain_error(c, HPE_OK, err) : 0;
}

/* ---- for handlers ---- */

void http_body_start(struct http_request *req, http_body_fn *on_body)
{
    assert(!req->ended && !req->upgraded && req->on_body == NULL);
    req->on_body = on_body;
    if (!req->body_done)
        reply_continue(req->conn);
    conn_kick(req->conn);
}

void http_body_pause(struct http_request *req)
{
    req->body_paused = true;
    if (req->conn->busy == 0)
        conn_watch(req->conn);
}

void http_body_resume(struct http_request *req)
{
    req->body_paused = false;
    conn_kick(req->conn);
}

static int request_write_head(const struct http_request *req, const char *target, struct buf *b)
{
    int r;

    r = buf_printf(b, "%s %s%s%s HTTP/1.%c\r\n", req->method, target, req->query != NULL ? "?" : "",
                   req->query != NULL ? req->query : "", req->http10 ? '0' : '1');
    for (size_t i = 0; r == 0 && i < req->header_count; i++) {
        r = buf_append_str(b, req->headers[i].name);
        if (r == 0)
            r = buf_append_str(b, ": ");
        if (r == 0)
            r = buf_append_str(b, req->headers[i].value);
        if (r == 0)
            r = buf_append(b, "\r\n", 2);
    }
    return r < 0 ? r : buf_append(b, "\r\n", 2);
}

int http_detach(struct http_request *req, const char *target, struct buf *early)
{
    struct http_conn *c = req->conn;
    int r;

    assert(c->busy > 0 && !req->started && !req->ended && req->on_body == NULL);
    r = request_write_head(req, target, early);
    if (r == 0)
        r = buf_append(early, c->in.data + c->in.pos, bytes_left(&c->in));
    return r < 0 ? r : conn_detach(c);
}
