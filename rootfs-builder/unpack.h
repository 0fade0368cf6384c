#pragma once

/*
 * Unpacks a tar stream to a tree. Runs in the process that parses (B of worker.c). Follows
 * containerd, with the rules of README.md.
 *
 * Every name is resolved beneath the tree. Links from the archive are followed inside it for parent
 * directories, never for the last component. No other process may write to the tree meanwhile.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "path.h"

struct err;
struct tarball;

struct unpack_options {
    int tree_fd;   /* borrowed; a directory, may be O_PATH */
    int opaque_fd; /* borrowed; like WORKER_FD_OPAQUE; FD_NONE: opaque directories are an error */
    const int *parents; /* borrowed; the layers below, the next one first */
    size_t parent_count;
    bool plain;               /* not a layer: names with .wh. have no special meaning */
    bool bottom;              /* the lowest layer */
    bool keep_owner;          /* do not chown: for a namespace with one id */
    uint64_t files;           /* maximum sum of the sizes of regular files */
    uint64_t entries;         /* maximum; counts directories without an entry of their own, too */
    volatile uint64_t *shown; /* borrowed, or NULL: number of entries so far */
};

struct unpack_result {
    uint64_t files, entries, devices, xattrs; /* as in struct worker_msg */
    bool of_parents;                          /* WORKER_OF_PARENTS */
};

/*
 * Unpacks all entries. On failure unpacked files stay, and reterr_entry (room for PATH_ROOM bytes)
 * is the name of the entry that caused it, or "". -EBADMSG (broken archive), -EFBIG and -E2BIG
 * (more than the options allow), -EMSGSIZE (the list of opaque directories), -ENAMETOOLONG, or
 * errno of the file system. Sets the umask.
 */
int tree_unpack(struct tarball *t, const struct unpack_options *o, struct unpack_result *ret,
                char *reterr_entry, struct err *err);
