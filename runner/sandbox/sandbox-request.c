#include "sandbox/sandbox-request.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "launch/request.h"
#include "policy/egress.h"
#include "policy/policy.h"
#include "policy/seccomp.h"
#include "proto/userdb.h"
#include "sandbox/policies.h"
#include "sandbox/sandbox.h"
#include "spec/spec.h"
#include "spec/tmpfs.h"

/* ---- limits and counters ---- */

static const struct {
    const char *name;
    size_t offset;
} counters[] = {
    {"max_user_namespaces", offsetof(struct limits, user_namespaces)},
    {"max_mnt_namespaces", offsetof(struct limits, mount_namespaces)},
    {"max_pid_namespaces", offsetof(struct limits, pid_namespaces)},
    {"max_net_namespaces", offsetof(struct limits, net_namespaces)},
    {"max_ipc_namespaces", offsetof(struct limits, ipc_namespaces)},
    {"max_uts_namespaces", offsetof(struct limits, uts_namespaces)},
    {"max_cgroup_namespaces", offsetof(struct limits, cgroup_namespaces)},
    {"max_time_namespaces", offsetof(struct limits, time_namespaces)},
    {"max_inotify_instances", offsetof(struct limits, inotify_instances)},
    {"max_inotify_watches", offsetof(struct limits, inotify_watches)},
    {"max_fanotify_groups", offsetof(struct limits, fanotify_groups)},
    {"max_fanotify_marks", offsetof(struct limits, fanotify_marks)},
};

static void put_limit(struct buf *b, enum launch_tag tag, int64_t value)
{
    if (value != LIMIT_UNSET)
        launch_put_number(b, tag, (uint64_t)value);
}

static void put_limits(struct buf *b, const struct limits *l)
{
    put_limit(b, TAG_MEMORY, l->memory_bytes);
    put_limit(b, TAG_PIDS, l->pids);
    put_limit(b, TAG_CPU, l->cpu_millis);
    put_limit(b, TAG_SHM, l->shm_bytes);
    put_limit(b, TAG_DISK, l->disk_bytes);
    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
        int64_t value;

        (void)memcpy(&value, (const char *)l + counters[i].offset, sizeof(value));
        if (value != LIMIT_UNSET)
            launch_put_counter(
                b, &(struct launch_counter){.name = counters[i].name, .limit = (uint64_t)value});
    }
}

static int64_t at_most(int64_t n, int64_t most)
{
    return n != LIMIT_UNSET && most != LIMIT_UNSET && n > most ? most : n;
}

/*
 * memory: the limit in force. Swap and reservation must fit it. most: as for sandbox_request; it
 * bounds memory and swap together, and may have become less than what was asked.
 */
static int put_resources(struct buf *b, const struct resources *asked, int64_t memory,
                         const struct limits *most, struct err *err)
{
    struct resources own = *asked; /* borrows its lists */
    const struct resources *r = &own;
    int code;

    if (most != NULL) {
        own.swap_bytes = at_most(own.swap_bytes, most->memory_bytes);
        own.reservation_bytes = at_most(own.reservation_bytes, most->memory_bytes);
    }
    code = resources_check(r, memory, err);

    if (code < 0)
        return code;
    put_limit(b, TAG_SWAP, memory != LIMIT_UNSET ? r->swap_bytes : LIMIT_UNSET);
    put_limit(b, TAG_RESERVATION, r->reservation_bytes);
    put_limit(b, TAG_SHARES, r->cpu_shares);
    if (r->cpus != NULL)
        launch_put_string(b, TAG_CPUSET_CPUS, r->cpus);
    if (r->mems != NULL)
        launch_put_string(b, TAG_CPUSET_MEMS, r->mems);
    return 0;
}

static uint64_t rate_or_none(int64_t rate)
{
    return rate != LIMIT_UNSET ? (uint64_t)rate : 0;
}

