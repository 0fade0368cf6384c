/* Policies: the shipped ones as they are, and one change each to a small valid one. */

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "policy/policy.h"
#include "policy/tables.h"
#include "tap.h"

#define CAP(n) (UINT64_C(1) << (n))

/* ---- shipped ---- */

static struct policy *builtin(const char *name)
{
    struct policy *p = NULL;
    struct err err = ERR_NONE;
    size_t len = 0;
    const char *text = policy_builtin(name, &len);

    if (text == NULL || policy_parse(text, len, name, &p, &err) < 0)
        tap_fail("%s: %s", name, err.msg);
    return p;
}

static bool lists(char *const *paths, const char *path)
{
    for (; *paths != NULL; paths++)
        if (strcmp(*paths, path) == 0)
            return true;
    tap_fail("%s is not listed", path);
    return false;
}

TEST(shipped_policies_parse_and_carry_their_names)
{
    static const char *const want[] = {"untrusted", "compute",   "container", "build",
                                       "fuse",      "net-admin", NULL};
    const char *const *names = policy_builtin_names();
    size_t len;

    for (size_t i = 0; want[i] != NULL; i++) {
        auto_ptr(policy_free) struct policy *p = builtin(want[i]);

        CHECK_STR(names[i], want[i]);
        CHECK_STR(p != NULL ? p->name : NULL, want[i]);
    }
    CHECK(names[sizeof(want) / sizeof(want[0]) - 1] == NULL);
    CHECK(policy_builtin("nosuch", &len) == NULL);
    CHECK(policy_builtin("", &len) == NULL);
}

TEST(what_is_carried_is_the_file)
{
    for (const char *const *name = policy_builtin_names(); *name != NULL; name++) {
        auto_free char *text = NULL, *path = NULL;
        struct err err = ERR_NONE;
        size_t len = 0, have = 0;
        const char *carried = policy_builtin(*name, &have);

        CHECK(asprintf(&path, "policies/%s.json", *name) > 0);
        CHECK_INT(file_read_at(AT_FDCWD, path, POLICY_TEXT_MAX, &text, &len, &err), 0);
        CHECK_STR(err.msg, "");
        CHECK_INT(have, len);
        CHECK(text != NULL && have == len && memcmp(carried, text, len) == 0);
    }
}

TEST(untrusted_is_tight)
{
    auto_ptr(policy_free) struct policy *p = builtin("untrusted");

    if (p == NULL)
        return;
    CHECK(p->no_new_privs);
    CHECK_INT(p->network, NET_NONE);
    CHECK_INT(p->capabilities, CAP(CAP_CHOWN) | CAP(CAP_DAC_OVERRIDE) | CAP(CAP_FOWNER) |
                                   CAP(CAP_FSETID) | CAP(CAP_KILL) | CAP(CAP_NET_BIND_SERVICE) |
                                   CAP(CAP_SETGID) | CAP(CAP_SETUID));
    CHECK_INT(p->limits.pids, 1024);
    CHECK_INT(p->limits.memory_bytes, INT64_C(2) << 30);
    CHECK_INT(p->limits.shm_bytes, 64 << 20);
    CHECK_INT(p->limits.cpu_millis, LIMIT_UNSET);
    CHECK(p->limits.user_namespaces > 0 && p->limits.inotify_instances > 0);
}

TEST(compute_has_less)
{
    auto_ptr(policy_free) struct policy *p = builtin("compute"), *u = builtin("untrusted");

    if (p == NULL || u == NULL)
        return;
    CHECK(p->no_new_privs && !p->no_exec && !p->core_sched);
    CHECK_INT(p->network, NET_NONE);
    CHECK_INT(p->capabilities, 0);
    CHECK_INT(p->limits.pids, 64);
    CHECK(p->limits.memory_bytes < u->limits.memory_bytes &&
          p->limits.shm_bytes < u->limits.shm_bytes);
    CHECK_INT(p->limits.inotify_instances, 0);
    for (size_t i = 0; u->masked[i] != NULL; i++)
        CHECK(lists(p->masked, u->masked[i]));
    for (size_t i = 0; u->read_only[i] != NULL; i++)
        CHECK(lists(p->read_only, u->read_only[i]));
}

