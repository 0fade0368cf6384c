#pragma once

/* A stream of server-sent events that goes on over restarts of the daemon. */

#include <errno.h>

#include "cli/event_stream.h"

struct err;
struct remote;

enum { FOLLOW_END = -ESHUTDOWN /* what an event_fn returns when it has seen all that it wanted */ };

/*
 * GETs target and hands each event to fn. When the daemon goes, it is asked again for half a
 * minute, to go on after the last event's id. last_id: to begin after, or NULL. Returns 0 when the
 * stream has ended or fn wanted no more.
 */
int follow(const struct remote *r, const char *target, const char *last_id, event_fn *fn,
           void *data, struct err *err);
