#include "http/route-query.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/strtab.h"
#include "http/route.h"
#include "http/server.h"
#include "proto/utf8.h"

static int read_bool(const struct query_field *f, const char *value, size_t len, void *at,
                     struct err *err)
{
    bool yes = len == 0 || strcmp(value, "true") == 0 || strcmp(value, "1") == 0;

    if (!yes && strcmp(value, "false") != 0 && strcmp(value, "0") != 0)
        return err_set(err, -EINVAL, "%s: must be true or false", f->name);
    *(bool *)at = yes;
    return 0;
}

/* Only digits and a leading '-': no blanks, no bases. */
static int parse_int(const char *s, int64_t *ret)
{
    bool negative = *s == '-';
    int64_t n = 0;

    s += negative;
    if (*s == '\0')
        return -EINVAL;
    for (; *s != '\0'; s++) {
        if (*s < '0' || *s > '9')
            return -EINVAL;
        if (__builtin_mul_overflow(n, 10, &n) ||
            __builtin_add_overflow(n, negative ? '0' - *s : *s - '0', &n))
            return -ERANGE;
    }
    *ret = n;
    return 0;
}

static int read_int(const struct query_field *f, const char *value, size_t len, void *at,
                    struct err *err)
{
    int64_t n = 0;
    int r;

    (void)len;
    r = parse_int(value, &n);
    if (r == -EINVAL)
        return err_set(err, -EINVAL, "%s: must be a whole number", f->name);
    if (r < 0 || n < f->min || n > f->max)
        return err_set(err, -ERANGE, "%s: must be between %lld and %lld", f->name,
                       (long long)f->min, (long long)f->max);
    *(int64_t *)at = n;
    return 0;
}

static int check_length(const struct query_field *f, size_t len, struct err *err)
{
    if ((int64_t)len < f->min)
        return err_set(err, -ERANGE, "%s: must have at least %lld bytes", f->name,
                       (long long)f->min);
    if (f->max > 0 && (int64_t)len > f->max)
        return err_set(err, -ERANGE, "%s: must have at most %lld bytes", f->name,
                       (long long)f->max);
    return 0;
}

static int read_bytes(const struct query_field *f, const char *value, size_t len, void *at,
                      struct err *err)
{
    int r = check_length(f, len, err);

    if (r < 0)
        return r;
    *(const char **)at = value;
    return 0;
}

static int read_string(const struct query_field *f, const char *value, size_t len, void *at,
                       struct err *err)
{
    if (!utf8_valid(value, len))
        return err_set(err, -EILSEQ, "%s: is not UTF-8", f->name);
    return read_bytes(f, value, len, at, err);
}

static int read_enum(const struct query_field *f, const char *value, size_t len, void *at,
                     struct err *err)
{
    int n = strtab_value(f->names, value);

    (void)len;
    if (n < 0)
        return err_set(err, -EINVAL, "%s: is none of the values that are known", f->name);
    *(int *)at = n;
    return 0;
}

static int read_list(const struct query_field *f, const char *value, size_t len, void *at,
                     struct err *err)
{
    struct query_list *list = at;

    if (list->count == QUERY_LIST_MAX)
        return err_set(err, -E2BIG, "%s: more than %d times", f->name, QUERY_LIST_MAX);
    if (!utf8_valid(value, len))
        return err_set(err, -EILSEQ, "%s: is not UTF-8", f->name);
    list->values[list->count++] = value;
    return 0;
}

typedef int read_fn(const struct query_field *f, const char *value, size_t len, void *at,
                    struct err *err);

static read_fn *const readers[] = {
    [QUERY_BOOL] = read_bool,   [QUERY_INT] = read_int,   [QUERY_STRING] = read_string,
    [QUERY_BYTES] = read_bytes, [QUERY_ENUM] = read_enum, [QUERY_LIST] = read_list,
};

/* A query being decoded. */
struct query_decoding {
    const struct query_field *fields; /* NULL: none */
    void *dst;
    uint64_t seen;              /* bit i: row i had a value */
    size_t keys;                /* parameters so far, without ignored ones */
    struct query_rest *ignored; /* NULL: unknown parameters are refused */
};

