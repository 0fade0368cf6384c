#include "daemon/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "image/reference.h"
#include "json/decode.h"
#include "json/parse.h"
#include "net/pool.h"
#include "policy/plain-path.h"
#include "sandbox/host-rootfs.h"

enum { PREFIXES_MAX = 64, PATH_BYTES_MAX = 4095 };

/* The limits as decoded, in the order of the table. */
#define LIMIT_INDEX(field, type, key, def, min, max) LIMIT_##field,
enum { SUPERVISOR_LIMITS(LIMIT_INDEX) };

struct limits_text {
    int64_t values[LIMITS_COUNT];
};

struct network_text {
    int64_t flows, flows_per_second, all_flows, all_flows_per_second;
    char **pools4, **pools6, **dns;
};

struct gateway_text {
    char *listen, *certificate, *key;
    int64_t min_token;
};

struct docker_text {
    char *sidecar_image, *reaper_image;
};

struct settings_text {
    struct publish_rules publish;
    bool has_publish;
    struct gateway_text gateway;
    struct docker_text docker;
    char *policies_dir, *client_policy, *host_rootfs;
    char **bind_prefixes;
    struct network_text network;
    struct limits_text limits;
};

#define LIMIT_ROW(field, type, key, def, least, most)                                              \
    {.name = (key),                                                                                \
     .decode = j_int64,                                                                            \
     .off = offsetof(struct limits_text, values) + LIMIT_##field * sizeof(int64_t),                \
     .min = (least),                                                                               \
     .max = (most)},
static const struct jfield limit_fields[] = {SUPERVISOR_LIMITS(LIMIT_ROW){0}};

static int d_publish(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
                     struct err *err)
{
    ((struct settings_text *)dst)->has_publish = true;
    return j_publish_rules(value, field, dst, path, err);
}

/* clang-format off */
static const struct jfield network_fields[] = {
    {.name = "pool4", .decode = j_strings, .off = offsetof(struct network_text, pools4), .min = 1, .max = POOLS_MAX},
    {.name = "pool6", .decode = j_strings, .off = offsetof(struct network_text, pools6), .min = 1, .max = POOLS_MAX},
    {.name = "dns",   .decode = j_strings, .off = offsetof(struct network_text, dns),    .min = 0, .max = NET_DNS_MAX},
    {.name = "maxFlows",          .decode = j_int64, .off = offsetof(struct network_text, flows),            .min = 1, .max = 1000000},
    {.name = "maxFlowsPerSecond", .decode = j_int64, .off = offsetof(struct network_text, flows_per_second), .min = 1, .max = 1000000},
    {.name = "maxFlowsOfAll",          .decode = j_int64, .off = offsetof(struct network_text, all_flows),            .min = 1, .max = 100000000},
    {.name = "maxFlowsPerSecondOfAll", .decode = j_int64, .off = offsetof(struct network_text, all_flows_per_second), .min = 1, .max = 100000000},
    {0},
};

#define GATEWAY(member) offsetof(struct gateway_text, member)
static const struct jfield gateway_fields[] = {
    {.name = "listen",      .decode = j_string, .off = GATEWAY(listen),      .min = 1, .max = 64},
    {.name = "certificate", .decode = j_string, .off = GATEWAY(certificate), .min = 1, .max = PATH_BYTES_MAX},
    {.name = "key",         .decode = j_string, .off = GATEWAY(key),         .min = 1, .max = PATH_BYTES_MAX},
    {.name = "minToken",    .decode = j_int64,  .off = GATEWAY(min_token),   .min = 1, .max = PREVIEW_TOKEN_MAX},
    {0},
};

static const struct jfield docker_fields[] = {
    {.name = "sidecarImage", .decode = j_string, .off = offsetof(struct docker_text, sidecar_image), .min = 1, .max = REFERENCE_MAX},
    {.name = "reaperImage",  .decode = j_string, .off = offsetof(struct docker_text, reaper_image),  .min = 1, .max = REFERENCE_MAX},
    {0},
};

