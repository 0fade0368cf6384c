/* Changes of a container's state: POST /containers/{id}/start, stop, kill and the like. */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/docker/body.h"
#include "api/docker/common.h"
#include "api/docker/containers.h"
#include "api/docker/create-body.h"
#include "api/docker/networks.h"
#include "api/docker/sidecar.h"
#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "http/json-body.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "sandbox/sandbox.h"
#include "spec/json.h"
#include "spec/signals.h"
#include "spec/spec.h"
#include "workerd/sidecar.h"

enum { SIDE_MAX = 65535, STOP_SECONDS_MAX = 86400 };

/* ---- start ---- */

/* Docker's clients derive the exit status from these words. */
static void start_explain_failure(const struct sandbox *s, const struct err *why, struct err *ret)
{
    struct sandbox_info f;
    const struct spec *spec = sandbox_spec(s);
    const char *command = spec != NULL && spec->argv[0] != NULL ? spec->argv[0] : "";

    sandbox_get_info(s, &f);
    if (docker_explain_exec(f.exit_code, command, why->msg, ret) == 0)
        *ret = *why;
    /* 404 means a missing container, so a missing user or group is reported as 400. */
    if (ret->code == -ENOENT)
        ret->code = -EINVAL;
}

static void on_unstartable_removed(void *data, int r, const struct err *err)
{
    (void)data;
    if (r < 0)
        log_warn("docker", "a container that cannot be started is not removed: %s", err->msg);
}

/* A client that asked for its removal waits for that, as after a run. */
static void unstartable_remove(struct sandbox *s)
{
    const enum sandbox_state state = sandbox_get_state(s);

    if (sandbox_spec(s)->auto_remove && (state == SANDBOX_CREATED || state == SANDBOX_STOPPED))
        (void)sandbox_remove(s, true, on_unstartable_removed, NULL, NULL);
}

static void on_container_started(void *data, int r, const struct err *err)
{
    struct api_call *call = data;
    struct sandbox *s = api_call_sandbox(call);
    struct err own = ERR_NONE;

    if (r < 0 && s != NULL && err != NULL && err->code < 0) {
        start_explain_failure(s, err, &own);
        unstartable_remove(s);
        api_call_fail(call, &own);
        return;
    }
    api_done_empty(call, r, err);
}

static int container_begin(struct sandbox *s, struct api_call *call, struct err *err)
{
    return docker_is_own_sidecar(s) ? docker_own_sidecar_start(s, on_container_started, call, err)
                                    : sandbox_start(s, on_container_started, call, err);
}

/* The clean-up of the last run has ended. */
static void on_last_run_settled(void *data, int r, const struct err *err)
{
    struct api_call *call = data;
    struct sandbox *s = api_call_sandbox(call);
    struct err own = ERR_NONE;

    (void)r;
    (void)err;
    if (s == NULL)
        (void)err_set(&own, -ENOENT, "No such container: %s", call->id);
    else if (container_begin(s, call, &own) == 0)
        return;
    api_call_fail(call, &own);
}

static int container_start(struct sandbox *s, struct api_call *call, struct err *err)
{
    if (docker_is_sidecar(s))
        return docker_sidecar_start(s, on_container_started, call, err);
    if (sandbox_get_state(s) == SANDBOX_STOPPING)
        return sandbox_when_over(s, on_last_run_settled, call, err);
    return container_begin(s, call, err);
}

struct start_query {
    const char *detach_keys, *checkpoint, *checkpoint_dir;
};

static const struct query_field start_fields[] = {
    {.name = "detachKeys",
     .type = QUERY_STRING,
     .off = offsetof(struct start_query, detach_keys),
     .max = 256},
    {.name = "checkpoint",
     .type = QUERY_STRING,
     .off = offsetof(struct start_query, checkpoint),
     .max = 256},
    {.name = "checkpoint-dir",
     .type = QUERY_STRING,
     .off = offsetof(struct start_query, checkpoint_dir),
     .max = 4096},
    {0},
};

/* Up to version 1.23 of the API, start took a HostConfig. Its keys are refused, because success
 * would claim limits that are not set. */
static int check_start_body(struct http_request *req, struct err *err)
{
    static const struct body_field none[] = {{0}};
    auto_ptr(json_decref) json_t *root = NULL;
    int r = docker_optional_body(req, &root, err);

    return r < 0 || root == NULL ? r
                                 : body_decode_whole(root, none, create_body_elsewhere, NULL, err);
}

