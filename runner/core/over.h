#pragma once

/* Logs, and emits as an event, that a sandbox is refused because of a bound of connections: the
 * kernel tells it (net/over.h), at most once a day for each. */

struct over_watch;
struct supervisor;

/* A sandbox has a network: from now on one may reach its bound. The launcher is asked for the
 * kernel's socket once, and again at a later start while another rind of the host has it. */
void over_watch_begin(struct supervisor *sup);
void over_watch_close(struct over_watch *w);
