#pragma once

/* Logs, and emits as an event, that a sandbox is refused because of a bound of connections: the
 * kernel tells it (net/conn-limit.h), at most once a day for each. */

struct conn_limit;
struct supervisor;

/* A sandbox has a network: from now on one may reach its bound. The launcher is asked for the
 * kernel's socket once, and again at a later start while another rind of the host has it. */
void conn_limit_begin(struct supervisor *sup);
void conn_limit_close(struct conn_limit *w);
