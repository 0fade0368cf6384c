/* Requests that wait for an event of a process: its end, or a line of its log. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/common.h"
#include "api/native/exec-body.h"
#include "api/native/exec-json.h"
#include "api/native/process-forms.h"
#include "api/native/process-match.h"
#include "base/strtab.h"
#include "exec/process.h"
#include "http/json-body.h"
#include "http/reply.h"
#include "http/server.h"
#include "json/decode.h"

/* ---- shared ---- */

static void on_waiter_handle_closed(uv_handle_t *h)
{
    struct process_waiter *w = h->data;

    if (--w->handles == 0)
        w->ops->release(w);
}

void process_waiter_end(struct process_waiter *w)
{
    if (w->dead)
        return;
    w->dead = true;
    if (w->process != NULL)
        process_unwatch(w->process, &w->watcher);
    w->process = NULL;
    w->req->on_gone = NULL;
    api_watcher_drop(native_of(w->req));
    if (w->ops->stopped != NULL)
        w->ops->stopped(w);
    uv_close((uv_handle_t *)&w->deadline, on_waiter_handle_closed);
}

void process_waiter_fail(struct process_waiter *w, const struct err *err)
{
    process_waiter_end(w);
    reply_error(w->req, err);
}

static void on_waiter_gone(struct http_request *req)
{
    process_waiter_end(req->data);
    http_abort(req);
}

static void on_waiter_deadline(uv_timer_t *h)
{
    struct process_waiter *w = h->data;

    process_waiter_end(w);
    reply_errorf(w->req, -ETIMEDOUT, "process '%s': the time is over", w->id);
}

/* The process has ended, but the request waits for something else. */
static void waiter_fail_ended(struct process_waiter *w)
{
    struct process_info f;
    char text[160];

    process_get_info(w->process, &f);
    (void)snprintf(text, sizeof(text), "process '%s' has ended (%s, exit code %d) before", w->id,
                   process_state_name(f.state), f.exit_code);
    process_waiter_end(w);
    reply_failure(w->req, 409, "ECHILD", text, NULL);
}

static enum process_watched on_process_change(struct process_watcher *watcher, struct process *p)
{
    struct process_waiter *w = (struct process_waiter *)(void *)watcher;
    bool ended;

    if (p == NULL) {
        w->process = NULL; /* process_unwatch must not be called now */
        process_waiter_end(w);
        reply_errorf(w->req, -ESTALE, "process '%s' has been deleted", w->id);
        return PROCESS_KEPT;
    }
    ended = !process_runs(p);
    if (!w->ops->changed(w, ended) && ended)
        waiter_fail_ended(w);
    return w->deleted ? PROCESS_DELETED : PROCESS_KEPT;
}

int process_waiter_begin(struct process_waiter *w, struct http_request *req, struct process *p,
                         int64_t timeout_ms, const struct process_waiter_ops *ops)
{
    struct err err = ERR_NONE;
    struct process_info f;

    if (!api_watcher_take(req))
        return -EUSERS;
    w->watcher.on_change = on_process_change;
    if (process_watch(p, &w->watcher, &err) < 0) {
        api_watcher_drop(native_of(req));
        reply_error(req, &err);
        return err.code;
    }
    process_get_info(p, &f);
    (void)snprintf(w->id, sizeof(w->id), "%s", f.id);
    w->ops = ops;
    w->req = req;
    w->process = p;
    w->handles = 1;
    (void)uv_timer_init(http_loop(req), &w->deadline); /* never fails */
    w->deadline.data = w;
    req->data = w;
    req->on_gone = on_waiter_gone;
    if (timeout_ms != PROCESS_WAIT_ANY)
        (void)uv_timer_start(&w->deadline, on_waiter_deadline, (uint64_t)timeout_ms, 0);
    (void)on_process_change(&w->watcher, p);
    return 0;
}

/* ---- the end ---- */

struct exit_json {
    int64_t timeout_ms;
};

static const struct jfield exit_fields[] = {
    {.name = "timeoutMs",
     .decode = j_int64,
     .off = offsetof(struct exit_json, timeout_ms),
     .min = 1,
     .max = EXEC_TIMEOUT_MAX,
     .nullable = true},
    {0},
};

static bool exit_changed(struct process_waiter *w, bool ended)
{
    json_t *root;

    if (!ended)
        return false;
    root = process_encode(w->process);
    process_waiter_end(w);
    reply_json(w->req, 200, root);
    return true;
}

