/* POST /containers/{id}/attach: connects a client to a container's console, before, while and
 * after it runs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/docker/common.h"
#include "api/docker/containers.h"
#include "api/docker/frames.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "exec/console.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "sandbox/sandbox.h"
#include "spec/spec.h"

enum { EARLY_MAX = 64 << 10 /* bytes of stdin buffered for a process that does not run yet */ };

struct docker_attached {
    struct console_client client; /* first */
    struct http_request *req;
    struct sandbox *s; /* a reference */
    bool raw, in, out, errors, once, input_ended;
    struct docker_detach detach;
    struct buf early; /* input received before the process runs */
};

static void attached_free(struct docker_attached *a)
{
    console_detach(&a->client);
    sandbox_unref(a->s);
    buf_done(&a->early);
    docker_detach_done(&a->detach);
    free(a);
}

/* ---- from the process ---- */

static bool on_console_output(struct console_client *c, int stream, const char *bytes, size_t len)
{
    struct docker_attached *a = (struct docker_attached *)(void *)c;

    if (a->req->gone || (stream == 2 ? !a->errors : !a->out))
        return true;
    return docker_send(a->req, a->raw, stream, bytes, len);
}

static void attached_end_input(struct docker_attached *a)
{
    /* A terminal's input does not end when the client closes its side. */
    if (a->input_ended && a->once && !a->raw)
        console_end_input(a->s);
}

static void on_console_writable(struct console_client *c)
{
    struct docker_attached *a = (struct docker_attached *)(void *)c;

    if (!console_takes_input(a->s))
        return;
    if (a->early.len > 0) {
        bool room = console_write(a->s, a->early.data, a->early.len);

        buf_done(&a->early);
        a->early.max = EARLY_MAX;
        if (!room)
            return;
    }
    if (a->input_ended)
        attached_end_input(a);
    else
        http_body_resume(a->req);
}

static void on_console_ended(struct console_client *c)
{
    struct docker_attached *a = (struct docker_attached *)(void *)c;
    struct http_request *req = a->req;

    attached_free(a);
    http_end(req);
}

/* ---- from the client ---- */

static void on_client_gone(struct http_request *req)
{
    struct docker_attached *a = req->data;

    http_abort(req);
    attached_free(a);
}

static void attached_take_input(struct docker_attached *a, const char *data, size_t len)
{
    struct http_request *req = a->req;

    if (!console_takes_input(a->s)) {
        if (buf_append(&a->early, data, len) < 0) {
            on_client_gone(req); /* dropping bytes would leave a gap in its input */
            return;
        }
        http_body_pause(req);
    } else if (!console_write(a->s, data, len)) {
        http_body_pause(req);
    }
}

static void on_client_body(struct http_request *req, const char *data, size_t len)
{
    struct docker_attached *a = req->data;
    int r;

    if (data == NULL) {
        a->input_ended = true;
        if (a->early.len == 0 && a->in)
            attached_end_input(a);
        return;
    }
    if (!a->in)
        return;
    r = docker_detach_filter(&a->detach, data, len, &data, &len);
    if (r == 0) {
        if (len > 0) /* 0: all of it may be the beginning of the keys */
            attached_take_input(a, data, len);
        return;
    }
    if (r < 0) {
        on_client_gone(req);
        return;
    }
    if (len > 0 && console_takes_input(a->s))
        (void)console_write(a->s, data, len);
    attached_free(a);
    http_end(req);
}

static void on_client_drain(struct http_request *req)
{
    console_resume(&((struct docker_attached *)req->data)->client);
}

/* ---- beginning ---- */

struct attach_query {
    const char *logs, *stream, *in, *out, *errors, *detach_keys;
};

#define FLAG(key, member)                                                                          \
    {                                                                                              \
        .name = (key), .type = QUERY_STRING, .off = offsetof(struct attach_query, member),         \
        .max = 256                                                                                 \
    }

static const struct query_field fields[] = {FLAG("logs", logs),
                                            FLAG("stream", stream),
                                            FLAG("stdin", in),
                                            FLAG("stdout", out),
                                            FLAG("stderr", errors),
                                            FLAG("detachKeys", detach_keys),
                                            {0}};

static void attached_send_log(struct docker_attached *a)
{
    struct console_record record;
    uint64_t offset = 0;

    while (console_read(a->s, &offset, &record) == 1)
        (void)on_console_output(&a->client, record.stream, record.bytes, record.len);
}

static struct docker_attached *attached_new(struct http_request *req, struct sandbox *s,
                                            const struct attach_query *q,
                                            const struct docker_detach *detach)
{
    auto_ptr(json_decref) json_t *kept = docker_kept(sandbox_spec(s));
    struct docker_attached *a = calloc(1, sizeof(*a));

    if (a == NULL)
        return NULL;
    *a = (struct docker_attached){.client = {.output = on_console_output,
                                             .writable = on_console_writable,
                                             .ended = on_console_ended},
                                  .req = req,
                                  .s = s,
                                  .raw = sandbox_spec(s)->tty,
                                  .in = docker_bool(q->in) && sandbox_spec(s)->interactive,
                                  .out = docker_bool(q->out),
                                  .errors = docker_bool(q->errors),
                                  .once = json_is_true(json_object_get(kept, "stdinOnce")),
                                  .detach = *detach,
                                  .early = BUF_INIT(EARLY_MAX)};
    sandbox_ref(s);
    return a;
}

void docker_post_attach(struct http_request *req)
{
    struct sandbox *s = docker_sandbox(req);
    struct attach_query q = {0};
    struct docker_detach detach;
    struct docker_attached *a;
    struct err err = ERR_NONE;
    int r;

    if (s == NULL)
        return;
    r = http_query_known(req, fields, &q, &err);
    if (r == 0 && sandbox_get_state(s) == SANDBOX_PAUSED)
        r = err_set(&err, -EBUSY, "container %s is paused, unpause the container before attach",
                    sandbox_name(s));
    if (r == 0 && (sandbox_spec(s) == NULL || !sandbox_spec(s)->console))
        r = err_set(&err, -EINVAL, "container %s has no console to attach to", sandbox_name(s));
    if (r == 0)
        r = docker_detach_parse(q.detach_keys, sandbox_spec(s)->tty, &detach, &err);
    if (r < 0) {
        reply_error(req, &err);
        return;
    }
    a = attached_new(req, s, &q, &detach);
    if (a == NULL) {
        reply_errorf(req, -ENOMEM, "out of memory");
        return;
    }
    req->data = a;
    req->on_gone = on_client_gone;
    req->on_drain = on_client_drain;
    docker_upgrade(req, a->raw, on_client_body);
    if (docker_bool(q.logs))
        attached_send_log(a);
    if (docker_bool(q.stream) && !(docker_is_running(s) && console_is_over(s)) &&
        console_attach(s, &a->client, NULL) == 0)
        return;
    attached_free(a);
    http_end(req);
}