void docker_post_start(struct http_request *req)
{
    struct sandbox *s = docker_sandbox(req);
    struct start_query q = {0};
    struct api_call *call;
    struct err err = ERR_NONE;
    int r;

    if (s == NULL)
        return;
    r = http_query_known(req, start_fields, &q, &err);
    if (r == 0 && q.checkpoint != NULL && q.checkpoint[0] != '\0')
        r = err_set(&err, -EOPNOTSUPP, "checkpoint: there are no checkpoints");
    if (r == 0)
        r = check_start_body(req, &err);
    if (r < 0) {
        reply_error(req, &err);
        return;
    }
    if (docker_is_running(s)) {
        reply_empty(req, 304);
        return;
    }
    if (docker_networks_check(req, s, &err) < 0) {
        unstartable_remove(s);
        reply_error(req, &err);
        return;
    }
    call = api_call_new(req, s);
    if (call != NULL && container_start(s, call, &err) < 0)
        api_call_fail(call, &err);
}

/* ---- stop, restart ---- */

struct stop_query {
    int64_t seconds;
    const char *signal;
    int signo; /* 0 = the container's own */
};

static const struct query_field stop_fields[] = {
    {.name = "t",
     .type = QUERY_INT,
     .off = offsetof(struct stop_query, seconds),
     .min = -1,
     .max = STOP_SECONDS_MAX},
    {.name = "signal",
     .type = QUERY_STRING,
     .off = offsetof(struct stop_query, signal),
     .max = SIGNAL_TEXT_MAX},
    {0},
};

enum { SECONDS_UNSET = -2 };

static int64_t stop_ms(const struct stop_query *q)
{
    if (q->seconds == SECONDS_UNSET)
        return LIMIT_UNSET;
    return q->seconds == -1 ? SPEC_TIME_MAX_MS : q->seconds * 1000;
}

static int stop_read_query(struct http_request *req, struct stop_query *q, struct err *err)
{
    int r;

    q->seconds = SECONDS_UNSET;
    r = http_query_known(req, stop_fields, q, err);
    if (r < 0 || q->signal == NULL || q->signal[0] == '\0')
        return r;
    return signal_parse("signal", q->signal, &q->signo, err);
}

void docker_post_stop(struct http_request *req)
{
    struct sandbox *s = docker_sandbox(req);
    struct stop_query q = {0};
    struct api_call *call;
    struct err err = ERR_NONE;

    if (s == NULL)
        return;
    if (stop_read_query(req, &q, &err) < 0) {
        reply_error(req, &err);
        return;
    }
    if (!docker_is_running(s)) {
        reply_empty(req, 304);
        return;
    }
    if (docker_is_sidecar(s)) {
        sidecar_stop(s);
        reply_empty(req, 204);
        return;
    }
    call = api_call_new(req, s);
    if (call != NULL && sandbox_stop_by(s, q.signo, stop_ms(&q), api_done_empty, call, &err) < 0)
        api_call_fail(call, &err);
}

void docker_post_restart(struct http_request *req)
{
    struct sandbox *s = docker_sandbox(req);
    struct stop_query q = {0};
    struct api_call *call;
    struct err err = ERR_NONE;
    int r;

    if (s == NULL)
        return;
    if (stop_read_query(req, &q, &err) < 0) {
        reply_error(req, &err);
        return;
    }
    call = api_call_new(req, s);
    if (call == NULL)
        return;
    r = docker_is_sidecar(s)
            ? docker_sidecar_start(s, on_container_started, call, &err)
            : sandbox_restart_by(s, q.signo, stop_ms(&q), on_container_started, call, &err);
    if (r < 0)
        api_call_fail(call, &err);
}

/* ---- kill ---- */

struct kill_query {
    const char *signal;
};

static const struct query_field kill_fields[] = {
    {.name = "signal",
     .type = QUERY_STRING,
     .off = offsetof(struct kill_query, signal),
     .max = SIGNAL_TEXT_MAX},
    {0},
};

static int container_check_running(const struct sandbox *s, const char *what, struct err *err)
{
    if (docker_is_running(s) && (sandbox_main(s) != NULL || docker_is_sidecar(s)))
        return 0;
    return err_set(err, -EBUSY, "cannot %s container: %s: container %s is not running", what,
                   sandbox_name(s), sandbox_name(s));
}

/* Like in Docker a killed container is not restarted, and the reply follows its end. */
static void container_kill(struct http_request *req, struct sandbox *s)
{
    struct api_call *call = api_call_new(req, s);
    struct err err = ERR_NONE;

    if (call != NULL && sandbox_stop(s, 0, api_done_empty, call, &err) < 0)
        api_call_fail(call, &err);
}

