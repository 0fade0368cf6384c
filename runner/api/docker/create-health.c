/* Translates Healthcheck of POST /containers/create into the spec's "healthcheck". */
#include <errno.h>
#include <stddef.h>

#include "api/docker/common.h"
#include "api/docker/create-body-internal.h"
#include "base/err.h"
#include "spec/spec.h"

enum { NS_PER_MS = 1000000 };

struct health_body {
    json_t *test; /* borrowed */
    int64_t interval, timeout, start_period, start_interval, retries;
};

#define HEALTH(key, fn, member)                                                                    \
    {                                                                                              \
        .name = (key), .take = (fn), .off = offsetof(struct health_body, member)                   \
    }

static const struct body_field fields[] = {
    HEALTH("Test", b_value, test),
    HEALTH("Interval", b_number, interval),
    HEALTH("Timeout", b_number, timeout),
    HEALTH("StartPeriod", b_number, start_period),
    HEALTH("StartInterval", b_number, start_interval),
    HEALTH("Retries", b_number, retries),
    {0},
};

/* Like in Docker, 0 is the default and less than a millisecond is an error. */
static int health_put_time(json_t *health, const char *key, int64_t ns, const char *path,
                           struct err *err)
{
    if (ns == 0)
        return 0;
    if (ns < NS_PER_MS)
        return body_fail(err, -EINVAL, path, "%s: must be 0, or 1 ms (in nanoseconds) and more",
                         key);
    return docker_put(health, key, json_integer(ns / NS_PER_MS)) ? 0 : create_no_memory(err);
}

static int health_put_times(json_t *health, const struct health_body *b, const char *path,
                            struct err *err)
{
    const struct {
        const char *key;
        int64_t ns;
    } times[] = {{"intervalMs", b->interval},
                 {"timeoutMs", b->timeout},
                 {"startPeriodMs", b->start_period},
                 {"startIntervalMs", b->start_interval}};
    int r = 0;

    if (!docker_put(health, "test", json_incref(b->test)))
        return create_no_memory(err);
    for (size_t i = 0; r == 0 && i < sizeof(times) / sizeof(times[0]); i++)
        r = health_put_time(health, times[i].key, times[i].ns, path, err);
    if (r == 0 && b->retries != 0 && !docker_put(health, "retries", json_integer(b->retries)))
        r = create_no_memory(err);
    return r;
}

/* Like in Docker, without a test these are times for the image's check. */
static int health_keep_times(struct create_body *out, const struct health_body *b, const char *path,
                             struct err *err)
{
    const int64_t times[] = {b->interval, b->timeout, b->start_period, b->start_interval};

    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
        if (times[i] != 0 && (times[i] < NS_PER_MS || times[i] / NS_PER_MS > SPEC_TIME_MAX_MS))
            return body_fail(err, -EINVAL, path,
                             "a time must be 0, or 1 ms (in nanoseconds) to a year");
    if (b->retries < 0 || b->retries > SPEC_HEALTH_RETRIES_MAX)
        return body_fail(err, -EINVAL, path, "Retries: must be 0 to %d", SPEC_HEALTH_RETRIES_MAX);
    out->health = (struct create_health_times){.interval_ms = b->interval / NS_PER_MS,
                                               .timeout_ms = b->timeout / NS_PER_MS,
                                               .start_period_ms = b->start_period / NS_PER_MS,
                                               .start_interval_ms = b->start_interval / NS_PER_MS,
                                               .retries = b->retries};
    out->has_health_times = true;
    return 0;
}

int t_health(json_t *value, const struct body_field *field, void *dst, const char *path,
             struct err *err)
{
    struct health_body b = {.test = NULL};
    json_t *health;
    int r = body_decode(value, fields, &b, path, err);

    (void)field;
    if (r < 0)
        return r;
    if (b.test == NULL || (json_is_array(b.test) && json_array_size(b.test) == 0))
        return health_keep_times(((struct making *)dst)->out, &b, path, err);
    r = create_check_strings(b.test, path, err);
    if (r < 0)
        return r;
    health = json_object();
    r = health != NULL ? health_put_times(health, &b, path, err) : create_no_memory(err);
    if (r < 0) {
        json_decref(health);
        return r;
    }
    return create_put(dst, "healthcheck", health, err);
}
