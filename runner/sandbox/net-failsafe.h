#pragma once

/*
 * Tracks sandboxes whose network the launcher has closed because it could not restore their
 * firewall rules. The launcher reports them (LAUNCH_CLOSED) on request and after each change. The
 * reason is kept in the sandbox (sandbox_info), and events network_closed and network_open are
 * emitted.
 */

struct net_failsafe;
struct supervisor;

/* Called when a sandbox gets a network. It may have joined a network that is closed already. */
void net_failsafe_begin(struct supervisor *sup);
void net_failsafe_close(struct net_failsafe *w);
