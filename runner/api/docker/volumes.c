/* /volumes: a translation to volume/volumes.h. */
#include "api/docker/volumes.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/audit.h"
#include "api/docker/body.h"
#include "api/docker/common.h"
#include "api/docker/create-body.h"
#include "api/docker/docker-routes.h"
#include "api/docker/filters.h"
#include "api/docker/sizes.h"
#include "api/docker/volume-options.h"
#include "api/native/volumes.h"
#include "base/auto.h"
#include "base/err.h"
#include "http/json-body.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "json/decode.h"
#include "sandbox/sandbox.h"
#include "volume/volumes.h"

/* ---- a volume's description ---- */

/* Mountpoint is empty: the host path is not disclosed. */
json_t *docker_volume(const struct volume_entry *v)
{
    const uint64_t bytes = volume_bytes(v);
    json_t *options = docker_volume_options(v);
    char size[24];

    (void)snprintf(size, sizeof(size), "%" PRIu64, bytes);
    if (options == NULL)
        options = bytes != 0 ? json_pack("{s:s}", "size", size) : json_null();
    return json_pack("{s:o, s:s, s:o, s:s, s:s, s:o, s:s}", "CreatedAt",
                     docker_time(volume_created_ms(v)), "Driver", "local", "Labels",
                     docker_label_object(volume_labels(v)), "Mountpoint", "", "Name",
                     volume_name(v), "Options", options, "Scope", "local");
}

/* Returns the volume named by {name}, if the peer may use it. NULL:
 * answered. */
static struct volume_entry *volume_requested(struct http_request *req)
{
    const char *name = http_param(req, "name");
    struct caller creator;
    struct volume_entry *v;

    if (!api_may_have_volumes(req))
        return NULL;
    creator = native_caller(req);
    v = volume_find_for(api_supervisor(req), &creator, name);
    if (v == NULL || !volume_is_ready(v)) {
        reply_errorf(req, -ENOENT, "get %.128s: no such volume", name);
        return NULL;
    }
    return v;
}

/* ---- list ---- */

struct docker_volumes_list_query {
    const char *filters;
};

static const struct query_field list_fields[] = {
    {.name = "filters",
     .type = QUERY_STRING,
     .off = offsetof(struct docker_volumes_list_query, filters)},
    {0},
};

static unsigned count_users(const struct volume_entry *v, struct supervisor *sup)
{
    struct sandbox *first;
    unsigned n = volume_users(v, &first);

    for (struct sandbox *s = volume_options(v) != NULL ? sandbox_first(sup) : NULL; s != NULL;
         s = sandbox_next(s))
        n += docker_volume_is_named(s, volume_name(v));
    return n;
}

static bool volume_matches(const struct volume_entry *v, struct supervisor *sup,
                           const struct filters *f)
{
    const char *dangling = filters_get(f, "dangling", 0);
    bool used = count_users(v, sup) > 0;

    return volume_is_ready(v) && filters_match_part(f, "name", volume_name(v)) &&
           filters_match(f, "driver", "local") && filters_match_labels(f, volume_labels(v)) &&
           (dangling == NULL || docker_bool(dangling) == !used);
}

static void get_volumes(struct http_request *req)
{
    static const char *const known[] = {"dangling", "driver", "label", "name", NULL};
    auto_ptr(filters_free) struct filters *f = NULL;
    struct caller creator;
    struct docker_volumes_list_query q = {0};
    struct err err = ERR_NONE;
    json_t *list;
    int r;

    if (!api_may_have_volumes(req))
        return;
    r = http_query_known(req, list_fields, &q, &err);
    if (r == 0)
        r = filters_parse(q.filters, known, &f, &err);
    if (r < 0) {
        reply_error(req, &err);
        return;
    }
    creator = native_caller(req);
    list = json_array();
    for (struct volume_entry *v = volume_first(api_supervisor(req)); v != NULL; v = volume_next(v))
        if (volume_matches(v, api_supervisor(req), f) && volume_may_use(v, &creator))
            (void)json_array_append_new(list, docker_volume(v));
    reply_json(req, 200, json_pack("{s:o, s:n}", "Volumes", list, "Warnings"));
}

/* ---- one ---- */

static void get_volume(struct http_request *req)
{
    struct volume_entry *v = volume_requested(req);

    if (v != NULL)
        reply_json(req, 200, docker_volume(v));
}

static void on_volume_removed(void *data, int r, struct volume_entry *v, const struct err *err)
{
    struct http_request *req = data;

    (void)v;
    if (r < 0)
        reply_error(req, err);
    else
        reply_empty(req, 204);
}

