/* /v1/sandboxes/{id}/files: shared functions, and operations with a short answer. */

#include "api/native/files.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/common.h"
#include "base/auto.h"
#include "http/error.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "http/route.h"
#include "http/sse.h"
#include "policy/policy.h"
#include "proto/file-msg.h"
#include "sandbox/sandbox.h"
#include "sandbox/services.h"

/* ---- one call ---- */

static int query_check_path(const char *key, const char *path, struct err *err)
{
    if (path == NULL || path[0] == '/')
        return 0;
    return err_set(err, -EINVAL, "%s: must be an absolute path", key);
}

static int query_decode_files(struct http_request *req, const struct query_field *fields,
                              struct file_query *q, struct err *err)
{
    int r;

    *q = (struct file_query){.follow = true,
                             .hidden = true,
                             .replace = true,
                             .owners = true,
                             .depth = 1,
                             .max_entries = -1,
                             .length = -1};
    r = http_query(req, fields, q, err);
    if (r == 0)
        r = query_check_path("path", q->path, err);
    if (r == 0)
        r = query_check_path("from", q->from, err);
    if (r == 0)
        r = query_check_path("to", q->to, err);
    return r;
}

struct file_call *file_call_new(struct http_request *req, const struct query_field *fields,
                                const char *step, struct sandbox **ret)
{
    struct sandbox *s = api_sandbox(req);
    struct err err = ERR_NONE;
    struct file_call *call;
    struct file_query q;

    if (s == NULL)
        return NULL;
    if (query_decode_files(req, fields, &q, &err) < 0) {
        reply_error(req, &err);
        return NULL;
    }
    call = calloc(1, sizeof(*call));
    if (call == NULL) {
        reply_errorf(req, -ENOMEM, "out of memory");
        return NULL;
    }
    call->req = req;
    call->q = q;
    call->step = step;
    call->length = -1;
    req->data = call;
    *ret = s;
    return call;
}

void file_call_free(struct file_call *call)
{
    if (call == NULL)
        return;
    if (call->watching != NULL)
        api_watcher_drop(call->watching);
    buf_done(&call->out);
    free(call);
}

void file_arg(struct file_call *call, const char *arg)
{
    if (call->argc < FILE_ARGS_MAX)
        call->argv[call->argc++] = arg;
}

void file_arg_if(struct file_call *call, bool on, const char *flag)
{
    if (on)
        file_arg(call, flag);
}

void file_arg_number(struct file_call *call, const char *name, uint64_t value)
{
    char *text = call->text[call->text_count++];

    (void)snprintf(text, FILE_TEXT_MAX, "%s=%llu", name, (unsigned long long)value);
    file_arg(call, text);
}

void file_call_fail(struct file_call *call, const struct err *err)
{
    struct http_request *req = call->req;

    if (req->gone || call->started) {
        http_abort(req);
    } else if (call->named || call->q.path == NULL) {
        reply_error_step(req, err, call->step);
    } else {
        struct err own = *err;

        (void)err_wrap(&own, own.code, "%s '%s'", call->step, call->q.path);
        reply_error_step(req, &own, call->step);
    }
    file_call_free(call);
}

/* The client has gone: the operation is killed, and the call ends. */
static void file_call_gone(struct http_request *req)
{
    struct file_call *call = req->data;

    if (call->op != NULL)
        file_op_cancel(call->op);
    file_call_free(call);
    http_abort(req);
}

void file_call_start(struct file_call *call, struct sandbox *s, const struct file_request *request,
                     const struct file_events *events)
{
    struct file_request own = *request;
    struct err err = ERR_NONE;

    call->argv[call->argc] = NULL;
    own.argv = call->argv;
    own.user = call->q.user;
    if (own.timeout_ms == 0)
        own.timeout_ms = LIMIT_UNSET;
    call->req->on_gone = file_call_gone;
    if (file_op_start(s, &own, events, call, &call->op, &err) < 0)
        file_call_fail(call, &err);
}

