/* The decoder behind policy/policy.h. Pure functions. */

#include "policy/policy.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/auto.h"
#include "base/err.h"
#include "json/decode.h"
#include "json/parse.h"
#include "policy/plain-path.h"
#include "policy/seccomp-internal.h"
#include "policy/seccomp.h"
#include "policy/tables.h"

enum { RLIMIT_TYPE_MAX = 32, CAPABILITIES_MAX = 64, DESCRIPTION_MAX = 4096 };

/* Decoded JSON, before the checks that a table cannot express. */
struct raw_rlimit {
    int resource;
    int64_t soft, hard;
};

struct raw_policy {
    char *name, *description;
    char **capabilities;
    struct raw_rlimit *rlimits;
    size_t rlimit_count;
    struct policy *p; /* borrowed; other members are decoded in place */
};

/* clang-format off */
#define LIMIT(key, member, least, most) \
    {.name = key, .decode = j_int64, .off = offsetof(struct limits, member), .min = least, .max = most}
static const struct jfield limit_fields[] = {
    LIMIT("memoryBytes", memory_bytes, LIMIT_MEMORY_MIN, LIMIT_BYTES_MAX),
    LIMIT("pids", pids, 1, LIMIT_PIDS_MAX),
    LIMIT("cpuMillis", cpu_millis, LIMIT_CPU_MILLIS_MIN, LIMIT_CPU_MILLIS_MAX),
    LIMIT("shmBytes", shm_bytes, LIMIT_SHM_MIN, LIMIT_BYTES_MAX),
    LIMIT("diskBytes", disk_bytes, LIMIT_DISK_MIN, LIMIT_DISK_MAX),
    LIMIT("userNamespaces", user_namespaces, LIMIT_NAMESPACES_MIN, INT32_MAX),
    LIMIT("mountNamespaces", mount_namespaces, LIMIT_NAMESPACES_MIN, INT32_MAX),
    LIMIT("pidNamespaces", pid_namespaces, LIMIT_NAMESPACES_MIN, INT32_MAX),
    LIMIT("netNamespaces", net_namespaces, LIMIT_NAMESPACES_MIN, INT32_MAX),
    LIMIT("ipcNamespaces", ipc_namespaces, LIMIT_NAMESPACES_MIN, INT32_MAX),
    LIMIT("utsNamespaces", uts_namespaces, LIMIT_NAMESPACES_MIN, INT32_MAX),
    LIMIT("cgroupNamespaces", cgroup_namespaces, LIMIT_NAMESPACES_MIN, INT32_MAX),
    LIMIT("timeNamespaces", time_namespaces, LIMIT_NAMESPACES_MIN, INT32_MAX),
    LIMIT("inotifyInstances", inotify_instances, 0, INT32_MAX),
    LIMIT("inotifyWatches", inotify_watches, 0, INT32_MAX),
    LIMIT("fanotifyGroups", fanotify_groups, 0, INT32_MAX),
    LIMIT("fanotifyMarks", fanotify_marks, 0, INT32_MAX),
    {0},
};

static const struct jfield rlimit_fields[] = {
    {.name = "type", .decode = j_enum, .off = offsetof(struct raw_rlimit, resource), .names = rlimit_names, .required = true},
    {.name = "soft", .decode = j_int64, .off = offsetof(struct raw_rlimit, soft), .min = RLIMIT_UNLIMITED, .max = INT64_MAX, .required = true},
    {.name = "hard", .decode = j_int64, .off = offsetof(struct raw_rlimit, hard), .min = RLIMIT_UNLIMITED, .max = INT64_MAX, .required = true},
    {0},
};
static const struct jarray rlimit_array = {
    .fields = rlimit_fields, .size = sizeof(struct raw_rlimit),
    .count_off = offsetof(struct raw_policy, rlimit_count),
};

static jdecode_fn j_in_policy;

