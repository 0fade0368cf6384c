#pragma once

/*
 * Packs a tree as a tar stream. Runs in the process that reads the tree (B of worker.c). The format
 * is POSIX.1-2001 (pax) with SCHILY.xattr, and GNU's sparse format 1.0 for files with large holes.
 * Names are sorted by bytes, each directory before its entries: the same tree always gives the same
 * stream. No link is followed. A file that changes meanwhile is packed in one of its states; one
 * that shrinks is padded with zeros.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "path.h"

struct err;

struct pack_options {
    int tree_fd;        /* borrowed; may be O_PATH */
    const char *sub;    /* borrowed: the directory to pack, "" for all; links are followed inside */
    const char *prefix; /* borrowed: put before each name */
    bool overlay;       /* WORKER_OVERLAY */
    bool root_entry;    /* WORKER_ROOT_ENTRY */
    const char
        *opaque; /* borrowed: paths of opaque directories, each with a NUL; relative to sub */
    size_t opaque_len;
    uint64_t files, entries;  /* maximum, as in struct worker_msg */
    volatile uint64_t *shown; /* borrowed, or NULL: number of entries so far */
};

struct pack_sink {
    void *data;
    int (*bytes)(void *data, const void *bytes, size_t len, struct err *err);
};

struct pack_result {
    uint64_t files, entries, devices, xattrs;
};

/* On failure reterr_entry (room for PATH_ROOM bytes) is the path that caused it, or "". */
int tree_pack(const struct pack_options *o, const struct pack_sink *sink, struct pack_result *ret,
              char *reterr_entry, struct err *err);
