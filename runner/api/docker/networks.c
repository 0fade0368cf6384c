/* /networks: Docker's predefined "bridge" and "none" (no container is in "host"); networks that
 * were created; and networks that only sandboxes name, which exist as long as those.
 *
 * The gateway of "bridge" is 127.0.0.1: workerd listens there for its sidecar's connections, and
 * the built-in sidecar dials the host's loopback. */
#include "api/docker/networks.h"

#include <errno.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/audit.h"
#include "api/docker/body.h"
#include "api/docker/common.h"
#include "api/docker/create-body.h"
#include "api/docker/docker-routes.h"
#include "api/docker/filters.h"
#include "api/native/networks.h"
#include "base/auto.h"
#include "base/err.h"
#include "http/json-body.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "json/decode.h"
#include "json/parse.h"
#include "policy/net-setup.h"
#include "ports/networks.h"
#include "sandbox/sandbox.h"
#include "spec/spec.h"

#define BRIDGE_SUBNET  "127.0.0.0/8"
#define BRIDGE_GATEWAY "127.0.0.1"

static json_t *encode_members(struct http_request *req, const char *name)
{
    json_t *object = json_object();

    for (struct sandbox *s = sandbox_first(api_supervisor(req)); s != NULL && object != NULL;
         s = sandbox_next(s)) {
        char id[DOCKER_ID_LEN + 1], address[NET_ADDR_TEXT_MAX], ip[NET_RULE_TEXT_MAX] = "";
        const struct net_lan *lan;
        struct sandbox_info f;

        if (!docker_is_in_network(sandbox_spec(s), name) || !docker_is_running(s) ||
            !api_may_see(req, s))
            continue;
        docker_id(sandbox_id(s), id);
        sandbox_get_info(s, &f);
        lan = networks_lan(s, name);
        if (lan != NULL) {
            net_lan_format(lan->address, lan->prefix, ip);
        } else if (f.net != NULL) {
            net_addr_format(&f.net->sandbox4, address);
            (void)snprintf(ip, sizeof(ip), "%s/32", address);
        }
        (void)docker_put(object, id,
                         json_pack("{s:s, s:s, s:s, s:s, s:s}", "Name", sandbox_name(s),
                                   "EndpointID", "", "MacAddress", "", "IPv4Address", ip,
                                   "IPv6Address", ""));
    }
    return object;
}

void docker_network_id(const char *name, char ret[DOCKER_ID_LEN + 1])
{
    unsigned char digest[SHA256_DIGEST_LENGTH];

    (void)SHA256((const unsigned char *)name, strlen(name), digest);
    for (size_t i = 0; i < sizeof(digest); i++)
        (void)snprintf(ret + 2 * i, 3, "%02x", digest[i]);
}

static json_t *encode_subnet(const struct network_entry *n)
{
    const struct net_lan_ask *a = network_subnet(n);
    const json_t *kept = network_kept(n);
    const struct net_addr gateway = net_lan_addr(a->gateway);
    char subnet[NET_RULE_TEXT_MAX], range[NET_RULE_TEXT_MAX], text[NET_ADDR_TEXT_MAX];
    json_t *config;

    if (a->prefix == 0)
        return json_array();
    net_lan_format(a->subnet, a->prefix, subnet);
    net_lan_format(a->range, a->range_prefix, range);
    net_addr_format(&gateway, text);
    config = json_pack("{s:s, s:s}", "Subnet", subnet, "Gateway", text);
    if (config != NULL && a->range_prefix != a->prefix)
        (void)json_object_set_new(config, "IPRange", json_string(range));
    if (config != NULL && kept != NULL)
        (void)json_object_set_new(config, "AuxiliaryAddresses", json_deep_copy(kept));
    return json_pack("[o]", config);
}

