#include "json/decode.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/strtab.h"

enum {
    PATH_TEXT_MAX = 240, /* bytes of a path that fit a message */
    PATH_KEY_MAX = 64,   /* quoted bytes of one (hostile) key */
};

/* ---- paths ---- */

static size_t path_text(const struct jpath *path, char *text, size_t size)
{
    size_t len = 0;
    int n;

    if (path == NULL)
        return 0;
    len = path_text(path->up, text, size);
    if (path->key == NULL)
        n = snprintf(text + len, size - len, "[%zu]", path->index);
    else
        n = snprintf(text + len, size - len, "%s%.*s", len > 0 ? "." : "", PATH_KEY_MAX, path->key);
    if (n < 0)
        return len;
    return len + (size_t)n < size ? len + (size_t)n : size - 1;
}

int json_fail(struct err *err, int code, const struct jpath *path, const char *fmt, ...)
{
    char text[PATH_TEXT_MAX] = "", msg[ERR_MSG_MAX];
    va_list ap;

    if (err == NULL)
        return code;
    va_start(ap, fmt);
    (void)vsnprintf(msg, sizeof(msg), fmt, ap);
    va_end(ap);
    if (path_text(path, text, sizeof(text)) == 0)
        return err_set(err, code, "%s", msg);
    return err_set(err, code, "%s: %s", text, msg);
}

static const char *type_name(const json_t *value)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array",  [JSON_STRING] = "a string",
        [JSON_INTEGER] = "a number", [JSON_REAL] = "a fraction", [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",      [JSON_NULL] = "null",
    };

    return names[json_typeof(value)];
}

static int wrong_type(struct err *err, const struct jpath *path, const char *want,
                      const json_t *value)
{
    return json_fail(err, -EINVAL, path, "must be %s, not %s", want, type_name(value));
}

/* ---- objects ---- */

static int compare_folded(const void *a, const void *b)
{
    return strcasecmp(*(const char *const *)a, *(const char *const *)b);
}

int json_check_folded(json_t *object, const struct jpath *path, struct err *err)
{
    auto_free const char **keys = NULL;
    size_t n = 0, count = json_object_size(object);
    const char *key;
    json_t *value;

    if (count < 2)
        return 0;
    keys = calloc(count, sizeof(*keys));
    if (keys == NULL)
        return json_fail(err, -ENOMEM, path, "out of memory");
    json_object_foreach(object, key, value)
        keys[n++] = key;

    qsort(keys, n, sizeof(*keys), compare_folded);
    for (size_t i = 1; i < n; i++)
        if (strcasecmp(keys[i - 1], keys[i]) == 0)
            return json_fail(err, -EINVAL, path, "keys \"%.*s\" and \"%.*s\" differ only in case",
                             PATH_KEY_MAX, keys[i - 1], PATH_KEY_MAX, keys[i]);
    return 0;
}

static int unknown_key(const struct jfield *fields, const struct jpath *here, struct err *err)
{
    for (const struct jfield *f = fields; f->name != NULL; f++)
        if (strcasecmp(f->name, here->key) == 0)
            return json_fail(err, -EINVAL, here, "unknown key (it is spelt \"%s\")", f->name);
    return json_fail(err, -EINVAL, here, "unknown key");
}

int json_decode_at(json_t *object, const struct jfield *fields, void *dst, const struct jpath *path,
                   struct err *err)
{
    bool seen[JSON_FIELDS_MAX] = {false};
    const char *key;
    json_t *value;
    int r;

    if (!json_is_object(object))
        return wrong_type(err, path, "an object", object);
    r = json_check_folded(object, path, err);
    if (r < 0)
        return r;

    json_object_foreach(object, key, value) {
        struct jpath here = {.up = path, .key = key};
        const struct jfield *f = fields;

        while (f->name != NULL && strcmp(f->name, key) != 0)
            f++;
        if (f->name == NULL)
            return unknown_key(fields, &here, err);
        if (json_is_null(value) && f->nullable)
            continue;
        r = f->decode(value, f, dst, &here, err);
        if (r < 0)
            return r;
        seen[f - fields] = true;
    }

