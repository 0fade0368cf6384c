#pragma once

/*
 * One end of a proxied connection: a socket, plain or with TLS in front, what came in and has not
 * been read by a parser, and what waits to go out. Both buffers are there only while they hold
 * something.
 */

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "gateway/poller.h"

enum {
    ENDPOINT_READ = 32 << 10,    /* one read */
    ENDPOINT_OUT_MAX = 512 << 10 /* bytes that wait at all: a head, a read, and their framing */
};

struct endpoint {
    struct watch watch; /* first */
    int fd;             /* owned; -1 */
    SSL *ssl;           /* owned; NULL = plain */
    bool readable, writable;
    bool eof;    /* no more will come */
    bool failed; /* reading or writing said so, or a TLS error */
    bool hung;   /* the socket is reset, or the peer has closed both directions; there may still be
                    something to read */
    bool shut;   /* our direction is */
    struct buf in, out;
    size_t out_at; /* of out, written already */
    uint64_t received, sent;
    void *owner;
};

/* fd is taken on success, ssl in any case. */
int endpoint_open(struct endpoint *e, struct poller *poller, int fd, SSL *ssl, watch_fn *on_event,
                  void *owner);
/* reset: the peer is to see that something went wrong. Twice is fine. */
void endpoint_close(struct endpoint *e, bool reset);
/* Gives the plain socket away, with nothing left in it; the endpoint is closed. */
int endpoint_take_fd(struct endpoint *e);

/* What an event says. */
void endpoint_event(struct endpoint *e, unsigned events);
/* Reads once if there may be something, up to `most` bytes in the buffer. True when something
 * changed. */
bool endpoint_read(struct endpoint *e, size_t most);
/* Writes what waits. True when anything went. */
bool endpoint_write(struct endpoint *e);
/* Bytes that wait to go out. */
static inline size_t endpoint_queued(const struct endpoint *e)
{
    return e->out.len - e->out_at;
}
/* No more will be written, once out is empty. */
void endpoint_shut(struct endpoint *e);
/* Drops n bytes at the front of in. */
void endpoint_used(struct endpoint *e, size_t n);
/* One step of a tunnel: what came in at one goes out at the other, while less than `most` bytes
 * wait there; the end is passed on as one. True when something changed. */
bool endpoint_pump(struct endpoint *from, struct endpoint *to, size_t most);
