/*
 * An exec as an upgraded connection: frames in both directions (exec-forms.h). Each direction waits
 * for its slower side: the process for a client that does not read, the client for a process that
 * does not.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "api/http.h"
#include "api/native/common.h"
#include "api/native/exec-forms.h"
#include "api/native/exec-io.h"
#include "api/native/exec-json.h"
#include "api/reply.h"
#include "base/auto.h"
#include "core/exec.h"

static const char protocol[] = "rind-exec";

struct stream_form {
    struct http_request *req;
    struct exec_io *io;
    struct exec_frames frames;
    uint64_t began;
};

static void release(struct stream_form *f)
{
    exec_io_close(f->io);
    free(f);
}

static void on_gone(struct http_request *req)
{
    release(req->data);
    http_abort(req);
}

static void on_drain(struct http_request *req)
{
    exec_io_resume(((struct stream_form *)req->data)->io);
}

/* Whether the client has room for more. */
static bool send_frame(struct stream_form *f, enum exec_frame type, const void *data, size_t len)
{
    /* Head and payload in one write; one at a time, the loop has one thread. */
    static unsigned char frame[EXEC_FRAME_HEAD + EXEC_IO_CHUNK];

    exec_frame_head(frame, type, len);
    if (len > 0)
        (void)memcpy(frame + EXEC_FRAME_HEAD, data, len);
    return !http_write(f->req, frame, EXEC_FRAME_HEAD + len);
}

/* The last frame. Takes root. */
static void end_with(struct stream_form *f, enum exec_frame type, json_t *root)
{
    auto_free char *text = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
    struct http_request *req = f->req;

    json_decref(root);
    if (text != NULL)
        (void)send_frame(f, type, text, strlen(text));
    release(f);
    if (text != NULL)
        http_end(req);
    else
        http_abort(req); /* an end without its frame is no end */
}

/* ---- from the client ---- */

static void on_input(void *data, const char *bytes, size_t len)
{
    struct stream_form *f = data;

    if (!exec_io_write(f->io, bytes, len))
        http_body_pause(f->req);
}

static void on_input_end(void *data)
{
    exec_io_end_input(((struct stream_form *)data)->io);
}

/* What has ended meanwhile, or is no terminal, has no size and takes no signal: as with kill(2) on
 * a zombie, nothing happens. */
static void on_resize(void *data, uint16_t rows, uint16_t cols)
{
    (void)exec_resize(exec_io_exec(((struct stream_form *)data)->io), rows, cols);
}

static void on_signal(void *data, int signo)
{
    (void)exec_signal_group(exec_io_exec(((struct stream_form *)data)->io), signo);
}

static const struct exec_frame_ops frame_ops = {
    .input = on_input, .input_end = on_input_end, .resize = on_resize, .signal = on_signal};

static void on_body(struct http_request *req, const char *bytes, size_t len)
{
    struct stream_form *f = req->data;
    struct err err = ERR_NONE;

    if (bytes == NULL)
        exec_io_end_input(f->io);
    else if (exec_frames_feed(&f->frames, bytes, len, &frame_ops, f, &err) < 0)
        end_with(f, EXEC_FRAME_ERROR, exec_encode_error(&err, 0));
}

/* ---- from the process ---- */

static void on_started(void *data)
{
    struct stream_form *f = data;
    char id[24];
    const struct http_header headers[] = {
        {"Rind-Exec-Id", id}, {"Content-Type", "application/vnd.rind.exec-stream"}, {NULL, NULL}};

    (void)snprintf(id, sizeof(id), "%" PRIu64, exec_id(exec_io_exec(f->io)));
    f->req->on_drain = on_drain;
    http_upgrade(f->req, f->req->upgrade ? protocol : NULL, headers, on_body);
}

static void on_failed(void *data, const struct err *err, int exit_code)
{
    struct stream_form *f = data;
    struct http_request *req = f->req;

    if (req->upgraded) {
        end_with(f, EXEC_FRAME_ERROR, exec_encode_error(err, exit_code));
        return;
    }
    release(f);
    exec_reply_failed(req, err);
}

static bool on_output(void *data, int stream, const char *bytes, size_t len)
{
    return send_frame(data, stream == 2 ? EXEC_FRAME_STDERR : EXEC_FRAME_STDOUT, bytes, len);
}

static void on_writable(void *data)
{
    http_body_resume(((struct stream_form *)data)->req);
}

static void on_ended(void *data)
{
    struct stream_form *f = data;
    json_t *root = exec_encode_end(exec_io_exec(f->io));

    if (root != NULL)
        (void)json_object_set_new(root, "durationMs", json_integer(exec_duration(f->began)));
    end_with(f, EXEC_FRAME_EXIT, root);
}

static const struct exec_io_ops stream_ops = {.started = on_started,
                                              .failed = on_failed,
                                              .output = on_output,
                                              .writable = on_writable,
                                              .ended = on_ended};

/* ---- beginning ---- */

static int begin(struct http_request *req, struct sandbox *s, const struct exec_options *o,
                 struct exec *e, struct err *err)
{
    const char *asked = http_header(req, "upgrade");
    struct stream_form *f;
    int r;

    if (req->upgrade && asked != NULL && strcmp(asked, protocol) != 0)
        return err_set(err, -EINVAL, "Upgrade: an exec's stream is '%s'", protocol);
    f = calloc(1, sizeof(*f));
    if (f == NULL)
        return err_errno(err, -ENOMEM, "exec");
    f->req = req;
    f->began = uv_hrtime();
    r = e != NULL ? exec_io_attach(e, &stream_ops, f, &f->io, err)
                  : exec_io_start(s, o, &stream_ops, f, &f->io, err);
    if (r < 0) {
        free(f);
        return r;
    }
    req->data = f;
    req->on_gone = on_gone;
    return 0;
}

int exec_stream(struct http_request *req, struct sandbox *s, const struct exec_body *body,
                struct err *err)
{
    struct exec_options o;

    if (body->input != NULL)
        return err_set(err, -EINVAL, "stdin: in the stream form it is sent as frames");
    exec_body_options(body, &o);
    o.with_stdin = true;
    return begin(req, s, &o, NULL, err);
}

int exec_attach_stream(struct http_request *req, struct exec *e, struct err *err)
{
    return begin(req, NULL, NULL, e, err);
}
