#pragma once

/*
 * Orphans: ids of sandboxes whose creation or removal was cut off by a crash. An init, cgroups, an
 * id range, and files of the launcher and of the supervisor may be left. No client sees an orphan.
 * The supervisor kills its processes and removes its files in the background. It retries for some
 * seconds while an init is about to end; after that the next supervisor tries again.
 */

struct supervisor;

/*
 * Adds an orphan. name: the name in the event `destroy`; NULL if no client was told of the sandbox.
 */
void orphans_add(struct supervisor *sup, const char *id, const char *name);
/* Frees all orphans. Called after the launcher's client has been closed. */
void orphans_close(struct supervisor *sup);
