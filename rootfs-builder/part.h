#pragma once

/* The processes that a worker forks, except P. Each does its job with the fds that it is given,
 * sends DONE or FAILED over its own socket, and exits. */

#include <stddef.h>
#include <sys/types.h>

#include "codec.h"
#include "confine.h"
#include "image/worker-proto.h"

struct part_request {
    const struct worker_msg *start; /* borrowed */
    struct shown *shown;            /* borrowed; shared memory */
    int report;                     /* the socket to P */
    int in, out;                    /* streams; FD_NONE if the part has none */
    int tree, opaque;
    const int *parents;
    size_t parent_count;
};

/* ---- used by the parts ---- */

/* Closes the fds that the part does not need, and confines it to its role. */
int part_become(const struct part_request *q, enum confine_role role, uint64_t file_max,
                struct err *err);
/* Sends DONE with the contents of m, or (r < 0) FAILED with m->name, and exits. */
void part_finish(const struct part_request *q, struct worker_msg *m, int r, const struct err *err)
    __attribute__((noreturn));
/* read(2) as the callback of a tarball; data points to the fd. */
ssize_t part_read(void *data, void *buf, size_t len);

/* ---- the parts ---- */

/* A: `in`, compressed, to `out`, or (PACK) the reverse. */
void part_codec(const struct part_request *q) __attribute__((noreturn));
/* B of UNPACK and UNPACK_DIR: the tar stream `in` to the tree. */
void part_unpack(const struct part_request *q) __attribute__((noreturn));
/* B of SPLIT: the tar stream `in`; contents to `out`. Asks about each file with ENTRY over the
 * socket. */
void part_split(const struct part_request *q) __attribute__((noreturn));
/* B of PACK: the tree to `out`. */
void part_pack(const struct part_request *q) __attribute__((noreturn));
/* B of CHANGES: the differences between the tree and the first parent, to `out`. */
void part_changes(const struct part_request *q) __attribute__((noreturn));
/* B of SIZE: the disk space of the tree, in DONE. */
void part_size(const struct part_request *q) __attribute__((noreturn));
