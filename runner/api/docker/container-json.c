/* Encodes a container for Docker's clients: from the spec, the facts, and the JSON that create
 * stored in its label. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "api/docker/common.h"
#include "api/docker/containers.h"
#include "api/docker/networks.h"
#include "api/docker/sidecar.h"
#include "api/docker/volume-options.h"
#include "base/address.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/strtab.h"
#include "exec/health.h"
#include "image/reference.h"
#include "policy/net-setup.h"
#include "policy/tables.h"
#include "ports/networks.h"
#include "ports/publish.h"
#include "sandbox/sandbox.h"
#include "spec/signals.h"
#include "spec/spec.h"
#include "workerd/sidecar.h"

enum { STATUS_MAX = 80, PORT_KEY_MAX = 16, MS = 1000, MINUTE = 60, HOUR = 3600, DAY = 86400 };

/* ---- words ---- */

/* Formats a time span like Docker's clients. */
static void format_span(int64_t ms, char *ret, size_t size)
{
    static const struct {
        int64_t below, unit;
        const char *one, *word;
    } rows[] = {{MINUTE, 1, "1 second", "seconds"},
                {HOUR, MINUTE, "About a minute", "minutes"},
                {INT64_C(2) * DAY, HOUR, "About an hour", "hours"},
                {INT64_MAX, DAY, "1 day", "days"}};
    int64_t seconds = ms > 0 ? ms / MS : 0;
    size_t i = 0;

    while (seconds >= rows[i].below)
        i++;
    if (seconds == 0)
        (void)snprintf(ret, size, "Less than a second");
    else if (seconds / rows[i].unit == 1)
        (void)snprintf(ret, size, "%s", rows[i].one);
    else
        (void)snprintf(ret, size, "%" PRId64 " %s", seconds / rows[i].unit, rows[i].word);
}

static const char *health_text(const struct sandbox *s)
{
    static const char *const words[HEALTH_MAX] = {[HEALTH_NONE] = "",
                                                  [HEALTH_STARTING] = " (health: starting)",
                                                  [HEALTH_HEALTHY] = " (healthy)",
                                                  [HEALTH_UNHEALTHY] = " (unhealthy)"};
    const struct health_info *f = sandbox_health(s);

    return words[f != NULL ? f->status : HEALTH_NONE];
}

/* Formats "Up 3 minutes", "Exited (0) 2 hours ago". */
static void status_text(const struct sandbox *s, char ret[STATUS_MAX])
{
    const char *status = docker_status(s);
    int64_t now = clock_wall_ms();
    struct sandbox_info f;
    char text[40];

    sandbox_get_info(s, &f);
    format_span(now - f.started_ms, text, sizeof(text));
    if (strcmp(status, "running") == 0)
        (void)snprintf(ret, STATUS_MAX, "Up %s%s", text, health_text(s));
    else if (strcmp(status, "paused") == 0)
        (void)snprintf(ret, STATUS_MAX, "Up %s (Paused)", text);
    else if (strcmp(status, "created") == 0)
        (void)snprintf(ret, STATUS_MAX, "Created");
    else if (strcmp(status, "dead") == 0)
        (void)snprintf(ret, STATUS_MAX, "Dead");
    else if (strcmp(status, "removing") == 0)
        (void)snprintf(ret, STATUS_MAX, "Removal In Progress");
    else {
        format_span(now - f.finished_ms, text, sizeof(text));
        (void)snprintf(ret, STATUS_MAX, "%s (%d) %s ago",
                       strcmp(status, "restarting") == 0 ? "Restarting" : "Exited", f.exit_code,
                       text);
    }
}

const char *docker_image_name(const struct sandbox *s, json_t *kept)
{
    const struct spec *spec = sandbox_spec(s);
    const char *image = json_string_value(json_object_get(kept, "image"));

    if (spec != NULL && spec->image != NULL)
        return spec->image;
    return image != NULL ? image : "";
}