/* entry NULL: predefined, or not created explicitly. */
static json_t *encode_network(struct http_request *req, const char *name, bool whole)
{
    const struct network_entry *entry = network_find(api_supervisor(req), name);
    bool bridge = strcmp(name, "bridge") == 0;
    char id[DOCKER_ID_LEN + 1];
    json_t *config, *root;

    docker_network_id(name, id);
    config = bridge ? json_pack("[{s:s, s:s}]", "Subnet", BRIDGE_SUBNET, "Gateway", BRIDGE_GATEWAY)
             : entry != NULL ? encode_subnet(entry)
                             : json_array();
    root = json_pack("{s:s, s:s, s:o, s:s, s:s, s:b, s:{s:s, s:n, s:o}, s:b, s:b, s:b, s:b, "
                     "s:{s:s}, s:o, s:{}, s:o}",
                     "Name", name, "Id", id, "Created",
                     docker_time(entry != NULL ? network_created_ms(entry) : 0), "Scope", "local",
                     "Driver", strcmp(name, "none") == 0 ? "null" : "bridge", "EnableIPv6", 0,
                     "IPAM", "Driver", "default", "Options", "Config", config, "Internal",
                     entry != NULL && network_is_internal(entry), "Attachable", 0, "Ingress", 0,
                     "ConfigOnly", 0, "ConfigFrom", "Network", "", "Containers",
                     whole ? encode_members(req, name) : json_object(), "Options", "Labels",
                     docker_label_object(entry != NULL ? network_labels(entry) : NULL));
    return root;
}

bool docker_network_is_builtin(const char *name)
{
    return strcmp(name, "bridge") == 0 || strcmp(name, "none") == 0;
}

/* ---- enumeration ---- */

/* Called for each network that the peer may see, until it returns true. */
typedef bool network_fn(struct http_request *req, const char *name, void *data);

/* A network that no client has made exists while a sandbox of the native API names it. A container
 * that names one which is not there cannot be started. */
static bool sandbox_makes_network(struct http_request *req, const struct sandbox *s,
                                  const char *name)
{
    const struct spec *spec = sandbox_spec(s);

    return spec != NULL && !docker_is_made_here(spec) && spec_has_net(spec, name) &&
           api_may_see(req, s);
}

static bool sandbox_is_first_with(struct http_request *req, const struct sandbox *s,
                                  const char *name)
{
    for (struct sandbox *p = sandbox_first(api_supervisor(req)); p != s; p = sandbox_next(p))
        if (sandbox_makes_network(req, p, name))
            return false;
    return true;
}

static bool networks_each(struct http_request *req, network_fn *fn, void *data)
{
    const struct caller who = native_caller(req);
    struct supervisor *sup = api_supervisor(req);

    if (fn(req, "bridge", data) || fn(req, "none", data))
        return true;
    for (struct network_entry *n = network_first(sup), *next; n != NULL; n = next) {
        next = network_next(n);
        if (network_may_use(n, &who) && fn(req, network_name(n), data))
            return true;
    }
    for (struct sandbox *s = sandbox_first(sup); s != NULL; s = sandbox_next(s)) {
        const struct spec *spec = sandbox_spec(s);
        const char *name;

        for (size_t i = 0; spec != NULL && (name = spec_net(spec, i, NULL)) != NULL; i++)
            if (network_find(sup, name) == NULL && sandbox_makes_network(req, s, name) &&
                sandbox_is_first_with(req, s, name) && fn(req, name, data))
                return true;
    }
    return false;
}

struct search {
    const char *text;
    size_t len;
    unsigned found; /* matches by a prefix of the id */
    char name[DOCKER_NAME_MAX + 1];
};

static bool search_by_name(struct http_request *req, const char *name, void *data)
{
    struct search *f = data;

    (void)req;
    if (strcmp(name, f->text) != 0)
        return false;
    (void)snprintf(f->name, sizeof(f->name), "%s", name);
    return true;
}

static bool search_by_id(struct http_request *req, const char *name, void *data)
{
    struct search *f = data;
    char id[DOCKER_ID_LEN + 1];

    (void)req;
    docker_network_id(name, id);
    if (strncmp(id, f->text, f->len) == 0) {
        f->found++;
        (void)snprintf(f->name, sizeof(f->name), "%s", name);
    }
    return false;
}

int docker_network_find(struct http_request *req, const char *text, char ret[DOCKER_NAME_MAX + 1],
                        struct err *err)
{
    struct search f = {.text = strcmp(text, "default") == 0 ? "bridge" : text};

    f.len = strlen(f.text);
    if (!networks_each(req, search_by_name, &f) && f.len > 0 && f.len <= DOCKER_ID_LEN)
        (void)networks_each(req, search_by_id, &f);
    if (f.found > 1)
        return err_set(err, -ENOTUNIQ, "network %.128s is ambiguous (%u matches found on ID)", text,
                       f.found);
    if (f.name[0] == '\0')
        return err_set(err, -ENOENT, "network %.128s not found", text);
    (void)memcpy(ret, f.name, sizeof(f.name));
    return 0;
}

