/*
 * Changes to the spec of an existing sandbox. Only settings that the supervisor evaluates later can
 * change, not those that the launcher or init have received. Pure.
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
                                   "autoRemove"};

static int check_key(const char *key, struct err *err)
{
    const struct jpath here = {.key = key};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (strcmp(keys[i], key) == 0)
            return 0;
    return json_fail(err, -EINVAL, &here,
                     "cannot be changed; labels, share, restart, stopSignal, stopTimeoutMs, "
                     "inactivityTimeoutMs and autoRemove can");
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

/* Merges labels one by one. A value that is no object is kept for the decoder to refuse. */
static int merge_labels(json_t *target, json_t *labels)
{
    json_t *now = json_object_get(target, "labels");

    if (!json_is_object(labels) || !json_is_object(now))
        return json_object_set(target, "labels", labels) < 0 ? -ENOMEM : 0;
    return merge_object(now, labels);
}

/* Labels are merged with the existing ones; other members replace them. */
static int apply_patch(json_t *target, json_t *patch)
{
    json_t *labels = json_object_get(patch, "labels");
    int r = labels != NULL ? merge_labels(target, labels) : 0;

    if (r == 0 && labels != NULL)
        r = json_object_del(patch, "labels");
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
}
