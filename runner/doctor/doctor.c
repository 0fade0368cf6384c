/*
 * Core of `rind doctor`: runs the checks of the table, derives the barriers, encodes the report.
 * Runs in a single-threaded process: `rind doctor`, or the child of doctor_fork.
 */

#include "doctor/doctor.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/strtab.h"
#include "doctor/doctor-internal.h"
#include "launch/cgroup.h"
#include "launch/host-view.h"
#include "policy/policy.h"
#include "sandbox/host-rootfs.h"

#define DEFAULT_POLICY "untrusted"

static const struct strtab state_names[] = {
    {"ok", CHECK_OK},
    {"limited", CHECK_LIMITED},
    {"missing", CHECK_MISSING},
    {"unknown", CHECK_UNKNOWN},
    {NULL, 0},
};

const char *check_state_name(enum check_state state)
{
    return strtab_name(state_names, (int)state);
}

void doctor_free(struct doctor_report *r)
{
    if (r == NULL)
        return;
    free(r->checks);
    free(r->barriers);
    host_rootfs_free(r->host);
    free(r);
}

/* ---- barriers ---- */

/* A barrier is on when every check it depends on passes. */
struct barrier {
    const char *name;
    uint64_t needs; /* bit n = enum check_id n, below BARRIER_IDS */
    void (*describe)(const struct policy *p, char *ret, size_t len);
    const char *what; /* used when `describe` is NULL */
};

static_assert(CHECK_ID_MAX <= 64, "checks fit a mask");
enum { BARRIER_IDS = CHECK_ID_MAX < 64 ? CHECK_ID_MAX : 64 };
#define BIT(id) (UINT64_C(1) << (id))

static void describe_filter(const struct policy *p, char *ret, size_t len)
{
    (void)snprintf(ret, len, "system calls filtered by policy %s, 32-bit tables included%s",
                   p->name, p->no_new_privs ? "; no_new_privs" : "");
}

static void describe_caps(const struct policy *p, char *ret, size_t len)
{
    (void)snprintf(ret, len,
                   "at most %d capabilities, all of them in the sandbox's own user namespace; none "
                   "inheritable or ambient",
                   __builtin_popcountll(p->capabilities));
}

static void describe_masks(const struct policy *p, char *ret, size_t len)
{
    size_t masked = 0, read_only = 0;

    while (p->masked != NULL && p->masked[masked] != NULL)
        masked++;
    while (p->read_only != NULL && p->read_only[read_only] != NULL)
        read_only++;
    (void)snprintf(ret, len, "%zu paths of /proc and /sys hidden, %zu read-only, locked", masked,
                   read_only);
}

static void put_limit(char *ret, size_t len, const char *name, int64_t value, const char *unit)
{
    size_t at = strlen(ret);

    if (value != LIMIT_UNSET)
        (void)snprintf(ret + at, len - at, "%s%s %lld%s", at > 0 ? ", " : "", name,
                       (long long)value, unit);
}

static void describe_limits(const struct policy *p, char *ret, size_t len)
{
    int64_t memory = p->limits.memory_bytes;

    ret[0] = '\0';
    put_limit(ret, len, "memory", memory == LIMIT_UNSET ? LIMIT_UNSET : memory >> 20, " MiB");
    put_limit(ret, len, "processes", p->limits.pids, "");
    put_limit(ret, len, "processor", p->limits.cpu_millis, "/1000");
    if (ret[0] == '\0')
        (void)snprintf(ret, len, "none set by policy %s", p->name);
}

static void describe_network(const struct policy *p, char *ret, size_t len)
{
    (void)snprintf(ret, len, "%s",
                   p->network == NET_INTERNET ? "own network; neither host, nor private addresses, "
                                                "nor other sandboxes reachable"
                                              : "no network but an own loopback");
}

