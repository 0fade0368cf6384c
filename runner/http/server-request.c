#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "http/error.h"
#include "http/reply.h"
#include "http/route.h"
#include "http/server-internal.h"

/* Parses heads into requests. A request is one allocation: the struct, its headers, a copy of
 * the head (its spans become NUL-terminated strings as the parser passes them), and as much
 * again for the decoded path. If it has more than BUDGET_FREE bytes it counts against the
 * connection's budget. */

/* State of the parser's callbacks. A span may arrive in pieces; they are adjacent, as the head
 * is complete. */
struct head_parse {
    struct http_request *req;
    struct http_header *headers;
    size_t count, max;
    char *text; /* the copy of the head */
    char *url, *name, *value;
    size_t url_len, name_len, value_len;
};

/* -EAGAIN: the budget is exhausted; -ENOMEM. */
static int request_alloc(struct http_conn *c, size_t extra, struct http_request **ret)
{
    struct http_request *req;
    size_t size = sizeof(*req) + extra;
    int r = budget_resize(c->out.budget, 0, size);

    if (r < 0)
        return r;
    req = calloc(1, size);
    if (req == NULL) {
        (void)budget_resize(c->out.budget, size, 0);
        return -ENOMEM;
    }
    req->size = size;
    req->conn = c;
    req->method = req->path = "";
    req->content_length = -1;
    req->reply_left = -1;
    req->body.max = c->server->config.max_body;
    req->body.budget = c->out.budget;
    *ret = req;
    return 0;
}

void request_free(struct http_request *req)
{
    if (req == NULL)
        return;
    (void)budget_resize(req->conn->out.budget, req->size, 0);
    buf_done(&req->body);
    free(req);
}

int request_blank(struct http_conn *c)
{
    return request_alloc(c, 0, &c->req);
}

void request_fail(struct http_request *req, int status, int code, const char *message,
                  const char *allow)
{
    if (req->set != NULL && req->set->failure != NULL)
        req->set->failure(req, status, error_name(code), message, allow);
    else
        reply_failure(req, status, error_name(code), message, allow);
}

/* ---- callbacks of llhttp; c->head is set while it parses the head ---- */

static char *span_writable(const struct head_parse *p, const char *at)
{
    /* The span lies in our own copy, so the const can be dropped. */
    return p->text + (at - p->text);
}

int request_on_url(llhttp_t *parser, const char *at, size_t len)
{
    struct head_parse *p = ((struct http_conn *)parser->data)->head;

    if (p == NULL)
        return HPE_USER;
    if (p->url == NULL)
        p->url = span_writable(p, at);
    p->url_len += len;
    return 0;
}

/* The parser has passed this header, so its spans can be NUL-terminated. */
static int head_finish_header(struct head_parse *p)
{
    static char none[] = "";
    char *value = p->value == NULL ? none : p->value;

    if (p->name == NULL)
        return 0;
    if (p->count == p->max || p->name_len == 0)
        return HPE_USER;
    while (p->value_len > 0 && strchr(" \t", value[p->value_len - 1]) != NULL)
        p->value_len--;
    if (p->value_len > 0)
        value[p->value_len] = '\0';
    p->name[p->name_len] = '\0';
    p->headers[p->count++] =
        (struct http_header){.name = p->name, .value = p->value_len > 0 ? value : none};
    p->name = p->value = NULL;
    p->name_len = p->value_len = 0;
    return 0;
}

int request_on_field(llhttp_t *parser, const char *at, size_t len)
{
    struct head_parse *p = ((struct http_conn *)parser->data)->head;
    int r;

    if (p == NULL)
        return 0; /* a trailer: counted as framing and ignored */
    if (p->value != NULL) {
        r = head_finish_header(p);
        if (r != 0)
            return r;
    }
    if (p->name != NULL && p->name + p->name_len != at) {
        /* The previous header had no value. */
        r = head_finish_header(p);
        if (r != 0)
            return r;
    }
    if (p->name == NULL)
        p->name = span_writable(p, at);
    p->name_len += len;
    return 0;
}

