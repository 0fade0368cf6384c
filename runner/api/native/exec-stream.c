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
#include "api/native/exec-json.h"
#include "api/reply.h"
#include "base/auto.h"
#include "core/exec-io.h"
#include "core/exec.h"
#include "core/sandbox.h"

static const char protocol[] = "rind-exec";

struct stream_form {
    struct http_request *req; /* NULL: the client has gone while the sandbox was being stopped */
    struct exec_io *io;
    struct exec_frames frames;
    uint64_t began;
    bool main;     /* of a sandbox, rather than an exec */
    bool own;      /* what runs is its client's: ended when that leaves */
    bool detached; /* by a frame: then it is not */
    bool over;     /* on_over is on its way */
};

static void release(struct stream_form *f)
{
    exec_io_close(f->io);
    free(f);
}

/* What is to go with the client: a reference, or NULL. */
static struct exec *take_owned(const struct stream_form *f)
{
    /* A rind that ends takes nobody's work with it: the client comes back to the next. */
    if (!f->own || f->detached || http_closing(f->req))
        return NULL;
    return exec_ref(exec_io_exec(f->io));
}

/* Once the form is released: what ends here has nobody to tell. */
static void end_owned(struct exec *e, bool main)
{
    if (e == NULL)
        return;
    if (!main)
        exec_discard(e);
    else /* one that is being removed already is removed */
        (void)sandbox_remove(exec_sandbox(e), true, NULL, NULL, NULL);
    exec_unref(e);
}

static void on_gone(struct http_request *req)
{
    struct stream_form *f = req->data;
    struct exec *owned = take_owned(f);
    bool main = f->main;

    http_abort(req);
    if (f->over)
        f->req = NULL;
    else
        release(f);
    end_owned(owned, main);
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

/* A main process alone, as `rind run` without a daemon: what it has started is its own affair. */
static void on_signal(void *data, int signo)
{
    struct stream_form *f = data;
    struct exec *e = exec_io_exec(f->io);

    if (f->main)
        (void)exec_signal(e, signo, false);
    else
        (void)exec_signal_group(e, signo);
}

/* Its input ends here; what it does is its own affair now. */
static void on_detach(void *data)
{
    ((struct stream_form *)data)->detached = true;
}

static void on_output_close(void *data, int stream)
{
    exec_io_close_output(((struct stream_form *)data)->io, stream);
}

static const struct exec_frame_ops frame_ops = {.input = on_input,
                                                .input_end = on_input_end,
                                                .resize = on_resize,
                                                .signal = on_signal,
                                                .detach = on_detach,
                                                .output_close = on_output_close};

static void on_body(struct http_request *req, const char *bytes, size_t len)
{
    struct stream_form *f = req->data;
    struct err err = ERR_NONE;

    if (bytes == NULL || f->over) {
        exec_io_end_input(f->io);
        return;
    }
    if (exec_frames_feed(&f->frames, bytes, len, &frame_ops, f, &err) < 0) {
        struct exec *owned = take_owned(f);
        bool main = f->main;

        end_with(f, EXEC_FRAME_ERROR, exec_encode_error(&err, 0));
        end_owned(owned, main);
    } else if (f->detached) {
        release(f);
        http_end(req);
    }
}

/* ---- from the process ---- */

static void on_started(void *data)
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
    exec_reply_failed(req, err, exit_code);
}

static bool on_output(void *data, int stream, const char *bytes, size_t len)
{
    return send_frame(data, stream == 2 ? EXEC_FRAME_STDERR : EXEC_FRAME_STDOUT, bytes, len);
}

static bool takes_pipe(void *data)
{
    return http_all_taken(((struct stream_form *)data)->req);
}

static bool on_piped(void *data, int stream, int pipe, size_t len)
{
    struct stream_form *f = data;
    unsigned char head[EXEC_FRAME_HEAD];

    exec_frame_head(head, stream == 2 ? EXEC_FRAME_STDERR : EXEC_FRAME_STDOUT, len);
    (void)http_write(f->req, head, sizeof(head));
    return !http_write_pipe(f->req, pipe, len);
}

static void on_writable(void *data)
{
    http_body_resume(((struct stream_form *)data)->req);
}

static json_t *encode_end(const struct stream_form *f)
{
    struct exec *e = exec_io_exec(f->io);
    json_t *root = exec_encode_end(e);
    struct sandbox_facts facts;

    if (root == NULL)
        return NULL;
    (void)json_object_set_new(root, "durationMs", json_integer(exec_duration(f->began)));
    if (!f->main)
        return root;
    sandbox_get_facts(exec_sandbox(e), &facts);
    (void)json_object_set_new(root, "oomKilled", json_boolean(facts.oom_killed));
    if (facts.timed_out) {
        (void)json_object_set_new(root, "timedOut", json_true());
        (void)json_object_set_new(root, "reason", json_string("timeout"));
    }
    return root;
}

/* Nothing of the sandbox runs any more, or is there, as the case may be. */
static void on_over(void *data, int r, const struct err *err)
{
    struct stream_form *f = data;

    (void)r;
    (void)err;
    f->over = false;
    if (f->req == NULL)
        release(f);
    else
        end_with(f, EXEC_FRAME_EXIT, encode_end(f));
}

static void on_ended(void *data)
{
    struct stream_form *f = data;

    if (f->main && sandbox_when_over(exec_sandbox(exec_io_exec(f->io)), on_over, f, NULL) == 0)
        f->over = true;
    else
        end_with(f, EXEC_FRAME_EXIT, encode_end(f));
}

static const struct exec_io_ops stream_ops = {.started = on_started,
                                              .failed = on_failed,
                                              .output = on_output,
                                              .takes_pipe = takes_pipe,
                                              .piped = on_piped,
                                              .writable = on_writable,
                                              .ended = on_ended};

/* ---- beginning ---- */

/* NULL: err says why. */
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

/* Takes the request over with the form, or frees that. */
static int form_begun(struct stream_form *f, int r)
{
    if (r < 0) {
        free(f);
        return r;
    }
    f->req->data = f;
    f->req->on_gone = on_gone;
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

/* Whether somebody can attach now. */
static int main_check(struct sandbox *s, struct err *err)
{
    if (!sandbox_is_attachable(s))
        return err_set(err, -EINVAL, "sandbox %s: " NATIVE_LOGGED, sandbox_name(s));
    if (sandbox_main(s) == NULL)
        return err_set(err, -EBUSY, "sandbox %s is %s", sandbox_name(s),
                       sandbox_state_name(sandbox_get_state(s)));
    if (exec_is_attached(sandbox_main(s)))
        return err_set(err, -EBUSY, "sandbox %s: somebody is attached already", sandbox_name(s));
    return 0;
}

/* NULL: err says why. */
static struct stream_form *main_form(struct http_request *req, struct sandbox *s, bool own,
                                     struct err *err)
{
    struct stream_form *f;

    if (main_check(s, err) < 0)
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
        on_gone(req);
    else
        on_started(f);
    return 0;
}
