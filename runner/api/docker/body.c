#include "api/docker/body.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"

int body_fail(struct err *err, int code, const char *path, const char *fmt, ...)
{
    char text[ERR_MSG_MAX];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    return err_set(err, code, "%s: %s", path, text);
}

bool body_is_empty(const json_t *value)
{
    const char *key;
    json_t *element;

    switch (json_typeof(value)) {
    case JSON_NULL:
    case JSON_FALSE:
        return true;
    case JSON_INTEGER:
        return json_integer_value(value) == 0;
    case JSON_REAL:
        return json_real_value(value) == 0;
    case JSON_STRING:
        return json_string_length(value) == 0;
    case JSON_ARRAY:
        return json_array_size(value) == 0;
    case JSON_OBJECT:
        json_object_foreach((json_t *)(uintptr_t)value, key, element)
            if (!body_is_empty(element))
                return false;
        return true;
    case JSON_TRUE:
    default:
        return false;
    }
}

static unsigned char ascii_lower(unsigned char c)
{
    return c >= 'A' && c <= 'Z' ? (unsigned char)(c - 'A' + 'a') : c;
}

/* Consumes one letter of *at, folded as by Go's encoding/json: ASCII letters to lower case, and
 * the two other Unicode letters that fold to ASCII: U+017F (long s) and U+212A (Kelvin sign). So
 * "Ho\u017ftConfig" is HostConfig to Docker. */
static unsigned char key_take_folded(const char **at)
{
    if (strncmp(*at, "\xc5\xbf", 2) == 0) {
        *at += 2;
        return 's';
    }
    if (strncmp(*at, "\xe2\x84\xaa", 3) == 0) {
        *at += 3;
        return 'k';
    }
    return ascii_lower((unsigned char)*(*at)++);
}

/* True if Docker's reader would accept key as name, which is ASCII. */
static bool key_folds_to(const char *key, const char *name)
{
    for (; *name != '\0'; name++)
        if (*key == '\0' || key_take_folded(&key) != ascii_lower((unsigned char)*name))
            return false;
    return *key == '\0';
}

/* Returns the row that Docker's reader would choose. No table has two names that differ only in
 * case. */
static const struct body_field *field_find(const struct body_field *fields, const char *key)
{
    for (; fields->name != NULL; fields++)
        if (key_folds_to(key, fields->name))
            return fields;
    return NULL;
}

/* Copies object with each key spelt as in its row, in the order of the text. *ret_changed: a key
 * was respelt. */
static int object_fold_into(json_t *folded, json_t *object, const struct body_field *fields,
                            bool *ret_changed, const char *path, struct err *err)
{
    const char *key;
    json_t *value;

    json_object_foreach(object, key, value) {
        const struct body_field *f = field_find(fields, key);
        const char *name = f != NULL ? f->name : key;

        if (json_object_get(folded, name) != NULL)
            return err_set(err, -EINVAL, "%s%s%s: is there in two spellings", path,
                           *path != '\0' ? "." : "", name);
        if (json_object_set(folded, name, value) < 0)
            return err_errno(err, -ENOMEM, "a body");
        if (strcmp(name, key) != 0)
            *ret_changed = true;
    }
    return 0;
}

/* Respells the keys in place, so that later readers of the tree find them. Of two spellings of
 * one key Docker takes the last; here that is -EINVAL, like a repeated key. */
static int object_fold_keys(json_t *object, const struct body_field *fields, const char *path,
                            struct err *err)
{
    json_t *folded = json_object();
    bool changed = false;
    int r;

    if (folded == NULL)
        return err_errno(err, -ENOMEM, "a body");
    r = object_fold_into(folded, object, fields, &changed, path, err);
    if (r == 0 && changed) {
        (void)json_object_clear(object);
        r = json_object_update(object, folded) < 0 ? err_errno(err, -ENOMEM, "a body") : 0;
    }
    json_decref(folded);
    return r;
}

