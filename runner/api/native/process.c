/* /v1/sandboxes/{id}/processes: background commands whose output init stores. */
#include "exec/process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/common.h"
#include "api/native/exec-body.h"
#include "api/native/exec-forms.h"
#include "api/native/exec-json.h"
#include "api/native/process-forms.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "http/route.h"
#include "http/server.h"
#include "sandbox/sandbox.h"
#include "spec/signals.h"

/* ---- JSON ---- */

static json_t *encode_argv(char *const *argv)
{
    json_t *list = json_array();

    for (; list != NULL && *argv != NULL; argv++) {
        bool base64 = false; /* of an earlier record: shown, never run */

        if (json_array_append_new(list, exec_bytes(*argv, strlen(*argv), &base64)) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *encode_signal(const struct process_info *f)
{
    char text[SIGNAL_TEXT_MAX];

    if (f->state != PROCESS_KILLED)
        return json_null();
    signal_format(f->exit_code - 128, text);
    return json_string(text);
}

bool process_runs(const struct process *p)
{
    struct process_info f;

    process_get_info(p, &f);
    return f.state == PROCESS_STARTING || f.state == PROCESS_RUNNING;
}

json_t *process_encode(const struct process *p)
{
    struct process_info f;

    process_get_info(p, &f);
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:b, s:o, s:o}", "id", f.id, "state",
                     process_state_name(f.state), "argv", encode_argv(f.argv), "pid",
                     f.pid > 0 ? json_integer(f.pid) : json_null(), "exitCode",
                     f.exit_code >= 0 ? json_integer(f.exit_code) : json_null(), "signal",
                     encode_signal(&f), "timedOut", f.timed_out, "startedAt",
                     api_time(f.started_ms), "finishedAt", api_time(f.finished_ms));
}

/* ---- lookup ---- */

static struct process *process_find_named(struct http_request *req, struct sandbox *s)
{
    const char *id = http_param(req, "process");
    struct process *p = process_find(s, id);

    if (p == NULL)
        reply_errorf(req, -ENOENT, "process '%.*s': there is none of this id in sandbox %s",
                     PROCESS_ID_MAX, id, sandbox_name(s));
    return p;
}

/* The process that {id} and {process} name; NULL: the request has been answered. */
static struct process *process_requested(struct http_request *req)
{
    struct sandbox *s = api_sandbox(req);

    return s == NULL ? NULL : process_find_named(req, s);
}

struct process *process_requested_or_main(struct http_request *req)
{
    struct sandbox *s = api_sandbox(req);
    struct process *p = NULL;
    struct err err = ERR_NONE;

    if (s == NULL || strcmp(http_param(req, "process"), "main") != 0)
        return s == NULL ? NULL : process_find_named(req, s);
    if (process_main(s, &p, &err) < 0)
        reply_error(req, &err);
    return p;
}

static void list_processes(struct http_request *req)
{
    struct sandbox *s = api_sandbox(req);
    json_t *list;

    if (s == NULL)
        return;
    list = json_array();
    for (struct process *p = process_first(s); list != NULL && p != NULL; p = process_next(p))
        if (json_array_insert_new(list, 0, process_encode(p)) < 0) { /* the oldest first */
            json_decref(list);
            list = NULL;
        }
    reply_json(req, 200, json_pack("{s:o}", "processes", list));
}

static void get_process(struct http_request *req)
{
    struct process *p = process_requested(req);

    if (p != NULL)
        reply_json(req, 200, process_encode(p));
}

/* ---- starting ---- */

/* A pending start. The process may be gone when the answer comes. */
struct process_start_request {
    struct api_call *call;
    char id[PROCESS_ID_MAX + 1];
};

static void on_process_started(void *data, int r, const struct err *err)
{
    struct process_start_request *st = data;
    struct http_request *req = st->call->req;
    struct sandbox *s = api_call_sandbox(st->call);
    struct process *p = s != NULL && r == 0 ? process_find(s, st->id) : NULL;

    api_call_free(st->call);
    if (r < 0)
        exec_reply_failed(req, err, 0);
    else if (p == NULL)
        reply_errorf(req, -ECANCELED, "process '%s': it was deleted meanwhile", st->id);
    else
        reply_json(req, 201, process_encode(p));
    free(st);
}

static int process_post_start(struct http_request *req, struct sandbox *s,
                              const struct exec_body *body, struct err *err)
{
    struct process_start_request *st = calloc(1, sizeof(*st));
    struct process_info info;
    struct process *p = NULL;
    struct exec_options o;
    int r;

    if (st == NULL)
        return err_errno(err, -ENOMEM, "process");
    if (body->input_len > PROCESS_INPUT_MAX) {
        free(st);
        return err_set(err, -E2BIG, "stdin: more than %d bytes, for a background process",
                       PROCESS_INPUT_MAX);
    }
    st->call = api_call_new(req, s);
    if (st->call == NULL) {
        free(st);
        return 0; /* already answered */
    }
    exec_body_options(body, &o);
    r = process_start(s, body->id, &o, on_process_started, st, &p, err);
    if (r < 0) {
        api_call_free(st->call);
        free(st);
        return r;
    }
    process_get_info(p, &info);
    (void)snprintf(st->id, sizeof(st->id), "%s", info.id);
    /* If this fails the process is killed, but on_process_started follows all the same and needs
     * st. */
    if (body->input != NULL)
        (void)process_give_input(p, body->input, body->input_len, NULL);
    return 0;
}

static void post_process(struct http_request *req)
{
    exec_body_post(req, EXEC_BODY_PROCESS, process_post_start);
}

/* ---- ending ---- */

static void post_kill(struct http_request *req)
{
    struct process *p = process_requested(req);
    struct err err = ERR_NONE;
    struct exec_kill kill;
    int r;

    if (p == NULL)
        return;
    r = exec_kill_read(req, SIGTERM, &kill, &err);
    if (r == 0)
        r = process_kill(p, kill.signo, kill.group, &err);
    if (r < 0)
        reply_error(req, &err);
    else
        reply_empty(req, 204);
}

static void post_kill_all(struct http_request *req)
{
    struct sandbox *s = api_sandbox(req);
    struct err err = ERR_NONE;
    struct exec_kill kill;
    int killed = 0;

    if (s == NULL)
        return;
    if (exec_kill_read(req, SIGTERM, &kill, &err) < 0) {
        reply_error(req, &err);
        return;
    }
    for (struct process *p = process_first(s); p != NULL; p = process_next(p))
        if (process_runs(p) && process_kill(p, kill.signo, kill.group, NULL) == 0)
            killed++;
    reply_json(req, 200, json_pack("{s:i}", "killed", killed));
}

/* Waits for the end of a killed process and then drops it. */
static bool delete_changed(struct process_waiter *w, bool ended)
{
    struct process *p = w->process;
    struct err err = ERR_NONE;

    if (!ended)
        return false;
    process_waiter_end(w);
    w->deleted = process_delete(p, &err) == 0;
    if (!w->deleted)
        reply_error(w->req, &err);
    else
        reply_empty(w->req, 204);
    return true;
}

static void delete_release(struct process_waiter *w)
{
    free(w);
}

static const struct process_waiter_ops delete_ops = {.changed = delete_changed,
                                                     .release = delete_release};

static void process_kill_and_delete(struct http_request *req, struct process *p)
{
    struct process_waiter *w;
    struct err err = ERR_NONE;

    if (process_kill(p, SIGKILL, true, &err) < 0) {
        reply_error(req, &err);
        return;
    }
    w = calloc(1, sizeof(*w));
    if (w == NULL)
        reply_errorf(req, -ENOMEM, "out of memory");
    else if (process_waiter_begin(w, req, p, PROCESS_WAIT_ANY, &delete_ops) < 0)
        free(w);
}

static void delete_process(struct http_request *req)
{
    struct process *p = process_requested(req);
    struct err err = ERR_NONE;
    bool force = false;
    int r;

    if (p == NULL)
        return;
    r = api_query_force(req, &force, &err);
    if (r == 0 && force && process_runs(p)) {
        process_kill_and_delete(req, p);
        return;
    }
    if (r == 0)
        r = process_delete(p, &err);
    if (r < 0)
        reply_error(req, &err);
    else
        reply_empty(req, 204);
}

/* Drops all ended processes. */
static void delete_ended(struct http_request *req)
{
    struct sandbox *s = api_sandbox(req);
    int deleted = 0;

    if (s == NULL)
        return;
    for (struct process *p = process_first(s), *next; p != NULL; p = next) {
        next = process_next(p);
        if (!process_runs(p) && process_delete(p, NULL) == 0)
            deleted++;
    }
    reply_json(req, 200, json_pack("{s:i}", "deleted", deleted));
}

#define PROCESSES "/v1/sandboxes/{id}/processes"
#define PROCESS   PROCESSES "/{process}"

const struct route native_process_routes[] = {
    {"POST", PROCESSES, post_process, ROUTE_BODY | ROUTE_LARGE, 0},
    {"GET", PROCESSES, list_processes, 0, 0},
    {"DELETE", PROCESSES, delete_ended, 0, 0},
    {"POST", PROCESSES "/kill", post_kill_all, ROUTE_BODY, 0},
    {"GET", PROCESS, get_process, 0, 0},
    {"DELETE", PROCESS, delete_process, 0, 0},
    {"POST", PROCESS "/kill", post_kill, ROUTE_BODY, 0},
    {"GET", PROCESS "/logs", process_get_logs, 0, 0},
    {"POST", PROCESS "/wait/exit", process_wait_exit, ROUTE_BODY, 0},
    {"POST", PROCESS "/wait/log", process_wait_log, ROUTE_BODY, 0},
    {"POST", PROCESS "/wait/port", process_wait_port, ROUTE_BODY, 0},
    {0},
};
