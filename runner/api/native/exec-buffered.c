/* Two forms of exec: one whose output is returned as one JSON object, up to a size; and one that
 * is only started (detached). Called by exec.c. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "api/common.h"
#include "api/native/exec-forms.h"
#include "api/native/exec-json.h"
#include "base/buf.h"
#include "exec/exec-io.h"
#include "http/reply.h"
#include "http/server.h"
#include "sandbox/exec.h"
#include "sandbox/sandbox.h"
#include "sandbox/services.h"

/* One output stream. */
struct output {
    struct buf kept;
    uint64_t total; /* bytes written by the process */
};

struct buffered {
    struct http_request *req;
    struct exec_io *io;
    struct output out[2];
    uint64_t began;
};

static void buffered_end(struct buffered *b)
{
    exec_io_close(b->io);
    for (int i = 0; i < 2; i++)
        buf_done(&b->out[i].kept);
    free(b);
}

static void on_buffered_gone(struct http_request *req)
{
    buffered_end(req->data);
    http_abort(req);
}

static void on_buffered_started(void *data)
{
    (void)data;
}

/* Bytes above the limit are read and dropped: otherwise the process would block for ever. */
static bool on_buffered_output(void *data, int stream, const char *bytes, size_t len)
{
    struct output *out = &((struct buffered *)data)->out[stream - 1];
    size_t room = out->kept.max - out->kept.len;

    out->total += len;
    if (room > 0)
        (void)buf_append(&out->kept, bytes, len < room ? len : room);
    return true;
}

static void output_encode(json_t *root, const char *name, struct output *out)
{
    bool truncated = out->total > out->kept.len, base64 = false;
    size_t len = out->kept.len;
    char key[32];
    json_t *text;

    /* A cut within a UTF-8 character must not make the text binary. */
    if (truncated && len > 0)
        len -= exec_text_tail(out->kept.data, len);
    text = exec_bytes(out->kept.data, len, &base64);
    (void)json_object_set_new(root, name, text);
    (void)snprintf(key, sizeof(key), "%sEncoding", name);
    (void)json_object_set_new(root, key, json_string(base64 ? "base64" : "utf8"));
    (void)snprintf(key, sizeof(key), "%sTruncated", name);
    (void)json_object_set_new(root, key, json_boolean(truncated));
    (void)snprintf(key, sizeof(key), "%sBytes", name);
    (void)json_object_set_new(root, key, json_integer((json_int_t)out->total));
    if (text == NULL)
        (void)json_object_clear(root); /* OOM must not look like empty output */
}

static void buffered_reply(struct buffered *b, json_t *root)
{
    struct http_request *req = b->req;

    if (root != NULL) {
        (void)json_object_set_new(root, "durationMs", json_integer(exec_duration(b->began)));
        output_encode(root, "stdout", &b->out[0]);
        output_encode(root, "stderr", &b->out[1]);
        if (json_object_get(root, "durationMs") == NULL ||
            json_object_get(root, "stdout") == NULL) {
            json_decref(root);
            root = NULL;
        }
    }
    buffered_end(b);
    reply_json(req, 200, root);
}

static void on_buffered_ended(void *data)
{
    struct buffered *b = data;
    const struct exec *e = exec_io_exec(b->io);
    json_t *root = exec_encode_end(e);
    char id[24];

    (void)snprintf(id, sizeof(id), "%" PRIu64, exec_id(e));
    if (root != NULL)
        (void)json_object_set_new(root, "execId", json_string(id));
    buffered_reply(b, root);
}

/* A program that is missing or not executable is reported by the exit code that a shell would
 * use. */
static void on_buffered_failed(void *data, const struct err *err, int exit_code)
{
    struct buffered *b = data;
    struct http_request *req = b->req;

    if (exit_code == STATUS_CANNOT_EXECUTE || exit_code == STATUS_NOT_FOUND) {
        buffered_reply(b, json_pack("{s:n, s:i, s:n, s:b, s:n, s:o}", "execId", "exitCode",
                                    exit_code, "signal", "timedOut", 0, "reason", "error",
                                    exec_encode_error(err, exit_code)));
        return;
    }
    buffered_end(b);
    exec_reply_failed(req, err, exit_code);
}