static json_t *encode_name(const struct sandbox *s)
{
    return json_sprintf("/%s", sandbox_name(s));
}

/* ---- the command ---- */

size_t docker_entry_count(const struct spec *spec, json_t *kept)
{
    json_int_t count = json_integer_value(json_object_get(kept, "entry"));
    size_t args = 0;

    while (spec->argv[args] != NULL)
        args++;
    return count > 0 && (uint64_t)count <= args ? (size_t)count : 0;
}

static json_t *encode_entrypoint(const struct spec *spec, size_t count)
{
    json_t *list = count > 0 ? json_array() : json_null();

    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(list, json_string(spec->argv[i]));
    return list;
}

/* As in Docker null if the entry point is all of it. */
static json_t *encode_cmd(const struct spec *spec, size_t entry)
{
    return docker_strings(entry > 0 && spec->argv[entry] == NULL ? NULL : spec->argv + entry);
}

static const char *command_path(const struct spec *spec)
{
    return spec->argv[0] != NULL ? spec->argv[0] : "";
}

static json_t *encode_args(const struct spec *spec)
{
    return docker_strings(spec->argv[0] != NULL ? spec->argv + 1 : spec->argv);
}

/* ---- state ---- */

static bool is_running_sidecar(const struct sandbox *s)
{
    return sidecar_port(s) != 0;
}

/* As in Docker a container whose checks have ended with its run is unhealthy. */
const char *docker_health(const struct sandbox *s)
{
    const struct health_info *f = sandbox_health(s);

    if (f == NULL || f->status == HEALTH_NONE)
        return "none";
    return health_status_name(docker_is_running(s) ? f->status : HEALTH_UNHEALTHY);
}

/* NULL: no check, or none was made yet; Docker omits the key then, too. */
static json_t *encode_health(const struct sandbox *s)
{
    const struct health_info *f = sandbox_health(s);
    json_t *log;

    if (f == NULL || f->status == HEALTH_NONE)
        return NULL;
    log = json_array();
    for (unsigned i = 0; i < f->count; i++) {
        const struct health_check_result *c = &f->log[i];
        /* JSON cannot hold bytes that are not UTF-8. */
        json_t *output = json_string(c->output != NULL ? c->output : "");

        (void)json_array_append_new(
            log, json_pack("{s:o, s:o, s:i, s:o}", "Start", docker_time(c->started_ms), "End",
                           docker_time(c->ended_ms), "ExitCode", c->exit_code, "Output",
                           output != NULL ? output : json_string("")));
    }
    return json_pack("{s:s, s:I, s:o}", "Status", docker_health(s), "FailingStreak",
                     (json_int_t)f->failing_streak, "Log", log);
}

static json_t *encode_state(const struct sandbox *s)
{
    const char *status = docker_status(s);
    struct sandbox_info f;
    json_t *root, *check;

    sandbox_get_info(s, &f);
    root = json_pack(
        "{s:s, s:b, s:b, s:b, s:b, s:b, s:i, s:i, s:s, s:o, s:o}", "Status", status, "Running",
        (int)docker_is_running(s), "Paused", strcmp(status, "paused") == 0, "Restarting",
        strcmp(status, "restarting") == 0, "OOMKilled", (int)f.oom_killed, "Dead",
        strcmp(status, "dead") == 0, "Pid", (int)f.pid, "ExitCode",
        f.exit_code >= 0 && !(docker_is_running(s) && !f.restarting) ? f.exit_code : 0, "Error",
        f.error, "StartedAt", docker_time(f.started_ms), "FinishedAt", docker_time(f.finished_ms));
    check = encode_health(s);
    if (check != NULL)
        (void)docker_put(root, "Health", check);
    return root;
}

/* ---- ports and network ---- */

