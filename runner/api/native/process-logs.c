/* GET …/logs: a process's stored output, or its output from an offset on, as events. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "api/common.h"
#include "api/native/exec-json.h"
#include "api/native/process-forms.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/number.h"
#include "base/strtab.h"
#include "exec/process.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "http/server.h"
#include "http/sse.h"
#include "json/parse.h"
#include "proto/utf8.h"
#include "sandbox/sandbox.h"
#include "sandbox/services.h"

enum {
    STREAMS = 2,
    STREAM_BOTH = 2,
    FOLLOW_CHUNK = 32 << 10,    /* bytes of one event's data, before encoding */
    FOLLOW_TURN = 256 << 10,    /* bytes of a stream before other handles are served */
    FOLLOW_QUEUE_MAX = 2 << 20, /* one event in its longest form, above SSE_PAUSE */
};

static const char *const stream_names[STREAMS] = {"stdout", "stderr"};
static const struct strtab streams[] = {
    {"stdout", PROCESS_STDOUT}, {"stderr", PROCESS_STDERR}, {"both", STREAM_BOTH}, {NULL, 0}};

struct native_process_logs_query {
    int stream;
    int64_t offsets[STREAMS];
    int64_t limit; /* bytes per stream; -1 = all stored bytes */
    bool follow, last_run;
};

/* clang-format off */
static const struct query_field fields[] = {
    {.name = "stream",       .type = QUERY_ENUM, .off = offsetof(struct native_process_logs_query, stream), .names = streams},
    {.name = "stdoutOffset", .type = QUERY_INT,  .off = offsetof(struct native_process_logs_query, offsets[PROCESS_STDOUT]), .max = INT64_MAX},
    {.name = "stderrOffset", .type = QUERY_INT,  .off = offsetof(struct native_process_logs_query, offsets[PROCESS_STDERR]), .max = INT64_MAX},
    {.name = "limit",        .type = QUERY_INT,  .off = offsetof(struct native_process_logs_query, limit), .min = 1, .max = INT64_MAX},
    {.name = "follow",       .type = QUERY_BOOL, .off = offsetof(struct native_process_logs_query, follow)},
    {.name = "lastRun",      .type = QUERY_BOOL, .off = offsetof(struct native_process_logs_query, last_run)},
    {0},
};
/* clang-format on */

static bool stream_is_wanted(int asked, int stream)
{
    return asked == STREAM_BOTH || asked == stream;
}

/* ---- stored output ---- */

/* Reads from *offset on until `all` is full. `all` has no gaps: if the log's rotation overtakes
 * the reading, it starts anew. */
static int log_read_stored(struct process *p, int stream, uint64_t *offset, struct buf *all,
                           struct err *err)
{
    static char piece[FOLLOW_CHUNK]; /* static: the loop has one thread */

    while (all->len < all->max) {
        size_t room = all->max - all->len;
        uint64_t gap = 0;
        ssize_t n = process_read_log(p, stream, offset, piece,
                                     room < sizeof(piece) ? room : sizeof(piece), &gap, err);

        if (n <= 0)
            return (int)n;
        if (gap > 0)
            all->len = 0;
        if (buf_append(all, piece, (size_t)n) < 0)
            return err_errno(err, -ENOMEM, "log");
    }
    return 0;
}

/* Removes incomplete characters at the edges. The one at the end is sent later with its rest;
 * the start of the one at the beginning is lost. */
static void log_trim(struct buf *all, uint64_t from, uint64_t *offset, bool more)
{
    size_t tail = more ? exec_text_tail(all->data, all->len) : 0, head = 0;

    if (*offset - all->len > from)
        while (head < 3 && head < all->len - tail &&
               ((unsigned char)all->data[head] & 0xc0) == 0x80)
            head++;
    if (!utf8_valid(all->data + head, all->len - tail - head))
        return; /* binary anyway */
    all->len -= tail;
    *offset -= tail;
    buf_consume(all, head);
}

