#pragma once

/* A listening socket, TCP or unix. Accepts in batches. When the process has no fd left it
 * pauses, instead of being woken at once again.
 *
 * Runs in the supervisor's loop thread. */

#include <stddef.h>
#include <sys/socket.h>

#include "base/evloop.h"

struct err;
struct listener;

enum {
    LISTENER_BATCH = 64,      /* connections accepted per event, before other watches are served */
    LISTENER_PAUSE_MS = 100,  /* when no fd is left */
    LISTENER_ADDRESS_MAX = 64 /* bytes of an address as text */
};

/* The callee owns fd, which is connected and non-blocking. peer: as of accept(2). */
typedef void listener_fn(void *data, int fd, const struct sockaddr *peer);

/* fd is listening; taken on success and made non-blocking. 0 or a negative errno. */
int listener_new(struct evloop *evloop, int fd, listener_fn *on_client, void *data,
                 struct listener **ret, struct err *err);
/* Not to be called from within on_client. NULL is allowed. */
void listener_close(struct listener *l);

/* Formats an IP address without port ("192.0.2.1", "::1"), or "" for other families. */
void address_text(const struct sockaddr *address, char ret[LISTENER_ADDRESS_MAX]);
/* True for a loopback address. */
bool address_is_loopback(const struct sockaddr *address);