struct docker_networks_list_query {
    const char *filters, *scope, *verbose;
};

static const struct query_field fields[] = {
    {.name = "filters",
     .type = QUERY_STRING,
     .off = offsetof(struct docker_networks_list_query, filters)},
    {.name = "scope",
     .type = QUERY_STRING,
     .off = offsetof(struct docker_networks_list_query, scope)},
    {.name = "verbose",
     .type = QUERY_STRING,
     .off = offsetof(struct docker_networks_list_query, verbose)},
    {0},
};

struct docker_network_listing {
    const struct filters *filters;
    json_t *list;
};

static bool network_matches(struct http_request *req, const struct filters *f, const char *name)
{
    const struct network_entry *entry = network_find(api_supervisor(req), name);
    const char *dangling = filters_get(f, "dangling", 0);
    char id[DOCKER_ID_LEN + 1];
    bool unused =
        !docker_network_is_builtin(name) && network_users(api_supervisor(req), name, NULL) == 0;

    docker_network_id(name, id);
    return filters_match_part(f, "name", name) &&
           filters_match(f, "driver", strcmp(name, "none") == 0 ? "null" : "bridge") &&
           filters_match(f, "scope", "local") &&
           filters_match_labels(f, entry != NULL ? network_labels(entry) : NULL) &&
           filters_match_prefix(f, "id", id) &&
           (dangling == NULL || docker_bool(dangling) == unused) &&
           filters_match(f, "type", docker_network_is_builtin(name) ? "builtin" : "custom");
}

static bool listing_add(struct http_request *req, const char *name, void *data)
{
    struct docker_network_listing *l = data;

    if (network_matches(req, l->filters, name))
        (void)json_array_append_new(l->list, encode_network(req, name, false));
    return false;
}

static void get_networks(struct http_request *req)
{
    static const char *const known[] = {"dangling", "driver", "id",   "label",
                                        "name",     "scope",  "type", NULL};
    auto_ptr(filters_free) struct filters *f = NULL;
    struct docker_networks_list_query q = {0};
    struct docker_network_listing l;
    struct err err = ERR_NONE;
    int r;

    r = http_query_known(req, fields, &q, &err);
    if (r == 0)
        r = filters_parse(q.filters, known, &f, &err);
    if (r < 0) {
        reply_error(req, &err);
        return;
    }
    l = (struct docker_network_listing){.filters = f, .list = json_array()};
    (void)networks_each(req, listing_add, &l);
    reply_json(req, 200, l.list);
}

static void get_network(struct http_request *req)
{
    char name[DOCKER_NAME_MAX + 1];
    struct docker_networks_list_query q = {0};
    struct err err = ERR_NONE;

    if (http_query_known(req, fields, &q, &err) < 0 ||
        docker_network_find(req, http_param(req, "name"), name, &err) < 0)
        reply_error(req, &err);
    else
        reply_json(req, 200, encode_network(req, name, true));
}

/* ---- creation ---- */

struct network_body {
    const char *name, *driver, *scope;
    json_t *labels, *kept;                /* borrowed */
    const char *subnet, *gateway, *range; /* borrowed, or NULL */
    bool internal;
};

static int t_driver_only(json_t *value, const struct body_field *field, void *dst, const char *path,
                         struct err *err)
{
    (void)field;
    (void)dst;
    if (json_is_string(value) && strcmp(json_string_value(value), "default") == 0)
        return 0;
    return body_fail(err, -EOPNOTSUPP, path, "only \"default\": addresses are chosen by rind");
}

static int t_ipv4(json_t *value, const struct body_field *field, void *dst, const char *path,
                  struct err *err)
{
    (void)field;
    (void)dst;
    if (json_is_true(value))
        return 0;
    return body_fail(err, -EOPNOTSUPP, path, "networks have IPv4");
}

#define ABSENT_HERE(key, text)                                                                     \
    {                                                                                              \
        .name = (key), .code = -EOPNOTSUPP, .why = (text)                                          \
    }

static int t_kept(json_t *value, const struct body_field *field, void *dst, const char *path,
                  struct err *err)
{
    (void)field;
    if (!json_is_object(value))
        return body_fail(err, -EINVAL, path, "must be an object of addresses by names");
    ((struct network_body *)dst)->kept = value;
    return 0;
}

