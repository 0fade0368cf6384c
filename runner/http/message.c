#include "http/message.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/err.h"
#include "http/message-internal.h"

/* ---- llhttp as second reader ---- */

static int on_llhttp_field(llhttp_t *p, const char *at, size_t len)
{
    struct reader *r = p->data;

    return r->in_head || buf_append(&r->name, at, len) == 0 ? 0 : HPE_USER;
}

static int on_llhttp_value(llhttp_t *p, const char *at, size_t len)
{
    struct reader *r = p->data;

    return r->in_head || buf_append(&r->value, at, len) == 0 ? 0 : HPE_USER;
}

/* Counts a header. After a body it is a trailer, which is kept. */
static int on_llhttp_value_complete(llhttp_t *p)
{
    struct reader *r = p->data;
    int n = 0;

    r->header_count++;
    if (r->in_head)
        return 0;
    if (r->name.len == 0)
        return HPE_USER;
    if (header_may_trail(r->name.data))
        n = buf_printf(&r->trailers, "%s: %s\r\n", r->name.data,
                       r->value.len > 0 ? r->value.data : "");
    buf_done(&r->name);
    buf_done(&r->value);
    return n == 0 ? 0 : HPE_USER;
}

static int on_llhttp_headers(llhttp_t *p)
{
    struct reader *r = p->data;

    /* The proxy handles upgrades itself. */
    p->upgrade = 0;
    /* 1 tells llhttp that no body follows, whatever the headers say. */
    return r->response && (r->head_of_get || is_bodiless(p->status_code)) ? 1 : 0;
}

/* Chunk sizes and trailers may end their lines only by CRLF. llhttp is less strict. */
static int reader_check_framing(struct reader *r, const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (r->cr != (at[i] == '\n') || at[i] == '\0')
            return HPE_USER;
        r->cr = at[i] == '\r';
    }
    r->framing += len;
    return r->framing > MESSAGE_TRAILERS_MAX ? HPE_USER : 0;
}

static int on_llhttp_body(llhttp_t *p, const char *at, size_t len)
{
    struct reader *r = p->data;

    if (reader_check_framing(r, r->mark, (size_t)(at - r->mark)) != 0)
        return HPE_USER;
    r->framing = 0;
    r->mark = at + len;
    r->error = len > 0 ? r->on_data(r->data, at, len) : 0;
    return r->error < 0 ? HPE_USER : 0;
}

static int on_llhttp_complete(llhttp_t *p)
{
    ((struct reader *)p->data)->done = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_header_field = on_llhttp_field,
    .on_header_value = on_llhttp_value,
    .on_header_value_complete = on_llhttp_value_complete,
    .on_headers_complete = on_llhttp_headers,
    .on_body = on_llhttp_body,
    .on_message_complete = on_llhttp_complete,
};

/* ---- heads ---- */

void message_done(struct message *m)
{
    free(m->headers);
    free(m->text);
    *m = (struct message){.text = NULL};
}

const char *message_header(const struct message *m, const char *name)
{
    return header_value(m->headers, m->header_count, name);
}

/* Refuses a head in which llhttp and message-head.c see different headers or framing. */
static int reader_compare(const struct reader *r, const struct message *m, struct err *err)
{
    bool chunked = (r->parser.flags & F_CHUNKED) != 0;
    bool length = (r->parser.flags & F_CONTENT_LENGTH) != 0;

    if (r->header_count != m->header_count)
        return err_set(err, -EBADMSG, "a header that can be read in two ways");
    /* The status or HEAD decides, whatever the headers say. */
    if (m->framing == FRAMING_NONE && r->response)
        return r->done ? 0 : err_set(err, -EBADMSG, "a body where none can be");
    if (chunked != (m->framing == FRAMING_CHUNKED) || length != (m->framing == FRAMING_LENGTH) ||
        (length && r->parser.content_length != m->length))
        return err_set(err, -EBADMSG, "a body's length that can be read in two ways");
    return 0;
}

