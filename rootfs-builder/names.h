#pragma once

/* Sorted names of a directory, and lists of paths, for walks through a tree. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* The sorted names of a directory. */
struct sorted_names {
    char *text;         /* owned */
    const char **items; /* owned; into text */
    size_t count, next;
};

/* Reads all names of the directory, sorted; -E2BIG for more than max. */
int names_read(struct sorted_names *n, int fd, uint64_t max);
/* Returns true if name is one of them. */
bool names_has(const struct sorted_names *n, const char *name);
void names_done(struct sorted_names *n);

/* The list of opaque directories (WORKER_FD_OPAQUE), to be searched by path. */
struct opaque {
    const char **paths; /* owned; sorted; into the caller's text */
    size_t count;
};

/* text is borrowed and must stay. -EBADMSG: it does not end with a NUL. */
int opaque_index(struct opaque *o, const char *text, size_t len, struct err *err);
/* "" is the top directory. */
bool opaque_has(const struct opaque *o, const char *path);
void opaque_done(struct opaque *o);
