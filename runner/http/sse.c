#include "http/sse.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/buf.h"
#include "http/server.h"

struct sse {
    struct http_request *req; /* NULL after sse_cut_off */
    uv_timer_t heartbeat;
    struct sse_options options;
    struct buf text;              /* the event being built */
    char last[SSE_FIELD_MAX + 1]; /* id of the last event sent */
    bool wrote;                   /* since the last heartbeat */
    bool closed;
};

static void on_sse_heartbeat(uv_timer_t *t)
{
    struct sse *s = t->data;

    /* Queued bytes, or bytes just written, serve as heartbeat. */
    if (s->req != NULL && !s->wrote && http_queued(s->req) == 0)
        (void)http_write(s->req, ":\n\n", 3);
    s->wrote = false;
}

static void on_sse_drain(struct http_request *req)
{
    struct sse *s = req->data;

    if (!s->closed && s->options.on_drain != NULL)
        s->options.on_drain(s, s->options.data);
}

static void on_sse_gone(struct http_request *req)
{
    struct sse *s = req->data;

    if (!s->closed && s->options.on_gone != NULL)
        s->options.on_gone(s, s->options.data);
}

int sse_open(struct http_request *req, const struct sse_options *options, struct sse **ret)
{
    static const struct http_header headers[] = {{"Cache-Control", "no-store"}, {NULL, NULL}};
    struct sse *s = calloc(1, sizeof(*s));
    unsigned ms;

    if (s == NULL)
        return -ENOMEM;
    s->options = *options;
    if (s->options.heartbeat_ms == 0)
        s->options.heartbeat_ms = SSE_HEARTBEAT_MS;
    if (s->options.pause == 0)
        s->options.pause = SSE_PAUSE;
    if (s->options.max == 0)
        s->options.max = SSE_MAX;
    s->req = req;
    s->text.max = SIZE_MAX / 4;
    (void)uv_timer_init(http_loop(req), &s->heartbeat); /* never fails */
    s->heartbeat.data = s;
    ms = s->options.heartbeat_ms;
    (void)uv_timer_start(&s->heartbeat, on_sse_heartbeat, ms, ms);
    req->data = s;
    req->on_drain = on_sse_drain;
    req->on_gone = on_sse_gone;
    http_start(req, 200, headers, "text/event-stream");
    *ret = s;
    return 0;
}

/* ---- one event as text ---- */

static int field_check(const char *value)
{
    if (value == NULL)
        return 0;
    return strlen(value) > SSE_FIELD_MAX || strpbrk(value, "\r\n") != NULL ? -EINVAL : 0;
}

static int event_add_field(struct buf *b, const char *name, const void *value, size_t len)
{
    int r;

    r = buf_append_str(b, name);
    if (r == 0)
        r = buf_append(b, ": ", 2);
    if (r == 0)
        r = buf_append(b, value, len);
    return r < 0 ? r : buf_append(b, "\n", 1);
}

/* A line end within the data would end the field, so each line becomes its own field. */
static int event_add_data(struct buf *b, const char *data, size_t len)
{
    size_t start = 0;
    int r;

    for (size_t i = 0; i < len; i++) {
        if (data[i] != '\n' && data[i] != '\r')
            continue;
        r = event_add_field(b, "data", data + start, i - start);
        if (r < 0)
            return r;
        if (data[i] == '\r' && i + 1 < len && data[i + 1] == '\n')
            i++;
        start = i + 1;
    }
    return event_add_field(b, "data", data + start, len - start);
}

static int event_make(struct buf *b, const char *id, const char *event, const void *data,
                      size_t len)
{
    int r = 0;

    b->len = 0;
    if (id != NULL)
        r = event_add_field(b, "id", id, strlen(id));
    if (r == 0 && event != NULL)
        r = event_add_field(b, "event", event, strlen(event));
    if (r == 0)
        r = event_add_data(b, len > 0 ? data : "", len);
    return r < 0 ? r : buf_append(b, "\n", 1);
}

/* ---- sending ---- */

/* Copies an id without the bytes that JSON would have to escape. */
static void copy_plain(char *dst, const char *id)
{
    for (; id != NULL && *id != '\0'; id++)
        if ((unsigned char)*id >= 0x20 && (unsigned char)*id < 0x7f && *id != '"' && *id != '\\')
            *dst++ = *id;
    *dst = '\0';
}

static int sse_cut_off(struct sse *s)
{
    char last[SSE_FIELD_MAX + 1], data[SSE_FIELD_MAX + 64];
    struct http_request *req = s->req;
    int n;

    copy_plain(last, s->last);
    n = snprintf(data, sizeof(data), "{\"reason\":\"reader too slow\",\"last\":\"%s\"}", last);
    if (event_make(&s->text, NULL, "dropped", data, (size_t)n) == 0)
        (void)http_write(req, s->text.data, s->text.len);
    s->req = NULL;
    (void)uv_timer_stop(&s->heartbeat);
    req->patient = false;
    http_end(req);
    return -ENOBUFS;
}

int sse_send(struct sse *s, const char *id, const char *event, const void *data, size_t len)
{
    int r;

    if (field_check(id) < 0 || field_check(event) < 0)
        return -EINVAL;
    if (s->req == NULL)
        return -ENOBUFS;
    if (s->req->gone)
        return -EPIPE;
    if (http_queued(s->req) > s->options.max)
        return sse_cut_off(s);
    r = event_make(&s->text, id, event, data, len);
    if (r < 0)
        return sse_cut_off(s);
    if (id != NULL)
        (void)snprintf(s->last, sizeof(s->last), "%s", id);
    s->wrote = true;
    (void)http_write(s->req, s->text.data, s->text.len);
    if (http_queued(s->req) <= s->options.pause)
        return 0;
    s->req->want_drain = true;
    return 1;
}

static void on_heartbeat_closed(uv_handle_t *h)
{
    struct sse *s = h->data;

    buf_done(&s->text);
    free(s);
}

void sse_close(struct sse *s)
{
    s->closed = true;
    if (s->req != NULL)
        http_end(s->req);
    s->req = NULL;
    uv_close((uv_handle_t *)&s->heartbeat, on_heartbeat_closed);
}

const char *sse_last_event_id(const struct http_request *req)
{
    return http_header(req, "last-event-id");
}
