#pragma once

/* A listening socket, TCP or unix: accepts in batches, and waits a little when the process has no
 * descriptor left, instead of turning in a circle. */

#include <stddef.h>
#include <sys/socket.h>

#include "gateway/poller.h"

struct err;
struct listener;

enum {
    LISTENER_BATCH = 64,      /* connections accepted before others get their turn */
    LISTENER_PAUSE_MS = 100,  /* without descriptors */
    LISTENER_ADDRESS_MAX = 64 /* bytes of an address as text */
};

/* fd: connected, non-blocking, the callee's. peer: as getpeername gives it. */
typedef void listener_fn(void *data, int fd, const struct sockaddr *peer);

/* fd: listening, taken on success; becomes non-blocking. */
int listener_new(struct poller *poller, int fd, listener_fn *on_client, void *data,
                 struct listener **ret, struct err *err);
/* Not from within on_client. NULL is fine. */
void listener_close(struct listener *l);

/* An address without its port ("192.0.2.1", "::1"), or "" for what is none. */
void address_text(const struct sockaddr *address, char ret[LISTENER_ADDRESS_MAX]);
/* Whether it is this machine's own loopback. */
bool address_is_loopback(const struct sockaddr *address);
