#pragma once

/*
 * Connections joined to connections: what comes in at one socket goes out at the other, in both
 * directions, by splice(2) where there is much and by one copy where there is little.
 *
 *   end of input   passed on as a shutdown of the other's output; the other direction goes on
 *   reset          passed on as a reset, at once
 *   a slow reader  makes its sender wait: no more is taken than the reader's socket has room for,
 *                  and what was taken and did not fit lies in a pipe that is given back when empty;
 *                  a unix socket to which much goes is given room for more
 *
 * So a joined pair that is quiet costs one small struct. Sockets are stream sockets, TCP or unix.
 * SIGPIPE must be ignored: splice(2) has no flag against it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/poller.h"

struct err;
struct relay;
struct relay_hub;

/* Limits: each has a default here, and an error when it is hit. */
enum {
    RELAY_MAX = 16384,  /* pairs; more: -EAGAIN */
    RELAY_PIPES = 4096, /* in use at once; beyond that bytes are copied one read at a time */
    RELAY_IDLE_MS = 3600 * 1000, /* without a byte in either direction: both are reset */
    RELAY_REST_MS = 10 * 1000,   /* the same, of one that lasts beyond its group */
    RELAY_KEEPALIVE_S = 60,      /* of silence before TCP asks whether the peer is still there, */
    RELAY_KEEPALIVE_INTERVAL_S = 10,
    RELAY_KEEPALIVE_PROBES = 6,
};

struct relay_config {
    unsigned max, pipes, idle_ms, rest_ms;
    /* Told of the end of each pair that relay_counted was called for, before its on_end. */
    void (*left)(void *data, uint64_t group);
    void *data;
};

enum relay_end {
    RELAY_FINISHED, /* both directions have come to their end */
    RELAY_RESET,    /* by one of the two */
    RELAY_IDLE,     /* idle_ms */
    RELAY_CLOSED,   /* relay_end, relay_hub_close */
};

struct relay_result {
    enum relay_end end;
    uint64_t bytes[2]; /* that the first, the second has sent and the other's socket has taken */
};

/* Called once, from the loop; both sockets are closed. */
typedef void relay_fn(void *data, const struct relay_result *result);

/* config: NULL = the defaults. poller: borrowed. */
int relay_hub_new(struct poller *poller, const struct relay_config *config, struct relay_hub **ret,
                  struct err *err);
/* Ends every pair; on_end is called for each. NULL is fine. */
void relay_hub_close(struct relay_hub *hub);
unsigned relay_count(const struct relay_hub *hub);
/* Pipes that hold bytes now. */
unsigned relay_pipes(const struct relay_hub *hub);

/* Of a sandbox's connections: its id as a number. */
uint64_t relay_group(const char *id);
/* Joins a and b, connected, and tuned (below) if they are TCP; both are taken on success, and
 * become non-blocking. group: whose it is, for relay_end_group. on_end may be NULL. *ret (may be
 * NULL) is valid until on_end. */
int relay_start(struct relay_hub *hub, int a, int b, uint64_t group, relay_fn *on_end, void *data,
                struct relay **ret, struct err *err);
/* Bytes for the first (i = 0) or the second of the two, before all that the other sends: once for
 * each, soon after relay_start. -EAGAIN: there is no room for what its socket does not take. */
int relay_early(struct relay *r, int i, const void *data, size_t len, struct err *err);
/* Somebody counts it, until config.left. Soon after relay_start, before the loop has run. */
void relay_counted(struct relay *r);
/* What was said before its group ended still arrives: relay_end_group leaves it until nothing moves
 * any more for rest_ms. Soon after relay_start. */
void relay_outlasts(struct relay *r);
/* Resets all pairs of a group, but for those. */
void relay_end_group(struct relay_hub *hub, uint64_t group);
/* Resets both, now; on_end is called. */
void relay_stop(struct relay *r);

/* A socket that will be connected over loopback, or listens there and hands it down: no delay, and
 * no pacing, which a congestion control that paces leaves behind when it is changed later. */
void relay_tune_local(int fd);
/* No delay, and keep-alive where the peer is not of this machine, for sockets that are TCP;
 * harmless for others. */
void relay_tune(int fd);
