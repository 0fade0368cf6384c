/*
 * Applies changes in Dockerfile syntax to an image's configuration. Pure functions on a JSON tree.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/err.h"
#include "image/config.h"
#include "json/parse.h"

enum { CHANGE_MAX = 64 << 10, WORD_MAX = 32, NS_PER_MS = 1000000 };

/* ---- parsing words ---- */

static const char *skip_space(const char *p)
{
    while (*p == ' ' || *p == '\t')
        p++;
    return p;
}

/*
 * Parses one word up to white space, removing quotes and backslashes; moves *at behind it. Caller
 * frees; NULL = out of memory.
 */
static char *next_word(const char **at)
{
    const char *p = skip_space(*at);
    char *word = malloc(strlen(p) + 1), quote = '\0';
    size_t n = 0;

    if (word == NULL)
        return NULL;
    for (; *p != '\0' && (quote != '\0' || (*p != ' ' && *p != '\t')); p++) {
        if (quote == '\0' && (*p == '"' || *p == '\''))
            quote = *p;
        else if (*p == quote && quote != '\0')
            quote = '\0';
        else if (*p == '\\' && quote != '\'' && p[1] != '\0')
            word[n++] = *++p;
        else
            word[n++] = *p;
    }
    word[n] = '\0';
    *at = p;
    return word;
}

/* Parses the JSON form of an instruction; NULL if the text is not in it. */
static json_t *json_form(const char *text)
{
    auto_ptr(json_decref) json_t *root = NULL;
    auto_free char *object = NULL;
    json_t *list, *element;
    size_t i;

    if (text[0] != '[' || asprintf(&object, "{\"list\":%s}", text) < 0) {
        if (text[0] == '[')
            object = NULL;
        return NULL;
    }
    if (json_parse(object, strlen(object), CHANGE_MAX + WORD_MAX, &root, NULL) < 0)
        return NULL;
    list = json_object_get(root, "list");
    if (!json_is_array(list) || json_object_size(root) != 1)
        return NULL;
    json_array_foreach(list, i, element)
        if (!json_is_string(element))
            return NULL;
    return json_incref(list);
}

/* ---- instructions ---- */

static json_t *make_command(const char *text)
{
    json_t *list = json_form(text);

    return list != NULL ? list : json_pack("[s, s, s]", "/bin/sh", "-c", text);
}

static int set_entrypoint(json_t *config, const char *text)
{
    (void)json_object_del(config, "Cmd"); /* Cmd held arguments of the old entry point */
    return json_object_set_new(config, "Entrypoint", make_command(text));
}

static int set_cmd(json_t *config, const char *text)
{
    return json_object_set_new(config, "Cmd", make_command(text));
}

static int set_text(json_t *config, const char *key, const char *text)
{
    auto_free char *word = next_word(&text);

    if (word == NULL)
        return -ENOMEM;
    if (word[0] == '\0' || *skip_space(text) != '\0')
        return -EINVAL;
    return json_object_set_new(config, key, json_string(word));
}

static int set_user(json_t *config, const char *text)
{
    return set_text(config, "User", text);
}

/* A relative path is appended to the previous one. */
static int set_workdir(json_t *config, const char *text)
{
    const char *old = json_string_value(json_object_get(config, "WorkingDir"));
    auto_free char *word = next_word(&text), *path = NULL;

    if (word == NULL)
        return -ENOMEM;
    if (word[0] == '\0' || *skip_space(text) != '\0')
        return -EINVAL;
    if (word[0] == '/')
        return json_object_set_new(config, "WorkingDir", json_string(word));
    if (asprintf(&path, "%s/%s", old != NULL && strcmp(old, "/") != 0 ? old : "", word) < 0) {
        path = NULL;
        return -ENOMEM;
    }
    return json_object_set_new(config, "WorkingDir", json_string(path));
}

static int set_stop_signal(json_t *config, const char *text)
{
    return set_text(config, "StopSignal", text);
}

