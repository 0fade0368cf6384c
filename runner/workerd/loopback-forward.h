#pragma once

/*
 * A door out of a sandbox's network to one port of the host's own loopback. The launcher listens
 * inside, at LOOPBACK_FORWARD_ADDRESS and the same port; what connects there is joined to 127.0.0.1
 * of the host. For a sidecar that is a container (docs/workerd.md): its other end, workerd, listens
 * there, and is behind the gateway's address in Docker's world, where it could be reached by
 * neighbours, too.
 *
 * Which port it is workerd says, first when the sidecar is made, and again to the sidecar itself
 * when it was started anew, by a request to a published port: so what comes in there is looked at
 * before it is joined, and the door is where it says before the sidecar has read it.
 */

#include <stdbool.h>
#include <stdint.h>

struct err;
struct sandbox;

enum {
    LOOPBACK_FORWARD_PORT_MIN = 1024,   /* those below are the host's own services */
    LOOPBACK_FORWARD_OPENING_MS = 2000, /* for the socket of an earlier supervisor to go */
};

/* r < 0: it is where it was, or there is none; err says why. */
typedef void loopback_forward_cb(void *data, int r, const struct err *err);
/* It is at another port. */
typedef void loopback_forward_moved_fn(struct sandbox *s, uint16_t port);

struct loopback_forward_config {
    uint16_t port;    /* of the host's loopback; LOOPBACK_FORWARD_PORT_MIN at least */
    uint16_t ingress; /* the port of the sandbox's whose clients say where the door is to be */
    loopback_forward_moved_fn *moved;
};

/* For a sandbox whose init runs. cb follows, from the loop or from within. Open already: it moves.
 */
int loopback_forward_open(struct sandbox *s, const struct loopback_forward_config *config,
                          loopback_forward_cb *cb, void *data, struct err *err);
/* With the end of its init. Nothing but cb, with -ECANCELED, follows. */
void loopback_forward_close(struct sandbox *s);
/* With the next one, where there was one: it is where it was. A step of a start (part_step); a door
 * that does not open is logged. */
int loopback_forward_start(struct sandbox *s, struct err *err);
/* With the sandbox, closed before. */
void loopback_forward_free(struct sandbox *s);

/* Looks at the first bytes of clients of the ingress port without taking them, until they are no
 * news or the door is where they say. */
struct publish_screen;
extern const struct publish_screen loopback_forward_screen;