static const struct body_field pool_fields[] = {
    {.name = "Subnet", .take = b_string, .off = offsetof(struct network_body, subnet)},
    {.name = "Gateway", .take = b_string, .off = offsetof(struct network_body, gateway)},
    {.name = "IPRange", .take = b_string, .off = offsetof(struct network_body, range)},
    {.name = "AuxiliaryAddresses", .take = t_kept},
    {0},
};

static bool pool_is_6(const json_t *pool)
{
    const char *subnet = json_string_value(json_object_get(pool, "Subnet"));

    return subnet != NULL && strchr(subnet, ':') != NULL;
}

/* An array of one pool. */
static int t_pools(json_t *value, const struct body_field *field, void *dst, const char *path,
                   struct err *err)
{
    json_t *pool;
    size_t i;

    (void)field;
    if (!json_is_array(value))
        return body_fail(err, -EINVAL, path, "must be an array");
    json_array_foreach(value, i, pool)
        if (pool_is_6(pool))
            return body_fail(err, -EOPNOTSUPP, path,
                             "IPv6 subnets are not supported: containers have IPv6 where the host "
                             "has, and in no network of its own");
    if (json_array_size(value) > 1)
        return body_fail(err, -EOPNOTSUPP, path, "a network has one subnet");
    return body_decode(json_array_get(value, 0), pool_fields, dst, path, err);
}

static const struct body_field ipam_fields[] = {
    {.name = "Driver", .take = t_driver_only},
    {.name = "Config", .take = t_pools},
    ABSENT_HERE("Options", "there are no options of drivers"),
    {0},
};

static const struct body_field create_fields[] = {
    {.name = "Name", .take = b_string, .off = offsetof(struct network_body, name)},
    {.name = "Driver", .take = b_string, .off = offsetof(struct network_body, driver)},
    {.name = "Scope", .take = b_string, .off = offsetof(struct network_body, scope)},
    {.name = "Labels",
     .take = b_value,
     .always = true,
     .off = offsetof(struct network_body, labels)},
    {.name = "Internal", .take = b_bool, .off = offsetof(struct network_body, internal)},
    {.name = "CheckDuplicate", .take = b_ignore}, /* names are always unique */
    {.name = "Attachable", .take = b_ignore},     /* for swarms only */
    {.name = "EnableIPv4", .take = t_ipv4, .always = true},
    {.name = "IPAM", .take = b_object, .fields = ipam_fields},
    ABSENT_HERE("EnableIPv6",
                "containers have IPv6 where the host has, and in no network of its own"),
    ABSENT_HERE("Ingress", "there is no swarm"),
    ABSENT_HERE("ConfigOnly", "there is no swarm"),
    ABSENT_HERE("ConfigFrom", "there is no swarm"),
    ABSENT_HERE("Options", "there are no options of drivers"),
    {0},
};

/* Accepts Docker's words for the only driver and scope. */
static int body_check_words(const struct network_body *b, struct err *err)
{
    if (b->name == NULL)
        return err_set(err, -EINVAL, "Name: the network has none");
    if (docker_network_is_builtin(b->name) || strcmp(b->name, "default") == 0 ||
        strcmp(b->name, "host") == 0)
        return err_set(err, -EPERM, "operation is not permitted on predefined %s network", b->name);
    if (b->driver != NULL && b->driver[0] != '\0' && strcmp(b->driver, "bridge") != 0 &&
        strcmp(b->driver, "default") != 0)
        return err_set(err, -EOPNOTSUPP, "Driver: there is only \"bridge\"");
    if (b->scope != NULL && b->scope[0] != '\0' && strcmp(b->scope, "local") != 0)
        return err_set(err, -EOPNOTSUPP, "Scope: there is only \"local\"");
    return 0;
}

static const char *text_or_null(const char *text)
{
    return text != NULL && text[0] != '\0' ? text : NULL;
}