_Static_assert((int)LAUNCH_IO_RATES == (int)IO_KIND_MAX && (int)LAUNCH_IO_MAX > (int)IO_DEVICES_MAX,
               "rates of disks");

/* The disk of the state directory has a record in each change of limits, which may take a rate
 * away; `all` says so. */
static void put_io(struct buf *b, const struct resources *r, bool all)
{
    struct launch_io own = {.path = ""};
    bool any = all;

    put_limit(b, TAG_IO_WEIGHT, r->io_weight);
    for (size_t i = 0; i < IO_KIND_MAX; i++) {
        own.rates[i] = rate_or_none(r->io_rates[i]);
        any |= own.rates[i] != 0;
    }
    if (any)
        launch_put_io(b, &own);
    for (size_t i = 0; i < r->io_device_count; i++) {
        struct launch_io io = {.path = r->io_devices[i].path};

        for (size_t k = 0; k < IO_KIND_MAX; k++)
            io.rates[k] = rate_or_none(r->io_devices[i].rates[k]);
        launch_put_io(b, &io);
    }
}

static void put_rlimits(struct buf *b, const struct rlimit_value *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        launch_put_rlimit(b, &(struct launch_rlimit){.resource = (uint64_t)list[i].resource,
                                                     .soft = list[i].soft,
                                                     .hard = list[i].hard});
}

/* The spec's value of a limit replaces the policy's of the same resource. */
static void put_merged_rlimits(struct buf *b, const struct spec *spec, const struct policy *policy)
{
    for (size_t i = 0; i < policy->rlimit_count; i++) {
        bool replaced = false;

        for (size_t k = 0; k < spec->rlimit_count; k++)
            replaced |= spec->rlimits[k].resource == policy->rlimits[i].resource;
        if (!replaced)
            put_rlimits(b, &policy->rlimits[i], 1);
    }
    put_rlimits(b, spec->rlimits, spec->rlimit_count);
}

/* ---- paths ---- */

static void put_paths(struct buf *b, enum launch_tag tag, char *const *paths)
{
    for (; *paths != NULL; paths++)
        launch_put_string(b, tag, *paths);
}

/* ---- network ---- */

/*
 * Merges the network settings. The spec overrides the policy, but the lists of denied addresses of
 * both are joined.
 */
static int merge_network(const struct spec *spec, const struct policy *policy, enum net_mode *mode,
                         struct net_access *access, struct err *err)
{
    int r;

    *mode = spec->network != NET_INVALID ? spec->network : policy->network;
    *access = spec->access;
    /* A spec without a network gets no exceptions from the policy either. */
    r = net_access_merge(access, &policy->access,
                         spec->network == NET_INVALID || spec->network == NET_INTERNET);
    return r < 0
               ? err_set(err, r, "network: more rules than %d, or ports than %d, with the policy's",
                         NET_RULES_MAX, NET_PORTS_MAX)
               : 0;
}

static bool allows_something(const struct net_access *a)
{
    bool any = a->port_count > 0;

    for (size_t i = 0; i < a->rule_count; i++)
        any |= a->rules[i].deny == 0;
    return any;
}

static void put_network_lists(struct buf *b, const struct spec *spec,
                              const struct net_access *access)
{
    for (size_t i = 0; i < access->rule_count; i++)
        launch_put(b, TAG_NET_RULE, 0, &access->rules[i], sizeof(access->rules[i]));
    for (size_t i = 0; i < access->port_count; i++)
        launch_put(b, TAG_NET_PORT, 0, &access->ports[i], sizeof(access->ports[i]));
    for (size_t i = 0; i < spec->dns_count; i++)
        launch_put(b, TAG_NET_DNS, 0, &spec->dns[i], sizeof(spec->dns[i]));
    if (spec->dns_search != NULL)
        launch_put_string(b, TAG_NET_SEARCH, spec->dns_search);
    if (spec->dns_options != NULL)
        launch_put_string(b, TAG_NET_OPTIONS, spec->dns_options);
}

