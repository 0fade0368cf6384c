/*
 * /networks/{name}/connect and disconnect: moves a container to other networks, before its start
 * and while it runs. The rest of Docker's "bridge" is the internet here: a container that is in it
 * beside named networks reaches no other container by it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/docker/body.h"
#include "api/docker/common.h"
#include "api/docker/create-body.h"
#include "api/docker/networks.h"
#include "api/native/networks.h"
#include "base/auto.h"
#include "base/err.h"
#include "http/json-body.h"
#include "http/reply.h"
#include "json/parse.h"
#include "policy/client.h"
#include "ports/networks.h"
#include "sandbox/sandbox.h"
#include "spec/spec.h"

struct member_body {
    const char *container;
    json_t *endpoint; /* borrowed, or NULL */
    bool force;
};

static const struct body_field member_fields[] = {
    {.name = "Container", .take = b_string, .off = offsetof(struct member_body, container)},
    {.name = "EndpointConfig", .take = b_value, .off = offsetof(struct member_body, endpoint)},
    {.name = "Force", .take = b_bool, .off = offsetof(struct member_body, force)},
    {0},
};

/* ---- the label ---- */

/* Returns the façade's label with these two marks; NULL: the sandbox has no such label. */
static int member_label(const struct spec *spec, bool bridge, bool detached, char **ret,
                        struct err *err)
{
    auto_ptr(json_decref) json_t *kept = docker_kept(spec);
    auto_free char *text = NULL;

    *ret = NULL;
    if (!docker_is_made_here(spec))
        return 0;
    (void)json_object_set_new(kept, "bridge", json_boolean(bridge));
    (void)json_object_set_new(kept, "detached", json_boolean(detached));
    text = json_dumps(kept, JSON_COMPACT);
    if (text == NULL || asprintf(ret, DOCKER_LABEL "=%s", text) < 0) {
        *ret = NULL;
        return err_errno(err, -ENOMEM, "network");
    }
    return 0;
}

/* ---- modes ---- */

static bool network_has_internet(struct supervisor *sup, const char *name)
{
    const struct network_entry *e = network_find(sup, name);

    return e == NULL || !network_is_internal(e);
}

enum net_mode docker_networks_mode(struct supervisor *sup, const struct spec *spec, bool bridge)
{
    const char *name;

    for (size_t i = 0; !bridge && (name = spec_net(spec, i, NULL)) != NULL; i++)
        bridge = network_has_internet(sup, name);
    return bridge ? NET_INTERNET : NET_NONE;
}

/* The mode after a change: without `drop`, with `add` (either may be NULL). */
static enum net_mode mode_after(struct supervisor *sup, const struct spec *spec, const char *add,
                                const char *drop, bool bridge)
{
    bool internet = bridge || (add != NULL && network_has_internet(sup, add));
    const char *name;

    for (size_t i = 0; !internet && (name = spec_net(spec, i, NULL)) != NULL; i++)
        internet = (drop == NULL || strcmp(name, drop) != 0) && network_has_internet(sup, name);
    return internet ? NET_INTERNET : NET_NONE;
}

/* ---- links ---- */

int docker_links(struct http_request *req, json_t *list, bool must, json_t *ret, struct err *err)
{
    json_t *link;
    size_t i;

    json_array_foreach(list, i, link) {
        const char *text = json_string_value(link) + (json_string_value(link)[0] == '/');
        const char *alias = strrchr(text, ':');
        const size_t len = alias != NULL ? (size_t)(alias - text) : strlen(text);
        char name[DOCKER_NAME_MAX + 1];
        struct sandbox *other = NULL;
        int r;

        (void)snprintf(name, sizeof(name), "%.*s", len < sizeof(name) ? (int)len : 0, text);
        r = docker_lookup(req, name, &other, err);
        if (r == 0)
            r = api_check_sandbox(req, other, RIGHT_USE, err);
        if (r == -ENOENT && must) /* 404 would mean a missing image */
            return err_set(err, -EINVAL,
                           "HostConfig.Links: could not get container for %s: No such container: "
                           "%s",
                           name, name);
        if (r < 0 && r != -ENOENT)
            return r;
        if (r < 0)
            other = NULL;
        alias = alias != NULL ? alias + 1 : name;
        if (strrchr(alias, '/') != NULL)
            alias = strrchr(alias, '/') + 1;
        (void)json_array_append_new(
            ret, json_sprintf("%s:%s", other != NULL ? sandbox_id(other) : name, alias));
    }
    return 0;
}

/* ---- the requests ---- */

static void on_member_changed(void *data, int r, const struct err *err)
{
    struct http_request *req = data;

    if (r < 0)
        reply_error(req, err);
    else
        reply_empty(req, 200);
}

static int member_check(struct http_request *req, const struct sandbox *s, const char *network,
                        struct err *err)
{
    const struct spec *spec = sandbox_spec(s);
    int r = api_check_intact(s, err);

    if (r < 0)
        return r;
    if (spec->net_container != NULL)
        return err_set(err, -EINVAL,
                       "container sharing network namespace with another container or host cannot "
                       "be connected to any other network");
    if (strcmp(network, "none") == 0)
        return err_set(err, -EINVAL,
                       "container cannot be connected to multiple networks with one of the "
                       "networks in private (none) mode");
    if (strcmp(network, "bridge") != 0 && !api_networks_allowed(req))
        return err_set(err, -EPERM, "the client policy allows no shared networks");
    return 0;
}

