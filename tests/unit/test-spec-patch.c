/* What can be changed of a sandbox that exists, and that everything else stays as it was. */

#include <errno.h>

#include "base/auto.h"
#include "base/err.h"
#include "json/decode.h"
#include "json/parse.h"
#include "spec/json.h"
#include "spec/spec.h"
#include "tap.h"

static const char made[] =
    "{\"name\":\"web\",\"rootfs\":\"host\",\"command\":[\"/bin/true\"],\"env\":[\"A=1\"],"
    "\"labels\":{\"a\":\"1\",\"b\":\"2\"},\"restart\":{\"policy\":\"always\"},"
    "\"stopSignal\":\"SIGINT\",\"stopTimeoutMs\":5,\"inactivityTimeoutMs\":1000,"
    "\"hardTimeoutMs\":9000,\"limits\":{\"memory\":\"64m\"},\"network\":{\"mode\":\"internet\","
    "\"allow\":[\"10.0.0.0/8\"]}}";

static struct spec *spec_of(const char *text)
{
    auto_ptr(json_decref) json_t *root = NULL;
    struct spec *s = NULL;
    struct err err = ERR_NONE;

    CHECK_INT(json_parse(text, strlen(text), 1 << 16, &root, &err), 0);
    CHECK_INT(spec_from_json(root, &s, &err), 0);
    CHECK_STR(err.msg, "");
    return s;
}

static char *text_of(const struct spec *s)
{
    auto_ptr(json_decref) json_t *root = NULL;
    struct err err = ERR_NONE;

    CHECK_INT(spec_to_json(s, &root, &err), 0);
    return json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS);
}

/* clang-format off */
static const struct {
    const char *patch;
    const char *same; /* what a whole spec would say instead of these members of `made` */
} changes[] = {
    {"{}", "{}"},
    {"{\"labels\":{\"c\":\"3\"}}", "{\"labels\":{\"a\":\"1\",\"b\":\"2\",\"c\":\"3\"}}"},
    {"{\"labels\":{\"a\":null,\"b\":\"x\",\"z\":null}}", "{\"labels\":{\"b\":\"x\"}}"},
    {"{\"labels\":null}", "{\"labels\":{}}"},
    {"{\"labels\":{}}", "{}"},
    {"{\"share\":[\"user:7:ro\",\"group:8\"]}", "{\"share\":[\"user:7:ro\",\"group:8\"]}"},
    {"{\"share\":[]}", "{}"},
    {"{\"share\":null}", "{}"},
    {"{\"restart\":{\"policy\":\"on-failure\",\"maxRetries\":3}}", "{\"restart\":{\"policy\":\"on-failure\",\"maxRetries\":3}}"},
    {"{\"restart\":null}", "{\"restart\":{\"policy\":\"no\"}}"},
    {"{\"restart\":{\"policy\":\"no\"},\"autoRemove\":true}", "{\"restart\":{\"policy\":\"no\"},\"autoRemove\":true}"},
    {"{\"stopSignal\":9,\"stopTimeoutMs\":0}", "{\"stopSignal\":\"SIGKILL\",\"stopTimeoutMs\":0}"},
    {"{\"stopSignal\":null,\"stopTimeoutMs\":null}", "{\"stopSignal\":\"SIGTERM\",\"stopTimeoutMs\":10000}"},
    {"{\"inactivityTimeoutMs\":7}", "{\"inactivityTimeoutMs\":7}"},
    {"{\"inactivityTimeoutMs\":null}", "{\"inactivityTimeoutMs\":null}"},
};

static const struct {
    const char *patch;
    int code;
    const char *msg;
} refused[] = {
    {"{\"env\":{}}", -EINVAL, "env: cannot be changed; labels, share, restart, stopSignal, stopTimeoutMs, inactivityTimeoutMs, autoRemove and limits can"},
    {"{\"labels\":{\"a\":\"9\"},\"name\":\"x\"}", -EINVAL, "name: cannot be changed; labels, share, restart, stopSignal, stopTimeoutMs, inactivityTimeoutMs, autoRemove and limits can"},
    {"{\"policy\":\"container\"}", -EINVAL, "policy: cannot be changed; labels, share, restart, stopSignal, stopTimeoutMs, inactivityTimeoutMs, autoRemove and limits can"},
    {"{\"Labels\":{}}", -EINVAL, "Labels: cannot be changed; labels, share, restart, stopSignal, stopTimeoutMs, inactivityTimeoutMs, autoRemove and limits can"},
    {"{\"labels\":[]}", -EINVAL, "labels: must be an object of strings"},
    {"{\"share\":\"user:1\"}", -EINVAL, "share: must be an array"},
    {"{\"share\":[\"alice\"]}", -EINVAL, "share[0]: share \"alice\": must be user:UID or group:GID, perhaps with :ro"},
    {"{\"share\":[1]}", -EINVAL, "share[0]: must be a string"},
    {"{\"labels\":{\"a\":1}}", -EINVAL, "labels.a: must be a string"},
    {"{\"labels\":{\"a b\":\"1\"}}", -EINVAL, NULL},
    {"{\"restart\":\"always\"}", -EINVAL, NULL},
    {"{\"restart\":{\"policy\":\"on-failure\"},\"autoRemove\":true}", -EINVAL, "autoRemove: not with restart \"on-failure\", which starts again what would be removed; leave one of them out"},
    {"{\"restart\":{\"policy\":\"always\",\"maxRetries\":3}}", -EINVAL, NULL},
    {"{\"stopSignal\":\"SIGFOO\"}", -EINVAL, NULL},
    {"{\"stopTimeoutMs\":-1}", -ERANGE, NULL},
    {"{\"inactivityTimeoutMs\":0}", -ERANGE, NULL},
    {"{\"inactivityTimeoutMs\":\"5m\"}", -EINVAL, NULL},
};
/* clang-format on */