TEST(container_is_what_docker_gives)
{
    auto_ptr(policy_free) struct policy *p = builtin("container");

    if (p == NULL)
        return;
    CHECK(!p->no_new_privs);
    CHECK_INT(p->capabilities, CAP(CAP_CHOWN) | CAP(CAP_DAC_OVERRIDE) | CAP(CAP_FSETID) |
                                   CAP(CAP_FOWNER) | CAP(CAP_MKNOD) | CAP(CAP_NET_RAW) |
                                   CAP(CAP_SETGID) | CAP(CAP_SETUID) | CAP(CAP_SETFCAP) |
                                   CAP(CAP_SETPCAP) | CAP(CAP_NET_BIND_SERVICE) |
                                   CAP(CAP_SYS_CHROOT) | CAP(CAP_KILL) | CAP(CAP_AUDIT_WRITE));
    CHECK_INT(p->limits.memory_bytes, LIMIT_UNSET);
}

TEST(no_shipped_policy_grants_the_host)
{
    const uint64_t never = CAP(CAP_SYS_ADMIN) | CAP(CAP_SYS_MODULE) | CAP(CAP_SYS_PTRACE) |
                           CAP(CAP_SYS_RAWIO) | CAP(CAP_SYS_BOOT) | CAP(CAP_NET_ADMIN) |
                           CAP(CAP_BPF) | CAP(CAP_PERFMON) | CAP(CAP_DAC_READ_SEARCH) |
                           CAP(CAP_SYS_RESOURCE) | CAP(CAP_SYS_TIME) | CAP(CAP_SYSLOG);

    for (const char *const *name = policy_builtin_names(); *name != NULL; name++) {
        auto_ptr(policy_free) struct policy *p = builtin(*name);

        if (p == NULL)
            continue;
        /* It mounts in a namespace whose locked mounts it cannot change. */
        CHECK_INT(p->capabilities & never,
                  (p->fuse ? CAP(CAP_SYS_ADMIN) : 0) | (p->net_admin ? CAP(CAP_NET_ADMIN) : 0));
        CHECK_INT(p->fuse, strcmp(*name, "fuse") == 0);
        CHECK_INT(p->net_admin, strcmp(*name, "net-admin") == 0);
        CHECK(lists(p->masked, "/proc/kcore") && lists(p->masked, "/proc/keys") &&
              lists(p->masked, "/proc/kmsg") && lists(p->masked, "/proc/kallsyms") &&
              lists(p->masked, "/proc/timer_list") && lists(p->masked, "/proc/sched_debug") &&
              lists(p->masked, "/proc/latency_stats") && lists(p->masked, "/proc/acpi") &&
              lists(p->masked, "/proc/scsi") && lists(p->masked, "/proc/asound") &&
              lists(p->masked, "/proc/interrupts") && lists(p->masked, "/sys/firmware") &&
              lists(p->masked, "/sys/devices/virtual/dmi") &&
              lists(p->masked, "/sys/devices/virtual/powercap") &&
              lists(p->masked, "/sys/devices/system/cpu/cpu*/thermal_throttle") &&
              lists(p->masked, "/sys/kernel/security") && lists(p->masked, "/sys/class/hwmon"));
        CHECK(lists(p->read_only, "/proc/bus") && lists(p->read_only, "/proc/fs") &&
              lists(p->read_only, "/proc/irq") && lists(p->read_only, "/proc/sys") &&
              lists(p->read_only, "/proc/sysrq-trigger"));
    }
}

/* ---- tables ---- */