/* True if the short id is the host name, which is one of the names anyway. */
static bool has_short_id(const char *id, const struct spec *spec)
{
    return spec->hostname != NULL && strlen(spec->hostname) == SANDBOX_SHORT_ID &&
           strncmp(spec->hostname, id, SANDBOX_SHORT_ID) == 0;
}

/* Docker finds containers by their short id, too. */
static int add_short_id(char **names, const char *id, struct err *err)
{
    auto_free char *own = *names;

    *names = NULL;
    if (asprintf(names, "%s%s%.*s", own != NULL ? own : "", own != NULL ? " " : "",
                 SANDBOX_SHORT_ID, id) < 0) {
        *names = NULL;
        return err_errno(err, -ENOMEM, "network");
    }
    return 0;
}

int sandbox_net_names(const char *id, const struct spec *spec, size_t i, char **ret,
                      struct err *err)
{
    auto_free char *names = NULL;
    int r;

    r = spec_net_names(spec, i, &names, err);
    if (r == 0 && spec->console && !has_short_id(id, spec))
        r = add_short_id(&names, id, err);
    if (r < 0)
        return r;
    if (names != NULL && strlen(names) > LAUNCH_ALIASES_MAX)
        return err_set(err, -E2BIG,
                       "network.aliases: with the sandbox's own name more than %d bytes",
                       LAUNCH_ALIASES_MAX);
    *ret = take(names);
    return 0;
}

static int put_network_names(struct buf *b, const char *id, const struct spec *spec,
                             struct err *err)
{
    const struct spec_lan *lan;
    const char *name;

    for (size_t i = 0; (name = spec_net(spec, i, NULL)) != NULL; i++) {
        auto_free char *names = NULL;
        int r = sandbox_net_names(id, spec, i, &names, err);

        if (r < 0)
            return r;
        lan = spec_net_lan(spec, i);
        if (lan != NULL && lan->subnet.prefix != 0) {
            struct net_lan_ask ask = lan->subnet;

            ask.index = (uint8_t)i;
            launch_put(b, TAG_NET_LAN, 0, &ask, sizeof(ask));
        }
        if (i > 0) {
            launch_put_net(
                b, &(struct launch_net){.name = name, .aliases = names != NULL ? names : ""});
            continue;
        }
        launch_put_string(b, TAG_NET_NAME, name);
        if (names != NULL)
            launch_put_string(b, TAG_NET_ALIASES, names);
    }
    return 0;
}

int sandbox_networks_request(struct buf *b, const char *id, const struct spec *spec,
                             const struct policy *policy, struct err *err)
{
    const enum net_mode mode =
        spec->network != NET_INVALID || policy == NULL ? spec->network : policy->network;
    uint64_t flags = LAUNCH_NET_LINK;
    int r;

    if (mode == NET_INVALID)
        flags |= LAUNCH_NET_SAME;
    else if (mode == NET_INTERNET)
        flags |= LAUNCH_NET_INTERNET;
    launch_begin(b, LAUNCH_NETWORKS);
    launch_put_string(b, TAG_ID, id);
    launch_put_number(b, TAG_NET, flags);
    r = put_network_names(b, id, spec, err);
    if (r < 0)
        return r;
    r = launch_end(b);
    return r < 0 ? err_errno(err, r, "network") : 0;
}

static int put_hosts(struct buf *b, const struct spec *spec, bool network, struct err *err)
{
    for (size_t i = 0; i < spec->host_count; i++) {
        struct launch_host h = {.addr = spec->hosts[i].addr};

        if (h.addr.family == 0 && !network)
            return err_set(err, -EINVAL, "extraHosts: \"%s:host-gateway\": there is no network",
                           spec->hosts[i].name);
        (void)snprintf(h.name, sizeof(h.name), "%s", spec->hosts[i].name);
        launch_put_host(b, &h);
    }
    return 0;
}

bool sandbox_administers_network(const struct spec *spec, const struct policy *policy)
{
    return policy->net_admin && (spec->cap_drop & UINT64_C(1) << CAP_NET_ADMIN) == 0;
}