static int reader_run_llhttp(struct reader *r, const char *data, size_t len, struct err *err)
{
    enum llhttp_errno e;

    llhttp_init(&r->parser, r->response ? HTTP_RESPONSE : HTTP_REQUEST, &settings);
    r->parser.data = r;
    r->done = false;
    r->in_head = true;
    r->header_count = 0;
    r->mark = data + len;
    e = llhttp_execute(&r->parser, data, len);
    r->in_head = false;
    if (e == HPE_OK || (e == HPE_PAUSED && r->done))
        return 0;
    return err_set(err, e == HPE_INVALID_VERSION ? -EPROTONOSUPPORT : -EBADMSG, "malformed: %s",
                   llhttp_get_error_reason(&r->parser));
}

static int error_status(const struct reader *r, int code, int status)
{
    if (r->response)
        return 502;
    if (status != 0)
        return status;
    switch (code) {
    case -E2BIG:
        return 431;
    case -ENAMETOOLONG:
        return 414;
    case -EPROTONOSUPPORT:
        return 505;
    case -ENOMEM:
        return 503;
    default:
        return 400;
    }
}

static int reader_parse_head(struct reader *r, const char *data, size_t len, size_t lines,
                             struct message *m, int *status, struct err *err)
{
    int n;

    m->text = malloc(len + 1);
    m->headers = calloc(lines, sizeof(*m->headers)); /* one more than needed, so never 0 */
    if (m->text == NULL || m->headers == NULL)
        return err_errno(err, -ENOMEM, "a head");
    (void)memcpy(m->text, data, len);
    m->text[len] = '\0';
    n = head_split(m->text, m->headers, lines, &m->header_count, err);
    if (n == 0)
        n = r->response ? read_status_line(m, m->text, err)
                        : read_request_line(m, m->text, status, err);
    if (n == 0)
        n = read_headers(m, r->response, r->head_of_get, status, err);
    if (n == 0)
        n = reader_run_llhttp(r, data, len, err);
    return n < 0 ? n : reader_compare(r, m, err);
}

long reader_head(struct reader *r, const char *data, size_t len, const struct head_limits *limits,
                 struct message *ret, int *ret_status, struct err *err)
{
    struct message m = {.text = NULL};
    int status = 0, n;
    long size;

    size = head_scan(&r->scan, data, len, limits, err);
    if (size == 0)
        return 0;
    n = size < 0 ? (int)size
                 : reader_parse_head(r, data, (size_t)size, r->scan.lines, &m, &status, err);
    r->scan = (struct head_scan){0};
    if (n < 0) {
        message_done(&m);
        *ret_status = error_status(r, n, status);
        return n;
    }
    buf_done(&r->trailers);
    r->framing = 0;
    r->cr = false;
    r->in_body = !r->done;
    *ret = m;
    return size;
}

/* ---- bodies ---- */

long reader_body(struct reader *r, const char *data, size_t len, struct err *err)
{
    enum llhttp_errno e;
    size_t used = len;

    assert(r->in_body);
    r->error = 0;
    r->mark = data;
    e = llhttp_execute(&r->parser, data, len);
    if (e == HPE_PAUSED && r->done)
        used = (size_t)(llhttp_get_error_pos(&r->parser) - data);
    else if (r->error < 0)
        return err_errno(err, r->error, "a body");
    else if (e != HPE_OK)
        return err_set(err, -EBADMSG, "malformed body: %s",
                       e == HPE_USER ? "more between its parts than there may be, or a line end "
                                       "that is none"
                                     : llhttp_get_error_reason(&r->parser));
    if (reader_check_framing(r, r->mark, (size_t)(data + used - r->mark)) != 0)
        return err_set(err, -EBADMSG,
                       "malformed body: more between its parts than there may be, "
                       "or a line end that is none");
    r->in_body = !r->done;
    return (long)used;
}

int reader_eof(struct reader *r, struct err *err)
{
    if (llhttp_finish(&r->parser) == HPE_OK || r->done) {
        r->done = true;
        r->in_body = false;
        return 0;
    }
    return err_set(err, -EBADMSG, "the body ends early");
}

void reader_init(struct reader *r, bool response, reader_data_fn *on_data, void *data)
{
    *r = (struct reader){.response = response,
                         .on_data = on_data,
                         .data = data,
                         .trailers = BUF_INIT(MESSAGE_TRAILERS_MAX),
                         .name = BUF_INIT(MESSAGE_TRAILERS_MAX),
                         .value = BUF_INIT(MESSAGE_TRAILERS_MAX)};
}

void reader_done(struct reader *r)
{
    buf_done(&r->trailers);
    buf_done(&r->name);
    buf_done(&r->value);
}
