#pragma once

/*
 * References that keep a sandbox frozen while its files are read. The first reader freezes the
 * sandbox, the last one thaws it, so two snapshots at once never see it run. A sandbox that a
 * client has paused stays paused. If a client resumes the sandbox meanwhile, it runs. state.json
 * says that the pause belongs to readers. So after a crash the next daemon ends a pause whose
 * readers died with the old one.
 */

#include <stdbool.h>

#include "sandbox/sandbox.h"

struct err;

struct freeze_ref {
    struct sandbox *s; /* borrowed; the reader has a reference */
    bool counted;
};

/*
 * Takes a reference; h belongs to the caller until freeze_ref_put. Returns 1 if the sandbox is
 * frozen already or runs nothing; cb is then not called. Returns 0 if cb will be called from the
 * loop. Negative: -EBUSY, or an error of sandbox_pause.
 */
int freeze_ref_get(struct freeze_ref *h, struct sandbox *s, sandbox_cb cb, void *data,
                   struct err *err);
/* Counts the reference. cb calls this if its r >= 0. */
void freeze_ref_frozen(struct freeze_ref *h);
/*
 * Drops the reference. True: the sandbox is being thawed; cb is called later, and passes its r to
 * freeze_ref_thawed. False: there is nothing to wait for, also for a reference that was never
 * counted.
 */
bool freeze_ref_put(struct freeze_ref *h, sandbox_cb cb, void *data);
void freeze_ref_thawed(struct freeze_ref *h, int r);
