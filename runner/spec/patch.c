/*
 * Changes to the spec of an existing sandbox. Only settings that the supervisor evaluates later can
 * change, and limits, which the launcher changes while a sandbox runs. Pure.
 */
#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "json/decode.h"
#include "json/parse.h"
#include "spec/json.h"
#include "spec/spec.h"

static const char *const keys[] = {"labels",     "share",         "restart",
                                   "stopSignal", "stopTimeoutMs", "inactivityTimeoutMs",
                                   "autoRemove", "limits"};

/* The others are a mount's or a file system's, which a sandbox has for its life. */
static const char *const limit_keys[] = {
    "memory",     "memorySwap", "memoryReservation", "cpus",     "pids",
    "cpuShares",  "cpusetCpus", "cpusetMems",        "ioWeight", "ioReadBps",
    "ioWriteBps", "ioReadIops", "ioWriteIops"};

static int check_limit_keys(const json_t *limits, struct err *err)
{
    const struct jpath here = {.key = "limits"};
    const char *key;
    const json_t *value;

    json_object_foreach((json_t *)(uintptr_t)limits, key, value) {
        const struct jpath at = {.up = &here, .key = key};
        size_t i = 0;
        const size_t count = sizeof(limit_keys) / sizeof(limit_keys[0]);

        (void)value;
        while (i < count && strcmp(limit_keys[i], key) != 0)
            i++;
        if (i == count)
            return json_fail(
                err, -EINVAL, &at,
                "cannot be changed; memory, memorySwap, memoryReservation, cpus, pids, "
                "cpuShares, cpusetCpus, cpusetMems, ioWeight and the rates of io can");
    }
    return 0;
}

static int check_key(const char *key, struct err *err)
{
    const struct jpath here = {.key = key};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (strcmp(keys[i], key) == 0)
            return 0;
    return json_fail(err, -EINVAL, &here,
                     "cannot be changed; labels, share, restart, stopSignal, stopTimeoutMs, "
                     "inactivityTimeoutMs, autoRemove and limits can");
}

/* Merges as RFC 7396: null removes a member, other values replace it. */
static int merge_object(json_t *target, json_t *patch)
{
    const char *key;
    json_t *value;

    json_object_foreach(patch, key, value) {
        if (json_is_null(value))
            (void)json_object_del(target, key);
        else if (json_object_set(target, key, value) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* Merges a member one by one. A value that is no object is kept for the decoder to refuse. */
static int merge_member(json_t *target, json_t *patch, const char *key)
{
    json_t *now = json_object_get(target, key), *value = json_object_get(patch, key);
    int r;

    if (value == NULL)
        return 0;
    if (!json_is_object(value) || !json_is_object(now))
        r = json_object_set(target, key, value) < 0 ? -ENOMEM : 0;
    else
        r = merge_object(now, value);
    return r < 0 ? r : json_object_del(patch, key);
}

/* Labels and limits are merged with the existing ones; other members replace them. */
static int apply_patch(json_t *target, json_t *patch)
{
    int r = merge_member(target, patch, "labels");

    if (r == 0)
        r = merge_member(target, patch, "limits");
    return r < 0 ? -ENOMEM : merge_object(target, patch);
}

int spec_patch(const struct spec *s, json_t *patch, struct spec **ret, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    auto_ptr(json_decref) json_t *copy = NULL;
    auto_ptr(spec_free) struct spec *changed = NULL;
    const char *key;
    json_t *value;
    int r;

    if (!json_is_object(patch))
        return err_set(err, -EINVAL, "must be a JSON object");
    r = json_check_folded(patch, NULL, err);
    if (r < 0)
        return r;
    json_object_foreach(patch, key, value) {
        r = check_key(key, err);
        if (r < 0)
            return r;
    }
    r = check_limit_keys(json_object_get(patch, "limits"), err);
    if (r == 0)
        r = spec_to_json(s, &root, err);
    if (r < 0)
        return r;
    copy = json_copy(patch);
    if (copy == NULL || apply_patch(root, copy) < 0)
        return err_errno(err, -ENOMEM, "change a sandbox");
    r = spec_from_json(root, &changed, err);
    /*
     * Older versions allowed both settings in one sandbox; its other settings can still be changed.
     */
    if (r == 0 &&
        (json_object_get(patch, "restart") != NULL || json_object_get(patch, "autoRemove") != NULL))
        r = spec_check_removal(changed, err);
    if (r == 0)
        *ret = take(changed);
    return r;
}

void spec_take_patched(struct spec *s, struct spec *from)
{
    const struct resources resources = s->resources;
    const struct share_list shares = s->shares;
    char **labels = s->labels;

    s->labels = from->labels;
    from->labels = labels;
    s->shares = from->shares;
    from->shares = shares;
    s->restart = from->restart;
    s->restart_max = from->restart_max;
    s->stop_signal = from->stop_signal;
    s->stop_timeout_ms = from->stop_timeout_ms;
    s->inactivity_ms = from->inactivity_ms;
    s->auto_remove = from->auto_remove;
    s->limits = from->limits;
    s->resources = from->resources;
    from->resources = resources;
}
