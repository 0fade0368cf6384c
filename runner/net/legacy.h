#pragma once

/* The rules of iptables-legacy and ip6tables-legacy, which nftables does not list. Used by `rind
 * doctor` only. */

#include <stddef.h>

struct err;

enum {
    LEGACY_TEXT_MAX = 64,
    LEGACY_SIZE_MAX = 64 << 20, /* bytes of one table's rules; more: -E2BIG */
};

/* Like watch_foreign_drop, for the FORWARD chains of the filter tables. Never creates a table. */
int legacy_foreign_drop(char text[LEGACY_TEXT_MAX], struct err *err);
