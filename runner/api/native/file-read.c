/* GET of a file: whole, by Range, or by offset and length; and HEAD. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "api/common.h"
#include "api/native/files.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "proto/file-msg.h"
#include "sandbox/sandbox.h"

enum { DATE_MAX = 40, RANGE_MAX = 80 };

static const struct query_field fields[] = {
    {.name = "path",
     .type = QUERY_BYTES,
     .off = offsetof(struct file_query, path),
     .min = 1,
     .max = FILE_PATH_MAX,
     .required = true},
    {.name = "user",
     .type = QUERY_STRING,
     .off = offsetof(struct file_query, user),
     .min = 1,
     .max = 255},
    {.name = "offset",
     .type = QUERY_INT,
     .off = offsetof(struct file_query, offset),
     .max = INT64_MAX},
    {.name = "length",
     .type = QUERY_INT,
     .off = offsetof(struct file_query, length),
     .max = INT64_MAX},
    {0},
};

/* ---- Range ---- */

static bool range_position(const char **at, int64_t *ret)
{
    char *end;

    if (**at < '0' || **at > '9')
        return false;
    errno = 0;
    *ret = strtoll(*at, &end, 10);
    *at = end;
    return errno == 0;
}

/* Parses one range. A malformed one, or several, are ignored (RFC 9110, 14.2). */
static void call_take_range(struct file_call *call)
{
    const char *text = http_header(call->req, "Range");
    int64_t from = -1, to = -1;

    if (text == NULL || strncasecmp(text, "bytes=", 6) != 0)
        return;
    text += 6;
    if (*text != '-' && !range_position(&text, &from))
        return;
    if (*text++ != '-')
        return;
    if (*text != '\0' && !range_position(&text, &to))
        return;
    if (*text != '\0' || (from < 0 && to < 0) || (from >= 0 && to >= 0 && to < from))
        return;
    call->has_range = true;
    call->range_from = from;
    call->range_to = to;
}

/* ---- the reply's head ---- */

static void http_date(int64_t seconds, char ret[DATE_MAX])
{
    time_t t = (time_t)seconds;
    struct tm tm;

    if (gmtime_r(&t, &tm) == NULL || strftime(ret, DATE_MAX, "%a, %d %b %Y %H:%M:%S GMT", &tm) == 0)
        ret[0] = '\0';
}

static void call_refuse_range(struct file_call *call, uint64_t size)
{
    char text[RANGE_MAX];
    const struct http_header headers[] = {{"Content-Range", text}, {NULL, NULL}};

    (void)snprintf(text, sizeof(text), "bytes */%" PRIu64, size);
    file_op_cancel(call->op);
    http_reply(call->req, 416, headers, NULL, NULL, 0);
    file_call_free(call);
}

/* Computes the bytes to send of a file with a known size, like sandbox-shim does. */
static void call_measure(struct file_call *call, uint64_t size, uint64_t *ret_from,
                         uint64_t *ret_len)
{
    uint64_t from = (uint64_t)call->q.offset, len = UINT64_MAX;

    if (call->q.length >= 0)
        len = (uint64_t)call->q.length;
    if (call->has_range && call->range_from < 0) {
        from = (uint64_t)call->range_to < size ? size - (uint64_t)call->range_to : 0;
    } else if (call->has_range) {
        from = (uint64_t)call->range_from;
        if (call->range_to >= 0)
            len = (uint64_t)(call->range_to - call->range_from) + 1;
    }
    *ret_from = from;
    *ret_len = from >= size ? 0 : len < size - from ? len : size - from;
}

/* The array stays terminated by {NULL, NULL}. */
static void call_start_reply(struct file_call *call, const struct file_record *r)
{
    char length[24], range[RANGE_MAX], date[DATE_MAX], mode[8];
    struct http_header headers[7] = {{NULL, NULL}};
    uint64_t from = 0, len = 0;
    size_t n = 0;
    bool exact = (r->flags & FILE_SIZE_EXACT) != 0;

    (void)snprintf(mode, sizeof(mode), "%04o", r->mode & 07777);
    headers[n++] = (struct http_header){"X-File-Mode", mode};
    http_date(r->mtime, date);
    if (date[0] != '\0')
        headers[n++] = (struct http_header){"Last-Modified", date};
    if (exact) {
        call_measure(call, r->size, &from, &len);
        if (call->has_range && len == 0) {
            call_refuse_range(call, r->size);
            return;
        }
        (void)snprintf(length, sizeof(length), "%" PRIu64, len);
        headers[n++] = (struct http_header){"Content-Length", length};
        headers[n++] = (struct http_header){"Accept-Ranges", "bytes"};
    }
    if (exact && call->has_range) {
        (void)snprintf(range, sizeof(range), "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, from,
                       from + len - 1, r->size);
        headers[n++] = (struct http_header){"Content-Range", range};
    }
    call->started = true;
    call->length = exact ? (int64_t)len : -1;
    http_start(call->req, exact && call->has_range ? 206 : 200, headers,
               "application/octet-stream");
    if (call->req->head) {
        file_op_cancel(call->op);
        http_end(call->req);
        file_call_free(call);
    }
}

