#pragma once

/* What a process has said, onto our own stdout and stderr: for logs and attach. */

#include <jansson.h>
#include <stdbool.h>

#include "cli/remote.h"

struct err;

enum { LOG_OFFSET_MAX = 24 /* bytes of an offset as text */ };

struct log_reader {
    const struct remote *remote;
    bool out, errors;                       /* which streams */
    const char *out_offset, *errors_offset; /* from where on; NULL = all that is kept */
    const char *tail;                       /* of those only so many last lines; NULL = all */
    char tail_at[2][LOG_OFFSET_MAX];        /* where they begin, for the offsets above */
    bool last_run;                          /* nothing of a main process's runs before the last */
    int exit_code;                          /* set when its end was seen; -1 */
};

/* What there is now. */
int log_print_kept(struct log_reader *l, const char *sandbox, const char *process, struct err *err);
/* That and what follows, until the process has ended; over restarts of the daemon. */
int log_print_follow(struct log_reader *l, const char *sandbox, const char *process,
                     struct err *err);
