#pragma once

/*
 * What the root file system `host` shows of the host (policies/README.md, "The host's root file
 * system"): shared directories, hidden paths in them, and small files that are copied. Nothing else
 * is shown. Pure: text in, validated struct out; the launcher builds the tree (launch/host-view.c).
 */

#include <stddef.h>

#include "base/auto.h"

struct err;

enum {
    HOST_ROOTFS_TEXT_MAX = 256 << 10, /* bytes of the file */
    HOST_ROOTFS_LIST_MAX = 64,        /* entries of one list */
};

/*
 * Lists are owned, NULL-terminated and never NULL. Paths are absolute and normalized; none is below
 * /proc, /sys or /dev.
 */
struct host_rootfs {
    char **trees;  /* directories, or symbolic links to them; the last component may hold `*` */
    char **hidden; /* each below one of the trees */
    char **files;  /* files and symbolic links */
};

/* Parses the file. -EINVAL, -ERANGE, -ENOMEM; err names `where` and the JSON path. */
int host_rootfs_parse(const char *text, size_t len, const char *where, struct host_rootfs **ret,
                      struct err *err);
void host_rootfs_free(struct host_rootfs *h);
DEFINE_AUTO(struct host_rootfs, host_rootfs_free);

/* The shipped configuration, embedded in the binary. */
const char *host_rootfs_builtin(size_t *ret_len);
