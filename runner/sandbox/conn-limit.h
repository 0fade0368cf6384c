#pragma once

/*
 * Reports sandboxes that are refused new connections because of a limit, as a log line and an
 * event. The kernel reports them (net/conn-limit.h), at most once a day for each sandbox.
 */

struct conn_limit;
struct supervisor;

/*
 * Called when a sandbox gets a network. Requests the kernel's socket from the launcher once. If
 * another rind of the host has the socket, a later start requests it again.
 */
void conn_limit_begin(struct supervisor *sup);
void conn_limit_close(struct conn_limit *w);
