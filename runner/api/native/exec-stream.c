/* An exec as an upgraded connection: frames in both directions (exec-forms.h). Back-pressure
 * works both ways: a client that does not read blocks the process, and a process that does not
 * read pauses the client. Called by exec.c and sandbox-*.c. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "api/common.h"
#include "api/native/exec-forms.h"
#include "api/native/exec-json.h"
#include "base/auto.h"
#include "exec/exec-io.h"
#include "http/reply.h"
#include "http/server.h"
#include "sandbox/exec.h"
#include "sandbox/sandbox.h"

static const char protocol[] = "rind-exec";

struct stream_form {
    struct http_request *req; /* NULL: the client left while the sandbox was stopping */
    struct exec_io *io;
    struct exec_frames frames;
    uint64_t began;
    bool main;     /* a sandbox's main process rather than an exec */
    bool own;      /* the process is ended when the client leaves */
    bool detached; /* by a DETACH frame: overrides own */
    bool over;     /* on_sandbox_over is pending */
};

static void form_release(struct stream_form *f)
{
    exec_io_close(f->io);
    free(f);
}

/* Returns a reference to the process that must end with the client, or NULL. */
static struct exec *form_take_owned(const struct stream_form *f)
{
    /* When the daemon stops, processes survive: the client can reconnect to the next daemon. */
    if (!f->own || f->detached || http_closing(f->req))
        return NULL;
    return exec_ref(exec_io_exec(f->io));
}

/* Ends an owned process after the form was released: no client is left to report to. */
static void exec_end_owned(struct exec *e, bool main)
{
    if (e == NULL)
        return;
    if (!main)
        exec_discard(e);
    else /* fails harmlessly if it is being removed already */
        (void)sandbox_remove(exec_sandbox(e), true, NULL, NULL, NULL);
    exec_unref(e);
}

static void on_client_gone(struct http_request *req)
{
    struct stream_form *f = req->data;
    struct exec *owned = form_take_owned(f);
    bool main = f->main;

    http_abort(req);
    if (f->over)
        f->req = NULL;
    else
        form_release(f);
    exec_end_owned(owned, main);
}

static void on_client_drain(struct http_request *req)
{
    exec_io_resume(((struct stream_form *)req->data)->io);
}

/* False: the client's queue is full. */
static bool form_send_frame(struct stream_form *f, enum exec_frame type, const void *data,
                            size_t len)
{
    /* static: head and payload in one write; the loop has one thread */
    static unsigned char frame[EXEC_FRAME_HEAD + EXEC_IO_CHUNK];

    exec_frame_head(frame, type, len);
    if (len > 0)
        (void)memcpy(frame + EXEC_FRAME_HEAD, data, len);
    return !http_write(f->req, frame, EXEC_FRAME_HEAD + len);
}

/* Sends the last frame and ends the request. Takes root. */
static void form_end_with(struct stream_form *f, enum exec_frame type, json_t *root)
{
    auto_free char *text = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
    struct http_request *req = f->req;

    json_decref(root);
    if (text != NULL)
        (void)form_send_frame(f, type, text, strlen(text));
    form_release(f);
    if (text != NULL)
        http_end(req);
    else
        http_abort(req); /* without the last frame the end would look regular */
}

/* ---- from the client ---- */

static void on_frame_input(void *data, const char *bytes, size_t len)
{
    struct stream_form *f = data;

    if (!exec_io_write(f->io, bytes, len))
        http_body_pause(f->req);
}

static void on_frame_input_end(void *data)
{
    exec_io_end_input(((struct stream_form *)data)->io);
}

/* A process that has ended or has no terminal ignores size and signal, like kill(2) on a zombie. */
static void on_frame_resize(void *data, uint16_t rows, uint16_t cols)
{
    (void)exec_resize(exec_io_exec(((struct stream_form *)data)->io), rows, cols);
}

/* Only to the main process itself, as `rind run` without a daemon does: its children are its own
 * concern. */
static void on_frame_signal(void *data, int signo)
{
    struct stream_form *f = data;
    struct exec *e = exec_io_exec(f->io);

    if (f->main)
        (void)exec_signal(e, signo, false);
    else
        (void)exec_signal_group(e, signo);
}

/* The process's stdin ends, and it continues without client. */
static void on_frame_detach(void *data)
{
    ((struct stream_form *)data)->detached = true;
}

