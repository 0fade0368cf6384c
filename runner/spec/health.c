/* The codec behind spec/health.h. Pure. */

#include "spec/health.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "json/decode.h"
#include "spec/spec.h"
#include "spec/strings.h"

struct health_json {
    char **test; /* owned */
    int64_t times[4], retries;
};

#define TIME(key, n)                                                                               \
    {                                                                                              \
        .name = (key), .decode = j_int64, .off = offsetof(struct health_json, times[n]), .min = 0, \
        .max = SPEC_TIME_MAX_MS, .nullable = true                                                  \
    }

static const struct jfield fields[] = {
    {.name = "test",
     .decode = j_strings,
     .off = offsetof(struct health_json, test),
     .min = 1,
     .max = 4096,
     .required = true},
    TIME("intervalMs", 0),
    TIME("timeoutMs", 1),
    TIME("startPeriodMs", 2),
    TIME("startIntervalMs", 3),
    {.name = "retries",
     .decode = j_int64,
     .off = offsetof(struct health_json, retries),
     .min = 0,
     .max = SPEC_HEALTH_RETRIES_MAX,
     .nullable = true},
    {0},
};

int spec_health_set_test(struct health_check *h, char *const *test)
{
    const bool none = test[0] != NULL && strcmp(test[0], "NONE") == 0;
    const bool shell = test[0] != NULL && strcmp(test[0], "CMD-SHELL") == 0;
    char **argv;
    size_t n = 0;
    int r = 0;

    if (none && test[1] == NULL) {
        h->none = true;
        return 0;
    }
    if (test[0] == NULL || (!shell && strcmp(test[0], "CMD") != 0) || test[1] == NULL ||
        test[1][0] == '\0' || (shell && test[2] != NULL))
        return -EINVAL;
    argv = strings_new();
    for (test++; argv != NULL && r == 0 && *test != NULL; test++)
        r = strings_append(&argv, n++, *test);
    if (argv == NULL || r < 0) {
        json_strings_free(argv);
        return -ENOMEM;
    }
    json_strings_free(h->test);
    h->test = argv;
    h->shell = shell;
    h->none = false;
    return 0;
}

int spec_health_from_json(json_t *value, struct health_check *ret, const struct jpath *path,
                          struct err *err)
{
    struct health_json j = {.times = {LIMIT_UNSET, LIMIT_UNSET, LIMIT_UNSET, LIMIT_UNSET},
                            .retries = LIMIT_UNSET};
    int r = json_decode_at(value, fields, &j, path, err);

    if (r == 0) {
        r = spec_health_set_test(ret, j.test);
        if (r < 0)
            (void)json_fail(err, r, path,
                            "test: must be [\"NONE\"], [\"CMD\", ARGUMENT...], or "
                            "[\"CMD-SHELL\", TEXT]");
    }
    json_strings_free(j.test);
    if (r < 0)
        return r;
    ret->interval_ms = j.times[0];
    ret->timeout_ms = j.times[1];
    ret->start_period_ms = j.times[2];
    ret->start_interval_ms = j.times[3];
    ret->retries = j.retries;
    return 0;
}

static void put_time(json_t *object, const char *key, int64_t n)
{
    if (n != LIMIT_UNSET)
        (void)json_object_set_new(object, key, json_integer(n));
}

json_t *spec_health_to_json(const struct health_check *h)
{
    json_t *object = json_object(), *test = json_array();
    int r = json_array_append_new(test, json_string(h->none    ? "NONE"
                                                    : h->shell ? "CMD-SHELL"
                                                               : "CMD"));

    for (char **t = h->none ? NULL : h->test; r == 0 && t != NULL && *t != NULL; t++)
        r = json_array_append_new(test, json_string(*t));
    if (object == NULL || r < 0) {
        json_decref(object);
        json_decref(test);
        return NULL;
    }
    (void)json_object_set_new(object, "test", test);
    put_time(object, "intervalMs", h->interval_ms);
    put_time(object, "timeoutMs", h->timeout_ms);
    put_time(object, "startPeriodMs", h->start_period_ms);
    put_time(object, "startIntervalMs", h->start_interval_ms);
    put_time(object, "retries", h->retries);
    return object;
}
