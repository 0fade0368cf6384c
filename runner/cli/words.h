#pragma once

/* Verbs with subcommands on named objects of the daemon: `rind volume ls`, `rind network rm NAME`.
 */

#include <stddef.h>

#include "cli/remote.h"

struct word {
    const char *name;
    size_t min, max; /* number of names after it */
    /* Does the request and prints its result. */
    int (*run)(void *args, struct client *c, char **names, struct err *err);
};

struct words {
    const char *noun;        /* the verb's name: "volume" */
    const char *must_be;     /* all subcommands, for the error message */
    const struct word *list; /* all but inspect and rm; ends with an entry without a name */
    const char *target;      /* of one object, for url_make: "/v1/volumes/%s" */
};

/*
 * Parses argv into args, which begins with struct remote, and runs the subcommand. Returns the exit
 * status.
 */
int words_main(const struct verb *v, const struct words *words, void *args, char **argv);
/* Prints the reply to a creation: all of it with --json, else the object's name. */
void words_print_made(const struct remote *remote, json_t *made);