/* Encodes one stream from an offset on, up to `limit` bytes. NULL: failed, err is set. */
static json_t *encode_stream(struct process *p, int stream, uint64_t from, uint64_t run,
                             size_t limit, struct err *err)
{
    auto_buf struct buf all = BUF_INIT(limit);
    struct process_log state;
    uint64_t offset = from;
    bool base64 = false;
    json_t *root, *text;

    if (log_read_stored(p, stream, &offset, &all, err) < 0)
        return NULL;
    process_log_state(p, stream, &state);
    if (all.len > 0)
        log_trim(&all, from, &offset, process_runs(p) || offset < state.end);
    text = exec_bytes(all.len > 0 ? all.data : "", all.len, &base64);
    root =
        json_pack("{s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "data", text, "encoding",
                  base64 ? "base64" : "utf8", "offset", (json_int_t)(offset - all.len), "next",
                  (json_int_t)offset, "end", (json_int_t)state.end, "run", (json_int_t)run, "lost",
                  (json_int_t)(offset - all.len - from), "dropped", (json_int_t)state.dropped);
    if (root == NULL)
        (void)err_errno(err, -ENOMEM, "log");
    return root;
}

static void get_stored_log(struct http_request *req, struct process *p,
                           const struct native_process_logs_query *q)
{
    auto_ptr(json_decref) json_t *root = json_object();
    uint64_t kept = supervisor_limits(api_supervisor(req))->log_bytes, runs[STREAMS];
    struct err err = ERR_NONE;

    process_run_offsets(p, runs);
    for (int i = 0; root != NULL && i < STREAMS; i++) {
        json_t *one;

        if (!stream_is_wanted(q->stream, i))
            continue;
        one = encode_stream(
            p, i, (uint64_t)q->offsets[i], runs[i],
            q->limit > 0 && (uint64_t)q->limit < kept ? (size_t)q->limit : (size_t)kept, &err);
        if (one == NULL) {
            reply_error(req, &err);
            return;
        }
        (void)json_object_set_new(root, stream_names[i], one);
    }
    reply_json(req, 200, json_incref(root));
}

/* ---- following ---- */

/* Frees itself when its client is gone or too slow, or when everything was sent. */
struct log_follow {
    struct process_watcher watcher; /* first */
    struct process *process;        /* NULL once it was deleted */
    struct native *native;
    struct sse *sse;
    int stream;
    uint64_t offsets[STREAMS], dropped[STREAMS];
    bool blocked, dead;
    bool more;        /* bytes were left at the end of the turn */
    uv_timer_t later; /* the next turn */
};

static void on_later_closed(uv_handle_t *h)
{
    free(h->data);
}

static void follow_end(struct log_follow *f)
{
    if (f->dead)
        return;
    f->dead = true;
    if (f->process != NULL)
        process_unwatch(f->process, &f->watcher);
    api_watcher_drop(f->native);
    sse_close(f->sse);
    uv_close((uv_handle_t *)&f->later, on_later_closed);
}

/* Takes root. The event's id contains the offsets after everything sent so far. Returns the
 * result of sse_send. */
static int follow_send_json(struct log_follow *f, const char *event, json_t *root)
{
    auto_free char *text = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
    char id[64];

    json_decref(root);
    if (text == NULL)
        return -ENOMEM;
    (void)snprintf(id, sizeof(id), "%" PRIu64 "-%" PRIu64, f->offsets[0], f->offsets[1]);
    return sse_send(f->sse, id, event, text, strlen(text));
}

static int follow_send_lost(struct log_follow *f, int stream, uint64_t bytes, const char *why)
{
    return follow_send_json(f, "lost",
                            json_pack("{s:s, s:I, s:s}", "stream", stream_names[stream], "bytes",
                                      (json_int_t)bytes, "reason", why));
}

/* Output that was dropped for lack of disk space has no offset: it is reported when first
 * noticed. */
