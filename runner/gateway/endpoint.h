#pragma once

/* One end of a proxied connection: a socket, plain or with TLS, the bytes that were received but
 * not yet parsed, and the bytes queued for sending. Both buffers are allocated only while they
 * hold bytes.
 *
 * Runs in the supervisor's loop thread; used by proxy*.c, dns.c and egress-tunnel.c. */

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/evloop.h"

enum {
    ENDPOINT_READ = 32 << 10,    /* bytes of one read */
    ENDPOINT_OUT_MAX = 512 << 10 /* most bytes queued: a head, one read, and their framing */
};

struct endpoint {
    struct fd_watch watch; /* first */
    int fd;                /* owned; -1 */
    SSL *ssl;              /* owned; NULL = plain */
    bool readable, writable;
    bool eof;    /* the peer has shut down its direction */
    bool failed; /* a read or write failed, or TLS did */
    bool hung;   /* reset, or the peer has closed both directions; bytes may be left to read */
    bool shut;   /* our direction is shut down */
    struct buf in, out;
    size_t out_at; /* offset of the first unsent byte of out */
    uint64_t received, sent;
    void *owner;
};

/* Initialises e. Takes fd on success, and ssl always. 0 or a negative errno. */
int endpoint_open(struct endpoint *e, struct evloop *evloop, int fd, SSL *ssl, watch_fn *on_event,
                  void *owner);
/* Closes the socket and frees the buffers; `reset` sends the peer a RST. May be called twice. */
void endpoint_close(struct endpoint *e, bool reset);
/* Returns the plain socket, which the caller then owns, and closes e. Both buffers must be
 * empty. */
int endpoint_take_fd(struct endpoint *e);

/* Notes the events of epoll in e. */
void endpoint_event(struct endpoint *e, unsigned events);
/* Reads once if the socket may be readable, until the buffer holds `most` bytes. True if
 * anything changed. */
bool endpoint_read(struct endpoint *e, size_t most);
/* Sends queued bytes. True if any were sent. */
bool endpoint_write(struct endpoint *e);
/* Bytes queued for sending. */
static inline size_t endpoint_queued(const struct endpoint *e)
{
    return e->out.len - e->out_at;
}
/* Shuts down our direction; out must be empty. */
void endpoint_shut(struct endpoint *e);
/* Drops n bytes at the front of e->in. */
void endpoint_used(struct endpoint *e, size_t n);
/* One step of a tunnel: moves received bytes of `from` to `to` while fewer than `most` are
 * queued there, and passes on the end of input. True if anything changed. */
bool endpoint_pump(struct endpoint *from, struct endpoint *to, size_t most);
