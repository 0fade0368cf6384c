/* GET /v1/sandboxes/{id}/wait: waits for the end of the main process, with an optional time-out. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "api/common.h"
#include "api/native/sandbox-verbs.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "sandbox/sandbox.h"
#include "spec/spec.h"

struct sandbox_wait_request {
    struct http_request *req; /* NULL: answered, or the client is gone */
    struct supervisor *sup;
    char id[API_ID_MAX + 1];
    uv_timer_t deadline;
};

static void on_deadline_closed(uv_handle_t *h)
{
    free(h->data);
}

static void waiting_free(struct sandbox_wait_request *w)
{
    uv_close((uv_handle_t *)&w->deadline, on_deadline_closed);
}

static void on_exit_code(void *data, int r, const struct err *err)
{
    struct sandbox_wait_request *w = data;

    if (w->req != NULL && r < 0)
        reply_error(w->req, err);
    else if (w->req != NULL)
        reply_json(w->req, 200, json_pack("{s:i}", "exitCode", r));
    waiting_free(w);
}

/* True if the wait was cancelled; otherwise on_exit_code is pending and frees w. */
static bool waiting_cancel(struct sandbox_wait_request *w)
{
    struct sandbox *s = sandbox_by_id(w->sup, w->id);

    return s != NULL && sandbox_wait_cancel(s, w);
}

/* Cancels the wait, as the sandbox may run for years. */
static void on_wait_gone(struct http_request *req)
{
    struct sandbox_wait_request *w = req->data;

    http_abort(req);
    w->req = NULL;
    if (waiting_cancel(w))
        waiting_free(w);
}

static void on_wait_deadline(uv_timer_t *h)
{
    struct sandbox_wait_request *w = h->data;

    if (!waiting_cancel(w))
        return;
    reply_errorf(w->req, -ETIMEDOUT, "sandbox %s: the time is over", w->id);
    waiting_free(w);
}

struct native_sandbox_wait_query {
    int64_t timeout_ms;
};

static const struct query_field wait_fields[] = {
    {.name = "timeoutMs",
     .type = QUERY_INT,
     .off = offsetof(struct native_sandbox_wait_query, timeout_ms),
     .min = 0,
     .max = SPEC_TIME_MAX_MS},
    {0},
};

static void waiting_begin(struct http_request *req, struct sandbox *s, int64_t timeout_ms)
{
    struct sandbox_wait_request *w = calloc(1, sizeof(*w));
    struct err err = ERR_NONE;

    if (w == NULL) {
        reply_errorf(req, -ENOMEM, "out of memory");
        return;
    }
    *w = (struct sandbox_wait_request){.req = req, .sup = api_supervisor(req)};
    (void)snprintf(w->id, sizeof(w->id), "%s", sandbox_id(s));
    (void)uv_timer_init(http_loop(req), &w->deadline); /* never fails */
    w->deadline.data = w;
    req->data = w;
    if (sandbox_wait(s, on_exit_code, w, &err) < 0) {
        reply_error(req, &err);
        waiting_free(w);
        return;
    }
    req->on_gone = on_wait_gone;
    if (timeout_ms != LIMIT_UNSET)
        (void)uv_timer_start(&w->deadline, on_wait_deadline, (uint64_t)timeout_ms, 0);
}

void sandbox_get_wait(struct http_request *req)
{
    struct sandbox *s = api_sandbox(req);
    struct native_sandbox_wait_query q = {.timeout_ms = LIMIT_UNSET};
    struct err err = ERR_NONE;

    if (s == NULL)
        return;
    if (http_query(req, wait_fields, &q, &err) < 0)
        reply_error(req, &err);
    else
        waiting_begin(req, s, q.timeout_ms);
}