/*
 * Refuses what a sandbox that administers its network may not have: another sandbox's network, and
 * egress rules. It could remove the rules of either.
 */
static int check_admin(const struct spec *spec, const struct policy *policy, bool joins,
                       struct err *err)
{
    if (joins)
        return err_set(err, -EINVAL,
                       "network: under the policy %s it administers its network, and "
                       "the one of %s is not its own (another policy, or without CAP_NET_ADMIN)",
                       policy->name, spec->net_container);
    if (spec->egress != NULL)
        return err_set(err, -EINVAL,
                       "egress: under the policy %s it administers its network, and could take "
                       "the table of these rules away",
                       policy->name);
    return 0;
}

static int put_network(struct buf *b, const char *id, const struct spec *spec,
                       const struct policy *policy, const struct network_join *join,
                       struct err *err)
{
    const bool admin = sandbox_administers_network(spec, policy);
    struct net_access access;
    enum net_mode mode;
    uint64_t flags = admin ? LAUNCH_NET_ADMIN : 0;
    int r;

    r = admin ? check_admin(spec, policy, join != NULL, err) : 0;
    if (r < 0)
        return r;
    if (join != NULL) {
        launch_put_string(b, TAG_NET_JOIN, join->id);
        return 0;
    }
    r = merge_network(spec, policy, &mode, &access, err);
    if (r < 0)
        return r;
    if (mode != NET_INTERNET && spec->net_name == NULL && !allows_something(&access)) {
        if (flags != 0)
            launch_put_number(b, TAG_NET, flags);
        if (spec->dns_count > 0 || spec->dns_search != NULL || spec->dns_options != NULL)
            return err_set(err, -EINVAL,
                           "network.dns: the sandbox has no network in which a name server could "
                           "be asked; ask for one as well, such as --network internet "
                           "(\"mode\": \"internet\")");
        return put_hosts(b, spec, false, err);
    }
    launch_put_number(b, TAG_NET,
                      flags | LAUNCH_NET_LINK | (mode == NET_INTERNET ? LAUNCH_NET_INTERNET : 0));
    put_network_lists(b, spec, &access);
    r = put_network_names(b, id, spec, err);
    return r < 0 ? r : put_hosts(b, spec, true, err);
}

/* ---- volumes ---- */

/*
 * Writes the command's user: as numbers if the client gave both, else the launcher looks the name
 * up in the image. init looks it up again, inside.
 */
static int put_user(struct buf *b, const struct spec *spec, uint32_t *ret_uid, uint32_t *ret_gid,
                    struct err *err)
{
    struct userdb_spec user;
    const char *why = "";
    int r;

    if (spec->user == NULL || strcmp(spec->user, "root") == 0)
        return 0;
    r = userdb_parse(spec->user, &user, &why);
    if (r < 0)
        return err_set(err, r, "user '%s': %s", spec->user, why);
    if (user.user[0] == '\0' && user.group[0] == '\0' && user.has_group) {
        *ret_uid = user.uid;
        *ret_gid = user.gid;
    } else {
        launch_put_string(b, TAG_USER, spec->user);
    }
    return 0;
}

/*
 * The launcher refuses symbolic links. `rind run` resolves them with its caller's rights. A
 * supervisor has no view of the host, so it passes clients' paths on unchanged.
 */
static int host_path(const char *what, const char *path, bool resolve, char **ret, struct err *err)
{
    char *text = resolve ? realpath(path, NULL) : strdup(path);

    if (text == NULL)
        return err_errno(err, -errno, "%s '%s'", what, path);
    *ret = text;
    return 0;
}

/* Writes a named volume. Its files have the ids of the sandbox, so no owner is needed. */
static void put_named(struct buf *b, const struct volume *v)
{
    launch_put_volume(
        b, &(struct launch_volume){
               .source = v->source, .target = v->target, .read_only = v->read_only, .named = true});
}

