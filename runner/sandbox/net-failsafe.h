#pragma once

/* Which sandboxes have a closed network, as their firewall rules could not be put back: the
 * launcher says it (LAUNCH_CLOSED), once it is asked and whenever that changes. It is kept with the
 * sandbox (sandbox_info), and told of as the events network_closed and network_open. */

struct net_failsafe;
struct supervisor;

/* A sandbox has a network, perhaps one of another's that is closed already. */
void net_failsafe_begin(struct supervisor *sup);
void net_failsafe_close(struct net_failsafe *w);
