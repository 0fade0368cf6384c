/* POST /containers/create. Translates the body into the object of POST /v1/sandboxes, and
 * creates the sandbox from it like the native API: same parser, client policy and core. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/audit.h"
#include "api/docker/body.h"
#include "api/docker/common.h"
#include "api/docker/containers.h"
#include "api/docker/create-body.h"
#include "api/docker/create-volumes-from.h"
#include "api/docker/images.h"
#include "api/docker/networks.h"
#include "api/docker/reaper.h"
#include "api/docker/sidecar.h"
#include "api/docker/volume-options.h"
#include "api/native/images.h"
#include "api/native/networks.h"
#include "base/auto.h"
#include "base/err.h"
#include "http/json-body.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "images/images.h"
#include "policy/client.h"
#include "policy/policy.h"
#include "ports/networks.h"
#include "sandbox/sandbox.h"
#include "sandbox/services.h"
#include "spec/env.h"
#include "spec/json.h"
#include "spec/spec.h"

#define POLICY_DEFAULT  "container" /* what a Docker user expects */
#define POLICY_STRICTER "untrusted"
#define POLICY_NET      "net-admin" /* "container" with CAP_NET_ADMIN */
#define POLICY_FUSE     "fuse"      /* "container" with CAP_SYS_ADMIN for mounts, and /dev/fuse */

struct create_query {
    const char *name, *platform;
};

static const struct query_field query[] = {
    {.name = "name", .type = QUERY_STRING, .off = offsetof(struct create_query, name), .max = 256},
    {.name = "platform",
     .type = QUERY_STRING,
     .off = offsetof(struct create_query, platform),
     .max = 64},
    {0},
};

/* A creation in progress; req->data. */
struct creating {
    struct http_request *req;
    json_t *root; /* owned: the body */
    struct create_body body;
    struct spec *spec;    /* owned */
    const char *platform; /* of the request; NULL: any */
    bool translated;      /* errors refer to the translated spec */
    bool reaper;          /* of the built-in reaper's image (reaper.h) */
    bool loopback;        /* ports without host address are published on loopback */
    char name[DOCKER_NAME_MAX + 1];
    char id[API_ID_MAX + 1]; /* set once the sandbox is made */
};

static void creating_free(struct creating *c)
{
    create_body_done(&c->body);
    json_decref(c->root);
    spec_free(c->spec);
    free(c);
}

static void creating_fail(struct creating *c, const struct err *err)
{
    struct err own = *err;

    if (c->translated)
        create_body_explain(&own);
    reply_error(c->req, &own);
    creating_free(c);
}

/* Says in Docker's words that the source of a mount (not of Binds) is missing. */
static void creating_explain_bind(const struct creating *c, struct err *err)
{
    json_t *mount;
    size_t i;

    if (err->code != -ENOENT)
        return;
    json_array_foreach(json_object_get(c->body.kept, "mounts"), i, mount) {
        const char *type = json_string_value(json_object_get(mount, "Type"));
        const char *source = json_string_value(json_object_get(mount, "Source"));
        const char *found = source != NULL ? strstr(err->msg, source) : NULL;

        if (type == NULL || strcmp(type, "bind") != 0 || found == NULL || found == err->msg ||
            found[-1] != '\'' || found[strlen(source)] != '\'')
            continue;
        (void)err_set(err, -EINVAL,
                      "invalid mount config for type \"bind\": bind source path does not exist: "
                      "%.255s",
                      source);
        return;
    }
}

/* 404 means a missing image, and docker run would pull it. Other things that are missing are
 * 400. */
static void creating_fail_making(struct creating *c, const struct err *err)
{
    struct err own = *err;

    creating_explain_bind(c, &own);
    if (own.code == -ENOENT)
        own.code = -EINVAL;
    creating_fail(c, &own);
}

enum { KEPT_HOST_MAX = 16 << 10 /* bytes of a HostConfig that inspect shows whole */ };

/* Keeps what HostConfig asks for, as it is, for inspect (container-json.c). What others keep, or
 * the spec has, is left out. */
