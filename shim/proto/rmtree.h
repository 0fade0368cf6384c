#pragma once

/*
 * Removes a tree by directory fds: `remove --recursive` of the shim, and the runner when it deletes
 * a sandbox's files. Whoever owns the tree may change it meanwhile: nothing outside it is ever
 * touched, a symbolic link is removed and never followed, and a directory that was moved away is
 * left alone from then on.
 *
 * Depth costs neither stack nor fds, only memory with an upper bound (some 100 bytes a level, up to
 * the limit below).
 */

#include <stddef.h>

enum rmtree_flags {
    /*
     * A directory that cannot be read, searched or written (EACCES) is given mode 0700 and tried
     * once more. For an owner without CAP_DAC_OVERRIDE; needs /proc.
     */
    RMTREE_CHMOD = 1 << 0,
    /*
     * A mount point at or below name stops the removal with -EXDEV; nothing on the other mount is
     * touched. Without it mounts are entered, and then the mount point itself fails with -EBUSY.
     * Needs openat2 (Linux 5.6): -ENOSYS.
     */
    RMTREE_ONE_MOUNT = 1 << 1,
};

/*
 * Removes the directory `name` beneath dirfd with all that it holds. dirfd may be AT_FDCWD and name
 * any path; a caller whose tree is hostile passes an fd and a single component.
 *
 * The top must be a directory: -ENOTDIR for anything else, a symbolic link included (with a
 * trailing slash the kernel follows it). -ENOENT when it does not exist; entries that vanish
 * meanwhile are not errors. The first other error stops it; what was removed until then stays
 * removed, the rest is a tree that a further call can go on with. -ENOTEMPTY when somebody keeps
 * filling a directory, -EBUSY when somebody keeps moving directories about.
 */
int rmtree_at(int dirfd, const char *name, unsigned flags);

/* The sizes that bound it, apart so that a test can make them small. */
struct rmtree_limits {
    size_t pinned; /* >= 1: directories at the top whose fds stay open */
    size_t recent; /* >= 2: fds for the deepest directories */
    size_t
        levels; /* > pinned + recent: directories remembered; a deeper tree takes several passes */
};

extern const struct rmtree_limits rmtree_default_limits;

int rmtree_at_limits(int dirfd, const char *name, unsigned flags,
                     const struct rmtree_limits *limits);
