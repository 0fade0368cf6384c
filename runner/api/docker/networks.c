/*
 * /networks: two of the three that Docker has everywhere, as no container is in "host", and those
 * that containers name. A network of rind's is there while somebody is in it; so there is nothing
 * to make or remove.
 *
 * "bridge" says 127.0.0.1 for its gateway: workerd listens there for what its sidecar sends, and
 * the sidecar that rind plays dials the host's loopback.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/docker/common.h"
#include "api/docker/docker-routes.h"
#include "api/docker/filters.h"
#include "api/reply.h"
#include "api/route-query.h"
#include "base/auto.h"
#include "base/err.h"
#include "core/sandbox.h"
#include "policy/net-box.h"
#include "spec/spec.h"

#define BRIDGE_SUBNET  "127.0.0.0/8"
#define BRIDGE_GATEWAY "127.0.0.1"

static const struct builtin {
    const char *name, *driver;
} builtins[] = {{"bridge", "bridge"}, {"none", "null"}};

static json_t *members(struct http_request *req, const char *name)
{
    json_t *object = json_object();

    for (struct sandbox *s = sandbox_first(native_supervisor(req)); s != NULL && object != NULL;
         s = sandbox_next(s)) {
        char id[DOCKER_ID_LEN + 1], ip[NET_ADDR_TEXT_MAX + 4] = "";
        struct sandbox_facts f;

        if (strcmp(docker_network(sandbox_spec(s)), name) != 0 || !docker_is_running(s) ||
            !native_may_use(req, s))
            continue;
        docker_id(sandbox_id(s), id);
        sandbox_get_facts(s, &f);
        if (f.net != NULL) {
            net_addr_format(&f.net->box4, ip);
            (void)strcat(ip, "/32");
        }
        (void)docker_put(object, id,
                         json_pack("{s:s, s:s, s:s, s:s, s:s}", "Name", sandbox_name(s),
                                   "EndpointID", "", "MacAddress", "", "IPv4Address", ip,
                                   "IPv6Address", ""));
    }
    return object;
}

/* Of digits alone, whatever the name holds. */
static void network_id(const char *name, char ret[DOCKER_ID_LEN + 1])
{
    docker_id(name, ret);
    for (char *c = ret; *c != '\0'; c++)
        if (strchr("0123456789abcdef", *c) == NULL)
            *c = "0123456789abcdef"[(unsigned char)*c % 16];
}

static json_t *encode(struct http_request *req, const char *name, const char *driver, bool whole)
{
    bool bridge = strcmp(name, "bridge") == 0;
    char id[DOCKER_ID_LEN + 1];
    json_t *config;

    network_id(name, id);
    config = bridge ? json_pack("[{s:s, s:s}]", "Subnet", BRIDGE_SUBNET, "Gateway", BRIDGE_GATEWAY)
                    : json_array();
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:{s:s, s:n, s:o}, s:b, s:b, s:b, s:b, "
                     "s:{s:s}, s:o, s:{}, s:{}}",
                     "Name", name, "Id", id, "Created", "0001-01-01T00:00:00Z", "Scope", "local",
                     "Driver", driver, "EnableIPv6", 0, "IPAM", "Driver", "default", "Options",
                     "Config", config, "Internal", 0, "Attachable", 0, "Ingress", 0, "ConfigOnly",
                     0, "ConfigFrom", "Network", "", "Containers",
                     whole ? members(req, name) : json_object(), "Options", "Labels");
}

static bool is_builtin(const char *name)
{
    for (size_t i = 0; i < sizeof(builtins) / sizeof(builtins[0]); i++)
        if (strcmp(builtins[i].name, name) == 0)
            return true;
    return false;
}

static bool in_list(const json_t *list, const char *name)
{
    json_t *element;
    size_t i;

    json_array_foreach(list, i, element)
        if (strcmp(json_string_value(json_object_get(element, "Name")), name) == 0)
            return true;
    return false;
}

struct list_query {
    const char *filters, *scope, *verbose;
};

