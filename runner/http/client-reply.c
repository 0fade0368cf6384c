#include "http/client-reply.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"

static int on_reply_data(void *data, const char *at, size_t len)
{
    return buf_append(data, at, len);
}

void reply_begin(struct reply *r)
{
    reply_done(r);
    r->head.max = REPLY_HEAD_MAX;
    r->body.max = REPLY_FEED_MAX;
    reader_init(&r->reader, true, on_reply_data, &r->body);
    r->status = 0;
    r->keep_alive = false;
    r->state = REPLY_HEAD;
}

void reply_done(struct reply *r)
{
    reader_done(&r->reader);
    message_done(&r->message);
    buf_done(&r->head);
    buf_done(&r->body);
    r->state = REPLY_INVALID;
}

/* Returns the number of bytes that belong to the head. */
static long reply_feed_head(struct reply *r, const char *bytes, size_t len, struct err *err)
{
    static const char version[] = "HTTP/";
    const struct head_limits limits = {
        .bytes = REPLY_HEAD_MAX, .lines = REPLY_HEADERS_MAX, .url = REPLY_HEAD_MAX};
    size_t before = r->head.len, room = REPLY_HEAD_MAX - before, n = len < room ? len : room;
    long size = buf_append(&r->head, bytes, n);
    int status;

    if (size < 0)
        return err_errno(err, (int)size, "a head");
    /* Another protocol may never send an end of a head. */
    n = r->head.len < sizeof(version) - 1 ? r->head.len : sizeof(version) - 1;
    if (memcmp(r->head.data, version, n) != 0)
        return err_set(err, -EBADMSG, "malformed status line");
    size = reader_head(&r->reader, r->head.data, r->head.len, &limits, &r->message, &status, err);
    if (size < 0)
        return size;
    if (size == 0)
        return r->head.len < REPLY_HEAD_MAX ? (long)len
                                            : err_set(err, -E2BIG, "its head is too long");
    buf_done(&r->head);
    r->status = r->message.status;
    if (r->status == 101)
        r->state = REPLY_UPGRADED;
    else if (r->status < 200)
        message_done(&r->message); /* an interim reply; the final one follows */
    else
        r->state = REPLY_BODY;
    return size - (long)before;
}

int reply_feed(struct reply *r, const char *bytes, size_t len, size_t *ret_used, struct err *err)
{
    r->body.len = 0;
    *ret_used = 0;
    while (r->state < REPLY_DONE && *ret_used < len) {
        const char *at = bytes + *ret_used;
        long n = r->state == REPLY_HEAD ? reply_feed_head(r, at, len - *ret_used, err)
                                        : reader_body(&r->reader, at, len - *ret_used, err);

        if (n < 0) {
            r->state = REPLY_INVALID;
            return err_wrap(err, -EPROTO, "no reply of a daemon");
        }
        *ret_used += (size_t)n;
        if (r->state == REPLY_BODY && r->reader.done) {
            r->keep_alive = r->message.keep_alive;
            r->state = REPLY_DONE;
        }
    }
    return 0;
}

int reply_end(struct reply *r, struct err *err)
{
    if (r->state >= REPLY_DONE)
        return 0;
    if (r->state == REPLY_BODY && reader_eof(&r->reader, NULL) == 0) {
        r->state = REPLY_DONE;
        return 0;
    }
    return err_set(err, -ECONNRESET, r->state == REPLY_BODY ? "the reply broke off" : "no reply");
}

const char *reply_header(const struct reply *r, const char *name)
{
    return message_header(&r->message, name);
}
