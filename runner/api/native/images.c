/* /v1/images: requests that are answered with one document. Archives are in image-load.c and
 * image-save.c. */

#include "api/native/images.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "api/audit.h"
#include "api/common.h"
#include "api/native/changes.h"
#include "base/auto.h"
#include "http/json-body.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "images/images.h"
#include "json/decode.h"
#include "policy/client.h"

struct images *native_images(const struct http_request *req)
{
    return native_of(req)->config.images;
}

struct image_view native_image_view(struct http_request *req)
{
    const struct caller c = native_caller(req);

    return c.limited ? (struct image_view){.uid = c.uid} : IMAGE_VIEW_ALL;
}

static bool client_may_change_images(struct http_request *req, bool allowed, const char *what)
{
    if (allowed || api_is_owner(req))
        return true;
    reply_errorf(req, -EPERM, "images: the client policy does not allow %s", what);
    return false;
}

bool api_may_load(struct http_request *req)
{
    const struct client_policy *p = native_of(req)->config.clients;

    return client_may_change_images(req, p != NULL && p->load_images,
                                    "loading or naming some (loadImages)");
}

bool api_may_remove(struct http_request *req)
{
    const struct client_policy *p = native_of(req)->config.clients;

    return client_may_change_images(req, p != NULL && p->remove_images,
                                    "removing some (removeImages)");
}

/* ---- queries ---- */

struct image_query {
    const char *name;
    bool force, usage;
};

#define FIELD(key, kind, member, ...)                                                              \
    {                                                                                              \
        .name = (key), .type = (kind), .off = offsetof(struct image_query, member), __VA_ARGS__    \
    }
#define NAME FIELD("name", QUERY_STRING, name, .min = 1, .max = REFERENCE_MAX, .required = true)

static const struct query_field name_fields[] = {NAME, {0}};
static const struct query_field remove_fields[] = {NAME, FIELD("force", QUERY_BOOL, force), {0}};
static const struct query_field list_fields[] = {FIELD("usage", QUERY_BOOL, usage), {0}};

static bool query_decode_images(struct http_request *req, const struct query_field *fields,
                                struct image_query *q)
{
    struct err err = ERR_NONE;

    *q = (struct image_query){.name = NULL};
    if (http_query(req, fields, q, &err) == 0)
        return true;
    reply_error(req, &err);
    return false;
}

/* ---- list ---- */

static void on_images_usage(void *data, int r, const struct images_usage *u, const struct err *err)
{
    struct http_request *req = data;
    json_t *root = req->data;

    if (r < 0) {
        json_decref(root);
        reply_error(req, err);
        return;
    }
    (void)json_object_set_new(root, "usage",
                              json_pack("{s:I, s:I, s:I}", "images", (json_int_t)u->images,
                                        "blobBytes", (json_int_t)u->blob_bytes, "layerBytes",
                                        (json_int_t)u->layer_bytes));
    reply_json(req, 200, root);
}

static void on_images_list(void *data, int r, struct image **list, size_t count,
                           const struct err *err)
{
    struct http_request *req = data;
    const bool usage = req->data != NULL;
    struct err own = ERR_NONE;
    json_t *array = json_array();

    if (r < 0) {
        json_decref(array);
        reply_error(req, err);
        return;
    }
    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(array, image_encode(list[i], false));
    image_list_free(list, count);
    req->data = json_pack("{s:o}", "images", array);
    if (!usage) {
        reply_json(req, 200, req->data);
    } else if (images_usage(native_images(req), IMAGE_VIEW(req), on_images_usage, req, &own) < 0) {
        json_decref(req->data);
        reply_error(req, &own);
    }
}

static void list_images(struct http_request *req)
{
    struct err err = ERR_NONE;
    struct image_query q;

    if (!query_decode_images(req, list_fields, &q))
        return;
    req->data = q.usage ? req : NULL;
    if (images_list(native_images(req), IMAGE_VIEW(req), on_images_list, req, &err) < 0)
        reply_error(req, &err);
}

/* ---- one ---- */

static void on_image_inspect(void *data, int r, struct image *image, const struct err *err)
{
    struct http_request *req = data;

    if (r < 0)
        reply_error(req, err);
    else
        reply_json(req, 200, image_encode(image, true));
    image_free(image);
}

static void on_image_history(void *data, int r, struct image *image, const struct err *err)
{
    struct http_request *req = data;

    if (r < 0)
        reply_error(req, err);
    else
        reply_json(req, 200, json_pack("{s:o}", "history", image_encode_history(image)));
    image_free(image);
}