TEST(tables_round_trip)
{
    const struct strtab *const tables[] = {capability_names, rlimit_names, net_mode_names};

    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        for (const struct strtab *t = tables[i]; t->name != NULL; t++) {
            CHECK_INT(strtab_value(tables[i], t->name), t->value);
            CHECK_STR(strtab_name(tables[i], t->value), t->name);
        }
    CHECK_INT(rlimit_by_option("nofile"), RLIMIT_NOFILE);
    CHECK_INT(rlimit_by_option("as"), RLIMIT_AS);
    CHECK_INT(rlimit_by_option("NOFILE"), -ENOENT);
    CHECK_INT(rlimit_by_option(""), -ENOENT);
    CHECK_INT(rlimit_by_option("nofilenofilenofilenofilenofile"), -ENOENT);
}

/* ---- one change each ---- */

/* clang-format off */
static const struct {
    const char *key, *value;
} minimal[] = {
    {"name", "\"t\""},
    {"noNewPrivileges", "true"},
    {"network", "\"none\""},
    {"capabilities", "[\"CAP_CHOWN\"]"},
    {"limits", "{}"},
    {"rlimits", "[]"},
    {"maskedPaths", "[\"/proc/kcore\"]"},
    {"readonlyPaths", "[\"/proc/sys\"]"},
    {"seccomp", "{\"defaultAction\":\"SCMP_ACT_ALLOW\"}"},
};
/* clang-format on */
enum { MINIMAL_ROWS = sizeof(minimal) / sizeof(minimal[0]) };

/* The minimal policy with `key` set to `value` (NULL: left out); an unknown key is added. */
static int parse_changed(const char *key, const char *value, struct policy **ret, struct err *err)
{
    char text[8192] = "{";
    size_t len = 1;
    bool known = false;

    for (size_t i = 0; i < MINIMAL_ROWS; i++) {
        bool this = strcmp(minimal[i].key, key) == 0;

        known = known || this;
        if (this && value == NULL)
            continue;
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s\"%s\":%s", len > 1 ? "," : "",
                                minimal[i].key, this ? value : minimal[i].value);
    }
    if (!known && value != NULL)
        len += (size_t)snprintf(text + len, sizeof(text) - len, ",\"%s\":%s", key, value);
    len += (size_t)snprintf(text + len, sizeof(text) - len, "}");
    return policy_parse(text, len, "x.json", ret, err);
}

#define RULES(text) "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"syscalls\":[" text "]}"
#define WITH_ARGS(text)                                                                            \
    RULES("{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":[" text "]}")

