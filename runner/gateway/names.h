#pragma once

/* Records the names that an address was given out for, and until when. So an allowed host name
 * opens an address, and a connection that shows no name is matched by these names. One per
 * sandbox; bounded, the oldest pair is evicted.
 *
 * Runs in the supervisor's loop thread; called by egress.c and egress-dial.c. */

#include <stdbool.h>
#include <stdint.h>

#include "policy/net-rule.h"

struct names;

enum {
    NAMES_MAX = 4096, /* pairs of a name and an address */
    NAMES_EACH = 256, /* names per address: all are matched for a connection that shows none */
};

struct names *names_new(void); /* NULL without memory */
void names_free(struct names *n);
/* Adds a pair. now, until: ms of a monotonic clock. Without memory the pair is dropped, and the
 * name opens nothing. */
void names_add(struct names *n, const char *name, const struct net_addr *a, uint64_t now,
               uint64_t until);
/* True if the pair is known and still valid. */
bool names_has(const struct names *n, const char *name, const struct net_addr *a, uint64_t now);
/* Calls fn for each valid name of an address. */
void names_each(const struct names *n, const struct net_addr *a, uint64_t now,
                void (*fn)(void *data, const char *name), void *data);