static bool creating_keep_host(struct creating *c)
{
    static const char *const elsewhere[] = {"Binds",   "Mounts", "PortBindings", "ExtraHosts",
                                            "CapDrop", "CapAdd", "SecurityOpt"};
    json_t *host = json_object_get(c->root, "HostConfig"), *kept = json_object(), *value;
    auto_free char *text = NULL;
    const char *key;

    json_object_foreach(host, key, value)
        if (kept != NULL && !body_is_empty(value))
            (void)json_object_set(kept, key, value);
    value = json_object_get(c->root, "Runtime"); /* docker-py's place for it */
    if (json_is_string(value))
        (void)json_object_set(kept, "Runtime", value);
    for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
        (void)json_object_del(kept, elsewhere[i]);
    text = json_dumps(kept, JSON_COMPACT);
    if (text != NULL && json_object_size(kept) > 0 && strlen(text) <= KEPT_HOST_MAX)
        return docker_put(c->body.kept, "host", kept);
    json_decref(kept);
    return text != NULL;
}

/* ---- translation ---- */

static bool client_may_have(struct http_request *req, const char *policy)
{
    const struct client_policy *clients = native_of(req)->config.clients;

    if (api_is_owner(req))
        return true;
    for (char **p = clients != NULL ? clients->policies : NULL; p != NULL && *p != NULL; p++)
        if (strcmp(*p, policy) == 0)
            return true;
    return false;
}

/* Resolves the container whose network is shared now, so that a later rename does not matter. */
static int creating_join_network(struct creating *c, struct err *err)
{
    struct sandbox *other = NULL;
    json_t *network;
    int r;

    if (c->body.joins == NULL)
        return 0;
    r = docker_lookup(c->req, c->body.joins, &other, err);
    if (r < 0)
        return r;
    if (c->body.host_pid && (docker_is_sidecar(other) || docker_is_own_sidecar(other))) {
        c->body.warnings[c->body.warning_count++] = "HostConfig.PidMode: beside a sidecar \"host\" "
                                                    "is a pid namespace of the container's own";
        c->body.host_pid = false;
    }
    network = json_pack("{s:s}", "container", sandbox_id(other));
    if (network == NULL || !docker_put(c->body.spec, "network", network))
        return err_errno(err, -ENOMEM, "a request");
    return 0;
}

/* A network that is named by NetworkMode or NetworkingConfig, by its name. As in Docker one that is
 * not there is no error before the start. */
static int creating_find_network(const struct creating *c, const char *text,
                                 char ret[DOCKER_NAME_MAX + 1], struct err *err)
{
    auto_ptr(spec_free) struct spec *scratch = spec_new();
    int r = docker_network_find(c->req, text, ret, err);

    if (r != -ENOENT)
        return r;
    /* 404 would mean a missing image: clients would pull that. */
    if (scratch == NULL || spec_add_net(scratch, text, NULL, NULL) < 0)
        return err_set(err, -EINVAL, "network %.128s not found", text);
    (void)snprintf(ret, DOCKER_NAME_MAX + 1, "%s", text);
    return 0;
}

/* The first network of a spec has keys of its own; the others are in "more". The aliases are the
 * container's name and those of the request. */
static int creating_add_network(const struct creating *c, json_t *network, const char *name,
                                const struct create_endpoint *parts, struct err *err)
{
    json_t *list = json_array(), *more, *one, *alias;
    json_t *address = parts->address != NULL ? json_string(parts->address) : json_null();
    size_t i;

    if (c->name[0] != '\0' && strlen(c->name) <= SPEC_HOST_NAME_MAX)
        (void)json_array_append_new(list, json_string(c->name));
    json_array_foreach(parts->aliases, i, alias)
        if (strcmp(json_string_value(alias), c->name) != 0)
            (void)json_array_append(list, alias);
    if (json_object_get(network, "name") == NULL) {
        (void)json_object_set_new(network, "name", json_string(name));
        (void)json_object_set_new(network, "address", address);
        return json_object_set_new(network, "aliases", list) < 0
                   ? err_errno(err, -ENOMEM, "a request")
                   : 0;
    }
    more = json_object_get(network, "more");
    if (more == NULL && json_object_set_new(network, "more", json_array()) == 0)
        more = json_object_get(network, "more");
    one = json_pack("{s:s, s:o, s:o}", "name", name, "aliases", list, "address", address);
    return json_array_append_new(more, one) < 0 ? err_errno(err, -ENOMEM, "a request") : 0;
}

