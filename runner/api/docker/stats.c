/* GET /containers/{id}/stats: a container's resource usage. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <uv.h>

#include "api/docker/common.h"
#include "api/docker/containers.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "launch/launcher.h"
#include "policy/policy.h"
#include "sandbox/sandbox.h"
#include "sandbox/services.h"
#include "spec/spec.h"

enum { STATS_MS = 1000 };

struct stats_query {
    const char *stream, *one_shot;
};

static const struct query_field fields[] = {
    {.name = "stream",
     .type = QUERY_STRING,
     .off = offsetof(struct stats_query, stream),
     .max = 16},
    {.name = "one-shot",
     .type = QUERY_STRING,
     .off = offsetof(struct stats_query, one_shot),
     .max = 16},
    {0},
};

struct counters {
    int64_t time_us, cpu_usec;
};

struct docker_stats {
    struct http_request *req; /* NULL: the client is gone */
    struct native *native;
    struct sandbox *s; /* a reference */
    uv_timer_t timer;
    struct counters before;
    bool stream, asking, closing;
};

static void on_stats_timer_closed(uv_handle_t *h)
{
    struct docker_stats *st = h->data;

    sandbox_unref(st->s);
    free(st);
}

static void stats_close(struct docker_stats *st)
{
    if (st->closing || st->asking)
        return; /* on_sandbox_stats closes it */
    st->closing = true;
    api_watcher_drop(st->native);
    uv_close((uv_handle_t *)&st->timer, on_stats_timer_closed);
}

static json_t *encode_cpu(const struct counters *c)
{
    return json_pack("{s:{s:I, s:I, s:I}, s:I, s:i, s:{s:i, s:i, s:i}}", "cpu_usage", "total_usage",
                     (json_int_t)c->cpu_usec * 1000, "usage_in_kernelmode", (json_int_t)0,
                     "usage_in_usermode", (json_int_t)0, "system_cpu_usage",
                     (json_int_t)c->time_us * 1000 * sysconf(_SC_NPROCESSORS_ONLN), "online_cpus",
                     (int)sysconf(_SC_NPROCESSORS_ONLN), "throttling_data", "periods", 0,
                     "throttled_periods", 0, "throttled_time", 0);
}

/* Docker reports the host's memory if there is no limit. */
static json_int_t memory_limit(const struct limits *limits)
{
    struct sysinfo host;

    if (limits->memory_bytes != LIMIT_UNSET)
        return limits->memory_bytes;
    return sysinfo(&host) < 0 ? 0 : (json_int_t)host.totalram * host.mem_unit;
}

static json_t *encode_stats(struct docker_stats *st, const struct launch_reply *reply)
{
    struct counters now = {.time_us = clock_wall_us(),
                           .cpu_usec = reply != NULL ? (int64_t)reply->cpu_usec : 0};
    const struct limits limits = sandbox_limits(st->s);
    char id[DOCKER_ID_LEN + 1], time[DOCKER_TIME_MAX];
    json_t *root;

    docker_id(sandbox_id(st->s), id);
    docker_time_text(now.time_us * 1000, time);
    root = json_pack(
        "{s:s, s:s, s:s, s:o, s:{s:I, s:I}, s:o, s:o, s:{s:I, s:I, s:I, s:{}}, s:{}, s:{}}", "read",
        time, "preread", "0001-01-01T00:00:00Z", "id", id, "name",
        json_sprintf("/%s", sandbox_name(st->s)), "pids_stats", "current",
        (json_int_t)(reply != NULL ? reply->pids : 0), "limit",
        (json_int_t)(limits.pids != LIMIT_UNSET ? limits.pids : 0), "cpu_stats", encode_cpu(&now),
        "precpu_stats", encode_cpu(&st->before), "memory_stats", "usage",
        (json_int_t)(reply != NULL ? reply->memory_bytes : 0), "max_usage",
        (json_int_t)(reply != NULL ? reply->memory_peak_bytes : 0), "limit", memory_limit(&limits),
        "stats", "networks", "blkio_stats");
    st->before = now;
    return root;
}

static void on_sandbox_stats(void *data, int r, const struct launch_reply *reply,
                             const struct err *err)
{
    struct docker_stats *st = data;
    bool written;

    (void)err;
    st->asking = false;
    if (st->req == NULL) {
        stats_close(st);
        return;
    }
    written = reply_json_line(st->req, encode_stats(st, r == 0 ? reply : NULL), "\n");
    if (st->stream && r == 0 && written)
        return;
    http_end(take(st->req));
    stats_close(st);
}

static void stats_request(struct docker_stats *st)
{
    st->asking = true;
    if (sandbox_stats(st->s, on_sandbox_stats, st, NULL) == 0)
        return;
    on_sandbox_stats(st, -EBUSY, NULL, NULL); /* a stopped sandbox uses nothing */
}

static void on_stats_timer(uv_timer_t *h)
{
    struct docker_stats *st = h->data;

    if (!st->asking && st->req != NULL && http_queued(st->req) == 0)
        stats_request(st);
}

static void on_stats_gone(struct http_request *req)
{
    struct docker_stats *st = req->data;

    http_abort(req);
    st->req = NULL;
    stats_close(st);
}

void docker_get_stats(struct http_request *req)
{
    struct sandbox *s = docker_sandbox(req);
    struct stats_query q = {0};
    struct docker_stats *st;
    struct err err = ERR_NONE;

    if (s == NULL)
        return;
    if (http_query_known(req, fields, &q, &err) < 0) {
        reply_error(req, &err);
        return;
    }
    if (!api_watcher_take(req))
        return;
    st = calloc(1, sizeof(*st));
    if (st == NULL) {
        api_watcher_drop(native_of(req));
        reply_errorf(req, -ENOMEM, "out of memory");
        return;
    }
    *st = (struct docker_stats){.req = req,
                                .native = native_of(req),
                                .s = s,
                                .stream = q.stream == NULL || docker_bool(q.stream)};
    sandbox_ref(s);
    (void)uv_timer_init(http_loop(req), &st->timer); /* never fails */
    st->timer.data = st;
    req->data = st;
    req->on_gone = on_stats_gone;
    http_start(req, 200, NULL, "application/json");
    if (st->stream)
        (void)uv_timer_start(&st->timer, on_stats_timer, STATS_MS, STATS_MS);
    stats_request(st);
}