/* Settings that decide isolation have no default; every policy must have them. */
#define RAW(member) offsetof(struct raw_policy, member)
static const struct jfield policy_fields[] = {
    {.name = "name", .decode = j_string, .off = RAW(name), .min = 1, .max = POLICY_NAME_MAX, .required = true},
    {.name = "description", .decode = j_string, .off = RAW(description), .max = DESCRIPTION_MAX},
    {.name = "noNewPrivileges", .decode = j_in_policy, .required = true},
    {.name = "fuse", .decode = j_in_policy},
    {.name = "netAdmin", .decode = j_in_policy},
    {.name = "noExec", .decode = j_in_policy},
    {.name = "coreScheduling", .decode = j_in_policy},
    {.name = "network", .decode = j_in_policy, .required = true},
    {.name = "capabilities", .decode = j_strings, .off = RAW(capabilities), .max = CAPABILITIES_MAX, .required = true},
    {.name = "limits", .decode = j_in_policy},
    {.name = "rlimits", .decode = j_objects, .off = RAW(rlimits), .max = RLIMITS_MAX, .array = &rlimit_array},
    {.name = "maskedPaths", .decode = j_in_policy, .required = true},
    {.name = "readonlyPaths", .decode = j_in_policy, .required = true},
    {.name = "seccomp", .decode = j_in_policy, .required = true},
    {0},
};

static jdecode_fn j_network;

#define POLICY(member) offsetof(struct policy, member)
static const struct jfield in_policy_fields[] = {
    {.name = "noNewPrivileges", .decode = j_bool, .off = POLICY(no_new_privs)},
    {.name = "fuse", .decode = j_bool, .off = POLICY(fuse)},
    {.name = "netAdmin", .decode = j_bool, .off = POLICY(net_admin)},
    {.name = "noExec", .decode = j_bool, .off = POLICY(no_exec)},
    {.name = "coreScheduling", .decode = j_bool, .off = POLICY(core_sched)},
    {.name = "network", .decode = j_network},
    {.name = "limits", .decode = j_object, .off = POLICY(limits), .fields = limit_fields},
    {.name = "maskedPaths", .decode = j_strings, .off = POLICY(masked), .max = POLICY_PATHS_MAX},
    {.name = "readonlyPaths", .decode = j_strings, .off = POLICY(read_only), .max = POLICY_PATHS_MAX},
    {.name = "seccomp", .decode = j_seccomp, .off = POLICY(seccomp)},
    {0},
};
/* clang-format on */

/* ---- network: one word, or a mode with exceptions ---- */

struct raw_network {
    int mode;
    char **allow, **deny, **ports; /* owned */
};

#define NETWORK(member) offsetof(struct raw_network, member)
/* clang-format off */
static const struct jfield network_fields[] = {
    {.name = "mode",      .decode = j_enum,    .off = NETWORK(mode), .names = net_mode_names, .required = true},
    {.name = "allow",     .decode = j_strings, .off = NETWORK(allow), .max = NET_RULES_MAX},
    {.name = "deny",      .decode = j_strings, .off = NETWORK(deny),  .max = NET_RULES_MAX},
    {.name = "hostPorts", .decode = j_strings, .off = NETWORK(ports), .max = NET_PORTS_MAX},
    {0},
};
/* clang-format on */

static int add_allow(struct net_access *a, const char *text, struct err *err)
{
    return net_access_add_rule(a, text, false, err);
}

static int add_deny(struct net_access *a, const char *text, struct err *err)
{
    return net_access_add_rule(a, text, true, err);
}

static int add_rule_list(struct net_access *a, char *const *list, const char *key,
                         int (*add)(struct net_access *, const char *, struct err *),
                         const struct jpath *path, struct err *err)
{
    const struct jpath above = {.up = path, .key = key};

    for (size_t i = 0; list != NULL && list[i] != NULL; i++) {
        struct jpath here = {.up = &above, .index = i};
        struct err why = ERR_NONE;
        int r = add(a, list[i], &why);

        if (r < 0)
            return json_fail(err, r, &here, "%s", why.msg);
    }
    return 0;
}

static int j_network(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
                     struct err *err)
{
    struct raw_network raw = {.mode = NET_NONE};
    struct policy *p = dst;
    int r;

