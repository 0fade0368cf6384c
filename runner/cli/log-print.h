#pragma once

/* Prints a process's log to our stdout and stderr; for logs and attach. */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/remote.h"

struct err;

enum { LOG_OFFSET_MAX = 24 /* bytes of an offset as text */ };

struct log_reader {
    const struct remote *remote;
    bool out, errors;                       /* selected streams */
    const char *out_offset, *errors_offset; /* where to start; NULL = at the log's beginning */
    const char *tail;                       /* number of last lines; NULL = all */
    char tail_at[2][LOG_OFFSET_MAX]; /* offsets of the last lines, used by the members above */
    bool last_run;                   /* only the main process's last run */
    bool timestamps;                 /* a time in front of each line; of consoles only */
    int64_t since_ms, until_ms;      /* since the epoch; 0 = no bound */
    int exit_code;                   /* set when the process has ended; else -1 */
};

/* Prints the stored output. */
int log_print_kept(struct log_reader *l, const char *sandbox, const char *process, struct err *err);
/*
 * Prints stored and following output until the process has ended; survives restarts of the daemon.
 * Blocks.
 */
int log_print_follow(struct log_reader *l, const char *sandbox, const char *process,
                     struct err *err);
