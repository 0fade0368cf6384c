#pragma once

/* Reports of sandboxes that exceed a connection limit (ruleset.h). The kernel reports each sandbox
 * at most once a day to the listener of OVER_GROUP in its net namespace. Only one process can
 * listen. No polling and no counting is needed. */

#include <stdbool.h>

#include "policy/net-rule.h"

struct err;

enum {
    OVER_GROUP = 29294, /* of nfnetlink_log: "rn" */
    OVER_BYTES = 40,    /* of a packet: enough for its addresses */
};

/* The log prefix of the packet names the limit. */
#define OVER_FLOWS "flows"
#define OVER_RATES "flows a second"
#define OVER_ALL   "flows of all"

enum over_bound { OVER_BOUND_FLOWS, OVER_BOUND_RATES, OVER_BOUND_ALL };

struct over {
    enum over_bound bound;
    struct net_addr from; /* the sandbox's address */
};

/* Opens a socket that becomes readable when a sandbox exceeds a limit; returns the fd. -EBUSY:
 * another process has it. */
int over_open(struct err *err);
/* Calls fn for each report; lost or malformed ones are skipped. */
void over_read(int fd, void (*fn)(void *data, const struct over *o), void *data);

/* Parses one message. Returns true if it is a report. Pure. */
struct nlmsghdr;
bool over_parse(const struct nlmsghdr *h, struct over *ret);
