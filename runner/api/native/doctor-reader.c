#include "api/native/doctor-reader.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/common.h"
#include "api/native/native.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "http/reply.h"
#include "http/server.h"
#include "json/parse.h"
#include "sandbox/sandbox.h"

enum { READ_SIZE = 16 << 10 };

/* A request that waits for the report; req->data. */
struct doctor_waiter {
    struct http_request *req;
    struct doctor_waiter *next, **link; /* in reader->waiters */
};

struct doctor_reader {
    uv_pipe_t pipe;
    bool open; /* the handle is initialised */
    struct buf text;
    json_t *report; /* owned; NULL: not yet read, or none */
    struct doctor_waiter *waiters;
    char chunk[READ_SIZE];
};

/* Encodes the broken sandboxes that the client may use: they can only be removed, and are easily
 * overlooked. */
static json_t *encode_broken(struct http_request *req)
{
    json_t *list = json_array();

    for (struct sandbox *s = sandbox_first(api_supervisor(req)); s != NULL; s = sandbox_next(s)) {
        struct sandbox_info info;

        if (sandbox_get_state(s) != SANDBOX_BROKEN || !api_may_see(req, s))
            continue;
        sandbox_get_info(s, &info);
        (void)json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "id", sandbox_id(s), "name",
                                                    sandbox_name(s), "error", info.error));
    }
    return list;
}

static void doctor_answer(struct doctor_reader *d, struct http_request *req)
{
    json_t *report = d->report != NULL ? json_copy(d->report) : NULL;

    if (report != NULL)
        (void)json_object_set_new(report, "brokenSandboxes", encode_broken(req));
    if (d->report != NULL)
        reply_json(req, 200, report);
    else
        reply_errorf(req, -EAGAIN, "doctor: there is no report; run `rind doctor` on the host");
}

static void doctor_answer_all(struct doctor_reader *d)
{
    while (d->waiters != NULL) {
        struct doctor_waiter *w = d->waiters;

        list_remove(w);
        w->req->on_gone = NULL;
        doctor_answer(d, w->req);
        free(w);
    }
}

static void on_pipe_closed(uv_handle_t *h)
{
    struct doctor_reader *d = h->data;

    d->open = false;
    if (d->text.max == 0) { /* doctor_reader_close was called */
        json_decref(d->report);
        free(d);
    }
}

static void doctor_finish(struct doctor_reader *d, bool whole)
{
    struct err err = ERR_NONE;

    if (whole && json_parse(d->text.data != NULL ? d->text.data : "", d->text.len,
                            NATIVE_DOCTOR_MAX, &d->report, &err) < 0)
        log_warn("doctor", "no report: %s", err.msg);
    buf_done(&d->text);
    d->text = (struct buf)BUF_INIT(NATIVE_DOCTOR_MAX);
    doctor_answer_all(d);
    uv_close((uv_handle_t *)&d->pipe, on_pipe_closed);
}

static void on_pipe_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
    struct doctor_reader *d = h->data;

    (void)suggested;
    *buf = uv_buf_init(d->chunk, sizeof(d->chunk));
}

static void on_pipe_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct doctor_reader *d = stream->data;

    if (n > 0 && buf_append(&d->text, buf->base, (size_t)n) < 0)
        n = UV_ENOBUFS;
    if (n < 0)
        doctor_finish(d, n == UV_EOF);
}

int doctor_reader_new(uv_loop_t *loop, int fd, struct doctor_reader **ret)
{
    struct doctor_reader *d = calloc(1, sizeof(*d));
    int r = 0;

    if (d == NULL) {
        if (fd >= 0)
            (void)close(fd);
        return -ENOMEM;
    }
    d->text = (struct buf)BUF_INIT(NATIVE_DOCTOR_MAX);
    *ret = d;
    if (fd < 0)
        return 0;
    (void)uv_pipe_init(loop, &d->pipe, 0);
    d->pipe.data = d;
    d->open = true;
    r = uv_pipe_open(&d->pipe, fd);
    if (r < 0)
        (void)close(fd);
    else
        r = uv_read_start((uv_stream_t *)&d->pipe, on_pipe_alloc, on_pipe_read);
    if (r < 0)
        doctor_finish(d, false); /* continue without a report */
    return 0;
}

void doctor_reader_close(struct doctor_reader *d)
{
    if (d == NULL)
        return;
    doctor_answer_all(d);
    buf_done(&d->text);
    d->text.max = 0;
    if (!d->open) {
        json_decref(d->report);
        free(d);
    } else if (!uv_is_closing((uv_handle_t *)&d->pipe)) {
        uv_close((uv_handle_t *)&d->pipe, on_pipe_closed);
    }
}

static void on_waiter_gone(struct http_request *req)
{
    struct doctor_waiter *w = req->data;

    list_remove(w);
    free(w);
    http_abort(req);
}

void doctor_reader_answer(struct doctor_reader *d, struct http_request *req)
{
    struct doctor_waiter *w;

    if (!d->open) {
        doctor_answer(d, req);
        return;
    }
    w = calloc(1, sizeof(*w));
    if (w == NULL) {
        reply_errorf(req, -ENOMEM, "out of memory");
        return;
    }
    w->req = req;
    list_add(&d->waiters, w);
    req->data = w;
    req->on_gone = on_waiter_gone;
}
