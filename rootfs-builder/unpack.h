#pragma once

/*
 * A tar stream becomes a tree: what happens in the process that parses (B of worker.c). As
 * containerd unpacks, with the rules of README.md.
 *
 * Every name is resolved beneath the tree: links that the archive has made are followed inside it
 * for parents, never for the last component. Nobody else may write to the tree meanwhile.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "path.h"

struct err;
struct tarball;

struct unpack_options {
    int tree_fd;   /* borrowed; a directory, O_PATH will do */
    int opaque_fd; /* borrowed; as WORKER_FD_OPAQUE; FD_NONE: opaque directories are an error */
    const int *parents; /* borrowed; the layers below, the next one first */
    size_t parent_count;
    bool plain;               /* no layer: names with .wh. are nothing special */
    bool bottom;              /* a layer with nothing below it */
    bool keep_owner;          /* leave all files to who runs: for a namespace of one id */
    uint64_t files;           /* at most: sum of the sizes of regular files */
    uint64_t entries;         /* at most, directories without an entry of their own included */
    volatile uint64_t *shown; /* borrowed, or NULL: entries so far */
};

struct unpack_result {
    uint64_t files, entries, devices, xattrs; /* as in struct worker_msg */
    bool of_parents;                          /* WORKER_OF_PARENTS */
};

/*
 * Unpacks all entries. On failure what was unpacked stays, and entry (room for PATH_ROOM bytes) is
 * the name of the one at fault, or "". -EBADMSG (broken archive), -EFBIG and -E2BIG (more than
 * options allow), -EMSGSIZE (the list of opaque directories), -ENAMETOOLONG, or errno of the file
 * system. Sets umask.
 */
int tree_unpack(struct tarball *t, const struct unpack_options *o, struct unpack_result *ret,
                char *reterr_entry, struct err *err);
