#pragma once

/*
 * The operations on the host's network that the launcher needs. launch/ and net/ do not include
 * each other: core/ fills this table with net/'s functions (ports/network.h) and passes it to
 * launcher_open. Without a table the launcher refuses sandboxes with any network but their own
 * loopback.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "policy/egress-net.h"
#include "policy/net-setup.h"

struct err;

enum {
    NET_OPS_MOVED = 1,  /* call follow for each network */
    NET_OPS_TURNED = 2, /* the set of closed networks has changed */
};

struct launch_net_ops {
    void *data;
    /* Computes the remaining members of box; makes nothing. */
    int (*prepare)(void *data, struct net_setup *setup, struct err *err);
    /* Makes the network, with the peer in the namespace ns_fd. A failure leaves only what is
     * removed with that namespace. -ENOTRECOVERABLE: the process must exit. */
    int (*add)(void *data, struct net_setup *setup, int ns_fd, struct err *err);
    /* Limits the rate of its link, each way, in bytes a second; after add. -EOPNOTSUPP. */
    int (*limit)(void *data, const struct net_setup *setup, int ns_fd, uint64_t rate,
                 struct err *err);
    /* Moves a running sandbox to the named networks of `want`, a copy of box with other ones, and
     * gives or takes the internet. On failure box is unchanged. */
    int (*change)(void *data, struct net_setup *setup, const struct net_setup *want,
                  struct err *err);
    /* Removes the network; missing parts are no error. */
    int (*remove)(void *data, const struct net_setup *setup, struct err *err);
    /* For a slot after its sandbox has exited. lingers: the kernel still has its link; erase:
     * removes the link (some 20 ms). Neither uses `data`, so a forked child may call them. */
    bool (*lingers)(uint32_t slot);
    int (*erase)(uint32_t slot, struct err *err);
    /* watch returns an fd to poll, or -1: it is readable after other processes have changed the
     * host's firewall or routes. Call restore with the boxes of all live networks then, and after
     * wait() ms (-1: not). restore returns NET_OPS_ flags or a negative errno. */
    int (*watch)(void *data);
    int (*wait)(void *data);
    int (*restore)(void *data, const struct net_setup *const *setups, size_t count,
                   struct err *err);
    /* Returns why the network of a slot is closed (its rules could not be restored), or NULL if it
     * is open. */
    const char *(*closed)(void *data, uint32_t slot);
    /* Takes down the link of a slot with an unknown box, permanently. */
    void (*shut)(void *data, uint32_t slot, const char *why);
    /* After restore has returned NET_OPS_MOVED: updates a live network with the uplink's MTU and
     * the host's name servers. pidfd: a process in it. Returns 1 if box has changed.
     * -ENOTRECOVERABLE as add. */
    int (*follow)(void *data, struct net_setup *setup, int pidfd, struct err *err);
    /* Gives a network its addresses in networks with a subnet instead of those that it has, and the
     * table of their members. ns_fd: its namespace, or a pidfd of a process in it.
     * -ENOTRECOVERABLE as add. */
    int (*lan)(void *data, const struct net_setup *setup, const struct net_lan_peer *peers,
               size_t count, enum net_lan_step step, int ns_fd, struct err *err);
    /* Installs, replaces or removes the namespace's egress table; box is NULL if it has no link. */
    int (*egress)(void *data, const struct net_setup *setup, int ns_fd, enum egress_table table,
                  struct err *err);
    /* Installs the table of the name server of named networks. */
    int (*names)(void *data, int ns_fd, struct err *err);
    /* Returns the host's name server number `index`. -ENOENT: there are fewer. */
    int (*resolver)(void *data, unsigned index, struct sockaddr_storage *ret, struct err *err);
    /* Returns a socket, for the supervisor, on which the kernel reports boxes that exceed their
     * limits. -EBUSY: another process has it. */
    int (*over)(void *data, struct err *err);
};