struct docker_volumes_remove_query {
    const char *force;
};

static const struct query_field remove_fields[] = {
    {.name = "force",
     .type = QUERY_STRING,
     .off = offsetof(struct docker_volumes_remove_query, force),
     .max = 16},
    {0},
};

static void delete_volume(struct http_request *req)
{
    struct volume_entry *v = volume_requested(req);
    struct docker_volumes_remove_query q = {0};
    struct sandbox *user = NULL;
    struct err err = ERR_NONE;

    if (v == NULL)
        return;
    if (http_query_known(req, remove_fields, &q, &err) < 0)
        reply_error(req, &err);
    else if (volume_options(v) != NULL && count_users(v, api_supervisor(req)) > 0)
        reply_errorf(req, -EBUSY, "remove %.128s: volume is in use", volume_name(v));
    else if (volume_users(v, &user) > 0)
        reply_errorf(req, -EBUSY, "remove %.128s: volume is in use - [%s]", volume_name(v),
                     sandbox_id(user));
    else if (volume_remove(v, on_volume_removed, req, &err) < 0)
        reply_error(req, &err);
}

/* ---- create ---- */

struct volume_body {
    const char *name, *driver;
    json_t *labels;
    json_t *options; /* borrowed */
};

static const struct body_field create_fields[] = {
    {.name = "Name", .take = b_string, .off = offsetof(struct volume_body, name)},
    {.name = "Driver", .take = b_string, .off = offsetof(struct volume_body, driver)},
    {.name = "Labels",
     .take = b_value,
     .always = true,
     .off = offsetof(struct volume_body, labels)},
    {.name = "DriverOpts",
     .take = b_value,
     .always = true,
     .off = offsetof(struct volume_body, options)},
    {.name = "ClusterVolumeSpec", .code = -EOPNOTSUPP, .why = "there is no cluster"},
    {0},
};

static void on_volume_created(void *data, int r, struct volume_entry *v, const struct err *err)
{
    struct http_request *req = data;

    if (r < 0) {
        reply_error(req, err);
        return;
    }
    audit_add(req, "made", volume_name(v));
    reply_json(req, 201, docker_volume(v));
}

/* Like in Docker, a volume without a name is labelled as anonymous, and so pruned by default. */
static int volume_read_labels(const struct volume_body *b, char ***ret, struct err *err)
{
    auto_ptr(json_decref) json_t *labels = NULL;

    if (b->name != NULL || (b->labels != NULL && !json_is_object(b->labels)))
        return docker_label_strings(b->labels, ret, err);
    labels = b->labels != NULL ? json_copy(b->labels) : json_object();
    if (labels == NULL || !docker_put(labels, VOLUME_LABEL_ANONYMOUS, json_string("")))
        return err_errno(err, -ENOMEM, "labels");
    return docker_label_strings(labels, ret, err);
}

/* Like in Docker, creating an existing volume succeeds. */
static int volume_create_from_body(struct http_request *req, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    struct caller creator = native_caller(req);
    struct volume_body b = {0};
    struct volume_params params = {0};
    struct volume_entry *v;
    auto_free char *options = NULL;
    char **list = NULL;
    int r;

    r = json_body_tree(req, &root, err);
    if (r == 0)
        r = body_decode_whole(root, create_fields, create_body_elsewhere, &b, err);
    if (r == 0 && b.driver != NULL && strcmp(b.driver, "local") != 0)
        r = err_set(err, -ENOENT,
                    "create %.64s: error looking up volume plugin %.64s: plugin \"%.64s\" not "
                    "found",
                    b.name != NULL ? b.name : "", b.driver, b.driver);
    if (r == 0)
        r = docker_volume_options_read(b.name != NULL ? b.name : "", b.options, &options,
                                       &params.bytes, err);
    if (r == 0)
        r = volume_read_labels(&b, &list, err);
    params.name = b.name;
    params.labels = list;
    params.options = options;
    v = r == 0 && b.name != NULL ? volume_find_for(api_supervisor(req), &creator, b.name) : NULL;
    if (v != NULL && volume_is_ready(v))
        reply_json(req, 201, docker_volume(v));
    else if (r == 0)
        r = volume_create(api_supervisor(req), &params, &creator, on_volume_created, req, err);
    json_strings_free(list);
    return r;
}

static void post_volume_create(struct http_request *req)
{
    struct err err = ERR_NONE;

    if (api_may_have_volumes(req) && volume_create_from_body(req, &err) < 0)
        reply_error(req, &err);
}

/* ---- prune ---- */

