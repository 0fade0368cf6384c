#pragma once

/*
 * A tree becomes a tar stream: what happens in the process that reads it (B of worker.c).
 * POSIX.1-2001 (pax) with SCHILY.xattr, and GNU's sparse format 1.0 for files with large holes.
 * Names in the order of their bytes, each directory before what is in it: the same tree always
 * gives the same stream. No link is followed. What changes meanwhile is packed in one of its
 * states; a file that shrinks is filled up with zeros.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "path.h"

struct err;

struct pack_options {
    int tree_fd;        /* borrowed; O_PATH will do */
    const char *sub;    /* borrowed: the directory to pack, "" for all; links are followed inside */
    const char *prefix; /* borrowed: in front of each name */
    bool overlay;       /* WORKER_OVERLAY */
    bool root_entry;    /* WORKER_ROOT_ENTRY */
    const char
        *opaque; /* borrowed: paths of opaque directories, each with a NUL; relative to sub */
    size_t opaque_len;
    uint64_t files, entries;  /* at most, as in struct worker_msg */
    volatile uint64_t *shown; /* borrowed, or NULL: entries so far */
};

struct pack_sink {
    void *data;
    int (*bytes)(void *data, const void *bytes, size_t len, struct err *err);
};

struct pack_result {
    uint64_t files, entries, devices, xattrs;
};

/* On failure entry (room for PATH_ROOM bytes) is the path at fault, or "". */
int tree_pack(const struct pack_options *o, const struct pack_sink *sink, struct pack_result *ret,
              char *reterr_entry, struct err *err);
