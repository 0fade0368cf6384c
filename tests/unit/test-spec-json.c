/* Specs as JSON: each refusal's words, each key's value, and that what is written is read again as
 * the same. */

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>

#include "base/auto.h"
#include "base/err.h"
#include "json/parse.h"
#include "spec/json.h"
#include "spec/signals.h"
#include "spec/spec.h"
#include "tap.h"

static int decode(const char *text, struct spec **ret, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    int r = json_parse(text, strlen(text), 8 << 20, &root, err);

    return r < 0 ? r : spec_from_json(root, ret, err);
}

struct refusal {
    const char *text;
    int code;
    const char *msg;
};

/* clang-format off */
static const struct refusal refusals[] = {
    {"{\"nam\":\"a\"}", -EINVAL, "nam: unknown key"},
    {"{\"Name\":\"a\"}", -EINVAL, "Name: unknown key (it is spelt \"name\")"},
    {"{\"name\":\"a\",\"NAME\":\"b\"}", -EINVAL, "keys \"name\" and \"NAME\" differ only in case"},
    {"{\"name\":1}", -EINVAL, "name: must be a string"},
    {"{\"name\":\"a b\"}", -EINVAL, "name: name \"a b\": must be 1 to 255 letters, digits, _ . - and begin with a letter or digit"},
    {"{\"rootfs\":\"x\"}", -EINVAL, "rootfs: \"x\": must be an absolute path"},
    {"{\"rootfs\":\"/a/../b\"}", -EINVAL, "rootfs: rootfs \"/a/../b\": must not hold \"..\""},
    {"{\"rootfs\":\"host \"}", -EINVAL, "rootfs: \"host \": must be an absolute path"},
    {"{\"rootfs\":\"./host\"}", -EINVAL, "rootfs: \"./host\": must be an absolute path"},
    {"{\"rootfs\":[]}", -EINVAL, "rootfs: must be a string"},
    {"{\"command\":\"ls\"}", -EINVAL, "command: must be an array of strings"},
    {"{\"command\":[\"ls\",1]}", -EINVAL, "command[1]: must be a string"},
    {"{\"command\":[\"\"]}", -EINVAL, "command: missing or empty"},
    {"{\"entrypoint\":{}}", -EINVAL, "entrypoint: must be an array of strings"},
    {"{\"env\":\"A=1\"}", -EINVAL, "env: must be an object of strings, or an array of NAME=VALUE"},
    {"{\"env\":[\"PATH\"]}", -EINVAL, "env[0]: must be NAME=VALUE"},
    {"{\"env\":[\"A=1\",2]}", -EINVAL, "env[1]: must be NAME=VALUE"},
    {"{\"env\":[\"=1\"]}", -EINVAL, "env[0]: a name must not be empty or hold ="},
    {"{\"env\":{\"A=B\":\"1\"}}", -EINVAL, "env.A=B: a name must not be empty or hold ="},
    {"{\"env\":{\"A\":1}}", -EINVAL, "env.A: must be a string"},
    {"{\"cwd\":\"tmp\"}", -EINVAL, "cwd: workdir \"tmp\": must be an absolute path in the sandbox"},
    {"{\"hostname\":\"-a\"}", -EINVAL, "hostname: hostname \"-a\": must be at most 63 letters, digits and hyphens (not at an end), in parts joined by dots"},
    {"{\"network\":\"host\"}", -EPERM, "network: network \"host\": no sandbox has the host's network"},
    {"{\"network\":{\"allow\":[\"10.0.0.0/8\",\"10.0.0.300\"]}}", -EINVAL, "network.allow[1]: allow-net: \"10.0.0.300\": must be an address or CIDR, and may have a port or ports and a protocol behind it: 10.0.0.0/8, 192.0.2.1:443, [2001:db8::]/32:8000-8099/tcp"},
    {"{\"network\":{\"deny\":[\"10.0.0.1/8\"]}}", -EINVAL, "network.deny[0]: deny-net: \"10.0.0.1/8\": has bits set behind its prefix length"},
    {"{\"network\":{\"hostPorts\":[0]}}", -ERANGE, "network.hostPorts[0]: host-port: \"0\": must be a port, 1 to 65535, or PORT/tcp or PORT/udp"},
    {"{\"network\":{\"mode\":\"backend\"}}", -EINVAL, "network.mode: must be none or internet"},
    {"{\"network\":{\"nosuch\":1}}", -EINVAL, "network.nosuch: unknown key"},
    {"{\"network\":{\"aliases\":[\"a\"]}}", -EINVAL, "network.aliases: only in a network that has a name"},
    {"{\"network\":{\"name\":\"n\",\"aliases\":[\"a b\"]}}", -EINVAL, "network.aliases[0]: network-alias \"a b\": must be letters, digits, -, _ and ., and at most 63 bytes"},
    {"{\"network\":{\"name\":\"n\",\"aliases\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\"]}}", -E2BIG, "network.aliases[8]: network-alias \"9\": more than 8"},
    {"{\"labels\":[]}", -EINVAL, "labels: must be an object of strings"},
    {"{\"labels\":{\"a\":true}}", -EINVAL, "labels.a: must be a string"},
    {"{\"labels\":{\"a=b\":\"\"}}", -EINVAL, "labels.a=b: a label's key must not hold ="},
    {"{\"labels\":{\"\":\"x\"}}", -EINVAL, "labels.: label \"=x\": must be KEY=VALUE or KEY, and KEY have 1 to 128 bytes without white space"},
    {"{\"limits\":{\"memory\":\"1m\"}}", -ERANGE, "limits.memory: memory \"1m\": no process starts with less than 4m"},
    {"{\"limits\":{\"memory\":-1}}", -EINVAL, "limits.memory: memory \"-1\": must be a number of bytes, or one with k, m, g or t behind it"},
    {"{\"limits\":{\"memory\":true}}", -EINVAL, "limits.memory: must be a string or a number"},
    {"{\"limits\":{\"cpus\":0.0001}}", -EINVAL, "limits.cpus: cpus \"0.0001\": must be a number between 0.01 and 1024, with at most three decimals"},
    {"{\"limits\":{\"pids\":0}}", -ERANGE, "limits.pids: pids \"0\": must be between 1 and 4194304"},
    {"{\"groups\":\"audio\"}", -EINVAL, "groups: must be an array"},
    {"{\"groups\":[\"a\",\"1x\"]}", -EINVAL, "groups[1]: group \"1x\": must be a name or a number (names: letters, digits, _ . - and not a digit, . or - first)"},
    {"{\"groups\":[65536]}", -ERANGE, "groups[0]: group \"65536\": a sandbox has the ids 0 to 65535"},
    {"{\"limits\":{\"disc\":1}}", -EINVAL, "limits.disc: unknown key"},
    {"{\"limits\":{\"disk\":1}}", -ERANGE, "limits.disk: disk \"1\": must be between 16m and 4t"},
    {"{\"ulimits\":[{\"name\":\"nofile\"}]}", -EINVAL, "ulimits[0].soft: missing"},
    {"{\"ulimits\":[{\"name\":\"nofile=1\",\"soft\":1}]}", -EINVAL, "ulimits[0]: ulimit \"nofile=1=1:1\": SOFT and HARD must be numbers, or unlimited"},
    {"{\"ulimits\":[{\"name\":\"nofile\",\"soft\":2,\"hard\":1}]}", -ERANGE, "ulimits[0]: ulimit \"nofile=2:1\": SOFT must not be above HARD"},
    {"{\"ulimits\":[{\"name\":\"nofile\",\"soft\":-2}]}", -ERANGE, "ulimits[0].soft: must be between -1 and 9223372036854775807"},
    {"{\"volumes\":{}}", -EINVAL, "volumes: must be an array"},
    {"{\"volumes\":[{\"source\":\"a/b\",\"target\":\"/b\"}]}", -EINVAL, "volumes[0].source: \"a/b\": must be an absolute path"},
    {"{\"volumes\":[{\"source\":\".\",\"target\":\"/b\"}]}", -EINVAL, "volumes[0]: volume \".\": must be a path that begins with / or ., or a name of 1 to 128 letters, digits, _ . - that begins with a letter or digit"},
    {"{\"volumes\":[{\"source\":\"/a\",\"target\":\"/b\",\"noCopy\":true}]}", -EINVAL, "volumes[0]: noCopy: only of a named volume"},
    {"{\"volumes\":[{\"source\":\"/a\"}]}", -EINVAL, "volumes[0].target: missing"},
    {"{\"volumes\":[{\"source\":\"/a\",\"target\":\"/proc/x\"}]}", -EINVAL, "volumes[0]: volume \"/proc/x\": /proc is made by rind, nothing can be mounted there"},
    {"{\"volumes\":[{\"source\":\"/a\",\"target\":\"/b\",\"ro\":true}]}", -EINVAL, "volumes[0].ro: unknown key"},
    {"{\"volumes\":[{\"source\":\"/a\",\"target\":\"/x\"}],\"tmpfs\":[{\"target\":\"/x\"}]}", -EINVAL, "\"/x\": two volumes or tmpfs have this target"},
    {"{\"tmpfs\":[{\"target\":\"/b\",\"size\":1}]}", -ERANGE, "tmpfs[0].size: tmpfs size \"1\": must be between 4k and 1024t"},
    {"{\"tmpfs\":[{\"target\":\"/\"}]}", -EINVAL, "tmpfs[0]: tmpfs \"/\": the root is the image's; use --rootfs"},
    {"{\"tmpfs\":[3]}", -EINVAL, "tmpfs[0]: must be an object, not a number"},
    {"{\"readOnly\":1}", -EINVAL, "readOnly: must be true or false, not a number"},
    {"{\"restart\":\"always\"}", -EINVAL, "restart: must be an object, not a string"},
    {"{\"restart\":{\"policy\":\"never\"}}", -EINVAL, "restart: restart \"never\": must be no, on-failure, on-failure:N, always or unless-stopped"},
    {"{\"restart\":{\"policy\":\"always\",\"maxRetries\":3}}", -EINVAL, "restart: restart \"always:3\": must be no, on-failure, on-failure:N, always or unless-stopped"},
    {"{\"restart\":{\"policy\":\"on-failure\",\"maxRetries\":0}}", -ERANGE, "restart.maxRetries: must be between 1 and 1000000"},
    {"{\"stopSignal\":\"SIGFOO\"}", -EINVAL, "stopSignal: stop signal \"SIGFOO\": must be a signal's name, as SIGTERM or TERM, or its number from 1 to 64"},
    {"{\"stopSignal\":65}", -EINVAL, "stopSignal: stop signal \"65\": must be a signal's name, as SIGTERM or TERM, or its number from 1 to 64"},
    {"{\"stopTimeoutMs\":-1}", -ERANGE, "stopTimeoutMs: must be between 0 and 31622400000"},
    {"{\"hardTimeoutMs\":0}", -ERANGE, "hardTimeoutMs: must be between 1 and 31622400000"},
    {"{\"hardTimeoutMs\":1.5}", -EINVAL, "hardTimeoutMs: must be a whole number, not a fraction"},
    {"{\"inactivityTimeoutMs\":\"5m\"}", -EINVAL, "inactivityTimeoutMs: must be a whole number, not a string"},
};
/* clang-format on */

