#pragma once

/* Verbs whose first operand is a command of theirs: `rind volume ls`, `rind network rm NAME`. */

#include <stddef.h>

#include "cli/remote.h"

struct word {
    const char *name;
    size_t min, max; /* names behind it */
    /* Prints its result; or NULL: the verb's `each` for each name. */
    int (*run)(void *args, struct client *c, char **names, struct err *err);
};

struct words {
    const char *noun;        /* what it is about, which is the verb's name: "volume" */
    const char *must_be;     /* the words, for who gave none of them */
    const struct word *list; /* up to one without a name */
    remote_fn *each;
};

/* Parses argv into args, which begins with struct remote, and runs the word. Returns the exit
 * status. */
int words_main(const struct verb *v, const struct words *words, void *args, char **argv);
