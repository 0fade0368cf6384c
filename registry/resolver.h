#pragma once

/*
 * Addresses of host names: from /etc/hosts and the name servers of /etc/resolv.conf, whose texts
 * are read before the process is confined. libc's resolver is not used: it needs files and modules.
 * Thread-safe. Answers are kept for a minute, so that all requests of a pull ask once.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/auto.h"

struct err;
struct resolver;

enum { RESOLVER_ADDRESSES_MAX = 16 };

/* The texts are copied. NULL: out of memory. */
struct resolver *resolver_new(const char *resolv_conf, const char *hosts);
void resolver_free(struct resolver *r);
DEFINE_AUTO(struct resolver, resolver_free);

/*
 * Finds the addresses of a name (lower case) or of an address's text; their port is 0. May block
 * for `most_ms`. `canceled` is asked now and then. Returns their number; -ENOENT: there is no such
 * host; -ETIMEDOUT, -ECANCELED.
 */
int resolver_find(struct resolver *r, const char *name, int most_ms, bool (*canceled)(void *data),
                  void *data, struct address ret[RESOLVER_ADDRESSES_MAX], struct err *err);