static const struct exec_io_ops buffered_ops = {.started = on_buffered_started,
                                                .failed = on_buffered_failed,
                                                .output = on_buffered_output,
                                                .ended = on_buffered_ended};

static int buffered_output_max(const struct sandbox *s, const struct exec_body *body, size_t *ret,
                               struct err *err)
{
    uint64_t max = supervisor_limits(sandbox_supervisor(s))->output_bytes;

    if (body->max_output >= 0 && (uint64_t)body->max_output > max)
        return err_set(err, -ERANGE,
                       "maxOutputBytes: at most %" PRIu64
                       " (limit maxOutputBytes); the events and stream forms have none",
                       max);
    *ret = body->max_output >= 0 ? (size_t)body->max_output : (size_t)max;
    return 0;
}

int exec_buffered(struct http_request *req, struct sandbox *s, const struct exec_body *body,
                  struct err *err)
{
    auto_buf struct buf input = BUF_INIT(0);
    struct exec_options o;
    struct buffered *b;
    size_t max = 0;
    int r;

    r = buffered_output_max(s, body, &max, err);
    if (r < 0)
        return r;
    b = calloc(1, sizeof(*b));
    if (b == NULL)
        return err_errno(err, -ENOMEM, "exec");
    *b = (struct buffered){.req = req, .began = uv_hrtime()};
    b->out[0].kept.max = b->out[1].kept.max = max;
    b->out[0].kept.budget = b->out[1].kept.budget = req->body.budget;
    r = exec_body_input(body, req, &input, err);
    if (r < 0) {
        buffered_end(b);
        return r;
    }
    exec_body_options(body, &o);
    r = exec_io_start(s, &o, &buffered_ops, b, &b->io, err);
    if (r < 0) {
        buffered_end(b);
        return r;
    }
    if (body->input != NULL)
        exec_io_give(b->io, &input);
    req->data = b;
    req->on_gone = on_buffered_gone;
    return 0;
}

/* ---- detached ---- */

struct detached {
    struct http_request *req;
    struct exec_io *io;
};

static void detached_end(struct detached *d)
{
    exec_io_close(d->io);
    free(d);
}

static void on_detached_gone(struct http_request *req)
{
    detached_end(req->data);
    http_abort(req);
}

static void on_detached_started(void *data)
{
    struct detached *d = data;
    struct http_request *req = d->req;
    json_t *root = exec_encode(exec_io_exec(d->io));

    if (root != NULL)
        (void)json_object_set_new(root, "attached", json_false()); /* it was attached only by
                                                                    * this request */
    detached_end(d);
    reply_json(req, 201, root);
}

static void on_detached_failed(void *data, const struct err *err, int exit_code)
{
    struct detached *d = data;
    struct http_request *req = d->req;

    detached_end(d);
    exec_reply_failed(req, err, exit_code);
}

static bool on_detached_output(void *data, int stream, const char *bytes, size_t len)
{
    (void)data;
    (void)stream;
    (void)bytes;
    (void)len;
    return false; /* never called: exec_io is closed before any output is read */
}

static void on_detached_ended(void *data)
{
    (void)data;
}

static const struct exec_io_ops detached_ops = {.started = on_detached_started,
                                                .failed = on_detached_failed,
                                                .output = on_detached_output,
                                                .ended = on_detached_ended};

int exec_detached(struct http_request *req, struct sandbox *s, const struct exec_body *body,
                  struct err *err)
{
    struct detached *d = calloc(1, sizeof(*d));
    struct exec_options o;
    int r;

    if (d == NULL)
        return err_errno(err, -ENOMEM, "exec");
    d->req = req;
    exec_body_options(body, &o);
    r = exec_io_start(s, &o, &detached_ops, d, &d->io, err);
    if (r < 0) {
        free(d);
        return r;
    }
    req->data = d;
    req->on_gone = on_detached_gone;
    return 0;
}