static bool ports_put_binding(json_t *ports, const char *key, const char *ip, unsigned port)
{
    char number[8];
    json_t *list = json_object_get(ports, key);

    (void)snprintf(number, sizeof(number), "%u", port);
    if (!json_is_array(list)) {
        if (!docker_put(ports, key, json_array()))
            return false;
        list = json_object_get(ports, key);
    }
    return json_array_append_new(list, json_pack("{s:s, s:s}", "HostIp", ip, "HostPort", number)) ==
           0;
}

/* Encodes NetworkSettings.Ports of a running container. */
static json_t *encode_ports(const struct sandbox *s)
{
    const struct spec *spec = sandbox_spec(s);
    auto_ptr(json_decref) json_t *kept = docker_kept(spec);
    json_t *ports = json_object(), *value;
    char key[PORT_KEY_MAX], host[ADDRESS_TEXT_MAX];
    const char *exposed;
    bool ok = ports != NULL;

    if (ok && is_running_sidecar(s)) {
        (void)snprintf(key, sizeof(key), "%d/tcp", SIDECAR_INGRESS_PORT);
        ok = ports_put_binding(ports, key, "127.0.0.1", sidecar_port(s));
    }
    json_object_foreach(json_object_get(kept, "exposed"), exposed, value)
        if (ok && json_object_get(ports, exposed) == NULL)
            ok = docker_put(ports, exposed, json_null());
    for (size_t i = 0; ok && spec != NULL && i < spec->port_count; i++) {
        const struct publish *p = &spec->ports[i];
        struct address at;

        (void)snprintf(key, sizeof(key), "%u/%s", p->port, p->udp ? "udp" : "tcp");
        if (!publish_where(s, i, &at))
            continue;
        address_format_host(&p->host, host);
        ok = ports_put_binding(ports, key, host, at.port);
    }
    if (!ok) {
        json_decref(ports);
        return NULL;
    }
    return ports;
}

static void address_text(const struct net_addr *a, char text[NET_ADDR_TEXT_MAX])
{
    text[0] = '\0';
    if (a != NULL && a->family != 0)
        net_addr_format(a, text);
}

static const char *network_mode(const struct spec *spec, json_t *kept)
{
    const char *mode = json_string_value(json_object_get(kept, "networkMode"));

    if (mode != NULL)
        return mode;
    if (spec != NULL && spec->net_name != NULL)
        return spec->net_name;
    return spec != NULL && spec->network == NET_NONE ? "none" : "default";
}

/* Includes the short id, by which members resolve the container. docker compose 1 disconnects
 * and reconnects a container without it. */
static json_t *encode_aliases(const struct sandbox *s, const struct spec *spec, size_t i)
{
    const char *words = NULL;
    const bool found = spec != NULL && spec_net(spec, i, &words) != NULL && spec->console;
    json_t *list = words != NULL || found ? json_array() : json_null();

    for (const char *p = words != NULL ? words : ""; *p != '\0';) {
        size_t n = strcspn(p, " ");

        (void)json_array_append_new(list, json_stringn(p, n));
        p += n + (p[n] == ' ');
    }
    if (found)
        (void)json_array_append_new(list, json_stringn(sandbox_id(s), SANDBOX_SHORT_ID));
    return list;
}

