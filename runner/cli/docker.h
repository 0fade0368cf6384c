#pragma once

/* `rind docker`: the commands of Docker's that other programs call, as a client of its API. */

#include <jansson.h>
#include <stdbool.h>

#include "cli/remote.h"

struct client;
struct err;

enum { DOCKER_VALUES_MAX = 16 /* of one option that may be repeated */ };

/* What the options of all commands come to; each command knows some. */
struct docker_args {
    const char *format, *username, *password;
    const char *filters[DOCKER_VALUES_MAX];
    unsigned filter_count;
    bool all, quiet, force, verbose, password_stdin, no_trunc;
};

struct docker_command {
    const char *name, *sub; /* "image", "inspect"; sub NULL: a word alone */
    const char *options;    /* those that it takes: letters of the table in docker.c */
    int (*main)(struct client *c, struct docker_args *args, char **operands, struct err *err);
    bool offline; /* asks nobody */
};

extern const struct docker_command docker_commands[]; /* ended by {0} */

/* Prints root by --format, if that was given: 1; else 0. */
int docker_print(const struct docker_args *args, json_t *root, struct err *err);
/* A sentence on stderr, and the status of a command that failed. */
int docker_sentence(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Where the engine is, as Docker writes it: "unix:///run/rind/rind.sock". */
extern char docker_address[REMOTE_PATH_MAX + 8];

/* As `docker` would be called. */
int docker_main(char **argv);