/* clang-format off */
static const struct barrier barriers[] = {
    { .name = "ids",
      .needs = BIT(CHECK_NS_USER) | BIT(CHECK_ID_MAPS) | BIT(CHECK_USERNS_LIMIT) |
               BIT(CHECK_ID_POOL),
      .what = "own user namespace, 65536 ids that no other user has; its root is no user outside" },
    { .name = "processes", .needs = BIT(CHECK_NS_PID) | BIT(CHECK_PIDFD) | BIT(CHECK_MEMFD_EXEC),
      .what = "own pid namespace; rind's init stands in an outer one, out of reach" },
    { .name = "files",
      .needs = BIT(CHECK_NS_MOUNT) | BIT(CHECK_MOUNT_API) | BIT(CHECK_STATE_DIR) |
               BIT(CHECK_IDMAP) | BIT(CHECK_OVERLAY) | BIT(CHECK_OVERLAY_IDMAP) |
               BIT(CHECK_OPENAT2) | BIT(CHECK_CLOSE_RANGE),
      .what = "own root file system; layers are read-only, writes go to an own one" },
    { .name = "kernel-files", .needs = BIT(CHECK_PROC) | BIT(CHECK_SYSFS) | BIT(CHECK_NS_MOUNT),
      .describe = describe_masks },
    { .name = "names",
      .needs = BIT(CHECK_NS_UTS) | BIT(CHECK_NS_IPC) | BIT(CHECK_NS_CGROUP) | BIT(CHECK_MQUEUE),
      .what = "own host name, shared memory, message queues, and view of control groups" },
    { .name = "terminals", .needs = BIT(CHECK_DEVPTS),
      .what = "own terminals; none of the host's is seen" },
    { .name = "system-calls", .needs = BIT(CHECK_SECCOMP), .describe = describe_filter },
    { .name = "capabilities", .needs = BIT(CHECK_NS_USER), .describe = describe_caps },
    { .name = "limits",
      .needs = BIT(CHECK_CGROUP_MODE) | BIT(CHECK_CG_MEMORY) | BIT(CHECK_CG_CPU) |
               BIT(CHECK_CG_PIDS),
      .describe = describe_limits },
    { .name = "network", .needs = BIT(CHECK_NS_NET) | BIT(CHECK_VETH) | BIT(CHECK_NFTABLES),
      .describe = describe_network },
};
/* clang-format on */

enum { BARRIER_COUNT = sizeof(barriers) / sizeof(barriers[0]) };

/* A check that the policy does not require cannot turn a barrier off. */
static bool barrier_is_on(const struct barrier *b, const struct check_result *checks)
{
    for (int id = 0; id < BARRIER_IDS; id++)
        if ((b->needs & BIT(id)) != 0 && checks[id].required && checks[id].state != CHECK_OK &&
            checks[id].state != CHECK_LIMITED)
            return false;
    return true;
}

static void derive_barriers(const struct policy *p, struct doctor_report *r)
{
    for (size_t i = 0; i < BARRIER_COUNT; i++) {
        const struct barrier *b = &barriers[i];
        struct barrier_result *out = &r->barriers[i];

        out->name = b->name;
        out->on = barrier_is_on(b, r->checks);
        if (b->describe != NULL)
            b->describe(p, out->what, sizeof(out->what));
        else
            (void)snprintf(out->what, sizeof(out->what), "%s", b->what);
    }
}

/* ---- running ---- */

static void run_checks(const struct doctor *d, struct doctor_report *r)
{
    r->met = true;
    for (size_t i = 0; i < CHECK_ID_MAX; i++) {
        const struct check *c = &doctor_checks[i];
        struct check_result *out = &r->checks[i];

        *out = (struct check_result){.name = c->name,
                                     .title = c->title,
                                     .group = c->group,
                                     .without = c->without,
                                     .required = c->required != NULL && c->required(d->policy)};
        if (c->fix != NULL)
            (void)snprintf(out->fix, sizeof(out->fix), "%s", c->fix);
        c->ask(d, c, out);
        if (out->state == CHECK_OK)
            out->fix[0] = '\0';
        if (out->state == CHECK_UNKNOWN && !d->who.privileged && !d->who.root)
            (void)snprintf(out->fix, sizeof(out->fix), "sudo rind doctor");
        if (out->required && out->state != CHECK_OK && out->state != CHECK_LIMITED)
            r->met = false;
    }
}

/* Returns the directory, or its nearest existing ancestor. Caller frees; NULL = out of memory. */
static char *nearest_dir(const char *path)
{
    auto_free char *dir = strdup(path);
    struct stat st;

    while (dir != NULL && (stat(dir, &st) < 0 || !S_ISDIR(st.st_mode))) {
        char *slash = strrchr(dir, '/');

        if (slash == NULL)
            return strdup(".");
        if (slash == dir)
            return strdup("/");
        *slash = '\0';
    }
    return take(dir);
}

static struct doctor_report *report_new(void)
{
    struct doctor_report *r = calloc(1, sizeof(*r));

    if (r == NULL)
        return NULL;
    r->checks = calloc(CHECK_ID_MAX, sizeof(*r->checks));
    r->barriers = calloc(BARRIER_COUNT, sizeof(*r->barriers));
    if (r->checks == NULL || r->barriers == NULL) {
        doctor_free(r);
        return NULL;
    }
    r->check_count = CHECK_ID_MAX;
    r->barrier_count = BARRIER_COUNT;
    return r;
}

/*
 * Uses the installed file. A daemon's configuration may name another one, which this report does
 * not show.
 */
