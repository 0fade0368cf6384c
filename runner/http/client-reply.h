#pragma once

/*
 * Reads one HTTP/1.1 reply piece by piece, on message.h, with the head kept until it is complete.
 * No I/O. Malformed replies (an endless head, two lengths, broken chunks) are errors, and
 * everything it stores is bounded. Trailers are dropped.
 *
 *     reply_begin(&r);
 *     while (r.state < REPLY_DONE)
 *         reply_feed(&r, bytes, len, &used, &err);       r.body holds the body bytes of this feed
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "http/message.h"

struct err;

enum {
    REPLY_HEAD_MAX = 32 << 10, /* bytes of a head */
    REPLY_HEADERS_MAX = 64,    /* number of headers */
    REPLY_FEED_MAX = 64 << 10, /* bytes of one feed, which also bounds r.body */
};

enum reply_state {
    REPLY_INVALID = 0,
    REPLY_HEAD,     /* reading status and headers */
    REPLY_BODY,     /* status and headers are known */
    REPLY_DONE,     /* the body is complete */
    REPLY_UPGRADED, /* status 101: the following bytes are not HTTP */
};

struct reply {
    enum reply_state state;
    int status;
    bool keep_alive; /* the connection may be reused once the state is DONE */
    struct buf body; /* from the last feed; the caller consumes it before the next */

    /* Private. */
    struct reader reader;
    struct message message;
    struct buf head; /* of an incomplete head */
};

/* Initializes r, which must be zeroed or have been begun before. */
void reply_begin(struct reply *r);
void reply_done(struct reply *r);
/*
 * Parses at most REPLY_FEED_MAX bytes. *ret_used: bytes that belong to this reply. -EPROTO:
 * malformed, or too large.
 */
int reply_feed(struct reply *r, const char *bytes, size_t len, size_t *ret_used, struct err *err);
/* Call at the end of the connection. It completes a body without a length; else -ECONNRESET. */
int reply_end(struct reply *r, struct err *err);
/* Returns the first value of a header, by case-insensitive name; NULL if there is none. */
const char *reply_header(const struct reply *r, const char *name);