static int member_read(struct http_request *req, json_t **ret_root, struct member_body *b,
                       char network[DOCKER_NAME_MAX + 1], struct sandbox **ret, struct err *err)
{
    int r = json_body_tree(req, ret_root, err);

    if (r == 0)
        r = body_decode_whole(*ret_root, member_fields, create_body_elsewhere, b, err);
    if (r == 0)
        r = docker_network_find(req, http_param(req, "name"), network, err);
    if (r == 0 && (b->container == NULL || b->container[0] == '\0'))
        r = err_set(err, -EINVAL, "Container: none was named");
    if (r == 0)
        r = docker_lookup(req, b->container, ret, err);
    if (r == 0)
        r = api_check_sandbox(req, *ret, RIGHT_USE, err);
    if (r == 0)
        r = member_check(req, *ret, network, err);
    return r;
}

/* Makes the change. params has the networks; the rest is filled in here. */
static int member_change(struct http_request *req, struct sandbox *s,
                         struct network_change_params *params, bool bridge, struct err *err)
{
    const struct spec *spec = sandbox_spec(s);
    const struct caller who = native_caller(req);
    auto_free char *label = NULL;
    unsigned count = 0;
    int r;

    for (size_t i = 0; spec_net(spec, i, NULL) != NULL; i++)
        count++;
    count = count + (params->add != NULL) - (params->drop != NULL);
    params->mode = mode_after(api_supervisor(req), spec, params->add, params->drop, bridge);
    r = member_label(spec, bridge && count > 0, count == 0 && !bridge, &label, err);
    if (r < 0)
        return r;
    params->label = label;
    /* As for a creation: the internet may come with the network. */
    if (!api_is_owner(req) && !native_of(req)->config.clients->networks[params->mode])
        return err_set(err, -EPERM, "network: the client policy does not allow its mode");
    return network_change_sandbox(s, params, &who, on_member_changed, req, err);
}

static int network_connect(struct http_request *req, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    const char *aliases[SPEC_ALIASES_MAX + 2] = {NULL};
    char network[DOCKER_NAME_MAX + 1];
    struct network_change_params params = {0};
    struct member_body b = {0};
    struct sandbox *s = NULL;
    auto_ptr(json_decref) json_t *list = json_array();
    const char *links[SPEC_LINKS_MAX + 2] = {NULL};
    struct create_endpoint parts;
    json_t *element;
    bool bridge;
    size_t i;
    int r = member_read(req, &root, &b, network, &s, err);

    if (r == 0)
        r = create_endpoint_check(network, b.endpoint, &parts, err);
    if (r == 0)
        r = docker_links(req, parts.links, false, list, err);
    if (r < 0)
        return r;
    if (docker_is_in_network(sandbox_spec(s), network))
        return err_set(err, -EPERM, "endpoint with name %s already exists in network %s",
                       sandbox_name(s), network);
    if (strcmp(docker_network(sandbox_spec(s)), "none") == 0)
        return err_set(err, -EINVAL,
                       "container cannot be connected to multiple networks with one of the "
                       "networks in private (none) mode");
    bridge = strcmp(network, "bridge") == 0 || docker_is_in_network(sandbox_spec(s), "bridge");
    json_array_foreach(parts.aliases, i, element)
        if (i <= SPEC_ALIASES_MAX) /* one too many is refused */
            aliases[i] = json_string_value(element);
    json_array_foreach(list, i, element)
        if (i <= SPEC_LINKS_MAX) /* likewise */
            links[i] = json_string_value(element);
    params.links = links;
    params.add = strcmp(network, "bridge") != 0 ? network : NULL;
    params.aliases = aliases;
    params.address = parts.address;
    if (params.add == NULL && params.address != NULL)
        return err_set(err, -EINVAL,
                       "invalid config for network bridge: user specified IP address is supported "
                       "on user defined networks only");
    return member_change(req, s, &params, bridge, err);
}

static int network_disconnect(struct http_request *req, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    char network[DOCKER_NAME_MAX + 1];
    struct network_change_params params = {0};
    struct member_body b = {0};
    struct sandbox *s = NULL;
    bool bridge;
    int r = member_read(req, &root, &b, network, &s, err);

    if (r < 0)
        return r;
    if (!docker_is_in_network(sandbox_spec(s), network))
        return err_set(err, -EPERM, "container %s is not connected to network %s", b.container,
                       network);
    bridge = strcmp(network, "bridge") != 0 && docker_is_in_network(sandbox_spec(s), "bridge");
    params.drop = strcmp(network, "bridge") != 0 ? network : NULL;
    return member_change(req, s, &params, bridge, err);
}

void docker_network_connect(struct http_request *req)
{
    struct err err = ERR_NONE;

    if (network_connect(req, &err) < 0)
        reply_error(req, &err);
}

void docker_network_disconnect(struct http_request *req)
{
    struct err err = ERR_NONE;

    if (network_disconnect(req, &err) < 0)
        reply_error(req, &err);
}

/* ---- a start ---- */

static void on_mode_followed(void *data, int r, const struct err *err)
{
    (void)data;
    (void)r;
    (void)err;
}

int docker_networks_check(struct http_request *req, struct sandbox *s, struct err *err)
{
    const struct spec *spec = sandbox_spec(s);
    const struct caller who = native_caller(req);
    struct network_change_params params = {0};
    char found[DOCKER_NAME_MAX + 1];
    const char *name;
    int r;

    if (spec == NULL || spec->net_name == NULL || !docker_is_made_here(spec))
        return 0;
    for (size_t i = 0; (name = spec_net(spec, i, NULL)) != NULL; i++) {
        r = docker_network_find(req, name, found, err);
        if (r < 0)
            return r;
    }
    params.mode =
        docker_networks_mode(api_supervisor(req), spec, docker_is_in_network(spec, "bridge"));
    if (params.mode == spec->network)
        return 0;
    return network_change_sandbox(s, &params, &who, on_mode_followed, NULL, err);
}
