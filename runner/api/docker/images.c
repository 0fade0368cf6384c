/* /images: a translation to images/images.h. */
#include "images/images.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/docker/common.h"
#include "api/docker/docker-routes.h"
#include "api/docker/filters.h"
#include "api/docker/image-json.h"
#include "api/docker/images.h"
#include "api/native/images.h"
#include "base/auto.h"
#include "base/err.h"
#include "http/reply.h"
#include "http/route-query.h"

/* Sends the error of a callback; 404 in the words that clients search for. */
void docker_image_fail(struct http_request *req, const char *name, int r, const struct err *err)
{
    struct err own = ERR_NONE;

    if (r == -ENOENT)
        (void)err_set(&own, r, "No such image: %.255s", name);
    else if (err == NULL || err->code == 0)
        (void)err_errno(&own, r, "image %.255s", name);
    reply_error(req, own.code < 0 ? &own : err);
}

/* ---- list ---- */

struct docker_images_list_query {
    const char *all, *digests, *filters, *shared, *manifests, *filter;
    const char *only_ids; /* sent by docker-py; no longer a parameter of Docker */
};

#define FLAG(key, member)                                                                          \
    {                                                                                              \
        .name = (key), .type = QUERY_STRING,                                                       \
        .off = offsetof(struct docker_images_list_query, member)                                   \
    }

static const struct query_field list_fields[] = {FLAG("all", all),
                                                 FLAG("digests", digests),
                                                 FLAG("filters", filters),
                                                 FLAG("shared-size", shared),
                                                 FLAG("manifests", manifests),
                                                 FLAG("filter", filter),
                                                 FLAG("only_ids", only_ids),
                                                 {0}};

struct docker_image_listing {
    struct http_request *req;
    struct filters *filters; /* owned */
};

/* Matches patterns such as "name*". */
static bool name_matches(const char *name, const struct filters *f)
{
    const char *wanted;

    for (size_t i = 0; (wanted = filters_get(f, "reference", i)) != NULL; i++)
        if (docker_glob_name(wanted, name))
            return true;
    return filters_get(f, "reference", 0) == NULL;
}

static bool matches_reference(const struct image *image, const struct filters *f)
{
    for (char **n = image->names; n != NULL && *n != NULL; n++) {
        char text[REFERENCE_MAX + 1];

        reference_shorten(*n, text);
        if (name_matches(text, f))
            return true;
    }
    return filters_get(f, "reference", 0) == NULL;
}

/* Keeps only the names that match the filters. Takes line. */
static json_t *line_keep_names(json_t *line, const struct filters *f)
{
    json_t *names = json_object_get(line, "RepoTags");

    for (size_t i = json_array_size(names); i-- > 0;)
        if (!name_matches(json_string_value(json_array_get(names, i)), f))
            (void)json_array_remove(names, i);
    return line;
}

static bool image_matches(const struct image *image, const struct filters *f)
{
    bool dangling = image->names == NULL || image->names[0] == NULL;
    const char *asked = filters_get(f, "dangling", 0);

    return (asked == NULL || docker_bool(asked) == dangling) && matches_reference(image, f) &&
           filters_match_labels(f, image->config != NULL ? image->config->labels : NULL);
}

static void on_images_list(void *data, int r, struct image **list, size_t count,
                           const struct err *err)
{
    struct docker_image_listing *l = data;
    json_t *array;

    if (r < 0) {
        docker_image_fail(l->req, "list", r, err);
    } else {
        array = json_array();
        for (size_t i = 0; i < count; i++)
            if (image_matches(list[i], l->filters))
                (void)json_array_append_new(
                    array, line_keep_names(docker_image_line(list[i]), l->filters));
        reply_json(l->req, 200, array);
        image_list_free(list, count);
    }
    filters_free(l->filters);
    free(l);
}

