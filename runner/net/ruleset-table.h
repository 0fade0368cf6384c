#pragma once

/* The static part of the table: ruleset-table.c. Private to net/. */

#include "net/nft.h"

/* Names of sets that elements are put into, see ruleset-table.c. */
#define SET_SOURCE4  "source4"
#define SET_SOURCE6  "source6"
#define SET_BOXES4   "boxes4"
#define SET_BOXES6   "boxes6"
#define SET_INTERNET "internet"
#define SET_LISTS    "lists"
#define SET_HOST4    "host4"
#define SET_HOST6    "host6"
#define SET_DNS4     "dns4"
#define SET_DNS6     "dns6"
#define SET_GROUPS   "groups"
#define SET_GUARDED  "guarded"
#define SET_FLOWS    "flows"
#define SET_RATES    "rates"
#define CHAIN_REFUSE "refuse"

/* An interface's name, as nft(8) numbers types of keys. */
enum { SET_TYPE_IFNAME = 41 };

/* Table, sets, chains, rules and the fixed elements into a transaction. */
void ruleset_table(struct nft *n);
/* What of that bounds connections: for a table that was made before there were bounds. */
void ruleset_bounds_part(struct nft *n);

/* The parts of a rule that are needed elsewhere. */
#define R(n) ((uint32_t)NFT_REG32_00 + (n))
