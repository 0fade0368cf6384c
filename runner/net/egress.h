#pragma once

/*
 * Egress control: one small nftables table in a sandbox's own net namespace. The namespace belongs
 * to the outer user namespace, so no process inside has a capability over it. There it also works
 * for a sandbox without a link, the listener identifies the sandbox of a connection, and the host's
 * firewall remains a second, independent barrier.
 *
 *   output nat     TCP to anywhere    -> 127.0.0.1/[::1]:EGRESS_TCP_PORT
 *                  UDP to port 53     -> 127.0.0.1/[::1]:EGRESS_DNS_PORT
 *   output filter  the rest: dropped; or (open) left to the host's firewall, except QUIC
 *
 * Not touched: the sandbox's own loopback, the pool of sandbox addresses (named networks and host
 * ports: the host's firewall decides), and packets with EGRESS_MARK. Without a listener at these
 * ports connections are refused: it fails closed.
 */

#include <netinet/in.h> /* must come before the kernel's headers of the same names */
#include <stdbool.h>

#include "policy/egress-net.h"
#include "policy/net-rule.h"

struct err;

struct egress_net {
    /* the sandbox has a link; otherwise everything is routed to loopback, to be caught there */
    bool link;
    enum egress_table table;
    /* With a link: */
    struct net_rule pool4, pool6;
    struct net_addr gateway4; /* the gateway; its EGRESS_PROXY_PORT is the explicit proxy */
};

/* Makes the table, atomically replaces an existing one, or removes it. route, nft: sockets of the
 * sandbox's namespace. Connections older than the table are reset with their next packet.
 * Connections that it has redirected end with their listener. */
int egress_make(int route, int nft, const struct egress_net *e, struct err *err);

/* Leads queries to the name server of named networks (NAMES_ADDRESS) to NAMES_PORT of the
 * namespace's loopback. nft: a socket of the namespace. -EOPNOTSUPP: the kernel cannot. */
int egress_make_names(int nft, struct err *err);
