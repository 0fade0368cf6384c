#pragma once

/* Reads a stream of server-sent events, and reconnects after a restart of the daemon. */

#include <errno.h>

#include "cli/event-stream.h"

struct err;
struct remote;

enum { FOLLOW_END = -ESHUTDOWN /* returned by an event_fn that wants no more events */ };

/*
 * Requests target and calls fn for each event. If the connection is lost, retries for 30 s,
 * continuing after the last event's id. last_id: start after this event, or NULL. Returns 0 when
 * the stream has ended, or fn has returned FOLLOW_END. Blocks.
 */
int follow(const struct remote *r, const char *target, const char *last_id, event_fn *fn,
           void *data, struct err *err);
