#pragma once

/*
 * The host loopback forward: leads out of a sandbox's network to one port of the host's loopback.
 * The launcher listens inside, at LOOPBACK_FORWARD_ADDRESS and that port. Connections there are
 * joined to 127.0.0.1 of the host. A sidecar that is a real container needs it (docs/workerd.md),
 * because workerd listens on the host's loopback. In Docker workerd is reached at the gateway's
 * address, where neighbours could reach it, too.
 *
 * workerd names the port when it creates the sidecar. After a restart it names the new port in a
 * request to the sidecar, through a published port. Such requests are inspected before they are
 * passed on, so the forward has moved before the sidecar reads the request. Runs in the
 * supervisor's event loop.
 */

#include <stdbool.h>
#include <stdint.h>

struct err;
struct sandbox;

enum {
    LOOPBACK_FORWARD_PORT_MIN = 1024,   /* lower ports belong to services of the host */
    LOOPBACK_FORWARD_OPENING_MS = 2000, /* wait for an earlier supervisor's socket to close */
};

/* r < 0: the forward is unchanged, or does not exist; err says why. */
typedef void loopback_forward_cb(void *data, int r, const struct err *err);
/* Called when the forward has moved, so that the caller can save the port. */
typedef void loopback_forward_moved_fn(struct sandbox *s, uint16_t port);

struct loopback_forward_config {
    uint16_t port;    /* port of the host's loopback; at least LOOPBACK_FORWARD_PORT_MIN */
    uint16_t ingress; /* port of the sandbox; requests to it may move the forward */
    loopback_forward_moved_fn *moved;
};

/*
 * Opens the forward of a sandbox with a running init, or moves an open one. cb follows, from the
 * loop or inside the call.
 */
int loopback_forward_open(struct sandbox *s, const struct loopback_forward_config *config,
                          loopback_forward_cb *cb, void *data, struct err *err);
/* Called when init has ended. Pending cb are called with -ECANCELED. */
void loopback_forward_close(struct sandbox *s);
/*
 * Called when the next init runs: opens the forward again at its last port, if there was one. A
 * step of a start (part_step) that always returns 1; a failure is logged.
 */
int loopback_forward_start(struct sandbox *s, struct err *err);
/* Called when the sandbox is freed, after loopback_forward_close. */
void loopback_forward_free(struct sandbox *s);

/*
 * Inspects the first bytes of each client of the ingress port with MSG_PEEK, so none are consumed.
 * The inspection ends when the bytes cannot move the forward, or when it has moved.
 */
struct publish_screen;
extern const struct publish_screen loopback_forward_screen;
