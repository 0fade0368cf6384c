#pragma once

/* Decodes Docker's JSON bodies by table, with one row per key of the API. A row says how the
 * value is used, or that only values without effect (null, false, 0, "", [], {}) are accepted,
 * and why. Clients send every field they know, mostly empty, and newer clients send unknown
 * fields: those are accepted if they have no effect. Keys are matched regardless of case, as
 * Docker's own reader folds them, so no refused key passes in another spelling.
 *
 * At the top level of a body (body_decode_whole) clients also send keys of their own or of other
 * calls; Docker ignores them, and so does rind. But HostConfig and the other objects below the
 * top level request isolation and resources: there an unknown key with an effect is refused. Its
 * names are also refused at the top level of every body, where old versions of Docker accepted
 * some of them.
 *
 * Pure: no I/O. */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct err;

enum { BODY_PATH_MAX = 200 };

struct body_field;
/* path: "HostConfig.Binds", for messages. Not called for values without effect. */
typedef int body_fn(json_t *value, const struct body_field *field, void *dst, const char *path,
                    struct err *err);

struct body_field {
    const char *name; /* NULL ends a table */
    body_fn *take;    /* NULL: only values without effect; other values get code and why */
    int code;         /* -EPERM: would weaken the isolation; -EOPNOTSUPP: not supported */
    const char *why;
    bool always; /* only null counts as without effect */
    bool loose;  /* in a body_elsewhere table: neither isolates nor limits; ignored there */
    size_t off;  /* of the member that b_* set */
    const struct body_field *fields; /* b_object */
};

/* Decodes in the order of the text: the first refused key is reported. Keys are respelt in the
 * tree as their rows are; two spellings of one key are -EINVAL. 0 or a negative errno. */
int body_decode(json_t *object, const struct body_field *fields, void *dst, const char *path,
                struct err *err);

/* A table whose names are refused at the top level of bodies without these fields. */
struct body_elsewhere {
    const struct body_field *fields; /* NULL ends a list */
    int code;
    const char *why;
};

/* Decodes the whole body of a request like body_decode, but ignores unknown keys and logs them
 * at debug. Keys of `elsewhere` with an effect are refused, regardless of case. */
int body_decode_whole(json_t *object, const struct body_field *fields,
                      const struct body_elsewhere *elsewhere, void *dst, struct err *err);
/* True for a value without effect. */
bool body_is_empty(const json_t *value);
/* Sets err to "path: message" and returns code. */
int body_fail(struct err *err, int code, const char *path, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

body_fn b_ignore; /* accepted: has no effect here */
body_fn b_string; /* const char *, borrowed from the tree */
body_fn b_bool;   /* bool */
body_fn b_number; /* int64_t */
body_fn b_value;  /* json_t *, borrowed */
body_fn b_object; /* embedded object, by fields; same dst */
