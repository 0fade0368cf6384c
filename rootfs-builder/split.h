#pragma once

/* Passes an archive's files to a callback, one by one. Runs in the process that parses (B of
 * worker.c), for SPLIT. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tarball.h"

struct split_sink {
    void *data;
    /* Returns 1 if the entry's contents (ENTRY_FILE only) are wanted, 0 if not, or a negative
     * errno. */
    int (*entry)(void *data, const struct entry *e, struct err *err);
    /* Gets exactly the entry's number of bytes, piece by piece. */
    int (*bytes)(void *data, const void *bytes, size_t len, struct err *err);
};

struct split_limits {
    uint64_t files, entries; /* as in struct worker_msg */
};

/* Handles all entries in order. Fails as tree_unpack() does; reterr_entry (room for PATH_ROOM
 * bytes) is then the name of the entry that caused it. */
int split(struct tarball *t, const struct split_limits *limits, const struct split_sink *sink,
          uint64_t *ret_entries, char *reterr_entry, struct err *err);
