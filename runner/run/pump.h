#pragma once

/*
 * Moves bytes from one descriptor to another on the loop, at most one buffer ahead of a slow
 * reader: by splice between a pipe and another pipe or a socket, so that no process copies them,
 * else by read and write. Waits for the side that is not ready; never blocks where the kernel can
 * say so (pipes, sockets, terminals).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

enum { PUMP_BUFFER = 64 << 10 };

enum pump_kind { PUMP_PIPE = 1, PUMP_SOCKET, PUMP_OTHER };

struct pump {
    int in, out;         /* borrowed */
    int in_dup, out_dup; /* owned; what libuv watches when it watches the same number already */
    enum pump_kind in_kind, out_kind;
    uv_poll_t in_poll, out_poll;
    uv_idle_t idle; /* stands in for a poll that the descriptor does not support (regular files) */
    bool in_polls, out_polls;
    bool in_waits, out_waits; /* which of them is started */
    bool in_drains; /* what is read does not block: a terminal, which hands out little at a time */
    unsigned handles; /* not closed yet */
    bool started, done, closing;
    int error; /* 0 at the end of input; -EPIPE when the output has no reader any more; or the errno
                  of the side that failed */
    char *buffer; /* owned; NULL until it is needed */
    size_t pos, len;
    void (*on_done)(struct pump *p); /* once; the pump may be stopped from it */
    void *data;
};

/* Prepares; 0 or negative errno. Handles are closed by pump_stop only. */
int pump_start(uv_loop_t *loop, struct pump *p, int in, int out, void (*on_done)(struct pump *),
               void *data);
/* Closes the handles; idempotent. The memory must stay until the loop has run their callbacks. Does
 * not close in and out. */
void pump_stop(struct pump *p);
