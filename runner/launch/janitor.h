#pragma once

/* The janitor, a child of the launcher that removes files, cgroups and links (janitor.c), as the
 * launcher sees it. */

#include <stdbool.h>

struct launcher;
struct launch_sandbox;

/* Starts the janitor. Call it early: until the new process has closed its inherited fds, it holds
 * the launcher's locks. After a failure the first job tries again. Returns 0 or a negative errno.
 */
int janitor_start(struct launcher *l);
/* Blocks until the janitor has done its queued jobs and has exited. Its own children go on. */
void janitor_end(struct launcher *l);
/* Like janitor_end, then starts another janitor: for a caller that needs the disk space or the id
 * ranges of queued jobs. Returns false if there was no janitor. */
bool janitor_flush(struct launcher *l);
/* Call it when l->janitor is readable. Does not block. */
void janitor_on_event(struct launcher *l);

/* Removes in another process the files of an ended, locked sandbox, then its cgroups, if `cgroups`,
 * and the reservation of its id range. Its root, if s holds one, is closed last. Returns false if
 * no process can do it: the caller does it then. */
bool janitor_remove_sandbox(struct launcher *l, struct launch_sandbox *s, bool cgroups);
/* The same for an orphan without cgroups, found by the sweep; only if it has many files. */
bool janitor_remove_large(struct launcher *l, const struct launch_sandbox *s);
/* Removes in another process what volume_hide has renamed; returns false as above. */
bool janitor_remove_hidden(struct launcher *l);
/* Syncs what a stop leaves and closes the root of s, in a process of its own. Returns that
 * process's pidfd, which the caller owns. FD_NONE: it cannot be waited for. -EAGAIN: no process;
 * the caller does the work itself. */
int janitor_stop_sandbox(struct launcher *l, struct launch_sandbox *s);
