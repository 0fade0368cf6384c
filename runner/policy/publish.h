#pragma once

/*
 * Host addresses and ports that may be published to sandboxes: a list of rules, one of which must
 * match. Used in the client policy for members of the group, and in the daemon's configuration for
 * all clients. Pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "json/decode.h"

struct publish_rule {
    char *address; /* owned; "*" = any */
    int64_t min_port, max_port;
};

struct publish_rules {
    struct publish_rule *list; /* owned */
    size_t count;
};

enum { PUBLISH_RULES_MAX = 64 };

/* Decodes an array of {address, minPort, maxPort} into the struct publish_rules at dst + off. */
jdecode_fn j_publish_rules;
/* Sets one rule: any address, all ports. -ENOMEM. */
int publish_rules_any(struct publish_rules *ret);
void publish_rules_done(struct publish_rules *rules);

/* Port 0 lets the kernel choose: allowed if a rule covers the whole range (32768 to 60999). */
bool publish_allowed(const struct publish_rules *rules, const struct address *a);
