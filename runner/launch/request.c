#include "launch/request.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "launch/request-internal.h"
#include "launch/volume.h"
#include "policy/egress-handler.h"
#include "policy/policy.h"
#include "policy/tables.h"

/* ---- one decoder per tag ---- */

static bool record_is_string(const struct request_record *r, size_t max)
{
    return r->len >= 2 && r->len <= max + 1 && r->data[r->len - 1] == '\0' &&
           memchr(r->data, '\0', r->len - 1) == NULL;
}

static bool text_has_only(const char *s, const char *extra)
{
    for (; *s != '\0'; s++)
        if (!((*s >= 'a' && *s <= 'z') || (*s >= '0' && *s <= '9') || strchr(extra, *s) != NULL))
            return false;
    return true;
}

/* Ids are names of directories and cgroups: no dot, no slash, no leading dash. */
bool launch_id_ok(const char *id)
{
    size_t len = strlen(id);

    return len >= 1 && len <= LAUNCH_ID_MAX && id[0] != '-' && text_has_only(id, "-");
}

/* Absolute; no empty, "." or ".." component; no trailing slash; not the root itself. */
static bool path_ok(const char *p)
{
    if (p[0] != '/' || p[1] == '\0' || strlen(p) > LAUNCH_PATH_MAX)
        return false;
    while (*p == '/') {
        size_t len = strcspn(++p, "/");

        if (len == 0 || len > 255 || (len == 1 && p[0] == '.') ||
            (len == 2 && p[0] == '.' && p[1] == '.'))
            return false;
        p += len;
    }
    return true;
}

/* Checks a client's mount target: /proc, /sys and /dev are mounted by rind alone. */
bool launch_target_ok(const char *p)
{
    static const char *const ours[] = {"/proc", "/sys", "/dev"};

    if (!path_ok(p))
        return false;
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
        size_t len = strlen(ours[i]);

        if (strncmp(p, ours[i], len) == 0 && (p[len] == '\0' || p[len] == '/'))
            return false;
    }
    return true;
}

int record_get_string(const struct request_record *r, size_t max, const char **ret)
{
    if (!record_is_string(r, max))
        return -EPROTO;
    *ret = (const char *)r->data;
    return 0;
}

int record_get_number(const struct request_record *r, uint64_t min, uint64_t max, uint64_t *ret)
{
    uint64_t v;

    if (r->len != sizeof(v))
        return -EPROTO;
    (void)memcpy(&v, r->data, sizeof(v));
    if (v < min || v > max)
        return -ERANGE;
    *ret = v;
    return 0;
}

int record_get_limit(const struct request_record *r, uint64_t min, uint64_t max, int64_t *ret)
{
    uint64_t v;
    int n = record_get_number(r, min, max, &v);

    if (n == 0)
        *ret = (int64_t)v;
    return n;
}

static int dec_id(const struct request_record *r, struct launch_request *q)
{
    int n = record_get_string(r, LAUNCH_ID_MAX, &q->id);

    return n == 0 && !launch_id_ok(q->id) ? -EINVAL : n;
}