static void get_images(struct http_request *req)
{
    static const char *const known[] = {"dangling", "label", "reference", NULL};
    struct docker_images_list_query q = {0};
    struct docker_image_listing *l;
    struct err err = ERR_NONE;
    int r;

    l = calloc(1, sizeof(*l));
    if (l == NULL) {
        reply_errorf(req, -ENOMEM, "out of memory");
        return;
    }
    r = http_query_known(req, list_fields, &q, &err);
    if (r == 0)
        r = filters_parse(q.filters, known, &l->filters, &err);
    if (r == 0) {
        l->req = req;
        r = images_list(native_images(req), IMAGE_VIEW(req), on_images_list, l, &err);
        if (r < 0)
            filters_free(l->filters);
    }
    if (r < 0) {
        reply_error(req, &err);
        free(l);
    }
}

/* ---- one ---- */

typedef json_t *encode_fn(const struct image *image);

struct docker_image_search {
    struct http_request *req;
    encode_fn *encode;
    const char *platform; /* of the request; NULL: any */
};

static void search_reply(const struct docker_image_search *f, const struct image *image)
{
    enum { NO_CONTAINER = 45 }; /* since 1.45 an image says nothing of its build's container */
    json_t *root = f->encode(image);

    if (f->encode == docker_image && root != NULL && docker_is_older(f->req, NO_CONTAINER) &&
        !docker_image_add_container(root, image)) {
        json_decref(root);
        root = NULL;
    }
    reply_json(f->req, 200, root);
}

static void on_image_found(void *data, int r, struct image *found, const struct err *err)
{
    auto_ptr(image_free) struct image *image = found;
    struct docker_image_search *f = data;

    if (r < 0)
        docker_image_fail(f->req, http_param(f->req, "name"), r, err);
    else if (!docker_is_image_platform(f->platform, image))
        reply_errorf(f->req, -ENOENT, "image %.255s is of another platform than %.128s",
                     http_param(f->req, "name"), f->platform);
    else
        search_reply(f, image);
    free(f);
}

struct one_query {
    const char *manifests, *platform, *size;
};

static const struct query_field one_fields[] = {
    {.name = "manifests", .type = QUERY_STRING, .off = offsetof(struct one_query, manifests)},
    {.name = "platform", .type = QUERY_STRING, .off = offsetof(struct one_query, platform)},
    {.name = "size", .type = QUERY_STRING, .off = offsetof(struct one_query, size)},
    {0},
};

static void show_image(struct http_request *req, encode_fn *encode)
{
    struct one_query q = {0};
    struct docker_image_search *f;
    struct err err = ERR_NONE;
    int r;

    f = calloc(1, sizeof(*f));
    if (f == NULL) {
        reply_errorf(req, -ENOMEM, "out of memory");
        return;
    }
    r = http_query_known(req, one_fields, &q, &err);
    if (r == 0) {
        *f = (struct docker_image_search){.req = req, .encode = encode, .platform = q.platform};
        r = images_find(native_images(req), IMAGE_VIEW(req), http_param(req, "name"),
                        on_image_found, f, &err);
    }
    if (r < 0) {
        docker_image_fail(req, http_param(req, "name"), r, &err);
        free(f);
    }
}

static void get_image(struct http_request *req)
{
    show_image(req, docker_image);
}

static void get_image_history(struct http_request *req)
{
    show_image(req, docker_image_history);
}

/* ---- tag, remove, prune ---- */

static void on_image_tagged(void *data, int r, const struct err *err)
{
    struct http_request *req = data;

    if (r < 0)
        docker_image_fail(req, http_param(req, "name"), r, err);
    else
        reply_empty(req, 201);
}

struct tag_query {
    const char *repo, *tag;
};

static const struct query_field tag_fields[] = {
    {.name = "repo",
     .type = QUERY_STRING,
     .off = offsetof(struct tag_query, repo),
     .min = 1,
     .max = REFERENCE_NAME_MAX,
     .required = true},
    {.name = "tag", .type = QUERY_STRING, .off = offsetof(struct tag_query, tag), .max = 256},
    {0},
};

