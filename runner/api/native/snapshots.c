/* Snapshots and clones of sandboxes. */
#include "api/native/snapshots.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "api/common.h"
#include "api/native/images.h"
#include "api/native/sandbox-attach.h"
#include "api/native/volumes.h"
#include "base/auto.h"
#include "http/json-body.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "images/snapshots.h"
#include "json/decode.h"
#include "json/parse.h"
#include "sandbox/sandbox.h"
#include "spec/json.h"
#include "spec/spec.h"
#include "volume/volumes.h"

enum { TEXT_MAX = 4096, CHANGES_MAX = 256 };

/* ---- snapshot ---- */

struct snapshot_body {
    char *name, *message, *author, *dir; /* owned */
    char **changes;                      /* owned */
    bool pause;
};

#define BODY(member) offsetof(struct snapshot_body, member)
/* clang-format off */
static const struct jfield snapshot_fields[] = {
    {.name = "name",    .decode = j_string,  .off = BODY(name),    .min = 1, .max = 512,      .nullable = true},
    {.name = "dir",     .decode = j_string,  .off = BODY(dir),     .min = 1, .max = TEXT_MAX, .nullable = true},
    {.name = "message", .decode = j_string,  .off = BODY(message), .max = TEXT_MAX,           .nullable = true},
    {.name = "author",  .decode = j_string,  .off = BODY(author),  .max = TEXT_MAX,           .nullable = true},
    {.name = "changes", .decode = j_strings, .off = BODY(changes), .max = CHANGES_MAX,        .nullable = true},
    {.name = "pause",   .decode = j_bool,    .off = BODY(pause),   .nullable = true},
    {0},
};
/* clang-format on */

static void body_done(struct snapshot_body *b)
{
    free(b->name);
    free(b->message);
    free(b->author);
    free(b->dir);
    json_strings_free(b->changes);
}

static void on_snapshot_image(void *data, int r, struct image *image, const struct err *err)
{
    struct api_call *call = data;

    if (r < 0) {
        api_done_empty(call, r, err);
        return;
    }
    reply_json(call->req, 201, image_encode(image, false));
    image_free(image);
    api_call_free(call);
}

static void on_snapshot_volume(void *data, int r, struct volume_entry *v, const struct err *err)
{
    struct api_call *call = data;

    if (r < 0) {
        api_done_empty(call, r, err);
        return;
    }
    reply_json(call->req, 201, volume_encode(v));
    api_call_free(call);
}

static int snapshot_begin(struct sandbox *s, const struct snapshot_body *b, struct api_call *call,
                          struct err *err)
{
    const struct snapshot_options o = {.name = b->name,
                                       .message = b->message,
                                       .author = b->author,
                                       .changes = (const char *const *)b->changes,
                                       .no_pause = !b->pause};
    const struct caller who = native_caller(call->req);

    if (b->dir == NULL)
        return sandbox_snapshot(s, IMAGE_VIEW(call->req), &o, on_snapshot_image, call, err);
    if (b->message != NULL || b->author != NULL || b->changes != NULL)
        return err_set(err, -EINVAL,
                       "dir: makes a volume, which has no message, author or changes");
    return sandbox_snapshot_dir(s, b->dir, b->name, &who, on_snapshot_volume, call, err);
}

void sandbox_post_snapshot(struct http_request *req)
{
    struct snapshot_body b __attribute__((cleanup(body_done))) = {.pause = true};
    struct sandbox *s = api_sandbox(req);
    struct api_call *call;
    struct err err = ERR_NONE;

    if (s == NULL)
        return;
    if (json_body(req, snapshot_fields, &b, &err) < 0 || http_query(req, NULL, NULL, &err) < 0) {
        reply_error(req, &err);
        return;
    }
    /* Images are visible to all users, and their names are shared, so the right to load images
     * is needed. */
    if (b.dir != NULL ? !api_may_have_volumes(req) : !api_may_load(req))
        return;
    call = api_call_new(req, s);
    if (call != NULL && snapshot_begin(s, &b, call, &err) < 0)
        api_call_fail(call, &err);
}

/* ---- clone ---- */

struct clone_body {
    char *name; /* owned */
    bool start;
};

static const struct jfield clone_fields[] = {
    {.name = "name",
     .decode = j_string,
     .off = offsetof(struct clone_body, name),
     .min = 1,
     .max = SPEC_NAME_MAX,
     .nullable = true},
    {.name = "start", .decode = j_bool, .off = offsetof(struct clone_body, start)},
    {0},
};

/* A clone that waits for its snapshot. */
struct clone {
    struct http_request *req;
    json_t *spec; /* owned: the clone's spec without image */
    bool start;
};