    for (size_t i = 0; fields[i].name != NULL; i++) {
        struct jpath here = {.up = path, .key = fields[i].name};

        if (fields[i].required && !seen[i])
            return json_fail(err, -EINVAL, &here, "missing");
    }
    return 0;
}

int json_decode(json_t *object, const struct jfield *fields, void *dst, struct err *err)
{
    return json_decode_at(object, fields, dst, NULL, err);
}

/* ---- one value ---- */

static void *field_member(void *dst, const struct jfield *field)
{
    return (char *)dst + field->off;
}

int j_bool(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
           struct err *err)
{
    if (!json_is_boolean(value))
        return wrong_type(err, path, "true or false", value);
    *(bool *)field_member(dst, field) = json_is_true(value);
    return 0;
}

int j_int64(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
            struct err *err)
{
    int64_t n;

    if (!json_is_integer(value))
        return wrong_type(err, path, "a whole number", value);
    n = json_integer_value(value);
    if (n < field->min || n > field->max)
        return json_fail(err, -ERANGE, path, "must be between %" PRId64 " and %" PRId64, field->min,
                         field->max);
    *(int64_t *)field_member(dst, field) = n;
    return 0;
}

static int check_string(const json_t *value, int64_t min, int64_t max, const struct jpath *path,
                        struct err *err)
{
    size_t len;

    if (!json_is_string(value))
        return wrong_type(err, path, "a string", value);
    len = json_string_length(value);
    if (min > 0 && len == 0)
        return json_fail(err, -EINVAL, path, "must not be empty");
    if (len < (size_t)min || len > (size_t)max)
        return json_fail(err, -ERANGE, path,
                         "must have between %" PRId64 " and %" PRId64 " bytes, has %zu", min, max,
                         len);
    return 0;
}

int j_string(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
             struct err *err)
{
    int64_t max = field->max > 0 ? field->max : JSON_STRING_MAX;
    char *copy;
    int r;

    r = check_string(value, field->min, max, path, err);
    if (r < 0)
        return r;
    copy = strdup(json_string_value(value));
    if (copy == NULL)
        return json_fail(err, -ENOMEM, path, "out of memory");
    *(char **)field_member(dst, field) = copy;
    return 0;
}

int j_ignore(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
             struct err *err)
{
    (void)field;
    (void)dst;
    return check_string(value, 0, JSON_STRING_MAX, path, err);
}

int j_enum(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
           struct err *err)
{
    char known[PATH_TEXT_MAX] = "";
    size_t len = 0;
    int n;

    if (!json_is_string(value))
        return wrong_type(err, path, "a string", value);
    n = strtab_value(field->names, json_string_value(value));
    if (n >= 0) {
        *(int *)field_member(dst, field) = n;
        return 0;
    }

    for (const struct strtab *t = field->names; t->name != NULL && len < sizeof(known); t++) {
        n = snprintf(known + len, sizeof(known) - len, "%s%s", len > 0 ? ", " : "", t->name);
        len += n > 0 ? (size_t)n : 0;
    }
    return json_fail(err, -EINVAL, path, "\"%.*s\" is not one of %s", PATH_KEY_MAX,
                     json_string_value(value), known);
}

int j_object(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
             struct err *err)
{
    return json_decode_at(value, field->fields, field_member(dst, field), path, err);
}

/* ---- many values ---- */

static int check_count(size_t count, const struct jfield *field, const struct jpath *path,
                       struct err *err)
{
    if (count < (size_t)field->min || count > (size_t)field->max)
        return json_fail(err, -ERANGE, path,
                         "must have between %" PRId64 " and %" PRId64 " entries, has %zu",
                         field->min, field->max, count);
    return 0;
}

int j_objects(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
              struct err *err)
{
    const struct jarray *array = field->array;
    size_t count = json_array_size(value), i;
    json_t *element;
    char *first;
    int r;

