#pragma once

/* Reports of sandboxes that exceed a connection limit (ruleset.h). The kernel reports each sandbox
 * at most once a day to the listener of CONN_LIMIT_GROUP in its net namespace. Only one process can
 * listen. No polling and no counting is needed. */

#include <stdbool.h>

#include "policy/net-rule.h"

struct err;

enum {
    CONN_LIMIT_GROUP = 29294, /* nfnetlink_log group: "rn" */
    CONN_LIMIT_BYTES = 40,    /* bytes of a logged packet: enough for its addresses */
};

/* The log prefix of the packet names the limit. */
#define CONN_LIMIT_FLOWS "flows"
#define CONN_LIMIT_RATES "flows a second"
#define CONN_LIMIT_ALL   "flows of all"

enum conn_limit_bound { CONN_LIMIT_BOUND_FLOWS, CONN_LIMIT_BOUND_RATES, CONN_LIMIT_BOUND_ALL };

struct conn_limit_event {
    enum conn_limit_bound bound;
    struct net_addr from; /* the sandbox's address */
};

/* Opens a socket that becomes readable when a sandbox exceeds a limit; returns the fd. -EBUSY:
 * another process has it. */
int conn_limit_open(struct err *err);
/* Calls fn for each report; lost or malformed ones are skipped. */
void conn_limit_read(int fd, void (*fn)(void *data, const struct conn_limit_event *o), void *data);

/* Parses one message. Returns true if it is a report. Pure. */
struct nlmsghdr;
bool conn_limit_parse(const struct nlmsghdr *h, struct conn_limit_event *ret);
