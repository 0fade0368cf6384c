#pragma once

/*
 * Which of the host's addresses and ports may be given to sandboxes: a list of rules, one of which
 * must fit. In the client policy for members, and in the daemon's configuration for everybody.
 * Pure.
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

/* What the decoder of such a list is: an array of {address, minPort, maxPort}. dst + off is a
 * struct publish_rules. */
jdecode_fn j_publish_rules;
/* -ENOMEM. One rule: any address, all ports. */
int publish_rules_any(struct publish_rules *ret);
void publish_rules_done(struct publish_rules *rules);

/* Port 0 is whatever the kernel gives: allowed where a rule covers all that it may give (32768 to
 * 60999). */
bool publish_allowed(const struct publish_rules *rules, const struct address *a);