/* clang-format off */
static const struct {
    const char *key, *value;
    int code;
    const char *msg; /* behind "x.json: " */
} refusals[] = {
    {"name", NULL, -EINVAL, "name: missing"},
    {"noNewPrivileges", NULL, -EINVAL, "noNewPrivileges: missing"},
    {"network", NULL, -EINVAL, "network: missing"},
    {"capabilities", NULL, -EINVAL, "capabilities: missing"},
    {"maskedPaths", NULL, -EINVAL, "maskedPaths: missing"},
    {"readonlyPaths", NULL, -EINVAL, "readonlyPaths: missing"},
    {"seccomp", NULL, -EINVAL, "seccomp: missing"},
    {"privileged", "true", -EINVAL, "privileged: unknown key"},
    {"maskedpaths", "[]", -EINVAL, NULL},
    {"name", "\"\"", -EINVAL, "name: must not be empty"},
    {"name", "\"A b\"", -EINVAL, "name: \"A b\" must be lower-case letters, digits, - _ . and begin with a letter or digit"},
    {"name", "\"../x\"", -EINVAL, "name: \"../x\" must be lower-case letters, digits, - _ . and begin with a letter or digit"},
    {"noNewPrivileges", "\"yes\"", -EINVAL, "noNewPrivileges: must be true or false, not a string"},
    {"fuse", "1", -EINVAL, "fuse: must be true or false, not a number"},
    {"netAdmin", "1", -EINVAL, "netAdmin: must be true or false, not a number"},
    {"netAdmin", "true", -EINVAL, "netAdmin: capabilities must list CAP_NET_ADMIN"},
    {"network", "\"host\"", -EINVAL, "network: \"host\" is not one of none, internet"},
    {"capabilities", "[\"CHOWN\"]", -EINVAL, "capabilities[0]: \"CHOWN\" is not a capability (they are spelt \"CAP_CHOWN\")"},
    {"capabilities", "[\"ALL\"]", -EINVAL, "capabilities[0]: \"ALL\" is not a capability (they are spelt \"CAP_CHOWN\")"},
    {"capabilities", "[\"CAP_KILL\",\"CAP_KILL\"]", -EINVAL, "capabilities[1]: CAP_KILL is listed twice"},
    {"limits", "{\"pids\":0}", -ERANGE, "limits.pids: must be between 1 and 4194304"},
    {"limits", "{\"pids\":4194305}", -ERANGE, "limits.pids: must be between 1 and 4194304"},
    {"limits", "{\"pid\":1}", -EINVAL, "limits.pid: unknown key"},
    {"limits", "{\"memoryBytes\":4194303}", -ERANGE, "limits.memoryBytes: must be between 4194304 and 1125899906842624"},
    {"limits", "{\"memoryBytes\":\"1g\"}", -EINVAL, "limits.memoryBytes: must be a whole number, not a string"},
    {"limits", "{\"cpuMillis\":9}", -ERANGE, "limits.cpuMillis: must be between 10 and 1024000"},
    {"limits", "{\"shmBytes\":0}", -ERANGE, "limits.shmBytes: must be between 4096 and 1125899906842624"},
    {"limits", "{\"userNamespaces\":3}", -ERANGE, "limits.userNamespaces: must be between 4 and 2147483647"},
    {"limits", "{\"inotifyInstances\":-1}", -ERANGE, "limits.inotifyInstances: must be between 0 and 2147483647"},
    {"rlimits", "[{\"type\":\"RLIMIT_X\",\"soft\":1,\"hard\":1}]", -EINVAL, NULL},
    {"rlimits", "[{\"type\":\"RLIMIT_CPU\",\"soft\":1}]", -EINVAL, "rlimits[0].hard: missing"},
    {"rlimits", "[{\"type\":\"RLIMIT_CPU\",\"soft\":2,\"hard\":1}]", -ERANGE, "rlimits[0]: soft must not be above hard"},
    {"rlimits", "[{\"type\":\"RLIMIT_CPU\",\"soft\":-1,\"hard\":1}]", -ERANGE, "rlimits[0]: soft must not be above hard"},
    {"rlimits", "[{\"type\":\"RLIMIT_CPU\",\"soft\":-2,\"hard\":1}]", -ERANGE, "rlimits[0].soft: must be between -1 and 9223372036854775807"},
    {"rlimits", "[{\"type\":\"RLIMIT_CPU\",\"soft\":1,\"hard\":1},{\"type\":\"RLIMIT_CPU\",\"soft\":1,\"hard\":1}]", -EINVAL, "rlimits[1]: RLIMIT_CPU is listed twice"},
    {"maskedPaths", "[\"proc\"]", -EINVAL, "maskedPaths[0]: \"proc\" must be absolute, below /, without \"//\", \".\", \"..\" or a / at the end"},
    {"maskedPaths", "[\"/\"]", -EINVAL, NULL},
    {"maskedPaths", "[\"/a/\"]", -EINVAL, NULL},
    {"maskedPaths", "[\"/a//b\"]", -EINVAL, NULL},
    {"maskedPaths", "[\"/a/../b\"]", -EINVAL, NULL},
    {"maskedPaths", "[\"/a/.\"]", -EINVAL, NULL},
    {"maskedPaths", "[\"/a/..\"]", -EINVAL, NULL},
    {"maskedPaths", "[\"/a\",\"/a\"]", -EINVAL, "maskedPaths[1]: \"/a\" is listed twice"},
    {"readonlyPaths", "[\"/a*\"]", -EINVAL, "readonlyPaths[0]: \"/a*\" must not hold a *"},
    {"seccomp", "[]", -EINVAL, "seccomp: must be an object, not an array"},
    {"seccomp", "{}", -EINVAL, "seccomp.defaultAction: missing"},
    {"seccomp", "{\"defaultAction\":\"SCMP_ACT_TRACE\"}", -EINVAL, "seccomp.defaultAction: \"SCMP_ACT_TRACE\" is not one of SCMP_ACT_ALLOW, SCMP_ACT_LOG, SCMP_ACT_ERRNO, SCMP_ACT_TRAP, SCMP_ACT_KILL, SCMP_ACT_KILL_THREAD, SCMP_ACT_KILL_PROCESS"},
    {"seccomp", "{\"defaultAction\":\"SCMP_ACT_NOTIFY\"}", -EINVAL, NULL},
    {"seccomp", "{\"defaultAction\":\"allow\"}", -EINVAL, NULL},
    {"seccomp", "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":0}", -ERANGE, "seccomp.defaultErrnoRet: must be between 1 and 4095"},
    {"seccomp", "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"listenerPath\":\"/x\"}", -EINVAL, "seccomp.listenerPath: unknown key"},
    {"seccomp", "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"flags\":[\"SECCOMP_FILTER_FLAG_LOG\"]}", -ERANGE, "seccomp.flags: must have between 0 and 0 entries, has 1"},
    {"seccomp", "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"architectures\":[\"SCMP_ARCH_X86\"]}", -EINVAL, "seccomp.architectures: does not list this machine's architecture"},
    {"seccomp", "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"architectures\":[\"amd64\"]}", -EINVAL, "seccomp.architectures[0]: \"amd64\" is not an architecture"},
    {"seccomp", "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"archMap\":[{\"architecture\":\"SCMP_ARCH_S390X\",\"subArchitectures\":[]}]}", -EINVAL, "seccomp.archMap: does not list this machine's architecture"},
    {"seccomp", "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"architectures\":[\"SCMP_ARCH_X86_64\"],\"archMap\":[{\"architecture\":\"SCMP_ARCH_X86_64\"}]}", -EINVAL, "seccomp: has both architectures and archMap"},
    {"seccomp", RULES("{\"action\":\"SCMP_ACT_ALLOW\"}"), -EINVAL, "seccomp.syscalls[0].names: missing"},
    {"seccomp", RULES("{\"names\":[],\"action\":\"SCMP_ACT_ALLOW\"}"), -ERANGE, "seccomp.syscalls[0].names: must have between 1 and 1024 entries, has 0"},
    {"seccomp", RULES("{\"names\":[\"a\"],\"name\":\"b\",\"action\":\"SCMP_ACT_ALLOW\"}"), -EINVAL, "seccomp.syscalls[0]: has both name and names"},
    {"seccomp", RULES("{\"names\":[\"a\"]}"), -EINVAL, "seccomp.syscalls[0].action: missing"},
    {"seccomp", RULES("{\"names\":[\"a\"],\"action\":\"SCMP_ACT_ALLOW\",\"errnoRet\":1}"), -EINVAL, "seccomp.syscalls[0].errnoRet: only goes with SCMP_ACT_ERRNO"},
    {"seccomp", RULES("{\"names\":[\"a\"],\"action\":\"SCMP_ACT_ALLOW\",\"otherwise\":true}"), -EINVAL, "seccomp.syscalls[0].otherwise: only goes with an action that denies"},
    {"seccomp", RULES("{\"names\":[\"a\"],\"action\":\"SCMP_ACT_ERRNO\",\"otherwise\":true,\"args\":[{\"index\":0,\"value\":1,\"op\":\"SCMP_CMP_EQ\"}]}"), -EINVAL, "seccomp.syscalls[0].args: a rule that says \"otherwise\" compares none"},
    {"seccomp", RULES("{\"names\":[\"a\"],\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":4096}"), -ERANGE, "seccomp.syscalls[0].errnoRet: must be between 1 and 4095"},
    {"seccomp", RULES("{\"names\":[\"a\"],\"action\":\"SCMP_ACT_ALLOW\"},{\"names\":[\"b\"],\"action\":\"x\"}"), -EINVAL, NULL},
    {"seccomp", RULES("{\"names\":[\"a\"],\"action\":\"SCMP_ACT_ALLOW\",\"includes\":{\"caps\":[\"SYS_ADMIN\"]}}"), -EINVAL, "seccomp.syscalls[0].includes.caps[0]: \"SYS_ADMIN\" is not a capability"},
    {"seccomp", RULES("{\"names\":[\"a\"],\"action\":\"SCMP_ACT_ALLOW\",\"includes\":{\"minKernel\":\"4.8.1\"}}"), -EINVAL, "seccomp.syscalls[0].includes.minKernel: \"4.8.1\" is not a version such as \"4.8\""},
    {"seccomp", RULES("{\"names\":[\"a\"],\"action\":\"SCMP_ACT_ALLOW\",\"excludes\":{\"minKernel\":\" 4.8\"}}"), -EINVAL, "seccomp.syscalls[0].excludes.minKernel: \" 4.8\" is not a version such as \"4.8\""},
    {"seccomp", WITH_ARGS("{\"index\":6,\"value\":0,\"op\":\"SCMP_CMP_EQ\"}"), -ERANGE, "seccomp.syscalls[0].args[0].index: must be between 0 and 5"},
    {"seccomp", WITH_ARGS("{\"index\":0,\"value\":-1,\"op\":\"SCMP_CMP_EQ\"}"), -ERANGE, "seccomp.syscalls[0].args[0].value: must be between 0 and 9223372036854775807"},
    {"seccomp", WITH_ARGS("{\"index\":0,\"value\":1,\"op\":\"EQ\"}"), -EINVAL, "seccomp.syscalls[0].args[0].op: \"EQ\" is not one of SCMP_CMP_NE, SCMP_CMP_LT, SCMP_CMP_LE, SCMP_CMP_EQ, SCMP_CMP_GE, SCMP_CMP_GT, SCMP_CMP_MASKED_EQ"},
    {"seccomp", WITH_ARGS("{\"index\":0,\"op\":\"SCMP_CMP_EQ\"}"), -EINVAL, "seccomp.syscalls[0].args[0].value: missing"},
    {"seccomp", WITH_ARGS("{\"index\":0,\"value\":1,\"valueTwo\":2,\"op\":\"SCMP_CMP_EQ\"}"), -EINVAL, "seccomp.syscalls[0].args[0]: valueTwo only goes with SCMP_CMP_MASKED_EQ"},
    {"seccomp", WITH_ARGS("{\"index\":0,\"value\":1,\"valueTwo\":2,\"op\":\"SCMP_CMP_MASKED_EQ\"}"), -EINVAL, "seccomp.syscalls[0].args[0]: can never match: valueTwo has bits that the mask (value) clears"},
    {"seccomp", WITH_ARGS("{\"index\":0,\"value\":40,\"op\":\"SCMP_CMP_NE\"},{\"index\":0,\"value\":38,\"op\":\"SCMP_CMP_NE\"}"), -EINVAL, "seccomp.syscalls[0].args[1]: argument 0 is compared twice in one rule; use one rule for each accepted range"},
    {"seccomp", "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"architectures\":[\"SCMP_ARCH_X86_64\",\"SCMP_ARCH_X86\"],\"syscalls\":[{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":[{\"index\":0,\"value\":4294967296,\"op\":\"SCMP_CMP_EQ\"}]}]}", -ERANGE, "seccomp.syscalls[0].args[0]: 4294967296 does not fit the 32-bit arguments of SCMP_ARCH_X86"},
};

static const struct {
    const char *key, *value;
} accepted[] = {
    {"description", "\"words\""},
    {"network", "\"internet\""},
    {"capabilities", "[]"},
    {"limits", NULL},
    {"rlimits", NULL},
    {"limits", "{\"memoryBytes\":4194304,\"pids\":1,\"cpuMillis\":10,\"shmBytes\":4096,\"userNamespaces\":4,\"fanotifyGroups\":0}"},
    {"rlimits", "[{\"type\":\"RLIMIT_NOFILE\",\"soft\":0,\"hard\":-1}]"},
    {"maskedPaths", "[\"/sys/devices/system/cpu/cpu*/thermal_throttle\",\"/...\",\"/a/.b\"]"},
    {"seccomp", "{\"defaultAction\":\"SCMP_ACT_LOG\",\"architectures\":null,\"archMap\":null,\"flags\":[],\"syscalls\":null}"},
    {"seccomp", "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"archMap\":[{\"architecture\":\"SCMP_ARCH_X86_64\",\"subArchitectures\":[\"SCMP_ARCH_X86\",\"SCMP_ARCH_X32\"]},{\"architecture\":\"SCMP_ARCH_AARCH64\",\"subArchitectures\":null}]}"},
    {"seccomp", RULES("{\"name\":\"read\",\"action\":\"SCMP_ACT_ALLOW\",\"args\":null,\"comment\":\"\",\"includes\":{},\"excludes\":{}}")},
    {"seccomp", WITH_ARGS("{\"index\":0,\"value\":1,\"valueTwo\":0,\"op\":\"SCMP_CMP_EQ\"}")},
};
/* clang-format on */

TEST(bad_policies_are_refused_with_their_path)
{
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        auto_ptr(policy_free) struct policy *p = NULL;
        struct err err = ERR_NONE;
        int r = parse_changed(refusals[i].key, refusals[i].value, &p, &err);

        if (r != refusals[i].code)
            tap_fail("%s: %s: %d (%s)", refusals[i].key, refusals[i].value, r, err.msg);
        CHECK(p == NULL && strncmp(err.msg, "x.json: ", 8) == 0 && strlen(err.msg) > 8);
        if (refusals[i].msg != NULL)
            CHECK_STR(err.msg + 8, refusals[i].msg);
    }
}

TEST(valid_policies_are_accepted)
{
    for (size_t i = 0; i < sizeof(accepted) / sizeof(accepted[0]); i++) {
        auto_ptr(policy_free) struct policy *p = NULL;
        struct err err = ERR_NONE;

        CHECK_INT(parse_changed(accepted[i].key, accepted[i].value, &p, &err), 0);
        CHECK_STR(err.msg, "");
    }
}

TEST(values_arrive)
{
    auto_ptr(policy_free) struct policy *p = NULL;
    struct err err = ERR_NONE;

    CHECK_INT(parse_changed("rlimits",
                            "[{\"type\":\"RLIMIT_NOFILE\",\"soft\":16,\"hard\":-1},"
                            "{\"type\":\"RLIMIT_CORE\",\"soft\":0,\"hard\":0}]",
                            &p, &err),
              0);
    if (p == NULL)
        return;
    CHECK_INT(p->rlimit_count, 2);
    CHECK_INT(p->rlimits[0].resource, RLIMIT_NOFILE);
    CHECK_INT(p->rlimits[0].soft, 16);
    CHECK(p->rlimits[0].hard == RLIM_INFINITY);
    CHECK_INT(p->rlimits[1].resource, RLIMIT_CORE);
    CHECK_INT(p->capabilities, 1);
    CHECK_STR(p->masked[0], "/proc/kcore");
    CHECK_STR(p->read_only[0], "/proc/sys");
    CHECK(p->masked[1] == NULL && p->read_only[1] == NULL);
    CHECK_INT(p->limits.pids, LIMIT_UNSET);
    CHECK_INT(p->limits.fanotify_marks, LIMIT_UNSET);
}

TEST(a_network_with_exceptions)
{
    static const struct {
        const char *value, *msg;
    } wrong[] = {
        {"{}", "network.mode: missing"},
        {"{\"mode\":\"host\"}", NULL},
        {"{\"mode\":\"none\",\"allow\":[\"10.0.0.0/33\"]}", NULL},
        {"{\"mode\":\"none\",\"deny\":[\"1.2.3.4\",\"10.0.0.1/8\"]}",
         "network.deny[1]: \"10.0.0.1/8\": has bits set behind its prefix length"},
        {"{\"mode\":\"none\",\"hostPorts\":[\"0\"]}", NULL},
        {"{\"mode\":\"none\",\"more\":1}", "network.more: unknown key"},
        {"7", NULL},
    };
    auto_ptr(policy_free) struct policy *p = NULL;
    char text[NET_RULE_TEXT_MAX];

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct err err = ERR_NONE;

        CHECK(parse_changed("network", wrong[i].value, &p, &err) < 0);
        CHECK(strncmp(err.msg, "x.json: network", 15) == 0);
        if (wrong[i].msg != NULL)
            CHECK_STR(err.msg + 8, wrong[i].msg);
    }
    CHECK_INT(parse_changed("network",
                            "{\"mode\":\"internet\",\"allow\":[\"10.0.0.0/8:53\"],\"deny\":["
                            "\"fd00::/8\"],\"hostPorts\":[\"53/udp\"]}",
                            &p, NULL),
              0);
    if (p == NULL)
        return;
    CHECK_INT(p->network, NET_INTERNET);
    CHECK_INT(p->access.rule_count, 2);
    net_rule_format(&p->access.rules[1], text);
    CHECK_STR(text, "[fd00::]/8");
    CHECK_INT(p->access.rules[1].deny, 1);
    CHECK_INT(p->access.ports[0].port, 53);
}

TEST(limits_merge_by_what_is_set)
{
    struct limits base = limits_unset(), over = limits_unset(), l;

    base.pids = 5;
    base.memory_bytes = 6;
    over.memory_bytes = 7;
    over.fanotify_marks = 0;
    l = limits_merge(&base, &over);
    CHECK_INT(l.pids, 5);
    CHECK_INT(l.memory_bytes, 7);
    CHECK_INT(l.fanotify_marks, 0);
    CHECK_INT(l.cpu_millis, LIMIT_UNSET);
    for (size_t i = 0; i < sizeof(l) / sizeof(int64_t); i++) {
        struct limits unset = limits_unset();

        CHECK_INT(((int64_t *)(void *)&unset)[i], LIMIT_UNSET);
    }
}

TEST(limits_in_force_are_never_above_the_bound)
{
    struct limits policy = limits_unset(), asked = limits_unset(), most = limits_unset(), l;

    policy.memory_bytes = 2048;
    policy.pids = 10;
    policy.disk_bytes = 700;
    asked.pids = 5;
    asked.cpu_millis = 900;
    most.memory_bytes = 64;
    most.pids = 7;
    most.cpu_millis = 500;
    most.shm_bytes = 4096;
    most.disk_bytes = 600;
    l = limits_effective(&policy, &asked, &most);
    CHECK_INT(l.memory_bytes, 64); /* the policy's is more */
    CHECK_INT(l.pids, 5);          /* less is asked */
    CHECK_INT(l.cpu_millis, 500);  /* more is asked */
    CHECK_INT(l.shm_bytes, 4096);  /* nothing is asked, and the policy has none */
    CHECK_INT(l.user_namespaces, LIMIT_UNSET);
    CHECK_INT(l.disk_bytes, 700); /* is decided when the disk is made */
    CHECK_INT(limits_disk_size(&policy, &asked, &most), 600);
    policy.disk_bytes = LIMIT_UNSET;
    CHECK_INT(limits_disk_size(&policy, &asked, &most), 600);
    asked.disk_bytes = 500;
    CHECK_INT(limits_disk_size(&policy, &asked, &most), 500);
    CHECK_INT(limits_disk_size(&policy, &asked, NULL), 500);
    l = limits_effective(&policy, &asked, NULL);
    CHECK_INT(l.memory_bytes, 2048);
    CHECK_INT(l.shm_bytes, LIMIT_UNSET);
}

TEST(a_policy_that_is_too_long)
{
    auto_free char *text = malloc(POLICY_TEXT_MAX + 1);
    auto_ptr(policy_free) struct policy *p = NULL;
    struct err err = ERR_NONE;

    memset(text, ' ', POLICY_TEXT_MAX + 1);
    CHECK_INT(policy_parse(text, POLICY_TEXT_MAX + 1, "x", &p, &err), -EFBIG);
    CHECK_STR(err.msg, "x: longer than 1048576 bytes");
}

TAP_MAIN
