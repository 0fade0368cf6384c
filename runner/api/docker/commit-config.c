/* Translates a commit's body. Pure; called by commit.c in the supervisor's loop thread. */
#include "api/docker/commit-config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/docker/body.h"
#include "api/docker/create-body.h"
#include "base/auto.h"
#include "base/err.h"
#include "image/change-text.h"
#include "json/decode.h"
#include "json/parse.h"

enum { CHANGES_MAX = 4096, NS_PER_MS = 1000000, NS_PER_S = 1000000000, SPAN_MAX = 1000000 };

struct commit_changes {
    char *list[CHANGES_MAX + 1]; /* [0]: of Entrypoint, or NULL. It drops the Cmd that belongs to
                                  * the old one, so it comes first */
    size_t count;
};

/* Takes text. r: of the call that made it. */
static int changes_add(struct commit_changes *c, int r, char *text, const char *path,
                       struct err *err)
{
    if (r == 0 && c->count == CHANGES_MAX) {
        free(text);
        return body_fail(err, -E2BIG, path, "more than %d changes", CHANGES_MAX);
    }
    if (r < 0)
        return body_fail(err, r, path, "%s", strerror(-r));
    c->list[c->count++] = text;
    return 0;
}

static int changes_add_word(struct commit_changes *c, const char *instruction, json_t *value,
                            const char *path, struct err *err)
{
    const char *word = json_string_value(value);
    char *text = NULL;
    int r;

    if (word == NULL)
        return body_fail(err, -EINVAL, path, "must be a string");
    r = image_change_word(instruction, word, &text);
    return changes_add(c, r, text, path, err);
}

static int changes_add_list(struct commit_changes *c, const char *instruction, json_t *list,
                            const char *path, struct err *err)
{
    char *text = NULL;
    json_t *element;
    size_t i;
    int r;

    json_array_foreach(list, i, element)
        if (!json_is_string(element))
            return body_fail(err, -EINVAL, path, "must be an array of strings");
    r = image_change_list(instruction, list, &text);
    return changes_add(c, r, text, path, err);
}

/* ---- rows ---- */

static int c_user(json_t *value, const struct body_field *field, void *dst, const char *path,
                  struct err *err)
{
    (void)field;
    return changes_add_word(dst, "USER", value, path, err);
}

static int c_workdir(json_t *value, const struct body_field *field, void *dst, const char *path,
                     struct err *err)
{
    (void)field;
    if (json_is_string(value) && json_string_value(value)[0] != '/')
        return body_fail(err, -EINVAL, path, "must be an absolute path");
    return changes_add_word(dst, "WORKDIR", value, path, err);
}

static int c_stop_signal(json_t *value, const struct body_field *field, void *dst, const char *path,
                         struct err *err)
{
    (void)field;
    return changes_add_word(dst, "STOPSIGNAL", value, path, err);
}

/* A string is a list of one, as Docker reads it. */
static int changes_add_command(struct commit_changes *c, const char *instruction, json_t *value,
                               const char *path, struct err *err)
{
    auto_ptr(json_decref) json_t *one = json_is_string(value) ? json_pack("[O]", value) : NULL;

    if (one == NULL && !json_is_array(value))
        return body_fail(err, -EINVAL, path, "must be an array of strings");
    return changes_add_list(c, instruction, one != NULL ? one : value, path, err);
}

static int c_entrypoint(json_t *value, const struct body_field *field, void *dst, const char *path,
                        struct err *err)
{
    struct commit_changes *c = dst;
    int r = changes_add_command(c, "ENTRYPOINT", value, path, err);

    (void)field;
    if (r == 0)
        c->list[0] = c->list[--c->count];
    return r;
}

static int c_cmd(json_t *value, const struct body_field *field, void *dst, const char *path,
                 struct err *err)
{
    (void)field;
    return changes_add_command(dst, "CMD", value, path, err);
}

/* An entry without a value sets nothing in an image. */
static int c_env(json_t *value, const struct body_field *field, void *dst, const char *path,
                 struct err *err)
{
    json_t *element;
    size_t i;
    int r = 0;

    (void)field;
    if (!json_is_array(value))
        return body_fail(err, -EINVAL, path, "must be an array of strings");
    json_array_foreach(value, i, element) {
        if (json_is_string(element) && strchr(json_string_value(element), '=') == NULL)
            continue;
        r = changes_add_word(dst, "ENV", element, path, err);
        if (r < 0)
            return r;
    }
    return r;
}

