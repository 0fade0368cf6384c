/* GET …/list: entries are sent as they arrive, so memory use does not depend on their number. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/common.h"
#include "api/native/files.h"
#include "base/auto.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "json/parse.h"
#include "proto/file-msg.h"
#include "sandbox/sandbox.h"
#include "sandbox/services.h"

enum {
    OUT_MAX = 4 << 20,    /* JSON of one frame of records, with all names encoded */
    DEFAULT_MAX = 100000, /* default of maxEntries */
};

#define FIELD(key, kind, member, ...)                                                              \
    {                                                                                              \
        .name = (key), .type = (kind), .off = offsetof(struct file_query, member), __VA_ARGS__     \
    }

static const struct query_field fields[] = {
    FIELD("path", QUERY_BYTES, path, .min = 1, .max = FILE_PATH_MAX, .required = true),
    FIELD("user", QUERY_STRING, user, .min = 1, .max = 255),
    FIELD("recursive", QUERY_BOOL, recursive),
    FIELD("depth", QUERY_INT, depth, .min = 1, .max = FILE_LIST_DEPTH_MAX),
    FIELD("hidden", QUERY_BOOL, hidden),
    FIELD("maxEntries", QUERY_INT, max_entries, .min = 0, .max = INT64_MAX),
    {0},
};

/* The reply starts with the first entry, so that an error of the directory itself gets its own
 * status. */
static void listing_begin(struct file_call *call)
{
    static const char open[] = "{\"entries\":[";

    if (call->started)
        return;
    call->started = true;
    http_start(call->req, 200, NULL, "application/json");
    (void)http_write(call->req, open, sizeof(open) - 1);
}

static int listing_add(struct file_call *call, const struct file_record *r)
{
    auto_ptr(json_decref) json_t *root = file_encode(r);
    auto_free char *text = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
    int ok = text == NULL ? -ENOMEM : 0;

    if (ok == 0 && call->count > 0)
        ok = buf_append(&call->out, ",", 1);
    if (ok == 0)
        ok = buf_append_str(&call->out, text);
    call->count++;
    return ok;
}

/* Ends with an error. If entries were sent already, the JSON ends with the error and
 * truncated:true. */
static void listing_fail(struct file_call *call, const struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    auto_free char *text = NULL;

    if (call->started && !call->req->gone)
        root = reply_encode_error(err);
    if (root != NULL)
        text = json_dumps(root, JSON_COMPACT);
    if (text == NULL) {
        file_call_fail(call, err);
        return;
    }
    (void)http_write(call->req, "],\"truncated\":true,", 19);
    (void)http_write(call->req, text + 1, strlen(text) - 1); /* without its opening brace */
    http_end(call->req);
    file_call_free(call);
}

static void listing_abort(struct file_call *call, int r)
{
    struct err err = ERR_NONE;

    (void)err_set(&err, r, "list: the answer cannot be used");
    file_op_cancel(take(call->op));
    listing_fail(call, &err);
}

static void on_list_frame(void *data, const struct frame *f)
{
    struct file_call *call = data;
    const uint8_t *at = f->data, *end = f->data + f->len;
    struct file_record record;
    int r;

    if (f->kind != FRAME_DATA)
        return;
    while ((r = file_next_record(&at, end, &record)) > 0) {
        if (record.flags & FILE_TRUNCATED)
            call->truncated = true;
        else if (call->count < (uint64_t)call->q.max_entries)
            r = listing_add(call, &record);
        if (r < 0)
            break;
    }
    if (r < 0) {
        listing_abort(call, r);
        return;
    }
    listing_begin(call);
    if (call->out.len > 0 && http_write(call->req, call->out.data, call->out.len))
        file_op_pause(call->op);
    buf_consume(&call->out, call->out.len);
}

static void on_list_drain(struct http_request *req)
{
    struct file_call *call = req->data;

    if (call->op != NULL)
        file_op_resume(call->op);
}

static void on_list_done(void *data, int r, const struct err *err)
{
    struct file_call *call = data;
    char tail[64];
    int n;

    call->op = NULL;
    if (r < 0) {
        listing_fail(call, err);
        return;
    }
    listing_begin(call);
    n = snprintf(tail, sizeof(tail), "],\"truncated\":%s}", call->truncated ? "true" : "false");
    (void)http_write(call->req, tail, (size_t)n);
    http_end(call->req);
    file_call_free(call);
}

void file_list(struct http_request *req)
{
    static const struct file_request request = {.stream = FRAME_STREAM_RECORDS,
                                                .max_frame = FILE_BATCH_MAX};
    static const struct file_events events = {.on_frame = on_list_frame, .on_done = on_list_done};
    int64_t limit = supervisor_limits(api_supervisor(req))->list_entries;
    struct sandbox *s;
    struct file_call *call = file_call_new(req, fields, "list", &s);

    if (call == NULL)
        return;
    call->named = true;
    call->out.max = OUT_MAX;
    if (call->q.max_entries > limit) {
        struct err err = ERR_NONE;

        (void)err_set(&err, -ERANGE, "maxEntries: limit maxListEntries: at most %lld",
                      (long long)limit);
        file_call_fail(call, &err);
        return;
    }
    if (call->q.max_entries < 0)
        call->q.max_entries = limit < DEFAULT_MAX ? limit : DEFAULT_MAX;
    if (call->q.recursive && call->q.depth == 1)
        call->q.depth = FILE_LIST_DEPTH_MAX;
    file_arg(call, "rind-list");
    file_arg(call, call->q.path);
    file_arg_number(call, "--depth", (uint64_t)call->q.depth);
    file_arg_number(call, "--max", (uint64_t)call->q.max_entries);
    file_arg_if(call, call->q.hidden, "--all");
    req->on_drain = on_list_drain;
    file_call_start(call, s, &request, &events);
}
