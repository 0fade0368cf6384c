#pragma once

/* Decodes query parameters by table into a struct, as json/decode.h does for JSON. Refused, with
 * the parameter's name, are unknown keys, repeated keys (unless a list), bad escapes, wrong or
 * out-of-range values and missing required keys:
 *
 *     ?tail=-3  ->  -ERANGE, "tail: must be between 0 and 100000"
 *
 * Nothing is allocated: strings point into the request and live as long. Members of absent
 * parameters keep their value. */

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
    QUERY_STRING,   /* const char *, UTF-8, min..max bytes (max 0: bounded by the URL only) */
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

/* The ignored parameters of a query. */
struct query_rest {
    const char *first; /* decoded name of the first one, within the query; NULL: none */
    size_t count;
};

/* Like query_decode, but skips parameters without a row and reports them in *ret_ignored; they
 * do not count for QUERY_KEYS_MAX. All other errors are refused as above: a bad escape anywhere,
 * a bad or repeated value of a known parameter. Names are case-sensitive, as in Docker. */
int query_decode_known(char *query, const struct query_field *fields, void *dst,
                       struct query_rest *ret_ignored, struct err *err);

/* Decodes a request's query; once per request. fields NULL: no parameter is allowed. */
int http_query(struct http_request *req, const struct query_field *fields, void *dst,
               struct err *err);
/* Like http_query, by query_decode_known; ignored parameters are logged at debug. For APIs whose
 * clients send parameters that only other servers know (Docker's). */
int http_query_known(struct http_request *req, const struct query_field *fields, void *dst,
                     struct err *err);