/* A host name is printed by other programs: no control bytes, no spaces. */
static int dec_hostname(const struct request_record *r, struct launch_request *q)
{
    int n = record_get_string(r, LAUNCH_HOSTNAME_MAX, &q->hostname);

    for (const char *p = n == 0 ? q->hostname : ""; *p != '\0'; p++)
        if (!((*p >= 'A' && *p <= 'Z') || (*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9') ||
              strchr("-_.", *p) != NULL))
            return -EINVAL;
    return n;
}

static int dec_domain(const struct request_record *r, struct launch_request *q)
{
    int n = record_get_string(r, LAUNCH_DOMAIN_MAX, &q->domain);

    for (const char *p = n == 0 ? q->domain : ""; *p != '\0'; p++)
        if (!((*p >= 'A' && *p <= 'Z') || (*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9') ||
              strchr("-_.", *p) != NULL))
            return -EINVAL;
    return n;
}

/* Words for one line of a resolv.conf. */
static int record_get_words(const struct request_record *r, const char **ret)
{
    int n = record_get_string(r, LAUNCH_RESOLV_MAX, ret);

    for (const char *p = n == 0 ? *ret : ""; *p != '\0'; p++)
        if (*p < ' ' || *p >= 0x7f)
            return -EINVAL;
    return n;
}

static int dec_net_search(const struct request_record *r, struct launch_request *q)
{
    return record_get_words(r, &q->net_search);
}

static int dec_net_options(const struct request_record *r, struct launch_request *q)
{
    return record_get_words(r, &q->net_options);
}

static int dec_flags(const struct request_record *r, struct launch_request *q)
{
    int n = record_get_number(r, 0, UINT64_MAX, &q->flags);

    return n == 0 && (q->flags & ~(uint64_t)LAUNCH_FLAGS_ALL) != 0 ? -EINVAL : n;
}

static int dec_capabilities(const struct request_record *r, struct launch_request *q)
{
    return record_get_number(r, 0, (1ULL << 41) - 1,
                             &q->capabilities); /* CAP_CHECKPOINT_RESTORE is 40 */
}

/* A layer is a name in layers/, never a path. */
static int dec_layer(const struct request_record *r, struct launch_request *q)
{
    const char *name;
    int n = record_get_string(r, 128, &name);

    if (n < 0)
        return n;
    if (name[0] == '.' || name[0] == '-' || !text_has_only(name, "-_."))
        return -EINVAL;
    if (q->layer_count == LAUNCH_LAYERS_MAX)
        return -E2BIG;
    q->layers[q->layer_count++] = name;
    return 0;
}

/* An image layer is named by its digest. */
static int dec_image_layer(const struct request_record *r, struct launch_request *q)
{
    const char *name;
    int n = record_get_string(r, LAUNCH_LAYER_NAME, &name);

    if (n < 0)
        return n;
    if (strlen(name) != LAUNCH_LAYER_NAME || strspn(name, "0123456789abcdef") != LAUNCH_LAYER_NAME)
        return -EINVAL;
    if (q->image_layer_count == LAUNCH_LAYERS_MAX)
        return -E2BIG;
    q->image_layers[q->image_layer_count++] = name;
    return 0;
}

static int dec_worker(const struct request_record *r, struct launch_request *q)
{
    uint64_t v;
    int n = record_get_number(r, LAUNCH_WORK_INVALID + 1, LAUNCH_WORK_MAX - 1, &v);

    if (n == 0)
        q->work = (enum launch_work)v;
    return n;
}

static int dec_sandbox(const struct request_record *r, struct launch_request *q)
{
    int n = record_get_string(r, LAUNCH_ID_MAX, &q->sandbox);

    return n == 0 && !launch_id_ok(q->sandbox) ? -EINVAL : n;
}

static int dec_bytes(const struct request_record *r, struct launch_request *q)
{
    return record_get_limit(r, 0, INT64_MAX, &q->bytes);
}

static int dec_root_dir(const struct request_record *r, struct launch_request *q)
{
    int n = record_get_string(r, LAUNCH_PATH_MAX, &q->root_dir);

    if (n == 0 && strcmp(q->root_dir, "/") != 0 && !path_ok(q->root_dir))
        return -EINVAL;
    return n;
}

static int dec_volume(const struct request_record *r, struct launch_request *q)
{
    struct launch_volume v = {.read_only = (r->flags & LAUNCH_VOLUME_READ_ONLY) != 0,
                              .make = (r->flags & LAUNCH_VOLUME_MAKE_SOURCE) != 0};
    const unsigned char *end = r->data + r->len;
    const unsigned char *nul;

    if (r->len < 8 + 4 || r->data[r->len - 1] != '\0')
        return -EPROTO;
    (void)memcpy(&v.uid, r->data, 4);
    (void)memcpy(&v.gid, r->data + 4, 4);
    v.source = (const char *)r->data + 8;
    nul = memchr(r->data + 8, '\0', r->len - 8);
    if (nul == NULL || nul + 1 >= end)
        return -EPROTO;
    v.target = (const char *)nul + 1;
    if (memchr(v.target, '\0', (size_t)(end - (nul + 1))) != end - 1)
        return -EPROTO;
    if (v.uid > 65535 || v.gid > 65535)
        return -ERANGE;
    if (!path_ok(v.source) || !launch_target_ok(v.target))
        return -EINVAL;
    if (q->volume_count == LAUNCH_VOLUMES_MAX)
        return -E2BIG;
    q->volumes[q->volume_count++] = v;
    return 0;
}

static int dec_named_volume(const struct request_record *r, struct launch_request *q)
{
    struct launch_volume v = {.read_only = (r->flags & 1) != 0, .named = true};
    const unsigned char *end = r->data + r->len, *nul;

    if (r->len < 4 || end[-1] != '\0')
        return -EPROTO;
    nul = memchr(r->data, '\0', r->len);
    if (nul + 1 >= end || memchr(nul + 1, '\0', (size_t)(end - (nul + 1))) != end - 1)
        return -EPROTO;
    v.source = (const char *)r->data;
    v.target = (const char *)nul + 1;
    if (!launch_volume_name_ok(v.source) || !launch_target_ok(v.target))
        return -EINVAL;
    if (q->volume_count == LAUNCH_VOLUMES_MAX)
        return -E2BIG;
    q->volumes[q->volume_count++] = v;
    return 0;
}

static int dec_volume_name(const struct request_record *r, struct launch_request *q)
{
    int n = record_get_string(r, LAUNCH_VOLUME_NAME_MAX, &q->volume_name);

    return n == 0 && !launch_volume_name_ok(q->volume_name) ? -EINVAL : n;
}

static int dec_meta(const struct request_record *r, struct launch_request *q)
{
    if (r->len > LAUNCH_META_MAX)
        return -E2BIG;
    q->meta = r->data;
    q->meta_len = r->len;
    return 0;
}

/* Decodes a number followed by one NUL-terminated string. */
int record_get_number_string(const struct request_record *r, uint64_t *ret_number,
                             const char **ret_text)
{
    if (r->len < 8 + 2 || r->data[r->len - 1] != '\0' ||
        memchr(r->data + 8, '\0', r->len - 9) != NULL)
        return -EPROTO;
    (void)memcpy(ret_number, r->data, 8);
    *ret_text = (const char *)r->data + 8;
    return 0;
}

static int record_add_path(const struct request_record *r, const char **list, size_t *count)
{
    const char *p;
    int n = record_get_string(r, LAUNCH_PATH_MAX, &p);

    if (n < 0)
        return n;
    if (!path_ok(p))
        return -EINVAL;
    if (*count == LAUNCH_PATHS_MAX)
        return -E2BIG;
    list[(*count)++] = p;
    return 0;
}

static int dec_masked(const struct request_record *r, struct launch_request *q)
{
    return record_add_path(r, q->masked, &q->masked_count);
}

static int dec_readonly(const struct request_record *r, struct launch_request *q)
{
    return record_add_path(r, q->read_only, &q->read_only_count);
}

static int dec_rlimit(const struct request_record *r, struct launch_request *q)
{
    struct launch_rlimit l;

    if (r->len != sizeof(l))
        return -EPROTO;
    (void)memcpy(&l, r->data, sizeof(l));
    if (l.resource >= 16 || l.soft > l.hard)
        return -ERANGE;
    if (!rlimit_grantable(l.resource, l.hard))
        return -EPERM;
    if (q->rlimit_count == LAUNCH_RLIMITS_MAX)
        return -E2BIG;
    q->rlimits[q->rlimit_count++] = l;
    return 0;
}

static int dec_counter(const struct request_record *r, struct launch_request *q)
{
    static const char *const known[] = {
        "max_user_namespaces",   "max_mnt_namespaces",  "max_pid_namespaces",
        "max_net_namespaces",    "max_ipc_namespaces",  "max_uts_namespaces",
        "max_cgroup_namespaces", "max_time_namespaces", "max_inotify_instances",
        "max_inotify_watches",   "max_fanotify_groups", "max_fanotify_marks",
    };
    struct launch_counter c;
    int n = record_get_number_string(r, &c.limit, &c.name);

    if (n < 0)
        return n;
    if (c.limit > INT32_MAX)
        return -ERANGE;
    if (q->counter_count == sizeof(q->counters) / sizeof(q->counters[0]))
        return -E2BIG;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i], c.name) == 0) {
            q->counters[q->counter_count++] = c;
            return 0;
        }
    return -EINVAL;
}

