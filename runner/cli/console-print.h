#pragma once

/*
 * Prints the log of a console (exec/console.h) to our stdout and stderr. Only Docker's API provides
 * it.
 */

#include <jansson.h>
#include <stdbool.h>

struct client;
struct err;
struct log_reader;

/*
 * True if the output of the sandbox's main process goes to a console log. sandbox: its JSON from
 * the daemon.
 */
bool has_console(const json_t *sandbox);
/*
 * Prints the stored log; with follow also new output, until the process or the daemon ends. Uses
 * the streams selected in l. -EOPNOTSUPP: --json, offsets or runs, which this log does not have.
 */
int console_print(const struct log_reader *l, struct client *c, const json_t *sandbox, bool follow,
                  struct err *err);
