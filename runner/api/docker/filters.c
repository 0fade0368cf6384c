#include "api/docker/filters.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "json/parse.h"

enum { FILTERS_BYTES_MAX = 16 << 10 };

struct filter {
    char *name, *value; /* owned */
};

struct filters {
    struct filter list[FILTERS_MAX];
    size_t count;
};

void filters_free(struct filters *f)
{
    for (size_t i = 0; f != NULL && i < f->count; i++) {
        free(f->list[i].name);
        free(f->list[i].value);
    }
    free(f);
}

static bool is_known(const char *name, const char *const *known)
{
    for (; *known != NULL; known++)
        if (strcmp(*known, name) == 0)
            return true;
    return false;
}

static int filters_add(struct filters *f, const char *name, const char *value, struct err *err)
{
    static const char *const flags[] = {"all", "dangling", "is-task", NULL};
    static const char *const either[] = {"1", "true", "0", "false", NULL};
    struct filter *one = &f->list[f->count];

    if (value == NULL)
        return err_set(err, -EINVAL, "filters: %.64s: must be strings", name);
    if (is_known(name, flags) && !is_known(value, either))
        return err_set(err, -EINVAL, "invalid filter '%.64s=%.64s'", name, value);
    if (f->count == FILTERS_MAX)
        return err_set(err, -E2BIG, "filters: more than %d values", FILTERS_MAX);
    *one = (struct filter){.name = strdup(name), .value = strdup(value)};
    f->count++;
    return one->name != NULL && one->value != NULL ? 0 : err_errno(err, -ENOMEM, "filters");
}

static int filters_add_all(struct filters *f, const char *name, json_t *values, struct err *err)
{
    json_t *element;
    const char *key;
    size_t i;
    int r = 0;

    if (!json_is_array(values) && !json_is_object(values))
        return err_set(err, -EINVAL, "filters: %.64s: must be a list or a map", name);
    json_array_foreach(values, i, element) {
        r = filters_add(f, name, json_string_value(element), err);
        if (r < 0)
            return r;
    }
    json_object_foreach(values, key, element) {
        if (!json_is_boolean(element))
            return err_set(err, -EINVAL, "filters: %.64s: must be true or false", name);
        if (json_is_true(element))
            r = filters_add(f, name, key, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Filters that Docker has for some object are 501, others 400. */
static int filter_unknown(const char *name, struct err *err)
{
    static const char *const dockers[] = {
        "before",  "config", "container", "daemon",  "dangling", "driver",    "event",
        "exited",  "expose", "health",    "image",   "is-task",  "isolation", "label!",
        "network", "node",   "plugin",    "publish", "scope",    "secret",    "service",
        "since",   "type",   "until",     "volume",  NULL};

    if (is_known(name, dockers))
        return err_set(err, -EOPNOTSUPP, "filter '%s' is not supported here", name);
    return err_set(err, -EINVAL, "invalid filter '%.64s'", name);
}

static int filters_parse_tree(struct filters *f, const char *text, const char *const *known,
                              struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    const char *name;
    json_t *values;
    int r;

    if (text == NULL || text[0] == '\0')
        return 0;
    r = json_parse(text, strlen(text), FILTERS_BYTES_MAX, &root, err);
    if (r < 0)
        return err_wrap(err, r, "filters");
    if (!json_is_object(root))
        return err_set(err, -EINVAL, "filters: must be an object");
    json_object_foreach(root, name, values) {
        if (!is_known(name, known))
            return filter_unknown(name, err);
        r = filters_add_all(f, name, values, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int filters_parse(const char *text, const char *const *known, struct filters **ret, struct err *err)
{
    int r;

    *ret = calloc(1, sizeof(**ret));
    if (*ret == NULL)
        return err_errno(err, -ENOMEM, "filters");
    r = filters_parse_tree(*ret, text, known, err);
    if (r < 0) {
        filters_free(*ret);
        *ret = NULL;
    }
    return r;
}

const char *filters_get(const struct filters *f, const char *name, size_t i)
{
    for (size_t k = 0; k < f->count; k++)
        if (strcmp(f->list[k].name, name) == 0 && i-- == 0)
            return f->list[k].value;
    return NULL;
}

typedef bool compare(const char *value, const char *wanted);

static bool filters_any(const struct filters *f, const char *name, const char *value, compare *is)
{
    bool asked = false;

    for (size_t i = 0; i < f->count; i++) {
        if (strcmp(f->list[i].name, name) != 0)
            continue;
        asked = true;
        if (is(value, f->list[i].value))
            return true;
    }
    return !asked;
}

static bool value_is_same(const char *value, const char *wanted)
{
    return strcmp(value, wanted) == 0;
}

static bool value_has_prefix(const char *value, const char *wanted)
{
    return strncmp(value, wanted, strlen(wanted)) == 0;
}

/* Docker takes a regular expression here. Of those only the anchors are read, with the slash that
 * names begin with in Docker: ^name$, ^/name, name$. An expression of a client is not run. */
static bool value_has_part(const char *value, const char *wanted)
{
    const bool front = wanted[0] == '^' || wanted[0] == '/';
    size_t have = strlen(value), len;
    bool back;

    wanted += wanted[0] == '^';
    wanted += wanted[0] == '/';
    len = strlen(wanted);
    back = len > 0 && wanted[len - 1] == '$';
    len -= back;
    if (len > have)
        return false;
    if (front)
        return strncmp(value, wanted, len) == 0 && (!back || len == have);
    if (back)
        return strncmp(value + have - len, wanted, len) == 0;
    return strstr(value, wanted) != NULL;
}

bool filters_match(const struct filters *f, const char *name, const char *value)
{
    return filters_any(f, name, value, value_is_same);
}

bool filters_match_prefix(const struct filters *f, const char *name, const char *value)
{
    return filters_any(f, name, value, value_has_prefix);
}

bool filters_match_part(const struct filters *f, const char *name, const char *value)
{
    return filters_any(f, name, value, value_has_part);
}

/* Matches "K=V", or "K" with any value. */
static bool has_label(char *const *labels, const char *wanted)
{
    size_t key = strcspn(wanted, "=");

    for (; labels != NULL && *labels != NULL; labels++)
        if (strncmp(*labels, wanted, key) == 0 && (*labels)[key] == '=')
            return wanted[key] == '\0' || strcmp(*labels + key, wanted + key) == 0;
    return false;
}

bool filters_match_labels(const struct filters *f, char *const *labels)
{
    for (size_t i = 0; i < f->count; i++) {
        bool wanted = strcmp(f->list[i].name, "label") == 0;

        if ((wanted || strcmp(f->list[i].name, "label!") == 0) &&
            has_label(labels, f->list[i].value) != wanted)
            return false;
    }
    return true;
}
