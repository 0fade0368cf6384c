/* GET /v1/images/save, …/export and /v1/sandboxes/{id}/export: tar archives. */
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
#include "sandbox/sandbox.h"

struct native_image_save_query {
    struct query_list names;
    const char *name;
};

static const struct query_field save_fields[] = {
    {.name = "name", .type = QUERY_LIST, .off = offsetof(struct native_image_save_query, names)},
    {0}};
static const struct query_field export_fields[] = {
    {.name = "name",
     .type = QUERY_STRING,
     .off = offsetof(struct native_image_save_query, name),
     .min = 1,
     .max = REFERENCE_MAX,
     .required = true},
    {0}};

/* A request for an archive. */
struct image_saving {
    struct http_request *req;
    struct image_save *save; /* NULL once it has ended */
    bool started;
};

static bool on_save_bytes(void *data, const void *bytes, size_t len)
{
    struct image_saving *s = data;

    if (!s->started)
        http_start(s->req, 200, NULL, "application/x-tar");
    s->started = true;
    return http_write(s->req, bytes, len);
}

static void on_save_done(void *data, int r, const struct err *err)
{
    struct image_saving *s = data;
    struct http_request *req = s->req;

    if (s->started && r == 0)
        http_end(req);
    else if (s->started)
        http_abort(req); /* the archive is truncated: break the connection */
    else if (r < 0)
        reply_error(req, err);
    else
        reply_empty(req, 204);
    free(s);
}

static const struct image_save_events events = {.on_bytes = on_save_bytes, .on_done = on_save_done};

static void on_save_drain(struct http_request *req)
{
    struct image_saving *s = req->data;

    image_save_resume(s->save);
}

static void on_save_gone(struct http_request *req)
{
    struct image_saving *s = req->data;

    image_save_cancel(s->save);
    free(s);
    http_abort(req);
}

static struct image_saving *saving_new(struct http_request *req)
{
    struct image_saving *s = calloc(1, sizeof(*s));

    if (s == NULL) {
        reply_errorf(req, -ENOMEM, "out of memory");
        return NULL;
    }
    s->req = req;
    req->data = s;
    req->on_drain = on_save_drain;
    req->on_gone = on_save_gone;
    return s;
}

static void saving_fail(struct image_saving *s, const struct err *err)
{
    struct http_request *req = s->req;

    free(s);
    reply_error(req, err);
}

void image_get_save(struct http_request *req)
{
    const char *names[QUERY_LIST_MAX + 1];
    struct native_image_save_query q = {.name = NULL};
    struct err err = ERR_NONE;
    struct image_saving *s;
    int r;

    r = http_query(req, save_fields, &q, &err);
    if (r == 0 && q.names.count == 0)
        r = err_set(&err, -EINVAL, "name: is missing");
    if (r < 0) {
        reply_error(req, &err);
        return;
    }
    for (size_t i = 0; i < q.names.count; i++)
        names[i] = q.names.values[i];
    names[q.names.count] = NULL;
    s = saving_new(req);
    if (s != NULL &&
        images_save(native_images(req), IMAGE_VIEW(req), names, &events, s, &s->save, &err) < 0)
        saving_fail(s, &err);
}

void image_get_export(struct http_request *req)
{
    struct native_image_save_query q = {.name = NULL};
    struct err err = ERR_NONE;
    struct image_saving *s;

    if (http_query(req, export_fields, &q, &err) < 0) {
        reply_error(req, &err);
        return;
    }
    s = saving_new(req);
    if (s != NULL &&
        images_export(native_images(req), IMAGE_VIEW(req), q.name, &events, s, &s->save, &err) < 0)
        saving_fail(s, &err);
}

void image_get_sandbox_export(struct http_request *req)
{
    struct sandbox *sb = api_sandbox(req);
    struct err err = ERR_NONE;
    struct image_saving *s;

    if (sb == NULL)
        return;
    if (api_check_intact(sb, &err) < 0) {
        reply_error(req, &err);
        return;
    }
    s = saving_new(req);
    if (s != NULL && images_export_sandbox(native_images(req), sandbox_id(sb), sandbox_spec(sb),
                                           &events, s, &s->save, &err) < 0)
        saving_fail(s, &err);
}