static json_t *sub_object(json_t *config, const char *key)
{
    json_t *object = json_object_get(config, key);

    if (json_is_object(object))
        return object;
    object = json_object();
    return json_object_set_new(config, key, object) == 0 ? object : NULL;
}

static int put_pair(json_t *config, const char *key, bool is_env, const char *name, size_t len,
                    const char *value)
{
    json_t *list, *element;
    auto_free char *entry = NULL;
    size_t i;

    if (len == 0)
        return -EINVAL;
    if (!is_env) {
        json_t *labels = sub_object(config, key);

        return labels == NULL ? -ENOMEM
                              : json_object_setn_new(labels, name, len, json_string(value));
    }
    list = json_object_get(config, key);
    if (!json_is_array(list)) {
        list = json_array();
        if (json_object_set_new(config, key, list) < 0)
            return -ENOMEM;
    }
    if (asprintf(&entry, "%.*s=%s", (int)len, name, value) < 0) {
        entry = NULL;
        return -ENOMEM;
    }
    json_array_foreach(list, i, element) {
        const char *old = json_string_value(element);

        if (old != NULL && strncmp(old, entry, len + 1) == 0)
            return json_array_set_new(list, i, json_string(entry));
    }
    return json_array_append_new(list, json_string(entry));
}

/* Parses KEY=VALUE…, or KEY followed by the value. */
static int set_pairs(json_t *config, const char *key, bool is_env, const char *text)
{
    size_t plain = strcspn(text, " \t=");
    int r = 0;

    if (text[plain] != '=')
        return text[plain] == '\0'
                   ? -EINVAL
                   : put_pair(config, key, is_env, text, plain, skip_space(text + plain));
    while (r == 0 && *skip_space(text) != '\0') {
        auto_free char *word = next_word(&text);
        size_t len = word != NULL ? strcspn(word, "=") : 0;

        if (word == NULL)
            return -ENOMEM;
        r = word[len] == '=' ? put_pair(config, key, is_env, word, len, word + len + 1) : -EINVAL;
    }
    return r;
}

static int set_env(json_t *config, const char *text)
{
    return set_pairs(config, "Env", true, text);
}

static int set_label(json_t *config, const char *text)
{
    return set_pairs(config, "Labels", false, text);
}

static int set_keys(json_t *config, const char *key, const char *suffix, json_t *list)
{
    json_t *object = sub_object(config, key), *element;
    size_t i;
    int r = object != NULL ? 0 : -ENOMEM;

    json_array_foreach(list, i, element) {
        auto_free char *name = NULL;
        const char *text = json_string_value(element);

        if (r == 0 && asprintf(&name, "%s%s", text, strchr(text, '/') == NULL ? suffix : "") < 0) {
            name = NULL;
            r = -ENOMEM;
        }
        if (r == 0)
            r = json_object_set_new(object, name, json_object());
    }
    json_decref(list);
    return r;
}

static json_t *parse_words(const char *text)
{
    json_t *list = json_form(text);

    if (list != NULL)
        return list;
    list = json_array();
    while (*skip_space(text) != '\0') {
        auto_free char *word = next_word(&text);

        if (word == NULL || json_array_append_new(list, json_string(word)) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static int set_volume(json_t *config, const char *text)
{
    return set_keys(config, "Volumes", "", parse_words(text));
}

static int set_expose(json_t *config, const char *text)
{
    return set_keys(config, "ExposedPorts", "/tcp", parse_words(text));
}

static int set_on_build(json_t *config, const char *text)
{
    json_t *list = json_object_get(config, "OnBuild");

    if (!json_is_array(list)) {
        list = json_array();
        if (json_object_set_new(config, "OnBuild", list) < 0)
            return -ENOMEM;
    }
    return json_array_append_new(list, json_string(text));
}

/* Converts "30s", "1.5m", "1h" to nanoseconds, the unit in image configurations. */
static int parse_duration_ns(const char *text, json_int_t *ret)
{
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}};
    char *end = NULL;
    double n = strtod(text, &end);

    if (end == text || n < 0 || n > 1e6)
        return -EINVAL;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strcmp(end, units[i].unit) == 0) {
            *ret = (json_int_t)(n * units[i].ns);
            return 0;
        }
    return -EINVAL;
}

