#pragma once

/*
 * The firewall: one table of the family inet, the same for every rind of a net namespace. What it
 * says about one sandbox is elements of hash sets, keyed by the name of its link; only a sandbox
 * with a list of its own has a chain, too.
 *
 * Everything that comes from a link of ours, or goes to one, is refused unless a set lets it
 * through: a link that no set knows reaches nothing, from the first packet on, and there is no
 * moment between a link and its rules.
 */

#include <netinet/in.h> /* in front of the kernel's headers of the same names */
#include <stddef.h>
#include <stdint.h>

#include "net/nft.h"
#include "policy/net-box.h"

struct err;

/* Both change together when the table's layout does: links of the old name keep the old table. */
#define NET_TABLE       "rind"
#define NET_LINK_PREFIX "rind-"

/* Connections that one sandbox may have begun: at a time (closed ones do not count), and in a
 * second (after a first burst). None is 0. */
struct ruleset_bounds {
    uint32_t flows, per_second, burst;
};

/* The table as a whole. Damaged: it is there, and does not do what it must (rules are missing; it
 * is dormant, or another program's). */
enum ruleset_state { RULESET_MISSING = 0, RULESET_DAMAGED, RULESET_WHOLE };
int ruleset_state(int sock, struct err *err); /* or a negative errno */
/* Makes it, in the place of one that is there, at once and as a whole, with the guards of these
 * interfaces (ruleset_guard); ruleset_complete is to follow. What sandboxes had in it is gone: none
 * of them reaches anything. */
int ruleset_make(int sock, char (*guards)[NFT_IFNAME_LEN], size_t count, struct err *err);

/* Lets the sandbox do what it may: all or nothing. -ENOENT: there is no table. */
int ruleset_add(int sock, const struct net_box *box, const struct ruleset_bounds *bounds,
                struct err *err);
/* What a table has where the kernel knows how: that somebody is told of who is over his bounds
 * (net/over.h), and a bound of all sandboxes together (flows 0: none). The first failure is
 * returned, and sandboxes go on without. */
int ruleset_complete(int sock, const struct ruleset_bounds *all, struct err *err);
/* Lets it ask the name servers that it has now, beside those that it had. */
int ruleset_add_dns(int sock, const struct net_box *box, struct err *err);
/* Forgets the sandbox. What is not there is no error. */
int ruleset_remove(int sock, const struct net_box *box, struct err *err);
/* Whether this sandbox is in the table, with its own lists, and whether any is: 1, 0, or a negative
 * errno. */
int ruleset_has(int sock, const struct net_box *box, struct err *err);
int ruleset_used(int sock, struct err *err);
/* Takes the table away when no sandbox is left in it. 1: it is gone, or was not there; 0: it is in
 * use. */
int ruleset_remove_empty(int sock, struct err *err);

/* An interface whose forwarding rind has switched on: what comes in there and is not for a sandbox
 * is not forwarded, as before. */
int ruleset_guard(int sock, const char *ifname, struct err *err);
/* Whether it is one: 1, 0, or a negative errno. */
int ruleset_has_guard(int sock, const char *ifname, struct err *err);