static int field_take(json_t *value, const struct body_field *f, void *dst, const char *path,
                      struct err *err)
{
    if (f->take != NULL && f->fields != NULL)
        return json_is_null(value) ? 0 : f->take(value, f, dst, path, err);
    if (body_is_empty(value) && (!f->always || json_is_null(value)))
        return 0;
    if (f->take == NULL)
        return body_fail(err, f->code, path, "%s", f->why);
    return f->take(value, f, dst, path, err);
}

/* The unknown keys of a whole body. */
struct ignored {
    const char *first;
    size_t count;
};

/* Handles a key without row. ignored: NULL below the top level of a body. */
static int field_take_unknown(const char *key, const json_t *value,
                              const struct body_elsewhere *elsewhere, struct ignored *ignored,
                              const char *path, struct err *err)
{
    if (body_is_empty(value))
        return 0;
    if (ignored == NULL)
        return body_fail(err, -EINVAL, path, "is not known here");
    for (; elsewhere->fields != NULL; elsewhere++) {
        const struct body_field *f = field_find(elsewhere->fields, key);

        if (f != NULL && !f->loose)
            return body_fail(err, elsewhere->code, path, "%s", elsewhere->why);
    }
    if (ignored->count++ == 0)
        ignored->first = key;
    return 0;
}

static int object_decode(json_t *object, const struct body_field *fields,
                         const struct body_elsewhere *elsewhere, struct ignored *ignored, void *dst,
                         const char *path, struct err *err)
{
    const char *key;
    json_t *value;
    int r;

    if (!json_is_object(object))
        return body_fail(err, -EINVAL, *path != '\0' ? path : "the body", "must be an object");
    r = object_fold_keys(object, fields, path, err);
    if (r < 0)
        return r;
    json_object_foreach(object, key, value) {
        const struct body_field *f = field_find(fields, key);
        char here[BODY_PATH_MAX];

        (void)snprintf(here, sizeof(here), "%s%s%.64s", path, *path != '\0' ? "." : "", key);
        r = f != NULL ? field_take(value, f, dst, here, err)
                      : field_take_unknown(key, value, elsewhere, ignored, here, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int body_decode(json_t *object, const struct body_field *fields, void *dst, const char *path,
                struct err *err)
{
    return object_decode(object, fields, NULL, NULL, dst, path, err);
}

int body_decode_whole(json_t *object, const struct body_field *fields,
                      const struct body_elsewhere *elsewhere, void *dst, struct err *err)
{
    struct ignored ignored = {.first = NULL};
    int r = object_decode(object, fields, elsewhere, &ignored, dst, "", err);

    if (r == 0 && ignored.count > 0)
        log_debug("docker", "unknown keys of a body are ignored: %zu, the first is %.64s",
                  ignored.count, ignored.first);
    return r;
}

int b_ignore(json_t *value, const struct body_field *field, void *dst, const char *path,
             struct err *err)
{
    (void)value;
    (void)field;
    (void)dst;
    (void)path;
    (void)err;
    return 0;
}

static void *field_member(void *dst, const struct body_field *field)
{
    return (char *)dst + field->off;
}

int b_string(json_t *value, const struct body_field *field, void *dst, const char *path,
             struct err *err)
{
    if (!json_is_string(value))
        return body_fail(err, -EINVAL, path, "must be a string");
    *(const char **)field_member(dst, field) = json_string_value(value);
    return 0;
}

int b_bool(json_t *value, const struct body_field *field, void *dst, const char *path,
           struct err *err)
{
    if (!json_is_boolean(value))
        return body_fail(err, -EINVAL, path, "must be true or false");
    *(bool *)field_member(dst, field) = json_is_true(value);
    return 0;
}

int b_number(json_t *value, const struct body_field *field, void *dst, const char *path,
             struct err *err)
{
    if (!json_is_integer(value))
        return body_fail(err, -EINVAL, path, "must be a whole number");
    *(int64_t *)field_member(dst, field) = json_integer_value(value);
    return 0;
}

int b_value(json_t *value, const struct body_field *field, void *dst, const char *path,
            struct err *err)
{
    (void)path;
    (void)err;
    *(json_t **)field_member(dst, field) = value;
    return 0;
}

int b_object(json_t *value, const struct body_field *field, void *dst, const char *path,
             struct err *err)
{
    return body_decode(value, field->fields, dst, path, err);
}
