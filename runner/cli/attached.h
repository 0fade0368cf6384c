#pragma once

/*
 * Connects our standard streams, terminal and signals with a command in a sandbox, over the
 * upgraded connection of run, exec, attach and start.
 *
 * One poll loop. Each direction buffers at most one piece, and no direction waits for another: a
 * stopped reader of our output delays neither signals nor input. If the daemon restarts, the
 * session attaches again.
 *
 *     attached_new(&options, &a, err);        from here on signals are passed on
 *     attached_request(a, c, &request, &err); with CLIENT_UPGRADE
 *     attached_run(a, c, again, own, &end, err);
 */

#include <stdbool.h>

#include "base/detach-keys.h"
#include "cli/client.h"

struct attached;
struct err;

struct attached_options {
    bool tty;           /* the command has a terminal; ours is set to raw mode */
    bool input;         /* stdin is passed on */
    bool no_input;      /* stdin is not passed on, and the command reads end of file */
    struct keys detach; /* detach keys, with tty and input */
};

struct attached_end {
    int status;    /* exit status for this process */
    bool detached; /* by the detach keys; the command continues */
    bool timed_out, oom_killed;
    bool sandbox_ended; /* the command was killed with its sandbox */
};

/*
 * Prepares a session. Blocks the signals that are passed on, so that none is lost or fatal
 * meanwhile.
 */
int attached_new(const struct attached_options *o, struct attached **ret, struct err *err);
/* Restores the terminal and the signal mask, and frees a. NULL is allowed. */
void attached_free(struct attached *a);
static inline void attached_free_auto_(struct attached **a)
{
    attached_free(*a);
}
#define auto_attached __attribute__((cleanup(attached_free_auto_)))

/*
 * client_send and client_head. Signals received meanwhile are passed on once the command runs. The
 * third interrupt ends the wait (-EINTR).
 */
int attached_request(struct attached *a, struct client *c, const struct client_request *request,
                     struct err *err);
/*
 * Call after attached_request. Moves all data until the command has ended and its output is
 * written. again: target for attaching anew (with {"own":…} from `own`) if the connection is lost.
 * The third SIGINT or SIGTERM without a pause (base/signal-escalation.h) kills the command with
 * `own`, else detaches; the fourth ends at once. Returns 0 and *ret, or a negative errno, with
 * ret->status set to the exit status (125, 126, 127). Blocks.
 */
int attached_run(struct attached *a, struct client *c, const char *again, bool own,
                 struct attached_end *ret, struct err *err);
