#pragma once

/*
 * The link of a sandbox: a veth pair. One end is a routed point-to-point interface of the host; the
 * peer is created inside the sandbox's net namespace. Both ends have the same hardware address and
 * use no ARP (IFF_NOARP): there is no neighbour to resolve, wait for, or spoof. The link disappears
 * with the net namespace. The kernel keeps that while one of its sockets has unsent data;
 * link_erase is for such links.
 */

#include <stdbool.h>
#include <stdint.h>

#include "net/netlink.h"
#include "net/ruleset.h"

struct err;

#define NET_INSIDE "eth0"

struct link_config {
    const struct net_setup *setup;
    bool forward; /* packets from it may be forwarded to other interfaces */
};

/* Makes the link. sock: NETLINK_ROUTE of the host's namespace; inside: of the sandbox's; ns_fd:
 * that namespace. *ret_index: the host end's index. On failure a partly made link may exist. */
int link_add(int sock, int inside, int ns_fd, const struct link_config *c, int *ret_index,
             struct err *err);

/* Brings the IPv4 addresses of the link in line with setup's networks, and the default route,
 * inside (inside: a socket of the sandbox's namespace). With addresses in subnets the one that rind
 * has given moves to the loopback device: programs that look for their address on the link find
 * those that members know. In its own file, link-lan.c. */
int link_set_lans(int inside, const struct net_setup *setup, struct err *err);

/* For a slot after its sandbox has ended. link_lingers returns true if its link still exists;
 * link_erase removes it, which takes some 20 ms. Both open their own sockets. A missing link is no
 * error. */
bool link_lingers(uint32_t slot);
int link_erase(uint32_t slot, struct err *err);

/* Formats the name of a slot's link. */
void link_name(uint32_t slot, char name[static NET_LINK_MAX]);

/* For a running sandbox: takes the host's end down, so that no packet passes, and writes the reason
 * into its alias, which outlives the process (`ip link` shows it). A missing link is no error. */
int link_close(int sock, const char *name, const char *why, struct err *err);
/* Returns 1 if link_close has closed it, 0 if not, or a negative errno. */
int link_is_closed(int sock, const char *name, struct err *err);
/* Takes the link up again, after link_close or after another program has taken it down. A missing
 * link is no error. */
int link_open(int sock, const struct net_setup *setup, struct err *err);
/* Counts the closed links of this net namespace; `name` is one of them. */
int link_count_closed(int sock, char name[static NET_LINK_MAX], struct err *err);

/* Takes down all links of rind when no sandbox is left: the kernel removes their net namespaces
 * later, and packets could leave them until then. */
int link_down_all(int sock, struct err *err);

/* The host's end of a link that is administered inside must accept no routes and no redirects from
 * it, whatever rules exist. (For IPv4 it never does.) */
int link_ignore_ra(const char *name, struct err *err);

/* The index of an interface. -ENODEV. */
int link_index(int sock, const char *name, int *ret, struct err *err);

/* Sets the MTU of an existing interface. */
int link_set_mtu(int sock, const char *name, uint32_t mtu, struct err *err);