static void post_image_tag(struct http_request *req)
{
    char name[REFERENCE_MAX + 1];
    struct tag_query q = {0};
    struct err err = ERR_NONE;
    int r;

    if (!api_may_load(req))
        return;
    r = http_query_known(req, tag_fields, &q, &err);
    if (r == 0) {
        docker_join_name(q.repo, q.tag, name);
        r = images_tag(native_images(req), IMAGE_VIEW(req), http_param(req, "name"), name,
                       on_image_tagged, req, &err);
    }
    if (r < 0)
        docker_image_fail(req, http_param(req, "name"), r, &err);
}

static bool append_names(json_t *list, const char *key, const char *const *names)
{
    for (; names != NULL && *names != NULL; names++) {
        char text[REFERENCE_MAX + 1];

        reference_shorten(*names, text);
        if (json_array_append_new(list, json_pack("{s:s}", key, text)) < 0)
            return false;
    }
    return true;
}

static void on_image_removed(void *data, int r, const struct images_removed *removed,
                             const struct err *err)
{
    struct http_request *req = data;
    json_t *list;

    if (r < 0) {
        docker_image_fail(req, http_param(req, "name"), r, err);
        return;
    }
    list = json_array();
    (void)append_names(list, "Untagged", removed->untagged);
    (void)append_names(list, "Deleted", removed->deleted);
    reply_json(req, 200, list);
}

struct docker_images_remove_query {
    const char *force, *no_prune, *platforms;
};

static const struct query_field remove_fields[] = {
    {.name = "force",
     .type = QUERY_STRING,
     .off = offsetof(struct docker_images_remove_query, force),
     .max = 16},
    {.name = "noprune",
     .type = QUERY_STRING,
     .off = offsetof(struct docker_images_remove_query, no_prune),
     .max = 16},
    {.name = "platforms",
     .type = QUERY_STRING,
     .off = offsetof(struct docker_images_remove_query, platforms)},
    {0},
};

static void delete_image(struct http_request *req)
{
    struct docker_images_remove_query q = {0};
    struct err err = ERR_NONE;
    int r;

    if (!api_may_remove(req))
        return;
    r = http_query_known(req, remove_fields, &q, &err);
    if (r == 0 && q.platforms != NULL)
        r = err_set(&err, -EOPNOTSUPP, "platforms: an image has one; remove it by its name");
    if (r == 0)
        r = images_remove(native_images(req), IMAGE_VIEW(req), http_param(req, "name"),
                          docker_bool(q.force), on_image_removed, req, &err);
    if (r < 0)
        docker_image_fail(req, http_param(req, "name"), r, &err);
}

/* What a prune frees is the difference of the disk use before and after: an unpacked layer has no
 * size of its own in the result of the removal. */
struct images_prune {
    struct http_request *req;
    struct filters *f; /* owned */
    int64_t until_ms;  /* images made later stay */
    bool all;
    int64_t before; /* bytes of archives and unpacked layers */
    int64_t bytes;  /* of the removed archives */
    json_t *list;   /* owned */
};

static void images_prune_free(struct images_prune *p)
{
    filters_free(p->f);
    json_decref(p->list);
    free(p);
}

static void images_prune_fail(struct images_prune *p, int r, const struct err *err)
{
    docker_image_fail(p->req, "prune", r, err);
    images_prune_free(p);
}

/* As in Docker an image is judged by its own time, which its maker has said. */
static bool prune_wants(const void *data, const struct image *image)
{
    const struct images_prune *p = data;

    return image->created_ms <= p->until_ms &&
           filters_match_labels(p->f, image->config != NULL ? image->config->labels : NULL);
}

/* An image that was loaded meanwhile makes the difference smaller. */
static void images_prune_reply(struct images_prune *p, int64_t after)
{
    int64_t freed = p->before - after > p->bytes ? p->before - after : p->bytes;

    reply_json(
        p->req, 200,
        json_pack("{s:O, s:I}", "ImagesDeleted", p->list, "SpaceReclaimed", (json_int_t)freed));
    images_prune_free(p);
}

