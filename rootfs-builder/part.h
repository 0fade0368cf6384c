#pragma once

/*
 * The processes that a worker forks, apart from P: each does its job with the descriptors that it
 * is given, says DONE or FAILED over its own socket, and ends.
 */

#include <stddef.h>
#include <sys/types.h>

#include "codec.h"
#include "image/worker-proto.h"

struct part_request {
    const struct worker_msg *start; /* borrowed */
    struct shown *shown;            /* borrowed; shared memory */
    int report;                     /* the socket */
    int in, out;                    /* streams; FD_NONE where the part has none */
    int tree, opaque;
    const int *parents;
    size_t parent_count;
};

/* A: from `in`, compressed, to `out`, or (PACK) the other way round. */
void part_codec(const struct part_request *q) __attribute__((noreturn));
/* B of UNPACK and UNPACK_DIR: the tar stream `in` to the tree. */
void part_unpack(const struct part_request *q) __attribute__((noreturn));
/* B of SPLIT: the tar stream `in`; contents to `out`. Asks with ENTRY over the socket. */
void part_split(const struct part_request *q) __attribute__((noreturn));
/* B of PACK: the tree to `out`. */
void part_pack(const struct part_request *q) __attribute__((noreturn));