void docker_post_kill(struct http_request *req)
{
    struct sandbox *s = docker_sandbox(req);
    struct kill_query q = {0};
    struct err err = ERR_NONE;
    int signo = SIGKILL, r;

    if (s == NULL)
        return;
    r = http_query_known(req, kill_fields, &q, &err);
    if (r == 0 && q.signal != NULL && q.signal[0] != '\0')
        r = signal_parse("signal", q.signal, &signo, &err);
    if (r == 0)
        r = container_check_running(s, "kill", &err);
    if (r == 0 && docker_is_sidecar(s)) {
        sidecar_stop(s);
    } else if (r == 0 && signo == SIGKILL) {
        container_kill(req, s);
        return;
    } else if (r == 0) {
        r = sandbox_signal(s, signo, &err);
    }
    if (r < 0)
        reply_error(req, &err);
    else
        reply_empty(req, 204);
}

/* ---- pause, unpause ---- */

typedef int plain_verb(struct sandbox *s, sandbox_cb cb, void *data, struct err *err);

static void run_plain_verb(struct http_request *req, plain_verb *verb)
{
    struct sandbox *s = docker_sandbox(req);
    struct api_call *call;
    struct err err = ERR_NONE;

    if (s == NULL)
        return;
    if (http_query_known(req, NULL, NULL, &err) < 0) {
        reply_error(req, &err);
        return;
    }
    call = api_call_new(req, s);
    if (call != NULL && verb(s, api_done_empty, call, &err) < 0)
        api_call_fail(call, &err);
}

void docker_post_pause(struct http_request *req)
{
    run_plain_verb(req, sandbox_pause);
}

void docker_post_unpause(struct http_request *req)
{
    run_plain_verb(req, sandbox_resume);
}

/* ---- rename, resize ---- */

struct rename_query {
    const char *name;
};

static const struct query_field rename_fields[] = {
    {.name = "name",
     .type = QUERY_STRING,
     .off = offsetof(struct rename_query, name),
     .min = 1,
     .max = 256,
     .required = true},
    {0},
};

/* In Docker's words, which clients look for. The id is told where the caller may see it. */
static void rename_explain_conflict(struct http_request *req, const char *name, struct err *err)
{
    struct sandbox *other = NULL;
    char id[DOCKER_ID_LEN + 1] = "";

    if (docker_lookup(req, name, &other, NULL) == 0)
        docker_id(sandbox_id(other), id);
    (void)err_set(err, -EEXIST,
                  "Conflict. The container name \"/%s\" is already in use by container \"%s\". You "
                  "have to remove (or rename) that container to be able to reuse that name.",
                  name, id);
}

void docker_post_rename(struct http_request *req)
{
    struct sandbox *s = docker_sandbox(req);
    struct rename_query q = {0};
    struct err err = ERR_NONE;
    int r;

    if (s == NULL)
        return;
    r = http_query_known(req, rename_fields, &q, &err);
    if (r == 0)
        r = sandbox_rename(s, q.name + (q.name[0] == '/'), &err);
    if (r == -EEXIST)
        rename_explain_conflict(req, q.name + (q.name[0] == '/'), &err);
    if (r < 0)
        reply_error(req, &err);
    else
        reply_empty(req, 204);
}

struct resize_query {
    int64_t rows, cols;
};

static const struct query_field resize_fields[] = {
    {.name = "h",
     .type = QUERY_INT,
     .off = offsetof(struct resize_query, rows),
     .min = 0,
     .max = SIDE_MAX,
     .required = true},
    {.name = "w",
     .type = QUERY_INT,
     .off = offsetof(struct resize_query, cols),
     .min = 0,
     .max = SIDE_MAX,
     .required = true},
    {0},
};

/* Also allowed before the start, because clients resize then. */
void docker_post_resize(struct http_request *req)
{
    struct sandbox *s = docker_sandbox(req);
    struct resize_query q = {0};
    struct err err = ERR_NONE;

    if (s == NULL)
        return;
    if (http_query_known(req, resize_fields, &q, &err) < 0) {
        reply_error(req, &err);
        return;
    }
    if (q.rows != 0 && q.cols != 0)
        sandbox_set_size(s, (uint16_t)q.rows, (uint16_t)q.cols);
    reply_empty(req, 200);
}

/* ---- update ---- */