static const struct query_field fields[] = {
    {.name = "filters", .type = QUERY_STRING, .off = offsetof(struct list_query, filters)},
    {.name = "scope", .type = QUERY_STRING, .off = offsetof(struct list_query, scope)},
    {.name = "verbose", .type = QUERY_STRING, .off = offsetof(struct list_query, verbose)},
    {0},
};

static bool matches(const struct filters *f, const char *name, const char *driver)
{
    char id[DOCKER_ID_LEN + 1];

    network_id(name, id);
    /* None is dangling: each is built in, or named by a container. */
    return filters_match_part(f, "name", name) && filters_match(f, "driver", driver) &&
           filters_match(f, "scope", "local") && filters_get(f, "label", 0) == NULL &&
           filters_match_prefix(f, "id", id) && !docker_bool(filters_get(f, "dangling", 0)) &&
           filters_match(f, "type", is_builtin(name) ? "builtin" : "custom");
}

static void get_list(struct http_request *req)
{
    static const char *const known[] = {"dangling", "driver", "id",   "label",
                                        "name",     "scope",  "type", NULL};
    auto_ptr(filters_free) struct filters *f = NULL;
    struct list_query q = {0};
    struct err err = ERR_NONE;
    json_t *list;
    int r;

    if (!docker_admit(req))
        return;
    r = http_query(req, fields, &q, &err);
    if (r == 0)
        r = filters_parse(q.filters, known, &f, &err);
    if (r < 0) {
        reply_error(req, &err);
        return;
    }
    list = json_array();
    for (size_t i = 0; i < sizeof(builtins) / sizeof(builtins[0]); i++)
        if (matches(f, builtins[i].name, builtins[i].driver))
            (void)json_array_append_new(list,
                                        encode(req, builtins[i].name, builtins[i].driver, false));
    for (struct sandbox *s = sandbox_first(native_supervisor(req)); s != NULL;
         s = sandbox_next(s)) {
        const char *name = docker_network(sandbox_spec(s));

        if (name[0] != '\0' && !is_builtin(name) && !in_list(list, name) &&
            matches(f, name, "bridge") && native_may_use(req, s))
            (void)json_array_append_new(list, encode(req, name, "bridge", false));
    }
    reply_json(req, 200, list);
}

static void get_one(struct http_request *req)
{
    const char *name = http_param(req, "name");
    struct list_query q = {0};
    struct err err = ERR_NONE;
    bool known;

    if (!docker_admit(req))
        return;
    if (http_query(req, fields, &q, &err) < 0) {
        reply_error(req, &err);
        return;
    }
    if (strcmp(name, "default") == 0)
        name = "bridge";
    known = is_builtin(name);
    for (struct sandbox *s = sandbox_first(native_supervisor(req)); s != NULL && !known;
         s = sandbox_next(s))
        known = strcmp(docker_network(sandbox_spec(s)), name) == 0 && native_may_use(req, s);
    if (known)
        reply_json(req, 200,
                   encode(req, name, strcmp(name, "none") == 0 ? "null" : "bridge", true));
    else
        reply_errorf(req, -ENOENT, "network %.128s not found", name);
}

static void not_made(struct http_request *req)
{
    if (docker_admit(req))
        reply_errorf(req, -EOPNOTSUPP,
                     "a network is made by the first container that names it (--network NAME), and "
                     "goes with the last one");
}

/* clang-format off */
const struct route docker_network_routes[] = {
    {"GET",    "/networks",                   get_list, 0, 0},
    {"POST",   "/networks/create",            not_made, ROUTE_BODY, 0},
    {"POST",   "/networks/prune",             not_made, ROUTE_BODY, 0},
    {"GET",    "/networks/{name}",            get_one,  0, 0},
    {"DELETE", "/networks/{name}",            not_made, 0, 0},
    {"POST",   "/networks/{name}/connect",    not_made, ROUTE_BODY, 0},
    {"POST",   "/networks/{name}/disconnect", not_made, ROUTE_BODY, 0},
    {0},
};
/* clang-format on */
