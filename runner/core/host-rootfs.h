#pragma once

/* Reads what of the host the root file system `host` shows: the installed file, or the one in the
 * binary. */

#include "policy/host-rootfs.h"

struct err;

#define HOST_ROOTFS_FILE "/etc/rind/host-rootfs.json"

/* The shipped one when there is no such file. Caller frees with host_rootfs_free. */
int host_rootfs_load(const char *path, struct host_rootfs **ret, struct err *err);
