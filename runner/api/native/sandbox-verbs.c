#include "api/native/sandbox-verbs.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "api/common.h"
#include "api/native/sandbox-attach.h"
#include "api/native/sandbox-json.h"
#include "base/auto.h"
#include "base/clock.h"
#include "http/json-body.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "json/decode.h"
#include "launch/launcher.h"
#include "sandbox/sandbox.h"
#include "spec/signals.h"
#include "spec/spec.h"

/* ---- start, pause, resume: without parameters ---- */

typedef int plain_verb(struct sandbox *s, sandbox_cb cb, void *data, struct err *err);

static void run_plain_verb(struct http_request *req, plain_verb *verb)
{
    static const struct jfield nothing[] = {{0}};
    struct sandbox *s = api_sandbox(req);
    struct api_call *call;
    struct err err = ERR_NONE;

    if (s == NULL)
        return;
    if (json_body(req, nothing, NULL, &err) < 0 || http_query(req, NULL, NULL, &err) < 0) {
        reply_error(req, &err);
        return;
    }
    call = api_call_new(req, s);
    if (call != NULL && verb(s, api_done_sandbox, call, &err) < 0)
        api_call_fail(call, &err);
}

void sandbox_post_start(struct http_request *req)
{
    struct sandbox *s = req->upgrade ? api_sandbox(req) : NULL;

    if (s != NULL)
        attach_start(req, s);
    else if (!req->upgrade)
        run_plain_verb(req, sandbox_start);
}

void sandbox_post_pause(struct http_request *req)
{
    run_plain_verb(req, sandbox_pause);
}

void sandbox_post_resume(struct http_request *req)
{
    run_plain_verb(req, sandbox_resume);
}

/* ---- stop, restart ---- */

struct stop_body {
    int64_t timeout_ms;
};

static const struct jfield stop_fields[] = {
    {.name = "timeoutMs",
     .decode = j_int64,
     .off = offsetof(struct stop_body, timeout_ms),
     .min = 0,
     .max = SPEC_TIME_MAX_MS,
     .nullable = true},
    {0},
};

typedef int timed_verb(struct sandbox *s, int64_t timeout_ms, sandbox_cb cb, void *data,
                       struct err *err);

static void run_timed_verb(struct http_request *req, timed_verb *verb)
{
    struct stop_body body = {.timeout_ms = LIMIT_UNSET};
    struct sandbox *s = api_sandbox(req);
    struct api_call *call;
    struct err err = ERR_NONE;

    if (s == NULL)
        return;
    if (json_body(req, stop_fields, &body, &err) < 0 || http_query(req, NULL, NULL, &err) < 0) {
        reply_error(req, &err);
        return;
    }
    call = api_call_new(req, s);
    if (call != NULL && verb(s, body.timeout_ms, api_done_sandbox, call, &err) < 0)
        api_call_fail(call, &err);
}

void sandbox_post_stop(struct http_request *req)
{
    run_timed_verb(req, sandbox_stop);
}

void sandbox_post_restart(struct http_request *req)
{
    run_timed_verb(req, sandbox_restart);
}

/* ---- signal ---- */

struct signal_body {
    int64_t signo;
};

static int j_signal(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
                    struct err *err)
{
    struct err why = ERR_NONE;
    int signo = 0;

    if (json_is_integer(value))
        return j_int64(value, field, dst, path, err);
    if (!json_is_string(value))
        return json_fail(err, -EINVAL, path, "must be a signal's name or number");
    if (signal_parse("signal", json_string_value(value), &signo, &why) < 0)
        return json_fail(err, why.code, path, "%s", why.msg);
    *(int64_t *)(void *)((char *)dst + field->off) = signo;
    return 0;
}

static const struct jfield signal_fields[] = {
    {.name = "signal",
     .decode = j_signal,
     .off = offsetof(struct signal_body, signo),
     .min = 1,
     .max = 64,
     .required = true},
    {0},
};

void sandbox_post_signal(struct http_request *req)
{
    struct sandbox *s = api_sandbox(req);
    struct signal_body body = {0};
    struct err err = ERR_NONE;
    int r;

    if (s == NULL)
        return;
    r = json_body(req, signal_fields, &body, &err);
    if (r == 0)
        r = sandbox_signal(s, (int)body.signo, &err);
    if (r < 0)
        reply_error(req, &err);
    else
        reply_empty(req, 204);
}

/* ---- rename ---- */

struct rename_body {
    char *name; /* owned */
};

static const struct jfield rename_body_fields[] = {
    {.name = "name",
     .decode = j_string,
     .off = offsetof(struct rename_body, name),
     .required = true},
    {0},
};

void sandbox_post_rename(struct http_request *req)
{
    struct sandbox *s = api_sandbox(req);
    struct rename_body body = {.name = NULL};
    struct err err = ERR_NONE;
    int r;

    if (s == NULL)
        return;
    r = http_query(req, NULL, NULL, &err);
    if (r == 0)
        r = json_body(req, rename_body_fields, &body, &err);
    if (r == 0)
        r = sandbox_rename(s, body.name, &err);
    if (r < 0)
        reply_error(req, &err);
    else
        reply_json(req, 200, sandbox_encode(s, true));
    free(body.name);
}

/* ---- stats ---- */

static json_t *disk_encode(const struct launch_disk *d)
{
    if (d->limit == 0)
        return json_null();
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "limitBytes", (json_int_t)d->limit,
                     "hostBytes", (json_int_t)d->allocated, "sizeBytes", (json_int_t)d->size,
                     "usedBytes", (json_int_t)d->used, "inodes", (json_int_t)d->inodes,
                     "inodesUsed", (json_int_t)d->inodes_used);
}

static void on_sandbox_stats(void *data, int r, const struct launch_reply *reply,
                             const struct err *err)
{
    struct api_call *call = data;

    if (r < 0) {
        api_done_empty(call, r, err);
        return;
    }
    reply_json(call->req, 200,
               json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:o}", "time", api_time(clock_wall_ms()),
                         "memoryBytes", (json_int_t)reply->memory_bytes, "memoryPeakBytes",
                         (json_int_t)reply->memory_peak_bytes, "cpuMicros",
                         (json_int_t)reply->cpu_usec, "pids", (json_int_t)reply->pids, "oomKills",
                         (json_int_t)reply->oom_kills, "disk", disk_encode(&reply->disk)));
    api_call_free(call);
}

void sandbox_get_stats(struct http_request *req)
{
    struct sandbox *s = api_sandbox(req);
    struct api_call *call;
    struct err err = ERR_NONE;

    if (s == NULL)
        return;
    if (http_query(req, NULL, NULL, &err) < 0) {
        reply_error(req, &err);
        return;
    }
    call = api_call_new(req, s);
    if (call != NULL && sandbox_stats(s, on_sandbox_stats, call, &err) < 0)
        api_call_fail(call, &err);
}
