#pragma once

/*
 * What the launcher needs done to the host's network. launch/ and net/ do not know each other:
 * core/ fills this table with net/'s functions (core/network.h) and gives it to launcher_open.
 * Without a table the launcher makes sandboxes with no network but their own loopback, and refuses
 * others.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "policy/egress-net.h"
#include "policy/net-box.h"

struct err;

enum {
    NET_OPS_MOVED = 1,  /* follow is to be called for each */
    NET_OPS_TURNED = 2, /* some networks are closed, or open, that were not */
};

struct launch_net_ops {
    void *data;
    /* Derives the rest of box; makes nothing. */
    int (*prepare)(void *data, struct net_box *box, struct err *err);
    /* Makes it, up to the other end in the namespace ns_fd. Nothing is left on failure but what
     * ends with that namespace. -ENOTRECOVERABLE: the process must end. */
    int (*add)(void *data, struct net_box *box, int ns_fd, struct err *err);
    /* Forgets it; what is gone already is no error. */
    int (*remove)(void *data, const struct net_box *box, struct err *err);
    /* Of a slot whose sandbox has ended: whether the kernel still has its link, and the link's end
     * (some 20 ms). They need nothing of data: a forked process may call them. */
    bool (*lingers)(uint32_t slot);
    int (*erase)(uint32_t slot, struct err *err);
    /* A descriptor to be polled, or -1; and what to do when it is readable, and after wait ms (-1:
     * not), with the boxes of all that live: others have changed the host's firewall or routes.
     * Returns NET_OPS_ flags, or a negative errno. */
    int (*watch)(void *data);
    int (*wait)(void *data);
    int (*restore)(void *data, const struct net_box *const *boxes, size_t count, struct err *err);
    /* Why the network of a slot is closed, as its rules could not be put back; NULL: it is not. */
    const char *(*closed)(void *data, uint32_t slot);
    /* Takes the link of a slot down whose box is not known, for good. */
    void (*shut)(void *data, uint32_t slot, const char *why);
    /* What restore returned NET_OPS_MOVED for: gives one that lives the uplink's MTU and the host's
     * name servers. pidfd: of who is in it. 1: box has changed. -ENOTRECOVERABLE as add. */
    int (*follow)(void *data, struct net_box *box, int pidfd, struct err *err);
    /* Puts what leaves the namespace under control, or out of it; box is NULL where it has no link.
     */
    int (*egress)(void *data, const struct net_box *box, int ns_fd, enum egress_table table,
                  struct err *err);
    /* The index'th of the host's own name servers. -ENOENT. */
    int (*resolver)(void *data, unsigned index, struct sockaddr_storage *ret, struct err *err);
    /* A socket on which the kernel tells who is over his bounds, to be given away. -EBUSY: another
     * process has it. */
    int (*over)(void *data, struct err *err);
};