static const struct jfield fields[] = {
    {.name = "policiesDir",  .decode = j_string,  .off = offsetof(struct settings_text, policies_dir),  .min = 1, .max = PATH_BYTES_MAX},
    {.name = "clientPolicy", .decode = j_string,  .off = offsetof(struct settings_text, client_policy), .min = 1, .max = PATH_BYTES_MAX},
    {.name = "hostRootfs",   .decode = j_string,  .off = offsetof(struct settings_text, host_rootfs),   .min = 1, .max = PATH_BYTES_MAX},
    {.name = "bindPrefixes", .decode = j_strings, .off = offsetof(struct settings_text, bind_prefixes), .min = 0, .max = PREFIXES_MAX},
    {.name = "publish",      .decode = d_publish, .off = offsetof(struct settings_text, publish)},
    {.name = "docker",       .decode = j_object,  .off = offsetof(struct settings_text, docker),        .fields = docker_fields},
    {.name = "gateway",      .decode = j_object,  .off = offsetof(struct settings_text, gateway),       .fields = gateway_fields},
    {.name = "limits",       .decode = j_object,  .off = offsetof(struct settings_text, limits),        .fields = limit_fields},
    {.name = "network",      .decode = j_object,  .off = offsetof(struct settings_text, network),       .fields = network_fields},
    {0},
};
/* clang-format on */

static void settings_apply_http(struct settings *s);

int settings_init(struct settings *s)
{
    *s = (struct settings){.limits = supervisor_limits_default()};
    http_config_init(&s->http);
    proxy_config_init(&s->proxy);
    s->proxy.previews = true;
    settings_apply_http(s);
    s->policies_dir = strdup("/etc/rind/policies");
    s->client_policy = strdup("/etc/rind/client.json");
    s->host_rootfs = strdup(HOST_ROOTFS_FILE);
    s->bind_prefixes = calloc(2, sizeof(*s->bind_prefixes));
    if (s->bind_prefixes != NULL)
        s->bind_prefixes[0] = strdup("/");
    if (s->policies_dir == NULL || s->client_policy == NULL || s->host_rootfs == NULL ||
        s->bind_prefixes == NULL || s->bind_prefixes[0] == NULL)
        return -ENOMEM;
    return publish_rules_any(&s->publish);
}

void settings_done(struct settings *s)
{
    free(s->policies_dir);
    free(s->client_policy);
    free(s->host_rootfs);
    publish_rules_done(&s->publish);
    free(s->gateway);
    free(s->certificate);
    free(s->key);
    free(s->sidecar_image);
    free(s->reaper_image);
    json_strings_free(s->bind_prefixes);
    json_strings_free(s->pools4);
    json_strings_free(s->pools6);
    *s = (struct settings){.policies_dir = NULL};
}

static void text_done(struct settings_text *t)
{
    free(t->policies_dir);
    free(t->client_policy);
    free(t->host_rootfs);
    publish_rules_done(&t->publish);
    free(t->gateway.listen);
    free(t->gateway.certificate);
    free(t->gateway.key);
    free(t->docker.sidecar_image);
    free(t->docker.reaper_image);
    json_strings_free(t->bind_prefixes);
    json_strings_free(t->network.pools4);
    json_strings_free(t->network.pools6);
    json_strings_free(t->network.dns);
}

static int check_absolute(const char *key, const char *path, struct err *err)
{
    return path == NULL || path[0] == '/'
               ? 0
               : err_set(err, -EINVAL, "%s: '%s' is not an absolute path", key, path);
}

/* Client paths are normalised, so a prefix must be, too: otherwise no path would match it. */
static int check_prefix(const char *path, struct err *err)
{
    int r = check_absolute("bindPrefixes", path, err);

    if (r < 0 || strcmp(path, "/") == 0 || path_is_plain(path))
        return r;
    return err_set(err, -EINVAL, "bindPrefixes: '%s' must be without //, ., .. and / at the end",
                   path);
}

