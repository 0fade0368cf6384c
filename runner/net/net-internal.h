#pragma once

/* Shared by net.c (one network), host.c (changes on the host for networks) and restore.c (rules
 * that other programs have removed). Private to net/. */

#include <stdbool.h>
#include <stdint.h>

#include "net/net.h"
#include "net/pool.h"
#include "net/ruleset.h"

struct err;
struct ruleset_bounds;

enum {
    UPLINKS_MAX = 32, /* interfaces with forwarding switched on */
    HOST_MTU = 1500,  /* if the host has no route */
    /* bytes of the reason why a link is down; fits into an interface's alias */
    CLOSED_TEXT_MAX = 192,
};

/* Connections that began while the rules were away. */
enum net_cut {
    CUT_NONE = 0,
    CUT_UNLABELLED, /* those that the table has not let begin */
    CUT_ALL,        /* all of them: the table had let in what it should not */
};

/* One bit per slot. */
struct closed_nets {
    uint8_t bits[POOL_SLOTS / 8];
};

struct net {
    struct net_config config;
    int route, nft; /* owned sockets; opened when first needed */
    /* owned, likewise; watch_all is an epoll fd of the others */
    int watch, watch_routes, watch_link, watch_resolv, watch_all;
    int uplink;     /* the interface that watch_link reports; 0: none */
    int way4, way6; /* interfaces of the default routes; 0: not known yet */
    bool have_pools;
    struct net_rule pool4, pool6;
    unsigned alive; /* networks that this process has added and not removed */

    /* restore.c */
    bool looked;                /* the state before the watch began has been checked */
    bool doubt;                 /* another program has changed the table since the last check */
    bool whole;                 /* the last check found the table complete */
    struct ruleset_print print; /* of that table; zero: not known yet */
    enum net_cut uncut;         /* connections to end before a network is open again */
    unsigned live;              /* networks at the last check */
    bool moved, other;          /* on the host: default routes; MTU or name servers */
    struct closed_nets closed;  /* networks with their link down */
    char why[CLOSED_TEXT_MAX];  /* reason of the last failure */
    unsigned failures;          /* consecutive failures */
    int64_t again_ms;           /* monotonic time of the next attempt; 0: none */
};

/* ---- net.c ---- */

int net_open_sockets(struct net *n, struct err *err);
/* Takes the lock; closing the fd releases it. wait_ms -1: blocks; else -EBUSY after the time-out.
 */
int net_take_lock(const struct net *n, int wait_ms, struct err *err);
struct ruleset_bounds net_bounds(const struct net *n);
/* Completes a new table. A feature that the kernel lacks is reported, and sandboxes run without it.
 */
void net_complete(const struct net *n);
/* True if a route leads to a sandbox of rind. */
bool net_is_own_route(const struct pool_route *r);

/* ---- host.c ---- */

struct uplink {
    int index;
    uint32_t mtu;
    char name[NET_LINK_MAX];
};

/* Any address of the internet: only used for route lookups. */
extern const struct net_addr host_somewhere4, host_somewhere6;

/* Finds the interface that leads to an address. -ENOENT: none. */
int host_find_uplink(const struct net *n, const struct net_addr *to, struct uplink *ret);
/* Makes n->watch_link report changes of this interface. */
void host_watch_uplink(struct net *n, int ifindex);

/* Enables forwarding of replies from what this sandbox may reach. */
int host_forward(struct net *n, const struct net_setup *setup, struct err *err);
int host_forward_to(struct net *n, const struct net_addr *to, struct err *err);
/* Disables forwarding on every interface that rind enabled, and removes the marks. */
void host_forward_off(const struct net *n);
/* While there is no table to guard it: pause disables forwarding that rind has enabled, resume
 * enables it again with its guards. */
void host_forward_pause(const struct net *n);
int host_forward_resume(const struct net *n, struct err *err);
/* Returns 1 if all interfaces with marks have guards, 0 if not, or a negative errno. */
int host_is_guarded(const struct net *n);
/* Lists the interfaces on which rind has enabled forwarding, once per family, for the guards of a
 * new table. Returns their number. */
unsigned host_guarded(const struct net *n, char names[2 * UPLINKS_MAX][NET_LINK_MAX]);

/* Adds and removes the blackhole routes for late packets. */
int host_make_holes(struct net *n, const struct net_setup *setup, struct err *err);
void host_fill_holes(const struct net *n);

/* ---- restore.c ---- */

/* Call before adding a network, under the lock: ensures a complete table. A remade table is empty:
 * the watching processes restore their networks. */
int restore_table(struct net *n, struct err *err);
/* Call after adding a network: if the kernel does not report changes, they are checked for after a
 * while. */
void restore_unwatched(struct net *n);
/* Call when a network has ended. */
void restore_forget(struct net *n, uint32_t slot);