/* i: the network's number, as of docker_network_at. */
static json_t *encode_endpoint(const char *network, size_t i, const struct sandbox *s,
                               const struct net_place *net)
{
    const struct net_lan *lan = net != NULL ? networks_lan(s, network) : NULL;
    const struct net_addr *asked = spec_net_address(sandbox_spec(s), network);
    char id[DOCKER_ID_LEN + 1], asked_text[NET_ADDR_TEXT_MAX];
    char ip[NET_ADDR_TEXT_MAX], gateway[NET_ADDR_TEXT_MAX];
    struct net_addr own, router;

    if (net != NULL) {
        own = lan != NULL ? net_lan_addr(lan->address) : net->sandbox4;
        router = lan != NULL ? net_lan_addr(lan->gateway) : net->gateway4;
    }
    address_text(net != NULL ? &own : NULL, ip);
    address_text(net != NULL ? &router : NULL, gateway);
    address_text(asked, asked_text);
    docker_network_id(network, id);
    return json_pack("{s:o, s:n, s:o, s:s, s:s, s:s, s:s, s:i, s:s, s:s, s:i, s:n, s:n}",
                     "IPAMConfig",
                     asked != NULL ? json_pack("{s:s}", "IPv4Address", asked_text) : json_null(),
                     "Links", "Aliases", encode_aliases(s, sandbox_spec(s), i), "NetworkID", id,
                     "EndpointID", "", "Gateway", gateway, "IPAddress", ip, "IPPrefixLen",
                     lan != NULL ? lan->prefix : 0, "IPv6Gateway", "", "GlobalIPv6Address", "",
                     "GlobalIPv6PrefixLen", 0, "DriverOpts", "DNSNames");
}

static json_t *encode_networks(const struct sandbox *s, json_t *kept)
{
    const struct spec *spec = sandbox_spec(s);
    const char *mode = network_mode(spec, kept);
    json_t *object = json_object();
    struct sandbox_info f;

    sandbox_get_info(s, &f);
    if (strncmp(mode, "container:", 10) == 0)
        return object;
    /* the name, even if create used its id */
    for (size_t i = 0; (mode = docker_network_at(spec, i)) != NULL; i++)
        (void)docker_put(object, mode, encode_endpoint(mode, i, s, f.net));
    return object;
}

static json_t *encode_network_settings(const struct sandbox *s, json_t *kept)
{
    char ip[NET_ADDR_TEXT_MAX], gateway[NET_ADDR_TEXT_MAX];
    struct sandbox_info f;

    sandbox_get_info(s, &f);
    address_text(f.net != NULL ? &f.net->sandbox4 : NULL, ip);
    address_text(f.net != NULL ? &f.net->gateway4 : NULL, gateway);
    return json_pack("{s:s, s:s, s:s, s:o, s:s, s:s, s:i, s:s, s:o}", "Bridge", "", "SandboxID", "",
                     "SandboxKey", "", "Ports",
                     docker_is_running(s) ? encode_ports(s) : json_object(), "Gateway", gateway,
                     "IPAddress", ip, "IPPrefixLen", 0, "MacAddress", "", "Networks",
                     encode_networks(s, kept));
}

/* ---- mounts ---- */

/* Like Docker, lists the tmpfs of Mounts, and not those of Tmpfs. */
static void append_tmpfs_mounts(json_t *list, const json_t *kept)
{
    json_t *mount;
    size_t i;

    json_array_foreach(json_object_get(kept, "mounts"), i, mount) {
        const char *type = json_string_value(json_object_get(mount, "Type"));

        if (type != NULL && strcmp(type, "tmpfs") == 0)
            (void)json_array_append_new(
                list,
                json_pack("{s:s, s:s, s:O, s:s, s:b, s:s}", "Type", "tmpfs", "Source", "",
                          "Destination", json_object_get(mount, "Target"), "Mode", "", "RW",
                          !json_is_true(json_object_get(mount, "ReadOnly")), "Propagation", ""));
    }
}

static json_t *encode_mounts(const struct spec *spec, json_t *kept)
{
    json_t *list = json_array();

    for (size_t i = 0; list != NULL && spec != NULL && i < spec->volume_count; i++) {
        const struct volume *v = &spec->volumes[i];
        const char *other = docker_volume_replaced(kept, v->target);
        const char *name = other != NULL ? other : v->source;
        bool named = v->source == NULL || v->source[0] != '/' || other != NULL;
        json_t *m =
            json_pack("{s:s, s:s, s:s, s:s, s:b, s:s}", "Type", named ? "volume" : "bind", "Source",
                      v->source != NULL ? v->source : "", "Destination", v->target, "Mode", "",
                      "RW", (int)!v->read_only, "Propagation", named ? "" : "rprivate");

        if (m != NULL && named) {
            (void)docker_put(m, "Name", json_string(name != NULL ? name : ""));
            (void)docker_put(m, "Driver", json_string("local"));
        }
        (void)json_array_append_new(list, m);
    }
    append_tmpfs_mounts(list, kept);
    return list;
}

