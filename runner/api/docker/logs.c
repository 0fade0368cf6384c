/* GET /containers/{id}/logs: the stored console output of a container, and its further output. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/docker/common.h"
#include "api/docker/containers.h"
#include "api/docker/frames.h"
#include "base/err.h"
#include "exec/console.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "sandbox/sandbox.h"
#include "spec/spec.h"

enum { STREAMS_MAX = 3, TAIL_ALL = -1 };

struct docker_logs_query {
    const char *follow, *out, *errors, *since, *until, *timestamps, *tail, *details;
};

#define FLAG(key, member)                                                                          \
    {                                                                                              \
        .name = (key), .type = QUERY_STRING, .off = offsetof(struct docker_logs_query, member),    \
        .max = 64                                                                                  \
    }

static const struct query_field fields[] = {
    FLAG("follow", follow), FLAG("stdout", out),      FLAG("stderr", errors),
    FLAG("since", since),   FLAG("until", until),     FLAG("timestamps", timestamps),
    FLAG("tail", tail),     FLAG("details", details), {0}};

/* The requested part of the log. */
struct wanted {
    bool streams[STREAMS_MAX];
    int64_t since_ns, until_ns; /* 0 = no bound */
    int64_t tail;               /* lines, or TAIL_ALL */
    bool timestamps, raw, follow;
};

struct follower {
    struct console_watcher watcher; /* first */
    struct http_request *req;
    struct native *native;
    struct sandbox *s; /* a reference */
    struct wanted w;
    uint64_t offset;
    bool begun[STREAMS_MAX]; /* the stream's last record did not end its line */
    bool blocked;
};

static bool record_is_wanted(const struct wanted *w, const struct console_record *r)
{
    return r->stream > 0 && r->stream < STREAMS_MAX && w->streams[r->stream] &&
           (w->since_ns == 0 || r->time_ns >= w->since_ns) &&
           (w->until_ns == 0 || r->time_ns <= w->until_ns);
}

/* Returns the offset of the last `tail` lines. A line of several pieces counts once, with its
 * last one; an unfinished line counts, too. */
static uint64_t log_find_tail(struct sandbox *s, const struct wanted *w)
{
    struct console_record r;
    uint64_t offset = 0, before = 0;
    int64_t lines = 0, skip;
    bool open = false;

    if (w->tail == TAIL_ALL)
        return 0;
    while (console_read(s, &offset, &r) == 1)
        if (record_is_wanted(w, &r)) {
            lines += r.whole;
            open = !r.whole;
        }
    lines += open;
    skip = lines > w->tail ? lines - w->tail : 0;
    if (w->tail == 0)
        return offset;
    for (offset = 0; skip > 0 && console_read(s, &offset, &r) == 1; before = offset)
        skip -= record_is_wanted(w, &r) && r.whole;
    return before;
}

/* False: the client's queue is full. */
static bool follower_send_record(struct follower *f, const struct console_record *r)
{
    static char line[DOCKER_TIME_MAX + 1 + CONSOLE_RECORD_MAX]; /* static: the loop has one
                                                                 * thread */
    size_t n = 0;

    if (f->w.timestamps && !f->begun[r->stream]) {
        docker_time_text(r->time_ns, line);
        n = strlen(line);
        line[n++] = ' ';
    }
    f->begun[r->stream] = !r->whole;
    (void)memcpy(line + n, r->bytes, r->len);
    return docker_send(f->req, f->w.raw, r->stream, line, n + r->len);
}

static void follower_free(struct follower *f)
{
    console_unwatch(&f->watcher);
    if (f->w.follow)
        api_watcher_drop(f->native);
    sandbox_unref(f->s);
    free(f);
}

static void follower_end(struct follower *f)
{
    struct http_request *req = f->req;

    follower_free(f);
    http_end(req);
}

static bool record_is_past(const struct follower *f, const struct console_record *r)
{
    return f->w.until_ns != 0 && r->time_ns > f->w.until_ns;
}