static bool network_has_name(const json_t *network, const char *name)
{
    const char *first = json_string_value(json_object_get(network, "name"));
    json_t *more;
    size_t i;

    if (first != NULL && strcmp(first, name) == 0)
        return true;
    json_array_foreach(json_object_get(network, "more"), i, more)
        if (strcmp(json_string_value(json_object_get(more, "name")), name) == 0)
            return true;
    return false;
}

/* What NetworkingConfig gives for a network, which it may name by the id. */
static struct create_endpoint creating_endpoint_of(const struct creating *c, const char *name)
{
    char other[DOCKER_NAME_MAX + 1];
    struct create_endpoint parts;
    json_t *endpoint;
    const char *key;

    json_object_foreach(c->body.endpoints, key, endpoint)
        if (creating_find_network(c, key, other, NULL) == 0 && strcmp(other, name) == 0 &&
            create_endpoint_check(key, endpoint, &parts, NULL) == 0)
            return parts;
    return (struct create_endpoint){.aliases = NULL};
}

static int creating_add_endpoint(const struct creating *c, json_t *network, const char *key,
                                 bool *ret_bridge, struct err *err)
{
    char name[DOCKER_NAME_MAX + 1] = "";
    struct create_endpoint parts;
    int r = creating_find_network(c, key, name, err);

    if (r < 0)
        return r;
    parts = creating_endpoint_of(c, name);
    *ret_bridge |= strcmp(name, "bridge") == 0;
    if (strcmp(name, "none") == 0 &&
        (json_object_size(c->body.endpoints) > 1 || c->body.network != NULL))
        return err_set(
            err, -EINVAL,
            "NetworkingConfig.EndpointsConfig: container cannot be connected to multiple "
            "networks with one of the networks in private (none) mode");
    if (!docker_network_is_builtin(name))
        return network_has_name(network, name)
                   ? 0
                   : creating_add_network(c, network, name, &parts, err);
    if (parts.address != NULL)
        return err_set(err, -EINVAL,
                       "NetworkingConfig.EndpointsConfig: invalid config for network %s: user "
                       "specified IP address is supported on user defined networks only",
                       name);
    if (json_array_size(parts.aliases) > 0)
        return err_set(
            err, -EINVAL,
            "NetworkingConfig.EndpointsConfig: aliases are of networks that a client has "
            "made");
    return 0;
}

/* Adds the network of NetworkMode, then those of NetworkingConfig. *ret_bridge: "bridge" is one of
 * them. */
static int creating_add_networks(const struct creating *c, json_t *network, bool *ret_bridge,
                                 struct err *err)
{
    char name[DOCKER_NAME_MAX + 1] = "";
    struct create_endpoint parts;
    json_t *endpoint;
    const char *key;
    int r = 0;

    if (c->body.network != NULL) {
        r = creating_find_network(c, c->body.network, name, err);
        parts = creating_endpoint_of(c, name);
        if (r == 0)
            r = creating_add_network(c, network, name, &parts, err);
    }
    json_object_foreach(c->body.endpoints, key, endpoint)
        if (r == 0 && key[0] != '\0')
            r = creating_add_endpoint(c, network, key, ret_bridge, err);
    return r;
}

static enum net_mode creating_mode(const struct creating *c, const json_t *network, bool bridge)
{
    auto_ptr(spec_free) struct spec *scratch = spec_new();
    json_t *more;
    size_t i;