static void image_find_named(struct http_request *req, image_cb cb)
{
    struct err err = ERR_NONE;
    struct image_query q;

    if (!query_decode_images(req, name_fields, &q))
        return;
    if (images_find(native_images(req), IMAGE_VIEW(req), q.name, cb, req, &err) < 0)
        reply_error(req, &err);
}

static void inspect_image(struct http_request *req)
{
    image_find_named(req, on_image_inspect);
}

static void get_history(struct http_request *req)
{
    image_find_named(req, on_image_history);
}

/* ---- names and removal ---- */

struct tag_body {
    char *name, *to; /* owned */
};

static const struct jfield tag_fields[] = {
    {.name = "name",
     .decode = j_string,
     .off = offsetof(struct tag_body, name),
     .min = 1,
     .max = REFERENCE_MAX,
     .required = true},
    {.name = "newName",
     .decode = j_string,
     .off = offsetof(struct tag_body, to),
     .min = 1,
     .max = REFERENCE_MAX,
     .required = true},
    {0},
};

static void on_image_tagged(void *data, int r, const struct err *err)
{
    if (r < 0)
        reply_error(data, err);
    else
        reply_empty(data, 204);
}

static void post_tag(struct http_request *req)
{
    struct tag_body body = {.name = NULL};
    struct err err = ERR_NONE;
    int r;

    if (!api_may_load(req))
        return;
    r = json_body(req, tag_fields, &body, &err);
    if (r == 0) {
        audit_add(req, "name", body.name);
        audit_add(req, "newName", body.to);
    }
    if (r == 0)
        r = images_tag(native_images(req), IMAGE_VIEW(req), body.name, body.to, on_image_tagged,
                       req, &err);
    free(body.name);
    free(body.to);
    if (r < 0)
        reply_error(req, &err);
}

static json_t *encode_short_names(const char *const *list, bool short_names)
{
    json_t *array = json_array();
    char name[REFERENCE_MAX + 1];

    for (; *list != NULL; list++) {
        if (short_names)
            reference_shorten(*list, name);
        (void)json_array_append_new(array, json_string(short_names ? name : *list));
    }
    return array;
}

static void on_image_removed(void *data, int r, const struct images_removed *removed,
                             const struct err *err)
{
    if (r < 0)
        reply_error(data, err);
    else
        reply_json(data, 200,
                   json_pack("{s:o, s:o, s:I}", "untagged",
                             encode_short_names(removed->untagged, true), "deleted",
                             encode_short_names(removed->deleted, false), "bytes",
                             (json_int_t)removed->bytes));
}

static void delete_image(struct http_request *req)
{
    struct err err = ERR_NONE;
    struct image_query q;

    if (!api_may_remove(req) || !query_decode_images(req, remove_fields, &q))
        return;
    if (images_remove(native_images(req), IMAGE_VIEW(req), q.name, q.force, on_image_removed, req,
                      &err) < 0)
        reply_error(req, &err);
}

struct image_prune_body {
    bool all;
};

static const struct jfield prune_fields[] = {
    {.name = "all", .decode = j_bool, .off = offsetof(struct image_prune_body, all)}, {0}};

static void post_prune(struct http_request *req)
{
    struct image_prune_body body = {.all = false};
    struct err err = ERR_NONE;
    int r;

    if (!api_may_remove(req))
        return;
    r = json_body(req, prune_fields, &body, &err);
    if (r == 0)
        r = images_prune(native_images(req), IMAGE_VIEW(req), body.all, NULL, on_image_removed, req,
                         &err);
    if (r < 0)
        reply_error(req, &err);
}

/* clang-format off */
const struct route native_image_routes[] = {
    {"GET",    "/v1/images",               list_images,   0, 0},
    {"DELETE", "/v1/images",               delete_image,  0, 0},
    {"GET",    "/v1/images/inspect",       inspect_image, 0, 0},
    {"GET",    "/v1/images/history",       get_history,   0, 0},
    {"POST",   "/v1/images/tag",           post_tag,      ROUTE_BODY, 0},
    {"POST",   "/v1/images/prune",         post_prune,    ROUTE_BODY, 0},
    {"POST",   "/v1/images/load",          image_post_load,   ROUTE_STREAM, 0},
    {"POST",   "/v1/images/import",        image_post_import, ROUTE_STREAM, 0},
    {"GET",    "/v1/images/save",          image_get_save,    0, 0},
    {"GET",    "/v1/images/export",        image_get_export,  0, 0},
    {"GET",    "/v1/sandboxes/{id}/export", image_get_sandbox_export, 0, 0},
    {"GET",    "/v1/sandboxes/{id}/changes", sandbox_get_changes, 0, 0},
    {0},
};
/* clang-format on */
