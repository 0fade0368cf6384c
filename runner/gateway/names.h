#pragma once

/*
 * Which names an address was given out for, and until when: what an allowed host name opens, and
 * what a connection that shows no name is taken for. One for each sandbox; bounded, the oldest goes
 * first.
 */

#include <stdbool.h>
#include <stdint.h>

#include "policy/net-rule.h"

struct names;

enum {
    NAMES_MAX = 4096, /* pairs of a name and an address, */
    NAMES_EACH = 256, /* and of one address: all of them are looked at for a connection that shows
                         no name */
};

struct names *names_new(void); /* NULL without memory */
void names_free(struct names *n);
/* until: of any clock in ms that does not go back. Without memory nothing is remembered, and the
 * name opens nothing. */
void names_add(struct names *n, const char *name, const struct net_addr *a, uint64_t now,
               uint64_t until);
bool names_has(const struct names *n, const char *name, const struct net_addr *a, uint64_t now);
/* Calls fn for each name of an address. */
void names_each(const struct names *n, const struct net_addr *a, uint64_t now,
                void (*fn)(void *data, const char *name), void *data);