    if (scratch == NULL ||
        spec_add_net(scratch, json_string_value(json_object_get(network, "name")), NULL, NULL) < 0)
        return NET_NONE;
    json_array_foreach(json_object_get(network, "more"), i, more)
        (void)spec_add_net(scratch, json_string_value(json_object_get(more, "name")), NULL, NULL);
    return docker_networks_mode(api_supervisor(c->req), scratch, bridge);
}

/* Links are other names for members of named networks. That in Docker they open the default network
 * for two containers is of another time, and not so here. */
static int creating_add_links(const struct creating *c, json_t *network, struct err *err)
{
    struct create_endpoint parts;
    json_t *links = json_array(), *endpoint;
    const char *key;
    int r = docker_links(c->req, c->body.links, true, links, err);

    json_object_foreach(c->body.endpoints, key, endpoint)
        if (r == 0 && create_endpoint_check(key, endpoint, &parts, NULL) == 0)
            r = docker_links(c->req, parts.links, false, links, err);
    if (r < 0 || json_array_size(links) == 0) {
        json_decref(links);
        return r;
    }
    if (json_object_get(network, "name") == NULL) {
        json_decref(links);
        return err_set(err, -EOPNOTSUPP,
                       "HostConfig.Links: only between members of a network that a client has made "
                       "(docker network create): in the default one no container reaches another");
    }
    return json_object_set_new(network, "links", links) < 0 ? err_errno(err, -ENOMEM, "a request")
                                                            : 0;
}

static int creating_name_network(struct creating *c, struct err *err)
{
    auto_ptr(json_decref) json_t *network = json_object();
    bool bridge = false;
    int r;

    if (c->body.network != NULL && !api_networks_allowed(c->req))
        return err_set(err, -EPERM,
                       "HostConfig.NetworkMode: the client policy allows no shared networks");
    if (c->body.joins != NULL)
        return json_array_size(c->body.links) == 0
                   ? 0
                   : err_set(err, -EINVAL,
                             "conflicting options: container type network can't be "
                             "used with links");
    r = creating_add_networks(c, network, &bridge, err);
    if (r == 0)
        r = creating_add_links(c, network, err);
    if (r < 0 || json_object_get(network, "name") == NULL)
        return r;
    /* Like in Docker, a named network also has internet access. */
    (void)json_object_set_new(
        network, "mode",
        json_string(creating_mode(c, network, bridge) == NET_INTERNET ? "internet" : "none"));
    if (bridge && !docker_put(c->body.kept, "bridge", json_true()))
        return err_errno(err, -ENOMEM, "a request");
    if (!create_put_dns(network, c->body.kept))
        return err_errno(err, -ENOMEM, "a request");
    return docker_put(c->body.spec, "network", json_incref(network))
               ? 0
               : err_errno(err, -ENOMEM, "a request");
}

static int creating_check_refused(const struct creating *c, struct err *err)
{
    if (c->body.host_pid)
        return err_set(err, -EPERM,
                       "HostConfig.PidMode: \"host\": a container has a pid namespace of its own");
    return 0;
}

/* CapAdd NET_ADMIN selects the policy that has it. */
static int creating_take_net_admin(struct creating *c, struct err *err)
{
    static const char add[] = "HostConfig.CapAdd: \"NET_ADMIN\"";
    int r;

    if (c->body.policy != NULL)
        return err_set(err, -EPERM, "%s: the policy that SecurityOpt names says what it may", add);
    if (c->body.joins != NULL)
        return err_set(err, -EINVAL,
                       "%s: the network of another container is not this one's to administer", add);
    if (!client_may_have(c->req, POLICY_NET))
        return err_set(err, -EPERM, "%s: the client policy does not list the policy " POLICY_NET,
                       add);
    c->body.policy = POLICY_NET;
    r = docker_own_sidecar_take(&c->body, err);
    if (r == 1 && !api_is_owner(c->req))
        return err_set(err, -EPERM,
                       "Cmd: --http-egress-port: a port of the host's loopback is reached by "
                       "sidecars of the daemon's owner alone");
    c->loopback = r == 1;
    return r < 0 ? r : 0;
}

