#pragma once

/* Decodes JSON into structs by table. One row per accepted key; the table is the schema. Unknown
 * keys, keys that differ from another only in case, wrong types, numbers out of range and
 * missing keys are refused with the JSON path:
 *
 *     {"limits":{"pids":0}}  ->  -ERANGE, "limits.pids: must be between 1 and 4194304"
 *
 * A decoder writes at dst + off. What it allocates belongs to the struct at once, even if a
 * later row fails: the caller frees the partly filled struct by its normal _free. Pure. */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct jfield;
struct strtab;

/* The path of a value, as a chain through the callers' frames. The root's path is NULL. */
struct jpath {
    const struct jpath *up;
    const char *key; /* NULL: an array element */
    size_t index;
};

typedef int jdecode_fn(json_t *value, const struct jfield *field, void *dst,
                       const struct jpath *path, struct err *err);

/* Describes the elements for j_objects. The member at `off` is a pointer to the first. */
struct jarray {
    const struct jfield *fields;
    size_t size;      /* of one element; zeroed before decoding */
    size_t count_off; /* of the size_t that counts the elements, in the containing struct */
};

struct jfield {
    const char *name; /* NULL ends a table */
    jdecode_fn *decode;
    size_t off;
    int64_t min, max; /* value of a number, bytes of a string, entries of an array or map */
    bool required;
    bool nullable;               /* null counts as absent */
    const struct strtab *names;  /* j_enum */
    const struct jfield *fields; /* j_object */
    const struct jarray *array;  /* j_objects */
};

struct jpair {
    char *key;   /* owned */
    char *value; /* owned */
};

enum { JSON_FIELDS_MAX = 64, JSON_STRING_MAX = 4096 };

jdecode_fn j_bool;       /* bool */
jdecode_fn j_int64;      /* int64_t, min..max */
jdecode_fn j_string;     /* char *, owned; min..max bytes (max 0: JSON_STRING_MAX) */
jdecode_fn j_enum;       /* int, by names */
jdecode_fn j_object;     /* embedded struct, by fields */
jdecode_fn j_objects;    /* array of structs, by array; min..max entries */
jdecode_fn j_strings;    /* char **, owned, NULL-terminated; min..max entries, none empty */
jdecode_fn j_string_map; /* struct jpair *, owned, ended by a NULL key; at most max entries */
jdecode_fn j_ignore;     /* accepted, checked to be a string, not stored (comments) */

/* Decodes an object with the root's path. -EINVAL, -ERANGE, -ENOMEM. */
int json_decode(json_t *object, const struct jfield *fields, void *dst, struct err *err);
/* Like json_decode, for an object below the root. */
int json_decode_at(json_t *object, const struct jfield *fields, void *dst, const struct jpath *path,
                   struct err *err);

/* Refuses an object with two keys that differ only in ASCII case ("Privileged", "privileged"):
 * readers that fold case would see another object. json_decode does this for every object;
 * string maps may have such keys. -EINVAL, -ENOMEM. */
int json_check_folded(json_t *object, const struct jpath *path, struct err *err);

/*
 * Collects the strings of an array. *ret: NULL-terminated, owned by the caller (free); the strings
 * are borrowed from value. -EINVAL, -E2BIG (more than max), -ENOMEM.
 */
int json_borrow_strings(const json_t *value, size_t max, const struct jpath *path,
                        const char ***ret, size_t *ret_count, struct err *err);

/* Sets err to "path: message" and returns code. */
int json_fail(struct err *err, int code, const struct jpath *path, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Free the results of j_strings and j_string_map. NULL is allowed. */
void json_strings_free(char **strings);
void json_pairs_free(struct jpair *pairs);
