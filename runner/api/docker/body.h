#pragma once

/*
 * Docker's JSON bodies by table. One row per key that the API has: what is done with its value, or
 * that only a value which asks for nothing (null, false, 0, "", [], {}) is taken, and why. Clients
 * send every field they know, most of them empty, and newer ones fields that we do not know: those
 * are taken as long as they ask for nothing. Docker's own reader folds case; so a key that is one
 * of ours but for its case is refused, and what it would have meant there cannot slip by here.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct err;

enum { BODY_PATH_MAX = 200 };

struct body_field;
/* path: "HostConfig.Binds", for messages. A value that asks for nothing does not get here. */
typedef int body_fn(json_t *value, const struct body_field *field, void *dst, const char *path,
                    struct err *err);

struct body_field {
    const char *name; /* NULL ends a table */
    body_fn *take;    /* NULL: only empty values; why and code say what others are answered */
    int code;         /* -EPERM: it would weaken the isolation; -EOPNOTSUPP: it cannot be had */
    const char *why;
    bool always; /* a value that asks for nothing asks for something, but null */
    size_t off;  /* of the member that b_* fill */
    const struct body_field *fields; /* b_object */
};

/* In the order of the text: the first that is refused is named. */
int body_decode(json_t *object, const struct body_field *fields, void *dst, const char *path,
                struct err *err);
/* Whether it asks for nothing. */
bool body_is_empty(const json_t *value);
/* "path: message", and code. */
int body_fail(struct err *err, int code, const char *path, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

body_fn b_ignore; /* accepted: it has no meaning here that could differ */
body_fn b_string; /* const char *, borrowed from the tree */
body_fn b_bool;   /* bool */
body_fn b_number; /* int64_t */
body_fn b_value;  /* json_t *, borrowed */
body_fn b_object; /* embedded, by fields; the same dst */