struct docker_volumes_prune {
    struct http_request *req;
    struct filters *f; /* owned */
    json_t *measured;  /* owned; volumes that may go, with their sizes */
};

static void volumes_prune_free(struct docker_volumes_prune *p)
{
    filters_free(p->f);
    json_decref(p->measured);
    free(p);
}

static json_int_t pruned_bytes(const json_t *measured, char *const *names)
{
    json_int_t sum = 0;
    json_t *one;
    size_t k;

    for (size_t i = 0; names[i] != NULL; i++)
        json_array_foreach(measured, k, one) {
            const json_t *size = json_object_get(json_object_get(one, "UsageData"), "Size");

            if (strcmp(json_string_value(json_object_get(one, "Name")), names[i]) == 0 &&
                json_integer_value(size) > 0)
                sum += json_integer_value(size);
        }
    return sum;
}

static void on_volumes_pruned(void *data, int r, char *const *names, const struct err *err)
{
    struct docker_volumes_prune *p = data;

    if (r < 0)
        reply_error(p->req, err);
    else
        reply_json(p->req, 200,
                   json_pack("{s:o, s:I}", "VolumesDeleted", docker_strings(names),
                             "SpaceReclaimed", pruned_bytes(p->measured, names)));
    volumes_prune_free(p);
}

/* Their sizes are there. Volumes that became unused meanwhile go as well, without a size. */
static void on_volumes_measured(void *data)
{
    struct docker_volumes_prune *p = data;
    struct caller creator = native_caller(p->req);
    char *wanted[FILTERS_MAX + 1] = {NULL};
    struct err err = ERR_NONE;
    int r;

    for (size_t i = 0; i < FILTERS_MAX && filters_get(p->f, "label", i) != NULL; i++)
        wanted[i] = (char *)(uintptr_t)filters_get(p->f, "label", i);
    r = volume_prune(api_supervisor(p->req), &creator, docker_bool(filters_get(p->f, "all", 0)),
                     wanted, on_volumes_pruned, p, &err);
    if (r == 1)
        on_volumes_pruned(p, 0, (char *const[]){NULL}, NULL);
    if (r >= 0)
        return;
    reply_error(p->req, &err);
    volumes_prune_free(p);
}

/* Collects at least the volumes that volume_prune removes. */
static int volumes_prune_collect(struct docker_volumes_prune *p, struct err *err)
{
    const bool all = docker_bool(filters_get(p->f, "all", 0));
    struct caller creator = native_caller(p->req);
    struct sandbox *first;

    for (struct volume_entry *v = volume_first(api_supervisor(p->req)); v != NULL;
         v = volume_next(v)) {
        if (!volume_is_ready(v) || !(all || volume_is_anonymous(v)) || volume_options(v) != NULL ||
            volume_users(v, &first) > 0 || !volume_may_use(v, &creator))
            continue;
        if (json_array_append_new(
                p->measured, json_pack("{s:s, s:{}}", "Name", volume_name(v), "UsageData")) < 0)
            return err_errno(err, -ENOMEM, "prune");
    }
    return 0;
}

static void post_volumes_prune(struct http_request *req)
{
    static const char *const known[] = {"all", "label", NULL};
    struct docker_volumes_list_query q = {0};
    struct err err = ERR_NONE;
    struct docker_volumes_prune *p;
    int r;

    if (!api_may_have_volumes(req))
        return;
    p = calloc(1, sizeof(*p));
    if (p == NULL) {
        reply_errorf(req, -ENOMEM, "out of memory");
        return;
    }
    *p = (struct docker_volumes_prune){.req = req, .measured = json_array()};
    r = http_query_known(req, list_fields, &q, &err);
    if (r == 0)
        r = filters_parse(q.filters, known, &p->f, &err);
    if (r == 0)
        r = volumes_prune_collect(p, &err);
    if (r == 0)
        r = docker_sizes_put(req, &(struct docker_sizes){.volumes = p->measured, .prune = true},
                             on_volumes_measured, p, &err);
    if (r == 0)
        return;
    reply_error(req, &err);
    volumes_prune_free(p);
}

/* clang-format off */
const struct route docker_volume_routes[] = {
    {"GET",    "/volumes",        get_volumes,    0, 0},
    {"POST",   "/volumes/create", post_volume_create, ROUTE_BODY, 0},
    {"POST",   "/volumes/prune",  post_volumes_prune,  ROUTE_BODY, 0},
    {"GET",    "/volumes/{name}", get_volume,     0, 0},
    {"DELETE", "/volumes/{name}", delete_volume,  0, 0},
    {0},
};
/* clang-format on */