static int patched(const struct spec *s, const char *text, struct spec **ret, struct err *err)
{
    auto_ptr(json_decref) json_t *patch = NULL;

    CHECK_INT(json_parse(text, strlen(text), 1 << 16, &patch, err), 0);
    return spec_patch(s, patch, ret, err);
}

/* As a whole spec that says so from the beginning; and what is taken over is that, too. */
TEST(each_change)
{
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        auto_ptr(json_decref) json_t *whole = json_loads(made, 0, NULL);
        auto_ptr(json_decref) json_t *same = json_loads(changes[i].same, 0, NULL);
        auto_ptr(spec_free) struct spec *s = spec_of(made);
        auto_ptr(spec_free) struct spec *changed = NULL;
        auto_ptr(spec_free) struct spec *want = NULL;
        auto_free char *before = text_of(s), *after = NULL, *wanted = NULL;
        struct err err = ERR_NONE;

        (void)json_object_update(whole, same);
        CHECK_INT(spec_from_json(whole, &want, &err), 0);
        CHECK_INT(patched(s, changes[i].patch, &changed, &err), 0);
        CHECK_STR(err.msg, "");
        if (want == NULL || changed == NULL)
            continue;
        wanted = text_of(want);
        after = text_of(changed);
        CHECK_STR(after, wanted);
        free(after);
        after = text_of(s);
        CHECK_STR(after, before);
        spec_take_patched(s, changed);
        free(after);
        after = text_of(s);
        CHECK_STR(after, wanted);
    }
}

TEST(each_refusal)
{
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        auto_ptr(spec_free) struct spec *s = spec_of(made);
        struct spec *changed = NULL;
        struct err err = ERR_NONE;

        CHECK_INT(patched(s, refused[i].patch, &changed, &err), refused[i].code);
        if (refused[i].msg != NULL)
            CHECK_STR(err.msg, refused[i].msg);
        CHECK(err.msg[0] != '\0' && changed == NULL);
    }
}

/* A record of an older version may say that its sandbox is removed at its end, and restarted. */
TEST(what_was_allowed_once_can_be_changed)
{
    auto_ptr(spec_free) struct spec *s = spec_of(made);
    auto_ptr(spec_free) struct spec *labelled = NULL, *kept = NULL;
    struct spec *still = NULL;
    struct err err = ERR_NONE;

    s->auto_remove = true;
    CHECK_INT(patched(s, "{\"labels\":{\"c\":\"3\"}}", &labelled, &err), 0);
    CHECK_INT(patched(s, "{\"restart\":{\"policy\":\"unless-stopped\"}}", &still, &err), -EINVAL);
    CHECK_INT(patched(s, "{\"autoRemove\":false}", &kept, &err), 0);
}

/* More labels than a sandbox can have, together with those that are there. */
TEST(labels_are_bounded)
{
    auto_ptr(spec_free) struct spec *s = spec_of(made);
    auto_ptr(json_decref) json_t *patch = json_object();
    json_t *labels = json_object();
    struct spec *changed = NULL;
    struct err err = ERR_NONE;

    (void)json_object_set_new(patch, "labels", labels);
    for (int i = 0; i < SPEC_LABELS_MAX - 1; i++) {
        char key[16];

        (void)snprintf(key, sizeof(key), "k%d", i);
        (void)json_object_set_new(labels, key, json_string("v"));
    }
    CHECK_INT(spec_patch(s, patch, &changed, &err), -E2BIG);
    CHECK(strstr(err.msg, "labels") != NULL);
    (void)json_object_set_new(labels, "a", json_null());
    CHECK_INT(spec_patch(s, patch, &changed, &err), 0);
    spec_free(changed);
}

TAP_MAIN
