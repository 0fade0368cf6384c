#pragma once

/*
 * One HTTP/1.1 reply, parsed as it comes, in pieces of any size. Pure: it knows no connection. What
 * a daemon of ours would never send (a head without end, two lengths, broken chunks) is an error,
 * and everything that is kept has a bound.
 *
 *     reply_begin(&r);
 *     while (r.state < REPLY_DONE)
 *         reply_feed(&r, bytes, len, &used, &err);       r.body holds what of it is body
 */

#include <llhttp.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct err;

enum {
    REPLY_HEAD_MAX = 32 << 10, /* bytes of all headers, names and values */
    REPLY_HEADERS_MAX = 64,    /* lines */
    REPLY_FEED_MAX = 64 << 10, /* bytes of one feed, and so of the body that it leaves */
};

enum reply_state {
    REPLY_INVALID = 0,
    REPLY_HEAD,     /* nothing is known yet */
    REPLY_BODY,     /* status and headers are there */
    REPLY_DONE,     /* all of the body, too */
    REPLY_UPGRADED, /* 101: what follows is no HTTP any more */
};

struct reply {
    llhttp_t parser;
    enum reply_state state;
    int status;
    bool keep_alive; /* the connection may be used again once it is done */
    struct buf head; /* "name\0value\0" … */
    struct buf body; /* of the last feed; the caller takes it before the next */
    size_t headers;
    const char *why; /* of what was refused; static text */
};

/* Caller-owned memory, zeroed or begun before. */
void reply_begin(struct reply *r);
void reply_done(struct reply *r);
/*
 * Takes at most REPLY_FEED_MAX bytes. *ret_used: how many belong to this reply; the others belong
 * to what follows it. -EPROTO: no reply, or too much of one.
 */
int reply_feed(struct reply *r, const char *bytes, size_t len, size_t *ret_used, struct err *err);
/* The connection has ended: the end of a body that has no length of its own, else -ECONNRESET. */
int reply_end(struct reply *r, struct err *err);
/* A header's value by its name in any case; the first one; NULL when there is none. */
const char *reply_header(const struct reply *r, const char *name);