static int c_labels(json_t *value, const struct body_field *field, void *dst, const char *path,
                    struct err *err)
{
    const char *key;
    json_t *element;

    (void)field;
    if (!json_is_object(value))
        return body_fail(err, -EINVAL, path, "must be an object of strings");
    json_object_foreach(value, key, element) {
        auto_ptr(json_decref) json_t *pair =
            json_is_string(element) ? json_sprintf("%s=%s", key, json_string_value(element)) : NULL;
        int r;

        if (pair == NULL)
            return body_fail(err, -EINVAL, path, "must be an object of strings");
        r = changes_add_word(dst, "LABEL", pair, path, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int changes_add_keys(struct commit_changes *c, const char *instruction, json_t *value,
                            const char *path, struct err *err)
{
    auto_ptr(json_decref) json_t *list = json_array();
    const char *key;
    json_t *unused;

    if (!json_is_object(value))
        return body_fail(err, -EINVAL, path, "must be an object");
    json_object_foreach(value, key, unused)
        (void)json_array_append_new(list, json_string(key));
    return changes_add_list(c, instruction, list, path, err);
}

static int c_exposed(json_t *value, const struct body_field *field, void *dst, const char *path,
                     struct err *err)
{
    (void)field;
    return changes_add_keys(dst, "EXPOSE", value, path, err);
}

static int c_volumes(json_t *value, const struct body_field *field, void *dst, const char *path,
                     struct err *err)
{
    (void)field;
    return changes_add_keys(dst, "VOLUME", value, path, err);
}

static int c_on_build(json_t *value, const struct body_field *field, void *dst, const char *path,
                      struct err *err)
{
    struct commit_changes *c = dst;
    json_t *element;
    size_t i;

    (void)field;
    if (!json_is_array(value))
        return body_fail(err, -EINVAL, path, "must be an array of strings");
    json_array_foreach(value, i, element) {
        char *text = NULL;
        int r = json_is_string(element) ? 0 : -EINVAL;

        if (r == 0 && asprintf(&text, "ONBUILD %s", json_string_value(element)) < 0) {
            text = NULL;
            r = -ENOMEM;
        }
        r = changes_add(c, r, text, path, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- Healthcheck ---- */

struct commit_health {
    json_t *test;
    int64_t interval, timeout, start_period, start_interval, retries;
};

#define HEALTH(member) .off = offsetof(struct commit_health, member)
static const struct body_field health_fields[] = {
    {.name = "Test", .take = b_value, HEALTH(test)},
    {.name = "Interval", .take = b_number, HEALTH(interval)},
    {.name = "Timeout", .take = b_number, HEALTH(timeout)},
    {.name = "StartPeriod", .take = b_number, HEALTH(start_period)},
    {.name = "StartInterval", .take = b_number, HEALTH(start_interval)},
    {.name = "Retries", .take = b_number, HEALTH(retries)},
    {0},
};

/* Writes "--interval=500ms ". Whole milliseconds up to 1000 s and whole seconds are exact in the
 * reader's arithmetic. -EINVAL: others. */
static int health_put_span(char *text, size_t size, const char *option, int64_t ns)
{
    size_t n = strlen(text);

    if (ns == 0)
        return 0;
    if (ns > 0 && ns % NS_PER_MS == 0 && ns / NS_PER_MS <= SPAN_MAX)
        (void)snprintf(text + n, size - n, "--%s=%" PRId64 "ms ", option, ns / NS_PER_MS);
    else if (ns > 0 && ns % NS_PER_S == 0 && ns / NS_PER_S <= SPAN_MAX)
        (void)snprintf(text + n, size - n, "--%s=%" PRId64 "s ", option, ns / NS_PER_S);
    else
        return -EINVAL;
    return 0;
}

/* NULL: not a test. */
static char *health_test_text(json_t *test)
{
    auto_ptr(json_decref) json_t *rest = json_deep_copy(test);
    const char *kind = json_string_value(json_array_get(test, 0));
    char *text = NULL;

    if (kind == NULL)
        return NULL;
    if (strcmp(kind, "NONE") == 0)
        return strdup("NONE");
    if (strcmp(kind, "CMD-SHELL") == 0 && json_is_string(json_array_get(test, 1)))
        return asprintf(&text, "CMD %s", json_string_value(json_array_get(test, 1))) < 0 ? NULL
                                                                                         : text;
    if (strcmp(kind, "CMD") != 0 || json_array_size(test) < 2 || json_array_remove(rest, 0) < 0)
        return NULL;
    return image_change_list("CMD", rest, &text) < 0 ? NULL : text;
}

static int c_health(json_t *value, const struct body_field *field, void *dst, const char *path,
                    struct err *err)
{
    struct commit_health h = {0};
    char options[256] = "";
    auto_free char *test = NULL;
    char *text = NULL;
    int r = body_decode(value, health_fields, &h, path, err);

    (void)field;
    if (r < 0)
        return r;
    if (h.test == NULL)
        return body_fail(err, -EINVAL, path, "Test is missing");
    test = health_test_text(h.test);
    if (test == NULL)
        return body_fail(err, -EINVAL, path,
                         "Test must be [\"NONE\"], [\"CMD\", …] or "
                         "[\"CMD-SHELL\", …]");
    if (health_put_span(options, sizeof(options), "interval", h.interval) < 0 ||
        health_put_span(options, sizeof(options), "timeout", h.timeout) < 0 ||
        health_put_span(options, sizeof(options), "start-period", h.start_period) < 0 ||
        health_put_span(options, sizeof(options), "start-interval", h.start_interval) < 0)
        return body_fail(err, -EINVAL, path, "times must be whole milliseconds");
    if (h.retries > 0)
        (void)snprintf(options + strlen(options), sizeof(options) - strlen(options),
                       "--retries=%" PRId64 " ", h.retries);
    r = asprintf(&text, "HEALTHCHECK %s%s", options, test) < 0 ? -ENOMEM : 0;
    return changes_add(dst, r, r == 0 ? text : NULL, path, err);
}

/* ---- the body ---- */

static const struct body_field fields[] = {
    {.name = "Entrypoint", .take = c_entrypoint},
    {.name = "Cmd", .take = c_cmd},
    {.name = "Env", .take = c_env},
    {.name = "ExposedPorts", .take = c_exposed, .always = true},
    {.name = "Healthcheck", .take = c_health},
    {.name = "Labels", .take = c_labels, .always = true},
    {.name = "OnBuild", .take = c_on_build},
    {.name = "StopSignal", .take = c_stop_signal},
    {.name = "User", .take = c_user},
    {.name = "Volumes", .take = c_volumes, .always = true},
    {.name = "WorkingDir", .take = c_workdir},
    /* of a container, not of an image */
    {.name = "ArgsEscaped", .take = b_ignore},
    {.name = "AttachStderr", .take = b_ignore},
    {.name = "AttachStdin", .take = b_ignore},
    {.name = "AttachStdout", .take = b_ignore},
    {.name = "Domainname", .take = b_ignore},
    {.name = "Hostname", .take = b_ignore},
    {.name = "Image", .take = b_ignore},
    {.name = "MacAddress", .take = b_ignore},
    {.name = "OpenStdin", .take = b_ignore},
    {.name = "Shell", .take = b_ignore},
    {.name = "StdinOnce", .take = b_ignore},
    {.name = "StopTimeout", .take = b_ignore},
    {.name = "Tty", .take = b_ignore},
    {.name = "HostConfig",
     .code = -EINVAL,
     .why = "is taken when a container is created, and not here"},
    {.name = "NetworkingConfig",
     .code = -EINVAL,
     .why = "is taken when a container is created, and not here"},
    {0},
};

/* Copies the changes, which stay c's on failure. */
static char **changes_take(const struct commit_changes *c)
{
    char **list = calloc(c->count + 1, sizeof(*list));
    size_t n = 0;

    for (size_t i = 0; list != NULL && i < c->count; i++)
        if (c->list[i] != NULL)
            list[n++] = c->list[i];
    return list;
}

int commit_config_changes(json_t *body, char ***ret, struct err *err)
{
    auto_free struct commit_changes *c = calloc(1, sizeof(*c));
    char **list = NULL;
    int r;

    if (c == NULL)
        return err_errno(err, -ENOMEM, "commit");
    c->count = 1;
    r = body_decode_whole(body, fields, create_body_elsewhere, c, err);
    if (r == 0 && (list = changes_take(c)) == NULL)
        r = err_errno(err, -ENOMEM, "commit");
    for (size_t i = 0; list == NULL && i < c->count; i++)
        free(c->list[i]);
    if (r == 0)
        *ret = list;
    return r;
}
