/* /containers: list, inspect, remove, prune, and the table of routes below it. */
#include "api/docker/containers.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/docker/common.h"
#include "api/docker/exec.h"
#include "api/docker/filters.h"
#include "api/docker/networks.h"
#include "api/docker/sizes.h"
#include "base/auto.h"
#include "base/err.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "image/reference.h"
#include "sandbox/sandbox.h"
#include "sandbox/services.h"
#include "spec/spec.h"

/* ---- list ---- */

struct docker_containers_list_query {
    const char *all, *size, *filters;
    const char *trunc_cmd; /* always sent by docker-py; not a parameter of Docker */
    int64_t limit;
};

static const struct query_field list_fields[] = {
    {.name = "all",
     .type = QUERY_STRING,
     .off = offsetof(struct docker_containers_list_query, all),
     .max = 16},
    {.name = "size",
     .type = QUERY_STRING,
     .off = offsetof(struct docker_containers_list_query, size),
     .max = 16},
    {.name = "filters",
     .type = QUERY_STRING,
     .off = offsetof(struct docker_containers_list_query, filters)},
    {.name = "trunc_cmd",
     .type = QUERY_STRING,
     .off = offsetof(struct docker_containers_list_query, trunc_cmd)},
    {.name = "limit",
     .type = QUERY_INT,
     .off = offsetof(struct docker_containers_list_query, limit),
     .min = -1,
     .max = INT32_MAX},
    {0},
};

static const char *const known_filters[] = {"ancestor", "before", "exited", "health",
                                            "id",       "label",  "name",   "network",
                                            "since",    "status", "volume", NULL};

static bool matches_exited(const struct sandbox *s, const struct filters *f)
{
    struct sandbox_info info;
    char code[16];

    if (filters_get(f, "exited", 0) == NULL)
        return true;
    sandbox_get_info(s, &info);
    (void)snprintf(code, sizeof(code), "%d", info.exit_code);
    return strcmp(docker_status(s), "exited") == 0 && filters_match(f, "exited", code);
}

/* An image by one of its names, or by its id. */
static bool matches_ancestor(const struct sandbox *s, const struct filters *f)
{
    const struct spec *spec = sandbox_spec(s);
    auto_ptr(json_decref) json_t *kept = docker_kept(spec);
    struct reference have, want;
    const char *wanted;

    if (filters_get(f, "ancestor", 0) == NULL)
        return true;
    for (size_t i = 0; (wanted = filters_get(f, "ancestor", i)) != NULL; i++) {
        const char *hex = NULL;

        if (spec != NULL && spec->image_id != NULL && digest_prefix(wanted, 12, &hex) &&
            strncmp(spec->image_id + 7, hex, strlen(hex)) == 0)
            return true;
        if (reference_parse(docker_image_name(s, kept), &have, NULL) < 0 ||
            reference_parse(wanted, &want, NULL) < 0)
            continue;
        reference_default_tag(&have);
        reference_default_tag(&want);
        if (strcmp(have.name, want.name) == 0 && strcmp(have.tag, want.tag) == 0)
            return true;
    }
    return false;
}

static bool matches_volume(const struct spec *spec, const struct filters *f)
{
    if (filters_get(f, "volume", 0) == NULL)
        return true;
    for (size_t i = 0; spec != NULL && i < spec->volume_count; i++)
        if ((spec->volumes[i].source != NULL &&
             filters_match(f, "volume", spec->volumes[i].source)) ||
            filters_match(f, "volume", spec->volumes[i].target))
            return true;
    return false;
}

/* True if made before, or since, the container that the filters name. */
static int matches_order(struct http_request *req, const struct sandbox *s, const struct filters *f,
                         struct err *err)
{
    const char *before = filters_get(f, "before", 0), *since = filters_get(f, "since", 0);
    struct sandbox_info info, other;
    struct sandbox *than;
    int r;

    sandbox_get_info(s, &info);
    if (before != NULL) {
        r = docker_lookup(req, before, &than, err);
        if (r < 0)
            return r;
        sandbox_get_info(than, &other);
        if (info.created_ms >= other.created_ms)
            return 0;
    }
    if (since != NULL) {
        r = docker_lookup(req, since, &than, err);
        if (r < 0)
            return r;
        sandbox_get_info(than, &other);
        if (info.created_ms <= other.created_ms)
            return 0;
    }
    return 1;
}

static bool matches_network(const struct spec *spec, const struct filters *f)
{
    char id[DOCKER_ID_LEN + 1];
    const char *name;

    if (filters_get(f, "network", 0) == NULL)
        return true;
    for (size_t i = 0; (name = docker_network_at(spec, i)) != NULL; i++) {
        docker_network_id(name, id);
        if (filters_match(f, "network", name) || filters_match_prefix(f, "network", id))
            return true;
    }
    return false;
}

