#pragma once

/* Runs `rind run` through the daemon. */

struct err;
struct sandbox_args;

enum { RUN_ALONE = 1 };

/*
 * Runs the sandbox of args through the daemon: returns 0 and sets *ret_status. RUN_ALONE: no daemon
 * at the default socket, or the request needs this process. Negative: failed; *ret_status is set,
 * too. Blocks until the command ends.
 */
int run_remote(struct sandbox_args *args, int *ret_status, struct err *err);