TEST(refusals_have_the_path_and_the_command_lines_words)
{
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        auto_ptr(spec_free) struct spec *s = NULL;
        struct err err = ERR_NONE;

        printf("# %s\n", refusals[i].text);
        CHECK_INT(decode(refusals[i].text, &s, &err), refusals[i].code);
        CHECK_STR(err.msg, refusals[i].msg);
        CHECK(s == NULL);
    }
}

static const char full[] =
    "{\"name\":\"web\",\"rootfs\":\"/srv/root/\",\"policy\":\"container\",\"entrypoint\":[\"/bin/"
    "sh\","
    "\"-c\"],\"command\":[\"exit 3\",\"\"],\"env\":{\"A\":\"1\",\"B\":\"x=y\"},\"cwd\":\"/tmp/.\","
    "\"user\":\"app:10\",\"groups\":[\"audio\",44],\"hostname\":\"h.example\",\"labels\":{\"b\":"
    "\"2=3\",\"a\":\"\"},"
    "\"limits\":{\"memory\":\"64m\",\"cpus\":0.1,\"pids\":\"33\",\"shmSize\":8192},"
    "\"ulimits\":[{\"name\":\"nofile\",\"soft\":10,\"hard\":20},{\"name\":\"core\",\"soft\":-1}],"
    "\"volumes\":[{\"source\":\"/a:b\",\"target\":\"/c:d\",\"readOnly\":true},"
    "{\"source\":\"/e\",\"target\":\"/f\"}],\"tmpfs\":[{\"target\":\"/t\",\"size\":\"1m\"},"
    "{\"target\":\"/u\"}],\"network\":\"internet\",\"readOnly\":true,\"init\":true,\"tty\":true,"
    "\"stdin\":true,\"restart\":{\"policy\":\"on-failure\",\"maxRetries\":7},"
    "\"stopSignal\":\"RTMIN+3\",\"stopTimeoutMs\":0,\"inactivityTimeoutMs\":60000,"
    "\"hardTimeoutMs\":1500,\"autoRemove\":true}";

