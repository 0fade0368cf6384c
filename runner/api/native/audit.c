/*
 * GET /v1/audit: the audit record as server-sent events, for root and the owner of the daemon.
 * Files are read by the thread pool. Runs in the supervisor's loop.
 */
#include "api/audit.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "api/common.h"
#include "base/err.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "http/route.h"
#include "http/sse.h"
#include "sandbox/services.h"

enum { READ_MAX = 32 << 10 };

struct native_audit_query {
    int64_t since;
};

static const struct query_field fields[] = {
    {.name = "since",
     .type = QUERY_INT,
     .off = offsetof(struct native_audit_query, since),
     .max = INT64_MAX},
    {0},
};

struct audit_stream {
    struct audit_reader reader; /* first: cast from its address */
    uv_fs_t read;
    struct native *native;
    struct sse *sse;
    uint64_t since, last; /* the last id that was sent */
    bool reading, paused, closed;
    size_t len; /* bytes of an incomplete line in `text` */
    char text[READ_MAX + AUDIT_LINE_MAX];
};

static void stream_next(struct audit_stream *st);

static void stream_close(struct audit_stream *st)
{
    if (!st->closed) {
        api_watcher_drop(st->native);
        sse_close(st->sse);
    }
    st->closed = true;
    if (st->reading)
        return; /* on_read frees it */
    audit_reader_close(&st->reader);
    free(st);
}

static void on_sse_gone(struct sse *s, void *data)
{
    (void)s;
    stream_close(data);
}

static void on_sse_drain(struct sse *s, void *data)
{
    struct audit_stream *st = data;

    (void)s;
    st->paused = false;
    stream_next(st);
}

/* Sends a line, if it is a whole record behind `since`. Negative: the client is too slow or gone.
 */
static int stream_send_line(struct audit_stream *st, const char *line, size_t len)
{
    static const char begin[] = "{\"id\":";
    char id[24];
    uint64_t number;
    int r;

    if (len < sizeof(begin) || strncmp(line, begin, sizeof(begin) - 1) != 0 || line[len - 1] != '}')
        return 0; /* a part, of a daemon that was killed */
    number = strtoull(line + sizeof(begin) - 1, NULL, 10);
    if (number <= st->since)
        return 0;
    st->last = number;
    (void)snprintf(id, sizeof(id), "%" PRIu64, number);
    r = sse_send(st->sse, id, "audit", line, len);
    st->paused |= r == 1;
    return r < 0 ? r : 0;
}

/* The reader was slower than the files are rotated. */
static int stream_send_gap(struct audit_stream *st)
{
    char text[48];
    int n = snprintf(text, sizeof(text), "{\"after\":%" PRIu64 "}", st->last);

    st->reader.gap = false;
    return sse_send(st->sse, NULL, "gap", text, (size_t)n);
}

/* Sends all whole lines of `text`, and keeps the rest. */
static int stream_send_lines(struct audit_stream *st)
{
    size_t at = 0;
    char *end;
    int r = 0;

    while (r == 0 && (end = memchr(st->text + at, '\n', st->len - at)) != NULL) {
        *end = '\0';
        r = stream_send_line(st, st->text + at, (size_t)(end - st->text) - at);
        at = (size_t)(end - st->text) + 1;
    }
    st->len -= at;
    (void)memmove(st->text, st->text + at, st->len);
    if (st->len > AUDIT_LINE_MAX)
        st->len = 0; /* no line of a record is that long */
    return r;
}

static void on_read(uv_fs_t *req)
{
    struct audit_stream *st = req->data;
    ssize_t n = req->result;

    uv_fs_req_cleanup(req);
    st->reading = false;
    if (st->closed || n < 0) {
        stream_close(st);
        return;
    }
    st->reader.at += n;
    st->len += (size_t)n;
    if (stream_send_lines(st) < 0) {
        stream_close(st);
        return;
    }
    if (n > 0) {
        stream_next(st);
        return;
    }
    if (audit_reader_more(st->native->audit, &st->reader)) {
        if (st->reader.at == 0)
            st->len = 0; /* the next file */
        if (st->reader.gap && stream_send_gap(st) < 0)
            stream_close(st);
        else
            stream_next(st);
    }
}

static void stream_next(struct audit_stream *st)
{
    uv_buf_t buf = uv_buf_init(st->text + st->len, READ_MAX);

    if (st->paused || st->reading || st->closed || st->reader.link != NULL)
        return;
    st->read.data = st;
    st->reading = uv_fs_read(supervisor_loop(st->native->config.supervisor), &st->read,
                             st->reader.fd, &buf, 1, st->reader.at, on_read) == 0;
    if (!st->reading)
        stream_close(st);
}

static void on_more_lines(struct audit_reader *r)
{
    stream_next((struct audit_stream *)(void *)r);
}

/* A client that reconnects sends Last-Event-ID by itself, so it overrides `since`. */
static int query_decode_audit(struct http_request *req, struct native_audit_query *q,
                              struct err *err)
{
    const char *last = sse_last_event_id(req);
    int r = http_query(req, fields, q, err);

    if (r < 0 || last == NULL || last[0] == '\0')
        return r;
    if (strlen(last) > 18 || strspn(last, "0123456789") != strlen(last))
        return err_set(err, -EINVAL, "Last-Event-ID: \"%.64s\" is no id of a record", last);
    q->since = strtoll(last, NULL, 10);
    return 0;
}

static void get_audit(struct http_request *req)
{
    struct sse_options options = {.on_gone = on_sse_gone, .on_drain = on_sse_drain};
    struct native *n = native_of(req);
    struct native_audit_query q = {0};
    struct err err = ERR_NONE;
    struct audit_stream *st;
    int r;

    if (query_decode_audit(req, &q, &err) < 0) {
        reply_error(req, &err);
        return;
    }
    if (n->audit == NULL) {
        reply_errorf(req, -ENOENT, "no record is kept: limit auditBytes is 0, or the log says why");
        return;
    }
    if (!api_watcher_take(req))
        return;
    st = calloc(1, sizeof(*st));
    r = st == NULL ? -ENOMEM : audit_reader_open(n->audit, &st->reader, q.since == 0);
    if (r == 0) {
        st->reader.on_more = on_more_lines;
        st->native = n;
        st->since = (uint64_t)q.since;
        options.data = st;
        r = sse_open(req, &options, &st->sse);
        if (r < 0)
            audit_reader_close(&st->reader);
    }
    if (r < 0) {
        free(st);
        api_watcher_drop(n);
        reply_errorf(req, r, "audit: %s", strerror(-r));
        return;
    }
    stream_next(st);
}

const struct route native_audit_routes[] = {
    {"GET", "/v1/audit", get_audit, 0, 0},
    {0},
};
