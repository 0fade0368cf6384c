#pragma once

/* Makes the namespaces of a worker for the command and for tests, as the launcher does (see
 * image/worker-proto.h); by root or by any user. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

struct jail {
    int program;                /* borrowed: the program to execute */
    const char *tree;           /* borrowed: path of the directory; NULL: an empty one */
    bool read_only;             /* the tree */
    const char *const *parents; /* borrowed: paths */
    size_t parent_count;
    int opaque; /* borrowed: becomes WORKER_FD_OPAQUE; FD_NONE: an empty memfd */
    /* root only: the host id of the worker's id 0, and of 65535 more. Other users: only their own
     * id */
    uint32_t base;
};

/* Starts the worker. *ret_control, which the caller owns, is the other end of its socket. The
 * caller must wait for the process, which is killed when the calling thread exits. */
int jail_start(const struct jail *j, pid_t *ret_pid, int *ret_control, struct err *err);