/* ---- its configuration ---- */

static json_t *kept_or_null(json_t *kept, const char *key)
{
    json_t *value = json_object_get(kept, key);

    return value != NULL ? json_incref(value) : json_null();
}

static json_t *kept_or_empty(json_t *kept, const char *key)
{
    json_t *value = json_object_get(kept, key);

    return value != NULL ? json_incref(value) : json_object();
}

static int64_t limit_or(int64_t value, int64_t otherwise)
{
    return value == LIMIT_UNSET ? otherwise : value;
}

/* What was asked for, as it was; what the spec has may have been changed since, and comes from
 * there. */
static void host_config_put_asked(json_t *root, json_t *kept)
{
    json_t *log = json_pack("{s:s, s:{}}", "Type", "json-file", "Config"), *value;
    json_t *asked = json_object_get(kept, "host");
    const char *key, *type;

    json_object_foreach(asked, key, value)
        if (json_object_get(root, key) == NULL)
            (void)json_object_set(root, key, value);
    value = json_object_get(asked, "LogConfig");
    type = json_string_value(json_object_get(value, "Type"));
    if (type != NULL && type[0] != '\0')
        (void)docker_put(log, "Type", json_string(type));
    if (json_is_object(json_object_get(value, "Config")))
        (void)json_object_set(log, "Config", json_object_get(value, "Config"));
    (void)docker_put(root, "LogConfig", log);
    if (json_object_get(root, "Runtime") == NULL)
        (void)docker_put(root, "Runtime", json_string("rind"));
}

/* Shows what was asked, if it was: Docker leaves the key out otherwise. */
static void put_kept(json_t *root, json_t *kept, const char *key, const char *kept_key)
{
    json_t *value = json_object_get(kept, kept_key);

    if (value != NULL)
        (void)docker_put(root, key, json_incref(value));
}

static json_t *encode_ulimits(const struct spec *spec)
{
    json_t *list = spec->rlimit_count > 0 ? json_array() : json_null();

    for (size_t i = 0; i < spec->rlimit_count; i++) {
        const struct rlimit_value *v = &spec->rlimits[i];
        const char *name = strtab_name(rlimit_names, v->resource) + strlen("RLIMIT_");
        char text[16] = "";

        for (size_t k = 0; name[k] != '\0' && k + 1 < sizeof(text); k++)
            text[k] = (char)(name[k] | 0x20);
        (void)json_array_append_new(
            list, json_pack("{s:s, s:I, s:I}", "Name", text, "Soft",
                            v->soft == RLIM_INFINITY ? (json_int_t)-1 : (json_int_t)v->soft, "Hard",
                            v->hard == RLIM_INFINITY ? (json_int_t)-1 : (json_int_t)v->hard));
    }
    return list;
}

/* Memory and swap together: without a word of its own as much as memory, so no swap. */
static json_int_t memory_swap(const struct spec *spec, const struct limits *l)
{
    if (spec->resources.swap_bytes == SPEC_SWAP_UNLIMITED)
        return -1;
    return limit_or(spec->resources.swap_bytes, limit_or(l->memory_bytes, 0));
}

