#pragma once

/*
 * Docker's JSON bodies by table. One row per key that the API has: what is done with its value, or
 * that only a value which asks for nothing (null, false, 0, "", [], {}) is taken, and why. Clients
 * send every field they know, most of them empty, and newer ones fields that we do not know: those
 * are taken as long as they ask for nothing. A key is taken in any case, as Docker's own reader
 * folds it, and means the same as in the right one: nothing slips by in another spelling.
 *
 * At the top level of a request's body (body_decode_whole) clients also send what only they know,
 * or what belongs to another call; Docker ignores it, and so does rind. HostConfig and the other
 * objects below the top level hold what asks for isolation and for resources: there a key that is
 * not known is refused as soon as it asks for something, and its names are refused at the top
 * level of every body, where old versions of Docker took some of them.
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
    bool loose;  /* of a body_elsewhere's table: it neither isolates nor limits; ignored there */
    size_t off;  /* of the member that b_* fill */
    const struct body_field *fields; /* b_object */
};

/* In the order of the text: the first that is refused is named. Keys are written as their rows are,
 * in the tree; two spellings of one are -EINVAL. */
int body_decode(json_t *object, const struct body_field *fields, void *dst, const char *path,
                struct err *err);

/* A table whose names are refused at the top level of a body that has no such field itself. */
struct body_elsewhere {
    const struct body_field *fields; /* NULL ends a list */
    int code;
    const char *why;
};

/*
 * The whole body of a request, as body_decode; but a key that is not known is ignored, whatever its
 * value, and told at debug. Refused all the same: a key of `elsewhere`, in any case, whose value
 * asks for something.
 */
int body_decode_whole(json_t *object, const struct body_field *fields,
                      const struct body_elsewhere *elsewhere, void *dst, struct err *err);
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