static void check_full(const struct spec *s)
{
    CHECK_STR(s->name, "web");
    CHECK_STR(s->rootfs, "/srv/root");
    CHECK_STR(s->policy, "container");
    CHECK_STR(s->argv[0], "/bin/sh");
    CHECK_STR(s->argv[1], "-c");
    CHECK_STR(s->argv[2], "exit 3");
    CHECK_STR(s->groups[0], "audio");
    CHECK_STR(s->groups[1], "44");
    CHECK(s->groups[2] == NULL);
    CHECK_STR(s->argv[3], "");
    CHECK(s->argv[4] == NULL);
    CHECK_STR(s->env[0], "A=1");
    CHECK_STR(s->env[1], "B=x=y");
    CHECK(s->env[2] == NULL);
    CHECK_STR(s->cwd, "/tmp");
    CHECK_STR(s->user, "app:10");
    CHECK_STR(s->hostname, "h.example");
    CHECK_STR(s->labels[0], "b=2=3");
    CHECK_STR(s->labels[1], "a=");
    CHECK(s->labels[2] == NULL);
    CHECK_INT(s->limits.memory_bytes, 64 << 20);
    CHECK_INT(s->limits.cpu_millis, 100);
    CHECK_INT(s->limits.pids, 33);
    CHECK_INT(s->limits.shm_bytes, 8192);
    CHECK_INT(s->rlimit_count, 2);
    CHECK_INT(s->rlimits[0].resource, RLIMIT_NOFILE);
    CHECK_INT(s->rlimits[0].soft, 10);
    CHECK_INT(s->rlimits[0].hard, 20);
    CHECK(s->rlimits[1].hard == RLIM_INFINITY);
    CHECK_INT(s->volume_count, 2);
    CHECK_STR(s->volumes[0].source, "/a:b");
    CHECK_STR(s->volumes[0].target, "/c:d");
    CHECK(s->volumes[0].read_only && !s->volumes[1].read_only);
    CHECK_INT(s->tmpfs_count, 2);
    CHECK_INT(s->tmpfs[0].bytes, 1 << 20);
    CHECK_INT(s->tmpfs[1].bytes, 64 << 20);
    CHECK_INT(s->network, NET_INTERNET);
    CHECK(s->read_only && s->init && s->tty && s->interactive && s->auto_remove);
    CHECK_INT(s->restart, RESTART_ON_FAILURE);
    CHECK_INT(s->restart_max, 7);
    CHECK_INT(s->stop_signal, SIGRTMIN + 3);
    CHECK_INT(s->stop_timeout_ms, 0);
    CHECK_INT(s->inactivity_ms, 60000);
    CHECK_INT(s->timeout_ms, 1500);
}

