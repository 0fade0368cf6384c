#pragma once

/*
 * Finds what an overlay's upper directory changes in the tree below it. Runs in the process that
 * reads both (B of worker.c). Each difference is a record: 'C' (changed), 'A' (added) or 'D'
 * (deleted), then the path with a leading "/" and a NUL. The names of a directory are sorted by
 * bytes; a directory comes before its entries.
 *
 * A directory is 'C' when it differs itself (mode, owner, time), or when it contains a difference.
 * Below an added directory every entry is listed; of a deleted tree only the top.
 *
 * No link is followed. A file that changes meanwhile is reported in one of its states.
 */

#include <stddef.h>
#include <stdint.h>

#include "path.h"

struct err;

struct changes_options {
    int upper_fd, lower_fd; /* borrowed */
    const char *opaque;     /* borrowed: as in struct pack_options, of the upper tree */
    size_t opaque_len;
    uint64_t entries;         /* maximum */
    volatile uint64_t *shown; /* borrowed, or NULL: number of entries so far */
};

struct changes_sink {
    void *data;
    int (*bytes)(void *data, const void *bytes, size_t len, struct err *err);
};

/* On failure reterr_entry (room for PATH_ROOM bytes) is the path that caused it, or "". */
int tree_changes(const struct changes_options *o, const struct changes_sink *sink,
                 uint64_t *ret_entries, char *reterr_entry, struct err *err);