static int dec_filter(const struct request_record *r, struct launch_request *q)
{
    if (r->len == 0 || r->len % 8 != 0 || r->len / 8 > LAUNCH_BPF_MAX)
        return -EPROTO;
    q->filter = r->data;
    q->filter_count = r->len / 8;
    return 0;
}

static int dec_user(const struct request_record *r, struct launch_request *q)
{
    return record_get_string(r, LAUNCH_USER_MAX, &q->user);
}

static int dec_family(const struct request_record *r, struct launch_request *q)
{
    uint64_t v;
    int n = record_get_number(r, 4, 6, &v);

    if (n == 0 && v == 5)
        n = -EINVAL;
    if (n == 0)
        q->family = (int)v;
    return n;
}

static int dec_net(const struct request_record *r, struct launch_request *q)
{
    int n = record_get_number(r, 0, UINT64_MAX, &q->net_flags);

    if (n == 0 && ((q->net_flags & ~(uint64_t)LAUNCH_NET_FLAGS_ALL) != 0 ||
                   ((q->net_flags & LAUNCH_NET_SAME) != 0 && q->verb != LAUNCH_NETWORKS) ||
                   (q->net_flags & (LAUNCH_NET_INTERNET | LAUNCH_NET_LINK)) == LAUNCH_NET_INTERNET))
        n = -EINVAL;
    return n;
}

static int dec_net_rule(const struct request_record *r, struct launch_request *q)
{
    struct net_rule rule;

    if (r->len != sizeof(rule))
        return -EPROTO;
    (void)memcpy(&rule, r->data, sizeof(rule));
    if (!net_rule_ok(&rule))
        return -EINVAL;
    if (q->net_access.rule_count == NET_RULES_MAX)
        return -E2BIG;
    q->net_access.rules[q->net_access.rule_count++] = rule;
    return 0;
}

