#pragma once

/*
 * A sandbox is frozen while its files are read. The first reader pauses it, the last resumes it:
 * two snapshots at once never see it run. A sandbox that a client paused stays paused; one that a
 * client resumes meanwhile runs. The owner of the pause is stored: the next daemon ends a pause
 * whose readers died with the daemon before it.
 */

#include <stdbool.h>

#include "sandbox/sandbox.h"

struct err;

struct freeze_ref {
    struct sandbox *s; /* borrowed; the reader has a reference */
    bool counted;
};

/*
 * 1: it holds still already, or nothing runs in it: cb is not called. 0: cb follows. An error:
 * -EBUSY and what sandbox_pause says. hold: the caller's, until freeze_ref_put.
 */
int freeze_ref_get(struct freeze_ref *h, struct sandbox *s, sandbox_cb cb, void *data,
                   struct err *err);
/* For cb, when it was called with r >= 0. */
void freeze_ref_frozen(struct freeze_ref *h);
/* Whether cb follows, which then calls freeze_ref_thawed with what it was told. Ends a hold that
 * never began or has ended, too: false. */
bool freeze_ref_put(struct freeze_ref *h, sandbox_cb cb, void *data);
void freeze_ref_thawed(struct freeze_ref *h, int r);
