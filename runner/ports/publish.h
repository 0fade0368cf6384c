#pragma once

/*
 * Host ports that are forwarded to ports of a sandbox (spec->ports). The launcher opens the
 * sockets, either all or none. They are open from before init starts until the sandbox stops. A
 * port chosen by the kernel is saved (ports.json) and requested again at every later start.
 *
 * Relays carry TCP connections, flows carry datagrams (publish-udp.h). Both end with the sandbox
 * and with the supervisor; the next supervisor opens the same ports again. Runs in the supervisor's
 * event loop.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"

struct err;
struct sandbox;
struct supervisor;

/*
 * Inspects the first bytes of a client before its connection is joined to the sandbox
 * (workerd/loopback-forward.c).
 */
struct publish_look;
struct publish_screen {
    /* True if clients of this port of the sandbox are to be inspected. */
    bool (*wants)(const struct sandbox *s, uint16_t port);
    /*
     * Begins to inspect fd, which is borrowed until cb. cb is called once, from the loop: 0 to go
     * on, negative to drop the client.
     */
    int (*look)(struct sandbox *s, int fd, void (*cb)(void *data, int r), void *data,
                struct publish_look **ret, struct err *err);
    void (*cancel)(struct publish_look *l); /* l may be NULL */
};

/*
 * Serves clients of ports that no process inside listens on (api/docker/reaper.h). True: the callee
 * has taken fd, a connected socket. False: the client is joined to the port inside.
 */
struct publish_taker {
    bool (*takes)(void *data, struct sandbox *s, uint16_t port, int fd);
    void *data;
};
/* taker is borrowed; NULL: none. */
void publish_set_taker(struct supervisor *sup, const struct publish_taker *taker);

enum {
    PUBLISH_RETRY_MS = 20,
    PUBLISH_WAIT_MS = 2000 /* waits that long for the sockets of an earlier supervisor to close */
};

/* r < 0: none is open, and err says which one failed. -ECANCELED: publish_close came first. */
typedef void publish_cb(struct sandbox *s, int r, const struct err *err);

/*
 * Returns 1 if there is nothing to open; 0: cb is called once. wait_ms: how long -EADDRINUSE is
 * retried.
 */
int publish_open(struct sandbox *s, unsigned wait_ms, publish_cb *cb, struct err *err);
/*
 * Steps of a start and of a reattach (part_step): open the sandbox's ports. A port that cannot be
 * opened again is logged, and the sandbox runs on without it.
 */
int publish_start(struct sandbox *s, struct err *err);
int publish_reopen(struct sandbox *s, struct err *err);
/* Closes the ports at once and ends the connections through them. */
void publish_close(struct sandbox *s);
void publish_free(struct sandbox *s);
/* Address of spec->ports[i]; false when it is not open. */
bool publish_where(const struct sandbox *s, size_t i, struct address *ret);
