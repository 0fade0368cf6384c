#pragma once

/*
 * Removes a tree by directory fds: for `remove --recursive` of the shim, and for the runner when it
 * deletes a sandbox's files. The tree's owner may change it meanwhile. Nothing outside it is
 * touched, a symbolic link is removed and never followed, and a directory that was moved away is
 * left alone from then on.
 *
 * Depth costs neither stack nor fds, only memory with an upper limit (some 100 bytes a level, up to
 * the limit below).
 */

#include <stddef.h>

enum rmtree_flags {
    /* A directory that cannot be read, searched or written (EACCES) gets mode 0700 and is tried
     * once more. For an owner without CAP_DAC_OVERRIDE; needs /proc. */
    RMTREE_CHMOD = 1 << 0,
    /* A mount point at or below name stops the removal with -EXDEV; no file on the other mount is
     * touched. Without this flag mounts are entered, and then the mount point itself fails with
     * -EBUSY. Needs openat2 (Linux 5.6): -ENOSYS. */
    RMTREE_ONE_MOUNT = 1 << 1,
};

/*
 * Removes the directory `name` beneath dirfd and everything in it. dirfd may be AT_FDCWD and name
 * any path; a caller with a hostile tree passes an fd and a single component. Blocks until done.
 *
 * The top must be a directory: -ENOTDIR for anything else, including a symbolic link (with a
 * trailing slash the kernel follows it). -ENOENT when it does not exist; entries that vanish
 * meanwhile are no errors. The first other error stops the removal; a further call continues with
 * the rest. -ENOTEMPTY when another process keeps filling a directory, -EBUSY when one keeps moving
 * directories about.
 */
int rmtree_at(int dirfd, const char *name, unsigned flags);

/* Its limits; a parameter so that tests can make them small. */
struct rmtree_limits {
    size_t pinned; /* >= 1: directories at the top whose fds stay open */
    size_t recent; /* >= 2: slots for the deepest directories */
    size_t
        levels; /* > pinned + recent: remembered directories; a deeper tree takes several passes */
};

extern const struct rmtree_limits rmtree_default_limits;

int rmtree_at_limits(int dirfd, const char *name, unsigned flags,
                     const struct rmtree_limits *limits);
