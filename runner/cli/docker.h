#pragma once

/*
 * `rind docker`: the commands of docker that programs call, implemented as a client of Docker's
 * API.
 */

#include <jansson.h>
#include <stdbool.h>

#include "cli/remote.h"

struct client;
struct err;

enum { DOCKER_VALUES_MAX = 16 /* most values of one repeatable option */ };

/* Values of the options of all commands; each command accepts some. */
struct docker_args {
    const char *format, *username, *password;
    const char *filters[DOCKER_VALUES_MAX];
    unsigned filter_count;
    bool all, quiet, force, verbose, password_stdin, no_trunc;
};

struct docker_command {
    const char *name, *sub; /* "image", "inspect"; sub NULL: a single word */
    const char *options;    /* accepted options: letters of the table in docker.c */
    int (*main)(struct client *c, struct docker_args *args, char **operands, struct err *err);
    bool offline; /* needs no daemon */
};

extern const struct docker_command docker_commands[]; /* ends with {0} */

/* Prints root by --format and returns 1, or returns 0 if --format was not given. */
int docker_print(const struct docker_args *args, json_t *root, struct err *err);
/* Prints one sentence on stderr; returns the exit status of a failed command. */
int docker_sentence(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Address of the engine in Docker's form: "unix:///run/rind/rind.sock". */
extern char docker_address[REMOTE_PATH_MAX + 8];

/* Entry point when called by the name `docker`. Returns the exit status. */
int docker_main(char **argv);
