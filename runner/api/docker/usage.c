/* /system/df: images, containers and volumes, their use, and the disk space of all images
 * (archives and unpacked layers). It is unknown which layers images share, without reading all
 * manifests. So SharedSize is -1, which is Docker's "not counted". What containers and volumes
 * have written is counted by sizes.h. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "api/docker/common.h"
#include "api/docker/containers.h"
#include "api/docker/docker-routes.h"
#include "api/docker/image-json.h"
#include "api/docker/images.h"
#include "api/docker/sizes.h"
#include "api/docker/volumes.h"
#include "api/native/images.h"
#include "api/native/volumes.h"
#include "base/auto.h"
#include "base/err.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "images/images.h"

enum {
    KIND_CONTAINER = 1 << 0,
    KIND_IMAGE = 1 << 1,
    KIND_VOLUME = 1 << 2,
    KIND_CACHE = 1 << 3, /* always empty */
    KIND_ALL = (1 << 4) - 1,
};

static const struct {
    const char *name;
    unsigned bit;
} kinds[] = {{"container", KIND_CONTAINER},
             {"image", KIND_IMAGE},
             {"volume", KIND_VOLUME},
             {"build-cache", KIND_CACHE}};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

struct measuring {
    struct http_request *req;
    unsigned wanted;     /* KIND_… */
    struct image **list; /* owned */
    size_t count;
    json_t *answer; /* owned */
};

static void measuring_free(struct measuring *m)
{
    image_list_free(m->list, m->count);
    json_decref(m->answer);
    free(m);
}

/* ---- images ---- */

/* Counts the containers per image that the peer sees. */
static json_t *count_image_uses(struct http_request *req)
{
    json_t *uses = json_object();

    for (struct sandbox *s = sandbox_first(api_supervisor(req)); s != NULL; s = sandbox_next(s)) {
        const struct spec *spec = sandbox_spec(s);

        if (spec != NULL && spec->image_id != NULL && api_may_see(req, s))
            (void)docker_put(
                uses, spec->image_id,
                json_integer(json_integer_value(json_object_get(uses, spec->image_id)) + 1));
    }
    return uses;
}

static json_t *encode_images(const struct measuring *m)
{
    auto_ptr(json_decref) json_t *uses = count_image_uses(m->req);
    json_t *list = json_array();

    for (size_t i = 0; i < m->count; i++) {
        json_t *line = docker_image_line(m->list[i]);
        json_int_t count = json_integer_value(json_object_get(uses, m->list[i]->id));

        (void)docker_put(line, "Containers", json_integer(count));
        (void)json_array_append_new(list, line);
    }
    return list;
}

/* ---- containers and volumes of the peer ---- */

static json_t *encode_containers(struct http_request *req)
{
    json_t *list = json_array();

    for (struct sandbox *s = sandbox_first(api_supervisor(req)); s != NULL; s = sandbox_next(s))
        if (api_may_see(req, s))
            (void)json_array_append_new(list, docker_container_line(s));
    return list;
}

static json_t *encode_volumes(struct http_request *req)
{
    const struct caller who = native_caller(req);
    json_t *list = json_array();
    struct sandbox *first;

    if (!api_volumes_allowed(req))
        return list;
    for (struct volume_entry *v = volume_first(api_supervisor(req)); v != NULL;
         v = volume_next(v)) {
        json_t *line;

        if (!volume_is_ready(v) || !volume_may_use(v, &who))
            continue;
        line = docker_volume(v);
        (void)docker_put(
            line, "UsageData",
            json_pack("{s:i, s:I}", "Size", -1, "RefCount", (json_int_t)volume_users(v, &first)));
        (void)json_array_append_new(list, line);
    }
    return list;
}

/* ---- the request ---- */

static void on_usage_sized(void *data)
{
    struct measuring *m = data;

    reply_json(m->req, 200, json_incref(m->answer));
    measuring_free(m);
}

/* Kinds that were not requested are null, like in Docker. */
static void on_images_usage(void *data, int r, const struct images_usage *u, const struct err *err)
{
    struct measuring *m = data;
    struct http_request *req = m->req;
    struct docker_sizes what = {.prune = false};
    struct err own = ERR_NONE;

    if (r == 0) {
        m->answer = json_pack(
            "{s:I, s:o, s:o, s:o, s:[]}", "LayersSize",
            (m->wanted & KIND_IMAGE) != 0 ? (json_int_t)(u->blob_bytes + u->layer_bytes) : 0,
            "Images", (m->wanted & KIND_IMAGE) != 0 ? encode_images(m) : json_null(), "Containers",
            (m->wanted & KIND_CONTAINER) != 0 ? encode_containers(req) : json_null(), "Volumes",
            (m->wanted & KIND_VOLUME) != 0 ? encode_volumes(req) : json_null(), "BuildCache");
        what.containers = json_object_get(m->answer, "Containers");
        what.volumes = json_object_get(m->answer, "Volumes");
        r = m->answer != NULL ? docker_sizes_put(req, &what, on_usage_sized, m, &own)
                              : err_errno(&own, -ENOMEM, "disk use");
        err = &own;
    }
    if (r == 0)
        return;
    reply_error(req, err);
    measuring_free(m);
}

static void on_usage_images(void *data, int r, struct image **list, size_t count,
                            const struct err *err)
{
    struct measuring *m = data;
    struct err own = ERR_NONE;

    if (r < 0) {
        docker_image_fail(m->req, "list", r, err);
        free(m);
        return;
    }
    m->list = list;
    m->count = count;
    if (images_usage(native_images(m->req), IMAGE_VIEW(m->req), on_images_usage, m, &own) < 0) {
        reply_error(m->req, &own);
        measuring_free(m);
    }
}

struct usage_query {
    struct query_list types;
    const char *verbose;
};

static const struct query_field fields[] = {
    {.name = "type", .type = QUERY_LIST, .off = offsetof(struct usage_query, types)},
    {.name = "verbose",
     .type = QUERY_STRING,
     .off = offsetof(struct usage_query, verbose),
     .max = 16},
    {0},
};

static int query_read_types(const struct query_list *types, unsigned *ret, struct err *err)
{
    *ret = types->count == 0 ? KIND_ALL : 0;
    for (size_t i = 0; i < types->count; i++) {
        size_t k = 0;

        while (k < KINDS && strcmp(types->values[i], kinds[k].name) != 0)
            k++;
        if (k == KINDS)
            return err_set(err, -EINVAL, "type: \"%.64s\": container, image, volume, build-cache",
                           types->values[i]);
        *ret |= kinds[k].bit;
    }
    return 0;
}

static void get_usage(struct http_request *req)
{
    struct usage_query q = {0};
    struct err err = ERR_NONE;
    struct measuring *m;
    unsigned wanted = 0;
    int r;

    r = http_query_known(req, fields, &q, &err);
    if (r == 0)
        r = query_read_types(&q.types, &wanted, &err);
    if (r < 0) {
        reply_error(req, &err);
        return;
    }
    m = calloc(1, sizeof(*m));
    if (m == NULL) {
        reply_errorf(req, -ENOMEM, "out of memory");
        return;
    }
    *m = (struct measuring){.req = req, .wanted = wanted};
    if (images_list(native_images(req), IMAGE_VIEW(req), on_usage_images, m, &err) < 0) {
        reply_error(req, &err);
        free(m);
    }
}

/* clang-format off */
const struct route docker_usage_routes[] = {
    {"GET", "/system/df", get_usage, 0, 0},
    {0},
};
/* clang-format on */
