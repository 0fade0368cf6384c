/* The llhttp callbacks behind client-reply.h. */

#include "http/client-reply.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"

static struct reply *reply_of(llhttp_t *parser)
{
    return parser->data;
}

static int reply_refuse(struct reply *r, const char *why)
{
    r->why = why;
    return HPE_USER;
}

/* ---- llhttp's callbacks ---- */

static int on_message_begin(llhttp_t *parser)
{
    struct reply *r = reply_of(parser);

    r->head.len = 0; /* drops the head of an interim reply (100 Continue) */
    r->headers = 0;
    return 0;
}

static int put_text(struct reply *r, const char *at, size_t len)
{
    if (memchr(at, '\0', len) != NULL)
        return reply_refuse(r, "a NUL byte in its head");
    return buf_append(&r->head, at, len) < 0 ? reply_refuse(r, "its head is too long") : 0;
}

static int on_header_text(llhttp_t *parser, const char *at, size_t len)
{
    return put_text(reply_of(parser), at, len);
}

/* Terminates a header's name or value with a NUL. */
static int on_header_text_complete(llhttp_t *parser)
{
    struct reply *r = reply_of(parser);

    return buf_append(&r->head, "", 1) < 0 ? reply_refuse(r, "its head is too long") : 0;
}

static int on_header_value_complete(llhttp_t *parser)
{
    struct reply *r = reply_of(parser);

    if (++r->headers > REPLY_HEADERS_MAX)
        return reply_refuse(r, "too many headers");
    return on_header_text_complete(parser);
}

static int on_headers_complete(llhttp_t *parser)
{
    struct reply *r = reply_of(parser);

    r->status = parser->status_code;
    if (r->status == 101)
        return 2; /* returns llhttp's "no body; the rest is not HTTP" */
    if (r->status >= 200)
        r->state = REPLY_BODY;
    return 0;
}

static int on_message_body(llhttp_t *parser, const char *at, size_t len)
{
    struct reply *r = reply_of(parser);

    return buf_append(&r->body, at, len) < 0 ? reply_refuse(r, "more body than was read") : 0;
}

static int on_message_complete(llhttp_t *parser)
{
    struct reply *r = reply_of(parser);

    if (r->status == 101) {
        r->state = REPLY_UPGRADED;
        return 0;
    }
    if (r->status < 200)
        return 0; /* an interim reply; the final one follows */
    r->keep_alive = llhttp_should_keep_alive(parser) != 0;
    r->state = REPLY_DONE;
    return HPE_PAUSED; /* bytes after this belong to the next reply */
}

static const llhttp_settings_t settings = {
    .on_message_begin = on_message_begin,
    .on_header_field = on_header_text,
    .on_header_field_complete = on_header_text_complete,
    .on_header_value = on_header_text,
    .on_header_value_complete = on_header_value_complete,
    .on_headers_complete = on_headers_complete,
    .on_body = on_message_body,
    .on_message_complete = on_message_complete,
};

/* ---- the reply ---- */

void reply_begin(struct reply *r)
{
    r->head.max = REPLY_HEAD_MAX;
    r->body.max = REPLY_FEED_MAX;
    r->head.len = r->body.len = 0;
    r->headers = 0;
    r->status = 0;
    r->keep_alive = false;
    r->why = NULL;
    r->state = REPLY_HEAD;
    llhttp_init(&r->parser, HTTP_RESPONSE, &settings);
    r->parser.data = r;
}

void reply_done(struct reply *r)
{
    buf_done(&r->head);
    buf_done(&r->body);
    r->state = REPLY_INVALID;
}

int reply_feed(struct reply *r, const char *bytes, size_t len, size_t *ret_used, struct err *err)
{
    llhttp_errno_t e;

    r->body.len = 0;
    *ret_used = 0;
    if (r->state >= REPLY_DONE || len == 0)
        return 0;
    e = llhttp_execute(&r->parser, bytes, len);
    if (e == HPE_OK) {
        *ret_used = len;
        return 0;
    }
    if (r->state >= REPLY_DONE && (e == HPE_PAUSED || e == HPE_PAUSED_UPGRADE)) {
        *ret_used = (size_t)(llhttp_get_error_pos(&r->parser) - bytes);
        return 0;
    }
    r->state = REPLY_INVALID;
    return err_set(err, -EPROTO, "no reply of a daemon: %s",
                   r->why != NULL ? r->why : llhttp_get_error_reason(&r->parser));
}

int reply_end(struct reply *r, struct err *err)
{
    if (r->state >= REPLY_DONE)
        return 0;
    if (r->state == REPLY_BODY && llhttp_message_needs_eof(&r->parser) != 0) {
        r->keep_alive = false;
        r->state = REPLY_DONE;
        return 0;
    }
    return err_set(err, -ECONNRESET, r->state == REPLY_BODY ? "the reply broke off" : "no reply");
}

const char *reply_header(const struct reply *r, const char *name)
{
    const char *at = r->head.data, *end = at == NULL ? NULL : at + r->head.len;

    for (size_t i = 0; i < r->headers && at < end; i++) {
        const char *value = at + strlen(at) + 1;

        if (strcasecmp(at, name) == 0)
            return value;
        at = value + strlen(value) + 1;
    }
    return NULL;
}
