#pragma once

/*
 * The link of a sandbox: a veth whose one end is a routed point-to-point interface of the host's
 * and whose other end is born inside the sandbox's net namespace. Both ends have the same hardware
 * address and ask nobody for one (IFF_NOARP): there is no neighbour to be asked, to wait for, or to
 * be spoofed. It ends with the net namespace, which the kernel keeps while a socket of it still
 * wants to send: link_erase is for those.
 */

#include <stdbool.h>
#include <stdint.h>

#include "net/netlink.h"
#include "net/ruleset.h"

struct err;

#define NET_INSIDE "eth0"

struct link_config {
    const struct net_box *box;
    bool forward; /* packets from it may go on to other interfaces */
};

/* sock: NETLINK_ROUTE of the host's namespace; inside: of the sandbox's; ns_fd: that namespace.
 * *ret_index: of the host's end. On failure the link may be there half made. */
int link_add(int sock, int inside, int ns_fd, const struct link_config *c, int *ret_index,
             struct err *err);

/* Of a slot whose sandbox has ended: whether its link is still there, and its end, which takes some
 * 20 ms. Both open what they need. What is gone already is no error. */
bool link_lingers(uint32_t slot);
int link_erase(uint32_t slot, struct err *err);

/* The name of the link of a slot. */
void link_name(uint32_t slot, char name[static NET_LINK_MAX]);

/* Of a sandbox that lives: takes the host's end down, so that not one packet comes out of it or
 * goes in, and writes why into its alias, which outlives us (`ip link` shows it). One that is gone
 * is no error. */
int link_close(int sock, const char *name, const char *why, struct err *err);
/* Whether that has been done: 1, 0, or a negative errno. */
int link_is_closed(int sock, const char *name, struct err *err);
/* Up again, after that, or after somebody else has taken it down. One that is not there is no
 * error. */
int link_open(int sock, const struct net_box *box, struct err *err);
/* The links of this net namespace that are closed: how many, and the name of one. */
int link_count_closed(int sock, char name[static NET_LINK_MAX], struct err *err);

/* Takes every link of ours down, for when no sandbox is left: the kernel takes their net namespaces
 * away in its own time, and until then something may still come out of them. */
int link_silence_all(int sock, struct err *err);

/* The host's end of a link that is administered from inside takes no routes and no redirects from
 * there, whatever rules there are. (IPv4's it never does.) */
int link_deafen(const char *name, struct err *err);

/* The MTU of an interface that is there. */
int link_set_mtu(int sock, const char *name, uint32_t mtu, struct err *err);
