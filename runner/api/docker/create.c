/* POST /containers/create. Translates the body into the object of POST /v1/sandboxes, and
 * creates the sandbox from it like the native API: same parser, client policy and core. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/docker/common.h"
#include "api/docker/containers.h"
#include "api/docker/create-body.h"
#include "api/docker/images.h"
#include "api/docker/networks.h"
#include "api/docker/sidecar.h"
#include "api/json-body.h"
#include "api/native/images.h"
#include "api/native/networks.h"
#include "api/reply.h"
#include "api/route-query.h"
#include "base/auto.h"
#include "base/err.h"
#include "images/images.h"
#include "policy/client.h"
#include "policy/policy.h"
#include "ports/networks.h"
#include "sandbox/sandbox.h"
#include "sandbox/services.h"
#include "spec/json.h"
#include "spec/spec.h"

#define POLICY_DEFAULT  "container" /* what a Docker user expects */
#define POLICY_STRICTER "untrusted"
#define POLICY_NET      "net-admin" /* "container" with CAP_NET_ADMIN */

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

/* 404 means a missing image, and docker run would pull it. Other things that are missing are
 * 400. */
static void creating_fail_making(struct creating *c, const struct err *err)
{
    struct err own = *err;

    if (own.code == -ENOENT)
        own.code = -EINVAL;
    creating_fail(c, &own);
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

/* Finds the network that NetworkMode or NetworkingConfig names; "" if it is none with members.
 * -EOPNOTSUPP if they name two. */
static int creating_find_network(struct creating *c, char ret[DOCKER_NAME_MAX + 1], struct err *err)
{
    char other[DOCKER_NAME_MAX + 1] = "";
    const char *endpoint = c->body.endpoint;
    int r = 0;

    ret[0] = '\0';
    if (c->body.network != NULL)
        r = docker_network_find(c->req, c->body.network, ret, err);
    if (r < 0 || endpoint == NULL || endpoint[0] == '\0' || c->body.joins != NULL)
        return r;
    r = docker_network_find(c->req, endpoint, other, err);
    if (r < 0)
        return r;
    if (strcmp(other, "bridge") == 0 || strcmp(other, "none") == 0)
        other[0] = '\0';
    if (ret[0] != '\0' && strcmp(ret, other) != 0)
        return err_set(err, -EOPNOTSUPP,
                       "NetworkingConfig.EndpointsConfig: a container is in one network, and "
                       "NetworkMode names another one");
    (void)memcpy(ret, other, sizeof(other));
    return 0;
}

/* Returns the request's aliases and the container's name. */
static json_t *creating_aliases(const struct creating *c)
{
    json_t *list = json_array(), *alias;
    size_t i;

    if (c->name[0] != '\0' && strlen(c->name) <= SPEC_HOST_NAME_MAX)
        (void)json_array_append_new(list, json_string(c->name));
    json_array_foreach(c->body.aliases, i, alias)
        if (strcmp(json_string_value(alias), c->name) != 0)
            (void)json_array_append(list, alias);
    return list;
}

static int creating_name_network(struct creating *c, struct err *err)
{
    char name[DOCKER_NAME_MAX + 1];
    const struct network_entry *entry;
    json_t *network, *dns = json_object_get(c->body.kept, "dns");
    int r;

    if (c->body.network != NULL && !api_networks_allowed(c->req))
        return err_set(err, -EPERM,
                       "HostConfig.NetworkMode: the client policy allows no shared networks");
    r = creating_find_network(c, name, err);
    if (r == 0 && name[0] == '\0' && json_array_size(c->body.aliases) > 0)
        r = err_set(err, -EINVAL,
                    "NetworkingConfig.EndpointsConfig: aliases are of networks that somebody has "
                    "made");
    if (r < 0 || name[0] == '\0')
        return r;
    entry = network_find(api_supervisor(c->req), name);
    /* Like in Docker, a named network also has internet access. */
    network = json_pack("{s:s, s:s, s:o}", "name", name, "mode",
                        entry != NULL && network_is_internal(entry) ? "none" : "internet",
                        "aliases", creating_aliases(c));
    if (network != NULL && dns != NULL && json_object_set(network, "dns", dns) < 0) {
        json_decref(network);
        network = NULL;
    }
    return network != NULL && docker_put(c->body.spec, "network", network)
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

static int creating_make_spec(struct creating *c, bool *ret_builtin, struct err *err)
{
    bool sidecar = false;
    int r;

    r = create_body_decode(c->root, &c->body, err);
    if (r == 0 && (c->body.image == NULL || c->body.image[0] == '\0'))
        r = err_set(err, -EINVAL, "Image: no image was named");
    if (r < 0)
        return r;
    c->translated = true;
    *ret_builtin = docker_sidecar_image(native_of(c->req)->config.sidecar_image, c->body.image);
    if (*ret_builtin)
        r = creating_take_sidecar(c, &sidecar, err);
    if (r == 0)
        r = creating_join_network(c, err);
    if (r == 0)
        r = creating_name_network(c, err);
    if (r == 0)
        r = creating_check_refused(c, err);
    if (r == 0 && c->body.adds_net_admin && !sidecar)
        r = creating_take_net_admin(c, err);
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

/* A spec can only add to an image's variables. */
static int creating_check_unset(const struct creating *c, const struct image *image,
                                struct err *err)
{
    json_t *name;
    size_t i;

    json_array_foreach(c->body.unset, i, name)
        for (char **v = image->config->env; v != NULL && *v != NULL; v++) {
            size_t len = json_string_length(name);

            if (strncmp(*v, json_string_value(name), len) == 0 && (*v)[len] == '=')
                return err_set(err, -EOPNOTSUPP,
                               "Env: \"%.64s\": a variable of the image's is not taken away; give "
                               "it another value",
                               json_string_value(name));
        }
    return 0;
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
        if (r == 0)
            r = creating_check_unset(c, image, &own);
        if (r == 0)
            r = image_merge(image, c->spec, &own);
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
        creating_make(c);
        return 0;
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
