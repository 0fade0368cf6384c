/* What of Docker's API is pure: bodies into specs, filters, ids, times, and the templates of the
 * command. */

#include <errno.h>
#include <jansson.h>
#include <stdint.h>

#include "api/docker/body.h"
#include "api/docker/common.h"
#include "api/docker/create-body.h"
#include "api/docker/filters.h"
#include "api/docker/images.h"
#include "api/docker/sidecar.h"
#include "base/buf.h"
#include "base/err.h"
#include "cli/docker-template.h"
#include "json/parse.h"
#include "spec/json.h"
#include "spec/spec.h"
#include "tap.h"

static int decode(const char *text, struct create_body *b, struct err *err)
{
    json_t *root = NULL;
    int r = json_parse(text, strlen(text), 1 << 20, &root, err);

    *b = (struct create_body){.spec = NULL};
    if (r == 0)
        r = create_body_decode(root, b, err);
    json_decref(root); /* what is borrowed of it is not looked at below */
    return r;
}

TEST(what_becomes_of_a_body)
{
    /* The spec's JSON must hold the second text. */
    static const struct {
        const char *body, *spec;
    } rows[] = {
        {"{}", "\"console\":true"},
        {"{\"Hostname\":\"h\",\"User\":\"1:2\",\"WorkingDir\":\"/w\"}",
         "\"hostname\":\"h\",\"user\":\"1:2\",\"cwd\":\"/w\""},
        {"{\"Tty\":true,\"OpenStdin\":true}", "\"tty\":true,\"stdin\":true"},
        {"{\"StopTimeout\":3}", "\"stopTimeoutMs\":3000"},
        {"{\"StopTimeout\":-1}", "\"stopTimeoutMs\":31622400000"},
        {"{\"StopTimeout\":0}", "\"stopTimeoutMs\":0"},
        {"{\"HostConfig\":{\"Memory\":67108864,\"PidsLimit\":9,\"NanoCpus\":1500000000}}",
         "\"memory\":67108864,\"pids\":9,\"cpus\":1.5"},
        {"{\"HostConfig\":{\"CpuQuota\":50000}}", "\"cpus\":0.5"},
        {"{\"HostConfig\":{\"Memory\":8388608,\"MemorySwap\":16777216,\"MemoryReservation\":"
         "4194304}}",
         "\"limits\":{\"memory\":8388608,\"memorySwap\":16777216,\"memoryReservation\":4194304}"},
        {"{\"HostConfig\":{\"Memory\":8388608,\"MemorySwap\":-1}}", "\"memorySwap\":-1"},
        {"{\"HostConfig\":{\"MemorySwap\":-1}}", "\"limits\":{}"},
        {"{\"HostConfig\":{\"Memory\":8388608,\"KernelMemory\":8388608}}",
         "\"limits\":{\"memory\":8388608}"},
        {"{\"HostConfig\":{\"CpuShares\":1,\"CpusetCpus\":\"0-1,3\",\"CpusetMems\":\"0\","
         "\"OomScoreAdj\":5}}",
         "\"limits\":{\"cpuShares\":2,\"cpusetCpus\":\"0-1,3\",\"cpusetMems\":\"0\","
         "\"oomScoreAdj\":5}"},
        {"{\"HostConfig\":{\"PidsLimit\":-1}}", "\"limits\":{}"},
        {"{\"HostConfig\":{\"NetworkMode\":\"bridge\"}}", "\"network\":{\"mode\":\"internet\"}"},
        {"{\"HostConfig\":{\"NetworkMode\":\"none\"}}", "\"network\":{\"mode\":\"none\"}"},
        {"{\"NetworkDisabled\":true}", "\"network\":{\"mode\":\"none\"}"},
        {"{\"Env\":[\"A\",\"B=c\"]}", "\"env\":[\"B=c\"]"},
        {"{\"HostConfig\":{\"GroupAdd\":[\"audio\",\"44\"]}}", "\"groups\":[\"audio\",\"44\"]"},
        {"{\"HostConfig\":{\"Binds\":[\"/srv:/s:ro\",\"vol:/v\"]}}",
         "{\"target\":\"/s\",\"readOnly\":true,\"source\":\"/"
         "srv\",\"makeSource\":true},{\"target\":"
         "\"/v\",\"readOnly\":false,\"source\":\"vol\"}"},
        {"{\"HostConfig\":{\"Mounts\":[{\"Type\":\"bind\",\"Source\":\"/srv\",\"Target\":\"/"
         "s\"}]}}",
         "[{\"target\":\"/s\",\"readOnly\":false,\"source\":\"/srv\"}]"},
        {"{\"HostConfig\":{\"Mounts\":[{\"Type\":\"bind\",\"Source\":\"/srv\",\"Target\":\"/s\","
         "\"BindOptions\":{\"CreateMountpoint\":true}}]}}",
         "\"source\":\"/srv\",\"makeSource\":true}"},
        {"{\"HostConfig\":{\"Binds\":[\"vol:/v:Z,ro,delegated\"]}}",
         "{\"target\":\"/v\",\"readOnly\":true,\"source\":\"vol\"}"},
        {"{\"HostConfig\":{\"StorageOpt\":{\"size\":\"10GB\"}}}", "\"limits\":{\"disk\":\"10GB\"}"},
        {"{\"Hostname\":\"web\",\"Domainname\":\"shop.example\"}",
         "\"hostname\":\"web\",\"domainname\":\"shop.example\""},
        {"{\"HostConfig\":{\"Dns\":[\"1.1.1.1\"],\"DnsSearch\":[\"a.example\"],\"DnsOptions\":"
         "[\"ndots:2\"]}}",
         "\"network\":{\"mode\":\"internet\",\"dns\":[\"1.1.1.1\"],\"dnsSearch\":[\"a.example\"],"
         "\"dnsOptions\":[\"ndots:2\"]}"},
        {"{\"HostConfig\":{\"DnsSearch\":[\"a.example\"],\"NetworkMode\":\"none\"}}",
         "\"network\":{\"mode\":\"none\"}"},
        {"{\"HostConfig\":{\"ExtraHosts\":[\"a:1.2.3.4\",\"b:host-gateway\"]}}",
         "\"extraHosts\":[\"a:1.2.3.4\",\"b:host-gateway\"]"},
        {"{\"Healthcheck\":{\"Test\":[\"CMD\",\"true\"],\"Interval\":1500000000,\"Retries\":2}}",
         "\"healthcheck\":{\"test\":[\"CMD\",\"true\"],\"intervalMs\":1500,\"retries\":2}"},
        {"{\"Labels\":{\"a\":\"\"}}", "\"labels\":{\"a\":\"\"}"},
        {"{\"HostConfig\":{\"Tmpfs\":{\"/run\":\"\"}}}",
         "\"tmpfs\":[{\"target\":\"/run\",\"size\":1073741824,\"readOnly\":false,\"noExec\":true,"
         "\"mode\":\"1777\",\"uid\":0,\"gid\":0}]"},
        {"{\"HostConfig\":{\"Tmpfs\":{\"/"
         "run\":\"exec,ro,mode=700,uid=1,gid=2\"},\"Memory\":8388608}}",
         "\"tmpfs\":[{\"target\":\"/run\",\"size\":8388608,\"readOnly\":true,\"noExec\":false,"
         "\"mode\":\"0700\",\"uid\":1,\"gid\":2}]"},
        {"{\"HostConfig\":{\"Mounts\":[{\"Type\":\"tmpfs\",\"Target\":\"/t\",\"ReadOnly\":true,"
         "\"TmpfsOptions\":{\"SizeBytes\":4096,\"Mode\":448,\"Options\":[[\"exec\"],[\"uid\",\"5\"]"
         "]}}]}}",
         "\"tmpfs\":[{\"target\":\"/t\",\"size\":4096,\"readOnly\":true,\"noExec\":false,"
         "\"mode\":\"0700\",\"uid\":5,\"gid\":0}]"},
        {"{\"Volumes\":{\"/own\":{}}}", "\"volumes\":[{\"target\":\"/own\",\"readOnly\":false}]"},
        {"{\"HostConfig\":{\"Mounts\":[{\"Type\":\"volume\",\"Source\":\"v\",\"Target\":\"/t\","
         "\"VolumeOptions\":{\"NoCopy\":true}}]}}",
         "\"source\":\"v\",\"noCopy\":true"},
        {"{\"HostConfig\":{\"Tmpfs\":{\"/run\":\"rw,size=64m\"}}}",
         "\"tmpfs\":[{\"target\":\"/run\",\"size\":67108864,"},
        {"{\"HostConfig\":{\"PortBindings\":{\"53/udp\":[{\"HostIp\":\"127.0.0.1\",\"HostPort\":"
         "\"\"}]}}}",
         "{\"port\":53,\"hostPort\":0,\"protocol\":\"udp\",\"hostAddress\":\"127.0.0.1\"}"},
        {"{\"HostConfig\":{\"RestartPolicy\":{\"Name\":\"on-failure\",\"MaximumRetryCount\":3}}}",
         "\"restart\":{\"policy\":\"on-failure\",\"maxRetries\":3}"},
        {"{\"HostConfig\":{\"Ulimits\":[{\"Name\":\"nofile\",\"Soft\":1,\"Hard\":2}]}}",
         "\"ulimits\":[{\"name\":\"nofile\",\"soft\":1,\"hard\":2}]"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct create_body b;
        struct err err = ERR_NONE;
        struct spec *spec = NULL;
        char *text;

        CHECK_INT(decode(rows[i].body, &b, &err), 0);
        CHECK_STR(err.msg, "");
        text = json_dumps(b.spec, JSON_COMPACT);
        if (strstr(text, rows[i].spec) == NULL)
            tap_fail("%s: %s has no %s", rows[i].body, text, rows[i].spec);
        free(text);
        CHECK_INT(spec_from_json(b.spec, &spec, &err), 0);
        spec_free(spec);
        create_body_done(&b);
    }
}

/* At the top level what is not known is ignored, and what neither isolates nor limits. */
TEST(what_is_ignored)
{
    static const char *const rows[] = {
        "{\"name\":\"x\",\"New\":{\"Privileged\":true},\"host_config\":1,\"HostConfigs\":{}}",
        "{\"HostConfi\":{\"Memory\":1},\"HostConfig \":{\"Memory\":1},\"\":1}",
        "{\"AutoRemove\":true,\"RestartPolicy\":{\"Name\":\"always\"},\"PublishAllPorts\":true}",
        "{\"Privileged\":false,\"Memory\":0,\"CapAdd\":[],\"VolumesFrom\":[],\"Binds\":null}",
        "{\"argsescaped\":true,\"SHELL\":[\"x\"],\"Runtime\":\"runc\"}",
    };
    struct create_body empty;
    struct err err = ERR_NONE;

    CHECK_INT(decode("{}", &empty, &err), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct create_body b;

        CHECK_INT(decode(rows[i], &b, &err), 0);
        CHECK_STR(err.msg, "");
        if (!json_equal(b.spec, empty.spec) || !json_equal(b.kept, empty.kept))
            tap_fail("%s: changes something", rows[i]);
        create_body_done(&b);
    }
    create_body_done(&empty);
}

TEST(fields_that_cannot_be_had_are_refused)
{
    static const struct {
        const char *body;
        int code;
        const char *begin;
    } rows[] = {
        {"[]", -EINVAL, "must be a JSON object"},
        {"{\"HostConfig\":{\"New\":1}}", -EINVAL, "HostConfig.New: is not known here"},
        {"{\"hostconfig\":{\"Privileged\":true}}", -EPERM, "HostConfig.Privileged: "},
        {"{\"Ho\\u017ftConfig\":{\"maskedpaths\":[]}}", -EPERM, "HostConfig.MaskedPaths: "},
        {"{\"hostconfig\":{\"readonlypaths\":[]}}", -EPERM, "HostConfig.ReadonlyPaths: "},
        {"{\"HostConfig\":{},\"hostconfig\":{}}", -EINVAL, "HostConfig: is there in two"},
        {"{\"hostconfig\":{},\"HostConfig\":null}", -EINVAL, "HostConfig: is there in two"},
        {"{\"IMAGE\":\"a\",\"image\":\"a\"}", -EINVAL, "Image: is there in two spellings"},
        {"{\"SHELL\":[\"x\"],\"Shell\":[]}", -EINVAL, "Shell: is there in two spellings"},
        {"{\"HostConfig\":{\"Memory\":0,\"memory\":1}}", -EINVAL,
         "HostConfig.Memory: is there in two spellings"},
        {"{\"Privileged\":true}", -EINVAL, "Privileged: is a part of HostConfig"},
        {"{\"PRIVILEGED\":true}", -EINVAL, "PRIVILEGED: is a part of HostConfig"},
        {"{\"Memory\":67108864}", -EINVAL, "Memory: is a part of HostConfig"},
        {"{\"memory\u017fwap\":1}", -EINVAL, "memory\u017fwap: is a part of HostConfig"},
        {"{\"MaskedPaths\":[\"/x\"]}", -EINVAL, "MaskedPaths: is a part of HostConfig"},
        {"{\"cpuset\":\"0\"}", -EINVAL, "cpuset: is not taken here"},
        {"{\"EndpointsConfig\":{\"n\":{\"Aliases\":[\"a\"]}}}", -EINVAL,
         "EndpointsConfig: is a part of NetworkingConfig"},
        {"{\"Runtime\":\"kata\"}", -EOPNOTSUPP, "Runtime: "},
        {"{\"Image\":1}", -EINVAL, "Image: must be a string"},
        {"{\"Cmd\":[1]}", -EINVAL, "Cmd: must be an array of strings"},
        {"{\"Env\":[\"\"]}", -EINVAL, "Env: invalid environment variable: "},
        {"{\"Env\":[\"=x\"]}", -EINVAL, "Env: invalid environment variable: =x"},
        {"{\"StopTimeout\":-2}", -EINVAL, "StopTimeout: "},
        {"{\"ExposedPorts\":{\"x\":{}}}", -EINVAL, "ExposedPorts: \"x\" is no port"},
        {"{\"Labels\":{\"rind.docker\":\"x\"}}", -EINVAL, "Labels: \"rind.docker\" is rind's own"},
        {"{\"HostConfig\":{\"Privileged\":true}}", -EPERM, "HostConfig.Privileged: "},
        {"{\"HostConfig\":{\"privileged\":true}}", -EPERM, "HostConfig.Privileged: "},
        {"{\"HostConfig\":{\"CapAdd\":[\"sys_time\"]}}", -EPERM, "HostConfig.CapAdd: "},
        {"{\"HostConfig\":{\"CapAdd\":[\"CAP_SYS_MODULE\"]}}", -EPERM, "HostConfig.CapAdd: "},
        {"{\"HostConfig\":{\"IpcMode\":\"container:x\"}}", -EPERM, "HostConfig.IpcMode: "},
        {"{\"HostConfig\":{\"NetworkMode\":\"host\"}}", -EPERM, "HostConfig.NetworkMode: "},
        {"{\"HostConfig\":{\"MaskedPaths\":[]}}", -EPERM, "HostConfig.MaskedPaths: "},
        {"{\"HostConfig\":{\"Binds\":[\"/:/h\"]}}", -EPERM, "HostConfig.Binds[0]: "},
        {"{\"HostConfig\":{\"Binds\":[\"///:/h\"]}}", -EPERM, "HostConfig.Binds[0]: "},
        {"{\"HostConfig\":{\"Binds\":[\"/proc/1:/h\"]}}", -EPERM, "HostConfig.Binds[0]: "},
        {"{\"HostConfig\":{\"Binds\":[\"/srv:/h:shared\"]}}", -EOPNOTSUPP, "HostConfig.Binds[0]: "},
        {"{\"HostConfig\":{\"Binds\":[\"/srv:h\"]}}", -EINVAL, "HostConfig.Binds[0]: "},
        {"{\"HostConfig\":{\"Mounts\":[{\"Type\":\"bind\",\"Source\":\"/\",\"Target\":\"/h\"}]}}",
         -EPERM, "HostConfig.Mounts[0]: "},
        {"{\"HostConfig\":{\"Mounts\":[{\"type\":\"bind\",\"source\":\"/\",\"target\":\"/h\"}]}}",
         -EPERM, "HostConfig.Mounts[0]: "},
        {"{\"HostConfig\":{\"Mounts\":[{\"Type\":\"tmpfs\",\"type\":\"bind\"}]}}", -EINVAL,
         "HostConfig.Mounts[0].Type: is there in two spellings"},
        {"{\"HostConfig\":{\"PortBindings\":{\"0/tcp\":[{}]}}}", -EINVAL,
         "HostConfig.PortBindings: "},
        {"{\"HostConfig\":{\"PortBindings\":{\"80/tcp\":[{\"HostPort\":\"70000\"}]}}}", -EINVAL,
         "HostConfig.PortBindings: "},
        {"{\"HostConfig\":{\"PortBindings\":{\"80/sctp\":[{}]}}}", -EINVAL,
         "HostConfig.PortBindings: "},
        {"{\"HostConfig\":{\"ExtraHosts\":\"a:1.2.3.4\"}}", -EINVAL, "HostConfig.ExtraHosts: "},
        {"{\"HostConfig\":{\"NetworkMode\":\"container:x\",\"ExtraHosts\":[\"a:1.2.3.4\"]}}",
         -EINVAL, "HostConfig.ExtraHosts: "},
        {"{\"Healthcheck\":{\"Interval\":999999}}", -EINVAL, "Healthcheck: "},
        {"{\"Healthcheck\":{\"Test\":[\"CMD\",\"x\"],\"Timeout\":999999}}", -EINVAL,
         "Healthcheck: "},
        {"{\"Healthcheck\":{\"Test\":[\"CMD\",\"x\"],\"Timeout\":-1}}", -EINVAL, "Healthcheck: "},
        {"{\"Healthcheck\":{\"Test\":\"x\"}}", -EINVAL, "Healthcheck: "},
        {"{\"healthcheck\":{\"test\":\"x\"}}", -EINVAL, "Healthcheck: "},
        {"{\"HostConfig\":{\"CpuShares\":-2}}", -EINVAL, "HostConfig.CpuShares: "},
        {"{\"HostConfig\":{\"KernelMemory\":2}}", -EOPNOTSUPP, "HostConfig.KernelMemory: "},
        {"{\"HostConfig\":{\"KernelMemory\":4194304,\"Memory\":8388608}}", -EOPNOTSUPP,
         "HostConfig.KernelMemory: "},
        {"{\"HostConfig\":{\"BlkioWeight\":9}}", -EINVAL, "HostConfig.BlkioWeight: "},
        {"{\"HostConfig\":{\"OomScoreAdj\":-1}}", -EPERM, "HostConfig.OomScoreAdj: "},
        {"{\"HostConfig\":{\"OomScoreAdj\":1001}}", -EINVAL, "HostConfig.OomScoreAdj: "},
        {"{\"HostConfig\":{\"MemorySwappiness\":101}}", -EINVAL, "HostConfig.MemorySwappiness: "},
        {"{\"HostConfig\":{\"MemorySwap\":4194304}}", -EINVAL, "HostConfig.MemorySwap: "},
        {"{\"HostConfig\":{\"CpuQuota\":9223372036854775807}}", -EINVAL, "HostConfig.CpuQuota: "},
        {"{\"HostConfig\":{\"CpuQuota\":50000,\"CpuPeriod\":999}}", -EINVAL,
         "HostConfig.CpuPeriod: must be 1000 to 1000000"},
        {"{\"HostConfig\":{\"CpuPeriod\":1000001}}", -EINVAL, "HostConfig.CpuPeriod: "},
        {"{\"StopTimeout\":9223372036854775807}", -EINVAL, "StopTimeout: must be at most "},
        {"{\"HostConfig\":{\"Mounts\":[{\"Type\":\"tmpfs\",\"Target\":\"/t\","
         "\"TmpfsOptions\":{\"Mode\":4096}}]}}",
         -EINVAL, "HostConfig.Mounts[0]: TmpfsOptions.Mode: "},
        {"{\"HostConfig\":{\"Mounts\":[{\"Type\":\"tmpfs\",\"Target\":\"/t\","
         "\"TmpfsOptions\":{\"Options\":[[\"noexec,suid\"]]}}]}}",
         -EINVAL, "HostConfig.Mounts[0]: TmpfsOptions.Options: "},
        {"{\"HostConfig\":{\"Tmpfs\":{\"/t\":\"suid\"}}}", -EPERM, "HostConfig.Tmpfs: \"/t\": "},
        {"{\"HostConfig\":{\"Tmpfs\":{\"/t\":\"size=50%\"}}}", -EINVAL,
         "HostConfig.Tmpfs: \"/t\": "},
        {"{\"HostConfig\":{\"Tmpfs\":{\"/t\":\"uid=65536\"}}}", -ERANGE,
         "HostConfig.Tmpfs: \"/t\": "},
        {"{\"HostConfig\":{\"MemorySwap\":-2,\"Memory\":1}}", -EINVAL, "HostConfig.MemorySwap: "},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct create_body b;
        struct err err = ERR_NONE;

        CHECK_INT(decode(rows[i].body, &b, &err), rows[i].code);
        if (strncmp(err.msg, rows[i].begin, strlen(rows[i].begin)) != 0)
            tap_fail("%s: \"%s\" does not begin with \"%s\"", rows[i].body, err.msg, rows[i].begin);
        create_body_done(&b);
    }
}

/* A key in another case is the one that Docker's reader takes it for, in every object. */
TEST(other_cases)
{
    static const struct {
        const char *folded, *right;
    } rows[] = {
        {"{\"image\":\"a\",\"CMD\":[\"b\"],\"uSer\":\"1000\"}",
         "{\"Image\":\"a\",\"Cmd\":[\"b\"],\"User\":\"1000\"}"},
        {"{\"Ho\\u017ftConfig\":{\"memory\":67108864}}", "{\"HostConfig\":{\"Memory\":67108864}}"},
        {"{\"Networ\\u212aDi\\u017fabled\":true}", "{\"NetworkDisabled\":true}"},
        {"{\"hostconfig\":{\"restartpolicy\":{\"name\":\"always\"}}}",
         "{\"HostConfig\":{\"RestartPolicy\":{\"Name\":\"always\"}}}"},
        {"{\"hostconfig\":{\"portbindings\":{\"80/tcp\":[{\"hostport\":\"81\"}]}}}",
         "{\"HostConfig\":{\"PortBindings\":{\"80/tcp\":[{\"HostPort\":\"81\"}]}}}"},
        {"{\"hostconfig\":{\"mounts\":[{\"type\":\"tmpfs\",\"target\":\"/t\"}]}}",
         "{\"HostConfig\":{\"Mounts\":[{\"Type\":\"tmpfs\",\"Target\":\"/t\"}]}}"},
        {"{\"healthcheck\":{\"test\":[\"CMD\",\"true\"]}}",
         "{\"Healthcheck\":{\"Test\":[\"CMD\",\"true\"]}}"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct create_body a, b;
        struct err err = ERR_NONE;

        CHECK_INT(decode(rows[i].folded, &a, &err), 0);
        CHECK_STR(err.msg, "");
        CHECK_INT(decode(rows[i].right, &b, &err), 0);
        /* What is kept is shown by inspect: the keys there are Docker's, too. */
        if (!json_equal(a.spec, b.spec) || !json_equal(a.kept, b.kept) ||
            (a.cmd == NULL) != (b.cmd == NULL) || (a.image == NULL) != (b.image == NULL))
            tap_fail("%s: another container", rows[i].folded);
        create_body_done(&a);
        create_body_done(&b);
    }
}

TEST(what_asks_for_nothing)
{
    static const struct {
        const char *text;
        bool empty;
    } rows[] = {{"{\"a\":null}", true},         {"{\"a\":[]}", true},   {"{\"a\":{\"b\":0}}", true},
                {"{\"a\":{\"b\":\"\"}}", true}, {"{\"a\":[0]}", false}, {"{\"a\":1}", false},
                {"{\"a\":{\"b\":true}}", false}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        json_t *root = json_loads(rows[i].text, 0, NULL);

        CHECK_INT(body_is_empty(json_object_get(root, "a")), rows[i].empty);
        json_decref(root);
    }
}

TEST(words_of_a_spec)
{
    static const struct {
        const char *said, *explained;
    } rows[] = {
        {"volumes[0].source: no", "HostConfig.Binds: volumes[0].source: no"},
        {"network: no", "HostConfig.NetworkMode: network: no"},
        {"limits.memory: too much", "HostConfig.Memory: limits.memory: too much"},
        {"user \"x\": no", "user \"x\": no"},
        {"userland: no", "userland: no"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct err err = ERR_NONE;

        (void)err_set(&err, -EPERM, "%s", rows[i].said);
        create_body_explain(&err);
        CHECK_STR(err.msg, rows[i].explained);
        CHECK_INT(err.code, -EPERM);
    }
}

TEST(filters_are_parsed)
{
    static const char *const known[] = {"label", "name", "status", NULL};
    char a[] = "a=1", b[] = "b=2";
    char *labels[] = {a, b, NULL};
    struct filters *f = NULL;
    struct err err = ERR_NONE;

    CHECK_INT(filters_parse(NULL, known, &f, &err), 0);
    CHECK(filters_match(f, "name", "x") && filters_match_labels(f, NULL));
    filters_free(f);
    CHECK_INT(filters_parse("{\"name\":[\"ab\",\"cd\"],\"label\":{\"a=1\":true,\"z\":false}}",
                            known, &f, &err),
              0);
    CHECK(filters_match(f, "name", "cd") && !filters_match(f, "name", "c"));
    CHECK(filters_match_part(f, "name", "xabx") && !filters_match_part(f, "name", "xbx"));
    CHECK(filters_match_prefix(f, "name", "abx") && !filters_match_prefix(f, "name", "xab"));
    CHECK(filters_match_labels(f, labels) && !filters_match_labels(f, labels + 1));
    CHECK_STR(filters_get(f, "name", 1), "cd");
    CHECK(filters_get(f, "name", 2) == NULL);
    filters_free(f);
    CHECK_INT(filters_parse("{\"nosuch\":[\"a\"]}", known, &f, &err), -EINVAL);
    CHECK_STR(err.msg, "invalid filter 'nosuch'");
    CHECK_INT(filters_parse("{\"name\":\"a\"}", known, &f, &err), -EINVAL);
    CHECK_INT(filters_parse("{\"name\":[1]}", known, &f, &err), -EINVAL);
    CHECK_INT(filters_parse("{", known, &f, &err), -EINVAL);
}

TEST(an_id_prefix_is_recognised)
{
    char one[DOCKER_ID_LEN + 1], two[DOCKER_ID_LEN + 1];

    docker_id("0123456789abcdef", one);
    docker_id("0123456789abcdee", two);
    CHECK_INT(strlen(one), DOCKER_ID_LEN);
    CHECK_INT(strspn(one, "0123456789abcdef"), DOCKER_ID_LEN);
    CHECK(strncmp(one, "0123456789abcdef", 16) == 0);
    CHECK(strcmp(one + 16, two + 16) != 0);
}

TEST(docker_times_are_parsed)
{
    static const struct {
        const char *text;
        int code;
        int64_t ns;
    } rows[] = {
        {"1700000000", 0, INT64_C(1700000000000000000)},
        {"1700000000.5", 0, INT64_C(1700000000500000000)},
        {"1700000000.000000001", 0, INT64_C(1700000000000000001)},
        {"2023-11-14T22:13:20Z", 0, INT64_C(1700000000000000000)},
        {"2023-11-14T22:13:20.25Z", 0, INT64_C(1700000000250000000)},
        {"2023-11-14T23:13:20+01:00", 0, INT64_C(1700000000000000000)},
        {"2023-11-14", 0, INT64_C(1699920000000000000)},
        {"", -EINVAL, 0},
        {"-5", -EINVAL, 0},
        {"yesterday", -EINVAL, 0},
        {"1.", -EINVAL, 0},
        {"99999999999999999999", -EINVAL, 0},
        {"2023-11-14T22:13:20x", -EINVAL, 0},
        {"2023-11-14T22:13:20+ 1:-2", -EINVAL, 0},
        {"9999-12-31T23:59:59Z", -EINVAL, 0}, /* beyond what nanoseconds count */
        {"0001-01-01T00:00:00Z", -EINVAL, 0},
    };
    char text[DOCKER_TIME_MAX];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t ns = 0;

        if (docker_time_parse(rows[i].text, &ns) != rows[i].code || ns != rows[i].ns)
            tap_fail("%s: %lld", rows[i].text, (long long)ns);
    }
    docker_time_text(INT64_C(1700000000000000001), text);
    CHECK_STR(text, "2023-11-14T22:13:20.000000001Z");
    docker_time_text(0, text);
    CHECK_STR(text, "0001-01-01T00:00:00Z");
}

TEST(names_of_images)
{
    char name[REFERENCE_MAX + 1];

    docker_join_name("a/b", "1", name);
    CHECK_STR(name, "a/b:1");
    docker_join_name("a/b", "sha256:0", name);
    CHECK_STR(name, "a/b@sha256:0");
    docker_join_name("a/b:2", NULL, name);
    CHECK_STR(name, "a/b:2");
    CHECK(docker_glob_name("a/*", "a/b:1") && docker_glob_name("a/b", "a/b:1"));
    CHECK(docker_glob_name("a/b:?", "a/b:1") && !docker_glob_name("b", "a/b:1"));
    CHECK(docker_sidecar_image(NULL, "cloudflare/proxy-everything:1"));
    CHECK(docker_sidecar_image(NULL, "docker.io/cloudflare/proxy-everything"));
    CHECK(!docker_sidecar_image(NULL, "example.com/cloudflare/proxy-everything:1"));
    CHECK(!docker_sidecar_image(NULL, "cloudflare/proxy-everything-else"));
    CHECK(!docker_sidecar_image(NULL, NULL));
    CHECK(docker_sidecar_image("docker.io/team/proxy", "team/proxy:2"));
    CHECK(!docker_sidecar_image("docker.io/team/proxy", "cloudflare/proxy-everything"));
}

TEST(templates_are_filled)
{
    static const char data[] =
        "{\"Os\":\"linux\",\"Size\":5,\"Config\":{\"Ports\":{\"80/tcp\":{}}},\"Tags\":[\"a:1\","
        "\"b:2\"],\"List\":[{\"N\":1},{\"N\":2}]}";
    static const struct {
        const char *format, *want;
        int code;
    } rows[] = {
        {"{{.Os}}/{{ .Size }}", "linux/5", 0},
        {"{{json .Tags}}", "[\"a:1\",\"b:2\"]", 0},
        {"{{ len .Config.Ports }} {{len .Tags}}", "1 2", 0},
        {"{{ range .Tags }}{{ . }}\n{{ end }}", "a:1\nb:2\n", 0},
        {"{{range .List}}<{{.N}}>{{end}}", "<1><2>", 0},
        {"{{range .None}}x{{end}}y", "y", 0},
        {"{{join .Tags \", \"}}", "a:1, b:2", 0},
        {"{{.None}} {{json .None}}", "<no value> null", 0},
        {"plain", "plain", 0},
        {"{{.Os", NULL, -EINVAL},
        {"{{end}}", NULL, -EINVAL},
        {"{{range .Tags}}", NULL, -EINVAL},
        {"{{upper .Os}}", NULL, -EINVAL},
        {"{{if .Os}}x{{end}}", NULL, -EINVAL},
    };
    json_t *root = json_loads(data, 0, NULL);

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf out = BUF_INIT(TEMPLATE_OUT_MAX);
        struct err err = ERR_NONE;
        int r = docker_template(rows[i].format, root, &out, &err);

        if (r != rows[i].code ||
            (rows[i].want != NULL && strcmp(out.data != NULL ? out.data : "", rows[i].want) != 0))
            tap_fail("%s: %d \"%s\" %s", rows[i].format, r, out.data, err.msg);
        buf_done(&out);
    }
    json_decref(root);
}

TAP_MAIN
