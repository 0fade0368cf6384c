/* /v1/volumes: named volumes. Members of the group see and use only those that they have made. */

#include "volume/volumes.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/audit.h"
#include "api/common.h"
#include "api/native/volumes.h"
#include "base/auto.h"
#include "http/json-body.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "http/route.h"
#include "json/decode.h"
#include "json/parse.h"
#include "policy/client.h"
#include "policy/policy.h"
#include "sandbox/sandbox.h"
#include "spec/spec.h"

bool api_volumes_allowed(struct http_request *req)
{
    return api_is_owner(req) || native_of(req)->config.clients->named_volumes;
}

bool api_may_have_volumes(struct http_request *req)
{
    if (api_volumes_allowed(req))
        return true;
    reply_errorf(req, -EPERM, "the client policy allows no named volumes");
    return false;
}

/* Returns the volume named by {name}; NULL: answered. Another user's is not there. */
static struct volume_entry *volume_requested(struct http_request *req)
{
    const struct caller who = native_caller(req);
    const char *name = http_param(req, "name");
    struct volume_entry *v;

    if (!api_may_have_volumes(req))
        return NULL;
    v = volume_find_for(api_supervisor(req), &who, name);
    if (v == NULL)
        reply_errorf(req, -ENOENT, "volume '%.128s': there is none of this name", name);
    return v;
}

/* ---- JSON ---- */

static json_t *encode_labels(const struct volume_entry *v)
{
    json_t *labels = json_object();

    for (char *const *l = volume_labels(v); *l != NULL && labels != NULL; l++) {
        size_t key = strcspn(*l, "=");

        if (json_object_setn_new(labels, *l, key, json_string(*l + key + 1)) < 0) {
            json_decref(labels);
            return NULL;
        }
    }
    return labels;
}

json_t *volume_encode(const struct volume_entry *v)
{
    const uint64_t bytes = volume_bytes(v);

    return json_pack("{s:s, s:o, s:o, s:b, s:i, s:o}", "name", volume_name(v), "createdAt",
                     api_time(volume_created_ms(v)), "labels", encode_labels(v), "anonymous",
                     (int)volume_is_anonymous(v), "users", (int)volume_users(v, NULL), "sizeBytes",
                     bytes != 0 ? json_integer((json_int_t)bytes) : json_null());
}

/* ---- list, show ---- */

struct native_volumes_list_query {
    struct query_list labels, names;
};

static const struct query_field list_fields[] = {
    {.name = "label",
     .type = QUERY_LIST,
     .off = offsetof(struct native_volumes_list_query, labels)},
    {.name = "name", .type = QUERY_LIST, .off = offsetof(struct native_volumes_list_query, names)},
    {0},
};

/* Matches all labels, and a part of any name. */
static bool volume_matches(const struct volume_entry *v, const struct native_volumes_list_query *q)
{
    bool named = q->names.count == 0;

    for (size_t i = 0; i < q->labels.count; i++)
        if (!volume_has_label(v, q->labels.values[i]))
            return false;
    for (size_t i = 0; i < q->names.count; i++)
        named |= strstr(volume_name(v), q->names.values[i]) != NULL;
    return named;
}

static void list_volumes(struct http_request *req)
{
    const struct caller who = native_caller(req);
    struct native_volumes_list_query q = {0};
    struct err err = ERR_NONE;
    json_t *list;

    if (!api_may_have_volumes(req))
        return;
    if (http_query(req, list_fields, &q, &err) < 0) {
        reply_error(req, &err);
        return;
    }
    list = json_array();
    for (struct volume_entry *v = volume_first(api_supervisor(req)); v != NULL && list != NULL;
         v = volume_next(v)) {
        if (!volume_is_ready(v) || !volume_may_use(v, &who) || !volume_matches(v, &q))
            continue;
        if (json_array_append_new(list, volume_encode(v)) < 0) {
            json_decref(list);
            list = NULL;
        }
    }
    reply_json(req, 200, list != NULL ? json_pack("{s:o}", "volumes", list) : NULL);
}

static void inspect_volume(struct http_request *req)
{
    struct volume_entry *v = volume_requested(req);

    if (v != NULL)
        reply_json(req, 200, volume_encode(v));
}

/* ---- make ---- */

struct volume_create_body {
    char *name;           /* owned */
    struct jpair *labels; /* owned */
    int64_t bytes;        /* 0: not given */
};

static const struct jfield create_fields[] = {
    {.name = "name",
     .decode = j_string,
     .off = offsetof(struct volume_create_body, name),
     .min = 1,
     .max = VOLUME_NAME_MAX,
     .nullable = true},
    {.name = "labels",
     .decode = j_string_map,
     .off = offsetof(struct volume_create_body, labels),
     .max = VOLUME_LABELS_MAX,
     .nullable = true},
    {.name = "sizeBytes",
     .decode = j_int64,
     .off = offsetof(struct volume_create_body, bytes),
     .min = LIMIT_DISK_MIN,
     .max = LIMIT_DISK_MAX,
     .nullable = true},
    {0},
};