int request_on_value(llhttp_t *parser, const char *at, size_t len)
{
    struct head_parse *p = ((struct http_conn *)parser->data)->head;

    if (p == NULL)
        return 0;
    if (p->value == NULL)
        p->value = span_writable(p, at);
    p->value_len += len;
    return 0;
}

int request_on_headers(llhttp_t *parser)
{
    struct head_parse *p = ((struct http_conn *)parser->data)->head;
    struct http_request *req;
    int r;

    if (p == NULL)
        return HPE_USER;
    r = head_finish_header(p);
    if (r != 0)
        return r;
    req = p->req;
    req->keep_alive = llhttp_should_keep_alive(parser) != 0;
    req->upgrade = parser->upgrade != 0 && parser->method != HTTP_CONNECT;
    if ((parser->flags & F_CONTENT_LENGTH) != 0) {
        if (parser->content_length > INT64_MAX)
            return HPE_INVALID_CONTENT_LENGTH;
        req->content_length = (int64_t)parser->content_length;
    }
    /* An upgrade is the handler's decision, so the parser must not treat the following bytes as
     * another protocol. */
    parser->upgrade = 0;
    return 0;
}

/* ---- own checks ---- */

/* The request line is exactly "METHOD target HTTP/1.x". */
static int head_check_request_line(struct head_parse *p, int *status, struct err *err)
{
    char *space = strchr(p->text, ' ');

    if (space == NULL || p->url != space + 1 || p->url_len == 0)
        return err_set(err, -EBADMSG, "malformed request line");
    if (strncmp(p->url + p->url_len, " HTTP/1.0\r\n", 11) == 0) {
        p->req->http10 = true;
    } else if (strncmp(p->url + p->url_len, " HTTP/1.1\r\n", 11) != 0) {
        *status = strncmp(p->url + p->url_len, " HTTP/", 6) == 0 ? 505 : 400;
        return err_set(err, -EBADMSG, "only HTTP/1.1 and HTTP/1.0 are spoken");
    }
    *space = '\0';
    p->url[p->url_len] = '\0';
    p->req->method = p->text;
    p->req->head = strcmp(p->req->method, "HEAD") == 0;
    if (strcmp(p->req->method, "CONNECT") == 0)
        p->req->keep_alive = false;
    return 0;
}

/* Splits the target. Its authority is ignored: there is one host here. */
static int head_split_target(struct head_parse *p, size_t max, int *status, struct err *err)
{
    static const char *const schemes[] = {"http://", "https://"};
    char *target = p->url, *query;

    if (p->url_len > max) {
        *status = 414;
        return err_set(err, -ENAMETOOLONG, "limit maxUrlBytes: the URL is longer than %zu bytes",
                       max);
    }
    if (strchr(target, '#') != NULL)
        return err_set(err, -EBADMSG, "a fragment in the request's target");
    query = strchr(target, '?');
    if (query != NULL) {
        *query = '\0';
        p->req->query = query + 1;
    }
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        size_t n = strlen(schemes[i]);

        if (strncasecmp(target, schemes[i], n) != 0)
            continue;
        target = strchr(target + n, '/');
        break;
    }
    p->req->path = target == NULL ? "/" : target;
    return 0;
}

static int request_check_header(struct http_request *req, const struct http_header *h, int *status,
                                struct err *err)
{
    if (strcasecmp(h->name, "transfer-encoding") == 0) {
        if (req->http10)
            return err_set(err, -EBADMSG, "Transfer-Encoding in an HTTP/1.0 request");
        if (strcasecmp(h->value, "chunked") != 0 || req->content_length >= 0)
            return err_set(err, -EBADMSG, "Transfer-Encoding must be 'chunked' and alone");
    } else if (strcasecmp(h->name, "content-length") == 0) {
        if (h->value[0] == '\0' || h->value[strspn(h->value, "0123456789")] != '\0')
            return err_set(err, -EBADMSG, "Content-Length is no number");
    } else if (strcasecmp(h->name, "expect") == 0) {
        if (strcasecmp(h->value, "100-continue") != 0) {
            *status = 417;
            return err_set(err, -EINVAL, "Expect can only be '100-continue'");
        }
        req->expect_continue = !req->http10;
    }
    return 0;
}