static int dec_net_port(const struct request_record *r, struct launch_request *q)
{
    struct net_port port;

    if (r->len != sizeof(port))
        return -EPROTO;
    (void)memcpy(&port, r->data, sizeof(port));
    if (!net_port_ok(&port))
        return -EINVAL;
    if (q->net_access.port_count == NET_PORTS_MAX)
        return -E2BIG;
    q->net_access.ports[q->net_access.port_count++] = port;
    return 0;
}

static int dec_net_dns(const struct request_record *r, struct launch_request *q)
{
    struct net_addr a;

    if (r->len != sizeof(a))
        return -EPROTO;
    (void)memcpy(&a, r->data, sizeof(a));
    if (!net_addr_ok(&a))
        return -EINVAL;
    if (q->net_dns_count == NET_DNS_MAX)
        return -E2BIG;
    q->net_dns[q->net_dns_count++] = a;
    return 0;
}

static int dec_net_join(const struct request_record *r, struct launch_request *q)
{
    int n = record_get_string(r, LAUNCH_ID_MAX, &q->net_join);

    return n == 0 && !launch_id_ok(q->net_join) ? -EINVAL : n;
}

static int dec_net_name(const struct request_record *r, struct launch_request *q)
{
    int n = record_get_string(r, LAUNCH_ID_MAX, &q->net_name);

    return n == 0 && !text_has_only(q->net_name, "-_.") ? -EINVAL : n;
}

