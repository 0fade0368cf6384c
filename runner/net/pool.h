#pragma once

/*
 * Where sandboxes' addresses come from. Each slot has a pair of addresses: the gateway's, which is
 * the host's, and the next one, which is the sandbox's. A pool is used when the host has no route
 * and no name server in it; of several the first such one.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/net-rule.h"

struct err;
struct nlmsghdr;

enum {
    POOL_SLOTS = 4096,
    POOL_PREFIX4 = 19,  /* the longest: two addresses a slot */
    POOL_PREFIX6 = 115, /* as many */
    POOLS_MAX = 8,
    ROUTES_TEXT_MAX = 200,
    ROUTE_PROTOCOL = 114, /* marks routes of ours; nobody else's in rt_protos(5) */
};

/* CIDRs, NULL-terminated, in the order in which they are tried. */
extern const char *const pool_defaults4[];
extern const char *const pool_defaults6[];

/* "10.213.0.0/19" into a rule without ports. -EINVAL, -ERANGE when it is too small for all slots.
 */
int pool_parse(const char *text, int family, struct net_rule *ret, struct err *err);

/* Address number `n` of a pool. */
struct net_addr pool_address(const struct net_rule *pool, uint32_t n);

/* What of the host's routes is of interest. */
struct route {
    struct net_rule to; /* prefix 0: the default route */
    int oif;
    bool ours;       /* a pool's black hole, see net.c */
    bool configured; /* no answer to a question, and not a route that every interface has */
};
/* One RTM_NEWROUTE, pure: 1 and *ret, 0 when it is something else, -EBADMSG. */
int route_parse(const struct nlmsghdr *h, struct route *ret);

/* Whether two networks have an address in common. */
bool pool_overlap(const struct net_rule *a, const struct net_rule *b);

/* The first of the pools that nothing overlaps. -ENOSPC names each and what is in its way. */
struct pool_taken {
    const struct route *routes;
    size_t route_count;
    const struct net_addr *hosts; /* name servers */
    size_t host_count;
};
int pool_choose(const char *const *pools, int family, const struct pool_taken *taken,
                struct net_rule *ret, struct err *err);
