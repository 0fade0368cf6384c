#pragma once

/*
 * What is left of sandboxes whose creation or removal was cut off by a crash: an init, cgroups, an
 * id range, files of the launcher's and ours. Nobody sees them as sandboxes any more; they are
 * ended and removed in the background, again and again for some seconds where an init is still
 * about to end, and what stays then is tried again by the next supervisor.
 */

struct supervisor;

/* name: of the event `destroy`; NULL where no client was told of the sandbox. */
void leftovers_add(struct supervisor *sup, const char *id, const char *name);
/* After the launcher's client has been closed. */
void leftovers_close(struct supervisor *sup);
