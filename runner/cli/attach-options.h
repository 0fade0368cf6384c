#pragma once

/* Shared by exec, attach, start and run for attaching to a command. */

#include <stdbool.h>

#include "cli/attached.h"
#include "cli/options.h"

struct client;
struct err;

/* Default of --detach-keys. */
#define DETACH_KEYS "ctrl-p,ctrl-q"
#define DETACH_HELP                                                                                \
    "Keys that leave a terminal and let the command go on: letters and ctrl-letters with commas "  \
    "between, or none (\"\"). Default: " DETACH_KEYS

/* Parses detach keys into the struct keys at the row's offset. */
opt_handler opt_detach_keys;

/* Error for --tty with standard input that is no terminal. */
extern const char no_terminal[];

/*
 * Prints to stderr what else ended the command, or that it was detached from: one line. exec: its
 * id in the sandbox name; NULL for the main process. timeout_ms: its time limit, or 0.
 */
void attached_explain(const struct attached_end *end, const char *name, const char *exec,
                      long long timeout_ms);

/*
 * Says on stderr how to get a shell, if the command is one, has not both a terminal and input, and
 * rind itself is used at a terminal. how: what to write, "rind exec -it box".
 */
void hint_shell(bool tty, bool input, char *const *argv, const char *how);
