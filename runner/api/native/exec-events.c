/* An exec whose output is sent as server-sent events: start, stdout and stderr, then complete
 * (or error). A slow reader blocks the process. Called by exec.c. */
#include <errno.h>
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
#include "http/sse.h"
#include "json/parse.h"
#include "proto/utf8.h"
#include "sandbox/exec.h"

enum {
    UTF8_TAIL_MAX = 3,          /* bytes of an incomplete character */
    EVENTS_QUEUE_MAX = 4 << 20, /* two chunks in their longest form, above SSE_PAUSE */
};

struct utf8_tail {
    char bytes[UTF8_TAIL_MAX];
    size_t len;
};

struct events_form {
    struct http_request *req;
    struct exec_io *io;
    struct sse *sse; /* NULL until it runs */
    struct utf8_tail utf8_tail[2];
    uint64_t began;
};

static const char *const stream_names[] = {"stdout", "stderr"};

/* Frees all but the request. */
static void form_release(struct events_form *f)
{
    exec_io_close(f->io);
    if (f->sse != NULL)
        sse_close(f->sse);
    free(f);
}

static void on_request_gone(struct http_request *req)
{
    form_release(req->data);
    http_abort(req);
}

static void on_sse_gone(struct sse *s, void *data)
{
    (void)s;
    form_release(data);
}

static void on_sse_drain(struct sse *s, void *data)
{
    (void)s;
    exec_io_resume(((struct events_form *)data)->io);
}

/* Takes root. Returns the result of sse_send. */
static int form_send_json(struct events_form *f, const char *event, json_t *root)
{
    auto_free char *text = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
    int r = text == NULL ? -ENOMEM : sse_send(f->sse, NULL, event, text, strlen(text));

    json_decref(root);
    return r;
}

/* Sends bytes as one event; an incomplete character at the end is kept for the next one. */
static int form_send_bytes(struct events_form *f, int stream, const char *bytes, size_t len,
                           bool last)
{
    /* static: the loop has one thread */
    static char joined[EXEC_IO_CHUNK + UTF8_TAIL_MAX];
    struct utf8_tail *c = &f->utf8_tail[stream - 1];
    size_t tail;

    (void)memcpy(joined, c->bytes, c->len);
    if (len > 0)
        (void)memcpy(joined + c->len, bytes, len);
    len += c->len;
    tail = last ? 0 : exec_text_tail(joined, len);
    if (tail > 0 && !utf8_valid(joined, len - tail))
        tail = 0; /* binary anyway */
    c->len = tail;
    (void)memcpy(c->bytes, joined + len - tail, tail);
    if (len == tail)
        return 0;
    return form_send_json(f, stream_names[stream - 1], exec_chunk(joined, len - tail));
}

static bool on_events_output(void *data, int stream, const char *bytes, size_t len)
{
    struct events_form *f = data;
    int r = form_send_bytes(f, stream, bytes, len, false);

    /* -EPIPE: on_gone follows. Any other error would be a gap in the output. */
    if (r < 0 && r != -EPIPE)
        form_release(f);
    return r == 0;
}

static void on_events_started(void *data)
{
    struct events_form *f = data;
    const struct sse_options options = {
        .max = EVENTS_QUEUE_MAX, .on_drain = on_sse_drain, .on_gone = on_sse_gone, .data = f};
    int r;

    r = sse_open(f->req, &options, &f->sse);
    if (r < 0) {
        struct http_request *req = f->req;

        form_release(f);
        reply_errorf(req, r, "out of memory");
        return;
    }
    r = form_send_json(f, "start", exec_encode(exec_io_exec(f->io)));
    if (r < 0 && r != -EPIPE)
        form_release(f);
}

static void on_events_failed(void *data, const struct err *err, int exit_code)
{
    struct events_form *f = data;
    struct http_request *req = f->req;

    if (f->sse != NULL) {
        (void)form_send_json(f, "error", exec_encode_error(err, exit_code));
        form_release(f);
        return;
    }
    form_release(f);
    exec_reply_failed(req, err, exit_code);
}

static void on_events_ended(void *data)
{
    struct events_form *f = data;
    json_t *root = exec_encode_end(exec_io_exec(f->io));

    for (int stream = 1; stream <= 2; stream++)
        (void)form_send_bytes(f, stream, NULL, 0, true);
    if (root != NULL)
        (void)json_object_set_new(root, "durationMs", json_integer(exec_duration(f->began)));
    (void)form_send_json(f, "complete", root);
    form_release(f);
}

static const struct exec_io_ops events_ops = {.started = on_events_started,
                                              .failed = on_events_failed,
                                              .output = on_events_output,
                                              .ended = on_events_ended};

static struct events_form *form_new(struct http_request *req)
{
    struct events_form *f = calloc(1, sizeof(*f));

    if (f != NULL)
        *f = (struct events_form){.req = req, .began = uv_hrtime()};
    return f;
}

static void form_take_over(struct events_form *f)
{
    f->req->data = f;
    f->req->on_gone = on_request_gone;
}

int exec_events(struct http_request *req, struct sandbox *s, const struct exec_body *body,
                struct err *err)
{
    auto_buf struct buf input = BUF_INIT(0);
    struct events_form *f = form_new(req);
    struct exec_options o;
    int r;

    if (f == NULL)
        return err_errno(err, -ENOMEM, "exec");
    r = exec_body_input(body, req, &input, err);
    if (r < 0) {
        form_release(f);
        return r;
    }
    exec_body_options(body, &o);
    r = exec_io_start(s, &o, &events_ops, f, &f->io, err);
    if (r < 0) {
        form_release(f);
        return r;
    }
    if (body->input != NULL)
        exec_io_give(f->io, &input);
    form_take_over(f);
    return 0;
}

int exec_attach_events(struct http_request *req, struct exec *e, struct err *err)
{
    struct events_form *f = form_new(req);
    int r;

    if (f == NULL)
        return err_errno(err, -ENOMEM, "exec");
    r = exec_io_attach(e, &events_ops, f, &f->io, err);
    if (r < 0)
        form_release(f);
    else
        form_take_over(f);
    return r;
}
