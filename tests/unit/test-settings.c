/* The daemon's configuration file. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "daemon/settings.h"
#include "tap.h"

static int parse(struct settings *s, const char *text, struct err *err)
{
    return settings_parse(s, text, strlen(text), "x.json", err);
}

TEST(bad_settings_are_refused)
{
    static const struct {
        const char *text, *message;
        int code;
    } rows[] = {
        {"{\"limits\":{\"maxSandboxes\":0}}",
         "x.json: limits.maxSandboxes: must be between 1 and 100000", -ERANGE},
        {"{\"policiesDir\":\"policies\"}",
         "x.json: policiesDir: 'policies' is not an absolute path", -EINVAL},
        {"{\"hostRootfs\":\"shown.json\"}",
         "x.json: hostRootfs: 'shown.json' is not an absolute path", -EINVAL},
        {"{\"network\":{\"pool4\":[\"10.0.0.0/8\",\"10.0.0.0/24\"]}}",
         "x.json: network.pool4[1]: \"10.0.0.0/24\": must have room for 8192 addresses: /19 or "
         "shorter",
         -ERANGE},
        {"{\"network\":{\"pool6\":[\"10.0.0.0/8\"]}}",
         "x.json: network.pool6[0]: \"10.0.0.0/8\": must be an IPv6 CIDR", -EINVAL},
        {"{\"network\":{\"dns\":[\"localhost\"]}}",
         "x.json: network.dns[0]: \"localhost\" is not an address", -EINVAL},
        {"{\"docker\":{\"sidecarImage\":\"Team/Proxy\"}}",
         "x.json: docker.sidecarImage: image \"Team/Proxy\": must be "
         "[REGISTRY/]NAME[:TAG][@DIGEST] with a name of lower-case letters, digits and single . _ "
         "or - between them",
         -EINVAL},
        {"{\"docker\":{\"reaperImage\":\"Team/Reaper\"}}",
         "x.json: docker.reaperImage: image \"Team/Reaper\": must be "
         "[REGISTRY/]NAME[:TAG][@DIGEST] with a name of lower-case letters, digits and single . _ "
         "or - between them",
         -EINVAL},
        {"{\"bindPrefixes\":[\"/srv/../etc\"]}",
         "x.json: bindPrefixes: '/srv/../etc' must be without //, ., .. and / at the end", -EINVAL},
        {"{\"bindPrefixes\":[\"home\"]}", "x.json: bindPrefixes: 'home' is not an absolute path",
         -EINVAL},
    };
    struct settings s;

    CHECK_INT(settings_init(&s), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct err err = ERR_NONE;

        CHECK_INT(parse(&s, rows[i].text, &err), rows[i].code);
        CHECK_STR(err.msg, rows[i].message);
    }
    for (const char *const *t = (const char *const[]){"", "[]", "{\"limit\":{}}", "{\"limits\":3}",
                                                      "{\"limits\":{\"maxExecs\":\"9\"}}", NULL};
         *t != NULL; t++) {
        struct err err = ERR_NONE;

        CHECK(parse(&s, *t, &err) < 0);
        CHECK(strncmp(err.msg, "x.json: ", 8) == 0);
    }
    CHECK_INT(s.limits.sandboxes, supervisor_limits_default().sandboxes);
    settings_done(&s);
}

TEST(what_is_said_replaces_the_default)
{
    struct supervisor_limits want = supervisor_limits_default();
    struct err err = ERR_NONE;
    struct settings s;

    CHECK_INT(settings_init(&s), 0);
    CHECK_STR(s.bind_prefixes[0], "/");
    CHECK_INT(parse(&s,
                    "{\"limits\":{\"maxSandboxes\":7,\"maxConnections\":9},\"bindPrefixes\":[\"/"
                    "srv\",\"/data\"]}",
                    &err),
              0);
    CHECK_STR(err.msg, "");
    CHECK_INT(s.limits.sandboxes, 7);
    CHECK_INT(s.http.max_connections, 9);
    CHECK_INT(s.limits.execs, supervisor_limits_default().execs);
    /* Every limit that the file does not name keeps its default. */
    want.sandboxes = 7;
    want.connections = 9;
    for (size_t i = 0; i < LIMITS_COUNT; i++)
        CHECK_INT(limit_get(&s.limits, &limits_table[i]), limit_get(&want, &limits_table[i]));
    CHECK_STR(s.bind_prefixes[1], "/data");
    CHECK(s.bind_prefixes[2] == NULL);
    CHECK(s.sidecar_image == NULL);
    CHECK_INT(parse(&s, "{\"docker\":{\"sidecarImage\":\"team/proxy:3\"}}", &err), 0);
    CHECK_STR(s.sidecar_image, "docker.io/team/proxy");
    settings_done(&s);
}

TEST(a_missing_file)
{
    struct err err = ERR_NONE;
    struct settings s;

    CHECK_INT(settings_init(&s), 0);
    CHECK_INT(settings_load(&s, "/nonexistent/x.json", &err), -ENOENT);
    CHECK_STR(err.msg, "configuration /nonexistent/x.json: No such file or directory");
    settings_done(&s);
}

TAP_MAIN
