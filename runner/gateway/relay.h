#pragma once

/* Relays join two connections: bytes received on one socket are sent on the other, both ways, by
 * splice(2) for bulk transfers and by one copy otherwise.
 *
 *   end of input   passed on as shutdown(SHUT_WR) of the other socket; the other direction stays
 *                  open
 *   reset          passed on as a reset, at once
 *   slow reader    back-pressure: no more is read than the reader's socket takes. Bytes that did
 *                  not fit wait in a pipe, which is given back when empty. A unix socket with a
 *                  bulk transfer gets a larger SO_SNDBUF
 *
 * An idle relay costs one small struct. Sockets are stream sockets, TCP or unix. SIGPIPE must be
 * ignored: splice(2) has no flag against it.
 *
 * Runs in the supervisor's loop thread; nothing blocks. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/evloop.h"

struct err;
struct relay;
struct relay_hub;

/* Limits, their defaults, and the errors when they are reached. */
enum {
    RELAY_MAX = 16384,           /* relays; more: -EAGAIN */
    RELAY_PIPES = 4096,          /* pipes in use; above it bytes are copied, one read at a time */
    RELAY_IDLE_MS = 3600 * 1000, /* without a byte in either direction: both are reset */
    RELAY_REST_MS = 10 * 1000,   /* RELAY_IDLE_MS of a relay that outlasts its group */
    RELAY_KEEPALIVE_S = 60,      /* of silence before TCP sends keep-alive probes */
    RELAY_KEEPALIVE_INTERVAL_S = 10,
    RELAY_KEEPALIVE_PROBES = 6,
};

struct relay_config {
    unsigned max, pipes, idle_ms, rest_ms;
    /* Called at the end of each relay that relay_counted was called for, before its on_end. */
    void (*left)(void *data, uint64_t group);
    void *data;
};

enum relay_end {
    RELAY_FINISHED, /* both directions have reached EOF */
    RELAY_RESET,    /* one of the two sockets was reset */
    RELAY_IDLE,     /* no byte for idle_ms */
    RELAY_CLOSED,   /* relay_stop, relay_end_group or relay_hub_close */
};

struct relay_result {
    enum relay_end end;
    uint64_t bytes[2]; /* [0] from the first socket, [1] from the second, that the other socket
                        * took */
};

/* Called once, from the loop; both sockets are closed. */
typedef void relay_fn(void *data, const struct relay_result *result);

/* config NULL: the defaults. poller is borrowed. 0 or a negative errno. */
int relay_hub_new(struct evloop *evloop, const struct relay_config *config, struct relay_hub **ret,
                  struct err *err);
/* Ends every relay; on_end is called for each. NULL is allowed. */
void relay_hub_close(struct relay_hub *hub);
unsigned relay_count(const struct relay_hub *hub);
/* Returns the number of pipes that hold bytes. */
unsigned relay_pipes(const struct relay_hub *hub);

/* Returns the group of a sandbox's relays: its hexadecimal id as a number. */
uint64_t relay_group(const char *id);
/* Joins a and b, which are connected and, if TCP, tuned (see below). Takes both on success and
 * makes them non-blocking. group: for relay_end_group. on_end may be NULL; *ret (ret may be
 * NULL) is valid until on_end. -EAGAIN: limit reached. */
int relay_start(struct relay_hub *hub, int a, int b, uint64_t group, relay_fn *on_end, void *data,
                struct relay **ret, struct err *err);
/* Sends bytes to socket a (i = 0) or b (i = 1) before all that the other sends. Once per socket,
 * right after relay_start. -EAGAIN: its socket and a pipe have no room. */
int relay_early(struct relay *r, int i, const void *data, size_t len, struct err *err);
/* Makes the relay call config.left at its end. Right after relay_start, before the loop runs. */
void relay_counted(struct relay *r);
/* Lets bytes that were sent before the group ended still arrive: relay_end_group keeps this
 * relay until it is idle for rest_ms. Right after relay_start. */
void relay_outlasts(struct relay *r);
/* Resets all relays of a group, except those of relay_outlasts. */
void relay_end_group(struct relay_hub *hub, uint64_t group);
/* Resets both sockets now; on_end is called. */
void relay_stop(struct relay *r);

/* Tunes a TCP socket that will connect over loopback or listens there (accepted sockets inherit
 * it): no delay and no pacing. Set early, because pacing stays on when the congestion control is
 * changed later. */
void relay_tune_local(int fd);
/* Tunes a connected TCP socket: no delay, and keep-alive if the peer is remote. Other sockets
 * are unchanged. */
void relay_tune(int fd);