/* Sends records until the client's queue is full or none is left. */
static void follower_send(struct follower *f)
{
    struct console_record r;

    while (!f->blocked && console_read(f->s, &f->offset, &r) == 1) {
        if (record_is_past(f, &r)) {
            follower_end(f);
            return;
        }
        if (record_is_wanted(&f->w, &r) && !follower_send_record(f, &r))
            f->blocked = true;
    }
    if (!f->blocked && (!f->w.follow || console_is_over(f->s)))
        follower_end(f);
}

static void on_console_change(struct console_watcher *w)
{
    struct follower *f = (struct follower *)(void *)w;

    if (!f->req->gone)
        follower_send(f);
}

static void on_client_drain(struct http_request *req)
{
    struct follower *f = req->data;

    f->blocked = false;
    follower_send(f);
}

static void on_client_gone(struct http_request *req)
{
    follower_free(req->data);
    http_abort(req);
}

/* ---- the request ---- */

static int query_read_tail(const char *text, int64_t *ret, struct err *err)
{
    char *end = NULL;

    *ret = TAIL_ALL;
    if (text == NULL || text[0] == '\0' || strcmp(text, "all") == 0)
        return 0;
    *ret = strtoll(text, &end, 10);
    if (*end != '\0')
        return err_set(err, -EINVAL, "tail: \"%.64s\": must be a number or all", text);
    if (*ret < 0)
        *ret = TAIL_ALL;
    return 0;
}

static int logs_read_query(struct http_request *req, struct wanted *w, struct err *err)
{
    struct docker_logs_query q = {0};
    int r;

    r = http_query_known(req, fields, &q, err);
    if (r == 0)
        r = docker_time_query("since", q.since, &w->since_ns, err);
    if (r == 0)
        r = docker_time_query("until", q.until, &w->until_ns, err);
    if (r == 0)
        r = query_read_tail(q.tail, &w->tail, err);
    if (r < 0)
        return r;
    w->streams[1] = docker_bool(q.out);
    w->streams[2] = docker_bool(q.errors);
    w->timestamps = docker_bool(q.timestamps);
    w->follow = docker_bool(q.follow);
    if (!w->streams[1] && !w->streams[2])
        return err_set(err, -EINVAL, "Bad parameters: you must choose at least one stream");
    return 0;
}

static struct follower *follower_new(struct http_request *req, struct sandbox *s,
                                     const struct wanted *w)
{
    struct follower *f;

    if (w->follow && !api_watcher_take(req))
        return NULL;
    f = calloc(1, sizeof(*f));
    if (f == NULL) {
        if (w->follow)
            api_watcher_drop(native_of(req));
        reply_errorf(req, -ENOMEM, "out of memory");
        return NULL;
    }
    *f = (struct follower){.watcher = {.on_change = on_console_change},
                           .req = req,
                           .native = native_of(req),
                           .s = s,
                           .w = *w};
    sandbox_ref(s);
    return f;
}

void docker_get_logs(struct http_request *req)
{
    struct sandbox *s = docker_sandbox(req);
    struct wanted w = {.tail = TAIL_ALL};
    struct follower *f;
    struct err err = ERR_NONE;
    int r;

    if (s == NULL)
        return;
    r = logs_read_query(req, &w, &err);
    if (r == 0 && (sandbox_spec(s) == NULL || !sandbox_spec(s)->console))
        r = err_set(&err, -EOPNOTSUPP,
                    "container %s was not made over this API: its log is at /v1/sandboxes",
                    sandbox_name(s));
    if (r == 0 && sandbox_spec(s)->discard)
        r = err_set(&err, -EOPNOTSUPP, "configured logging driver does not support reading");
    if (r < 0) {
        reply_error(req, &err);
        return;
    }
    w.raw = sandbox_spec(s)->tty;
    f = follower_new(req, s, &w);
    if (f == NULL)
        return;
    f->offset = log_find_tail(s, &w);
    req->data = f;
    req->on_gone = on_client_gone;
    req->on_drain = on_client_drain;
    if (w.follow)
        (void)console_watch(s, &f->watcher, NULL);
    http_start(req, 200, NULL, docker_stream_type(req, w.raw));
    follower_send(f);
}