    if (!json_is_array(value))
        return wrong_type(err, path, "an array", value);
    r = check_count(count, field, path, err);
    if (r < 0)
        return r;

    first = calloc(count > 0 ? count : 1, array->size);
    if (first == NULL)
        return json_fail(err, -ENOMEM, path, "out of memory");
    /* Stored in the struct before it is filled, so that its _free finds every element. */
    *(void **)field_member(dst, field) = first;
    *(size_t *)(void *)((char *)dst + array->count_off) = count;

    json_array_foreach(value, i, element) {
        struct jpath here = {.up = path, .index = i};

        r = json_decode_at(element, array->fields, first + i * array->size, &here, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int j_strings(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
              struct err *err)
{
    size_t count = json_array_size(value), i;
    char **strings;
    json_t *element;
    int r;

    if (!json_is_array(value))
        return wrong_type(err, path, "an array of strings", value);
    r = check_count(count, field, path, err);
    if (r < 0)
        return r;

    strings = calloc(count + 1, sizeof(*strings));
    if (strings == NULL)
        return json_fail(err, -ENOMEM, path, "out of memory");
    *(char ***)field_member(dst, field) = strings;

    json_array_foreach(value, i, element) {
        struct jpath here = {.up = path, .index = i};

        r = check_string(element, 1, JSON_STRING_MAX, &here, err);
        if (r < 0)
            return r;
        strings[i] = strdup(json_string_value(element));
        if (strings[i] == NULL)
            return json_fail(err, -ENOMEM, &here, "out of memory");
    }
    return 0;
}

int json_borrow_strings(const json_t *value, size_t max, const struct jpath *path,
                        const char ***ret, size_t *ret_count, struct err *err)
{
    size_t count = json_array_size(value), i;
    auto_free const char **list = NULL;
    const json_t *element;

    if (!json_is_array(value))
        return json_fail(err, -EINVAL, path, "must be an array of strings");
    if (count > max)
        return json_fail(err, -E2BIG, path, "more than %zu entries", max);
    list = calloc(count + 1, sizeof(*list));
    if (list == NULL)
        return json_fail(err, -ENOMEM, path, "out of memory");
    json_array_foreach(value, i, element) {
        struct jpath here = {.up = path, .index = i};

        if (!json_is_string(element))
            return json_fail(err, -EINVAL, &here, "must be a string");
        list[i] = json_string_value(element);
    }
    *ret = take(list);
    *ret_count = count;
    return 0;
}

int j_string_map(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
                 struct err *err)
{
    size_t count = json_object_size(value), n = 0;
    struct jpair *pairs;
    const char *key;
    json_t *element;
    int r;

    if (!json_is_object(value))
        return wrong_type(err, path, "an object of strings", value);
    r = check_count(count, field, path, err);
    if (r < 0)
        return r;

    pairs = calloc(count + 1, sizeof(*pairs));
    if (pairs == NULL)
        return json_fail(err, -ENOMEM, path, "out of memory");
    *(struct jpair **)field_member(dst, field) = pairs;

    json_object_foreach(value, key, element) {
        struct jpath here = {.up = path, .key = key};

        if (key[0] == '\0')
            return json_fail(err, -EINVAL, path, "holds an empty key");
        r = check_string(element, 0, JSON_STRING_MAX, &here, err);
        if (r < 0)
            return r;
        pairs[n].value = strdup(json_string_value(element));
        pairs[n].key = strdup(key);
        if (pairs[n].key == NULL || pairs[n].value == NULL)
            return json_fail(err, -ENOMEM, &here, "out of memory");
        n++;
    }
    return 0;
}

void json_strings_free(char **strings)
{
    if (strings == NULL)
        return;
    for (char **s = strings; *s != NULL; s++)
        free(*s);
    free(strings);
}

void json_pairs_free(struct jpair *pairs)
{
    if (pairs == NULL)
        return;
    /* One half of the last pair may be missing after a failed allocation. */
    for (struct jpair *p = pairs; p->key != NULL || p->value != NULL; p++) {
        free(p->key);
        free(p->value);
    }
    free(pairs);
}
