#pragma once

/* Address pools of sandboxes. Each slot has a pair of addresses: the gateway's, which is the
 * host's, and the next one, which is the sandbox's. The first pool is used in which the host has no
 * route and no name server. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/net-rule.h"

struct err;
struct nlmsghdr;

enum {
    POOL_SLOTS = 4096,
    POOL_PREFIX4 = 19,  /* the longest prefix: two addresses per slot */
    POOL_PREFIX6 = 115, /* as many */
    POOLS_MAX = 8,
    ROUTES_TEXT_MAX = 200,
    ROUTE_PROTOCOL = 114, /* protocol number of rind's routes; not used in rt_protos(5) */
};

/* CIDRs, NULL-terminated, in the order of preference. */
extern const char *const pool_defaults4[];
extern const char *const pool_defaults6[];

/* Parses "10.213.0.0/19" into a rule without ports. -EINVAL; -ERANGE when it is too small for all
 * slots. */
int pool_parse(const char *text, int family, struct net_rule *ret, struct err *err);

/* Returns address number `n` of a pool. */
struct net_addr pool_address(const struct net_rule *pool, uint32_t n);

/* The used attributes of a host route. */
struct pool_route {
    struct net_rule to; /* prefix 0: the default route */
    int oif;
    bool ours;       /* a blackhole route of a pool, see host.c */
    bool configured; /* not cached, and not a route that every interface has */
};
/* Parses one RTM_NEWROUTE: 1 and *ret, 0 for another message, -EBADMSG. Pure. */
int route_parse(const struct nlmsghdr *h, struct pool_route *ret);

/* Returns true if two networks have an address in common. */
bool pool_overlap(const struct net_rule *a, const struct net_rule *b);

/* Chooses the first pool without an overlap. -ENOSPC names each pool and what overlaps it. */
struct pool_taken {
    const struct pool_route *routes;
    size_t route_count;
    const struct net_addr *hosts; /* name servers */
    size_t host_count;
};
int pool_choose(const char *const *pools, int family, const struct pool_taken *taken,
                struct net_rule *ret, struct err *err);