static int follow_send_dropped(struct log_follow *f, int stream)
{
    struct process_log state;
    uint64_t before = f->dropped[stream];

    process_log_state(f->process, stream, &state);
    if (state.dropped <= before)
        return 0;
    f->dropped[stream] = state.dropped;
    return follow_send_lost(f, stream, state.dropped - before, "noSpace");
}

/* Sends one piece of one stream. Returns its size, 0 if there is nothing newer, or a negative
 * errno if the stream must be ended. *ret_full: the client's queue is full. */
static ssize_t follow_send_piece(struct log_follow *f, int stream, bool ended, bool *ret_full)
{
    static char piece[FOLLOW_CHUNK]; /* static: the loop has one thread */
    uint64_t offset = f->offsets[stream], lost = 0;
    struct err err = ERR_NONE;
    ssize_t n;
    size_t tail;
    json_t *chunk;
    int r = 0;

    n = process_read_log(f->process, stream, &offset, piece, sizeof(piece), &lost, &err);
    if (n <= 0)
        return n;
    /* An incomplete character is read again with its rest. */
    tail = exec_text_tail(piece, (size_t)n);
    if (tail == (size_t)n && !ended)
        return 0;
    if (tail == (size_t)n || !utf8_valid(piece, (size_t)n - tail))
        tail = 0;
    f->offsets[stream] = offset - (uint64_t)n;
    if (lost > 0)
        r = follow_send_lost(f, stream, lost, "rotated");
    f->offsets[stream] = offset - tail;
    chunk = exec_chunk(piece, (size_t)n - tail);
    if (chunk != NULL)
        (void)json_object_set_new(chunk, "offset",
                                  json_integer((json_int_t)(offset - (uint64_t)n)));
    if (r >= 0)
        r = follow_send_json(f, stream_names[stream], chunk);
    else
        json_decref(chunk);
    *ret_full = r > 0;
    return r < 0 ? r : n;
}

/* Sends at most FOLLOW_TURN bytes: a process can write as fast as a client, or the socket of a
 * gone client, takes them. */
static int follow_send_stream(struct log_follow *f, int stream, bool ended, bool *ret_full)
{
    size_t sent = 0;
    ssize_t n = 1;
    int r = follow_send_dropped(f, stream);

    while (r >= 0 && n > 0 && !*ret_full && sent < FOLLOW_TURN) {
        n = follow_send_piece(f, stream, ended, ret_full);
        if (n < 0)
            r = (int)n;
        else
            sent += (size_t)n;
    }
    f->more |= sent >= FOLLOW_TURN;
    return r;
}

static void on_follow_later(uv_timer_t *h);

/* Sends output until the client's queue is full or none is left. */
static void follow_send(struct log_follow *f)
{
    bool ended = !process_runs(f->process), full = false;
    int r = 0;

    f->more = false;
    for (int i = 0; r >= 0 && !full && i < STREAMS; i++)
        if (stream_is_wanted(f->stream, i))
            r = follow_send_stream(f, i, ended, &full);
    f->blocked = full;
    if (r == -EPIPE)
        return; /* on_sse_gone follows */
    if (r >= 0 && f->more && !full)
        (void)uv_timer_start(&f->later, on_follow_later, 1, 0);
    if (r >= 0 && (!ended || full || f->more))
        return;
    if (r >= 0)
        (void)follow_send_json(f, "exit", process_encode(f->process)); /* the stream ends, even if
                                                                        * this cannot be sent */
    follow_end(f);
}

static void on_follow_later(uv_timer_t *h)
{
    follow_send(h->data);
}

static enum process_watched on_process_change(struct process_watcher *watcher, struct process *p)
{
    struct log_follow *f = (struct log_follow *)(void *)watcher;

    if (p == NULL) {
        f->process = NULL;
        (void)follow_send_json(f, "deleted", json_object());
        follow_end(f);
    } else if (!f->blocked && !uv_is_active((uv_handle_t *)&f->later)) {
        follow_send(f);
    }
    return PROCESS_KEPT;
}

