#pragma once

/*
 * An incremental parser of one HTTP/1.1 reply; it does no I/O. Malformed replies (an endless head,
 * two lengths, broken chunks) are errors, and everything it stores is bounded.
 *
 *     reply_begin(&r);
 *     while (r.state < REPLY_DONE)
 *         reply_feed(&r, bytes, len, &used, &err);       r.body holds the body bytes of this feed
 */

#include <llhttp.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct err;

enum {
    REPLY_HEAD_MAX = 32 << 10, /* bytes of all header names and values */
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
    llhttp_t parser;
    enum reply_state state;
    int status;
    bool keep_alive; /* the connection may be reused once the state is DONE */
    struct buf head; /* "name\0value\0" … */
    struct buf body; /* from the last feed; the caller consumes it before the next */
    size_t headers;
    const char *why; /* reason of a refusal; static text */
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
