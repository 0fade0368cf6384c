#pragma once

/*
 * Query parameters by table into a struct, as JSON is (json/decode.h). Unknown keys, a key twice
 * that is not a list, bad escapes, wrong and out-of-range values, missing required keys are refused
 * with the parameter's name:
 *
 *     ?tail=-3  ->  -ERANGE, "tail: must be between 0 and 100000"
 *
 * Nothing is allocated: strings point into the request and live as long as it. What is absent is
 * left as it was.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct http_request;
struct strtab;

enum {
    QUERY_LIST_MAX = 32 /* values of one repeated key */,
    QUERY_KEYS_MAX = 64 /* in one query */
};

enum query_type {
    QUERY_BOOL = 1, /* bool: "true", "1", "" (a bare key); "false", "0" */
    QUERY_INT,      /* int64_t, decimal, min..max */
    QUERY_STRING,   /* const char *, UTF-8, min..max bytes (max 0: no bound but the URL's) */
    QUERY_BYTES,    /* const char *, any bytes but NUL: file names; min..max bytes */
    QUERY_ENUM,     /* int, by names */
    QUERY_LIST,     /* struct query_list: the key may be repeated; UTF-8 */
};

struct query_list {
    const char *values[QUERY_LIST_MAX];
    size_t count;
};

struct query_field {
    const char *name; /* NULL ends a table */
    enum query_type type;
    size_t off;
    int64_t min, max;
    bool required;
    const struct strtab *names; /* QUERY_ENUM */
};

/* Decodes `query` (NULL: none) in place; it is consumed. -EINVAL, -ERANGE, -E2BIG (too many keys or
 * values). */
int query_decode(char *query, const struct query_field *fields, void *dst, struct err *err);

/* The parameters that no row names. */
struct query_rest {
    const char *first; /* the first one's decoded name, in the query; NULL where there is none */
    size_t count;
};

/*
 * The same, but a parameter that no row names is skipped, whatever its value, and told in
 * *ret_ignored; QUERY_KEYS_MAX does not count it. Everything else is refused as above: a bad
 * escape anywhere, a bad value or a second value of a known parameter. Names are compared with
 * their case, as Docker does.
 */
int query_decode_known(char *query, const struct query_field *fields, void *dst,
                       struct query_rest *ret_ignored, struct err *err);

/* The same for a request's query; once for each request. `fields` may be NULL: no parameter is
 * taken. */
int http_query(struct http_request *req, const struct query_field *fields, void *dst,
               struct err *err);
/* By query_decode_known; one line at debug says what was ignored. For APIs whose clients send
 * parameters that only other servers know (Docker's). */
int http_query_known(struct http_request *req, const struct query_field *fields, void *dst,
                     struct err *err);