/* CapAdd SYS_ADMIN with the device /dev/fuse, which programs for FUSE ask for, selects the policy
 * that has both. Neither is given alone. */
static int creating_take_fuse(struct creating *c, struct err *err)
{
    static const char add[] = "HostConfig.CapAdd: \"SYS_ADMIN\"";

    if (!c->body.adds_sys_admin)
        return err_set(err, -EPERM,
                       "HostConfig.Devices: /dev/fuse is of use only with mounts: ask for CapAdd "
                       "SYS_ADMIN as well, which selects the policy " POLICY_FUSE);
    if (!c->body.has_fuse && (c->body.policy == NULL || strcmp(c->body.policy, POLICY_FUSE) != 0))
        return err_set(err, -EPERM,
                       "%s: is of the policy " POLICY_FUSE
                       " alone: ask for the device /dev/fuse as "
                       "well, or SecurityOpt rind-policy=" POLICY_FUSE,
                       add);
    if (c->body.adds_net_admin)
        return err_set(err, -EPERM, "%s: no policy has both this and NET_ADMIN", add);
    if (c->body.policy != NULL && strcmp(c->body.policy, POLICY_FUSE) != 0)
        return err_set(err, -EPERM, "%s: the policy that SecurityOpt names says what it may", add);
    if (!client_may_have(c->req, POLICY_FUSE))
        return err_set(err, -EPERM, "%s: the client policy does not list the policy " POLICY_FUSE,
                       add);
    c->body.policy = POLICY_FUSE;
    return 0;
}

/* SYS_PTRACE and seccomp=unconfined ask for debuggers. The policy "container" and those that build
 * on it allow ptrace(2) between the container's processes, without that capability and with a
 * filter. */
static int creating_take_ptrace(struct creating *c, struct err *err)
{
    const char *policy = c->body.policy;

    if (policy != NULL && strcmp(policy, POLICY_DEFAULT) != 0 && strcmp(policy, POLICY_NET) != 0 &&
        strcmp(policy, POLICY_FUSE) != 0)
        return err_set(err, -EPERM, "%s: the policy that SecurityOpt names says what it may",
                       c->body.wants_ptrace);
    if (policy == NULL && !client_may_have(c->req, POLICY_DEFAULT))
        return err_set(err, -EPERM,
                       "%s: the client policy does not list the policy " POLICY_DEFAULT
                       ", which allows ptrace",
                       c->body.wants_ptrace);
    if (policy == NULL)
        c->body.policy = POLICY_DEFAULT;
    c->body.warnings[c->body.warning_count++] =
        "HostConfig.SecurityOpt, CapAdd: ptrace is allowed among processes of the same user; the "
        "system call filter and the capabilities of the policy stay";
    return 0;
}

/* The built-in sidecar image. The sidecar gets no process; its helpers, which only copy files,
 * get the default root file system and no network. */
static int creating_take_sidecar(struct creating *c, bool *ret_sidecar, struct err *err)
{
    int r = docker_sidecar_take(&c->body, err);

    if (r < 0)
        return r;
    *ret_sidecar = r == 1;
    if (*ret_sidecar) {
        json_decref(c->body.cmd);
        c->body.cmd = NULL;
    } else if (!c->body.has_network && c->body.joins == NULL &&
               !docker_put(c->body.spec, "network", json_pack("{s:s}", "mode", "none"))) {
        return err_errno(err, -ENOMEM, "a request");
    }
    return docker_put(c->body.kept, "image", json_string(c->body.image))
               ? 0
               : err_errno(err, -ENOMEM, "a request");
}

static int creating_put_label(struct creating *c)
{
    auto_free char *text = json_dumps(c->body.kept, JSON_COMPACT);
    json_t *labels = json_object_get(c->body.spec, "labels");

    if (labels == NULL && docker_put(c->body.spec, "labels", json_object()))
        labels = json_object_get(c->body.spec, "labels");
    return text != NULL && labels != NULL && docker_put(labels, DOCKER_LABEL, json_string(text))
               ? 0
               : -ENOMEM;
}

