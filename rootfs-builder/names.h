#pragma once

/* The names in a directory, and lists of paths: what a walk through a tree goes by. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* The sorted names of a directory. */
struct names {
    char *text;         /* owned */
    const char **items; /* owned; into text */
    size_t count, next;
};

/* All names in the directory, sorted; at most max, -E2BIG. */
int names_read(struct names *n, int fd, uint64_t max);
/* Whether it is one of them. */
bool names_has(const struct names *n, const char *name);
void names_done(struct names *n);

/* The list of opaque directories (WORKER_FD_OPAQUE), to be asked by path. */
struct opaque {
    const char **paths; /* owned; sorted; into the caller's text */
    size_t count;
};

/* text: borrowed, stays. -EBADMSG: it has no end. */
int opaque_index(struct opaque *o, const char *text, size_t len, struct err *err);
/* "": the directory itself. */
bool opaque_has(const struct opaque *o, const char *path);
void opaque_done(struct opaque *o);