static void on_frame_output_close(void *data, int stream)
{
    exec_io_close_output(((struct stream_form *)data)->io, stream);
}

static const struct exec_frame_ops frame_ops = {.input = on_frame_input,
                                                .input_end = on_frame_input_end,
                                                .resize = on_frame_resize,
                                                .signal = on_frame_signal,
                                                .detach = on_frame_detach,
                                                .output_close = on_frame_output_close};

static void on_client_body(struct http_request *req, const char *bytes, size_t len)
{
    struct stream_form *f = req->data;
    struct err err = ERR_NONE;

    if (bytes == NULL || f->over) {
        exec_io_end_input(f->io);
        return;
    }
    if (exec_frames_feed(&f->frames, bytes, len, &frame_ops, f, &err) < 0) {
        struct exec *owned = form_take_owned(f);
        bool main = f->main;

        form_end_with(f, EXEC_FRAME_ERROR, exec_encode_error(&err, 0));
        exec_end_owned(owned, main);
    } else if (f->detached) {
        form_release(f);
        http_end(req);
    }
}

/* ---- from the process ---- */

static void on_process_started(void *data)
{
    struct stream_form *f = data;
    struct exec *e = exec_io_exec(f->io);
    char id[24];
    const struct http_header headers[] = {{f->main ? "Rind-Sandbox-Id" : "Rind-Exec-Id", id},
                                          {"Content-Type", "application/vnd.rind.exec-stream"},
                                          {NULL, NULL}};

    if (f->main)
        (void)snprintf(id, sizeof(id), "%s", sandbox_id(exec_sandbox(e)));
    else
        (void)snprintf(id, sizeof(id), "%" PRIu64, exec_id(e));
    f->req->on_drain = on_client_drain;
    http_upgrade(f->req, f->req->upgrade ? protocol : NULL, headers, on_client_body);
}

static void on_process_failed(void *data, const struct err *err, int exit_code)
{
    struct stream_form *f = data;
    struct http_request *req = f->req;

    if (req->upgraded) {
        form_end_with(f, EXEC_FRAME_ERROR, exec_encode_error(err, exit_code));
        return;
    }
    form_release(f);
    exec_reply_failed(req, err, exit_code);
}

static bool on_process_output(void *data, int stream, const char *bytes, size_t len)
{
    return form_send_frame(data, stream == 2 ? EXEC_FRAME_STDERR : EXEC_FRAME_STDOUT, bytes, len);
}

static bool form_takes_pipe(void *data)
{
    return http_all_taken(((struct stream_form *)data)->req);
}

static bool on_process_piped(void *data, int stream, int pipe, size_t len)
{
    struct stream_form *f = data;
    unsigned char head[EXEC_FRAME_HEAD];

    exec_frame_head(head, stream == 2 ? EXEC_FRAME_STDERR : EXEC_FRAME_STDOUT, len);
    (void)http_write(f->req, head, sizeof(head));
    return !http_write_pipe(f->req, pipe, len);
}

static void on_process_writable(void *data)
{
    http_body_resume(((struct stream_form *)data)->req);
}

static json_t *form_encode_end(const struct stream_form *f)
{
    struct exec *e = exec_io_exec(f->io);
    json_t *root = exec_encode_end(e);
    struct sandbox_info info;

    if (root == NULL)
        return NULL;
    (void)json_object_set_new(root, "durationMs", json_integer(exec_duration(f->began)));
    if (!f->main)
        return root;
    sandbox_get_info(exec_sandbox(e), &info);
    (void)json_object_set_new(root, "oomKilled", json_boolean(info.oom_killed));
    if (info.timed_out) {
        (void)json_object_set_new(root, "timedOut", json_true());
        (void)json_object_set_new(root, "reason", json_string("timeout"));
    }
    return root;
}

/* The sandbox has stopped or is removed. */
static void on_sandbox_over(void *data, int r, const struct err *err)
{
    struct stream_form *f = data;

    (void)r;
    (void)err;
    f->over = false;
    if (f->req == NULL)
        form_release(f);
    else
        form_end_with(f, EXEC_FRAME_EXIT, form_encode_end(f));
}