static int creating_put_rest(struct creating *c, bool builtin, struct err *err)
{
    json_t *spec = c->body.spec;
    const char *policy = c->body.policy;
    const struct policy *p;
    bool ok = true;
    int r;

    if (policy == NULL)
        policy = client_may_have(c->req, POLICY_DEFAULT) ? POLICY_DEFAULT : POLICY_STRICTER;
    p = supervisor_policy(api_supervisor(c->req), policy);
    r = p != NULL ? create_check_caps(&c->body, policy, p->capabilities, err) : 0;
    if (r < 0)
        return r;
    if (c->name[0] != '\0')
        ok = docker_put(spec, "name", json_string(c->name));
    ok = ok && docker_put(spec, "policy", json_string(policy));
    if (!builtin)
        ok = ok && docker_put(spec, "image", json_string(c->body.image));
    if (c->body.entrypoint != NULL)
        ok = ok && json_object_set(spec, "entrypoint", c->body.entrypoint) == 0;
    if (c->body.cmd != NULL)
        ok = ok && json_object_set(spec, "command", c->body.cmd) == 0;
    return ok && creating_put_label(c) == 0 ? 0 : err_errno(err, -ENOMEM, "a request");
}

/* A volume that stands for a directory (volume-options.h) has become a bind: as in Docker no
 * directory is made for it. */
static void creating_make_no_device(const struct creating *c, json_t *replaced)
{
    json_t *v;
    size_t i;

    json_array_foreach(json_object_get(c->body.spec, "volumes"), i, v)
        if (replaced != NULL &&
            docker_volume_replaced(replaced, json_string_value(json_object_get(v, "target"))) !=
                NULL)
            (void)json_object_del(v, "makeSource");
}

/* As Docker does on a host that weighs no accesses to disks: the weight is dropped, and said. */
static void creating_drop_weight(struct creating *c)
{
    json_t *limits = json_object_get(c->body.spec, "limits");

    if (native_of(c->req)->config.io_weighs || json_object_get(limits, "ioWeight") == NULL)
        return;
    (void)json_object_del(limits, "ioWeight");
    c->body.warnings[c->body.warning_count++] =
        "HostConfig.BlkioWeight: is dropped, nothing weighs accesses to this host's disk (it takes "
        "the scheduler bfq, or io.cost)";
}

static int creating_make_spec(struct creating *c, bool *ret_builtin, struct err *err)
{
    auto_ptr(json_decref) json_t *replaced = NULL;
    bool sidecar = false;
    int r;

    c->reaper = docker_reaper_prepare(native_of(c->req)->config.reaper_image, c->root);
    r = docker_volumes_replace(c->req, c->root, &replaced, err);
    if (r == 0)
        r = create_body_decode(c->root, &c->body, err);
    if (r == 0 && (!creating_keep_host(c) || !docker_volumes_keep(c->body.kept, replaced)))
        r = err_errno(err, -ENOMEM, "a request");
    if (r == 0) {
        creating_make_no_device(c, replaced);
        r = create_volumes_from(c->req, &c->body, err);
    }
    if (r == 0 && (c->body.image == NULL || c->body.image[0] == '\0'))
        r = err_set(err, -EINVAL, "Image: no image was named");
    if (r < 0)
        return r;
    c->translated = true;
    creating_drop_weight(c);
    *ret_builtin = docker_sidecar_image(native_of(c->req)->config.sidecar_image, c->body.image);
    if (*ret_builtin)
        r = creating_take_sidecar(c, &sidecar, err);
    else if (c->reaper)
        r = docker_reaper_take(&c->body, err);
    *ret_builtin |= c->reaper;
    if (r == 0)
        r = creating_join_network(c, err);
    if (r == 0)
        r = creating_name_network(c, err);
    if (r == 0)
        r = creating_check_refused(c, err);
    if (r == 0 && c->body.adds_net_admin && !sidecar)
        r = creating_take_net_admin(c, err);
    if (r == 0 && (c->body.adds_sys_admin || c->body.has_fuse))
        r = creating_take_fuse(c, err);
    if (r == 0 && c->body.wants_ptrace != NULL)
        r = creating_take_ptrace(c, err);
    if (r == 0)
        r = creating_put_rest(c, *ret_builtin, err);
    return r < 0 ? r : spec_from_json(c->body.spec, &c->spec, err);
}