static bool container_matches(const struct sandbox *s, const struct filters *f)
{
    const struct spec *spec = sandbox_spec(s);
    char id[DOCKER_ID_LEN + 1];

    docker_id(sandbox_id(s), id);
    return filters_match_prefix(f, "id", id) && filters_match_part(f, "name", sandbox_name(s)) &&
           filters_match(f, "status", docker_status(s)) &&
           filters_match(f, "health", docker_health(s)) &&
           filters_match_labels(f, spec != NULL ? spec->labels : NULL) && matches_exited(s, f) &&
           matches_ancestor(s, f) && matches_volume(spec, f) && matches_network(spec, f);
}

/* Collects containers, newest first, like Docker. */
static int containers_collect(struct http_request *req,
                              const struct docker_containers_list_query *q, const struct filters *f,
                              json_t *list, struct err *err)
{
    bool all = docker_bool(q->all) || q->limit > 0 || filters_get(f, "status", 0) != NULL ||
               filters_get(f, "exited", 0) != NULL;
    int r;

    for (struct sandbox *s = sandbox_first(api_supervisor(req)); s != NULL; s = sandbox_next(s)) {
        if ((!all && !docker_is_running(s)) || !container_matches(s, f) || !api_may_see(req, s))
            continue;
        r = matches_order(req, s, f, err);
        if (r < 0)
            return r;
        if (r > 0 && json_array_insert_new(list, 0, docker_container_line(s)) < 0)
            return err_errno(err, -ENOMEM, "list");
    }
    while (q->limit > 0 && json_array_size(list) > (size_t)q->limit)
        (void)json_array_remove(list, json_array_size(list) - 1);
    return 0;
}

/* ---- sizes ---- */

/* An answer that waits for the sizes in it. */
struct sized_answer {
    struct http_request *req;
    json_t *root, *list; /* owned; list: the containers in root */
};

static void on_answer_sized(void *data)
{
    struct sized_answer *a = data;

    reply_json(a->req, 200, a->root);
    json_decref(a->list);
    free(a);
}

/* Answers with root once the containers of list have their sizes. Takes both. */
static void answer_sized(struct http_request *req, json_t *root, json_t *list)
{
    const struct docker_sizes what = {.containers = list};
    struct sized_answer *a = malloc(sizeof(*a));
    struct err err = ERR_NONE;

    if (a == NULL) {
        (void)err_errno(&err, -ENOMEM, "sizes");
    } else {
        *a = (struct sized_answer){.req = req, .root = root, .list = list};
        if (docker_sizes_put(req, &what, on_answer_sized, a, &err) == 0)
            return;
    }
    json_decref(root);
    json_decref(list);
    free(a);
    reply_error(req, &err);
}

static void get_containers(struct http_request *req)
{
    auto_ptr(filters_free) struct filters *f = NULL;
    auto_ptr(json_decref) json_t *list = json_array();
    struct docker_containers_list_query q = {.limit = 0};
    struct err err = ERR_NONE;
    int r;

    r = http_query_known(req, list_fields, &q, &err);
    if (r == 0)
        r = filters_parse(q.filters, known_filters, &f, &err);
    if (r == 0)
        r = containers_collect(req, &q, f, list, &err);
    if (r < 0)
        reply_error(req, &err);
    else if (docker_bool(q.size))
        answer_sized(req, json_incref(list), json_incref(list));
    else
        reply_json(req, 200, json_incref(list));
}

/* ---- one ---- */

struct inspect_query {
    const char *size;
};

static const struct query_field inspect_fields[] = {
    {.name = "size", .type = QUERY_STRING, .off = offsetof(struct inspect_query, size), .max = 16},
    {0},
};

static void get_container(struct http_request *req)
{
    struct sandbox *s = docker_sandbox(req);
    const struct caller who = native_caller(req);
    struct inspect_query q = {0};
    struct err err = ERR_NONE;
    json_t *root;

    if (s == NULL)
        return;
    if (http_query_known(req, inspect_fields, &q, &err) < 0) {
        reply_error(req, &err);
        return;
    }
    root = docker_container(s);
    if (root != NULL && sandbox_right(s, &who) >= RIGHT_USE)
        docker_exec_list(native_of(req)->docker, s, root);
    else if (root != NULL) /* the peer may only look: no secrets */
        (void)docker_put(json_object_get(root, "Config"), "Env", json_array());
    if (root != NULL && docker_bool(q.size))
        answer_sized(req, root, json_pack("[O]", root));
    else
        reply_json(req, 200, root);
}

