#pragma once

/*
 * The addresses of a sandbox in named networks that have a subnet: a small nftables table in the
 * sandbox's own net namespace, which translates between them and the addresses that rind has given
 * (the pool's). So all packets on the link have the pool's, the host's firewall decides by these,
 * and the host has neither routes nor addresses of the subnet.
 *
 *   output       to a member's address, or a gateway's        -> the pool's
 *   postrouting  from any other address than the pool's       -> the pool's
 *   prerouting   from a member to the pool's address          -> its own in the first such network
 *   input        from a member's address of the pool          -> the member's in that network
 *
 * The namespace belongs to the outer user namespace, so no process inside can change it. (The
 * launcher refuses sandboxes that administer their network.)
 */

#include <netinet/in.h> /* must come before the kernel's headers of the same names */
#include <stddef.h>

#include "policy/net-setup.h"

struct err;
struct nlmsghdr;

/* What a sandbox's table is made of. peers: of all of its networks, those of the first one first.
 * Of a peer in several of them the first one counts. */
struct lan_view {
    const struct net_setup *setup;
    const struct net_lan_peer *peers;
    size_t count;
};

/* Makes the table or replaces its content in one step; removes it when setup has no such address.
 * Connections that exist go on. nft: a socket of the namespace. -EOPNOTSUPP: the kernel cannot. */
int lan_make(int nft, const struct lan_view *v, struct err *err);

/* ---- lan-flows.c ---- */

/* The sandbox's own address in the network of a peer; NULL: it has none there. Pure, as the next
 * ones. */
const struct net_lan *lan_of_peer(const struct lan_view *v, const struct net_lan_peer *p);
/* The peer that has this address in a network, or this one of the pool; NULL: none. A name server
 * of the sandbox has its address whatever a peer has. */
const struct net_lan_peer *lan_to_peer(const struct lan_view *v, const uint8_t lan[4]);
const struct net_lan_peer *lan_from_peer(const struct lan_view *v, const uint8_t pool[4]);
bool lan_gateway_counts(const struct lan_view *v, const struct net_lan *lan);

/* A connection that the namespace's conntrack knows. */
struct lan_flow {
    uint8_t proto;
    uint8_t from[4], to[4];             /* of its first packet, before any translation */
    uint8_t reply_from[4], reply_to[4]; /* of the answers to it */
};
/* True if the table would now translate the flow in another way. TCP connections never are: they
 * end by themselves, and cannot change their addresses. */
bool lan_flow_is_stale(const struct lan_view *v, const struct lan_flow *f);
/* Parses a message of conntrack: 1 and *ret, or 0 for one of another kind. */
int lan_flow_parse(const struct nlmsghdr *h, struct lan_flow *ret);

/* Ends the flows that are stale. A datagram socket that goes on sending would otherwise never reach
 * the member that has an address now. dump, nft: two sockets of the namespace; dump is to be closed
 * then. A kernel without ctnetlink is no error. */
int lan_flows_renew(int dump, int nft, const struct lan_view *v, struct err *err);
