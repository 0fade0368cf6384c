/* /v1/sandboxes/{id}/exec: runs commands in a sandbox, and reattaches to kept execs. */
#include "sandbox/exec.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "api/common.h"
#include "api/native/exec-body.h"
#include "api/native/exec-forms.h"
#include "api/native/exec-json.h"
#include "base/strtab.h"
#include "http/error.h"
#include "http/json-body.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "http/route.h"
#include "http/server.h"
#include "json/decode.h"
#include "sandbox/sandbox.h"

enum { EXEC_ID_DIGITS = 20 };

/* ---- shared by the forms ---- */

int64_t exec_duration(uint64_t began)
{
    return (int64_t)((uv_hrtime() - began) / 1000000);
}

void exec_reply_failed(struct http_request *req, const struct err *err, int exit_code)
{
    int status = error_status(err->code);

    /* 404 would look like a missing sandbox and 403 like a missing right, and a file that is not
     * a program is not a server error. */
    if ((status >= 401 && status <= 404) || exit_code == STATUS_CANNOT_EXECUTE ||
        exit_code == STATUS_NOT_FOUND || err->code == -ENOEXEC || err->code == -ELIBBAD)
        reply_json(req, 400, json_pack("{s:o}", "error", exec_encode_error(err, exit_code)));
    else
        reply_error(req, err);
}

/* Only in a sandbox that runs or can start: a stopped sandbox's helper process serves file
 * operations only. */
static int sandbox_check_state(const struct sandbox *s, struct err *err)
{
    enum sandbox_state state = sandbox_get_state(s);

    if (state == SANDBOX_RUNNING || state == SANDBOX_CREATED || state == SANDBOX_STARTING)
        return 0;
    return err_set(err, -EBUSY, "sandbox %s is %s", sandbox_name(s), sandbox_state_name(state));
}

/* ---- start ---- */

static bool accepts_events(const struct http_request *req)
{
    const char *accept = http_header(req, "accept");

    return accept != NULL && strstr(accept, "text/event-stream") != NULL;
}

static enum exec_mode request_exec_mode(const struct http_request *req, int asked)
{
    if (asked != EXEC_MODE_AUTO)
        return (enum exec_mode)asked;
    if (req->upgrade)
        return EXEC_MODE_STREAM;
    return accepts_events(req) ? EXEC_MODE_EVENTS : EXEC_MODE_BUFFERED;
}

static int exec_start_by_mode(struct http_request *req, struct sandbox *s,
                              const struct exec_body *body, struct err *err)
{
    enum exec_mode mode = request_exec_mode(req, body->mode);
    int r = sandbox_check_state(s, err);

    if (r < 0)
        return r;
    if (body->detach)
        return exec_detached(req, s, body, err);
    if (body->own && (body->keep || mode != EXEC_MODE_STREAM))
        return err_set(err, -EINVAL, "own: only of the stream form, and not with keep");
    if (body->max_output >= 0 && mode != EXEC_MODE_BUFFERED)
        return err_set(err, -EINVAL, "maxOutputBytes: only of the buffered form");
    if (mode == EXEC_MODE_STREAM)
        return exec_stream(req, s, body, err);
    return mode == EXEC_MODE_EVENTS ? exec_events(req, s, body, err)
                                    : exec_buffered(req, s, body, err);
}

static void post_exec(struct http_request *req)
{
    exec_body_post(req, EXEC_BODY_EXEC, exec_start_by_mode);
}

/* ---- lookup ---- */

static struct exec *exec_find_named(struct http_request *req, struct sandbox *s)
{
    const char *text = http_param(req, "exec");
    size_t len = strlen(text);
    struct exec *e = NULL;

    if (len <= EXEC_ID_DIGITS && strspn(text, "0123456789") == len)
        e = exec_find(s, strtoull(text, NULL, 10));
    if (e != NULL && !exec_is_private(e))
        return e;
    reply_errorf(req, -ENOENT, "exec '%.64s': there is none of this id in sandbox %s", text,
                 sandbox_name(s));
    return NULL;
}

static struct exec *exec_requested(struct http_request *req)
{
    struct sandbox *s = api_sandbox(req);

    return s == NULL ? NULL : exec_find_named(req, s);
}

static void list_execs(struct http_request *req)
{
    struct sandbox *s = api_sandbox(req);
    json_t *list;

    if (s == NULL)
        return;
    list = json_array();
    for (struct exec *e = exec_first(s); list != NULL && e != NULL; e = exec_next(e))
        if (!exec_is_private(e) && json_array_append_new(list, exec_encode(e)) < 0) {
            json_decref(list);
            list = NULL;
        }
    reply_json(req, 200, json_pack("{s:o}", "execs", list));
}

static void get_exec(struct http_request *req)
{
    struct exec *e = exec_requested(req);

    if (e != NULL)
        reply_json(req, 200, exec_encode(e));
}

