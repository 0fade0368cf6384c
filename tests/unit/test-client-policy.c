/* The client policy: what is refused in the file, what a spec is refused for, and that the shipped
 * one keeps its promises. */

#include <errno.h>

#include "base/auto.h"
#include "base/err.h"
#include "json/parse.h"
#include "policy/client.h"
#include "spec/client-check.h"
#include "spec/json.h"
#include "spec/spec.h"
#include "tap.h"

#define REST                                                                                       \
    "\"allowNetworks\":[\"10.1.0.0/16:443/tcp\"],\"hostPorts\":[\"8080\"],"                        \
    "\"networks\":[\"none\"],\"bindPrefixes\":[\"/srv\",\"/data/x\"],\"readOnlyBindPrefixes\":"    \
    "[\"/usr\"],\"rootfsPrefixes\":[\"/roots\"],\"ulimits\":false,\"restart\":false"

static int parse(const char *text, struct client_policy **ret, struct err *err)
{
    return client_policy_parse(text, strlen(text), "c.json", ret, err);
}

static const char some[] = "{\"policies\":[\"untrusted\"],\"limits\":{\"memoryBytes\":8388608,"
                           "\"pids\":10,\"cpuMillis\":1500,\"shmBytes\":8192}," REST "}";

/* clang-format off */
static const struct {
    const char *text;
    int code;
    const char *msg;
} refused_files[] = {
    {"[]", -EINVAL, "c.json: must be a JSON object"},
    {"{" REST "}", -EINVAL, "c.json: policies: missing"},
    {"{\"policies\":[],\"more\":1," REST "}", -EINVAL, "c.json: more: unknown key"},
    {"{\"policies\":\"x\"," REST "}", -EINVAL, "c.json: policies: must be an array of strings, not a string"},
    {"{\"policies\":[],\"shareNetworks\":1," REST "}", -EINVAL, "c.json: shareNetworks: must be true or false, not a number"},
    {"{\"policies\":[],\"hostRootfs\":\"yes\"," REST "}", -EINVAL, "c.json: hostRootfs: must be true or false, not a string"},
    {"{\"policies\":[],\"perMember\":{\"pids\":1}," REST "}", -EINVAL, "c.json: perMember.pids: unknown key"},
    {"{\"policies\":[],\"allMembers\":{\"ports\":-1}," REST "}", -ERANGE, "c.json: allMembers.ports: must be between 0 and 1000000"},
    {"{\"policies\":[],\"limits\":{\"pids\":0}," REST "}", -ERANGE, "c.json: limits.pids: must be between 1 and 4194304"},
    {"{\"policies\":[],\"networks\":[\"host\"],\"bindPrefixes\":[],\"readOnlyBindPrefixes\":[],\"rootfsPrefixes\":[],\"ulimits\":false,\"restart\":false}",
     -EINVAL, "c.json: networks[0]: must be none or internet"},
    {"{\"policies\":[],\"networks\":[],\"bindPrefixes\":[\"/a\",\"/a/../b\"],\"readOnlyBindPrefixes\":[],\"rootfsPrefixes\":[],\"ulimits\":false,\"restart\":false}",
     -EINVAL, "c.json: bindPrefixes[1]: must be an absolute path without //, . and .."},
    {"{\"policies\":[],\"networks\":[],\"bindPrefixes\":[],\"readOnlyBindPrefixes\":[\"/a/\"],\"rootfsPrefixes\":[],\"ulimits\":false,\"restart\":false}",
     -EINVAL, "c.json: readOnlyBindPrefixes[0]: must be an absolute path without //, . and .."},
    {"{\"policies\":[],\"networks\":[],\"bindPrefixes\":[],\"readOnlyBindPrefixes\":[],\"rootfsPrefixes\":[\"a\"],\"ulimits\":false,\"restart\":false}",
     -EINVAL, "c.json: rootfsPrefixes[0]: must be an absolute path without //, . and .."},
};