static int put_volumes(struct buf *b, const struct spec *spec, int root_fd, struct err *err)
{
    uint32_t uid = 0, gid = 0;
    size_t paths = 0;
    int r;

    for (size_t i = 0; i < spec->volume_count; i++)
        paths += !spec->volumes[i].named;
    r = paths > 0 ? put_user(b, spec, &uid, &gid, err) : 0;
    if (r < 0)
        return r;
    for (size_t i = 0; i < spec->volume_count; i++) {
        auto_free char *source = NULL;

        if (spec->volumes[i].named) {
            put_named(b, &spec->volumes[i]);
            continue;
        }
        r = host_path("volume", spec->volumes[i].source, root_fd >= 0, &source, err);
        if (r < 0)
            return r;
        launch_put_volume(b, &(struct launch_volume){.source = source,
                                                     .target = spec->volumes[i].target,
                                                     .uid = uid,
                                                     .gid = gid,
                                                     .read_only = spec->volumes[i].read_only,
                                                     .make = spec->volumes[i].make});
    }
    return 0;
}

static int put_root(struct buf *b, const struct spec *spec, const char *const *layers, bool resolve,
                    struct err *err)
{
    if (spec->rootfs != NULL && !spec_shows_host(spec)) {
        auto_free char *dir = NULL;
        int r = host_path("root file system", spec->rootfs, resolve, &dir, err);

        if (r < 0)
            return r;
        launch_put_string(b, TAG_ROOT_DIR, dir);
    }
    for (char **layer = spec->image_layers; layer != NULL && *layer != NULL; layer++)
        launch_put_string(b, TAG_IMAGE_LAYER, *layer);
    for (; *layers != NULL; layers++)
        launch_put_string(b, TAG_LAYER, *layers);
    return 0;
}

int sandbox_fill_request(struct buf *b, const struct spec *spec, const char *const *layers,
                         size_t at, int root_fd, struct err *err)
{
    int r;

    launch_begin(b, LAUNCH_VOLUME_FILL);
    put_named(b, &spec->volumes[at]);
    if (spec->volumes[at].from != NULL)
        launch_put_string(b, TAG_VOLUME_NAME, spec->volumes[at].from);
    else if ((r = put_root(b, spec, layers, root_fd >= 0, err)) < 0)
        return r;
    r = launch_end(b);
    return r < 0 ? err_errno(err, r, "fill a volume") : 0;
}

int sandbox_copy_request(struct buf *b, const char *id, const struct spec *spec,
                         const char *const *layers, const char *volume, const char *dir,
                         struct err *err)
{
    int r;

    launch_begin(b, LAUNCH_VOLUME_FILL);
    launch_put_volume(b, &(struct launch_volume){.source = volume, .target = dir, .named = true});
    launch_put_string(b, TAG_SANDBOX, id);
    r = put_root(b, spec, layers, false, err);
    if (r < 0)
        return r;
    r = launch_end(b);
    return r < 0 ? err_errno(err, r, "copy a directory") : 0;
}

/* A network that it joins is another sandbox's, and so are its parameters. */
static int put_sysctls(struct buf *b, const struct spec *spec, bool joins, struct err *err)
{
    for (char **text = spec->sysctls; text != NULL && *text != NULL; text++) {
        if (joins && sysctl_judge(*text) == SYSCTL_NET)
            return err_set(err, -EINVAL,
                           "sysctls: \"%s\": the network of another sandbox is not this one's to "
                           "set up",
                           *text);
        launch_put_string(b, TAG_SYSCTL, *text);
    }
    return 0;
}

static void put_tmpfs(struct buf *b, const struct tmpfs *t)
{
    launch_put_tmpfs(b, &(struct launch_tmpfs){
                            .target = t->target,
                            .bytes = (uint64_t)t->bytes,
                            .read_only = t->read_only,
                            .no_exec = t->no_exec,
                            .has_root = t->mode != TMPFS_MODE_DEFAULT || t->uid != 0 || t->gid != 0,
                            .root = {.mode = t->mode, .uid = t->uid, .gid = t->gid}});
}

