#pragma once

/*
 * Implements the launcher's table of network operations with net/, which launch/ does not include
 * itself. Runs in the process of the launcher: the daemon's launcher, or `rind run`.
 */

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
 * config's lock_dir is ignored: the host-wide id registry is used. *n must not be moved afterwards.
 * boot_dir (borrowed; NULL: none): a directory that is emptied at boot. With it, switching on
 * forwarding is logged as a warning once for each interface and boot, not by every `rind run`.
 */
int network_open(struct network *n, const struct net_config *config, const char *boot_dir,
                 struct err *err);
void network_close(struct network *n);
