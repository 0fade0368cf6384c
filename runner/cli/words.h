#pragma once

/* Verbs with subcommands: `rind volume ls`, `rind network rm NAME`. */

#include <stddef.h>

#include "cli/remote.h"

struct word {
    const char *name;
    size_t min, max; /* number of names after it */
    /* Prints its result; NULL: calls the verb's `each` for each name. */
    int (*run)(void *args, struct client *c, char **names, struct err *err);
};

struct words {
    const char *noun;        /* the verb's name: "volume" */
    const char *must_be;     /* the subcommands, for the error message */
    const struct word *list; /* ends with an entry without a name */
    remote_fn *each;
};

/*
 * Parses argv into args, which begins with struct remote, and runs the subcommand. Returns the exit
 * status.
 */
int words_main(const struct verb *v, const struct words *words, void *args, char **argv);