static int network_create_from_body(struct http_request *req, struct err *err)
{
    const struct caller who = native_caller(req);
    auto_ptr(json_decref) json_t *root = NULL;
    struct network_body b = {0};
    struct network_params params = {0};
    struct network_entry *made;
    char id[DOCKER_ID_LEN + 1];
    char **labels = NULL;
    int r;

    r = json_body_tree(req, &root, err);
    if (r == 0)
        r = body_decode_whole(root, create_fields, create_body_elsewhere, &b, err);
    if (r == 0)
        r = body_check_words(&b, err);
    if (r == 0)
        r = docker_label_strings(b.labels, &labels, err);
    if (r == 0) {
        params = (struct network_params){.name = b.name,
                                         .labels = labels,
                                         .internal = b.internal,
                                         .subnet = text_or_null(b.subnet),
                                         .gateway = text_or_null(b.gateway),
                                         .range = text_or_null(b.range),
                                         .kept = b.kept};
        r = network_create(api_supervisor(req), &params, &who, &made, err);
    }
    json_strings_free(labels);
    if (r < 0)
        return r;
    docker_network_id(network_name(made), id);
    audit_add(req, "made", network_name(made));
    reply_json(req, 201, json_pack("{s:s, s:s}", "Id", id, "Warning", ""));
    return 0;
}

static void post_network_create(struct http_request *req)
{
    struct err err = ERR_NONE;

    if (api_may_have_networks(req) && network_create_from_body(req, &err) < 0)
        reply_error(req, &err);
}

/* ---- removing ---- */

static int network_find_removable(struct http_request *req, struct network_entry **ret,
                                  struct err *err)
{
    char name[DOCKER_NAME_MAX + 1];
    int r = docker_network_find(req, http_param(req, "name"), name, err);

    if (r < 0)
        return r;
    if (docker_network_is_builtin(name))
        return err_set(err, -EPERM, "%s is a pre-defined network and cannot be removed", name);
    *ret = network_find(api_supervisor(req), name);
    if (*ret == NULL)
        return err_set(
            err, -EPERM,
            "network %s was made by no client: it goes with the last container that names "
            "it",
            name);
    return 0;
}

static void delete_network(struct http_request *req)
{
    struct network_entry *n = NULL;
    struct err err = ERR_NONE;
    int r;

    if (!api_may_have_networks(req))
        return;
    r = network_find_removable(req, &n, &err);
    if (r == 0)
        r = network_remove(n, &err);
    if (r == -EBUSY) { /* 403 and these words are Docker's */
        const struct err own = err;

        (void)err_set(&err, -EPERM,
                      "error while removing network: network %.64s has active endpoints: %.300s",
                      http_param(req, "name"), own.msg);
    }
    if (r < 0)
        reply_error(req, &err);
    else
        reply_empty(req, 204);
}

static void post_networks_prune(struct http_request *req)
{
    static const char *const known[] = {"label", "label!", "until", NULL};
    const struct caller who = native_caller(req);
    auto_ptr(filters_free) struct filters *f = NULL;
    struct docker_networks_list_query q = {0};
    struct err err = ERR_NONE;
    int64_t until_ms = 0;
    json_t *gone;
    int r;

    if (!api_may_have_networks(req))
        return;
    r = http_query_known(req, fields, &q, &err);
    if (r == 0)
        r = filters_parse(q.filters, known, &f, &err);
    if (r == 0)
        r = docker_filters_until(f, &until_ms, &err);
    if (r < 0) {
        reply_error(req, &err);
        return;
    }
    gone = json_array();
    for (struct network_entry *n = network_first(api_supervisor(req)), *next; n != NULL; n = next) {
        json_t *name = json_string(network_name(n));

        next = network_next(n);
        if (network_is_own(n, &who) && network_created_ms(n) <= until_ms &&
            filters_match_labels(f, network_labels(n)) &&
            network_users(api_supervisor(req), network_name(n), NULL) == 0 &&
            network_remove(n, NULL) == 0)
            (void)json_array_append(gone, name);
        json_decref(name);
    }
    reply_json(req, 200, json_pack("{s:o}", "NetworksDeleted", gone));
}

/* clang-format off */
const struct route docker_network_routes[] = {
    {"GET",    "/networks",                   get_networks,    0, 0},
    {"POST",   "/networks/create",            post_network_create, ROUTE_BODY, 0},
    {"POST",   "/networks/prune",             post_networks_prune,  ROUTE_BODY, 0},
    {"GET",    "/networks/{name}",            get_network,     0, 0},
    {"DELETE", "/networks/{name}",            delete_network,  0, 0},
    {"POST",   "/networks/{name}/connect",    docker_network_connect, ROUTE_BODY, 0},
    {"POST",   "/networks/{name}/disconnect", docker_network_disconnect, ROUTE_BODY, 0},
    {0},
};
/* clang-format on */
