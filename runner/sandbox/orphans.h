#pragma once

/*
 * Leftovers: a crash has cut off the creation or the removal of a sandbox, and an init, cgroups, an
 * id range, files of the launcher's and the supervisor's may be left. No client sees it any more.
 * It is ended and removed in the background. That is tried for some seconds while an init is about
 * to end; the next supervisor tries again.
 */

struct supervisor;

/* name: of the event `destroy`; NULL where no client was told of the sandbox. */
void orphans_add(struct supervisor *sup, const char *id, const char *name);
/* After the launcher's client has been closed. */
void orphans_close(struct supervisor *sup);