void file_done_empty(void *data, int r, const struct err *err)
{
    struct file_call *call = data;

    call->op = NULL;
    if (r < 0) {
        file_call_fail(call, err);
        return;
    }
    reply_empty(call->req, 204);
    file_call_free(call);
}

/* ---- queries ---- */

#define FIELD(key, kind, member, ...)                                                              \
    {                                                                                              \
        .name = (key), .type = (kind), .off = offsetof(struct file_query, member), __VA_ARGS__     \
    }
#define PATH(key, member)                                                                          \
    FIELD(key, QUERY_BYTES, member, .min = 1, .max = FILE_PATH_MAX, .required = true)
#define USER FIELD("user", QUERY_STRING, user, .min = 1, .max = 255)

static const struct query_field stat_fields[] = {
    PATH("path", path), USER, FIELD("follow", QUERY_BOOL, follow), {0}};
static const struct query_field mkdir_fields[] = {
    PATH("path", path), USER, FIELD("recursive", QUERY_BOOL, recursive), {0}};
static const struct query_field remove_fields[] = {PATH("path", path),
                                                   USER,
                                                   FIELD("recursive", QUERY_BOOL, recursive),
                                                   FIELD("force", QUERY_BOOL, force),
                                                   {0}};
static const struct query_field rename_fields[] = {PATH("from", from), PATH("to", to), USER, {0}};
static const struct query_field copy_fields[] = {
    PATH("from", from), PATH("to", to), USER, FIELD("replace", QUERY_BOOL, replace), {0}};

/* ---- stat, exists ---- */

static void on_stat_frame(void *data, const struct frame *f)
{
    struct file_call *call = data;
    const uint8_t *at = f->data;
    struct file_record r;
    json_t *root = NULL;

    if (call->started || f->kind != FRAME_DATA || file_next_record(&at, f->data + f->len, &r) != 1)
        return;
    root = file_encode(&r);
    if (root != NULL)
        (void)file_set_name(root, "path", call->q.path, strlen(call->q.path));
    /* Kept until the process has ended without error. */
    if (root != NULL) {
        char *text = json_dumps(root, JSON_COMPACT);

        if (text != NULL && buf_append_str(&call->out, text) == 0)
            call->found = true;
        free(text);
        json_decref(root);
    }
}

static void on_stat_done(void *data, int r, const struct err *err)
{
    struct file_call *call = data;
    struct err own = ERR_NONE;

    call->op = NULL;
    if (r == 0 && !call->found) {
        (void)err_set(&own, -EPROTO, "stat: the answer cannot be used");
        err = &own;
    }
    if (err->code < 0) {
        file_call_fail(call, err);
        return;
    }
    http_reply(call->req, 200, NULL, "application/json", call->out.data, call->out.len);
    file_call_free(call);
}

static const struct file_request stat_request = {
    .stream = FRAME_STREAM_RECORDS, .max_frame = FILE_BATCH_MAX, .timeout_ms = FILES_PROMPT_MS};

static void get_stat(struct http_request *req)
{
    static const struct file_events events = {.on_frame = on_stat_frame, .on_done = on_stat_done};
    struct sandbox *s;
    struct file_call *call = file_call_new(req, stat_fields, "stat", &s);

    if (call == NULL)
        return;
    call->named = true;
    call->out.max = FILE_BATCH_MAX;
    file_arg(call, "rind-stat");
    file_arg(call, call->q.path);
    file_arg_if(call, !call->q.follow, "--no-follow");
    file_call_start(call, s, &stat_request, &events);
}

static void on_exists_done(void *data, int r, const struct err *err)
{
    struct file_call *call = data;
    bool there = r == 0;

    call->op = NULL;
    if (r < 0 && r != -ENOENT && r != -ENOTDIR) {
        file_call_fail(call, err);
        return;
    }
    reply_json(call->req, 200, json_pack("{s:b}", "exists", (int)there));
    file_call_free(call);
}

