#pragma once

/*
 * The namespaces of a worker, for the command and for tests: as the launcher makes them (see
 * image/worker-proto.h), by root or by any user.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

struct jail {
    int program;                /* borrowed: what is executed */
    const char *tree;           /* borrowed: path of the directory, NULL: an empty one */
    bool read_only;             /* the tree */
    const char *const *parents; /* borrowed: paths */
    size_t parent_count;
    int opaque;    /* borrowed: becomes WORKER_FD_OPAQUE; FD_NONE: an empty memfd */
    uint32_t base; /* root only: the host's id of the worker's 0; 65536 ids from there on. Others:
                      their own id alone */
};

/* Starts the worker. The caller has the other end of its socket, and waits for the process, which
 * dies with the calling thread. */
int jail_start(const struct jail *j, pid_t *ret_pid, int *ret_control, struct err *err);
