#pragma once

/* The connection to one sandbox's init, and its execs by id. */

#include <stdint.h>
#include <uv.h>

#include "proto/init-msg.h"

struct channel;

/* Receives what init says of one exec. Embedded in the exec; ids are unique in a sandbox for its
 * life. */
struct channel_exec {
    uint64_t id;
    struct channel_exec *next;
    /* Called for each message about this exec; fds (ATTACHED) are the callee's. */
    void (*on_message)(struct channel_exec *e, const struct imsg *msg, int *fds, int fd_count);
};

struct channel_ops {
    /* SLOT and LIST_END of a LIST, and messages of an id that was not added. fds are closed
     * afterwards. */
    void (*on_other)(void *data, const struct imsg *msg);
    /* Init is gone, with everything in the sandbox, or speaks another version, which was logged.
     * The channel is to be closed. */
    void (*on_gone)(void *data);
};

/* Takes control and pidfd. name: the sandbox's, for the log; borrowed until the channel is freed.
 */
int channel_open(uv_loop_t *loop, const char *name, int control, int pidfd,
                 const struct channel_ops *ops, void *data, struct channel **ret);
/* Closes; freed by the loop. Added execs are forgotten without a word. */
void channel_close(struct channel *c);

/* Init's, borrowed until the channel is closed. */
int channel_pidfd(const struct channel *c);

void channel_add(struct channel *c, struct channel_exec *e);
void channel_remove(struct channel *c, struct channel_exec *e);

enum { CHANNEL_QUEUE_MAX = 256 /* messages to an init that does not read */ };

/*
 * Sends a message with descriptors (borrowed), now or once init's socket has room: in order, and
 * gone only with init. -EPIPE when init is gone. -EAGAIN when CHANNEL_QUEUE_MAX messages wait
 * already; what init must hear (COLLECT, LIST, the kill of a whole exec) is taken all the same,
 * once for each exec.
 */
int channel_post(struct channel *c, const struct imsg *msg, const int *fds, int fd_count);
