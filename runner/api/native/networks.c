/* /v1/networks: networks that were created. Members of the group see and use their own. */
#include "api/native/networks.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/audit.h"
#include "api/common.h"
#include "base/auto.h"
#include "base/err.h"
#include "http/json-body.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "http/route.h"
#include "json/decode.h"
#include "json/parse.h"
#include "policy/client.h"
#include "sandbox/sandbox.h"
#include "spec/spec.h"

bool api_networks_allowed(struct http_request *req)
{
    return api_is_owner(req) || native_of(req)->config.clients->share_network;
}

bool api_may_have_networks(struct http_request *req)
{
    if (api_networks_allowed(req))
        return true;
    reply_errorf(req, -EPERM, "the client policy allows no shared networks");
    return false;
}

/* Returns the network named by {name}; NULL: answered. */
static struct network_entry *network_requested(struct http_request *req)
{
    const struct caller who = native_caller(req);
    const char *name = http_param(req, "name");
    struct network_entry *n;

    if (!api_may_have_networks(req))
        return NULL;
    n = network_find_for(api_supervisor(req), &who, name);
    if (n == NULL)
        reply_errorf(req, -ENOENT, "network '%.128s': no client has made one of this name%s", name,
                     api_is_owner(req) && network_users(api_supervisor(req), name, NULL) > 0
                         ? "; it is there while sandboxes name it"
                         : "");
    return n;
}

/* Adds the keys of its subnet; null: it has none. */
static void put_subnet(json_t *object, const struct net_lan_ask *a)
{
    const struct net_addr gateway = net_lan_addr(a->gateway);
    char subnet[NET_RULE_TEXT_MAX], range[NET_RULE_TEXT_MAX], text[NET_ADDR_TEXT_MAX];
    const bool has = a->prefix != 0;

    net_lan_format(a->subnet, a->prefix, subnet);
    net_lan_format(a->range, a->range_prefix, range);
    net_addr_format(&gateway, text);
    (void)json_object_set_new(object, "subnet", has ? json_string(subnet) : json_null());
    (void)json_object_set_new(object, "gateway", has ? json_string(text) : json_null());
    (void)json_object_set_new(object, "ipRange", has ? json_string(range) : json_null());
}

static json_t *encode_network(struct http_request *req, const struct network_entry *n)
{
    json_t *labels = json_object(), *object;

    for (char *const *l = network_labels(n); *l != NULL && labels != NULL; l++) {
        size_t key = strcspn(*l, "=");

        (void)json_object_setn_new(labels, *l, key, json_string(*l + key + 1));
    }
    object = json_pack("{s:s, s:o, s:o, s:b, s:i}", "name", network_name(n), "createdAt",
                       api_time(network_created_ms(n)), "labels", labels, "internal",
                       (int)network_is_internal(n), "users",
                       (int)network_users(api_supervisor(req), network_name(n), NULL));
    if (object != NULL)
        put_subnet(object, network_subnet(n));
    return object;
}

/* ---- list, show ---- */

static void list_networks(struct http_request *req)
{
    const struct caller who = native_caller(req);
    struct err err = ERR_NONE;
    json_t *list;

    if (!api_may_have_networks(req))
        return;
    if (http_query(req, NULL, NULL, &err) < 0) {
        reply_error(req, &err);
        return;
    }
    list = json_array();
    for (struct network_entry *n = network_first(api_supervisor(req)); n != NULL;
         n = network_next(n))
        if (network_may_use(n, &who))
            (void)json_array_append_new(list, encode_network(req, n));
    reply_json(req, 200, json_pack("{s:o}", "networks", list));
}

static void inspect_network(struct http_request *req)
{
    struct network_entry *n = network_requested(req);

    if (n != NULL)
        reply_json(req, 200, encode_network(req, n));
}

/* ---- make ---- */

enum { LABELS_MAX = SPEC_LABELS_MAX };

struct network_create_body {
    char *name;                     /* owned */
    struct jpair *labels;           /* owned */
    char *subnet, *gateway, *range; /* owned, or NULL */
    bool internal;
};

static const struct jfield create_fields[] = {
    {.name = "name",
     .decode = j_string,
     .off = offsetof(struct network_create_body, name),
     .min = 1,
     .max = SPEC_NETWORK_MAX,
     .required = true},
    {.name = "labels",
     .decode = j_string_map,
     .off = offsetof(struct network_create_body, labels),
     .max = LABELS_MAX,
     .nullable = true},
    {.name = "internal",
     .decode = j_bool,
     .off = offsetof(struct network_create_body, internal),
     .nullable = true},
    {.name = "subnet",
     .decode = j_string,
     .off = offsetof(struct network_create_body, subnet),
     .min = 1,
     .max = NET_RULE_TEXT_MAX,
     .nullable = true},
    {.name = "gateway",
     .decode = j_string,
     .off = offsetof(struct network_create_body, gateway),
     .min = 1,
     .max = NET_RULE_TEXT_MAX,
     .nullable = true},
    {.name = "ipRange",
     .decode = j_string,
     .off = offsetof(struct network_create_body, range),
     .min = 1,
     .max = NET_RULE_TEXT_MAX,
     .nullable = true},
    {0},
};

