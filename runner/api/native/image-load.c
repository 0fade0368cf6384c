/* POST /v1/images/load and …/import: the body is an archive, the reply JSON lines with progress.
 * The last line is {"done":true} or {"error":…}, as the status is sent before the result is
 * known. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "api/common.h"
#include "api/native/images.h"
#include "base/auto.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "images/images.h"

struct native_image_load_query {
    const char *name, *message;
    struct query_list changes;
};

#define FIELD(key, kind, member, ...)                                                              \
    {                                                                                              \
        .name = (key), .type = (kind), .off = offsetof(struct native_image_load_query, member),    \
        __VA_ARGS__                                                                                \
    }

static const struct query_field load_fields[] = {
    FIELD("name", QUERY_STRING, name, .min = 1, .max = REFERENCE_MAX), {0}};
static const struct query_field import_fields[] = {
    FIELD("name", QUERY_STRING, name, .min = 1, .max = REFERENCE_MAX),
    FIELD("message", QUERY_STRING, message, .max = 4096),
    FIELD("change", QUERY_LIST, changes),
    {0}};

static void load_write_line(struct http_request *req, json_t *root)
{
    /* Out of memory: a lost progress line does not matter; a lost last line looks truncated. */
    (void)reply_json_line(req, root, "\n");
}

static void on_load_progress(void *data, const struct image_progress *p)
{
    struct http_request *req = data;
    json_t *root = json_pack("{s:s, s:I}", "stage", p->stage, "bytes", (json_int_t)p->done);
    char name[REFERENCE_MAX + 1];

    if (p->total > 0)
        (void)json_object_set_new(root, "total", json_integer(p->total));
    if (p->id[0] != '\0')
        (void)json_object_set_new(root, "id", json_string(p->id));
    if (p->name[0] != '\0') {
        reference_shorten(p->name, name);
        (void)json_object_set_new(root, "name", json_string(name));
    }
    if (p->layers > 0) {
        (void)json_object_set_new(root, "layer", json_integer(p->layer));
        (void)json_object_set_new(root, "layers", json_integer(p->layers));
    }
    load_write_line(req, root);
}

static void on_load_drain(void *data)
{
    http_body_resume(data);
}

static void on_load_done(void *data, int r, const struct err *err)
{
    struct http_request *req = data;

    req->data = NULL;
    req->error = r;
    if (r < 0)
        load_write_line(req, reply_encode_error(err));
    else
        load_write_line(req, json_pack("{s:b}", "done", 1));
    http_end(req);
}

static const struct image_load_events events = {
    .on_progress = on_load_progress, .on_drain = on_load_drain, .on_done = on_load_done};

static void on_load_body(struct http_request *req, const char *data, size_t len)
{
    if (req->data == NULL)
        return; /* already ended: discard */
    if (len == 0)
        image_load_end(req->data);
    else if (image_load_write(req->data, data, len))
        http_body_pause(req);
}

static void on_load_gone(struct http_request *req)
{
    image_load_cancel(req->data);
    req->data = NULL;
    http_abort(req);
}

static void load_begin(struct http_request *req, struct image_load *l)
{
    req->data = l;
    req->on_gone = on_load_gone;
    http_body_start(req, on_load_body); /* first, as it may send "100 Continue" */
    http_start(req, 200, NULL, "application/jsonl");
}

void image_post_load(struct http_request *req)
{
    struct native_image_load_query q = {.name = NULL};
    struct image_load *l = NULL;
    struct err err = ERR_NONE;
    int r;

    if (!api_may_load(req))
        return;
    r = http_query(req, load_fields, &q, &err);
    if (r == 0)
        r = images_load(native_images(req), IMAGE_VIEW(req), q.name, &events, req, &l, &err);
    if (r < 0)
        reply_error(req, &err);
    else
        load_begin(req, l);
}

void image_post_import(struct http_request *req)
{
    struct native_image_load_query q = {.name = NULL};
    const char *changes[QUERY_LIST_MAX + 1];
    struct image_import import = {.changes = changes};
    struct image_load *l = NULL;
    struct err err = ERR_NONE;
    int r;

    if (!api_may_load(req))
        return;
    r = http_query(req, import_fields, &q, &err);
    for (size_t i = 0; i < q.changes.count; i++)
        changes[i] = q.changes.values[i];
    changes[q.changes.count] = NULL;
    import.name = q.name;
    import.message = q.message;
    if (r == 0)
        r = images_import(native_images(req), IMAGE_VIEW(req), &import, &events, req, &l, &err);
    if (r < 0)
        reply_error(req, &err);
    else
        load_begin(req, l);
}