    (void)field;
    if (json_is_string(value))
        r = j_enum(value, &network_fields[0], &raw, path, err);
    else
        r = json_decode_at(value, network_fields, &raw, path, err);
    if (r == 0)
        r = add_rule_list(&p->access, raw.allow, "allow", add_allow, path, err);
    if (r == 0)
        r = add_rule_list(&p->access, raw.deny, "deny", add_deny, path, err);
    if (r == 0)
        r = add_rule_list(&p->access, raw.ports, "hostPorts", net_access_add_port, path, err);
    p->network = (enum net_mode)raw.mode;
    json_strings_free(raw.allow);
    json_strings_free(raw.deny);
    json_strings_free(raw.ports);
    return r;
}

/* Decodes a row with a member in struct policy itself. */
static int j_in_policy(json_t *value, const struct jfield *field, void *dst,
                       const struct jpath *path, struct err *err)
{
    const struct raw_policy *raw = dst;

    for (const struct jfield *f = in_policy_fields; f->name != NULL; f++)
        if (strcmp(f->name, field->name) == 0)
            return f->decode(value, f, raw->p, path, err);
    abort(); /* the two tables disagree */
}

static void raw_done(struct raw_policy *raw)
{
    free(raw->name);
    free(raw->description);
    json_strings_free(raw->capabilities);
    free(raw->rlimits);
}
#define auto_raw __attribute__((cleanup(raw_done)))

/* ---- checks ---- */

static int policy_set_name(struct policy *p, const char *name, struct err *err)
{
    static const char accepted[] = "abcdefghijklmnopqrstuvwxyz0123456789-_.";

    if (strspn(name, accepted) != strlen(name) || strchr("-_.", name[0]) != NULL)
        return err_set(err, -EINVAL,
                       "name: \"%s\" must be lower-case letters, digits, - _ . and begin with a "
                       "letter or digit",
                       name);
    (void)memcpy(p->name, name, strlen(name) + 1); /* the table bounds its length */
    return 0;
}

static int policy_set_capabilities(struct policy *p, char **names, struct err *err)
{
    const struct jpath list = {.key = "capabilities"};

    for (size_t i = 0; names[i] != NULL; i++) {
        struct jpath here = {.up = &list, .index = i};
        int n = strtab_value(capability_names, names[i]);

        if (n < 0)
            return json_fail(err, -EINVAL, &here,
                             "\"%.64s\" is not a capability (they are spelt \"CAP_CHOWN\")",
                             names[i]);
        if (p->capabilities & UINT64_C(1) << n)
            return json_fail(err, -EINVAL, &here, "%s is listed twice", names[i]);
        p->capabilities |= UINT64_C(1) << n;
    }
    return 0;
}

static uint64_t rlimit_number(int64_t n)
{
    return n == RLIMIT_UNLIMITED ? RLIM_INFINITY : (uint64_t)n;
}

static int policy_set_rlimits(struct policy *p, const struct raw_policy *raw, struct err *err)
{
    const struct jpath list = {.key = "rlimits"};

    for (size_t i = 0; i < raw->rlimit_count; i++) {
        struct jpath here = {.up = &list, .index = i};
        struct rlimit_value v = {.resource = raw->rlimits[i].resource,
                                 .soft = rlimit_number(raw->rlimits[i].soft),
                                 .hard = rlimit_number(raw->rlimits[i].hard)};

        for (size_t j = 0; j < i; j++)
            if (p->rlimits[j].resource == v.resource)
                return json_fail(err, -EINVAL, &here, "%s is listed twice",
                                 strtab_name(rlimit_names, v.resource));
        if (v.soft > v.hard)
            return json_fail(err, -ERANGE, &here, "soft must not be above hard");
        if (!rlimit_grantable((uint64_t)v.resource, v.hard))
            return json_fail(err, -EPERM, &here, "%s: a sandbox gets no priority above others'",
                             strtab_name(rlimit_names, v.resource));
        p->rlimits[p->rlimit_count++] = v;
    }
    return 0;
}

static int check_paths(char **paths, const char *key, bool wildcards, struct err *err)
{
    const struct jpath list = {.key = key};

    for (size_t i = 0; paths[i] != NULL; i++) {
        struct jpath here = {.up = &list, .index = i};

        if (!path_is_plain(paths[i]))
            return json_fail(err, -EINVAL, &here,
                             "\"%.128s\" must be absolute, below /, without \"//\", \".\", \"..\" "
                             "or a / at the end",
                             paths[i]);
        if (!wildcards && strchr(paths[i], '*') != NULL)
            return json_fail(err, -EINVAL, &here, "\"%.128s\" must not hold a *", paths[i]);
        for (size_t j = 0; j < i; j++)
            if (strcmp(paths[i], paths[j]) == 0)
                return json_fail(err, -EINVAL, &here, "\"%.128s\" is listed twice", paths[i]);
    }
    return 0;
}

