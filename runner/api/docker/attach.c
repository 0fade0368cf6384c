/* POST /containers/{id}/attach and GET /containers/{id}/attach/ws: connect a client to a
 * container's console, before, while and after it runs. Over a WebSocket both streams come as they
 * are, without Docker's own frames. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/docker/common.h"
#include "api/docker/containers.h"
#include "api/docker/frames.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "exec/console.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "http/websocket.h"
#include "sandbox/sandbox.h"
#include "spec/spec.h"

enum {
    EARLY_MAX = 64 << 10,      /* bytes of stdin buffered for a process that does not run yet */
    PONG_QUEUE_MAX = 64 << 10, /* with more unread bytes a client's pings get no answer */
    BINARY_SINCE = 28,         /* of API version 1: the opcode of a WebSocket's messages */
};

struct docker_attached {
    struct console_client client; /* first */
    struct http_request *req;
    struct sandbox *s; /* a reference */
    bool raw, in, out, errors, once, input_ended;
    enum ws_opcode ws; /* of its messages; 0: no WebSocket */
    struct ws_reader reader;
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

/* Sends one frame of a WebSocket. True: the client does not keep up. */
static bool ws_send(struct http_request *req, enum ws_opcode op, const char *bytes, size_t len)
{
    unsigned char head[WS_HEAD_MAX];
    bool full = http_write(req, head, ws_head(op, len, head));

    return len > 0 ? http_write(req, bytes, len) : full;
}

/* Ends the stream, and the attachment. */
static void attached_end(struct docker_attached *a, unsigned ws_status)
{
    struct http_request *req = a->req;
    const char status[2] = {(char)(ws_status >> 8), (char)ws_status};

    if (a->ws != 0 && !req->gone)
        (void)ws_send(req, WS_CLOSE, status, sizeof(status));
    attached_free(a);
    http_end(req);
}

/* ---- from the process ---- */

static bool on_console_output(struct console_client *c, int stream, const char *bytes, size_t len)
{
    struct docker_attached *a = (struct docker_attached *)(void *)c;

    if (a->req->gone || (stream == 2 ? !a->errors : !a->out))
        return true;
    if (a->ws != 0)
        return !ws_send(a->req, a->ws, bytes, len);
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
    attached_end((struct docker_attached *)(void *)c, WS_NORMAL);
}

/* ---- from the client ---- */

static void on_client_gone(struct http_request *req)
{
    struct docker_attached *a = req->data;

    http_abort(req);
    attached_free(a);
}

/* False: the attachment is over, because dropping bytes would leave a gap in the input. */
static bool attached_take_input(struct docker_attached *a, const char *data, size_t len)
{
    struct http_request *req = a->req;

    if (!console_takes_input(a->s)) {
        if (buf_append(&a->early, data, len) < 0) {
            on_client_gone(req);
            return false;
        }
        http_body_pause(req);
    } else if (!console_write(a->s, data, len)) {
        http_body_pause(req);
    }
    return true;
}

/* Input of the client, in which the detach keys are looked for. False: the attachment is over. */
static bool attached_input(struct docker_attached *a, const char *data, size_t len)
{
    int r;

    if (!a->in)
        return true;
    r = docker_detach_filter(&a->detach, data, len, &data, &len);
    if (r == 0) /* no bytes: all of them may be the beginning of the keys */
        return len == 0 || attached_take_input(a, data, len);
    if (r < 0) {
        on_client_gone(a->req);
        return false;
    }
    if (len > 0 && console_takes_input(a->s))
        (void)console_write(a->s, data, len);
    attached_end(a, WS_NORMAL);
    return false;
}

static void on_client_body(struct http_request *req, const char *data, size_t len)
{
    struct docker_attached *a = req->data;

    if (data != NULL) {
        (void)attached_input(a, data, len);
        return;
    }
    a->input_ended = true;
    if (a->early.len == 0 && a->in)
        attached_end_input(a);
}

/* ---- the same over a WebSocket ---- */

static bool on_ws_data(void *data, const char *bytes, size_t len)
{
    return attached_input(data, bytes, len);
}

static bool on_ws_control(void *data, enum ws_opcode op, const char *bytes, size_t len)
{
    struct docker_attached *a = data;

    if (op == WS_PING && http_queued(a->req) < PONG_QUEUE_MAX)
        (void)ws_send(a->req, WS_PONG, bytes, len);
    if (op != WS_CLOSE)
        return true;
    a->input_ended = true;
    if (a->early.len == 0 && a->in)
        attached_end_input(a);
    attached_end(a, WS_NORMAL);
    return false;
}

static void on_client_frames(struct http_request *req, const char *data, size_t len)
{
    static const struct ws_events events = {.data = on_ws_data, .control = on_ws_control};
    struct docker_attached *a = req->data;
    struct err err = ERR_NONE;

    if (data == NULL) {
        attached_end(a, WS_NORMAL); /* without a close frame */
        return;
    }
    if (ws_read(&a->reader, data, len, &events, a, &err) >= 0)
        return; /* 1: the attachment is over */
    log_debug("docker", "attach: %s", err.msg);
    attached_end(a, WS_PROTOCOL_ERROR);
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

/* Reads the request and makes the attachment; NULL: answered. */
static struct docker_attached *attached_begin(struct http_request *req, struct sandbox *s,
                                              struct attach_query *ret)
{
    struct docker_detach detach;
    struct docker_attached *a;
    struct err err = ERR_NONE;
    int r;

    r = http_query_known(req, fields, ret, &err);
    if (r == 0 && sandbox_get_state(s) == SANDBOX_PAUSED)
        r = err_set(&err, -EBUSY, "container %s is paused, unpause the container before attach",
                    sandbox_name(s));
    if (r == 0 && (sandbox_spec(s) == NULL || !sandbox_spec(s)->console))
        r = err_set(&err, -EINVAL, "container %s has no console to attach to", sandbox_name(s));
    if (r == 0)
        r = docker_detach_parse(ret->detach_keys, sandbox_spec(s)->tty, &detach, &err);
    if (r < 0) {
        reply_error(req, &err);
        return NULL;
    }
    a = attached_new(req, s, ret, &detach);
    if (a == NULL)
        reply_errorf(req, -ENOMEM, "out of memory");
    return a;
}

/* The head of the answer is sent. */
static void attached_run(struct docker_attached *a, const struct attach_query *q)
{
    struct http_request *req = a->req;
    struct sandbox *s = a->s;

    req->data = a;
    req->on_gone = on_client_gone;
    req->on_drain = on_client_drain;
    if (docker_bool(q->logs))
        attached_send_log(a);
    if (docker_bool(q->stream) && !(docker_is_running(s) && console_is_over(s)) &&
        console_attach(s, &a->client, NULL) == 0)
        return;
    attached_end(a, WS_NORMAL);
}

void docker_post_attach(struct http_request *req)
{
    struct sandbox *s = docker_sandbox(req);
    struct attach_query q = {0};
    struct docker_attached *a = s != NULL ? attached_begin(req, s, &q) : NULL;

    if (a == NULL)
        return;
    docker_upgrade(req, a->raw, on_client_body);
    attached_run(a, &q);
}

/* Returns the key of a client that asks for the only version of the protocol; NULL: answered. */
static const char *ws_request_key(struct http_request *req)
{
    const char *key = http_header(req, "Sec-WebSocket-Key");
    const char *version = http_header(req, "Sec-WebSocket-Version");
    const char *protocol = http_header(req, "Upgrade");

    if (req->upgrade && protocol != NULL && strcasecmp(protocol, "websocket") == 0 && key != NULL &&
        ws_key_ok(key) && version != NULL && strcmp(version, "13") == 0)
        return key;
    reply_errorf(req, -EINVAL,
                 "attach/ws: a WebSocket is needed here: GET with Upgrade: websocket, "
                 "Sec-WebSocket-Version: 13 and a Sec-WebSocket-Key");
    return NULL;
}

/* As Docker's server, takes the one protocol of its own that a client names, whatever it is. */
static const char *ws_subprotocol(const struct http_request *req)
{
    static const char accepted[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    const char *name = http_header(req, "Sec-WebSocket-Protocol");

    return name != NULL && *name != '\0' && strspn(name, accepted) == strlen(name) ? name : NULL;
}

void docker_get_attach_ws(struct http_request *req)
{
    struct sandbox *s = docker_sandbox(req);
    const char *key = s != NULL ? ws_request_key(req) : NULL;
    struct attach_query q = {0};
    struct docker_attached *a = key != NULL ? attached_begin(req, s, &q) : NULL;
    char accept[WS_ACCEPT_LEN + 1];
    struct http_header headers[] = {{"Sec-WebSocket-Accept", accept}, {NULL, NULL}, {NULL, NULL}};

    if (a == NULL)
        return;
    a->ws = docker_is_older(req, BINARY_SINCE) ? WS_TEXT : WS_BINARY;
    ws_accept(key, accept);
    if (ws_subprotocol(req) != NULL)
        headers[1] = (struct http_header){"Sec-WebSocket-Protocol", ws_subprotocol(req)};
    http_upgrade(req, "websocket", headers, on_client_frames);
    attached_run(a, &q);
}