static void on_sse_drain(struct sse *s, void *data)
{
    struct log_follow *f = data;

    (void)s;
    f->blocked = false;
    follow_send(f);
}

static void on_sse_gone(struct sse *s, void *data)
{
    (void)s;
    follow_end(data);
}

/* A reconnecting client sends Last-Event-ID by itself, so it overrides the offsets. */
static int query_take_last_id(const struct http_request *req, struct native_process_logs_query *q,
                              struct err *err)
{
    const char *last = sse_last_event_id(req), *at;
    int64_t out, errors = -1;

    if (last == NULL || last[0] == '\0')
        return 0;
    at = last;
    out = number_take(&at, NUMBER_DIGITS_MAX);
    if (out >= 0 && *at == '-')
        errors = number_whole(at + 1, NUMBER_DIGITS_MAX);
    if (errors < 0)
        return err_set(err, -EINVAL, "Last-Event-ID: \"%.64s\" is no id of an event", last);
    q->offsets[PROCESS_STDOUT] = out;
    q->offsets[PROCESS_STDERR] = errors;
    return 0;
}

/* Skips earlier runs. A reconnecting client still gets the rest of the run that it was
 * following. */
static void query_skip_earlier_runs(const struct process *p, struct native_process_logs_query *q)
{
    uint64_t runs[STREAMS];

    process_run_offsets(p, runs);
    for (int i = 0; i < STREAMS; i++)
        if ((uint64_t)q->offsets[i] < runs[i])
            q->offsets[i] = (int64_t)runs[i];
}

static void begin_follow(struct http_request *req, struct process *p,
                         const struct native_process_logs_query *q)
{
    struct sse_options options = {
        .max = FOLLOW_QUEUE_MAX, .on_drain = on_sse_drain, .on_gone = on_sse_gone};
    struct log_follow *f;
    struct err err = ERR_NONE;
    int r;

    if (!api_watcher_take(req))
        return;
    f = calloc(1, sizeof(*f));
    if (f == NULL) {
        api_watcher_drop(native_of(req));
        reply_errorf(req, -ENOMEM, "out of memory");
        return;
    }
    *f = (struct log_follow){.watcher = {.on_change = on_process_change},
                             .native = native_of(req),
                             .stream = q->stream,
                             .offsets = {(uint64_t)q->offsets[0], (uint64_t)q->offsets[1]}};
    options.data = f;
    r = process_watch(p, &f->watcher, &err);
    if (r == 0) {
        f->process = p;
        r = sse_open(req, &options, &f->sse);
        if (r < 0) {
            process_unwatch(p, &f->watcher);
            (void)err_errno(&err, r, "log");
        }
    }
    if (r < 0) {
        api_watcher_drop(native_of(req));
        free(f);
        reply_error(req, &err);
        return;
    }
    (void)uv_timer_init(http_loop(req), &f->later); /* never fails */
    f->later.data = f;
    follow_send(f);
}

void process_get_logs(struct http_request *req)
{
    struct process *p = process_requested_or_main(req);
    const char *accept = http_header(req, "accept");
    struct native_process_logs_query q = {.stream = STREAM_BOTH, .limit = -1};
    struct err err = ERR_NONE;
    int r;

    if (p == NULL)
        return;
    r = http_query(req, fields, &q, &err);
    if (accept != NULL && strstr(accept, "text/event-stream") != NULL)
        q.follow = true;
    if (r == 0 && q.follow && q.limit >= 0)
        r = err_set(&err, -EINVAL, "limit: not with follow");
    if (r == 0 && q.last_run)
        query_skip_earlier_runs(p, &q);
    if (r == 0 && q.follow)
        r = query_take_last_id(req, &q, &err);
    if (r < 0)
        reply_error(req, &err);
    else if (q.follow)
        begin_follow(req, p, &q);
    else
        get_stored_log(req, p, &q);
}