static const struct {
    const char *spec;
    const char *msg; /* NULL: allowed */
} asked[] = {
    {"{}", NULL},
    {"{\"rootfs\":\"host\"}", "rootfs: \"host\": the client policy does not allow it"},
    {"{\"policy\":\"container\"}", "policy: \"container\": the client policy does not allow it"},
    {"{\"policy\":\"mine\"}", "policy: \"mine\": the client policy does not allow it"},
    {"{\"network\":\"none\"}", NULL},
    {"{\"network\":\"internet\"}", "network: \"internet\": the client policy does not allow it"},
    {"{\"network\":{\"deny\":[\"0.0.0.0/0\"]}}", NULL},
    {"{\"network\":{\"allow\":[\"10.1.2.0/24:443/tcp\"],\"hostPorts\":[8080]}}", NULL},
    {"{\"network\":{\"allow\":[\"10.1.2.3:443/tcp\",\"10.2.0.0/16:443/tcp\"]}}", "network.allow: \"10.2.0.0/16:443/tcp\": the client policy does not allow it"},
    {"{\"network\":{\"allow\":[\"10.1.2.3:443\"]}}", "network.allow: \"10.1.2.3/32:443\": the client policy does not allow it"},
    {"{\"network\":{\"hostPorts\":[\"8080/udp\"]}}", "network.hostPorts: \"8080/udp\": the client policy does not allow it"},
    {"{\"network\":\"backend\"}", "network: the client policy allows no shared networks"},
    {"{\"network\":\"container:a\"}", "network: the client policy allows no shared networks"},
    {"{\"rootfs\":\"/roots/a\"}", NULL},
    {"{\"rootfs\":\"/\"}", "rootfs: \"/\": the client policy allows no root file system from there"},
    {"{\"rootfs\":\"/roots\"}",
     "rootfs: \"/roots\": the client policy allows no root file system from there"},
    {"{\"rootfs\":\"/srv\"}", "rootfs: \"/srv\": the client policy allows no root file system from there"},
    {"{\"volumes\":[{\"source\":\"/srv\",\"target\":\"/a\"},{\"source\":\"/srv/b/c\",\"target\":\"/b\"}]}", NULL},
    {"{\"volumes\":[{\"source\":\"/data/x/y\",\"target\":\"/a\"}]}", NULL},
    {"{\"volumes\":[{\"source\":\"/data\",\"target\":\"/a\"}]}", "volumes[0].source: \"/data\": the client policy allows no writable volume from there"},
    {"{\"volumes\":[{\"source\":\"/srv\",\"target\":\"/a\"},{\"source\":\"/srvx\",\"target\":\"/b\"}]}", "volumes[1].source: \"/srvx\": the client policy allows no writable volume from there"},
    {"{\"volumes\":[{\"source\":\"/\",\"target\":\"/a\",\"readOnly\":true}]}", "volumes[0].source: \"/\": the client policy allows no volume from there"},
    {"{\"volumes\":[{\"source\":\"/usr/lib\",\"target\":\"/a\",\"readOnly\":true}]}", NULL},
    {"{\"volumes\":[{\"source\":\"/usr/lib\",\"target\":\"/a\"}]}", "volumes[0].source: \"/usr/lib\": the client policy allows no writable volume from there"},
    {"{\"tmpfs\":[{\"target\":\"/a\"}]}", NULL},
    {"{\"limits\":{\"memory\":\"8m\",\"pids\":10,\"cpus\":1.5,\"shmSize\":8192}}", NULL},
    {"{\"limits\":{\"memory\":\"9m\"}}", "limits.memory: the client policy allows at most 8388608"},
    {"{\"limits\":{\"pids\":11}}", "limits.pids: the client policy allows at most 10"},
    {"{\"limits\":{\"cpus\":1.501}}", "limits.cpus: the client policy allows at most 1500 thousandths"},
    {"{\"limits\":{\"shmSize\":8193}}", "limits.shmSize: the client policy allows at most 8192"},
    {"{\"limits\":{\"ioWeight\":101}}", "limits.ioWeight: more than 100, which all others have, is the owner's to ask for"},
    {"{\"limits\":{\"ioWeight\":100,\"ioReadBps\":1}}", NULL},
    {"{\"ulimits\":[{\"name\":\"nofile\",\"soft\":1}]}", "ulimits: the client policy does not allow to set them"},
    {"{\"restart\":{\"policy\":\"no\"}}", NULL},
    {"{\"restart\":{\"policy\":\"always\"}}", "restart: the client policy allows only \"no\""},
};
/* clang-format on */