static int health_option(json_t *health, const char *word)
{
    static const struct {
        const char *name, *key;
    } rows[] = {{"--interval=", "Interval"},
                {"--timeout=", "Timeout"},
                {"--start-period=", "StartPeriod"},
                {"--start-interval=", "StartInterval"}};
    json_int_t n = 0;

    if (strncmp(word, "--retries=", 10) == 0) {
        n = strtoll(word + 10, NULL, 10);
        return n < 0 ? -EINVAL : json_object_set_new(health, "Retries", json_integer(n));
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strncmp(word, rows[i].name, strlen(rows[i].name)) == 0)
            return parse_duration_ns(word + strlen(rows[i].name), &n) < 0
                       ? -EINVAL
                       : json_object_set_new(health, rows[i].key, json_integer(n));
    return -EINVAL;
}

static int set_health(json_t *config, const char *text)
{
    auto_ptr(json_decref) json_t *health = json_object();
    json_t *test, *list;

    while (strncmp(text, "--", 2) == 0) {
        auto_free char *word = next_word(&text);

        if (word == NULL || health_option(health, word) < 0)
            return -EINVAL;
        text = skip_space(text);
    }
    if (strcasecmp(text, "NONE") == 0) {
        test = json_pack("[s]", "NONE");
    } else if (strncasecmp(text, "CMD", 3) == 0 && (text[3] == ' ' || text[3] == '\t')) {
        text = skip_space(text + 3);
        list = json_form(text);
        test = list != NULL ? json_pack("[s]", "CMD") : json_pack("[s, s]", "CMD-SHELL", text);
        if (list != NULL)
            (void)json_array_extend(test, list);
        json_decref(list);
    } else {
        return -EINVAL;
    }
    if (json_object_set_new(health, "Test", test) < 0)
        return -ENOMEM;
    return json_object_set(config, "Healthcheck", health);
}

static const struct {
    const char *word;
    int (*set)(json_t *config, const char *text);
} instructions[] = {
    {"CMD", set_cmd},          {"ENTRYPOINT", set_entrypoint}, {"ENV", set_env},
    {"EXPOSE", set_expose},    {"LABEL", set_label},           {"USER", set_user},
    {"VOLUME", set_volume},    {"WORKDIR", set_workdir},       {"STOPSIGNAL", set_stop_signal},
    {"ONBUILD", set_on_build}, {"HEALTHCHECK", set_health},
};

int image_config_change(json_t *tree, const char *change, struct err *err)
{
    const char *rest = skip_space(change);
    size_t len = strcspn(rest, " \t=");
    json_t *config = sub_object(tree, "config");

    if (config == NULL)
        return err_errno(err, -ENOMEM, "change");
    if (strlen(change) > CHANGE_MAX)
        return err_set(err, -E2BIG, "change \"%.32s...\": longer than %d bytes", change,
                       CHANGE_MAX);
    for (size_t i = 0; i < sizeof(instructions) / sizeof(instructions[0]); i++) {
        int r;

        if (strlen(instructions[i].word) != len ||
            strncasecmp(instructions[i].word, rest, len) != 0)
            continue;
        rest += len;
        /* docker accepts "CMD=x" as well */
        rest = skip_space(*rest == '=' ? rest + 1 : rest);
        r = *rest != '\0' ? instructions[i].set(config, rest) : -EINVAL;
        /* jansson returns -1 for out of memory, and for texts that are not UTF-8. */
        if (r == -1)
            r = -ENOMEM;
        return r < 0 ? err_errno(err, r, "change \"%.128s\"", change) : 0;
    }
    return err_set(err, -EINVAL,
                   "change \"%.128s\": must begin with CMD, ENTRYPOINT, ENV, EXPOSE, LABEL, USER, "
                   "VOLUME, WORKDIR, STOPSIGNAL, HEALTHCHECK or ONBUILD",
                   change);
}