static void on_process_ended(void *data)
{
    struct stream_form *f = data;

    /* A client that has left does not come back for the exit status, and both ends may be read in
     * one round of the loop. */
    if (f->own && http_client_left(f->req)) {
        on_client_gone(f->req);
        return;
    }
    if (f->main &&
        sandbox_when_over(exec_sandbox(exec_io_exec(f->io)), on_sandbox_over, f, NULL) == 0)
        f->over = true;
    else
        form_end_with(f, EXEC_FRAME_EXIT, form_encode_end(f));
}

static const struct exec_io_ops stream_ops = {.started = on_process_started,
                                              .failed = on_process_failed,
                                              .output = on_process_output,
                                              .takes_pipe = form_takes_pipe,
                                              .piped = on_process_piped,
                                              .writable = on_process_writable,
                                              .ended = on_process_ended};

/* ---- beginning ---- */

/* NULL: failed, err is set. */
static struct stream_form *form_new(struct http_request *req, bool own, struct err *err)
{
    const char *asked = http_header(req, "upgrade");
    struct stream_form *f;

    if (req->upgrade && asked != NULL && strcmp(asked, protocol) != 0) {
        (void)err_set(err, -EINVAL, "Upgrade: an exec's stream is '%s'", protocol);
        return NULL;
    }
    f = calloc(1, sizeof(*f));
    if (f == NULL) {
        (void)err_errno(err, -ENOMEM, "exec");
        return NULL;
    }
    f->req = req;
    f->own = own;
    f->began = uv_hrtime();
    return f;
}

/* On success the form takes over the request, otherwise it is freed. */
static int form_begun(struct stream_form *f, int r)
{
    if (r < 0) {
        free(f);
        return r;
    }
    f->req->data = f;
    f->req->on_gone = on_client_gone;
    return 0;
}

int exec_stream(struct http_request *req, struct sandbox *s, const struct exec_body *body,
                struct err *err)
{
    struct stream_form *f;
    struct exec_options o;

    if (body->input != NULL)
        return err_set(err, -EINVAL, "stdin: in the stream form it is sent as frames");
    f = form_new(req, body->own, err);
    if (f == NULL)
        return err->code;
    exec_body_options(body, &o);
    o.with_stdin = true;
    return form_begun(f, exec_io_start(s, &o, &stream_ops, f, &f->io, err));
}

int exec_attach_stream(struct http_request *req, struct exec *e, bool own, struct err *err)
{
    struct stream_form *f = form_new(req, own, err);

    if (f == NULL)
        return err->code;
    return form_begun(f, exec_io_attach(e, &stream_ops, f, &f->io, err));
}

/* ---- main processes ---- */

/* Checks that a client can attach now. */
static int main_check_attach(struct sandbox *s, struct err *err)
{
    if (!sandbox_is_attachable(s))
        return err_set(err, -EINVAL, "sandbox %s: " NATIVE_LOGGED, sandbox_name(s));
    if (sandbox_main(s) == NULL)
        return err_set(err, -EBUSY, "sandbox %s is %s", sandbox_name(s),
                       sandbox_state_name(sandbox_get_state(s)));
    if (exec_is_attached(sandbox_main(s)))
        return err_set(err, -EBUSY, "sandbox %s: another client is attached already",
                       sandbox_name(s));
    return 0;
}

/* NULL: failed, err is set. */
static struct stream_form *main_form(struct http_request *req, struct sandbox *s, bool own,
                                     struct err *err)
{
    struct stream_form *f;

    if (main_check_attach(s, err) < 0)
        return NULL;
    f = form_new(req, own, err);
    if (f != NULL)
        f->main = true;
    return f;
}

int exec_main_attach(struct http_request *req, struct sandbox *s, bool own, struct err *err)
{
    struct stream_form *f = main_form(req, s, own, err);

    return f == NULL ? err->code
                     : form_begun(f, exec_io_attach(sandbox_main(s), &stream_ops, f, &f->io, err));
}

int exec_main_take(struct http_request *req, struct sandbox *s, bool own, struct err *err)
{
    struct stream_form *f = main_form(req, s, own, err);
    int r;

    if (f == NULL)
        return err->code;
    r = form_begun(f, exec_io_take(sandbox_main(s), &stream_ops, f, &f->io, err));
    if (r < 0)
        return r;
    if (req->gone)
        on_client_gone(req);
    else
        on_process_started(f);
    return 0;
}