int sandbox_limits_request(struct buf *b, const char *id, const struct spec *spec,
                           const struct limits *policy, const struct limits *most, struct err *err)
{
    const struct limits limits = limits_effective(policy, &spec->limits, most);
    int r;

    launch_begin(b, LAUNCH_LIMITS);
    launch_put_string(b, TAG_ID, id);
    put_limit(b, TAG_MEMORY, limits.memory_bytes);
    put_limit(b, TAG_PIDS, limits.pids);
    put_limit(b, TAG_CPU, limits.cpu_millis);
    r = put_resources(b, &spec->resources, limits.memory_bytes, most, err);
    if (r < 0)
        return r;
    put_io(b, &spec->resources, true);
    r = launch_end(b);
    return r < 0 ? err_errno(err, r, "change limits") : 0;
}

int sandbox_request(struct buf *b, const char *id, const struct spec *spec,
                    const struct ready_policy *ready, const struct limits *most,
                    const char *const *layers, int root_fd, const struct network_join *join,
                    unsigned long flags, struct err *err)
{
    const struct policy *policy = ready->policy;
    struct limits limits = limits_effective(&policy->limits, &spec->limits, most);
    int r;

    launch_begin(b, LAUNCH_START);
    launch_put_string(b, TAG_ID, id);
    launch_put_string(b, TAG_HOSTNAME,
                      join != NULL             ? join->hostname
                      : spec->hostname != NULL ? spec->hostname
                                               : id);
    if (join == NULL && spec->domainname != NULL)
        launch_put_string(b, TAG_DOMAIN, spec->domainname);
    if (policy->no_new_privs)
        flags |= LAUNCH_NO_NEW_PRIVS;
    if (policy->fuse)
        flags |= LAUNCH_FUSE;
    if (policy->core_sched)
        flags |= LAUNCH_CORE_SCHED;
    if (policy->no_exec || spec->no_exec)
        flags |= LAUNCH_NO_EXEC;
    if (spec->read_only)
        flags |= LAUNCH_READ_ONLY;
    if (spec_shows_host(spec))
        flags |= LAUNCH_HOST_ROOT;
    if (spec->init)
        flags |= LAUNCH_REAPER;
    launch_put_number(b, TAG_FLAGS, flags);
    launch_put_number(b, TAG_CAPABILITIES, policy->capabilities & ~spec->cap_drop);
    put_limits(b, &limits);
    r = put_resources(b, &spec->resources, limits.memory_bytes, most, err);
    if (r < 0)
        return r;
    put_io(b, &spec->resources, false);
    put_limit(b, TAG_NET_RATE, spec->resources.net_rate);
    put_limit(b, TAG_OOM_SCORE, spec->resources.oom_score);
    put_merged_rlimits(b, spec, policy);
    r = put_sysctls(b, spec, join != NULL, err);
    if (r < 0)
        return r;
    put_paths(b, TAG_MASKED, ready->masked);
    put_paths(b, TAG_READONLY, ready->read_only);
    r = put_root(b, spec, layers, root_fd >= 0, err);
    if (r == 0)
        r = put_volumes(b, spec, root_fd, err);
    if (r == 0)
        r = put_network(b, id, spec, policy, join, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < spec->tmpfs_count; i++)
        put_tmpfs(b, &spec->tmpfs[i]);
    /* In a read-only root the certificates get a tmpfs of their own. */
    if (spec->read_only && spec->egress != NULL && spec->egress->trust)
        launch_put_tmpfs(b,
                         &(struct launch_tmpfs){.target = CA_BUNDLE_DIR, .bytes = CA_BUNDLE_BYTES});
    launch_put(b, TAG_FILTER, 0, ready->filter.insns, ready->filter.count * 8);
    r = launch_end(b);
    return r < 0 ? err_set(err, r, "the request is larger than %d bytes", LAUNCH_SIZE_MAX) : 0;
}
