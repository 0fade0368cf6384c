#pragma once

/* The log of a console (core/console.h) onto our own stdout and stderr, as Docker's API gives it:
 * only there it is read. */

#include <jansson.h>
#include <stdbool.h>

struct client;
struct err;
struct log_reader;

/* Whether what the sandbox's main process says is in the log of its console. sandbox: as the daemon
 * shows it. */
bool has_console(const json_t *sandbox);
/* What is kept; with follow also what comes, until the process has ended or the daemon does. Of l
 * the streams count. -EOPNOTSUPP: --json, offsets or runs, which this log has not. */
int console_print(const struct log_reader *l, struct client *c, const json_t *sandbox, bool follow,
                  struct err *err);