static void body_done(struct network_create_body *b)
{
    json_pairs_free(b->labels);
    free(b->subnet);
    free(b->gateway);
    free(b->range);
    free(b->name);
}

static int network_create_from_body(struct http_request *req, const struct network_create_body *b,
                                    struct err *err)
{
    const struct caller who = native_caller(req);
    struct network_params params = {.name = b->name,
                                    .internal = b->internal,
                                    .subnet = b->subnet,
                                    .gateway = b->gateway,
                                    .range = b->range};
    struct network_entry *n;
    char **labels = NULL;
    int r = api_labels(b->labels, &labels, err);

    if (r == 0) {
        params.labels = labels;
        r = network_create(api_supervisor(req), &params, &who, &n, err);
    }
    json_strings_free(labels);
    if (r == 0) {
        audit_add(req, "made", network_name(n));
        reply_json(req, 201, encode_network(req, n));
    }
    return r;
}

static void create_network(struct http_request *req)
{
    struct network_create_body b __attribute__((cleanup(body_done))) = {.name = NULL};
    struct err err = ERR_NONE;

    if (!api_may_have_networks(req))
        return;
    if (json_body(req, create_fields, &b, &err) < 0 || http_query(req, NULL, NULL, &err) < 0 ||
        network_create_from_body(req, &b, &err) < 0)
        reply_error(req, &err);
}

/* ---- remove ---- */

static void delete_network(struct http_request *req)
{
    struct network_entry *n = network_requested(req);
    struct err err = ERR_NONE;

    if (n == NULL)
        return;
    if (http_query(req, NULL, NULL, &err) < 0 || network_remove(n, &err) < 0)
        reply_error(req, &err);
    else
        reply_empty(req, 204);
}

/* ---- members ---- */

struct network_member_body {
    char *sandbox;  /* owned */
    char *address;  /* owned, or NULL */
    char **aliases; /* owned, or NULL */
};

static const struct jfield enter_fields[] = {
    {.name = "sandbox",
     .decode = j_string,
     .off = offsetof(struct network_member_body, sandbox),
     .min = 1,
     .max = SPEC_NAME_MAX,
     .required = true},
    {.name = "aliases",
     .decode = j_strings,
     .off = offsetof(struct network_member_body, aliases),
     .max = SPEC_ALIASES_MAX,
     .nullable = true},
    {.name = "address",
     .decode = j_string,
     .off = offsetof(struct network_member_body, address),
     .min = 1,
     .max = NET_ADDR_TEXT_MAX,
     .nullable = true},
    {0},
};
static const struct jfield leave_fields[] = {
    {.name = "sandbox",
     .decode = j_string,
     .off = offsetof(struct network_member_body, sandbox),
     .min = 1,
     .max = SPEC_NAME_MAX,
     .required = true},
    {0},
};

static void member_body_done(struct network_member_body *b)
{
    free(b->sandbox);
    free(b->address);
    json_strings_free(b->aliases);
}

static void on_member_moved(void *data, int r, const struct err *err)
{
    struct http_request *req = data;

    if (r < 0)
        reply_error(req, err);
    else
        reply_empty(req, 204);
}

/* The network need not have been made. Whether the caller may use it, networks_check_spec says. */
static int network_move(struct http_request *req, bool enter, struct err *err)
{
    struct network_member_body b __attribute__((cleanup(member_body_done))) = {.sandbox = NULL};
    const struct caller who = native_caller(req);
    const char *name = http_param(req, "name");
    struct network_change_params params = {.add = enter ? name : NULL, .drop = enter ? NULL : name};
    struct sandbox *s = NULL;
    int r = json_body(req, enter ? enter_fields : leave_fields, &b, err);

    if (r == 0)
        r = http_query(req, NULL, NULL, err);
    if (r == 0)
        r = api_find_sandbox(req, b.sandbox, RIGHT_USE, &s, err);
    if (r == 0)
        r = api_check_intact(s, err);
    if (r < 0)
        return r;
    params.aliases = (const char *const *)b.aliases;
    params.address = b.address;
    return network_change_sandbox(s, &params, &who, on_member_moved, req, err);
}

static void connect_network(struct http_request *req)
{
    struct err err = ERR_NONE;

    if (api_may_have_networks(req) && network_move(req, true, &err) < 0)
        reply_error(req, &err);
}

static void disconnect_network(struct http_request *req)
{
    struct err err = ERR_NONE;

    if (api_may_have_networks(req) && network_move(req, false, &err) < 0)
        reply_error(req, &err);
}

/* clang-format off */
const struct route native_network_routes[] = {
    {"GET",    "/v1/networks",        list_networks,   0, 0},
    {"POST",   "/v1/networks",        create_network,  ROUTE_BODY, 0},
    {"GET",    "/v1/networks/{name}", inspect_network, 0, 0},
    {"DELETE", "/v1/networks/{name}", delete_network,  0, 0},
    {"POST",   "/v1/networks/{name}/connect",    connect_network,    ROUTE_BODY, 0},
    {"POST",   "/v1/networks/{name}/disconnect", disconnect_network, ROUTE_BODY, 0},
    {0},
};
/* clang-format on */