static int decoding_count_key(struct query_decoding *d, struct err *err)
{
    if (++d->keys > QUERY_KEYS_MAX)
        return err_set(err, -E2BIG, "more than %d query parameters", QUERY_KEYS_MAX);
    return 0;
}

static int decoding_take_unknown(struct query_decoding *d, const char *key, struct err *err)
{
    if (d->ignored == NULL)
        return err_set(err, -EINVAL, "%s: unknown parameter", key);
    if (d->ignored->count++ == 0)
        d->ignored->first = key;
    return 0;
}

/* Decodes one "key=value" of len bytes in place. Overwrites the byte after it. */
static int decoding_take_pair(struct query_decoding *d, char *pair, size_t len, struct err *err)
{
    const struct query_field *fields = d->fields;
    char *equals = memchr(pair, '=', len);
    size_t key_len = equals == NULL ? len : (size_t)(equals - pair);
    char *value = equals == NULL ? pair + len : equals + 1;
    int value_len;
    size_t i = 0;
    int r;

    value_len = percent_decode(value, value, len - (size_t)(value - pair), true);
    if (value_len < 0 || percent_decode(pair, pair, key_len, true) < 0)
        return err_set(err, -EINVAL, "the query holds '%%' without two hex digits, or %%00");
    while (fields != NULL && fields[i].name != NULL && strcmp(fields[i].name, pair) != 0)
        i++;
    if (fields == NULL || fields[i].name == NULL)
        return decoding_take_unknown(d, pair, err);
    r = d->ignored != NULL ? decoding_count_key(d, err) : 0; /* otherwise decoding_run counts */
    if (r < 0)
        return r;
    if ((d->seen & UINT64_C(1) << i) != 0 && fields[i].type != QUERY_LIST)
        return err_set(err, -EINVAL, "%s: is there twice", fields[i].name);
    d->seen |= UINT64_C(1) << i;
    return readers[fields[i].type](&fields[i], value, (size_t)value_len,
                                   (char *)d->dst + fields[i].off, err);
}

static int check_required(const struct query_field *fields, uint64_t seen, struct err *err)
{
    for (size_t i = 0; fields != NULL && fields[i].name != NULL; i++)
        if (fields[i].required && (seen & UINT64_C(1) << i) == 0)
            return err_set(err, -EINVAL, "%s: is missing", fields[i].name);
    return 0;
}

static int decoding_run(struct query_decoding *d, char *query, struct err *err)
{
    int r;

    while (query != NULL) {
        char *end = strchr(query, '&');
        size_t len = end == NULL ? strlen(query) : (size_t)(end - query);

        r = d->ignored == NULL ? decoding_count_key(d, err) : 0;
        if (r < 0)
            return r;
        if (len > 0) {
            query[len] = '\0';
            r = decoding_take_pair(d, query, len, err);
            if (r < 0)
                return r;
        }
        query = end == NULL ? NULL : end + 1;
    }
    return check_required(d->fields, d->seen, err);
}

int query_decode(char *query, const struct query_field *fields, void *dst, struct err *err)
{
    struct query_decoding d = {.fields = fields, .dst = dst};

    return decoding_run(&d, query, err);
}

int query_decode_known(char *query, const struct query_field *fields, void *dst,
                       struct query_rest *ret_ignored, struct err *err)
{
    struct query_decoding d = {.fields = fields, .dst = dst, .ignored = ret_ignored};

    *ret_ignored = (struct query_rest){.first = NULL};
    return decoding_run(&d, query, err);
}

int http_query(struct http_request *req, const struct query_field *fields, void *dst,
               struct err *err)
{
    char *query = req->query;

    req->query = NULL;
    return query_decode(query, fields, dst, err);
}

int http_query_known(struct http_request *req, const struct query_field *fields, void *dst,
                     struct err *err)
{
    char *query = req->query;
    struct query_rest ignored;
    int r;

    req->query = NULL;
    r = query_decode_known(query, fields, dst, &ignored, err);
    if (r == 0 && ignored.count > 0)
        log_debug("http", "%s %s: unknown query parameters are ignored: %zu, the first is %.64s",
                  req->method, req->path, ignored.count, ignored.first);
    return r;
}
