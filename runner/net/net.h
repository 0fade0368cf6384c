#pragma once

/*
 * Networks of sandboxes: net_prepare chooses addresses, net_add makes the network, net_remove
 * removes it. Works in the caller's net namespace. No state is private to the process: the rules
 * are in the kernel, the rest is in the net_setup, which the caller saves.
 *
 * Several processes (daemons, `rind run`) may use it at the same time; a lock on a shared directory
 * serializes changes.
 */

#include <stdbool.h>
#include <stddef.h>

#include "policy/egress-net.h"
#include "policy/net-setup.h"

struct err;
struct net;

enum {
    NET_FLOWS = 4096,
    NET_FLOWS_PER_SECOND = 200,
};

struct net_config {
    const char *const *pools4, *const *pools6; /* NULL-terminated CIDRs, borrowed; NULL: defaults */
    const struct net_addr *dns;                /* borrowed; for sandboxes, instead of the host's */
    size_t dns_count;
    /* New connections of one sandbox at a time and per second; 0: NET_FLOWS, NET_FLOWS_PER_SECOND.
     * Never more than a share of the host's conntrack table. */
    uint32_t flows, flows_per_second;
    /* Likewise for all sandboxes of the host together; 0: a share of the host's conntrack table.
     * Set by the process that makes the firewall table, which other processes then use. */
    uint32_t all_flows, all_flows_per_second;
    int lock_dir; /* borrowed; a directory shared by the whole host */
    /* Called with a message about a change on the host; may be NULL. */
    void (*said)(const char *text);
    /* Called when forwarding of an interface has been switched on or off; may be NULL. */
    void (*forwards)(void *data, const char *ifname, int family, bool on);
    void *forwards_data; /* borrowed */
};

/* Opens nothing yet: a process without networks has no cost. */
int net_new(const struct net_config *config, struct net **ret, struct err *err);
void net_free(struct net *n);

/* Computes all other members of box from setup->slot and the host's configuration. Makes nothing.
 * -ENOSPC: no address range is free. A host without a route is no error, even if the box wants the
 * internet. */
int net_prepare(struct net *n, struct net_setup *setup, struct err *err);

/* Adds the rules, then the link to the namespace ns_fd, which has none yet; sets setup->ifindex. On
 * failure at most the link remains, which disappears with the namespace. -ENOTRECOVERABLE: the
 * process is in the wrong namespace and must exit. */
int net_add(struct net *n, struct net_setup *setup, int ns_fd, struct err *err);

/* Limits what the link carries each way, in bytes a second; before a process inside can send.
 * -EOPNOTSUPP: the kernel cannot; -ENOTRECOVERABLE as net_add. */
int net_limit(struct net *n, const struct net_setup *setup, int ns_fd, uint64_t rate,
              struct err *err);

/* Moves a running sandbox to the named networks of `want`, and gives or takes the internet: in one
 * step for its packets. want: a copy of setup with another group, more, internet. Only its rules
 * change; link and addresses stay. setup becomes want, or is unchanged on failure. */
int net_change(struct net *n, struct net_setup *setup, const struct net_setup *want,
               struct err *err);

/* Removes the network; its namespace, and so the link, is gone or about to go. Missing parts are no
 * error. With the last network it removes the table and undoes changes on the host. */
int net_remove(struct net *n, const struct net_setup *setup, struct err *err);

/*
 * net_watch returns an fd (borrowed; -1: none) that is readable when the host's firewall, routes,
 * uplink or name servers have changed. Call net_restore then, and net_wait ms from now (-1: not),
 * with the boxes of all live networks.
 *
 * net_restore restores rules that another program has removed. It closes networks for which that
 * fails, and opens them when it succeeds later (restore.c). It forwards replies from the current
 * default route's interface, and reports new routes that overlap the sandboxes' addresses. Returns
 * NET_ flags, and in err the reason if a network is closed; or a negative errno when the host's
 * state cannot be read.
 */
enum {
    NET_RESTORED = 1, /* rules have been restored */
    NET_MOVED = 2,    /* call net_follow for each box */
    NET_CLOSED = 4,   /* some networks have become closed */
    NET_OPENED = 8,   /* some closed networks are open again */
};
int net_watch(struct net *n);
int net_restore(struct net *n, const struct net_setup *const *setups, size_t count,
                struct err *err);
int net_wait(const struct net *n);
/* Closes the network of a slot with a lost box, permanently. */
int net_shut(struct net *n, uint32_t slot, const char *why, struct err *err);
/* Returns why the network of a slot is closed (its link is down), or NULL if it is open. Valid
 * until the next of these calls. */
const char *net_closed(const struct net *n, uint32_t slot);

/* Updates a running sandbox to the host's state: the MTU of its uplink, and its name servers if
 * setup->host_dns. ns_fd: its namespace, or a pidfd of a process in it. Returns 1 if box has
 * changed. A failed part is unchanged; -ENOTRECOVERABLE as net_add. */
int net_follow(struct net *n, struct net_setup *setup, int ns_fd, struct err *err);

/* Gives the sandbox its addresses in networks with a subnet, and the table that translates them
 * (net/lan.h), inside alone; takes away what it had before. ns_fd: its namespace, or a pidfd of a
 * process in it. -EOPNOTSUPP: the kernel cannot; -ENOTRECOVERABLE as net_add. */
int net_lan_set(const struct net_setup *setup, const struct net_lan_peer *peers, size_t count,
                enum net_lan_step step, int ns_fd, struct err *err);

/* Installs, replaces or removes the egress table (net/egress.h) in the namespace ns_fd. box: its
 * link's, or NULL when it has none. -ENOTRECOVERABLE as net_add. */
int net_egress(struct net *n, const struct net_setup *setup, int ns_fd, enum egress_table table,
               struct err *err);

/* Leads queries to the name server of named networks to its port, in the namespace ns_fd
 * (net/egress.h). -ENOTRECOVERABLE as net_add. */
int net_names(int ns_fd, struct err *err);

/* Returns the host's name server number `index`, for queries by the host itself; may be its local
 * stub. -ENOENT: there are fewer. */
struct sockaddr_storage;
int net_resolver(const struct net *n, unsigned index, struct sockaddr_storage *ret,
                 struct err *err);

/* For `rind doctor`: finds a chain of another program that drops packets that rind accepts. Like
 * watch_foreign_drop, including iptables-legacy. */
int net_foreign_drop(char *text, size_t size, struct err *err);
/* For `rind doctor`: counts closed links of sandboxes; `name` is one of them. */
int net_count_closed(char name[NET_LINK_MAX], struct err *err);
