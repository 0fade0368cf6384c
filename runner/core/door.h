#pragma once

/*
 * The host loopback forward: leads out of a sandbox's network to one port of the host's loopback.
 * The launcher listens inside, at DOOR_ADDRESS and that port; connections there are joined to
 * 127.0.0.1 of the host. It is used for a sidecar that is a real container (docs/workerd.md):
 * workerd listens on the host's loopback. In Docker workerd is reached at the gateway's address,
 * where neighbours could reach it, too.
 *
 * workerd names the port when it creates the sidecar, and again, after a restart of workerd, in a
 * request to the sidecar through a published port. Such requests are inspected before they are
 * passed on, so the forward has moved before the sidecar reads the request. Runs in the
 * supervisor's event loop.
 */

#include <stdbool.h>
#include <stdint.h>

struct err;
struct sandbox;

enum {
    DOOR_PORT_MIN = 1024,   /* lower ports belong to services of the host */
    DOOR_OPENING_MS = 2000, /* waits that long for the socket of an earlier supervisor to close */
};

/* r < 0: the forward is unchanged, or does not exist; err says why. */
typedef void door_cb(void *data, int r, const struct err *err);
/* Called when the forward has moved, so that the caller can save the port. */
typedef void door_moved_fn(struct sandbox *s, uint16_t port);

struct door_config {
    uint16_t port;    /* port of the host's loopback; at least DOOR_PORT_MIN */
    uint16_t ingress; /* port of the sandbox; requests to it may move the forward */
    door_moved_fn *moved;
};

/*
 * Opens the forward of a sandbox with a running init, or moves an open one. cb follows, from the
 * loop or inside the call.
 */
int door_open(struct sandbox *s, const struct door_config *config, door_cb *cb, void *data,
              struct err *err);
/* Called when init has ended. Pending cb are called with -ECANCELED. */
void door_close(struct sandbox *s);
/* Called when the next init runs: opens the forward again at its last port, if there was one. */
void door_reopen(struct sandbox *s);
/* Called when the sandbox is freed, after door_close. */
void door_free(struct sandbox *s);

/* True if connections to this port of the sandbox are to be inspected. */
bool door_looks_at(const struct sandbox *s, uint16_t port);

struct door_look;
/*
 * Inspects a client's first bytes without consuming them (MSG_PEEK), until they cannot move the
 * forward, or it has moved. cb follows once, from the loop: 0 to pass the connection on, negative
 * to drop it. fd: borrowed until then.
 */
int door_look(struct sandbox *s, int fd, void (*cb)(void *data, int r), void *data,
              struct door_look **ret, struct err *err);
void door_look_cancel(struct door_look *l);
