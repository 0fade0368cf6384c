#pragma once

/* Ends connections of sandboxes in the host's table of connections. */

#include <stdbool.h>

struct err;
struct net_addr;

/* Removes the connections of which `ours` has an address: those that the firewall table has not let
 * begin (ruleset.h: the label), or all. The next packet of one is that of a new connection, for
 * which the rules decide. sock: NETLINK_NETFILTER. Returns their number or a negative errno. */
int connections_cut(int sock, bool (*ours)(void *data, const struct net_addr *a), void *data,
                    bool all, struct err *err);