static bool host_name_ok(const char *name)
{
    for (const char *p = name; *p != '\0'; p++)
        if (!((*p >= 'A' && *p <= 'Z') || (*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9') ||
              strchr("-_.", *p) != NULL))
            return false;
    return name[0] != '\0';
}

/* Names separated by single spaces; not "". */
static bool aliases_ok(const char *text)
{
    char last = ' ';

    for (const char *p = text; *p != '\0'; last = *p++) {
        const char one[] = {*p, '\0'};

        if (*p == ' ' ? last == ' ' : !host_name_ok(one))
            return false;
    }
    return last != ' ';
}

static int dec_net_aliases(const struct request_record *r, struct launch_request *q)
{
    int n = record_get_string(r, LAUNCH_ALIASES_MAX, &q->net_aliases);

    return n == 0 && !aliases_ok(q->net_aliases) ? -EINVAL : n;
}

static int dec_net_more(const struct request_record *r, struct launch_request *q)
{
    const unsigned char *end = r->data + r->len, *nul;
    struct launch_net net;

    if (r->len < 3 || end[-1] != '\0')
        return -EPROTO;
    nul = memchr(r->data, '\0', r->len);
    if (nul + 1 >= end || memchr(nul + 1, '\0', (size_t)(end - (nul + 1))) != end - 1)
        return -EPROTO;
    net = (struct launch_net){.name = (const char *)r->data, .aliases = (const char *)nul + 1};
    if (net.name[0] == '\0' || strlen(net.name) > LAUNCH_ID_MAX ||
        !text_has_only(net.name, "-_.") || strlen(net.aliases) > LAUNCH_ALIASES_MAX ||
        (net.aliases[0] != '\0' && !aliases_ok(net.aliases)))
        return -EINVAL;
    if (q->net_more_count == NET_MORE_MAX)
        return -E2BIG;
    q->net_more[q->net_more_count++] = net;
    return 0;
}

static int dec_net_lan(const struct request_record *r, struct launch_request *q)
{
    struct net_lan_ask a;

    if (r->len != sizeof(a))
        return -EPROTO;
    (void)memcpy(&a, r->data, sizeof(a));
    if (q->net_lan_count == NET_GROUPS_MAX)
        return -E2BIG;
    if (!net_lan_ask_ok(&a) ||
        (q->net_lan_count > 0 && a.index <= q->net_lans[q->net_lan_count - 1].index))
        return -EINVAL;
    q->net_lans[q->net_lan_count++] = a;
    return 0;
}

static int dec_net_host(const struct request_record *r, struct launch_request *q)
{
    struct launch_host h = {.name = ""};
    size_t len = r->len - sizeof(h.addr);

    if (r->len < sizeof(h.addr) + 2 || len > sizeof(h.name) || r->data[r->len - 1] != '\0')
        return -EPROTO;
    (void)memcpy(&h.addr, r->data, sizeof(h.addr));
    (void)memcpy(h.name, r->data + sizeof(h.addr), len);
    if (strlen(h.name) != len - 1 || !host_name_ok(h.name) ||
        (h.addr.family != 0 && !net_addr_ok(&h.addr)))
        return -EINVAL;
    if (q->host_count == LAUNCH_HOSTS_MAX)
        return -E2BIG;
    q->hosts[q->host_count++] = h;
    return 0;
}

static int dec_bind(const struct request_record *r, struct launch_request *q)
{
    struct launch_bind b;

    if (r->len != sizeof(b))
        return -EPROTO;
    (void)memcpy(&b, r->data, sizeof(b));
    if ((b.family != 4 && b.family != 6) || b.udp > 1)
        return -EINVAL;
    q->has_bind = true;
    q->udp = b.udp == 1;
    q->bind = (struct address){.family = b.family, .port = b.port};
    (void)memcpy(q->bind.bytes, b.bytes, b.family == 6 ? 16 : 4);
    return 0;
}

static int dec_udp(const struct request_record *r, struct launch_request *q)
{
    uint64_t v;
    int n = record_get_number(r, 1, 1, &v);

    if (n == 0)
        q->udp = true;
    return n;
}

static int dec_egress(const struct request_record *r, struct launch_request *q)
{
    int n = record_get_number(r, 0, LAUNCH_EGRESS_ALL, &q->egress);

    q->has_egress = true;
    return n == 0 && (q->egress & LAUNCH_EGRESS_NONE) != 0 && q->egress != LAUNCH_EGRESS_NONE
               ? -EINVAL
               : n;
}

static int dec_handler(const struct request_record *r, struct launch_request *q)
{
    int n = record_get_string(r, EGRESS_HANDLER_MAX, &q->handler);

    return n == 0 && !egress_handler_ok(q->handler) ? -EINVAL : n;
}

static int dec_index(const struct request_record *r, struct launch_request *q)
{
    uint64_t v;
    int n = record_get_number(r, 0, NET_DNS_MAX - 1, &v);

    if (n == 0)
        q->index = (unsigned)v;
    return n;
}

static int dec_count(const struct request_record *r, struct launch_request *q)
{
    uint64_t v;
    int n = record_get_number(r, 1, LAUNCH_REPLY_FDS_MAX, &v);

    if (n == 0)
        q->count = (unsigned)v;
    return n;
}

static int dec_mark(const struct request_record *r, struct launch_request *q)
{
    uint64_t v;
    int n = record_get_number(r, 1, 1, &v);

    if (n == 0)
        q->mark = true;
    return n;
}

/* clang-format off */
static const struct {
    const char *name;
    int (*decode)(const struct request_record *, struct launch_request *);
    bool many;
    uint16_t flags; /* allowed record flags */
} tags[TAG_MAX] = {
    [TAG_ID]           = {"id",           dec_id,           false},
    [TAG_HOSTNAME]     = {"hostname",     dec_hostname,     false},
    [TAG_FLAGS]        = {"flags",        dec_flags,        false},
    [TAG_CAPABILITIES] = {"capabilities", dec_capabilities, false},
    [TAG_MEMORY]       = {"memory",       dec_memory,       false},
    [TAG_PIDS]         = {"pids",         dec_pids,         false},
    [TAG_CPU]          = {"cpu",          dec_cpu,          false},
    [TAG_SHM]          = {"shm",          dec_shm,          false},
    [TAG_LAYER]        = {"layer",        dec_layer,        true},
    [TAG_ROOT_DIR]     = {"root_dir",     dec_root_dir,     false},
    [TAG_VOLUME]       = {"volume",       dec_volume,       true, 3},
    [TAG_TMPFS]        = {"tmpfs",        dec_tmpfs,        true, 3},
    [TAG_TMPFS_ROOT]   = {"tmpfs_root",   dec_tmpfs_root,   true},
    [TAG_MASKED]       = {"masked",       dec_masked,       true},
    [TAG_READONLY]     = {"read_only",    dec_readonly,     true},
    [TAG_RLIMIT]       = {"rlimit",       dec_rlimit,       true},
    [TAG_COUNTER]      = {"counter",      dec_counter,      true},
    [TAG_FILTER]       = {"filter",       dec_filter,       false},
    [TAG_FAMILY]       = {"family",       dec_family,       false},
    [TAG_USER]         = {"user",         dec_user,         false},
    [TAG_NET]          = {"net",          dec_net,          false},
    [TAG_NET_RULE]     = {"net_rule",     dec_net_rule,     true},
    [TAG_NET_PORT]     = {"net_port",     dec_net_port,     true},
    [TAG_NET_DNS]      = {"net_dns",      dec_net_dns,      true},
    [TAG_NET_JOIN]     = {"net_join",     dec_net_join,     false},
    [TAG_NET_NAME]     = {"net_name",     dec_net_name,     false},
    [TAG_NET_ALIASES]  = {"net_aliases",  dec_net_aliases,  false},
    [TAG_NET_HOST]     = {"net_host",     dec_net_host,     true},
    [TAG_BIND]         = {"bind",         dec_bind,         false},
    [TAG_UDP]          = {"udp",          dec_udp,          false},
    [TAG_EGRESS]       = {"egress",       dec_egress,       false},
    [TAG_HANDLER]      = {"handler",      dec_handler,      false},
    [TAG_INDEX]        = {"index",        dec_index,        false},
    [TAG_MARK]         = {"mark",         dec_mark,         false},
    [TAG_IMAGE_LAYER]  = {"image_layer",  dec_image_layer,  true},
    [TAG_WORKER]       = {"worker",       dec_worker,       false},
    [TAG_SANDBOX]      = {"sandbox",      dec_sandbox,      false},
    [TAG_BYTES]        = {"bytes",        dec_bytes,        false},
    [TAG_NAMED_VOLUME] = {"named_volume", dec_named_volume, true, 1},
    [TAG_VOLUME_NAME]  = {"volume_name",  dec_volume_name,  false},
    [TAG_META]         = {"meta",         dec_meta,         false},
    [TAG_DISK]         = {"disk",         dec_disk,         false},
    [TAG_COUNT]        = {"count",        dec_count,        false},
    [TAG_NET_MORE]     = {"net_more",     dec_net_more,     true},
    [TAG_SWAP]         = {"swap",         dec_swap,         false},
    [TAG_RESERVATION]  = {"reservation",  dec_reservation,  false},
    [TAG_SHARES]       = {"shares",       dec_shares,       false},
    [TAG_CPUSET_CPUS]  = {"cpuset_cpus",  dec_cpuset_cpus,  false},
    [TAG_CPUSET_MEMS]  = {"cpuset_mems",  dec_cpuset_mems,  false},
    [TAG_SYSCTL]       = {"sysctl",       dec_sysctl,       true},
    [TAG_NET_LAN]      = {"net_lan",      dec_net_lan,      true},
    [TAG_OOM_SCORE]    = {"oom_score",    dec_oom_score,    false},
    [TAG_DOMAIN]       = {"domain",       dec_domain,       false},
    [TAG_NET_SEARCH]   = {"net_search",   dec_net_search,   false},
    [TAG_NET_OPTIONS]  = {"net_options",  dec_net_options,  false},
    [TAG_IO_WEIGHT]    = {"io_weight",    dec_io_weight,    false},
    [TAG_IO]           = {"io",           dec_io,           true},
    [TAG_NET_RATE]     = {"net_rate",     dec_net_rate,     false},
};
/* clang-format on */

/* ---- the whole request ---- */

static int wire_next_record(const unsigned char *data, size_t len, size_t *pos,
                            struct request_record *ret, struct err *err)
{
    size_t padded;

    if (len - *pos < 8)
        return err_set(err, -EPROTO, "request: cut record header");
    (void)memcpy(&ret->tag, data + *pos, 2);
    (void)memcpy(&ret->flags, data + *pos + 2, 2);
    (void)memcpy(&ret->len, data + *pos + 4, 4);
    *pos += 8;
    padded = ((size_t)ret->len + 7) & ~(size_t)7;
    if (padded > len - *pos)
        return err_set(err, -EPROTO, "request: a record of %u bytes passes the end", ret->len);
    ret->data = data + *pos;
    for (size_t i = ret->len; i < padded; i++)
        if (ret->data[i] != 0)
            return err_set(err, -EPROTO, "request: record padded with something");
    *pos += padded;
    return 0;
}

static int wire_check_header(const struct launch_wire *w, size_t len, struct err *err)
{
    if (w->magic != LAUNCH_MAGIC)
        return err_set(err, -EPROTO, "request: wrong magic");
    if (w->version != LAUNCH_VERSION)
        return err_set(err, -EPROTO, "request: version %u, this launcher speaks %d", w->version,
                       LAUNCH_VERSION);
    if (w->verb == LAUNCH_VERB_INVALID || w->verb >= LAUNCH_VERB_MAX)
        return err_set(err, -EPROTO, "request: unknown verb %u", w->verb);
    if (w->size != len)
        return err_set(err, -EPROTO, "request: says %u bytes, is %zu", w->size, len);
    return 0;
}

static bool is_volume_verb(enum launch_verb verb)
{
    return verb >= LAUNCH_VOLUME_MAKE && verb <= LAUNCH_VOLUME_FILL;
}

static bool needs_id(enum launch_verb verb)
{
    return verb != LAUNCH_LIST && verb != LAUNCH_LISTEN && verb != LAUNCH_CERTIFICATE &&
           verb != LAUNCH_RESOLVER && verb != LAUNCH_CONN_LIMIT && verb != LAUNCH_CLOSED &&
           verb != LAUNCH_LAYER_REMOVE && verb != LAUNCH_LAYER_LIST && !is_volume_verb(verb);
}

/* Checks which records about layers are allowed with which verb. */
static int check_layers(const struct launch_request *q, struct err *err)
{
    const bool one = q->verb == LAUNCH_LAYER_COMMIT || q->verb == LAUNCH_LAYER_REMOVE;
    const bool of_sandbox = q->work == LAUNCH_WORK_UPPER || q->work == LAUNCH_WORK_ROOT ||
                            q->work == LAUNCH_WORK_CHANGES || q->work == LAUNCH_WORK_SANDBOX_SIZE ||
                            (q->verb == LAUNCH_VOLUME_FILL && q->sandbox != NULL);

    if ((q->verb == LAUNCH_WORKER) != (q->work != LAUNCH_WORK_INVALID))
        return err_set(err, -EINVAL, "request: %s",
                       q->verb == LAUNCH_WORKER ? "no kind of worker" : "a kind, and no worker");
    if (one && q->image_layer_count != 1)
        return err_set(err, -EINVAL, "request: %zu layers, not one", q->image_layer_count);
    if ((q->verb == LAUNCH_LAYER_COMMIT || q->work == LAUNCH_WORK_LAYER) != (q->bytes >= 0))
        return err_set(err, -EINVAL, "request: %s",
                       q->bytes < 0 ? "no size" : "a size, and no layer");
    if (of_sandbox != (q->sandbox != NULL))
        return err_set(err, -EINVAL, "request: %s",
                       of_sandbox ? "no sandbox to work on" : "a sandbox, and no work on it");
    if (q->verb == LAUNCH_WORKER &&
        (q->work == LAUNCH_WORK_VOLUME_SIZE) != (q->volume_name != NULL))
        return err_set(err, -EINVAL, "request: %s",
                       q->volume_name == NULL ? "no volume to work on"
                                              : "a volume, and no work on it");
    if (q->work == LAUNCH_WORK_IMAGE && q->image_layer_count == 0)
        return err_set(err, -EINVAL, "request: no layers");
    if (q->image_layer_count > 0 && !one && q->verb != LAUNCH_START && q->verb != LAUNCH_WORKER &&
        q->verb != LAUNCH_VOLUME_FILL)
        return err_set(err, -EINVAL, "request: a layer, and nothing to do with it");
    if (q->image_layer_count + q->layer_count > LAUNCH_LAYERS_MAX)
        return err_set(err, -E2BIG, "request: more than %d layers", LAUNCH_LAYERS_MAX);
    return 0;
}

static int check_volume(const struct launch_request *q, struct err *err)
{
    bool named = q->verb != LAUNCH_VOLUME_LIST && q->verb != LAUNCH_VOLUME_FILL;
    bool record = q->verb == LAUNCH_VOLUME_MAKE || q->verb == LAUNCH_VOLUME_WRITE;

    if (named != (q->volume_name != NULL) && q->verb != LAUNCH_VOLUME_FILL)
        return err_set(err, -EINVAL, "request: %s",
                       named ? "no volume" : "a volume, and nothing to do with it");
    if (record != (q->meta != NULL))
        return err_set(err, -EINVAL, "request: %s",
                       record ? "no record" : "a record, and no owner to keep it for");
    if (q->verb != LAUNCH_VOLUME_FILL)
        return 0;
    if (q->volume_count != 1 || !q->volumes[0].named)
        return err_set(err, -EINVAL, "request: not one volume to fill");
    if (q->volume_name != NULL && q->sandbox != NULL)
        return err_set(err, -EINVAL, "request: both a volume and a sandbox to fill it from");
    if (q->layer_count == 0 && q->image_layer_count == 0 && q->root_dir == NULL &&
        q->volume_name == NULL)
        return err_set(err, -EINVAL, "request: no root file system");
    return 0;
}

/* Checks that egress records come only with their verbs. */
static int check_egress(const struct launch_request *q, struct err *err)
{
    if ((q->verb == LAUNCH_EGRESS) != q->has_egress)
        return err_set(err, -EINVAL, "request: %s",
                       q->has_egress ? "egress, and another verb" : "no egress");
    if ((q->verb == LAUNCH_DIAL) != (q->handler != NULL))
        return err_set(err, -EINVAL, "request: %s",
                       q->handler != NULL ? "a handler, and another verb" : "no handler");
    if (q->mark && q->verb != LAUNCH_CONNECT)
        return err_set(err, -EINVAL, "request: a mark, and nothing to connect");
    if (q->index != 0 && q->verb != LAUNCH_RESOLVER && q->verb != LAUNCH_ASK)
        return err_set(err, -EINVAL, "request: an index, and another verb");
    return 0;
}

static int check_networks(const struct launch_request *q, struct err *err)
{
    if (q->net_name != NULL && (q->net_flags & LAUNCH_NET_LINK) == 0)
        return err_set(err, -EINVAL, "request: a named network, and no link");
    if ((q->net_aliases != NULL || q->net_more_count > 0) && q->net_name == NULL)
        return err_set(err, -EINVAL, "request: names, and no network to have them in");
    if (q->net_lan_count > 0 &&
        (q->net_name == NULL || q->net_lans[q->net_lan_count - 1].index > q->net_more_count))
        return err_set(err, -EINVAL, "request: a subnet, and no network that has it");
    for (size_t i = 0; i < q->net_more_count; i++) {
        bool twice = strcmp(q->net_more[i].name, q->net_name) == 0;

        for (size_t k = 0; k < i; k++)
            twice |= strcmp(q->net_more[i].name, q->net_more[k].name) == 0;
        if (twice)
            return err_set(err, -EINVAL, "request: network %s twice", q->net_more[i].name);
    }
    return 0;
}

static int check_whole(const struct launch_request *q, struct err *err)
{
    int r;

    if (q->id == NULL && needs_id(q->verb))
        return err_set(err, -EINVAL, "request: no id");
    r = check_layers(q, err);
    if (r < 0)
        return r;
    if ((q->verb == LAUNCH_LISTEN) != q->has_bind)
        return err_set(err, -EINVAL, "request: %s",
                       q->has_bind ? "an address, and nothing to listen for" : "no address");
    if (q->verb == LAUNCH_LISTEN && q->id != NULL && q->udp)
        return err_set(err, -EINVAL, "request: datagrams, and a sandbox to listen in");
    if (q->count > 1 && q->verb != LAUNCH_CONNECT)
        return err_set(err, -EINVAL, "request: a count, and nothing to connect");
    if (q->udp && q->verb != LAUNCH_LISTEN && q->verb != LAUNCH_CONNECT &&
        q->verb != LAUNCH_RESOLVER && q->verb != LAUNCH_ASK)
        return err_set(err, -EINVAL, "request: a protocol, and nothing to connect");
    if ((q->verb == LAUNCH_CONNECT || q->verb == LAUNCH_EGRESS) != (q->family != 0))
        return err_set(err, -EINVAL, "request: %s",
                       q->family == 0 ? "no family" : "a family, and nothing to connect");
    if (check_egress(q, err) < 0)
        return -EINVAL;
    if (is_volume_verb(q->verb))
        return check_volume(q, err);
    if (q->verb != LAUNCH_START)
        return q->verb == LAUNCH_NETWORKS ? check_networks(q, err) : 0;
    if ((q->flags & LAUNCH_KEEP) && (q->flags & LAUNCH_ATTACHED))
        return err_set(err, -EINVAL, "request: both kept and attached");
    if (q->hostname == NULL)
        return err_set(err, -EINVAL, "request: no hostname");
    if (q->net_join != NULL && (q->net_flags != 0 || q->net_name != NULL))
        return err_set(err, -EINVAL, "request: both a network of its own and another's");
    r = check_networks(q, err);
    if (r < 0)
        return r;
    if (q->image_layer_count > 0 && q->root_dir != NULL)
        return err_set(err, -EINVAL, "request: both an image and a root directory");
    if (q->layer_count == 0 && q->root_dir == NULL && (q->flags & LAUNCH_HOST_ROOT) == 0)
        return err_set(err, -EINVAL, "request: no root file system");
    if (q->root_dir != NULL && (q->flags & LAUNCH_HOST_ROOT) != 0)
        return err_set(err, -EINVAL, "request: both a root directory and the host's");
    if (q->filter == NULL)
        return err_set(err, -EINVAL, "request: no seccomp filter");
    return 0;
}

int launch_decode(const void *data, size_t len, struct launch_request *ret, struct err *err)
{
    struct launch_request q = {.count = 1,
                               .memory = -1,
                               .pids = -1,
                               .cpu = -1,
                               .shm = -1,
                               .disk = -1,
                               .bytes = -1,
                               .client_fd = -1};
    struct launch_wire w;
    bool seen[TAG_MAX] = {false};
    size_t pos = sizeof(w);
    uint32_t count = 0;
    int r;

    if (len < sizeof(w) || len > LAUNCH_SIZE_MAX)
        return err_set(err, -EPROTO, "request: %zu bytes, not %zu to %d", len, sizeof(w),
                       LAUNCH_SIZE_MAX);
    (void)memcpy(&w, data, sizeof(w));
    r = wire_check_header(&w, len, err);
    if (r < 0)
        return r;
    q.verb = (enum launch_verb)w.verb;

    while (pos < len) {
        struct request_record rec;

        r = wire_next_record(data, len, &pos, &rec, err);
        if (r < 0)
            return r;
        if (rec.tag == TAG_INVALID || rec.tag >= TAG_MAX)
            return err_set(err, -EPROTO, "request: unknown record %u", rec.tag);
        if (seen[rec.tag] && !tags[rec.tag].many)
            return err_set(err, -EPROTO, "request: record %s twice", tags[rec.tag].name);
        seen[rec.tag] = true;
        if ((rec.flags & ~tags[rec.tag].flags) != 0)
            return err_set(err, -EPROTO, "request: record %s: unknown flags 0x%x",
                           tags[rec.tag].name, rec.flags);
        r = tags[rec.tag].decode(&rec, &q);
        if (r < 0)
            return err_errno(err, r, "request: record %s", tags[rec.tag].name);
        count++;
    }
    if (count != w.record_count)
        return err_set(err, -EPROTO, "request: says %u records, has %u", w.record_count, count);
    r = check_whole(&q, err);
    if (r < 0)
        return r;
    *ret = q;
    return 0;
}