static int policy_finish(struct policy *p, const struct raw_policy *raw, struct err *err)
{
    int r;

    r = policy_set_name(p, raw->name, err);
    if (r < 0)
        return r;
    r = policy_set_capabilities(p, raw->capabilities, err);
    if (r < 0)
        return r;
    if (p->net_admin && (p->capabilities & UINT64_C(1) << CAP_NET_ADMIN) == 0)
        return err_set(err, -EINVAL, "netAdmin: capabilities must list CAP_NET_ADMIN");
    r = policy_set_rlimits(p, raw, err);
    if (r < 0)
        return r;
    r = check_paths(p->masked, "maskedPaths", true, err);
    if (r < 0)
        return r;
    return check_paths(p->read_only, "readonlyPaths", false, err);
}

static int policy_decode(const char *text, size_t len, struct policy *p, struct err *err)
{
    auto_raw struct raw_policy raw = {.p = p};
    auto_ptr(json_decref) json_t *root = NULL;
    int r;

    r = json_parse(text, len, POLICY_TEXT_MAX, &root, err);
    if (r < 0)
        return r;
    r = json_decode(root, policy_fields, &raw, err);
    if (r < 0)
        return r;
    return policy_finish(p, &raw, err);
}

int policy_parse(const char *text, size_t len, const char *where, struct policy **ret,
                 struct err *err)
{
    auto_ptr(policy_free) struct policy *p = NULL;
    int r;

    p = calloc(1, sizeof(*p));
    if (p == NULL)
        return err_errno(err, -ENOMEM, "%s", where);
    p->limits = limits_unset();

    r = policy_decode(text, len, p, err);
    if (r < 0)
        return err_wrap(err, r, "%s", where);
    *ret = take(p);
    return 0;
}

void policy_free(struct policy *p)
{
    if (p == NULL)
        return;
    seccomp_profile_free(p->seccomp);
    json_strings_free(p->masked);
    json_strings_free(p->read_only);
    free(p);
}

/* ---- limits: the JSON table lists every member ---- */

struct limits limits_unset(void)
{
    struct limits l = {0};

    for (const struct jfield *f = limit_fields; f->name != NULL; f++)
        *(int64_t *)(void *)((char *)&l + f->off) = LIMIT_UNSET;
    return l;
}

struct limits limits_merge(const struct limits *base, const struct limits *over)
{
    struct limits l = *base;

    for (const struct jfield *f = limit_fields; f->name != NULL; f++) {
        int64_t n = *(const int64_t *)(const void *)((const char *)over + f->off);

        if (n != LIMIT_UNSET)
            *(int64_t *)(void *)((char *)&l + f->off) = n;
    }
    return l;
}

struct limits limits_effective(const struct limits *policy, const struct limits *asked,
                               const struct limits *most)
{
    struct limits l = limits_merge(policy, asked);

    for (const struct jfield *f = limit_fields; most != NULL && f->name != NULL; f++) {
        int64_t n = *(const int64_t *)(const void *)((const char *)most + f->off);
        int64_t *at = (int64_t *)(void *)((char *)&l + f->off);

        if (f->off != offsetof(struct limits, disk_bytes) && n != LIMIT_UNSET &&
            (*at == LIMIT_UNSET || *at > n))
            *at = n;
    }
    return l;
}

int64_t limits_disk_size(const struct limits *policy, const struct limits *asked,
                         const struct limits *most)
{
    const int64_t bytes = asked->disk_bytes != LIMIT_UNSET ? asked->disk_bytes : policy->disk_bytes;

    if (most == NULL || most->disk_bytes == LIMIT_UNSET)
        return bytes;
    return bytes == LIMIT_UNSET || bytes > most->disk_bytes ? most->disk_bytes : bytes;
}
