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
 * the head, which is split in place, and as much again for the decoded path. If it has more than
 * BUDGET_FREE bytes it counts against the connection's budget. */

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
    req->error = code;
    if (req->set != NULL && req->set->failure != NULL)
        req->set->failure(req, status, error_name(code), message, allow);
    else
        reply_failure(req, status, error_name(code), message, allow);
}

/* ---- callbacks of llhttp ---- */

int request_on_value_complete(llhttp_t *parser)
{
    struct http_conn *c = parser->data;

    if (c->in_head) /* else a trailer: counted as framing and ignored */
        c->req->header_count++;
    return 0;
}

int request_on_headers(llhttp_t *parser)
{
    struct http_request *req = ((struct http_conn *)parser->data)->req;

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

/* Splits the target. Its authority is ignored: there is one host here. */
static int request_split_target(struct http_request *req, char *target, size_t max, int *status,
                                struct err *err)
{
    static const char *const schemes[] = {"http://", "https://"};
    char *query;

    if (strlen(target) > max) {
        *status = 414;
        return err_set(err, -ENAMETOOLONG, "limit maxUrlBytes: the URL is longer than %zu bytes",
                       max);
    }
    query = strchr(target, '?');
    if (query != NULL) {
        *query = '\0';
        req->query = query + 1;
    }
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        size_t n = strlen(schemes[i]);

        if (strncasecmp(target, schemes[i], n) != 0)
            continue;
        target = strchr(target + n, '/');
        break;
    }
    req->path = target == NULL ? "/" : target;
    return 0;
}

/* llhttp reads the head first: it is left at the start of the body. */
static int head_run_llhttp(struct http_conn *c, const char *head, size_t len, int *status,
                           struct err *err)
{
    enum llhttp_errno e;

    llhttp_init(&c->parser, HTTP_REQUEST, &http_parser_settings);
    c->parser.data = c;
    c->message_done = false;
    c->in_head = true;
    e = llhttp_execute(&c->parser, head, len);
    c->in_head = false;
    if (e == HPE_OK || (e == HPE_PAUSED && c->message_done))
        return 0;
    if (e == HPE_INVALID_VERSION || e == HPE_PAUSED_H2_UPGRADE)
        *status = 505;
    return err_set(err, -EBADMSG, "malformed request: %s", llhttp_get_error_reason(&c->parser));
}

/* Then rind reads it, in `text`, its own copy. Both must see the same headers. */
static int head_read(struct http_conn *c, struct http_header *headers, char *text, size_t lines,
                     int *status, struct err *err)
{
    struct http_request *req = c->req;
    struct head_fields fields;
    char *target;
    size_t count = 0;
    int r = head_split(text, headers, lines - 1, &count, err);

    if (r == 0 && count != req->header_count)
        r = err_set(err, -EBADMSG, "malformed request: a header without a name");
    req->headers = headers;
    req->header_count = count;
    if (r == 0)
        r = head_request_line(text, &target, &req->http10, err);
    if (r == -EPROTONOSUPPORT) {
        *status = 505;
        r = -EBADMSG;
    }
    if (r < 0)
        return r;
    req->method = text;
    req->head = strcmp(text, "HEAD") == 0;
    if (strcmp(text, "CONNECT") == 0)
        req->keep_alive = false;
    r = request_split_target(req, target, c->server->config.max_url, status, err);
    if (r == 0)
        r = head_fields(headers, count, false, req->http10, &fields, status, err);
    req->expect_continue = r == 0 && fields.expect_continue;
    return r;
}

int request_parse(struct http_conn *c, const char *head, size_t len, size_t lines, int *status,
                  struct err *err)
{
    size_t max = lines - 1, extra = max * sizeof(struct http_header) + 2 * (len + 1);
    struct http_request *req = NULL;
    struct http_header *headers;
    char *text;
    int r = request_alloc(c, extra, &req);

    *status = 503;
    if (r == -EAGAIN)
        return err_set(err, r, HTTP_NO_ROOM_FOR_HEAD);
    if (r < 0)
        return err_errno(err, r, "a request");
    /* From here on c owns the request even if it is refused: the error reply needs it. */
    c->req = req;
    *status = 400;
    headers = (struct http_header *)(void *)(req + 1);
    text = (char *)(headers + max);
    (void)memcpy(text, head, len);
    req->store = text + len + 1;

    r = head_run_llhttp(c, head, len, status, err);
    if (r < 0) {
        req->header_count = 0;
        return r;
    }
    req->body_done = c->message_done;
    return head_read(c, headers, text, lines, status, err);
}

const char *http_header(const struct http_request *req, const char *name)
{
    return header_value(req->headers, req->header_count, name);
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