struct docker_containers_remove_query {
    const char *force, *volumes, *link;
};

static const struct query_field remove_fields[] = {
    {.name = "force",
     .type = QUERY_STRING,
     .off = offsetof(struct docker_containers_remove_query, force),
     .max = 16},
    {.name = "v",
     .type = QUERY_STRING,
     .off = offsetof(struct docker_containers_remove_query, volumes),
     .max = 16},
    {.name = "link",
     .type = QUERY_STRING,
     .off = offsetof(struct docker_containers_remove_query, link),
     .max = 16},
    {0},
};

static int check_removal(const struct sandbox *s, bool force, struct err *err)
{
    char id[DOCKER_ID_LEN + 1];

    docker_id(sandbox_id(s), id);
    if (sandbox_get_state(s) == SANDBOX_REMOVING)
        return err_set(err, -EBUSY, "removal of container %s is already in progress",
                       sandbox_name(s));
    if (!force && docker_is_running(s))
        return err_set(err, -EBUSY,
                       /* in the words of Docker 20 and of Docker 25: clients look for either */
                       "You cannot remove a %s container %s. Stop the container before attempting "
                       "removal or force remove: cannot remove container \"/%s\": container is "
                       "%s: stop the container before removing or force remove",
                       docker_status(s), sandbox_id(s), sandbox_name(s), docker_status(s));
    return 0;
}

static void delete_container(struct http_request *req)
{
    struct sandbox *s = docker_sandbox(req);
    struct docker_containers_remove_query q = {0};
    struct api_call *call;
    struct err err = ERR_NONE;
    int r;

    if (s == NULL)
        return;
    r = http_query_known(req, remove_fields, &q, &err);
    if (r == 0 && docker_bool(q.link))
        r = err_set(&err, -EOPNOTSUPP, "link: containers are not linked here");
    if (r == 0)
        r = check_removal(s, docker_bool(q.force), &err);
    if (r < 0) {
        reply_error(req, &err);
        return;
    }
    call = api_call_new(req, s);
    if (call != NULL && sandbox_remove(s, true, api_done_empty, call, &err) < 0)
        api_call_fail(call, &err);
}

/* ---- prune ---- */

struct container_prune {
    struct http_request *req;
    json_t *measured; /* owned; objects with the ids of what may go, and their sizes */
    json_t *deleted;  /* owned */
    int64_t bytes;    /* of what is deleted */
    unsigned left;    /* pending removals, plus one for the loop over containers */
};

static void prune_done(struct container_prune *p)
{
    if (--p->left > 0)
        return;
    reply_json(p->req, 200,
               json_pack("{s:o, s:I}", "ContainersDeleted", p->deleted, "SpaceReclaimed",
                         (json_int_t)p->bytes));
    json_decref(p->measured);
    free(p);
}

static void on_container_pruned(void *data, int r, const struct err *err)
{
    (void)r;
    (void)err; /* errors are logged; containers that remain are listed */
    prune_done(data);
}

static bool container_has_ended(const struct sandbox *s)
{
    const char *status = docker_status(s);

    return strcmp(status, "exited") == 0 || strcmp(status, "dead") == 0 ||
           strcmp(status, "created") == 0;
}

/* until_ms: what was made later stays. */
static int prune_collect(struct container_prune *p, const struct filters *f, int64_t until_ms,
                         struct err *err)
{
    for (struct sandbox *s = sandbox_first(api_supervisor(p->req)); s != NULL;
         s = sandbox_next(s)) {
        const struct spec *spec = sandbox_spec(s);
        char id[DOCKER_ID_LEN + 1];
        struct sandbox_info info;

        sandbox_get_info(s, &info);
        if (info.created_ms > until_ms || !container_has_ended(s) ||
            !filters_match_labels(f, spec != NULL ? spec->labels : NULL) || !api_is_own(p->req, s))
            continue;
        docker_id(sandbox_id(s), id);
        if (json_array_append_new(p->measured, json_pack("{s:s}", "Id", id)) < 0)
            return err_errno(err, -ENOMEM, "prune");
    }
    return 0;
}

/* Their sizes are there. Removes those that still do not run. */
static void on_prune_measured(void *data)
{
    struct container_prune *p = data;
    json_t *one;
    size_t i;

    json_array_foreach(p->measured, i, one) {
        json_int_t bytes = json_integer_value(json_object_get(one, "SizeRw"));
        const char *id = json_string_value(json_object_get(one, "Id"));
        struct sandbox *s = NULL;

        if (docker_lookup(p->req, id, &s, NULL) < 0 || !container_has_ended(s))
            continue;
        p->left++;
        if (sandbox_remove(s, true, on_container_pruned, p, NULL) < 0) {
            p->left--;
            continue;
        }
        p->bytes += bytes > 0 ? bytes : 0;
        (void)json_array_append_new(p->deleted, json_string(id));
    }
    prune_done(p);
}

