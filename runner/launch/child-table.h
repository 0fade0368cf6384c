#pragma once

/* The child processes of the launcher, and of the janitor: a table of those to be reaped, and what
 * a new child does first. */

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "launch/request.h"

/* As many as one user may have sandboxes (maxSandboxesPerUser). */
enum { CHILDREN_MAX = 256 };

struct child_process {
    pid_t pid;
    int pidfd; /* owned; FD_NONE: without one, the child is reaped at the next request */
    /* Called when it has been reaped; status is waitpid's. NULL: the exit needs no action. */
    void (*on_exit)(void *owner, const struct child_process *c, int status);
    char id[LAUNCH_ID_MAX + 1]; /* of its sandbox, for the log; "" */
};

struct child_table {
    void *owner; /* borrowed; argument of on_exit */
    struct child_process children[CHILDREN_MAX];
    size_t count;
};

/* Returns true if one more child fits in. Reaps first. */
bool child_table_has_room(struct child_table *t);
/* Adds a child; there must be room. id: of its sandbox, or NULL. */
void child_table_add(struct child_table *t, pid_t pid, const char *id,
                     void (*on_exit)(void *owner, const struct child_process *c, int status));
/* Reaps the children that have exited. Does not block. */
void child_table_reap(struct child_table *t);
/* Returns how many children have this on_exit. */
size_t child_table_count(const struct child_table *t,
                         void (*on_exit)(void *owner, const struct child_process *c, int status));
/* Fills in one entry for each child; returns the number, at most CHILDREN_MAX. */
size_t child_table_poll(const struct child_table *t, struct pollfd *ret);

/* In a forked child: closes all fds except `fds`, which become `first`, `first` + 1 and so on, and
 * those below `first`. The child must not hold locks of other sandboxes. An fd that is FD_NONE
 * stays so. Returns 0 or a negative errno. */
int child_keep_fds(int *fds, int count, int first);
/* In a forked child: sets its name, and its handler of SIGTERM and SIGINT. */
void child_become(const char *name, void (*on_stop)(int));
/* In a forked child: sets SCHED_BATCH, so that it does not preempt the client that made the
 * request.
 */
void child_yield(void);
