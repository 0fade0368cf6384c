#pragma once

/*
 * Server-sent events as the reply to a request, with heartbeats, so that a client that is gone is
 * noticed, and a bound on what waits for one reader.
 *
 * The rule for a reader that is too slow is chosen when the stream is opened. Above `pause` bytes
 * sse_send returns 1: a producer that can wait (an exec's output) stops until on_drain. One that
 * cannot (events of all sandboxes) goes on, and above `max` bytes the reader is cut off: its last
 * event is
 *
 *     event: dropped
 *     data: {"reason":"reader too slow","last":"<id of the last event that was sent>"}
 *
 * and the stream ends, so that it can come back with Last-Event-ID.
 */

#include <stddef.h>

struct http_request;
struct sse;

enum {
    SSE_HEARTBEAT_MS = 15 * 1000,
    SSE_PAUSE = 256 << 10, /* queued bytes */
    SSE_MAX = 1 << 20,     /* queued bytes */
    SSE_FIELD_MAX = 256,   /* bytes of an id or an event's name */
};

struct sse_options {
    unsigned heartbeat_ms;                       /* 0: SSE_HEARTBEAT_MS */
    size_t pause, max;                           /* 0: the defaults above */
    void (*on_drain)(struct sse *s, void *data); /* after sse_send returned 1 */
    void (*on_gone)(struct sse *s, void *data);  /* the client is; sse_close is still owed */
    void *data;
};

/* Starts the reply of req and takes it over (req->data, on_drain and on_gone are then sse's).
 * -ENOMEM: req is untouched. */
int sse_open(struct http_request *req, const struct sse_options *options, struct sse **ret);
/*
 * One event. id and event may be NULL; they may hold neither line ends nor NUL, and at most
 * SSE_FIELD_MAX bytes. `data` may hold any lines ("\n", "\r\n", "\r" all split). 0; 1: sent, but
 * wait for on_drain; -ENOBUFS: cut off now or before, -EPIPE: the client is gone; -EINVAL. After an
 * error only sse_close is of use.
 */
int sse_send(struct sse *s, const char *id, const char *event, const void *data, size_t len);
/* Ends the stream behind what is queued. s is dead afterwards; no callback comes any more. */
void sse_close(struct sse *s);
/* What the client sends to go on after an event: the Last-Event-ID header, or NULL. */
const char *sse_last_event_id(const struct http_request *req);