static int prune_start(struct container_prune *p, const struct filters *f, int64_t until_ms,
                       struct err *err)
{
    int r = prune_collect(p, f, until_ms, err);

    return r < 0
               ? r
               : docker_sizes_put(p->req,
                                  &(struct docker_sizes){.containers = p->measured, .prune = true},
                                  on_prune_measured, p, err);
}

static void post_containers_prune(struct http_request *req)
{
    static const char *const known[] = {"label", "label!", "until", NULL};
    auto_ptr(filters_free) struct filters *f = NULL;
    struct docker_containers_list_query q = {0};
    struct err err = ERR_NONE;
    struct container_prune *p;
    int64_t until_ms = 0;
    int r;

    r = http_query_known(req, list_fields, &q, &err);
    if (r == 0)
        r = filters_parse(q.filters, known, &f, &err);
    if (r == 0)
        r = docker_filters_until(f, &until_ms, &err);
    p = r == 0 ? calloc(1, sizeof(*p)) : NULL;
    if (p == NULL) {
        if (r == 0)
            (void)err_errno(&err, -ENOMEM, "prune");
        reply_error(req, &err);
        return;
    }
    *p = (struct container_prune){
        .req = req, .measured = json_array(), .deleted = json_array(), .left = 1};
    if (prune_start(p, f, until_ms, &err) == 0)
        return;
    json_decref(p->measured);
    json_decref(p->deleted);
    free(p);
    reply_error(req, &err);
}

/* ---- the table ---- */

/* clang-format off */
const struct route docker_container_routes[] = {
    {"GET",    "/containers/json",           get_containers,          0, 0},
    {"POST",   "/containers/create",         docker_post_create, ROUTE_BODY | ROUTE_LARGE, 0},
    {"POST",   "/containers/prune",          post_containers_prune,        ROUTE_BODY, 0},
    {"GET",    "/containers/{id}/json",      get_container,       0, 0},
    {"DELETE", "/containers/{id}",           delete_container,  0, 0},
    {"POST",   "/containers/{id}/start",     docker_post_start,   ROUTE_BODY, 0},
    {"POST",   "/containers/{id}/stop",      docker_post_stop,    ROUTE_BODY, 0},
    {"POST",   "/containers/{id}/restart",   docker_post_restart, ROUTE_BODY, 0},
    {"POST",   "/containers/{id}/kill",      docker_post_kill,    ROUTE_BODY, 0},
    {"POST",   "/containers/{id}/pause",     docker_post_pause,   ROUTE_BODY, 0},
    {"POST",   "/containers/{id}/unpause",   docker_post_unpause, ROUTE_BODY, 0},
    {"POST",   "/containers/{id}/rename",    docker_post_rename,  ROUTE_BODY, 0},
    {"POST",   "/containers/{id}/resize",    docker_post_resize,  ROUTE_BODY, 0},
    {"POST",   "/containers/{id}/wait",      docker_post_wait,    ROUTE_BODY, 0},
    {"POST",   "/containers/{id}/update",    docker_post_update,  ROUTE_BODY, 0},
    {"POST",   "/containers/{id}/attach",    docker_post_attach,  ROUTE_BODY | ROUTE_UPGRADE, 0},
    {"GET",    "/containers/{id}/attach/ws", docker_get_attach_ws, ROUTE_UPGRADE, 0},
    {"GET",    "/containers/{id}/logs",      docker_get_logs,     0, 0},
    {"GET",    "/containers/{id}/stats",     docker_get_stats,    0, 0},
    {"GET",    "/containers/{id}/top",       docker_get_top,      0, 0},
    {"GET",    "/containers/{id}/archive",   docker_get_archive,  0, 0},
    {"HEAD",   "/containers/{id}/archive",   docker_head_archive, 0, 0},
    {"PUT",    "/containers/{id}/archive",   docker_put_archive,  ROUTE_STREAM, 0},
    {"GET",    "/containers/{id}/export",    docker_get_export,   0, 0},
    {"GET",    "/containers/{id}/changes",   docker_get_changes,  0, 0},
    {"POST",   "/containers/{id}/exec",      docker_post_exec,    ROUTE_BODY | ROUTE_LARGE, 0},
    {0},
};
/* clang-format on */
