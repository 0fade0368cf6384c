#pragma once

/*
 * Networks of sandboxes: net_prepare says where one will be, net_add makes it, net_remove forgets
 * it. It works in the net namespace of its caller and keeps nothing that another process could not
 * find again: the rules are in the kernel, the rest in the net_box, which the caller keeps.
 *
 * Several processes (daemons, `rind run`) may do so at the same time; a lock on a directory that
 * they share makes one change at a time.
 */

#include <stdbool.h>
#include <stddef.h>

#include "policy/egress-net.h"
#include "policy/net-box.h"

struct err;
struct net;

enum {
    NET_FLOWS = 4096,
    NET_FLOWS_PER_SECOND = 200,
};

struct net_config {
    const char *const *pools4, *const *pools6; /* NULL-terminated CIDRs, borrowed; NULL: defaults */
    const struct net_addr *dns;                /* borrowed; for sandboxes instead of the host's */
    size_t dns_count;
    /* Connections that one sandbox may have begun at a time, and in a second; 0: NET_FLOWS,
     * NET_FLOWS_PER_SECOND. Never more than a share of the host's table of connections. */
    uint32_t flows, flows_per_second;
    /* The same of all sandboxes of the host together; 0: a share of the host's table. Of who makes
     * the firewall's table, which others join. */
    uint32_t all_flows, all_flows_per_second;
    int lock_dir; /* borrowed; a directory of the whole host's */
    /* Told what was changed of the host, in words; may be NULL. */
    void (*said)(const char *text);
    /* Told that forwarding of an interface has been switched on or off; may be NULL. */
    void (*forwards)(void *data, const char *ifname, int family, bool on);
    void *forwards_data; /* borrowed */
};

/* Opens nothing yet: a process without networks pays nothing. */
int net_new(const struct net_config *config, struct net **ret, struct err *err);
void net_free(struct net *n);

/* Derives from box->slot, and from what the host has, everything in box that is not asked for.
 * Makes nothing. -ENOSPC: no address range is free; -EOPNOTSUPP: the host has no route anywhere
 * and the box wants the internet is no error: it finds that out itself. */
int net_prepare(struct net *n, struct net_box *box, struct err *err);

/* Rules first, then the link between here and the namespace ns_fd, which has none yet. box->ifindex
 * is set. On failure nothing is left but, perhaps, the link, which ends with the namespace.
 * -ENOTRECOVERABLE: the process is left in the wrong namespace and must end. */
int net_add(struct net *n, struct net_box *box, int ns_fd, struct err *err);

/* Forgets it: the namespace, and with it the link, has ended or is about to. What is gone already
 * is no error. The last one takes the table along, and what was changed of the host. */
int net_remove(struct net *n, const struct net_box *box, struct err *err);

/* A descriptor that is readable when the host's firewall, routes, uplink or name servers have
 * changed (borrowed; -1 when there is none), and what to do then, and net_wait ms from now (-1:
 * not), with the boxes of all that live: puts the rules of these boxes back when somebody has taken
 * them away; closes the networks for which that fails, and opens those that an earlier failure has
 * closed (restore.c); has replies forwarded where the host's default route leads now; tells of a
 * new route that is in the way of the sandboxes' addresses. Returns what has happened, and in err
 * why something is closed; or a negative errno when what the host has cannot be followed now. */
enum {
    NET_RESTORED = 1, /* rules have been put back */
    NET_MOVED = 2,    /* net_follow is to be called for each box */
    NET_CLOSED = 4,   /* some networks are closed that were not */
    NET_OPENED = 8,   /* some are not any more that were */
};
int net_watch(struct net *n);
int net_restore(struct net *n, const struct net_box *const *boxes, size_t count, struct err *err);
int net_wait(const struct net *n);
/* Closes the network of a slot whose box nobody knows any more, for good. */
int net_shut(struct net *n, uint32_t slot, const char *why, struct err *err);
/* Why the network of a slot is closed: its link is down. NULL: it is not. Until the next of these
 * calls. */
const char *net_closed(const struct net *n, uint32_t slot);

/* Gives a living sandbox what the host has now: the MTU of its uplink, and its name servers where
 * box->host_dns. ns_fd: its namespace, or a pidfd of one who is in it. 1: box has changed. What
 * failed is as it was; -ENOTRECOVERABLE as net_add. */
int net_follow(struct net *n, struct net_box *box, int ns_fd, struct err *err);

/*
 * Puts what a sandbox sends under control (net/egress.h), inside its own namespace ns_fd; also
 * again with another table, or with none. box: its link, or NULL when it has none.
 * -ENOTRECOVERABLE as net_add.
 */
int net_egress(struct net *n, const struct net_box *box, int ns_fd, enum egress_table table,
               struct err *err);

/* The index'th name server of the host's, to be asked by the host itself: its own stub is one, too.
 * -ENOENT: there are fewer. */
struct sockaddr_storage;
int net_resolver(const struct net *n, unsigned index, struct sockaddr_storage *ret,
                 struct err *err);

/* For who looks at the host: the chain of another program that drops what rind lets through. As
 * watch_foreign_drop, and of iptables-legacy, too. */
int net_foreign_drop(char *text, size_t size, struct err *err);
/* The same for links of sandboxes that are closed: how many, and the name of one. */
int net_count_closed(char name[NET_LINK_MAX], struct err *err);