static void report_host_rootfs(struct doctor_report *r)
{
    struct err why = ERR_NONE;

    if (host_rootfs_load(HOST_ROOTFS_FILE, &r->host, &why) < 0)
        (void)snprintf(r->host_error, sizeof(r->host_error), "%.*s", DOCTOR_FOUND_MAX - 1, why.msg);
}

const char *doctor_tree_state(const char *path)
{
    if (strchr(path, '*') != NULL)
        return "shown";
    switch (host_tree_check(path)) {
    case 0:
        return "shown";
    case -ENOENT:
        return "not there";
    case -EXDEV:
        return "left out: a mount of its own";
    case -ELOOP:
        return "left out: behind a link";
    default:
        return "left out: cannot be opened";
    }
}

static int default_policy(struct policy **ret, struct err *err)
{
    size_t len = 0;
    const char *text = policy_builtin(DEFAULT_POLICY, &len);

    if (text == NULL)
        return err_set(err, -ENOENT, "policy %s is not in this build", DEFAULT_POLICY);
    return policy_parse(text, len, DEFAULT_POLICY, ret, err);
}

int doctor_run(const char *state_dir, struct doctor_report **ret, struct err *err)
{
    struct cgroup_host *cgroup = NULL;
    struct err cgroup_err = ERR_NONE;
    struct doctor d = {.scratch_errno = 0};
    struct policy *policy = NULL;
    struct doctor_report *report;
    auto_free char *dir = nearest_dir(state_dir), *scratch = NULL;
    int r;

    r = default_policy(&policy, err);
    if (r < 0)
        return err_wrap(err, r, "doctor");
    report = report_new();
    if (report == NULL || dir == NULL) {
        doctor_free(report);
        policy_free(policy);
        return err_errno(err, -ENOMEM, "doctor");
    }

    if (cgroup_host_open(&cgroup, &cgroup_err) < 0)
        cgroup = NULL;
    scratch = probe_scratch_make(dir, &d.scratch_errno);
    doctor_look_at_caller(&d.who);
    d.env = (struct probe_env){.dir = dir, .privileged = d.who.privileged};
    d.scratch = scratch;
    d.policy = policy;
    d.cgroup = cgroup;
    d.cgroup_error = cgroup_err.msg;
    run_checks(&d, report);
    report_host_rootfs(report);
    derive_barriers(policy, report);

    probe_scratch_remove(scratch);
    cgroup_host_free(cgroup);
    policy_free(policy);
    *ret = report;
    return 0;
}

/* ---- JSON ---- */

static json_t *encode_check(const struct check_result *c)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:b, s:s, s:s, s:s}", "name", c->name, "group", c->group,
                     "title", c->title, "state", check_state_name(c->state), "required",
                     (int)c->required, "found", c->found, "without", c->without, "fix", c->fix);
}

static json_t *encode_paths(char *const *paths)
{
    json_t *list = json_array();

    for (; *paths != NULL; paths++)
        (void)json_array_append_new(list, json_string(*paths));
    return list;
}

static json_t *encode_host(const struct doctor_report *r)
{
    json_t *trees = json_array();

    if (r->host == NULL) {
        json_decref(trees);
        return json_pack("{s:s}", "error", r->host_error);
    }
    for (char **tree = r->host->trees; *tree != NULL; tree++)
        (void)json_array_append_new(
            trees, json_pack("{s:s, s:s}", "path", *tree, "state", doctor_tree_state(*tree)));
    return json_pack("{s:o, s:o, s:o}", "trees", trees, "hidden", encode_paths(r->host->hidden),
                     "files", encode_paths(r->host->files));
}

struct json_t *doctor_encode(const struct doctor_report *r)
{
    json_t *checks = json_array(), *list = json_array();

    for (size_t i = 0; i < r->check_count; i++)
        (void)json_array_append_new(checks, encode_check(&r->checks[i]));
    for (size_t i = 0; i < r->barrier_count; i++)
        (void)json_array_append_new(list,
                                    json_pack("{s:s, s:b, s:s}", "name", r->barriers[i].name, "on",
                                              (int)r->barriers[i].on, "what", r->barriers[i].what));
    /* An allocation failure must fail the encoding, not shorten the lists silently. */
    if (json_array_size(checks) != r->check_count || json_array_size(list) != r->barrier_count) {
        json_decref(checks);
        json_decref(list);
        return NULL;
    }
    return json_pack("{s:s, s:s, s:b, s:o, s:o, s:o}", "version", RIND_VERSION, "policy",
                     DEFAULT_POLICY, "met", (int)r->met, "checks", checks, "barriers", list,
                     "hostRootfs", encode_host(r));
}
