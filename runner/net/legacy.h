#pragma once

/*
 * The rules of iptables-legacy and ip6tables-legacy, which nftables does not know of: only what
 * doctor says of them.
 */

#include <stddef.h>

struct err;

enum {
    LEGACY_TEXT_MAX = 64,
    LEGACY_SIZE_MAX = 64 << 20, /* bytes of one table's rules; more: -E2BIG */
};

/* As watch_foreign_drop, of the chains FORWARD in their tables filter. Makes no table that is not
 * there. */
int legacy_foreign_drop(char text[LEGACY_TEXT_MAX], struct err *err);
