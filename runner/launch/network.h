#pragma once

/*
 * The network of a sandbox from the launcher's side: whose it is, when it is made, and when it is
 * forgotten. Private to launch/.
 *
 * A network belongs to the sandbox that it was made for (its owner), and lives as long as the net
 * namespace: until the last of its members, the owner and those that joined it, has ended. The file
 * sandboxes/<id>/net says so, so that who comes after a crash can account for it.
 */

#include <stdbool.h>

#include "base/buf.h"
#include "policy/net-box.h"

struct err;
struct launch_request;
struct launcher;
struct sandbox;

/* Before init is cloned. *ret_pidfd: a process whose net namespace the new sandbox gets, borrowed,
 * or FD_NONE for one of its own. -EBUSY: whom it would join does not run. */
int network_choose(struct launcher *l, struct sandbox *s, const struct launch_request *q,
                   int *ret_pidfd, struct err *err);
/* While init waits: makes the network, or joins it, and writes the file. */
int network_make(struct launcher *l, struct sandbox *s, const struct launch_request *q,
                 struct err *err);
/* A member has ended, or a start has failed: forgets the network when it was the last one. */
int network_leave(struct launcher *l, struct sandbox *s, struct err *err);
/* Another live member, or NULL. */
struct sandbox *network_peer(struct launcher *l, const struct sandbox *s);
/* What the file says, for a sandbox that was not started by this launcher. */
void network_load(struct sandbox *s);

/* Sandboxes that live in networks from before this launcher, until each is in its table or has
 * ended: what they are in is neither forgotten nor left without rules meanwhile. */
/* One of them (its directory is open). -ENOMEM. */
int network_inherit(struct launcher *l, struct sandbox *s);
/* All of them are known: the rules of their networks are put back where somebody has taken them
 * away since. */
void network_inherited(struct launcher *l);
/* The id of one that is in the network of s, or NULL. Valid until the next call. */
const char *network_heir(struct launcher *l, const struct sandbox *s);
/* It is in the table, or has ended. */
void network_disinherit(struct launcher *l, const char *id);
void network_heirs_free(struct launcher *l);

/* Where it is. */
struct net_place network_place(const struct sandbox *s);

/* LAUNCH_OVER: the fd. */
int network_over(const struct launcher *l, struct err *err);

/* LAUNCH_CLOSED. ret: the two descriptors, the caller's. */
int network_closed(struct launcher *l, int ret[2], struct err *err);

/* The numbers that init has the hosts file and resolv.conf at (0: not), for who has to write them
 * again; and getting the former from there. */
int network_lease(struct sandbox *s, int hosts, int resolv, struct err *err);
void network_reopen_hosts(struct launcher *l, struct sandbox *s);

/* The texts of the sandbox's own files. Returns how many members of its network are not in it,
 * because ETC_TEXT_MAX is reached. */
unsigned network_hosts(const struct launcher *l, const struct sandbox *s, struct buf *ret);
void network_resolv(const struct sandbox *s, struct buf *ret);
/* Members of a named network have changed: writes every member's hosts file again. Where
 * they do not fit, the log says so once. */
void network_tell_group(struct launcher *l, uint32_t group);
