#pragma once

/* The static part of the table. Private to net/. */

#include "net/nft.h"

/* Names of sets that get elements, see ruleset-table.c. */
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
#define SET_TOLD     "told"
#define SET_SHARES   "shares"
#define SET_PRIVATE4 "private4"
#define SET_PRIVATE6 "private6"
#define CHAIN_REFUSE "refuse"
/* Chains for connections over a limit, and the limit of all sandboxes together. */
#define CHAIN_OVER_FLOWS "over-flows"
#define CHAIN_OVER_RATES "over-rates"
#define CHAIN_OVER_ALL   "over-all"
#define CHAIN_BOUND_ALL  "bound-all"

/* The type of an interface name, as nft(8) numbers key types. */
enum { SET_TYPE_IFNAME = 41 };

/* Adds table, sets, chains, rules and the fixed elements to a transaction. */
void ruleset_table(struct nft *n);
/* Returns 1 if all of that is in this namespace's table, and no other rule, 0 if not, or a negative
 * errno. Checks each chain's rules, and the ranges of the sets of non-internet addresses. *ret_hash
 * changes when a rule is replaced. */
int ruleset_table_is_whole(int sock, uint32_t *ret_hash, struct err *err);
/* The kernel has no labels of connections: tables are made without. */
void ruleset_without_labels(void);
/* Add to an existing table: reports of exceeded limits (net/conn-limit.h), and the limit of all
 * sandboxes together. Each is a transaction of its own, as the kernel may lack one of them. */
struct ruleset_bounds;
void ruleset_told_part(struct nft *n);
void ruleset_all_part(struct nft *n, const struct ruleset_bounds *all);

/* One bit of a connection's 128 labels. */
enum { LABEL_BYTES = 16, LABEL_EXPRS = 3 /* of a comparison */ };
#define RULESET_LABEL                                                                              \
    {                                                                                              \
        [RULESET_LABEL_BYTE] = RULESET_LABEL_BIT                                                   \
    }

/* Registers, for rules that are made elsewhere. */
#define R(n) ((uint32_t)NFT_REG32_00 + (n))
