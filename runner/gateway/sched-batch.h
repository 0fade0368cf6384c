#pragma once

/* Measures the bytes moved by a loop's relays and sets the thread's scheduling policy
 * accordingly.
 *
 * During bulk transfers the thread uses SCHED_BATCH: it does not preempt processes that are
 * filling their sockets, finds more bytes when it runs, and wakes them less often. With 32
 * connections on two CPUs this saves a third of its own time for TCP input, and a tenth for
 * output to unix sockets; other requests wait no longer than beside so much traffic anyway. With
 * less traffic it returns to SCHED_OTHER, which wakes up sooner. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/evloop.h"

enum {
    SCHED_BATCH_WINDOW_MS = 20,
    SCHED_BATCH_MUCH = 4 << 20, /* bytes per window: about 200 MiB/s */
};

struct sched_batch {
    struct evloop *evloop;  /* borrowed */
    struct deadline window; /* set during a bulk transfer */
    uint64_t since, moved;  /* start of the measurement (ms of uv_now), and bytes since */
    bool fixed;             /* the thread's policy was set by the operator; leave it */
};

/* A thread with another policy than SCHED_OTHER keeps it. */
void sched_batch_init(struct sched_batch *t, struct evloop *p);
/* Counts bytes that were just moved; from the loop's thread. */
void sched_batch_moved(struct sched_batch *t, size_t bytes);
/* Restores SCHED_OTHER; no call follows. */
void sched_batch_close(struct sched_batch *t);
