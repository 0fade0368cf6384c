#pragma once

/*
 * Our standard streams, terminal and signals, connected with a command that runs in a sandbox: the
 * upgraded connection of run, exec, attach and start.
 *
 * One loop on poll. Each direction is at most one buffer ahead of its slower side, and none waits
 * for another: a reader of our output that has stopped holds back neither signals nor input. When
 * the daemon goes and comes back, the command is attached to again.
 *
 *     attached_new(&options, &a, err);        from here on signals are ours to pass on
 *     attached_request(a, c, &request, &err); of an upgrade
 *     attached_run(a, c, again, own, &end, err);
 */

#include <stdbool.h>

#include "cli/client.h"
#include "cli/terminal.h"

struct attached;
struct err;

struct attached_options {
    bool tty;           /* the command has a terminal: ours hands keys on */
    bool input;         /* our stdin is passed on */
    bool no_input;      /* it is not, and the command is to read end of file */
    struct keys detach; /* with tty and input */
};

struct attached_end {
    int status;    /* what to exit with */
    bool detached; /* by the keys: the command goes on */
    bool timed_out, oom_killed;
    bool sandbox_ended; /* the command was killed with its sandbox */
};

/* Blocks the signals that are passed on, so that none is lost or ends us between two steps. */
int attached_new(const struct attached_options *o, struct attached **ret, struct err *err);
/* The terminal and the signals are as they were. NULL is a no-op. */
void attached_free(struct attached *a);
static inline void attached_free_auto_(struct attached **a)
{
    attached_free(*a);
}
#define auto_attached __attribute__((cleanup(attached_free_auto_)))

/* client_send and client_head. Signals meanwhile are for the command, as soon as it runs; who asks
 * for its end three times does not wait any more (-EINTR). */
int attached_request(struct attached *a, struct client *c, const struct client_request *request,
                     struct err *err);
/*
 * After attached_request: moves everything until the command has ended and all its output
 * is written. again: the target to attach to it again with ({"own":…} by `own`), when the
 * connection is lost. SIGINT or SIGTERM for the third time without a pause (base/impatience.h)
 * kills what is our own and leaves what is not; for the fourth time nothing is waited for. 0 and
 * *ret; negative: ret->status is what to exit with all the same (126, 127, 125).
 */
int attached_run(struct attached *a, struct client *c, const char *again, bool own,
                 struct attached_end *ret, struct err *err);
