/*
 * The decoder behind image/config.h. Pure functions; called in the thread pool or the command
 * line's process.
 */

#include "image/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "json/decode.h"
#include "json/parse.h"

enum {
    STRING_MAX =
        131071, /* bytes of one string: the kernel's limit for one argument (MAX_ARG_STRLEN - 1) */
    NS_PER_MS = 1000000,
};

/* ---- one member ---- */

static int type_error(struct err *err, const char *key, const char *want)
{
    return err_set(err, -EINVAL, "%s: must be %s", key, want);
}

/* Copies a string member; *ret stays NULL if it is missing or empty. */
static int get_string(json_t *object, const char *key, size_t max, char **ret, struct err *err)
{
    json_t *value = json_object_get(object, key);

    if (value == NULL || json_is_null(value))
        return 0;
    if (!json_is_string(value))
        return type_error(err, key, "a string");
    if (json_string_length(value) > max)
        return err_set(err, -E2BIG, "%s: longer than %zu bytes", key, max);
    if (json_string_length(value) == 0)
        return 0;
    *ret = strdup(json_string_value(value));
    return *ret != NULL ? 0 : err_errno(err, -ENOMEM, "%s", key);
}

static int add_string(char **list, size_t at, const char *text, const char *key, struct err *err)
{
    if (strlen(text) > STRING_MAX)
        return err_set(err, -E2BIG, "%s[%zu]: longer than %d bytes", key, at, STRING_MAX);
    list[at] = strdup(text);
    return list[at] != NULL ? 0 : err_errno(err, -ENOMEM, "%s", key);
}

static char **list_new(size_t count)
{
    return calloc(count + 1, sizeof(char *));
}

static int check_count(size_t count, size_t max, const char *key, struct err *err)
{
    return count <= max ? 0 : err_set(err, -E2BIG, "%s: more than %zu entries", key, max);
}

/*
 * Copies an array of strings; *ret stays NULL if it is missing or empty. keep: filter for the
 * elements, or NULL.
 */