TEST(every_key_is_stored)
{
    auto_ptr(spec_free) struct spec *s = NULL;
    struct err err = ERR_NONE;

    CHECK_INT(decode(full, &s, &err), 0);
    CHECK_STR(err.msg, "");
    if (s != NULL)
        check_full(s);
}

TEST(what_is_written_is_read_as_the_same)
{
    static const char *const texts[] = {full, "{}",
                                        "{\"command\":[\"a\"],\"limits\":{\"cpus\":2}}"};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        auto_ptr(spec_free) struct spec *s = NULL, *again = NULL;
        auto_ptr(json_decref) json_t *one = NULL, *two = NULL;
        auto_free char *text = NULL;
        struct err err = ERR_NONE;

        CHECK_INT(decode(texts[i], &s, &err), 0);
        CHECK_INT(spec_to_json(s, &one, &err), 0);
        text = json_dumps(one, 0);
        CHECK_INT(decode(text, &again, &err), 0);
        CHECK_INT(spec_to_json(again, &two, &err), 0);
        CHECK_STR(err.msg, "");
        CHECK(json_equal(one, two));
        if (texts[i] == full)
            check_full(again);
    }
}

TEST(null_is_as_good_as_absent)
{
    static const char text[] =
        "{\"name\":null,\"rootfs\":null,\"policy\":null,\"entrypoint\":null,\"command\":null,"
        "\"env\":null,\"cwd\":null,\"user\":null,\"hostname\":null,\"labels\":null,"
        "\"limits\":{\"memory\":null,\"cpus\":null,\"pids\":null,\"shmSize\":null},"
        "\"ulimits\":null,\"volumes\":null,\"tmpfs\":null,\"network\":null,\"readOnly\":null,"
        "\"init\":null,\"tty\":null,\"stdin\":null,\"restart\":null,\"stopSignal\":null,"
        "\"stopTimeoutMs\":null,\"inactivityTimeoutMs\":null,\"hardTimeoutMs\":null,"
        "\"autoRemove\":null}";
    auto_ptr(spec_free) struct spec *s = NULL, *none = NULL;
    auto_ptr(json_decref) json_t *one = NULL, *two = NULL;
    struct err err = ERR_NONE;

    CHECK_INT(decode(text, &s, &err), 0);
    CHECK_INT(decode("{}", &none, &err), 0);
    CHECK_STR(err.msg, "");
    CHECK_INT(spec_to_json(s, &one, &err), 0);
    CHECK_INT(spec_to_json(none, &two, &err), 0);
    CHECK(json_equal(one, two));
    if (s == NULL)
        return;
    CHECK_INT(s->stop_timeout_ms, SPEC_STOP_TIMEOUT_MS);
    CHECK_INT(s->stop_signal, SIGTERM);
}