static int update_put_restart(const struct sandbox *s, const struct create_update *u, json_t *patch,
                              struct err *err)
{
    json_t *restart;

    if (u->restart == NULL)
        return 0;
    if (sandbox_spec(s)->auto_remove && strcmp(u->restart, "no") != 0)
        return err_set(err, -EBUSY,
                       "Restart policy cannot be updated because AutoRemove is enabled for the "
                       "container");
    restart = json_pack("{s:s}", "policy", u->restart);
    if (restart != NULL && u->retries > 0)
        (void)docker_put(restart, "maxRetries", json_integer(u->retries));
    return docker_put(patch, "restart", restart) ? 0 : err_errno(err, -ENOMEM, "update");
}

/* The label has what inspect shows beside the spec. A quota and a number of processors replace each
 * other. */
static int update_put_kept(const struct sandbox *s, const struct create_update *u, json_t *patch,
                           struct err *err)
{
    auto_ptr(json_decref) json_t *kept = docker_kept(sandbox_spec(s));
    auto_free char *text = NULL;
    json_t *asked = json_object_get(kept, "asked");

    if (kept == NULL || json_object_size(u->limits) + json_object_size(u->kept) == 0)
        return 0;
    if (asked == NULL && docker_put(kept, "asked", json_object()))
        asked = json_object_get(kept, "asked");
    if (json_object_get(u->limits, "cpus") != NULL) {
        (void)json_object_del(asked, "CpuQuota");
        (void)json_object_del(asked, "CpuPeriod");
    }
    if (asked == NULL || json_object_update(asked, u->kept) < 0)
        return err_errno(err, -ENOMEM, "update");
    text = json_dumps(kept, JSON_COMPACT);
    return text != NULL && docker_put(patch, "labels", json_pack("{s:s}", DOCKER_LABEL, text))
               ? 0
               : err_errno(err, -ENOMEM, "update");
}

/* Makes a patch as PATCH of a sandbox takes it. */
static int update_make_patch(const struct sandbox *s, struct create_update *u, json_t *patch,
                             struct err *err)
{
    int r = update_put_restart(s, u, patch, err);

    if (r == 0)
        r = update_put_kept(s, u, patch, err);
    if (r == 0 && json_object_size(u->limits) > 0 &&
        json_object_set(patch, "limits", u->limits) < 0)
        r = err_errno(err, -ENOMEM, "update");
    return r;
}

static void on_container_updated(void *data, int r, const struct err *err)
{
    struct api_call *call = data;

    if (r < 0) {
        struct err own = *err;

        create_body_explain(&own);
        api_call_fail(call, &own);
        return;
    }
    reply_json(call->req, 200, json_pack("{s:[]}", "Warnings"));
    api_call_free(call);
}

static int container_update(struct http_request *req, struct sandbox *s, json_t *patch,
                            struct spec **ret, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    struct create_update u = {.restart = NULL};
    int r;

    r = json_body_tree(req, &root, err);
    if (r == 0 && sandbox_spec(s) == NULL)
        r = err_set(err, -EBUSY, "container %s: its files cannot be read", sandbox_name(s));
    if (r < 0)
        return r;
    r = create_update_decode(root, &u, err);
    if (r == 0 && !native_of(req)->config.io_weighs)
        (void)json_object_del(u.limits, "ioWeight"); /* as at a creation */
    if (r == 0)
        r = update_make_patch(s, &u, patch, err);
    if (r == 0)
        r = spec_patch(sandbox_spec(s), patch, ret, err);
    if (r == 0)
        r = api_check_change(req, s, *ret, patch, err);
    /* From here on messages name the spec's keys; before, the body's. */
    if (r < 0 && json_object_size(patch) > 0)
        create_body_explain(err);
    json_decref(u.limits);
    json_decref(u.kept);
    return r;
}

void docker_post_update(struct http_request *req)
{
    auto_ptr(json_decref) json_t *patch = json_object();
    auto_ptr(spec_free) struct spec *changed = NULL;
    struct sandbox *s = docker_sandbox(req);
    struct api_call *call;
    struct err err = ERR_NONE;

    if (s == NULL)
        return;
    if (patch == NULL || container_update(req, s, patch, &changed, &err) < 0) {
        reply_error(req, &err);
        return;
    }
    call = api_call_new(req, s);
    if (call != NULL && sandbox_change(s, patch, changed, on_container_updated, call, &err) < 0) {
        create_body_explain(&err);
        api_call_fail(call, &err);
    }
}
