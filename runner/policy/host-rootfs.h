#pragma once

/*
 * What of the host the root file system `host` shows (policies/README.md, "The host's root file
 * system"): directories that are shared, places in them that are hidden, and small files that are
 * copied. What is not listed is not shown. Pure: text in, validated struct out; the launcher builds
 * it (launch/host-view.c).
 */

#include <stddef.h>

#include "base/auto.h"

struct err;

enum {
    HOST_ROOTFS_TEXT_MAX = 256 << 10, /* bytes of the file */
    HOST_ROOTFS_LIST_MAX = 64,        /* entries of one list */
};

/* Lists are owned and NULL-terminated; never NULL themselves. Paths are absolute and plain, and
 * none is below another file system's place (/proc, /sys, /dev). */
struct host_rootfs {
    char **trees;  /* directories, or links to them; the last name may hold `*` */
    char **hidden; /* each below one of the trees */
    char **files;  /* files and links */
};

/* -EINVAL, -ERANGE, -ENOMEM; err has `where` and the JSON path. */
int host_rootfs_parse(const char *text, size_t len, const char *where, struct host_rootfs **ret,
                      struct err *err);
void host_rootfs_free(struct host_rootfs *h);
DEFINE_AUTO(struct host_rootfs, host_rootfs_free);

/* The shipped one, carried in the binary. */
const char *host_rootfs_builtin(size_t *ret_len);
