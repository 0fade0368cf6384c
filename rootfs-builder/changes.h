#pragma once

/*
 * What an overlay's upper directory changes of the tree below it: what happens in the process that
 * reads both (B of worker.c). For each difference a record: 'C' (changed), 'A' (added) or 'D'
 * (deleted), and the path, "/" in front and a NUL behind it; the names of a directory in the order
 * of their bytes, the directory in front of what is in it. A directory is 'C' when itself is not as
 * below (mode, owner, time), or when something in it is told of; of one that is added or deleted
 * all that is added is told, and of what is deleted the topmost.
 *
 * No link is followed. What changes meanwhile is told in one of its states.
 */

#include <stddef.h>
#include <stdint.h>

#include "path.h"

struct err;

struct changes_options {
    int upper_fd, lower_fd; /* borrowed */
    const char *opaque;     /* borrowed: as of struct pack_options, of upper */
    size_t opaque_len;
    uint64_t entries;         /* at most */
    volatile uint64_t *shown; /* borrowed, or NULL: entries so far */
};

struct changes_sink {
    void *data;
    int (*bytes)(void *data, const void *bytes, size_t len, struct err *err);
};

/* On failure entry (room for PATH_ROOM bytes) is the path at fault, or "". */
int tree_changes(const struct changes_options *o, const struct changes_sink *sink,
                 uint64_t *ret_entries, char *reterr_entry, struct err *err);
