#pragma once

/*
 * The network of a sandbox in the launcher: which sandbox owns it, when it is made, and when it is
 * removed. Private to launch/.
 *
 * A network belongs to the sandbox that it was made for (its owner). It lives as long as the net
 * namespace: until all members, the owner and the sandboxes that joined it, have exited. The file
 * sandboxes/<id>/net records this, so that a launcher that starts after a crash can clean up.
 */

#include <stdbool.h>

#include "base/buf.h"
#include "launch/idrange.h"
#include "policy/net-setup.h"

struct err;
struct launch_request;
struct launcher;
struct launch_sandbox;

/* Call it before init is cloned. *ret_ns: the net namespace that the new sandbox joins, which the
 * caller owns; it stays FD_NONE for its own. -EBUSY: the sandbox to join does not run.
 * -EINPROGRESS: members of its own network are ending, or are survivors that do not listen (yet):
 * the start can be tried again soon. No other step of a start has this error. */
int network_choose(struct launcher *l, struct launch_sandbox *s, const struct launch_request *q,
                   int *ret_ns, struct err *err);
/* Makes or joins the network, and writes the record. Call it while init waits. */
int network_make(struct launcher *l, struct launch_sandbox *s, const struct launch_request *q,
                 struct err *err);
/* Call it when a member has exited or a start has failed: removes the network with its last member.
 */
int network_leave(struct launcher *l, struct launch_sandbox *s, struct err *err);
/* Returns another live member, or NULL. */
struct launch_sandbox *network_peer(struct launcher *l, const struct launch_sandbox *s);
/* Loads the record, for a sandbox that this launcher has not started. */
void network_load(struct launch_sandbox *s);

/* Survivors: sandboxes that run in networks made by the previous launcher, until each is reattached
 * or has exited. Meanwhile their networks are neither removed nor left without rules. */
/* Adds a survivor; its directory is open. -ENOMEM. */
int network_survivor_add(struct launcher *l, struct launch_sandbox *s);
/* Call it when all survivors are added: restores missing rules of their networks. */
void network_survivor_added(struct launcher *l);
/* Returns the id of a survivor in the network of s, or NULL. Valid until the next call. */
const char *network_survivor(struct launcher *l, const struct launch_sandbox *s);
/* Drops a survivor that is reattached or has exited. */
void network_survivor_drop(struct launcher *l, const char *id);
void network_survivors_free(struct launcher *l);

/* Returns the addresses of the sandbox's network. */
struct net_place network_place(const struct launch_sandbox *s);

/* LAUNCH_CONN_LIMIT: returns the fd, which the caller owns. */
int network_conn_limit(const struct launcher *l, struct err *err);

/* LAUNCH_CLOSED. ret: the two fds, which the caller owns. */
int network_closed(struct launcher *l, int ret[2], struct err *err);

/* network_lease records the fd numbers under which init keeps the hosts file and resolv.conf (0:
 * none), so that a later launcher can rewrite them. network_reopen_hosts gets the hosts file from
 * init again. */
int network_lease(struct launch_sandbox *s, int hosts, int resolv, struct err *err);
void network_reopen_hosts(struct launcher *l, struct launch_sandbox *s);

/* Append the texts of the sandbox's files. network_hosts returns how many members are left out
 * because ETC_TEXT_MAX is reached. */
unsigned network_hosts(const struct launcher *l, const struct launch_sandbox *s, struct buf *ret);
void network_resolv(const struct launch_sandbox *s, struct buf *ret);
/* Rewrite the files of a running sandbox; ones that init does not keep are left as they are. */
void network_rewrite_hosts(const struct launcher *l, struct launch_sandbox *s);
void network_rewrite_resolv(const struct launch_sandbox *s);
/* Call it when members of the named networks of this setup (NULL: none) have changed: rewrites the
 * hosts file of every member. If they do not fit, this is logged once. */
void network_tell_all(struct launcher *l, const struct net_setup *setup);
/* ---- networks with a subnet (network-lan.c) ---- */

/* Chooses setup's addresses in its networks, as q asks for. was: what it had, or NULL; an address
 * stays if it can. -EADDRINUSE: another member has the one that is asked for; -ENOSPC, -E2BIG. */
int network_lans_choose(struct launcher *l, struct net_setup *setup, const struct net_setup *was,
                        const struct launch_request *q, struct err *err);
/* True if a change of `was` (NULL: of nothing) to setup needs network_lan_set. */
bool network_lan_concerns(const struct net_setup *setup, const struct net_setup *was);
/* Sets addresses and table inside. ns_fd: the namespace, or a pidfd of a process in it. */
int network_lan_set(const struct launcher *l, const struct net_setup *setup, enum net_lan_step step,
                    int ns_fd, struct err *err);
/* Renews the table of a sandbox, of the members that live now; an error is logged. */
void network_lan_renew(const struct launcher *l, const struct launch_sandbox *s);
/* Renews the tables of the other members of setup's networks (NULL: none). */
void network_lan_tell(const struct launcher *l, const struct net_setup *setup);

/* Collects every live network once, those of survivors too. Returns their number. The list is a
 * fixed array: an allocation could fail, and then no rules would be restored. */
size_t network_live_setups(const struct launcher *l, const struct net_setup *ret[IDRANGE_COUNT]);

/* True if the sandbox is in a named network. */
bool network_is_grouped(const struct launch_sandbox *s);

/* LAUNCH_NETWORKS: moves a running sandbox to other named networks. -EBUSY: not while it runs. */
int network_change(struct launcher *l, const struct launch_request *q, struct err *err);