static void get_exists(struct http_request *req)
{
    static const struct file_events events = {.on_done = on_exists_done};
    struct sandbox *s;
    struct file_call *call = file_call_new(req, stat_fields, "stat", &s);

    if (call == NULL)
        return;
    call->named = true;
    file_arg(call, "rind-stat");
    file_arg(call, call->q.path);
    file_arg_if(call, !call->q.follow, "--no-follow");
    file_call_start(call, s, &stat_request, &events);
}

/* ---- operations without result ---- */

static const struct file_events empty_events = {.on_done = file_done_empty};

static void post_mkdir(struct http_request *req)
{
    static const struct file_request request = {.stream = FRAME_STREAM_ACK,
                                                .timeout_ms = FILES_PROMPT_MS};
    struct sandbox *s;
    struct file_call *call = file_call_new(req, mkdir_fields, "mkdir", &s);

    if (call == NULL)
        return;
    file_arg(call, "mkdir");
    file_arg(call, call->q.path);
    file_arg_if(call, call->q.recursive, "--recursive");
    file_call_start(call, s, &request, &empty_events);
}

static void delete_file(struct http_request *req)
{
    static const struct file_request request = {.stream = FRAME_STREAM_ACK};
    struct sandbox *s;
    struct file_call *call = file_call_new(req, remove_fields, "remove", &s);

    if (call == NULL)
        return;
    file_arg(call, "remove");
    file_arg(call, call->q.path);
    file_arg_if(call, call->q.recursive, "--recursive");
    file_arg_if(call, call->q.force, "--force");
    file_call_start(call, s, &request, &empty_events);
}

static void post_rename(struct http_request *req)
{
    static const struct file_request request = {.stream = FRAME_STREAM_ACK,
                                                .timeout_ms = FILES_PROMPT_MS};
    struct sandbox *s;
    struct file_call *call = file_call_new(req, rename_fields, "rename", &s);

    if (call == NULL)
        return;
    file_arg(call, "rename");
    file_arg(call, call->q.from);
    file_arg(call, call->q.to);
    file_call_start(call, s, &request, &empty_events);
}

static void copy_or_move(struct http_request *req, const char *step, const char *command)
{
    static const struct file_request request = {.stream = FRAME_STREAM_RECORDS};
    struct sandbox *s;
    struct file_call *call = file_call_new(req, copy_fields, step, &s);

    if (call == NULL)
        return;
    call->named = true;
    file_arg(call, command);
    file_arg(call, call->q.from);
    file_arg(call, call->q.to);
    file_arg_if(call, !call->q.replace, "--no-replace");
    file_call_start(call, s, &request, &empty_events);
}

static void post_copy(struct http_request *req)
{
    copy_or_move(req, "copy", "rind-copy");
}

static void post_move(struct http_request *req)
{
    copy_or_move(req, "move", "rind-move");
}

/* clang-format off */
const struct route native_file_routes[] = {
    {"GET",    "/v1/sandboxes/{id}/files",         file_get,         0,            0},
    {"PUT",    "/v1/sandboxes/{id}/files",         file_put,         ROUTE_STREAM, 0},
    {"DELETE", "/v1/sandboxes/{id}/files",         delete_file,      0,            0},
    {"GET",    "/v1/sandboxes/{id}/files/stat",    get_stat,         0,            0},
    {"GET",    "/v1/sandboxes/{id}/files/exists",  get_exists,       0,            0},
    {"GET",    "/v1/sandboxes/{id}/files/list",    file_list,        0,            0},
    {"GET",    "/v1/sandboxes/{id}/files/watch",   file_watch,       0,            0},
    {"POST",   "/v1/sandboxes/{id}/files/mkdir",   post_mkdir,       0,            0},
    {"POST",   "/v1/sandboxes/{id}/files/rename",  post_rename,      0,            0},
    {"POST",   "/v1/sandboxes/{id}/files/move",    post_move,        0,            0},
    {"POST",   "/v1/sandboxes/{id}/files/copy",    post_copy,        0,            0},
    {"GET",    "/v1/sandboxes/{id}/files/archive", file_get_archive, 0,            0},
    {"PUT",    "/v1/sandboxes/{id}/files/archive", file_put_archive, ROUTE_STREAM, 0},
    {0},
};
/* clang-format on */
