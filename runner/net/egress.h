#pragma once

/*
 * What a sandbox sends, under control: one small nftables table inside its own net namespace, which
 * belongs to the outer user namespace: nothing that runs inside has a capability over it. Being
 * there it works for a sandbox without a link as well, a connection is told by the listener that it
 * comes in at, and the host's firewall is another wall behind it that needs to know nothing of
 * this.
 *
 *   output nat     TCP to anywhere    -> 127.0.0.1/[::1]:EGRESS_TCP_PORT
 *                  UDP to port 53     -> 127.0.0.1/[::1]:EGRESS_DNS_PORT
 *   output filter  the rest: dropped, or (open) left to the host's firewall, but for QUIC
 *
 * Not touched: the sandbox's own loopback, the pool of sandboxes' addresses (named networks and
 * ports of the host: the host's firewall knows), and what carries EGRESS_MARK. When nobody listens
 * at these ports connections are refused: it fails closed.
 */

#include <netinet/in.h> /* in front of the kernel's headers of the same names */
#include <stdbool.h>

#include "policy/egress-net.h"
#include "policy/net-rule.h"

struct err;

struct egress_net {
    bool link; /* it has one; else everything is routed to loopback, where it is caught */
    enum egress_table table;
    /* With a link: */
    struct net_rule pool4, pool6;
    struct net_addr gateway4; /* whose EGRESS_PROXY_PORT is the explicit proxy's */
};

/* Sockets of the sandbox's namespace. Makes the table, or puts this one in place of the one that is
 * there, in one transaction; or takes it away. What is under way: connections from before the table
 * are reset with their next packet; those that it has redirected end with their listener. */
int egress_make(int route, int nft, const struct egress_net *e, struct err *err);