static int get_strings(json_t *object, const char *key, size_t max, bool (*keep)(const char *text),
                       char ***ret, struct err *err)
{
    json_t *value = json_object_get(object, key), *element;
    size_t i, n = 0;
    int r;

    if (value == NULL || json_is_null(value) ||
        (json_is_array(value) && json_array_size(value) == 0))
        return 0;
    if (!json_is_array(value))
        return type_error(err, key, "an array of strings");
    r = check_count(json_array_size(value), max, key, err);
    if (r < 0)
        return r;
    *ret = list_new(json_array_size(value));
    if (*ret == NULL)
        return err_errno(err, -ENOMEM, "%s", key);
    json_array_foreach(value, i, element) {
        if (!json_is_string(element))
            return type_error(err, key, "an array of strings");
        if (keep != NULL && !keep(json_string_value(element)))
            continue;
        r = add_string(*ret, n++, json_string_value(element), key, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Returns 1 and the object, with a list large enough for its members; 0: no such member. */
static int get_object(json_t *object, const char *key, json_t **ret_value, char ***ret,
                      struct err *err)
{
    json_t *value = json_object_get(object, key);
    int r;

    if (value == NULL || json_is_null(value))
        return 0;
    if (!json_is_object(value))
        return type_error(err, key, "an object");
    r = check_count(json_object_size(value), IMAGE_STRINGS_MAX, key, err);
    if (r < 0)
        return r;
    *ret = list_new(json_object_size(value));
    if (*ret == NULL)
        return err_errno(err, -ENOMEM, "%s", key);
    *ret_value = value;
    return 1;
}

/* Copies the keys of an object, which is how sets are encoded. */
static int get_keys(json_t *object, const char *key, bool (*keep)(const char *text), char ***ret,
                    struct err *err)
{
    json_t *value, *unused;
    const char *name;
    size_t n = 0;
    int r = get_object(object, key, &value, ret, err);

    if (r <= 0)
        return r;
    json_object_foreach(value, name, unused) {
        if (keep != NULL && !keep(name))
            continue;
        r = add_string(*ret, n++, name, key, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int get_labels(json_t *object, const char *key, char ***ret, struct err *err)
{
    json_t *value, *text;
    const char *name;
    size_t n = 0;
    int r = get_object(object, key, &value, ret, err);

    if (r <= 0)
        return r;
    json_object_foreach(value, name, text) {
        if (!json_is_string(text))
            return type_error(err, key, "an object of strings");
        if (json_string_length(text) + strlen(name) > STRING_MAX)
            return err_set(err, -E2BIG, "%s: an entry is longer than %d bytes", key, STRING_MAX);
        if (name[0] == '\0' || strchr(name, '=') != NULL)
            continue; /* cannot be written as KEY=VALUE */
        if (asprintf(&(*ret)[n], "%s=%s", name, json_string_value(text)) < 0) {
            (*ret)[n] = NULL;
            return err_errno(err, -ENOMEM, "%s", key);
        }
        n++;
    }
    return 0;
}

static int get_integer(json_t *object, const char *key, int64_t unit, int64_t *ret, struct err *err)
{
    json_t *value = json_object_get(object, key);

    if (value == NULL || json_is_null(value))
        return 0;
    if (!json_is_integer(value))
        return type_error(err, key, "a whole number");
    /* A negative number counts as missing. */
    if (json_integer_value(value) > 0)
        *ret = json_integer_value(value) / unit;
    return 0;
}

/* ---- filters ---- */

static bool keep_env(const char *text)
{
    const char *equals = strchr(text, '=');

    if (equals == NULL || equals == text)
        return false;
    for (const char *p = text; p < equals; p++)
        if ((unsigned char)*p <= ' ' || *p == 0x7f)
            return false;
    return true;
}

static bool keep_port(const char *text)
{
    size_t n = strspn(text, "0123456789");
    unsigned long port = strtoul(text, NULL, 10);

    return n > 0 && n <= 5 && port >= 1 && port <= 65535 &&
           (text[n] == '\0' || strcmp(text + n, "/tcp") == 0 || strcmp(text + n, "/udp") == 0);
}

static bool keep_path(const char *text)
{
    return text[0] == '/' && strlen(text) < 4096;
}

/* ---- the parts of a configuration ---- */

static int get_health(json_t *object, struct image_health *h, struct err *err)
{
    json_t *health = json_object_get(object, "Healthcheck");
    int r;

    if (health == NULL || json_is_null(health))
        return 0;
    if (!json_is_object(health))
        return type_error(err, "Healthcheck", "an object");
    r = json_check_folded(health, NULL, err);
    if (r == 0)
        r = get_strings(health, "Test", IMAGE_STRINGS_MAX, NULL, &h->test, err);
    if (r == 0)
        r = get_integer(health, "Interval", NS_PER_MS, &h->interval_ms, err);
    if (r == 0)
        r = get_integer(health, "Timeout", NS_PER_MS, &h->timeout_ms, err);
    if (r == 0)
        r = get_integer(health, "StartPeriod", NS_PER_MS, &h->start_period_ms, err);
    if (r == 0)
        r = get_integer(health, "StartInterval", NS_PER_MS, &h->start_interval_ms, err);
    if (r == 0)
        r = get_integer(health, "Retries", 1, &h->retries, err);
    return r < 0 ? err_wrap(err, r, "Healthcheck") : 0;
}

static int get_execution(json_t *root, struct image_config *c, struct err *err)
{
    json_t *config = json_object_get(root, "config");
    int r;

    if (config == NULL || json_is_null(config))
        return 0;
    if (!json_is_object(config))
        return type_error(err, "config", "an object");
    r = json_check_folded(config, NULL, err);
    if (r == 0)
        r = get_strings(config, "Entrypoint", IMAGE_STRINGS_MAX, NULL, &c->entrypoint, err);
    if (r == 0)
        r = get_strings(config, "Cmd", IMAGE_STRINGS_MAX, NULL, &c->cmd, err);
    if (r == 0)
        r = get_strings(config, "Env", IMAGE_STRINGS_MAX, keep_env, &c->env, err);
    if (r == 0)
        r = get_strings(config, "OnBuild", IMAGE_STRINGS_MAX, NULL, &c->on_build, err);
    if (r == 0)
        r = get_strings(config, "Shell", IMAGE_STRINGS_MAX, NULL, &c->shell, err);
    if (r == 0)
        r = get_keys(config, "Volumes", keep_path, &c->volumes, err);
    if (r == 0)
        r = get_keys(config, "ExposedPorts", keep_port, &c->exposed, err);
    if (r == 0)
        r = get_labels(config, "Labels", &c->labels, err);
    if (r == 0)
        r = get_string(config, "User", 511, &c->user, err);
    if (r == 0)
        r = get_string(config, "WorkingDir", 4095, &c->cwd, err);
    if (r == 0)
        r = get_string(config, "StopSignal", 64, &c->stop_signal, err);
    if (r == 0)
        r = get_health(config, &c->health, err);
    return r < 0 ? err_wrap(err, r, "config") : 0;
}

static int get_layers(json_t *root, struct image_config *c, struct err *err)
{
    json_t *rootfs = json_object_get(root, "rootfs");
    int r;

    if (!json_is_object(rootfs))
        return type_error(err, "rootfs", "an object");
    r = json_check_folded(rootfs, NULL, err);
    if (r == 0)
        r = get_strings(rootfs, "diff_ids", IMAGE_LAYERS_MAX, NULL, &c->diff_ids, err);
    for (char **id = c->diff_ids; r == 0 && id != NULL && *id != NULL; id++) {
        c->layer_count++;
        if (!digest_ok(*id))
            r = err_set(err, -EINVAL,
                        "diff_ids[%zu]: \"%.80s\" is not sha256: and 64 hexadecimal digits",
                        c->layer_count - 1, *id);
    }
    return r < 0 ? err_wrap(err, r, "rootfs") : 0;
}

static int get_history_entry(json_t *entry, struct image_history *h, struct err *err)
{
    json_t *empty = json_object_get(entry, "empty_layer");
    int r;

    if (!json_is_object(entry))
        return type_error(err, "history", "an array of objects");
    if (empty != NULL && !json_is_boolean(empty) && !json_is_null(empty))
        return type_error(err, "history: empty_layer", "true or false");
    h->empty_layer = json_is_true(empty);
    r = get_string(entry, "created", 64, &h->created, err);
    if (r == 0)
        r = get_string(entry, "created_by", IMAGE_CONFIG_MAX, &h->created_by, err);
    if (r == 0)
        r = get_string(entry, "comment", IMAGE_CONFIG_MAX, &h->comment, err);
    return r;
}

/* The history is optional and informational. */
static int get_history(json_t *root, struct image_config *c, struct err *err)
{
    json_t *history = json_object_get(root, "history"), *entry;
    size_t i;

    if (history == NULL || json_is_null(history))
        return 0;
    if (!json_is_array(history))
        return type_error(err, "history", "an array");
    if (json_array_size(history) > IMAGE_HISTORY_MAX)
        return err_set(err, -E2BIG, "history: more than %d entries", IMAGE_HISTORY_MAX);
    c->history = calloc(json_array_size(history) + 1, sizeof(*c->history));
    if (c->history == NULL)
        return err_errno(err, -ENOMEM, "history");
    json_array_foreach(history, i, entry) {
        int r = get_history_entry(entry, &c->history[c->history_count++], err);

        if (r < 0)
            return r;
    }
    return 0;
}

int image_config_decode(json_t *root, struct image_config **ret, struct err *err)
{
    auto_ptr(image_config_free) struct image_config *c = calloc(1, sizeof(*c));
    int r;

    if (c == NULL)
        return err_errno(err, -ENOMEM, "configuration");
    r = json_check_folded(root, NULL, err);
    if (r == 0)
        r = get_string(root, "os", 64, &c->os, err);
    if (r == 0)
        r = get_string(root, "architecture", 64, &c->architecture, err);
    if (r == 0)
        r = get_string(root, "variant", 64, &c->variant, err);
    if (r == 0)
        r = get_string(root, "created", 64, &c->created, err);
    if (r == 0)
        r = get_string(root, "author", 4096, &c->author, err);
    if (r == 0)
        r = get_execution(root, c, err);
    if (r == 0)
        r = get_layers(root, c, err);
    if (r == 0)
        r = get_history(root, c, err);
    if (r == 0)
        *ret = take(c);
    return r;
}

int image_config_parse(const char *text, size_t len, struct image_config **ret, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    int r = json_parse(text, len, IMAGE_CONFIG_MAX, &root, err);

    return r < 0 ? r : image_config_decode(root, ret, err);
}

static void config_done(struct image_config *c)
{
    char **const lists[] = {c->entrypoint, c->cmd,   c->env,         c->labels,   c->volumes,
                            c->exposed,    c->shell, c->health.test, c->on_build, c->diff_ids};
    char *const texts[] = {c->os,     c->architecture, c->variant, c->created,
                           c->author, c->user,         c->cwd,     c->stop_signal};

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        json_strings_free(lists[i]);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        free(texts[i]);
    for (size_t i = 0; i < c->history_count; i++) {
        free(c->history[i].created);
        free(c->history[i].created_by);
        free(c->history[i].comment);
    }
    free(c->history);
}

size_t image_config_shorten(struct image_config *c)
{
    struct image_config rest = *c;
    size_t bytes = 0;

    *c = (struct image_config){.labels = rest.labels};
    rest.labels = NULL;
    config_done(&rest);
    for (char *const *l = c->labels; l != NULL && *l != NULL; l++)
        bytes += strlen(*l) + 1 + sizeof(*l);
    return bytes;
}

void image_config_free(struct image_config *c)
{
    if (c != NULL)
        config_done(c);
    free(c);
}
