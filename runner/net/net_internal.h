#pragma once

/* What the parts of net.h's networks share: net.c (one network), host.c (what is changed of the
 * host for them), restore.c (rules that others have taken away). Private to net/. */

#include <stdbool.h>
#include <stdint.h>

#include "net/net.h"
#include "net/pool.h"

struct err;
struct ruleset_bounds;

enum {
    UPLINKS_MAX = 32,      /* interfaces whose forwarding is switched on */
    HOST_MTU = 1500,       /* where the host leads nowhere */
    CLOSED_TEXT_MAX = 192, /* bytes of why a link is down; an interface's alias has room for it */
};

/* A bit for each slot. */
struct closed_nets {
    uint8_t bits[POOL_SLOTS / 8];
};

struct net {
    struct net_config config;
    int route, nft;                                               /* owned sockets, once needed */
    int watch, watch_routes, watch_link, watch_resolv, watch_all; /* owned; the same; watch_all is
                                                                     an epoll of the others */
    int uplink;     /* that watch_link tells of; 0: none */
    int way4, way6; /* interfaces that lead to the internet; 0: not known yet */
    bool have_pools;
    struct net_rule pool4, pool6;
    unsigned alive; /* networks that this process has made and not removed */

    /* restore.c */
    bool looked;               /* for what was taken away before we watched */
    bool doubt;                /* others have changed the table since it was last looked at */
    bool whole;                /* it was as it must be then */
    bool moved, other;         /* of the host: default routes; MTU or name servers */
    struct closed_nets closed; /* networks whose link is down */
    char why[CLOSED_TEXT_MAX]; /* for the last time */
    unsigned failures;         /* one after the other */
    int64_t again_ms;          /* monotonic, when it is tried again; 0: not */
};

/* ---- net.c ---- */

int net_open_sockets(struct net *n, struct err *err);
/* Closing it unlocks. wait_ms -1: as long as it takes; else -EBUSY. */
int net_take_lock(const struct net *n, int wait_ms, struct err *err);
struct ruleset_bounds net_bounds(const struct net *n);
/* The table is new. What the kernel cannot is said: sandboxes go on without it. */
void net_complete(const struct net *n);
/* Whether a route is one to a sandbox of ours. */
bool net_is_own_route(const struct route *r);

/* ---- host.c ---- */

struct uplink {
    int index;
    uint32_t mtu;
    char name[NET_LINK_MAX];
};

/* Any address of the internet: it is looked up, never sent to. */
extern const struct net_addr host_somewhere4, host_somewhere6;

/* The interface that leads to an address. -ENOENT: none does. */
int host_find_uplink(const struct net *n, const struct net_addr *to, struct uplink *ret);
/* From here on n->watch_link tells of this one. */
void host_watch_uplink(struct net *n, int ifindex);

/* Replies to what this sandbox may reach are forwarded. */
int host_forward(struct net *n, const struct net_box *box, struct err *err);
int host_forward_to(struct net *n, const struct net_addr *to, struct err *err);
/* The same no more for anybody, and what rind has switched on is forgotten. */
void host_forward_off(const struct net *n);
/* For as long as no rules guard it: what rind has switched on is switched off, and on again, each
 * with its guard. */
void host_forward_pause(const struct net *n);
int host_forward_resume(const struct net *n, struct err *err);
/* Whether all of it is guarded: 1, 0, or a negative errno. */
int host_is_guarded(const struct net *n);
/* The interfaces that rind has switched on, one for each family: for the guards of a new table.
 * Returns how many. */
unsigned host_guarded(const struct net *n, char names[2 * UPLINKS_MAX][NET_LINK_MAX]);

/* The black holes for what comes late: made, and taken away. */
int host_make_holes(struct net *n, const struct net_box *box, struct err *err);
void host_fill_holes(const struct net *n);

/* ---- restore.c ---- */

/* In front of a new network, under the lock: there is a table, and it does what it must. One that
 * is made anew has nobody in it: who watches puts them back. */
int restore_table(struct net *n, struct err *err);
/* There is a new network: where the kernel does not tell of changes, they are looked for after a
 * while. */
void restore_unwatched(struct net *n);
/* A network has ended. */
void restore_forget(struct net *n, uint32_t slot);