TEST(files_are_refused_with_the_path)
{
    for (size_t i = 0; i < sizeof(refused_files) / sizeof(refused_files[0]); i++) {
        struct client_policy *p = NULL;
        struct err err = ERR_NONE;

        CHECK_INT(parse(refused_files[i].text, &p, &err), refused_files[i].code);
        CHECK_STR(err.msg, refused_files[i].msg);
        CHECK(p == NULL);
    }
}

static int ask(const struct client_policy *p, const char *text, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    auto_ptr(spec_free) struct spec *spec = NULL;

    CHECK_INT(json_parse(text, strlen(text), 1 << 20, &root, err), 0);
    CHECK_INT(spec_from_json(root, &spec, err), 0);
    return spec != NULL ? client_check_spec(p, spec, err) : 0;
}

TEST(a_spec_is_refused_with_its_field)
{
    auto_ptr(client_policy_free) struct client_policy *p = NULL;
    struct err none = ERR_NONE;

    CHECK_INT(parse(some, &p, &none), 0);
    CHECK_STR(none.msg, "");
    for (size_t i = 0; p != NULL && i < sizeof(asked) / sizeof(asked[0]); i++) {
        struct err err = ERR_NONE;

        printf("# %s\n", asked[i].spec);
        CHECK_INT(ask(p, asked[i].spec, &err), asked[i].msg != NULL ? -EPERM : 0);
        CHECK_STR(err.msg, asked[i].msg != NULL ? asked[i].msg : "");
    }
}

TEST(a_prefix_of_the_root_is_everything)
{
    auto_ptr(client_policy_free) struct client_policy *p = NULL;

    CHECK_INT(parse("{\"policies\":[\"untrusted\"],\"networks\":[],\"bindPrefixes\":[\"/\"],"
                    "\"readOnlyBindPrefixes\":[],\"rootfsPrefixes\":[],\"ulimits\":true,"
                    "\"restart\":true}",
                    &p, NULL),
              0);
    CHECK_INT(ask(p, "{\"volumes\":[{\"source\":\"/\",\"target\":\"/a\"}]}", NULL), 0);
    CHECK_INT(ask(p, "{\"limits\":{\"memory\":\"512t\"}}", NULL), 0); /* no bound is given */
}

TEST(the_shipped_one_gives_nothing_of_the_host)
{
    static const char *const never[] = {
        "{\"volumes\":[{\"source\":\"/tmp\",\"target\":\"/a\",\"readOnly\":true}]}",
        "{\"rootfs\":\"/srv\"}",
        "{\"policy\":\"container\"}",
        "{\"policy\":\"build\"}",
        "{\"ulimits\":[{\"name\":\"nofile\",\"soft\":1}]}",
        "{\"limits\":{\"memory\":\"5g\"}}",
        NULL};
    auto_ptr(client_policy_free) struct client_policy *p = NULL;
    struct err err = ERR_NONE;
    const char *text;
    size_t len;

    text = client_policy_builtin(&len);
    CHECK_INT(client_policy_parse(text, len, "client.json", &p, &err), 0);
    CHECK_STR(err.msg, "");
    for (const char *const *spec = never; p != NULL && *spec != NULL; spec++)
        CHECK_INT(ask(p, *spec, NULL), -EPERM);
    CHECK_INT(ask(p, "{\"command\":[\"true\"],\"network\":\"internet\"}", NULL), 0);
}

TAP_MAIN
