#pragma once

/* rind run by the daemon. */

struct err;
struct sandbox_args;

enum { RUN_ALONE = 1 };

/*
 * Runs what args describe by the daemon, if there is one: 0 and *ret_status, or RUN_ALONE: none
 * answers at the default place, or it is something that only the caller itself can do. Negative: it
 * failed; *ret_status is set all the same.
 */
int run_remote(const struct sandbox_args *args, int *ret_status, struct err *err);
