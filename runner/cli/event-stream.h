#pragma once

/* An incremental parser of server-sent events. Pure. */

#include <stddef.h>

#include "base/buf.h"

struct err;

enum {
    EVENT_LINE_MAX = 4 << 20, /* bytes of one event's data, and of one line */
    EVENT_NAME_MAX = 256,     /* bytes of a name or an id; longer ones are cut */
};

/* State of the parser; call event_stream_begin before the first byte. */
struct event_stream {
    struct buf line, data;
    char name[EVENT_NAME_MAX]; /* name of the event being parsed; "" = none */
    char id[EVENT_NAME_MAX];   /* id of the last event that had one; sent when reconnecting */
    int has_data;
};

/* Called for each complete event. A negative result stops the parser and is returned. */
typedef int event_fn(void *data, const char *name, const char *text, size_t len, struct err *err);

/* Initializes the parser, and releases its memory. */
void event_stream_begin(struct event_stream *s);
void event_stream_done(struct event_stream *s);
/* Parses bytes. -EFBIG: a line or event exceeds EVENT_LINE_MAX; else 0 or the result of fn. */
int event_stream_feed(struct event_stream *s, const char *bytes, size_t len, event_fn *fn,
                      void *data, struct err *err);
