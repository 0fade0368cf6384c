#pragma once

/* Server-sent events as the reply to a request. Heartbeats detect a client that is gone, and the
 * bytes queued for one reader are bounded.
 *
 * The opener chooses what happens to a slow reader. Above `pause` bytes sse_send returns 1: a
 * producer that can wait (an exec's output) stops until on_drain. A producer that cannot (events
 * of all sandboxes) continues, and above `max` bytes the reader is cut off with a last event
 *
 *     event: dropped
 *     data: {"reason":"reader too slow","last":"<id of the last event sent>"}
 *
 * and the stream ends, so that it can reconnect with Last-Event-ID. */

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
    void (*on_gone)(struct sse *s, void *data);  /* the client is gone; sse_close is still owed */
    void *data;
};

/* Starts the reply of req and takes over req->data, on_drain and on_gone. -ENOMEM: req is
 * unchanged. */
int sse_open(struct http_request *req, const struct sse_options *options, struct sse **ret);
/* Sends one event. id and event may be NULL; they must not contain line ends, and have at most
 * SSE_FIELD_MAX bytes. `data` may have several lines ("\n", "\r\n", "\r"). 0; 1: sent, but wait
 * for on_drain; -ENOBUFS: cut off; -EPIPE: the client is gone; -EINVAL. After an error only
 * sse_close may be called. */
int sse_send(struct sse *s, const char *id, const char *event, const void *data, size_t len);
/* Ends the stream after queued bytes and frees s; no callback follows. */
void sse_close(struct sse *s);
/* Returns the Last-Event-ID header, by which a client resumes after an event, or NULL. */
const char *sse_last_event_id(const struct http_request *req);
