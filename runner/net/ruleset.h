#pragma once

/*
 * The firewall: one table of the family inet, shared by all rinds of a net namespace. A sandbox has
 * elements in hash sets, keyed by the name of its link; a sandbox with lists of its own has a
 * chain, too.
 *
 * Every packet from or to a link of rind is refused unless a set allows it. So a link in no set
 * reaches nothing from its first packet on, and there is no gap between a link and its rules.
 */

#include <netinet/in.h> /* must come before the kernel's headers of the same names */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/nft.h"
#include "policy/net-setup.h"

struct err;

/* Both change together with the table's layout: links with the old name keep the old table. */
#define NET_TABLE       "rind"
#define NET_LINK_PREFIX "rind-"

/* New connections of one sandbox: at a time (closed ones do not count), and per second after a
 * burst. None may be 0. */
struct ruleset_bounds {
    uint32_t flows, per_second, burst;
};

/* The label that a connection gets from the table which lets it begin: this bit of this byte. */
enum { RULESET_LABEL_BYTE = 14, RULESET_LABEL_BIT = 0x40 };
/* False: the kernel has no labels, and the table cannot tell which connections it has let begin. */
bool ruleset_has_labels(void);

/* State of the table. Damaged: it exists, but does not work (rules are missing, or are not rind's;
 * it is dormant, or another program's). */
enum ruleset_state { RULESET_MISSING = 0, RULESET_DAMAGED, RULESET_WHOLE };
/* A whole table, so that a change is seen: the table's number, and a hash of its rules. */
struct ruleset_print {
    uint64_t table;
    uint32_t rules;
};
/* print: of the last whole table, zero at first; replaced if the table is whole. A table of the
 * same number with other rules is damaged. Or a negative errno. */
int ruleset_state(int sock, struct ruleset_print *print, struct err *err);
/* Makes the table, or replaces an existing one atomically, with guards for these interfaces
 * (ruleset_guard). Call ruleset_complete afterwards. Elements of sandboxes are lost, so that they
 * reach nothing. */
int ruleset_make(int sock, char (*guards)[NFT_IFNAME_LEN], size_t count, struct err *err);

/* Adds the sandbox's rules, all or none. -ENOENT: there is no table. */
int ruleset_add(int sock, const struct net_setup *setup, const struct ruleset_bounds *bounds,
                struct err *err);
/* Adds parts that the kernel may not support: reports of exceeded limits (net/conn-limit.h), and
 * the limit of all sandboxes together (flows 0: none). Returns the first failure; sandboxes run
 * without that part. */
int ruleset_complete(int sock, const struct ruleset_bounds *all, struct err *err);
/* Allows DNS to its current name servers, in addition to its earlier ones. */
int ruleset_add_dns(int sock, const struct net_setup *setup, struct err *err);
/* Moves a sandbox that is in the table to other named networks, and gives or takes the internet, in
 * one transaction. was: what it has been added with. -ENOENT: there is no table. On failure it has
 * what `was` says, or is in no set. */
int ruleset_change(int sock, const struct net_setup *was, const struct net_setup *now,
                   const struct ruleset_bounds *bounds, struct err *err);
/* Removes the sandbox. Missing elements are no error. */
int ruleset_remove(int sock, const struct net_setup *setup, struct err *err);
/* ruleset_has: this sandbox is in the table, with its own lists. ruleset_used: any sandbox is. They
 * return 1, 0, or a negative errno. */
int ruleset_has(int sock, const struct net_setup *setup, struct err *err);
int ruleset_used(int sock, struct err *err);
/* Removes the table if no sandbox is in it. 1: it is gone, or did not exist; 0: it is in use. */
int ruleset_remove_empty(int sock, struct err *err);

/* Adds a guard for an interface on which rind has enabled forwarding: packets that arrive there and
 * are not for a sandbox are still not forwarded. */
int ruleset_guard(int sock, const char *ifname, struct err *err);
/* Returns 1 if the interface has a guard, 0 if not, or a negative errno. */
int ruleset_has_guard(int sock, const char *ifname, struct err *err);