/* ---- the body ---- */

static void read_start(struct file_call *call, struct sandbox *s);

/* A file without a real size (/proc) has no ranges: restart without. */
static void read_restart(struct file_call *call)
{
    struct sandbox *s = sandbox_by_id(api_supervisor(call->req), call->req->lease);

    file_op_cancel(call->op);
    call->op = NULL;
    call->has_range = false;
    call->argc = call->text_count = 0;
    if (s == NULL) {
        struct err err = ERR_NONE;

        (void)err_set(&err, -ENOENT, "the sandbox has been removed");
        file_call_fail(call, &err);
        return;
    }
    read_start(call, s);
}

static void on_read_frame(void *data, const struct frame *f)
{
    struct file_call *call = data;
    const uint8_t *at = f->data;
    struct file_record r;

    /* Further records are ignored. */
    if (call->started || f->kind != FRAME_DATA || file_next_record(&at, f->data + f->len, &r) != 1)
        return;
    if (call->has_range && (r.flags & FILE_SIZE_EXACT) == 0)
        read_restart(call);
    else
        call_start_reply(call, &r);
}

static bool on_read_bytes(void *data, const void *bytes, size_t len)
{
    struct file_call *call = data;

    if (!call->started)
        return false;
    /* A hostile sandbox must not exceed the announced length. */
    if (call->length >= 0) {
        if ((uint64_t)len > (uint64_t)call->length)
            len = (size_t)call->length;
        call->length -= (int64_t)len;
    }
    return http_write(call->req, bytes, len);
}

static void on_read_drain(struct http_request *req)
{
    struct file_call *call = req->data;

    if (call->op != NULL)
        file_op_resume(call->op);
}

static void on_read_done(void *data, int r, const struct err *err)
{
    struct file_call *call = data;
    struct err own = ERR_NONE;

    call->op = NULL;
    if (r == 0 && !call->started) {
        (void)err_set(&own, -EPROTO, "read: the answer cannot be used");
        err = &own;
    }
    if (err->code < 0) {
        file_call_fail(call, err);
        return;
    }
    http_end(call->req); /* a file that shrank meanwhile is too short, which breaks the
                          * connection */
    file_call_free(call);
}

static void read_start(struct file_call *call, struct sandbox *s)
{
    static const struct file_request request = {
        .stream = FRAME_STREAM_RECORDS, .max_frame = FILE_BATCH_MAX, .raw = true};
    static const struct file_events events = {
        .on_frame = on_read_frame, .on_bytes = on_read_bytes, .on_done = on_read_done};
    bool range = call->has_range && call->range_from >= 0;

    file_arg(call, "rind-read");
    file_arg(call, call->q.path);
    if (call->has_range && !range)
        file_arg_number(call, "--suffix", (uint64_t)call->range_to);
    else
        file_arg_number(call, "--offset", (uint64_t)(range ? call->range_from : call->q.offset));
    if (call->req->head)
        file_arg_number(call, "--length", 0);
    else if (range && call->range_to >= 0 && call->range_to - call->range_from < INT64_MAX)
        file_arg_number(call, "--length", (uint64_t)(call->range_to - call->range_from) + 1);
    else if (!call->has_range && call->q.length >= 0)
        file_arg_number(call, "--length", (uint64_t)call->q.length);
    call->req->on_drain = on_read_drain;
    file_call_start(call, s, &request, &events);
}

void file_get(struct http_request *req)
{
    struct sandbox *s;
    struct file_call *call = file_call_new(req, fields, "read", &s);

    if (call == NULL)
        return;
    call->named = true;
    if (call->q.offset == 0 && call->q.length < 0)
        call_take_range(call);
    read_start(call, s);
}
