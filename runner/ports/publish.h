#pragma once

/*
 * Ports of the host that lead to ports of a sandbox (spec->ports). The launcher opens the sockets;
 * they are open from before init is started until the sandbox ends, all of them or none. A port
 * that the kernel chose is written down (ports.json) and asked for again at every later start.
 *
 * Connections are joined by relays, datagrams by flows (publish-udp.h). Both end with the sandbox,
 * and with the supervisor; the next one opens the same ports again.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"

struct err;
struct sandbox;

/* Looks at the first bytes of clients before they are joined to the sandbox (loopback-forward.c).
 */
struct publish_look;
struct publish_screen {
    /* Whether clients of this port of the sandbox's are looked at. */
    bool (*wants)(const struct sandbox *s, uint16_t port);
    /* cb follows once, from the loop: 0 to go on, negative to drop the client. fd: borrowed. */
    int (*look)(struct sandbox *s, int fd, void (*cb)(void *data, int r), void *data,
                struct publish_look **ret, struct err *err);
    void (*cancel)(struct publish_look *l); /* NULL is fine */
};

enum {
    PUBLISH_RETRY_MS = 20,
    PUBLISH_WAIT_MS = 2000 /* for an earlier supervisor's sockets to go */
};

/* r < 0: none is open, and err says which could not be. -ECANCELED: publish_close came first. */
typedef void publish_cb(struct sandbox *s, int r, const struct err *err);

/* 1: nothing is to be opened. 0: cb follows, once. wait_ms: how long -EADDRINUSE is tried again. */
int publish_open(struct sandbox *s, unsigned wait_ms, publish_cb *cb, struct err *err);
/* The same as steps of a start, and of a sandbox that is taken up; part_step. A port that cannot be
 * opened again is logged, and what runs goes on without it. */
int publish_start(struct sandbox *s, struct err *err);
int publish_reopen(struct sandbox *s, struct err *err);
/* Free at once; what leads through them ends. */
void publish_close(struct sandbox *s);
void publish_free(struct sandbox *s);
/* Where spec->ports[i] is reached: false when it is not open. */
bool publish_where(const struct sandbox *s, size_t i, struct address *ret);