static int check_pools(char *const *pools, int family, struct err *err)
{
    const struct jpath network = {.key = "network"};
    const struct jpath list = {.up = &network, .key = family == 4 ? "pool4" : "pool6"};

    for (size_t i = 0; pools != NULL && pools[i] != NULL; i++) {
        struct jpath here = {.up = &list, .index = i};
        struct err why = ERR_NONE;
        struct net_rule pool;
        int r = pool_parse(pools[i], family, &pool, &why);

        if (r < 0)
            return json_fail(err, r, &here, "%s", why.msg);
    }
    return 0;
}

static int check_network(const struct network_text *n, struct err *err)
{
    const struct jpath network = {.key = "network"}, list = {.up = &network, .key = "dns"};
    int r;

    r = check_pools(n->pools4, 4, err);
    if (r == 0)
        r = check_pools(n->pools6, 6, err);
    for (size_t i = 0; r == 0 && n->dns != NULL && n->dns[i] != NULL; i++) {
        struct jpath here = {.up = &list, .index = i};
        struct net_addr a;

        if (net_addr_parse(n->dns[i], &a) < 0 || !net_addr_ok(&a))
            r = json_fail(err, -EINVAL, &here, "\"%.64s\" is not an address", n->dns[i]);
    }
    return r;
}

/* Replaces the reference as written by the full name without tag and digest. */
static int image_full_name(const char *key, char **image, struct err *err)
{
    struct reference name;
    char *whole;
    int r;

    if (*image == NULL)
        return 0;
    r = reference_parse(*image, &name, err);
    if (r < 0)
        return err_wrap(err, r, "%s", key);
    whole = strdup(name.name);
    if (whole == NULL)
        return err_errno(err, -ENOMEM, "%s", key);
    free(*image);
    *image = whole;
    return 0;
}

static int settings_check(struct settings_text *t, struct err *err)
{
    int r;

    r = check_absolute("policiesDir", t->policies_dir, err);
    if (r == 0)
        r = check_absolute("clientPolicy", t->client_policy, err);
    if (r == 0)
        r = check_absolute("hostRootfs", t->host_rootfs, err);
    if (r == 0)
        r = check_absolute("gateway.certificate", t->gateway.certificate, err);
    if (r == 0)
        r = check_absolute("gateway.key", t->gateway.key, err);
    if (r == 0 && (t->gateway.certificate == NULL) != (t->gateway.key == NULL))
        r = err_set(err, -EINVAL, "gateway: certificate and key belong together");
    for (char **p = t->bind_prefixes; r == 0 && p != NULL && *p != NULL; p++)
        r = check_prefix(*p, err);
    if (r == 0)
        r = image_full_name("docker.sidecarImage", &t->docker.sidecar_image, err);
    if (r == 0)
        r = image_full_name("docker.reaperImage", &t->docker.reaper_image, err);
    return r < 0 ? r : check_network(&t->network, err);
}

static struct limits_text settings_limits(const struct settings *s)
{
    struct limits_text t;

    for (size_t i = 0; i < LIMITS_COUNT; i++)
        t.values[i] = limit_get(&s->limits, &limits_table[i]);
    return t;
}

/* A buffered reply is queued as a whole: two output streams, which JSON expands at most 2.5
 * times, plus 64 KiB for the rest. */
static uint64_t largest_answer(const struct supervisor_limits *l)
{
    return (64 << 10) + 5 * (l->output_bytes > l->log_bytes ? l->output_bytes : l->log_bytes);
}

