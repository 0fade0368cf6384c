#pragma once

/*
 * Who is refused because of a bound of connections (ruleset.h): the kernel tells it, for each
 * sandbox at most once a day, whoever listens to OVER_GROUP of its net namespace, which one process
 * alone can. Nobody has to ask, and nothing is counted for it.
 */

#include <stdbool.h>

#include "policy/net-rule.h"

struct err;

enum {
    OVER_GROUP = 29294, /* of nfnetlink_log: "rn" */
    OVER_BYTES = 40,    /* of a packet: up to its addresses */
};

/* Which bound it is: the words that come with the packet. */
#define OVER_FLOWS "flows"
#define OVER_RATES "flows a second"
#define OVER_ALL   "flows of all"

enum over_bound { OVER_BOUND_FLOWS, OVER_BOUND_RATES, OVER_BOUND_ALL };

struct over {
    enum over_bound bound;
    struct net_addr from; /* the sandbox's address */
};

/* A socket that becomes readable when somebody is over; the fd. -EBUSY: another process has it. */
int over_open(struct err *err);
/* Calls fn for each of what has come; what is lost or not understood is passed over. */
void over_read(int fd, void (*fn)(void *data, const struct over *o), void *data);

/* One message: whether it tells of somebody. Pure. */
struct nlmsghdr;
bool over_parse(const struct nlmsghdr *h, struct over *ret);
