#pragma once

/* The connection to one sandbox's init, and its execs by id. */

#include <stdint.h>
#include <uv.h>

#include "proto/init-msg.h"

struct channel;

/* Receives init's messages about one exec. Embedded in the exec. Ids are unique in a sandbox. */
struct channel_exec {
    uint64_t id;
    struct channel_exec *next, **link;
    /* Called for each message about this exec; the callee owns fds (ATTACHED). */
    void (*on_message)(struct channel_exec *e, const struct imsg *msg, int *fds, int fd_count);
};

struct channel_ops {
    /*
     * Called for SLOT and LIST_END, and for messages with an unknown id. fds are closed afterwards.
     */
    void (*on_other)(void *data, const struct imsg *msg);
    /*
     * Called when init has exited, and every process of the sandbox with it, or when it speaks
     * another version, which was logged. The callee closes the channel.
     */
    void (*on_gone)(void *data);
};

/*
 * Opens a channel; takes control and pidfd. name: the sandbox's name for the log, borrowed until
 * the channel is freed.
 */
int channel_open(uv_loop_t *loop, const char *name, int control, int pidfd,
                 const struct channel_ops *ops, void *data, struct channel **ret);
/* Closes the channel; the loop frees it. Registered execs get no event. */
void channel_close(struct channel *c);

/* Returns init's pidfd, borrowed until the channel is closed. */
int channel_pidfd(const struct channel *c);

void channel_add(struct channel *c, struct channel_exec *e);
void channel_remove(struct channel_exec *e);

enum { CHANNEL_QUEUE_MAX = 256 /* queued messages for an init that does not read */ };

/*
 * Sends a message with descriptors (borrowed), at once or when init's socket has room, in order.
 * -EPIPE: init has exited. -EAGAIN: CHANNEL_QUEUE_MAX messages are queued. COLLECT, LIST and the
 * kill of a whole exec are queued beyond that limit, once for each exec.
 */
int channel_post(struct channel *c, const struct imsg *msg, const int *fds, int fd_count);