/* ---- creation ---- */

static void on_sandbox_created(void *data, int r, const struct err *err)
{
    struct creating *c = data;
    char id[DOCKER_ID_LEN + 1];
    json_t *warnings;

    if (r < 0) {
        creating_fail_making(c, err);
        return;
    }
    docker_id(c->id, id);
    audit_add(c->req, "made", c->id);
    warnings = json_array();
    for (unsigned i = 0; i < c->body.warning_count; i++)
        (void)json_array_append_new(warnings, json_string(c->body.warnings[i]));
    reply_json(c->req, 201, json_pack("{s:s, s:o}", "Id", id, "Warnings", warnings));
    creating_free(c);
}

static void creating_name_taken(const struct creating *c, struct err *err)
{
    struct sandbox *other = NULL;
    char id[DOCKER_ID_LEN + 1] = "";

    /* It is one of the peer's own: names of others are not in the way. */
    if (docker_lookup(c->req, c->name, &other, NULL) == 0)
        docker_id(sandbox_id(other), id);
    (void)err_set(err, -EEXIST,
                  "Conflict. The container name \"/%s\" is already in use by container \"%s\". You "
                  "have to remove (or rename) that container to be able to reuse that name.",
                  c->name, id);
}

static void creating_make(struct creating *c)
{
    const struct caller creator = native_caller(c->req);
    struct sandbox *s = NULL;
    struct err err = ERR_NONE;
    int r = api_check_spec(c->req, c->spec, &err);

    if (r == 0)
        r = sandbox_create(api_supervisor(c->req), c->spec, &creator, false, on_sandbox_created, c,
                           &s, &err);
    if (r == -EEXIST)
        creating_name_taken(c, &err);
    if (r < 0) {
        creating_fail_making(c, &err);
        return;
    }
    c->spec = NULL;
    (void)snprintf(c->id, sizeof(c->id), "%s", sandbox_id(s));
}

/* ---- the image's part ---- */

static int creating_publish_all(struct creating *c, char *const *exposed, struct err *err)
{
    int r = 0;

    for (; r == 0 && exposed != NULL && *exposed != NULL; exposed++) {
        const char *slash = strchr(*exposed, '/');
        bool udp = slash != NULL && strcmp(slash, "/udp") == 0;
        long port = strtol(*exposed, NULL, 10);

        if (port >= 1 && port <= 65535 && (slash == NULL || udp || strcmp(slash, "/tcp") == 0))
            r = spec_put_publish(c->spec, c->loopback ? "127.0.0.1" : NULL, 0, port, udp, err);
    }
    return r;
}

static int creating_publish_exposed(struct creating *c, const struct image *image, struct err *err)
{
    const char *key;
    json_t *value;
    int r = 0;

    if (!c->body.publish_all)
        return 0;
    json_object_foreach(c->body.exposed, key, value) {
        const char *const one[] = {key, NULL};

        r = creating_publish_all(c, (char *const *)(const void *)one, err);
        if (r < 0)
            return r;
    }
    return image != NULL ? creating_publish_all(c, image->config->exposed, err) : 0;
}

/* A name alone takes a variable of the image away. */
static int creating_drop_unset(const struct creating *c, struct err *err)
{
    json_t *name;
    size_t i;
    int r = 0;

    json_array_foreach(c->body.unset, i, name)
        if (r == 0)
            r = env_drop(c->spec, json_string_value(name), json_string_length(name), err);
    return r;
}