static void exit_release(struct process_waiter *w)
{
    free(w);
}

static const struct process_waiter_ops exit_ops = {.changed = exit_changed,
                                                   .release = exit_release};

void process_wait_exit(struct http_request *req)
{
    struct process *p = process_requested_or_main(req);
    struct exit_json body = {.timeout_ms = PROCESS_WAIT_ANY};
    struct process_waiter *w;
    struct err err = ERR_NONE;

    if (p == NULL)
        return;
    if (json_body(req, exit_fields, &body, &err) < 0) {
        reply_error(req, &err);
        return;
    }
    w = calloc(1, sizeof(*w));
    if (w == NULL)
        reply_errorf(req, -ENOMEM, "out of memory");
    else if (process_waiter_begin(w, req, p, body.timeout_ms, &exit_ops) < 0)
        free(w);
}

/* ---- a line ---- */

enum {
    STREAMS = 2,
    STREAM_BOTH = 2,
    SCAN_CHUNK = 32 << 10, /* bytes of one read of the log */
    SCAN_SLICE_US = 5000,  /* microseconds of searching before other handles are served */
};

struct log_json {
    char *text, *pattern; /* owned */
    int stream;           /* PROCESS_STDOUT, PROCESS_STDERR, STREAM_BOTH */
    int64_t timeout_ms;
    int64_t offsets[STREAMS];
};

static const struct strtab streams[] = {
    {"stdout", PROCESS_STDOUT}, {"stderr", PROCESS_STDERR}, {"both", STREAM_BOTH}, {NULL, 0}};

/* clang-format off */
static const struct jfield log_fields[] = {
    {.name = "text",         .decode = j_string, .off = offsetof(struct log_json, text), .nullable = true},
    {.name = "pattern",      .decode = j_string, .off = offsetof(struct log_json, pattern), .nullable = true},
    {.name = "stream",       .decode = j_enum,   .off = offsetof(struct log_json, stream), .names = streams},
    {.name = "timeoutMs",    .decode = j_int64,  .off = offsetof(struct log_json, timeout_ms), .min = 1,
     .max = EXEC_TIMEOUT_MAX, .nullable = true},
    {.name = "stdoutOffset", .decode = j_int64,  .off = offsetof(struct log_json, offsets[PROCESS_STDOUT]), .max = INT64_MAX},
    {.name = "stderrOffset", .decode = j_int64,  .off = offsetof(struct log_json, offsets[PROCESS_STDERR]), .max = INT64_MAX},
    {0},
};
/* clang-format on */

struct log_waiter {
    struct process_waiter base; /* first */
    struct match *match;        /* owned */
    uint64_t offsets[STREAMS];
    int stream;
    struct match_lines lines[STREAMS];
    uv_timer_t later; /* continues after other handles were served */
    bool scheduled;
};

static void waiter_reply_line(struct log_waiter *w, int stream, uint64_t next)
{
    const struct match_lines *l = &w->lines[stream];
    struct http_request *req = w->base.req;
    json_t *root = exec_chunk(l->line, l->len);

    if (root != NULL) {
        (void)json_object_set_new(root, "line", json_incref(json_object_get(root, "data")));
        (void)json_object_del(root, "data");
        (void)json_object_set_new(root, "stream",
                                  json_string(stream == PROCESS_STDOUT ? "stdout" : "stderr"));
        (void)json_object_set_new(root, "next", json_integer((json_int_t)next));
    }
    process_waiter_end(&w->base);
    reply_json(req, 200, root);
}

static void waiter_fail_too_costly(struct log_waiter *w)
{
    struct err err = ERR_NONE;

    (void)err_set(&err, -ERANGE, "pattern: matching a line with it takes too many steps");
    process_waiter_fail(&w->base, &err);
}

enum scan { SCAN_ALL = 0, SCAN_ANSWERED, SCAN_MORE };

/* Searches one piece of one stream. */
static enum scan log_scan_piece(struct log_waiter *w, int stream)
{
    static char piece[SCAN_CHUNK]; /* static: the loop has one thread */
    uint64_t start, lost = 0;
    struct err err = ERR_NONE;
    size_t used = 0;
    ssize_t n;
    int r;

