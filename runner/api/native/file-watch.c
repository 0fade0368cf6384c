/* GET …/watch: changes of a file, a directory or a tree, as server-sent events. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/common.h"
#include "api/native/files.h"
#include "base/auto.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "http/sse.h"
#include "json/parse.h"
#include "proto/file-msg.h"
#include "sandbox/sandbox.h"

#define FIELD(key, kind, member, ...)                                                              \
    {                                                                                              \
        .name = (key), .type = (kind), .off = offsetof(struct file_query, member), __VA_ARGS__     \
    }

static const struct query_field fields[] = {
    FIELD("path", QUERY_BYTES, path, .min = 1, .max = FILE_PATH_MAX, .required = true),
    FIELD("user", QUERY_STRING, user, .min = 1, .max = 255),
    FIELD("recursive", QUERY_BOOL, recursive),
    {0},
};

static void watch_end(struct file_call *call)
{
    if (call->op != NULL)
        file_op_cancel(take(call->op));
    sse_close(call->sse);
    file_call_free(call);
}

static void on_sse_gone(struct sse *s, void *data)
{
    (void)s;
    watch_end(data);
}

/* Meanwhile events wait in the kernel's inotify queue; if that overflows, an "overflow" event
 * follows. */
static void on_sse_drain(struct sse *s, void *data)
{
    struct file_call *call = data;

    (void)s;
    if (call->op != NULL)
        file_op_resume(call->op);
}

static int watch_open_stream(struct file_call *call)
{
    const struct sse_options options = {
        .on_drain = on_sse_drain, .on_gone = on_sse_gone, .data = call};

    call->req->on_gone = NULL;
    return sse_open(call->req, &options, &call->sse);
}

/* Negative: the stream must be ended; 1: the queue is full. */
static int watch_send_event(struct file_call *call, const struct file_event *e)
{
    auto_ptr(json_decref) json_t *root = file_encode_event(e);
    auto_free char *text = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;

    return text == NULL ? -ENOMEM
                        : sse_send(call->sse, NULL, file_event_name(e), text, strlen(text));
}

static void on_watch_frame(void *data, const struct frame *f)
{
    struct file_call *call = data;
    const uint8_t *at = f->data, *end = f->data + f->len;
    struct file_event e;
    int r = 0, sent;

    if (call->sse == NULL) {
        r = watch_open_stream(call);
        if (r < 0) {
            file_op_cancel(take(call->op));
            reply_errorf(call->req, r, "out of memory");
            file_call_free(call);
            return;
        }
    }
    while ((r = file_next_event(&at, end, &e)) > 0) {
        sent = watch_send_event(call, &e);
        if (sent < 0) {
            watch_end(call);
            return;
        }
        if (sent > 0)
            file_op_pause(call->op);
    }
    if (r < 0)
        watch_end(call);
}

static void on_watch_done(void *data, int r, const struct err *err)
{
    struct file_call *call = data;

    call->op = NULL;
    if (call->sse != NULL)
        watch_end(call); /* the last event was "gone", or the sandbox has ended */
    else if (r < 0)
        file_call_fail(call, err);
    else {
        reply_empty(call->req, 204); /* it disappeared before the watch was set up */
        file_call_free(call);
    }
}

void file_watch(struct http_request *req)
{
    static const struct file_request request = {
        .stream = FRAME_STREAM_RECORDS, .max_frame = FILE_BATCH_MAX, .watch = true};
    static const struct file_events events = {.on_frame = on_watch_frame, .on_done = on_watch_done};
    struct sandbox *s;
    struct file_call *call = file_call_new(req, fields, "watch", &s);

    if (call == NULL)
        return;
    if (!api_watcher_take(req)) {
        file_call_free(call);
        return;
    }
    call->watching = native_of(req);
    call->named = true;
    file_arg(call, "rind-watch");
    file_arg(call, call->q.path);
    file_arg_if(call, call->q.recursive, "--recursive");
    file_call_start(call, s, &request, &events);
}
