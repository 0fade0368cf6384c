#pragma once

/* An archive's files, one by one, to whoever wants them: what happens in the process that parses
 * (B of worker.c), for SPLIT. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tarball.h"

struct split_sink {
    void *data;
    /* Whether the entry's contents (ENTRY_FILE only) are wanted: 1, 0, or a negative errno. */
    int (*entry)(void *data, const struct entry *e, struct err *err);
    /* Exactly as many bytes as the entry has, piece by piece. */
    int (*bytes)(void *data, const void *bytes, size_t len, struct err *err);
};

struct split_limits {
    uint64_t files, entries; /* as in struct worker_msg */
};

/* All entries in their order. Fails as tree_unpack() does, and has the name of the entry at fault
 * in entry (room for PATH_ROOM bytes). */
int split(struct tarball *t, const struct split_limits *limits, const struct split_sink *sink,
          uint64_t *ret_entries, char *reterr_entry, struct err *err);
