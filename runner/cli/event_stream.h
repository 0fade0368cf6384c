#pragma once

/* Server-sent events, parsed as they come. Pure. */

#include <stddef.h>

#include "base/buf.h"

struct err;

enum {
    EVENT_LINE_MAX = 4 << 20, /* bytes of one event's data, and of one line */
    EVENT_NAME_MAX = 256,     /* bytes of a name or an id; what is longer is cut */
};

/* What has come so far; begun before the first byte. */
struct event_stream {
    struct buf line, data;
    char name[EVENT_NAME_MAX]; /* of the event that is being read; "" = none */
    char id[EVENT_NAME_MAX];   /* of the last event that had one: to go on after */
    int has_data;
};

/* An event is whole. Negative stops, and is returned. */
typedef int event_fn(void *data, const char *name, const char *text, size_t len, struct err *err);

void event_stream_begin(struct event_stream *s);
void event_stream_done(struct event_stream *s);
/* -EFBIG: a line or an event without end; or what fn returned. */
int event_stream_feed(struct event_stream *s, const char *bytes, size_t len, event_fn *fn,
                      void *data, struct err *err);