/* asked (or NULL): as the request said it, where the spec has it in another form or not at all. */
static void put_resources(json_t *root, const struct spec *spec, const struct limits *l,
                          json_t *asked)
{
    const struct resources *r = &spec->resources;
    const json_int_t quota = json_integer_value(json_object_get(asked, "CpuQuota"));
    const json_int_t period = json_integer_value(json_object_get(asked, "CpuPeriod"));

    (void)json_object_update_new(
        root,
        json_pack("{s:I, s:I, s:I, s:s, s:s, s:i, s:i, s:i, s:n, s:b, s:I, s:o}",
                  "MemoryReservation", (json_int_t)limit_or(r->reservation_bytes, 0), "MemorySwap",
                  memory_swap(spec, l), "CpuShares", (json_int_t)limit_or(r->cpu_shares, 0),
                  "CpusetCpus", r->cpus != NULL ? r->cpus : "", "CpusetMems",
                  r->mems != NULL ? r->mems : "", "BlkioWeight", 0, "CpuQuota", 0, "CpuPeriod", 0,
                  "MemorySwappiness", "OomKillDisable", 0, "OomScoreAdj",
                  (json_int_t)limit_or(r->oom_score, 0), "Ulimits", encode_ulimits(spec)));
    if (asked != NULL)
        (void)json_object_update(root, asked);
    /* The native API may have changed the limit since. */
    if (quota > 0 && quota * 1000 / (period > 0 ? period : 100000) == l->cpu_millis)
        (void)docker_put(root, "NanoCpus", json_integer(0));
    else if (quota != 0)
        (void)docker_put(root, "CpuQuota", json_integer(0));
}

/* What was asked, and the policy that came of it. */
static json_t *encode_security(const struct spec *spec, const json_t *kept)
{
    json_t *list = json_array(), *asked;
    size_t i;

    json_array_foreach(json_object_get(kept, "securityOpt"), i, asked)
        if (strncmp(json_string_value(asked), "rind-policy=", strlen("rind-policy=")) != 0)
            (void)json_array_append(list, asked);
    (void)json_array_append_new(list, json_sprintf("rind-policy=%s", spec->policy));
    return list;
}

/* Limits are those in force, also where the policy has set them and the request has not. */
static json_t *encode_host_config(const struct sandbox *s, const struct spec *spec, json_t *kept)
{
    const struct limits l = sandbox_limits(s);
    json_t *root = json_pack(
        "{s:o, s:o, s:s, s:o, s:{s:s, s:I}, s:b, s:b, s:b, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o}",
        "Binds", kept_or_null(kept, "binds"), "PortBindings", kept_or_empty(kept, "ports"),
        "NetworkMode", network_mode(spec, kept), "Mounts", kept_or_null(kept, "mounts"),
        "RestartPolicy", "Name", spec_restart_name(spec->restart), "MaximumRetryCount",
        (json_int_t)limit_or(spec->restart_max, 0), "AutoRemove", (int)spec->auto_remove,
        "ReadonlyRootfs", (int)spec->read_only, "PublishAllPorts",
        json_is_true(json_object_get(kept, "publishAll")), "Memory",
        (json_int_t)limit_or(l.memory_bytes, 0), "NanoCpus",
        (json_int_t)limit_or(l.cpu_millis, 0) * 1000000, "PidsLimit",
        (json_int_t)limit_or(l.pids, 0), "ShmSize", (json_int_t)limit_or(l.shm_bytes, 64 << 20),
        "Dns", kept_or_null(kept, "dns"), "ExtraHosts", kept_or_null(kept, "extraHosts"),
        "GroupAdd", docker_strings(spec->groups), "SecurityOpt", encode_security(spec, kept));

    if (root == NULL)
        return NULL;
    host_config_put_asked(root, kept);
    (void)json_object_update_new(
        root,
        json_pack("{s:b, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:b, s:[ii]}", "Privileged", 0,
                  "PidMode", "", "IpcMode", "private", "UTSMode", "", "UsernsMode", "",
                  "CgroupnsMode", "private", "CapAdd", kept_or_null(kept, "capAdd"), "CapDrop",
                  kept_or_null(kept, "capDrop"), "Devices", kept_or_null(kept, "devices"), "Init",
                  (int)spec->init, "ConsoleSize", 0, 0));
    (void)docker_put(root, "Links", kept_or_null(kept, "links"));
    put_kept(root, kept, "Tmpfs", "tmpfs");
    put_kept(root, kept, "Sysctls", "sysctls");
    put_resources(root, spec, &l, json_object_get(kept, "asked"));
    return root;
}