static void clone_free(struct clone *c)
{
    json_decref(c->spec);
    free(c);
}

/* An anonymous volume belongs to the sandbox, so the clone gets a copy. Other volumes are
 * shared. */
static void clone_volumes(struct supervisor *sup, json_t *volumes)
{
    json_t *v;
    size_t i;

    json_array_foreach(volumes, i, v) {
        const char *source = json_string_value(json_object_get(v, "source"));
        const struct volume_entry *e =
            source != NULL && strchr(source, '/') == NULL ? volume_find(sup, source) : NULL;

        if (e == NULL || !volume_is_anonymous(e))
            continue;
        (void)json_object_set(v, "from", json_object_get(v, "source"));
        (void)json_object_del(v, "source");
        (void)json_object_del(v, "noCopy");
    }
}

/* A host name that is the container's own short id was not asked for: the clone gets its own. */
static void clone_hostname(const struct sandbox *s, json_t *root)
{
    const char *name = json_string_value(json_object_get(root, "hostname"));

    if (name != NULL && strlen(name) == SANDBOX_SHORT_ID &&
        strncmp(name, sandbox_id(s), SANDBOX_SHORT_ID) == 0)
        (void)json_object_del(root, "hostname");
}

/* Makes the spec of a clone: the request's settings, the snapshot's image, and new host ports. */
static int clone_spec(struct supervisor *sup, const struct sandbox *s, const struct clone_body *b,
                      json_t **ret, struct err *err)
{
    static const char *const gone[] = {"name",  "imageId", "imageLayers",
                                       "image", "command", "entrypoint"};
    auto_ptr(json_decref) json_t *root = NULL;
    json_t *port;
    size_t i;
    int r = sandbox_check_readable(s, err);

    if (r == 0)
        r = spec_to_json(sandbox_spec(s), &root, err);
    if (r < 0)
        return r;
    for (i = 0; i < sizeof(gone) / sizeof(gone[0]); i++)
        (void)json_object_del(root, gone[i]);
    if (b->name != NULL && json_object_set_new(root, "name", json_string(b->name)) < 0)
        return err_errno(err, -ENOMEM, "clone");
    json_array_foreach(json_object_get(root, "ports"), i, port) {
        (void)json_object_set_new(port, "hostPort", json_integer(0));
        (void)json_object_del(port, "hostPortLast");
    }
    clone_volumes(sup, json_object_get(root, "volumes"));
    clone_hostname(s, root);
    *ret = take(root);
    return 0;
}

static void on_clone_image(void *data, int r, struct image *image, const struct err *err)
{
    static const struct attach_options none;
    struct clone *c = data;
    struct http_request *req = c->req;
    auto_ptr(spec_free) struct spec *spec = NULL;
    struct err own = ERR_NONE;
    bool start = c->start;

    if (image == NULL)
        r = err != NULL && err->code < 0 ? err_set(&own, err->code, "%s", err->msg)
                                         : err_errno(&own, r, "clone");
    else if (json_object_set_new(c->spec, "image", json_string(image->id)) < 0)
        r = err_errno(&own, -ENOMEM, "clone");
    else
        r = spec_from_json(c->spec, &spec, &own);
    image_free(image);
    clone_free(c);
    if (req->gone)
        http_abort(req);
    else if (r < 0 || spec == NULL)
        reply_error(req, &own);
    else
        api_create_sandbox(req, take(spec), start, &none);
}

void sandbox_post_clone(struct http_request *req)
{
    const struct snapshot_options o = {.message = "clone"};
    struct clone_body b = {.name = NULL};
    auto_ptr(json_decref) json_t *spec = NULL;
    struct sandbox *s = api_sandbox(req);
    struct clone *c;
    struct err err = ERR_NONE;
    int r;

    if (s == NULL || !api_may_load(req))
        return;
    r = json_body(req, clone_fields, &b, &err);
    if (r == 0)
        r = http_query(req, NULL, NULL, &err);
    if (r == 0)
        r = clone_spec(api_supervisor(req), s, &b, &spec, &err);
    c = r == 0 ? calloc(1, sizeof(*c)) : NULL;
    if (r == 0 && c == NULL)
        r = err_errno(&err, -ENOMEM, "clone");
    if (c != NULL)
        *c = (struct clone){.req = req, .start = b.start, .spec = take(spec)};
    if (r == 0)
        r = sandbox_snapshot(s, IMAGE_VIEW(req), &o, on_clone_image, c, &err);
    free(b.name);
    if (r == 0)
        return;
    if (c != NULL)
        clone_free(c);
    reply_error(req, &err);
}