/* A header that decides about framing or routing must occur once, otherwise it is ambiguous. */
static int request_check_headers(struct http_request *req, int *status, struct err *err)
{
    static const char *const once[] = {"content-length", "transfer-encoding", "host", "expect"};
    unsigned seen = 0;
    int r;

    for (size_t i = 0; i < req->header_count; i++) {
        for (unsigned k = 0; k < sizeof(once) / sizeof(once[0]); k++) {
            if (strcasecmp(req->headers[i].name, once[k]) != 0)
                continue;
            if ((seen & 1u << k) != 0)
                return err_set(err, -EBADMSG, "the header '%s' is there twice", once[k]);
            seen |= 1u << k;
        }
        r = request_check_header(req, &req->headers[i], status, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int head_run_llhttp(struct http_conn *c, struct head_parse *p, size_t len, int *status,
                           struct err *err)
{
    enum llhttp_errno e;

    llhttp_init(&c->parser, HTTP_REQUEST, &http_parser_settings);
    c->parser.data = c;
    c->message_done = false;
    c->head = p;
    e = llhttp_execute(&c->parser, p->text, len);
    c->head = NULL;
    /* Parser and scan must count the same headers; otherwise they have read the head in two
     * ways. */
    if ((e == HPE_OK || (e == HPE_PAUSED && c->message_done)) && p->count == p->max)
        return 0;
    if (e == HPE_USER || e == HPE_OK || e == HPE_PAUSED)
        return err_set(err, -EBADMSG, "malformed request: a header without a name");
    if (e == HPE_INVALID_VERSION || e == HPE_PAUSED_H2_UPGRADE)
        *status = 505;
    return err_set(err, -EBADMSG, "malformed request: %s", llhttp_get_error_reason(&c->parser));
}

int request_parse(struct http_conn *c, const char *head, size_t len, size_t lines, int *status,
                  struct err *err)
{
    size_t max = lines - 1, extra = max * sizeof(struct http_header) + 2 * (len + 1);
    struct http_request *req = NULL;
    struct head_parse p = {.max = max};
    int r = request_alloc(c, extra, &req);

    *status = 503;
    if (r == -EAGAIN)
        return err_set(err, r, HTTP_NO_ROOM_FOR_HEAD);
    if (r < 0)
        return err_errno(err, r, "a request");
    p.req = req;
    /* From here on c owns the request even if it is refused: the error reply needs it. */
    c->req = req;
    *status = 400;
    p.headers = (struct http_header *)(void *)(req + 1);
    p.text = (char *)(p.headers + max);
    (void)memcpy(p.text, head, len);
    req->store = p.text + len + 1;

    r = head_run_llhttp(c, &p, len, status, err);
    if (r < 0)
        return r;
    req->headers = p.headers;
    req->header_count = p.count;
    req->body_done = c->message_done;
    r = head_check_request_line(&p, status, err);
    if (r == 0)
        r = head_split_target(&p, c->server->config.max_url, status, err);
    if (r == 0)
        r = request_check_headers(req, status, err);
    return r;
}

const char *http_header(const struct http_request *req, const char *name)
{
    for (size_t i = 0; i < req->header_count; i++)
        if (strcasecmp(req->headers[i].name, name) == 0)
            return req->headers[i].value;
    return NULL;
}

const char *http_param(const struct http_request *req, const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < req->param_count; i++)
        if (req->params[i].name_len == len && memcmp(req->params[i].name, name, len) == 0)
            return req->params[i].value;
    assert(!"a name that is not in the route's pattern");
    return NULL;
}