static void create_done(struct volume_create_body *b)
{
    json_pairs_free(b->labels);
    free(b->name);
}

static void on_volume_created(void *data, int r, struct volume_entry *v, const struct err *err)
{
    struct api_call *call = data;
    auto_ptr(json_decref) json_t *root = NULL;
    auto_free char *text = NULL;
    char location[sizeof("/v1/volumes/") + VOLUME_NAME_MAX];
    const struct http_header headers[] = {{"Location", location}, {NULL, NULL}};

    if (r < 0) {
        api_call_fail(call, err);
        return;
    }
    root = volume_encode(v);
    text = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
    if (text == NULL) {
        reply_json(call->req, 201, NULL); /* NULL makes it answer 503 */
        api_call_free(call);
        return;
    }
    (void)snprintf(location, sizeof(location), "/v1/volumes/%s", volume_name(v));
    audit_add(call->req, "made", volume_name(v));
    http_reply(call->req, 201, headers, "application/json", text, strlen(text));
    api_call_free(call);
}

static void create_volume(struct http_request *req)
{
    struct volume_create_body b __attribute__((cleanup(create_done))) = {NULL, NULL, 0};
    const struct caller who = native_caller(req);
    struct api_call *call;
    struct err err = ERR_NONE;
    struct volume_params params = {0};
    char **labels = NULL;

    if (!api_may_have_volumes(req))
        return;
    if (json_body(req, create_fields, &b, &err) < 0 || http_query(req, NULL, NULL, &err) < 0 ||
        api_labels(b.labels, &labels, &err) < 0) {
        reply_error(req, &err);
        return;
    }
    params = (struct volume_params){.name = b.name, .labels = labels, .bytes = (uint64_t)b.bytes};
    call = api_call_new(req, NULL);
    if (call != NULL && volume_create(call->sup, &params, &who, on_volume_created, call, &err) < 0)
        api_call_fail(call, &err);
    json_strings_free(labels);
}

/* ---- remove ---- */

static void on_volume_removed(void *data, int r, struct volume_entry *v, const struct err *err)
{
    (void)v;
    api_done_empty(data, r, err);
}

static void delete_volume(struct http_request *req)
{
    struct volume_entry *v = volume_requested(req);
    struct api_call *call;
    struct err err = ERR_NONE;

    if (v == NULL)
        return;
    if (http_query(req, NULL, NULL, &err) < 0) {
        reply_error(req, &err);
        return;
    }
    call = api_call_new(req, NULL);
    if (call != NULL && volume_remove(v, on_volume_removed, call, &err) < 0)
        api_call_fail(call, &err);
}

/* ---- prune ---- */

struct volume_prune_body {
    bool all;
    char **labels; /* owned */
};

static const struct jfield prune_fields[] = {
    {.name = "all",
     .decode = j_bool,
     .off = offsetof(struct volume_prune_body, all),
     .nullable = true},
    {.name = "labels",
     .decode = j_strings,
     .off = offsetof(struct volume_prune_body, labels),
     .max = VOLUME_LABELS_MAX,
     .nullable = true},
    {0},
};

static void reply_names(struct http_request *req, char *const *names)
{
    json_t *list = json_array();

    for (; names != NULL && *names != NULL && list != NULL; names++)
        if (json_array_append_new(list, json_string(*names)) < 0) {
            json_decref(list);
            list = NULL;
        }
    reply_json(req, 200, list != NULL ? json_pack("{s:o}", "removed", list) : NULL);
}

static void on_volumes_pruned(void *data, int r, char *const *names, const struct err *err)
{
    struct api_call *call = data;

    (void)r;
    (void)err;
    reply_names(call->req, names);
    api_call_free(call);
}

static void prune_volumes(struct http_request *req)
{
    const struct caller who = native_caller(req);
    struct volume_prune_body b = {false, NULL};
    struct api_call *call;
    struct err err = ERR_NONE;
    int r;

    if (!api_may_have_volumes(req))
        return;
    if (json_body(req, prune_fields, &b, &err) < 0 || http_query(req, NULL, NULL, &err) < 0) {
        reply_error(req, &err);
        json_strings_free(b.labels);
        return;
    }
    call = api_call_new(req, NULL);
    if (call != NULL) {
        r = volume_prune(call->sup, &who, b.all, b.labels, on_volumes_pruned, call, &err);
        if (r < 0)
            api_call_fail(call, &err);
        else if (r > 0)
            on_volumes_pruned(call, 0, NULL, NULL);
    }
    json_strings_free(b.labels);
}

/* clang-format off */
const struct route native_volume_routes[] = {
    {"GET",    "/v1/volumes",        list_volumes,   0, 0},
    {"POST",   "/v1/volumes",        create_volume,  ROUTE_BODY, 0},
    {"POST",   "/v1/volumes/prune",  prune_volumes,  ROUTE_BODY, 0},
    {"GET",    "/v1/volumes/{name}", inspect_volume, 0, 0},
    {"DELETE", "/v1/volumes/{name}", delete_volume,  0, 0},
    {0},
};
/* clang-format on */
