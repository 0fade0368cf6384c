#pragma once

/* What exec, attach, start and run share when a command is attached to. */

#include <stdbool.h>

#include "cli/attached.h"
#include "cli/options.h"

struct client;
struct err;

/* The keys that detach, where nobody has named others. */
#define DETACH_KEYS "ctrl-p,ctrl-q"
#define DETACH_HELP                                                                                \
    "Keys that leave a terminal and let the command go on: letters and ctrl-letters with commas "  \
    "between, or none (\"\"). Default: " DETACH_KEYS

/* Puts such keys into the struct keys at the row's offset. */
opt_handler opt_detach_keys;

/* What is said to who asks for a terminal and standard input, where that is none. */
extern const char no_terminal[];

/* Says what ended the command beside itself, or that it was left: one line on stderr. exec: its
 * id in the sandbox name, or NULL for the main process. timeout_ms: the one it had, or 0. */
void attached_explain(const struct attached_end *end, const char *name, const char *exec,
                      long long timeout_ms);