TEST(a_list_of_env_overrides_itself)
{
    auto_ptr(spec_free) struct spec *s = NULL;

    CHECK_INT(decode("{\"env\":[\"A=1\",\"B=2\",\"A=\"]}", &s, NULL), 0);
    if (s == NULL)
        return;
    CHECK_STR(s->env[0], "A=");
    CHECK_STR(s->env[1], "B=2");
    CHECK(s->env[2] == NULL);
}

TEST(what_is_no_text_is_not_written)
{
    auto_ptr(spec_free) struct spec *s = spec_new();
    auto_ptr(json_decref) json_t *root = NULL;
    char a[] = "a", bad[] = "\xff";
    char *argv[] = {a, bad, NULL};
    struct err err = ERR_NONE;

    CHECK_INT(spec_set_command(s, argv, &err), 0);
    CHECK_INT(spec_to_json(s, &root, &err), -EILSEQ);
    CHECK_STR(err.msg, "command: is not UTF-8, which JSON must be (or out of memory)");
    CHECK(root == NULL);
}

/* ---- options of kept sandboxes ---- */

TEST(labels_replace_each_other_and_are_bounded)
{
    auto_ptr(spec_free) struct spec *s = spec_new();
    struct err err = ERR_NONE;
    char text[32];
    size_t n = 0;
    int r = 0;

    CHECK_INT(spec_add_label(s, "a=1", &err), 0);
    CHECK_INT(spec_add_label(s, "ab", &err), 0);
    CHECK_INT(spec_add_label(s, "a", &err), 0);
    CHECK_STR(s->labels[0], "a=");
    CHECK_STR(s->labels[1], "ab=");
    CHECK(s->labels[2] == NULL);
    for (n = 2; r == 0 && n < 1000; n++) {
        (void)snprintf(text, sizeof(text), "k%zu=v", n);
        r = spec_add_label(s, text, &err);
    }
    CHECK_INT(r, -E2BIG);
    CHECK_INT(n - 1, SPEC_LABELS_MAX);
    CHECK_STR(err.msg, "label \"k64=v\": more than 64 labels");
    CHECK_INT(spec_add_label(s, "a=2", &err), 0); /* a known key still has room */
    CHECK_STR(s->labels[0], "a=2");
}