/* Before the merge, which fills the times that are not set. */
static void creating_put_health_times(const struct creating *c)
{
    const struct create_health_times *t = &c->body.health;
    struct health_check *h = &c->spec->health;

    if (!c->body.has_health_times)
        return;
    h->interval_ms = t->interval_ms > 0 ? t->interval_ms : LIMIT_UNSET;
    h->timeout_ms = t->timeout_ms > 0 ? t->timeout_ms : LIMIT_UNSET;
    h->start_period_ms = t->start_period_ms > 0 ? t->start_period_ms : LIMIT_UNSET;
    h->start_interval_ms = t->start_interval_ms > 0 ? t->start_interval_ms : LIMIT_UNSET;
    h->retries = t->retries > 0 ? t->retries : LIMIT_UNSET;
}

/* Notes how many arguments are the entry point's: a spec joins them with the command, and inspect
 * and a commit tell them apart. Called before the image is merged into the spec. */
static int creating_keep_entry(struct creating *c, const struct image *image, struct err *err)
{
    char **list = c->spec->entrypoint != NULL ? c->spec->entrypoint : image->config->entrypoint;
    const size_t n = sizeof(DOCKER_LABEL);
    json_int_t count = 0;
    auto_free char *text = NULL;
    char *label = NULL;

    while (list != NULL && list[count] != NULL)
        count++;
    if (count == 0)
        return 0;
    if (docker_put(c->body.kept, "entry", json_integer(count)))
        text = json_dumps(c->body.kept, JSON_COMPACT);
    if (text == NULL || asprintf(&label, DOCKER_LABEL "=%s", text) < 0)
        return err_errno(err, -ENOMEM, "a request");
    for (char **l = c->spec->labels; l != NULL && *l != NULL; l++)
        if (strncmp(*l, DOCKER_LABEL "=", n) == 0) {
            free(*l);
            *l = label;
            return 0;
        }
    free(label);
    return err_set(err, -EINVAL, "Labels: that of rind's is missing");
}

static void on_create_image(void *data, int r, struct image *found, const struct err *err)
{
    auto_ptr(image_free) struct image *image = found;
    struct creating *c = data;
    struct err own = ERR_NONE;

    if (r == -ENOENT) {
        r = err_set(&own, r, "No such image: %.255s", c->body.image);
        err = &own;
    }
    if (r == 0) {
        if (!docker_is_image_platform(c->platform, image))
            r = err_set(&own, -EINVAL,
                        "platform: image %.128s is not of the platform %.64s that was asked for",
                        c->body.image, c->platform);
        creating_put_health_times(c);
        if (r == 0)
            r = creating_keep_entry(c, image, &own);
        if (r == 0)
            r = image_merge(image, c->spec, &own);
        if (r == 0)
            r = creating_drop_unset(c, &own);
        if (r == 0)
            r = creating_publish_exposed(c, image, &own);
        err = &own;
    }
    if (r < 0)
        creating_fail(c, err);
    else
        creating_make(c);
}

/* ---- the request ---- */

static int creating_begin(struct creating *c, struct err *err)
{
    struct create_query q = {0};
    bool builtin = false;
    int r;

    r = http_query_known(c->req, query, &q, err);
    c->platform = q.platform;
    if (r == 0 && q.name != NULL)
        (void)snprintf(c->name, sizeof(c->name), "%s", q.name + (q.name[0] == '/'));
    if (r == 0)
        r = json_body_tree(c->req, &c->root, err);
    if (r == 0)
        r = creating_make_spec(c, &builtin, err);
    if (r < 0)
        return r;
    if (builtin) {
        /* the sidecar publishes its own ingress */
        r = c->reaper ? creating_publish_exposed(c, NULL, err) : 0;
        if (r == 0)
            creating_make(c);
        return r;
    }
    return images_ready(native_images(c->req), IMAGE_VIEW(c->req), c->body.image, on_create_image,
                        c, err);
}

void docker_post_create(struct http_request *req)
{
    struct creating *c;
    struct err err = ERR_NONE;

    c = calloc(1, sizeof(*c));
    if (c == NULL) {
        reply_errorf(req, -ENOMEM, "out of memory");
        return;
    }
    c->req = req;
    req->data = c;
    if (creating_begin(c, &err) < 0)
        creating_fail(c, &err);
}
