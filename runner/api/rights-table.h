#pragma once

/* The table of rights: which right each route needs (sandbox/rights.h says what they are). */

#include "sandbox/rights.h"

struct err;
struct route;
struct route_set;

enum need {
    NEED_DAEMON,  /* root and the owner of the daemon only: also what has no row */
    NEED_NOTHING, /* names no object, and answers all clients alike */
    NEED_CALLER,  /* makes objects, lists what the caller sees, or names an object by a store that
                   * is given the caller (images) */
    NEED_SEE,     /* the right to the object that the route names */
    NEED_USE,
    NEED_OWN,
};

struct rights_row {
    const char *method; /* NULL ends the table */
    const char *pattern;
    enum need need;
};

extern const struct rights_row rights_table[];

struct rights;

/* Finds the row of each route of the sets, which end with {0}. -EINVAL: a route has none; -ENOMEM.
 * *ret: owned by the caller, for rights_free. */
int rights_new(const struct route_set *sets, struct rights **ret, struct err *err);
void rights_free(struct rights *r);
/* NEED_DAEMON for a route that was not in the sets, and with rights == NULL. */
enum need rights_need(const struct rights *rights, const struct route *route);
/* The right to one object. RIGHT_OWN for a need that is about none: such a route has no business
 * with an object, and gets one only if the caller has all rights to it. */
enum right need_right(enum need need);
