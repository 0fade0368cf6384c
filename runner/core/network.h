#pragma once

/* Puts net/ behind the launcher's table of network operations: only core/ knows both. */

#include "launch/net-ops.h"
#include "net/net.h"

struct err;

struct network {
    struct net *net;      /* owned */
    int lock_dir;         /* owned */
    const char *boot_dir; /* borrowed; NULL = none */
    struct launch_net_ops ops;
};

/*
 * config's lock_dir is not looked at: it is the id registry's, which is the host's. The struct must
 * stay where it is. boot_dir (borrowed; NULL: none): a directory that is new after each boot. With
 * it, that forwarding is on is said once for each interface, and not by each `rind run` anew; that
 * it is off again is then as it was.
 */
int network_open(struct network *n, const struct net_config *config, const char *boot_dir,
                 struct err *err);
void network_close(struct network *n);
