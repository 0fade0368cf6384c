#pragma once

/*
 * How much a loop's connections move, and what the scheduler should know of it.
 *
 * While there is much, the thread that moves it asks for SCHED_BATCH: it does not interrupt those
 * who are just filling their sockets, finds more there when its turn comes, and wakes them less
 * often. With 32 connections on two processors this saves a third of its own time where TCP comes
 * in, and a tenth where it goes out to unix sockets; other requests wait no longer than beside so
 * much traffic anyway. With less to move it is an ordinary thread again, which answers at once.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/poller.h"

enum {
    THROUGHPUT_WINDOW_MS = 20,
    THROUGHPUT_MUCH = 4 << 20, /* bytes in a window: some 200 MiB/s */
};

struct throughput {
    struct poller *poller;  /* borrowed */
    struct deadline window; /* set while there is much */
    uint64_t since, moved;  /* ms of uv_now, and the bytes from then on */
    bool fixed;             /* the thread's policy is somebody else's choice */
};

/* A thread that has another policy than SCHED_OTHER keeps it. */
void throughput_init(struct throughput *t, struct poller *p);
/* From the loop's thread: so many bytes have just been moved. */
void throughput_moved(struct throughput *t, size_t bytes);
/* Makes it an ordinary thread again; nothing comes any more. */
void throughput_close(struct throughput *t);