/* Sets the limits of the HTTP server and the gateway's proxy. */
static void settings_apply_http(struct settings *s)
{
    const struct supervisor_limits *l = &s->limits;
    struct http_config *h = &s->http;

    h->max_connections = l->connections;
    h->max_connections_uid =
        l->connections_user < l->connections ? l->connections_user : l->connections;
    h->max_head = l->head_bytes;
    h->max_headers = l->headers;
    h->max_url = l->url_bytes;
    h->max_body = l->body_bytes;
    h->max_large_body = l->exec_body_bytes;
    h->max_buffered = l->buffered_bytes;
    h->queue_max = largest_answer(l) > l->queue_bytes ? largest_answer(l) : l->queue_bytes;
    h->idle_ms = l->idle_ms;
    h->head_ms = l->head_ms;
    h->body_ms = l->body_ms;
    h->write_ms = l->write_ms;
    s->proxy.max = l->gateway_connections;
    s->proxy.reply_ms = l->gateway_reply_ms;
    s->proxy.stream_ms = l->gateway_idle_ms;
}

static void string_replace(char **to, char **from)
{
    if (*from == NULL)
        return;
    free(*to);
    *to = take(*from);
}

static void list_replace(char ***list, char ***by)
{
    if (*by == NULL)
        return;
    json_strings_free(*list);
    *list = take(*by);
}

static void settings_apply_network(struct settings *s, struct network_text *t)
{
    list_replace(&s->pools4, &t->pools4);
    list_replace(&s->pools6, &t->pools6);
    if (t->flows > 0)
        s->flows = (uint32_t)t->flows;
    if (t->flows_per_second > 0)
        s->flows_per_second = (uint32_t)t->flows_per_second;
    if (t->all_flows > 0)
        s->all_flows = (uint32_t)t->all_flows;
    if (t->all_flows_per_second > 0)
        s->all_flows_per_second = (uint32_t)t->all_flows_per_second;
    if (t->dns == NULL)
        return;
    s->dns_count = 0;
    for (char **p = t->dns; *p != NULL && s->dns_count < NET_DNS_MAX; p++)
        if (net_addr_parse(*p, &s->dns[s->dns_count]) == 0)
            s->dns_count++;
}

static void settings_apply(struct settings *s, struct settings_text *t)
{
    for (size_t i = 0; i < LIMITS_COUNT; i++)
        limit_set(&s->limits, &limits_table[i], t->limits.values[i]);
    settings_apply_http(s);
    string_replace(&s->policies_dir, &t->policies_dir);
    string_replace(&s->client_policy, &t->client_policy);
    string_replace(&s->host_rootfs, &t->host_rootfs);
    string_replace(&s->gateway, &t->gateway.listen);
    if (t->gateway.min_token > 0)
        s->min_token = (unsigned)t->gateway.min_token;
    string_replace(&s->certificate, &t->gateway.certificate);
    string_replace(&s->key, &t->gateway.key);
    string_replace(&s->sidecar_image, &t->docker.sidecar_image);
    string_replace(&s->reaper_image, &t->docker.reaper_image);
    if (t->has_publish) {
        publish_rules_done(&s->publish);
        s->publish = t->publish;
        t->publish = (struct publish_rules){.list = NULL};
    }
    list_replace(&s->bind_prefixes, &t->bind_prefixes);
    settings_apply_network(s, &t->network);
}

int settings_parse(struct settings *s, const char *text, size_t len, const char *where,
                   struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    struct settings_text t = {.limits = settings_limits(s)};
    int r;

    r = json_parse(text, len, SETTINGS_TEXT_MAX, &root, err);
    if (r == 0)
        r = json_decode(root, fields, &t, err);
    if (r == 0)
        r = settings_check(&t, err);
    if (r == 0)
        settings_apply(s, &t);
    text_done(&t);
    return r < 0 ? err_wrap(err, r, "%s", where) : 0;
}

int settings_load(struct settings *s, const char *path, struct err *err)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    auto_free char *text = NULL;
    size_t len = 0;
    int r;

    if (fd < 0)
        return err_errno(err, -errno, "configuration %s", path);
    r = file_read_fd(fd, SETTINGS_TEXT_MAX, &text, &len, err);
    return r < 0 ? err_wrap(err, r, "configuration %s", path)
                 : settings_parse(s, text, len, path, err);
}