    n = process_read_log(w->base.process, stream, &w->offsets[stream], piece, sizeof(piece), &lost,
                         &err);
    if (n < 0) {
        process_waiter_fail(&w->base, &err);
        return SCAN_ANSWERED;
    }
    if (n == 0)
        return SCAN_ALL;
    if (lost > 0)
        w->lines[stream].len = 0; /* it holds the beginning of another line */
    start = w->offsets[stream] - (uint64_t)n;
    r = match_feed(w->match, &w->lines[stream], piece, (size_t)n, &used);
    if (r == 0)
        return SCAN_MORE;
    if (r < 0)
        waiter_fail_too_costly(w);
    else
        waiter_reply_line(w, stream, start + used);
    return SCAN_ANSWERED;
}

static enum scan log_scan_rest(struct log_waiter *w, int stream, bool ended)
{
    int r = match_rest(w->match, &w->lines[stream], ended);

    if (r == 0)
        return SCAN_ALL;
    if (r < 0)
        waiter_fail_too_costly(w);
    else
        waiter_reply_line(w, stream, w->offsets[stream]);
    return SCAN_ANSWERED;
}

static void on_scan_later(uv_timer_t *h);

static enum scan log_scan(struct log_waiter *w, bool ended)
{
    uint64_t until = uv_hrtime() + (uint64_t)SCAN_SLICE_US * 1000;
    enum scan r = SCAN_ALL;

    for (int i = 0; i < STREAMS; i++) {
        if (w->stream != STREAM_BOTH && w->stream != i)
            continue;
        while ((r = log_scan_piece(w, i)) == SCAN_MORE && uv_hrtime() < until)
            ;
        if (r == SCAN_MORE) {
            w->scheduled = true;
            (void)uv_timer_start(&w->later, on_scan_later, 1, 0);
            return r;
        }
        if (r == SCAN_ALL)
            r = log_scan_rest(w, i, ended);
        if (r == SCAN_ANSWERED)
            return r;
    }
    return SCAN_ALL;
}

/* While a search is scheduled, its end is handled there. */
static bool log_changed(struct process_waiter *base, bool ended)
{
    struct log_waiter *w = (struct log_waiter *)(void *)base;

    return w->scheduled || log_scan(w, ended) != SCAN_ALL;
}

static void on_scan_later(uv_timer_t *h)
{
    struct log_waiter *w = h->data;

    w->scheduled = false;
    if (!w->base.dead)
        (void)on_process_change(&w->base.watcher, w->base.process);
}

static void on_later_closed(uv_handle_t *h)
{
    struct log_waiter *w = h->data;

    match_free(w->match);
    free(w);
}

static void log_release(struct process_waiter *base)
{
    struct log_waiter *w = (struct log_waiter *)(void *)base;

    uv_close((uv_handle_t *)&w->later, on_later_closed);
}

static const struct process_waiter_ops log_ops = {.changed = log_changed, .release = log_release};

static void log_wait_begin(struct http_request *req, struct process *p, const struct log_json *body,
                           struct match *match)
{
    struct log_waiter *w = calloc(1, sizeof(*w));
    uint64_t runs[STREAMS];

    if (w == NULL) {
        match_free(match);
        reply_errorf(req, -ENOMEM, "out of memory");
        return;
    }
    w->match = match;
    w->stream = body->stream;
    /* The output of earlier runs is not searched. */
    process_run_offsets(p, runs);
    for (int i = 0; i < STREAMS; i++)
        w->offsets[i] = (uint64_t)body->offsets[i] > runs[i] ? (uint64_t)body->offsets[i] : runs[i];
    (void)uv_timer_init(http_loop(req), &w->later); /* never fails */
    w->later.data = w;
    if (process_waiter_begin(&w->base, req, p, body->timeout_ms, &log_ops) < 0)
        log_release(&w->base);
}

void process_wait_log(struct http_request *req)
{
    struct process *p = process_requested_or_main(req);
    struct log_json body = {.stream = STREAM_BOTH, .timeout_ms = PROCESS_WAIT_ANY};
    struct match *match = NULL;
    struct err err = ERR_NONE;
    int r;

    if (p == NULL)
        return;
    r = json_body(req, log_fields, &body, &err);
    if (r == 0)
        r = match_new(body.text, body.pattern, &match, &err);
    free(body.text);
    free(body.pattern);
    if (r < 0)
        reply_error(req, &err);
    else
        log_wait_begin(req, p, &body, match);
}