static void on_usage_after_prune(void *data, int r, const struct images_usage *u,
                                 const struct err *err)
{
    struct images_prune *p = data;

    (void)err; /* the images are gone: the answer has the size of their archives */
    images_prune_reply(p, r == 0 ? u->blob_bytes + u->layer_bytes : p->before);
}

static void on_images_pruned(void *data, int r, const struct images_removed *removed,
                             const struct err *err)
{
    struct images_prune *p = data;

    if (r < 0) {
        images_prune_fail(p, r, err);
        return;
    }
    (void)append_names(p->list, "Untagged", removed->untagged);
    (void)append_names(p->list, "Deleted", removed->deleted);
    p->bytes = removed->bytes;
    if (images_usage(native_images(p->req), IMAGE_VIEW(p->req), on_usage_after_prune, p, NULL) < 0)
        images_prune_reply(p, p->before);
}

static void on_usage_before_prune(void *data, int r, const struct images_usage *u,
                                  const struct err *err)
{
    struct images_prune *p = data;
    const struct images_filter filter = {.wanted = prune_wants, .data = p};
    struct err own = ERR_NONE;

    if (r == 0) {
        p->before = u->blob_bytes + u->layer_bytes;
        r = images_prune(native_images(p->req), IMAGE_VIEW(p->req), p->all, &filter,
                         on_images_pruned, p, &own);
        err = &own;
    }
    if (r < 0)
        images_prune_fail(p, r, err);
}

/* Takes f. */
static int images_prune_start(struct http_request *req, struct filters *f, struct err *err)
{
    struct images_prune *p = calloc(1, sizeof(*p));
    const char *dangling = filters_get(f, "dangling", 0);
    int r;

    if (p == NULL) {
        filters_free(f);
        return err_errno(err, -ENOMEM, "prune");
    }
    *p = (struct images_prune){.req = req,
                               .f = f,
                               .all = dangling != NULL && !docker_bool(dangling),
                               .list = json_array()};
    r = docker_filters_until(f, &p->until_ms, err);
    if (r == 0)
        r = images_usage(native_images(req), IMAGE_VIEW(req), on_usage_before_prune, p, err);
    if (r < 0)
        images_prune_free(p);
    return r;
}

/* Like Docker removes images without name, or with dangling=false all unused images. */
static void post_images_prune(struct http_request *req)
{
    static const char *const known[] = {"dangling", "label", "label!", "until", NULL};
    struct filters *f = NULL;
    struct docker_images_list_query q = {0};
    struct err err = ERR_NONE;
    int r;

    if (!api_may_remove(req))
        return;
    r = http_query_known(req, list_fields, &q, &err);
    if (r == 0)
        r = filters_parse(q.filters, known, &f, &err);
    if (r == 0)
        r = images_prune_start(req, f, &err);
    if (r < 0)
        reply_error(req, &err);
}

static void no_push(struct http_request *req)
{
    reply_errorf(req, -EOPNOTSUPP, "images are not pushed to registries yet; docker save them");
}

/* ---- the table ---- */

/* clang-format off */
const struct route docker_image_routes[] = {
    {"GET",    "/images/json",              get_images,          0, 0},
    {"POST",   "/images/load",              docker_post_load,  ROUTE_STREAM, 0},
    {"POST",   "/images/create",            docker_post_image_create, ROUTE_STREAM, 0},
    {"POST",   "/images/prune",             post_images_prune,        ROUTE_BODY, 0},
    {"GET",    "/images/get",               docker_get_save,   0, 0},
    {"GET",    "/images/{name...}/json",    get_image,       0, 0},
    {"GET",    "/images/{name...}/history", get_image_history,       0, 0},
    {"GET",    "/images/{name...}/get",     docker_get_save_one, 0, 0},
    {"POST",   "/images/{name...}/tag",     post_image_tag,          ROUTE_BODY, 0},
    {"POST",   "/images/{name...}/push",    no_push,           ROUTE_BODY, 0},
    {"DELETE", "/images/{name...}",         delete_image,      0, 0},
    {0},
};
/* clang-format on */
