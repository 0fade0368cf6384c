#pragma once

/*
 * A sandbox held still while its files are read. The first who reads pauses it, the last lets it go
 * on: two snapshots at once never see it run. One that a client paused stays paused, and one that a
 * client resumes meanwhile runs. Whose pause it is is stored: the daemon after one that died
 * meanwhile lets it go on.
 */

#include <stdbool.h>

#include "core/sandbox.h"

struct err;

struct hold {
    struct sandbox *s; /* borrowed; who holds has a reference */
    bool counted;
};

/*
 * 1: it holds still already, or nothing runs in it: cb is not called. 0: cb follows. An error:
 * -EBUSY and what sandbox_pause says. hold: the caller's, until hold_end.
 */
int hold_begin(struct hold *h, struct sandbox *s, sandbox_cb cb, void *data, struct err *err);
/* For cb, when it was called with r >= 0. */
void hold_paused(struct hold *h);
/* Whether cb follows, which then calls hold_gone_on with what it was told. Ends a hold that never
 * began or has ended, too: false. */
bool hold_end(struct hold *h, sandbox_cb cb, void *data);
void hold_gone_on(struct hold *h, int r);