/* Converts to nanoseconds; 0 is the default. */
static json_int_t check_ns(int64_t ms)
{
    return limit_or(ms, 0) * 1000000;
}

/* NULL: neither the request nor the image has one. */
static json_t *encode_health_config(const struct health_check *h)
{
    json_t *test;

    if (h->none)
        return json_pack("{s:[s]}", "Test", "NONE");
    if (h->test == NULL)
        return NULL;
    test = docker_strings(h->test);
    (void)json_array_insert_new(test, 0, json_string(h->shell ? "CMD-SHELL" : "CMD"));
    return json_pack("{s:o, s:I, s:I, s:I, s:I, s:I}", "Test", test, "Interval",
                     check_ns(h->interval_ms), "Timeout", check_ns(h->timeout_ms), "StartPeriod",
                     check_ns(h->start_period_ms), "StartInterval", check_ns(h->start_interval_ms),
                     "Retries", (json_int_t)limit_or(h->retries, 0));
}

static json_t *encode_config(const struct sandbox *s, json_t *kept)
{
    const struct spec *spec = sandbox_spec(s);
    const size_t entry = docker_entry_count(spec, kept);
    char signal[SIGNAL_TEXT_MAX];
    json_t *root, *check;

    signal_format(spec->stop_signal, signal);
    root = json_pack(
        "{s:s, s:s, s:s, s:b, s:b, s:b, s:b, s:b, s:b, s:o, s:o, s:s, s:o, s:o, s:s, s:o, s:s, "
        "s:I}",
        "Hostname", spec->hostname != NULL ? spec->hostname : sandbox_id(s), "Domainname",
        spec->domainname != NULL ? spec->domainname : "", "User",
        spec->user != NULL ? spec->user : "", "AttachStdin",
        json_is_true(json_object_get(kept, "attachStdin")), "AttachStdout",
        json_is_true(json_object_get(kept, "attachStdout")), "AttachStderr",
        json_is_true(json_object_get(kept, "attachStderr")), "Tty", (int)spec->tty, "OpenStdin",
        (int)spec->interactive, "StdinOnce", json_is_true(json_object_get(kept, "stdinOnce")),
        "Env", docker_strings(spec->env), "Cmd", encode_cmd(spec, entry), "Image",
        docker_image_name(s, kept), "ExposedPorts", kept_or_empty(kept, "exposed"), "Labels",
        docker_labels(spec), "WorkingDir", spec->cwd != NULL ? spec->cwd : "", "Entrypoint",
        encode_entrypoint(spec, entry), "StopSignal", signal, "StopTimeout",
        spec->stop_timeout_ms == SPEC_TIME_MAX_MS ? (json_int_t)-1
                                                  : (json_int_t)(spec->stop_timeout_ms / MS));
    check = encode_health_config(&spec->health);
    if (check != NULL)
        (void)docker_put(root, "Healthcheck", check);
    return root;
}