/* ---- running and kept execs ---- */

struct attach_json {
    int mode;
    bool own;
};

static const struct strtab attach_modes[] = {
    {"events", EXEC_MODE_EVENTS}, {"stream", EXEC_MODE_STREAM}, {NULL, 0}};

static const struct jfield attach_fields[] = {
    {.name = "mode",
     .decode = j_enum,
     .off = offsetof(struct attach_json, mode),
     .names = attach_modes},
    {.name = "own", .decode = j_bool, .off = offsetof(struct attach_json, own)},
    {0},
};

static void post_attach(struct http_request *req)
{
    struct exec *e = exec_requested(req);
    struct attach_json body = {.mode = EXEC_MODE_AUTO};
    struct err err = ERR_NONE;
    int r;

    if (e == NULL)
        return;
    r = json_body(req, attach_fields, &body, &err);
    if (r == 0 && body.own && request_exec_mode(req, body.mode) == EXEC_MODE_EVENTS)
        r = err_set(&err, -EINVAL, "own: only of the stream form");
    if (r == 0)
        r = request_exec_mode(req, body.mode) == EXEC_MODE_EVENTS
                ? exec_attach_events(req, e, &err)
                : exec_attach_stream(req, e, body.own, &err);
    if (r < 0)
        reply_error(req, &err);
}

static void post_signal(struct http_request *req)
{
    struct exec *e = exec_requested(req);
    struct exec_kill kill;
    struct err err = ERR_NONE;
    int r;

    if (e == NULL)
        return;
    r = exec_kill_read(req, 0, &kill, &err);
    if (r == 0) {
        r = kill.group ? exec_signal_group(e, kill.signo) : exec_signal(e, kill.signo, false);
        if (r == -ESRCH)
            (void)err_set(&err, -EBUSY, "exec: it has ended");
        else if (r < 0)
            (void)err_errno(&err, r, "exec: signal");
    }
    if (r < 0)
        reply_error(req, &err);
    else
        reply_empty(req, 204);
}

struct size_json {
    int64_t rows, cols;
};

static const struct jfield size_fields[] = {
    {.name = "rows",
     .decode = j_int64,
     .off = offsetof(struct size_json, rows),
     .min = 1,
     .max = EXEC_SIDE_MAX,
     .required = true},
    {.name = "cols",
     .decode = j_int64,
     .off = offsetof(struct size_json, cols),
     .min = 1,
     .max = EXEC_SIDE_MAX,
     .required = true},
    {0},
};

static void post_resize(struct http_request *req)
{
    struct exec *e = exec_requested(req);
    struct size_json size = {0};
    struct err err = ERR_NONE;
    int r;

    if (e == NULL)
        return;
    r = json_body(req, size_fields, &size, &err);
    if (r < 0) {
        reply_error(req, &err);
        return;
    }
    r = exec_resize(e, (uint16_t)size.rows, (uint16_t)size.cols);
    if (r == -ENOTTY)
        reply_errorf(req, -EINVAL, "exec: it has no terminal");
    else if (r == -EBUSY)
        reply_errorf(req, -EBUSY, "exec: its terminal has a size only once it was attached to");
    else if (r < 0)
        reply_errorf(req, r, "exec: resize");
    else
        reply_empty(req, 204);
}

/* Drops an ended exec and kills processes that it left running. With force a running exec is
 * killed, and dropped when it has ended. */
static void delete_exec(struct http_request *req)
{
    struct exec *e = exec_requested(req);
    struct err err = ERR_NONE;
    bool force = false;

    if (e == NULL)
        return;
    if (api_query_force(req, &force, &err) < 0) {
        reply_error(req, &err);
        return;
    }
    if (exec_get_state(e) != EXEC_ENDED && !force) {
        reply_errorf(req, -EBUSY, "exec: it runs (force kills it)");
        return;
    }
    if (force)
        exec_kill_left(e);
    exec_discard(e);
    reply_empty(req, 204);
}

const struct route native_exec_routes[] = {
    {"POST", "/v1/sandboxes/{id}/exec", post_exec, ROUTE_BODY | ROUTE_LARGE | ROUTE_UPGRADE, 0},
    {"GET", "/v1/sandboxes/{id}/exec", list_execs, 0, 0},
    {"GET", "/v1/sandboxes/{id}/exec/{exec}", get_exec, 0, 0},
    {"DELETE", "/v1/sandboxes/{id}/exec/{exec}", delete_exec, 0, 0},
    {"POST", "/v1/sandboxes/{id}/exec/{exec}/attach", post_attach, ROUTE_BODY | ROUTE_UPGRADE, 0},
    {"POST", "/v1/sandboxes/{id}/exec/{exec}/signal", post_signal, ROUTE_BODY, 0},
    {"POST", "/v1/sandboxes/{id}/exec/{exec}/resize", post_resize, ROUTE_BODY, 0},
    {0},
};
