#pragma once

/*
 * Reads which host files the root file system `host` shows, from the installed file, or from the
 * copy in the binary.
 */

#include "policy/host-rootfs.h"

struct err;

#define HOST_ROOTFS_FILE "/etc/rind/host-rootfs.json"

/*
 * Reads path, or the built-in copy if path does not exist. Blocks. Caller frees with
 * host_rootfs_free.
 */
int host_rootfs_load(const char *path, struct host_rootfs **ret, struct err *err);