json_t *docker_container(const struct sandbox *s)
{
    const struct spec *spec = sandbox_spec(s);
    auto_ptr(json_decref) json_t *kept = docker_kept(spec);
    char id[DOCKER_ID_LEN + 1];
    struct sandbox_info f;
    json_t *root;

    docker_id(sandbox_id(s), id);
    sandbox_get_info(s, &f);
    root = json_pack("{s:s, s:o, s:o, s:s, s:o, s:i, s:s, s:s, s:o, s:o}", "Id", id, "Created",
                     docker_time(f.created_ms), "State", encode_state(s), "Image",
                     spec != NULL && spec->image_id != NULL ? spec->image_id : "", "Name",
                     encode_name(s), "RestartCount", (int)f.restarts, "Driver", "overlay2",
                     "Platform", "linux", "Mounts", encode_mounts(spec, kept), "NetworkSettings",
                     encode_network_settings(s, kept));
    if (root == NULL || spec == NULL)
        return root;
    if (!docker_put(root, "Path", json_string(command_path(spec))) ||
        !docker_put(root, "Args", encode_args(spec)) ||
        !docker_put(root, "Config", encode_config(s, kept)) ||
        !docker_put(root, "HostConfig", encode_host_config(s, spec, kept)) ||
        json_object_update_new(
            root, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:n, s:{s:s, s:n}}",
                            "ResolvConfPath", "", "HostnamePath", "", "HostsPath", "", "LogPath",
                            "", "MountLabel", "", "ProcessLabel", "", "AppArmorProfile", "",
                            "ExecIDs", "GraphDriver", "Name", "overlay2", "Data")) < 0) {
        json_decref(root);
        return NULL;
    }
    return root;
}

/* ---- a line of a list ---- */

static json_t *line_ports(const struct sandbox *s)
{
    auto_ptr(json_decref) json_t *ports = docker_is_running(s) ? encode_ports(s) : json_object();
    json_t *list = json_array(), *bindings, *b;
    const char *key;
    size_t i;

    json_object_foreach(ports, key, bindings) {
        const char *slash = strchr(key, '/'), *type = slash != NULL ? slash + 1 : "tcp";
        json_int_t port = strtol(key, NULL, 10);

        if (json_array_size(bindings) == 0)
            (void)json_array_append_new(list,
                                        json_pack("{s:I, s:s}", "PrivatePort", port, "Type", type));
        json_array_foreach(bindings, i, b)
            (void)json_array_append_new(
                list, json_pack("{s:O, s:I, s:I, s:s}", "IP", json_object_get(b, "HostIp"),
                                "PrivatePort", port, "PublicPort",
                                (json_int_t)strtol(
                                    json_string_value(json_object_get(b, "HostPort")), NULL, 10),
                                "Type", type));
    }
    return list;
}

static json_t *command_text(const struct spec *spec)
{
    char text[512];
    size_t len = 0;

    text[0] = '\0';
    for (char **a = spec != NULL ? spec->argv : NULL; a != NULL && *a != NULL; a++) {
        int n = snprintf(text + len, sizeof(text) - len, "%s%s", len > 0 ? " " : "", *a);

        if (n < 0 || (size_t)n >= sizeof(text) - len)
            break;
        len += (size_t)n;
    }
    while (len > 0 && ((unsigned char)text[len - 1] & 0xc0) == 0x80)
        len--; /* a truncated UTF-8 character, except its first byte */
    json_t *whole = json_string(text);
    return whole != NULL ? whole : json_string("");
}

json_t *docker_container_line(const struct sandbox *s)
{
    const struct spec *spec = sandbox_spec(s);
    auto_ptr(json_decref) json_t *kept = docker_kept(spec);
    char id[DOCKER_ID_LEN + 1], status[STATUS_MAX];
    struct sandbox_info f;

    docker_id(sandbox_id(s), id);
    status_text(s, status);
    sandbox_get_info(s, &f);
    return json_pack("{s:s, s:[o], s:s, s:s, s:o, s:I, s:o, s:o, s:s, s:s, s:{s:s}, s:{s:o}, s:o}",
                     "Id", id, "Names", encode_name(s), "Image", docker_image_name(s, kept),
                     "ImageID", spec != NULL && spec->image_id != NULL ? spec->image_id : "",
                     "Command", command_text(spec), "Created", (json_int_t)(f.created_ms / MS),
                     "Ports", line_ports(s), "Labels", docker_labels(spec), "State",
                     docker_status(s), "Status", status, "HostConfig", "NetworkMode",
                     network_mode(spec, kept), "NetworkSettings", "Networks",
                     encode_networks(s, kept), "Mounts", encode_mounts(spec, kept));
}
