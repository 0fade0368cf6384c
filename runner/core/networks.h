#pragma once

/*
 * Named networks that somebody has made: a name that is there also while no sandbox is in it, with
 * labels and a maker. A network of a name that nobody has made is there as long as sandboxes name
 * it; what its members may do is the same (docs/network.md).
 *
 * On the supervisor's loop. Borrowed entries are valid until one is removed.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/caller.h"

struct err;
struct network_entry;
struct networks;
struct sandbox;
struct spec;
struct store;
struct supervisor;

/* Takes up what is there. */
int networks_open(struct supervisor *sup, struct err *err);
void networks_close(struct networks *n);

struct network_wish {
    const char *name;
    char *const *labels; /* "K=V", NULL-terminated; or NULL */
    bool internal;       /* its members have no internet beside it */
};

/* -EINVAL: the name is none, or a label; -EEXIST: it is taken, by a network or by sandboxes that
 * name one; -EAGAIN, -EUSERS: a limit. */
int network_create(struct supervisor *sup, const struct network_wish *wish,
                   const struct caller *who, struct network_entry **ret, struct err *err);
/* -EBUSY: a sandbox that runs is in it. */
int network_remove(struct network_entry *n, struct err *err);

struct network_entry *network_find(struct supervisor *sup, const char *name);
struct network_entry *network_first(struct supervisor *sup);
struct network_entry *network_next(struct network_entry *n);

const char *network_name(const struct network_entry *n);
int64_t network_created_ms(const struct network_entry *n);
bool network_is_internal(const struct network_entry *n);
/* "K=V", NULL-terminated; borrowed. */
char *const *network_labels(const struct network_entry *n);
bool network_may_use(const struct network_entry *n, const struct caller *who);

/* Sandboxes whose spec names it, stopped ones included; *ret_live: of those that run. */
unsigned network_users(struct supervisor *sup, const char *name, unsigned *ret_live);

/* Whether a spec may name the network that it names: -EPERM where that is another user's, -EINVAL
 * where it asks for the internet beside an internal one; what it does not say then becomes none. */
int networks_check_spec(struct supervisor *sup, struct spec *spec, const struct caller *who,
                        struct err *err);