TEST(label_bytes_are_bounded)
{
    auto_ptr(spec_free) struct spec *s = spec_new();
    auto_free char *text = malloc(SPEC_LABELS_BYTES_MAX + 1);
    struct err err = ERR_NONE;

    (void)memset(text, 'x', SPEC_LABELS_BYTES_MAX);
    text[SPEC_LABELS_BYTES_MAX] = '\0';
    text[1] = '=';
    CHECK_INT(spec_add_label(s, text, &err), -E2BIG);
    CHECK_STR(err.msg, "label \"x\": more than 262144 bytes of labels");
    text[SPEC_LABELS_BYTES_MAX - 1] = '\0';
    CHECK_INT(spec_add_label(s, text, &err), 0);
    CHECK_INT(spec_add_label(s, text, &err), 0); /* in its own place */
    CHECK_INT(spec_add_label(s, "y", &err), -E2BIG);
}

TEST(restart_policies)
{
    auto_ptr(spec_free) struct spec *s = spec_new();
    struct err err = ERR_NONE;

    for (int p = 0; p < RESTART_MAX; p++) {
        CHECK_INT(spec_set_restart(s, spec_restart_name((enum restart_policy)p), &err), 0);
        CHECK_INT(s->restart, p);
        CHECK_INT(s->restart_max, LIMIT_UNSET);
    }
    CHECK_INT(spec_set_restart(s, "on-failure:5", &err), 0);
    CHECK_INT(s->restart_max, 5);
    CHECK_INT(spec_set_restart(s, "on-failure:0", &err), -ERANGE);
    CHECK_STR(err.msg, "restart \"0\": must be between 1 and 1000000");
    CHECK_INT(spec_set_restart(s, "on-failure:", &err), -EINVAL);
    CHECK_INT(spec_set_restart(s, "", &err), -EINVAL);
    CHECK_INT(s->restart_max, 5);
}

TEST(timeouts_are_checked)
{
    auto_ptr(spec_free) struct spec *s = spec_new();
    struct err err = ERR_NONE;

    CHECK_INT(spec_set_stop_timeout(s, "0", &err), 0);
    CHECK_INT(s->stop_timeout_ms, 0);
    CHECK_INT(spec_set_stop_timeout(s, "1.5s", &err), 0);
    CHECK_INT(s->stop_timeout_ms, 1500);
    CHECK_INT(spec_set_stop_timeout(s, "x", &err), -EINVAL);
    CHECK_INT(spec_set_inactivity(s, "2m", &err), 0);
    CHECK_INT(s->inactivity_ms, 120000);
    CHECK_INT(spec_set_inactivity(s, "0", &err), -ERANGE);
}

TEST(signals_by_name_and_number)
{
    char text[SIGNAL_TEXT_MAX];
    struct err err = ERR_NONE;
    int signo = 0;

    for (int n = 1; n <= SIGRTMAX; n++) {
        signal_format(n, text);
        CHECK_INT(signal_parse("s", text, &signo, &err), 0);
        CHECK_INT(signo, n);
    }
    CHECK_INT(signal_parse("s", "kill", &signo, &err), 0);
    CHECK_INT(signo, SIGKILL);
    CHECK_INT(signal_parse("s", "sigterm", &signo, &err), 0);
    CHECK_INT(signo, SIGTERM);
    CHECK_INT(signal_parse("s", "RTMAX-1", &signo, &err), 0);
    CHECK_INT(signo, SIGRTMAX - 1);
    for (const char *const *bad =
             (const char *const[]){"", "0", "65", "SIG", "SIGSIGTERM", "RTMIN-1", "RTMIN+",
                                   "RTMAX+1", "RTMIN+31", "9 ", NULL};
         *bad != NULL; bad++) {
        printf("# \"%s\"\n", *bad);
        CHECK_INT(signal_parse("s", *bad, &signo, &err), -EINVAL);
    }
}

TAP_MAIN
