/* /v1/sandboxes: create, list, inspect, update, remove. State changes are in sandbox-verbs.c. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/audit.h"
#include "api/common.h"
#include "api/lease.h"
#include "api/native/images.h"
#include "api/native/sandbox-attach.h"
#include "api/native/sandbox-json.h"
#include "api/native/sandbox-verbs.h"
#include "api/native/snapshots.h"
#include "base/auto.h"
#include "http/json-body.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "http/route.h"
#include "images/images.h"
#include "json/decode.h"
#include "json/parse.h"
#include "sandbox/sandbox.h"
#include "spec/json.h"
#include "spec/spec.h"

/* ---- create ---- */

/* Removes the only key that is not part of a spec. */
static int root_take_start(json_t *root, bool *ret, struct err *err)
{
    json_t *start = json_object_get(root, "start");

    if (start == NULL)
        return 0;
    if (!json_is_boolean(start) && !json_is_null(start))
        return err_set(err, -EINVAL, "start: must be true or false");
    *ret = json_is_true(start);
    (void)json_object_del(root, "start");
    return 0;
}

static int create_decode(struct http_request *req, struct spec **ret, bool *ret_start,
                         struct attach_options *ret_attach, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    auto_ptr(spec_free) struct spec *spec = NULL;
    int r;

    r = json_body_tree(req, &root, err);
    if (r == 0)
        r = root_take_start(root, ret_start, err);
    if (r == 0)
        r = attach_options_take(root, ret_attach, err);
    if (r == 0 && req->upgrade && !*ret_start)
        r = err_set(err, -EINVAL, "start: must be true for who wants to be attached");
    if (r == 0 && !req->upgrade && ret_attach->given)
        r = err_set(err, -EINVAL, "own, rows, cols: only with `Upgrade: rind-exec`");
    if (r == 0)
        r = api_check_labels(root, err);
    if (r == 0)
        r = spec_from_json(root, &spec, err);
    if (r == 0 && ret_attach->own && spec->restart != RESTART_NO)
        r = err_set(err, -EINVAL,
                    "own: not with restart \"%s\": the client leaves after the first run",
                    spec_restart_name(spec->restart));
    if (r == 0)
        spec_forget_image(spec); /* the image's facts are looked up here, not taken from the
                                  * client */
    if (r == 0)
        r = api_check_spec(req, spec, err);
    if (r == 0)
        *ret = take(spec);
    return r;
}

/* Like api_done_sandbox, with 201 and Location. */
static void on_sandbox_created(void *data, int r, const struct err *err)
{
    struct api_call *call = data;
    struct sandbox *s = r < 0 ? NULL : api_call_sandbox(call);
    auto_ptr(json_decref) json_t *root = NULL;
    auto_free char *text = NULL;
    char location[sizeof("/v1/sandboxes/") + API_ID_MAX];
    const struct http_header headers[] = {{"Location", location}, {NULL, NULL}};

    if (s != NULL)
        root = sandbox_encode(s, true);
    if (root != NULL)
        text = json_dumps(root, JSON_COMPACT);
    if (text == NULL) { /* failed, removed meanwhile, or out of memory */
        api_done_sandbox(call, r, err);
        return;
    }
    (void)snprintf(location, sizeof(location), "/v1/sandboxes/%s", call->id);
    audit_add(call->req, "made", call->id);
    http_reply(call->req, 201, headers, "application/json", text, strlen(text));
    api_call_free(call);
}

/* The spec is complete: takes it and answers the request. */
static void make_sandbox(struct http_request *req, struct spec *owned, bool start,
                         const struct attach_options *attach)
{
    auto_ptr(spec_free) struct spec *spec = owned;
    const struct caller creator = native_caller(req);
    struct sandbox *s = NULL;
    struct api_call *call;
    struct err err = ERR_NONE;

    if (req->upgrade) {
        int r = attach_create(req, spec, &creator, attach, &err);

        if (r == 0)
            (void)take(spec);
        else if (r < 0)
            reply_error(req, &err);
        return;
    }
    call = api_call_new(req, NULL);
    if (call == NULL)
        return;
    if (sandbox_create(call->sup, spec, &creator, start, on_sandbox_created, call, &s, &err) < 0) {
        api_call_fail(call, &err);
        return;
    }
    (void)take(spec);
    (void)snprintf(call->id, sizeof(call->id), "%s", sandbox_id(s));
}

/* A creation that waits for its image. */
struct image_wait {
    struct http_request *req;
    struct spec *spec; /* owned */
    bool start;
    struct attach_options attach;
};

static void on_create_image(void *data, int r, struct image *image, const struct err *err)
{
    struct image_wait *w = data;
    struct http_request *req = w->req;
    auto_ptr(spec_free) struct spec *spec = w->spec;
    struct attach_options attach = w->attach;
    struct err own = ERR_NONE;
    bool start = w->start;

    free(w);
    if (r < 0)
        own = *err;
    if (r == 0)
        r = image_merge(image, spec, &own);
    image_free(image);
    if (r == 0)
        r = spec_validate_kept(spec, &own);
    if (r == 0)
        r = api_check_spec(req, spec, &own); /* the image may have added to it */
    if (req->gone)
        http_abort(req);
    else if (r < 0)
        reply_error(req, &own);
    else
        make_sandbox(req, take(spec), start, &attach);
}

void api_create_sandbox(struct http_request *req, struct spec *owned, bool start,
                        const struct attach_options *attach)
{
    auto_ptr(spec_free) struct spec *spec = owned;
    const struct image_view view = native_image_view(req);
    struct err err = ERR_NONE;
    struct image_wait *w;

    if (spec->image == NULL) {
        make_sandbox(req, take(spec), start, attach);
        return;
    }
    w = calloc(1, sizeof(*w));
    if (w == NULL) {
        reply_errorf(req, -ENOMEM, "out of memory");
        return;
    }
    *w = (struct image_wait){.req = req, .spec = spec, .start = start, .attach = *attach};
    if (images_ready(native_of(req)->config.images, &view, spec->image, on_create_image, w, &err) <
        0) {
        free(w);
        reply_error(req, &err);
        return;
    }
    (void)take(spec);
}

static void create_sandbox(struct http_request *req)
{
    auto_ptr(spec_free) struct spec *spec = NULL;
    struct err err = ERR_NONE;
    struct attach_options attach;
    bool start = false;

    if (create_decode(req, &spec, &start, &attach, &err) == 0)
        api_create_sandbox(req, take(spec), start, &attach);
    else
        reply_error(req, &err);
}

/* ---- list ---- */

struct native_sandboxes_list_query {
    struct query_list labels, states;
};

static const struct query_field list_fields[] = {
    {.name = "label",
     .type = QUERY_LIST,
     .off = offsetof(struct native_sandboxes_list_query, labels)},
    {.name = "state",
     .type = QUERY_LIST,
     .off = offsetof(struct native_sandboxes_list_query, states)},
    {0},
};

/* Matches "K=V", or "K" with any value. */
static bool spec_has_label(const struct spec *spec, const char *wanted)
{
    size_t key = strcspn(wanted, "=");

    for (char **l = spec != NULL ? spec->labels : NULL; l != NULL && *l != NULL; l++)
        if (strncmp(*l, wanted, key) == 0 && (*l)[key] == '=')
            return wanted[key] == '\0' || strcmp(*l + key, wanted + key) == 0;
    return false;
}

static bool sandbox_matches(const struct sandbox *s, const struct native_sandboxes_list_query *q)
{
    bool in_state = q->states.count == 0;

    for (size_t i = 0; i < q->labels.count; i++)
        if (!spec_has_label(sandbox_spec(s), q->labels.values[i]))
            return false;
    for (size_t i = 0; i < q->states.count; i++)
        if (strcmp(q->states.values[i], sandbox_state_name(sandbox_get_state(s))) == 0)
            in_state = true;
    return in_state;
}

static int query_check_states(const struct query_list *states, struct err *err)
{
    for (size_t i = 0; i < states->count; i++) {
        int known = SANDBOX_INVALID + 1;

        while (known < SANDBOX_STATE_MAX &&
               strcmp(states->values[i], sandbox_state_name((enum sandbox_state)known)) != 0)
            known++;
        if (known == SANDBOX_STATE_MAX)
            return err_set(
                err, -EINVAL,
                "state: \"%.64s\" is no state; there are created, running, paused, stopped",
                states->values[i]);
    }
    return 0;
}

static void list_sandboxes(struct http_request *req)
{
    struct native_sandboxes_list_query q = {0};
    struct err err = ERR_NONE;
    json_t *list;
    int r;

    r = http_query(req, list_fields, &q, &err);
    if (r == 0)
        r = query_check_states(&q.states, &err);
    if (r < 0) {
        reply_error(req, &err);
        return;
    }
    list = json_array();
    for (struct sandbox *s = sandbox_first(api_supervisor(req)); s != NULL && list != NULL;
         s = sandbox_next(s)) {
        if (!sandbox_matches(s, &q) || !api_may_see(req, s))
            continue;
        if (json_array_append_new(list, sandbox_encode_for(req, s, false)) < 0) {
            json_decref(list);
            list = NULL;
        }
    }
    reply_json(req, 200, list != NULL ? json_pack("{s:o}", "sandboxes", list) : NULL);
}

/* ---- one ---- */

static void inspect_sandbox(struct http_request *req)
{
    struct sandbox *s = api_sandbox(req);

    if (s != NULL)
        reply_json(req, 200, sandbox_encode_for(req, s, true));
}

static void on_sandbox_updated(void *data, int r, const struct err *err)
{
    struct api_call *call = data;
    struct sandbox *s = api_call_sandbox(call);

    if (s != NULL)
        leases_check(call->req, s); /* a share may have ended */
    api_done_sandbox(call, r, err);
}

static void update_sandbox(struct http_request *req)
{
    struct sandbox *s = api_sandbox(req);
    auto_ptr(json_decref) json_t *patch = NULL;
    auto_ptr(spec_free) struct spec *changed = NULL;
    struct api_call *call;
    struct err err = ERR_NONE;
    int r;

    if (s == NULL)
        return;
    r = http_query(req, NULL, NULL, &err);
    if (r == 0)
        r = json_body_tree(req, &patch, &err);
    if (r == 0)
        r = api_check_labels(patch, &err);
    if (r == 0 && sandbox_spec(s) == NULL)
        r = err_set(&err, -EBUSY, "sandbox %s: its files cannot be read", sandbox_name(s));
    if (r == 0)
        r = spec_patch(sandbox_spec(s), patch, &changed, &err);
    if (r == 0)
        r = api_check_change(req, s, changed, patch, &err);
    if (r < 0) {
        reply_error(req, &err);
        return;
    }
    call = api_call_new(req, s);
    if (call != NULL && sandbox_change(s, patch, changed, on_sandbox_updated, call, &err) < 0)
        api_call_fail(call, &err);
}

static void delete_sandbox(struct http_request *req)
{
    struct sandbox *s = api_sandbox(req);
    bool force = false;
    struct api_call *call;
    struct err err = ERR_NONE;

    if (s == NULL)
        return;
    if (api_query_force(req, &force, &err) < 0) {
        reply_error(req, &err);
        return;
    }
    call = api_call_new(req, s);
    if (call != NULL && sandbox_remove(s, force, api_done_empty, call, &err) < 0)
        api_call_fail(call, &err);
}

/* ---- the table ---- */

/* clang-format off */
const struct route native_sandbox_routes[] = {
    {"GET",    "/v1/sandboxes",              list_sandboxes,  0, 0},
    {"POST",   "/v1/sandboxes",              create_sandbox,  ROUTE_BODY | ROUTE_LARGE | ROUTE_UPGRADE, 0},
    {"GET",    "/v1/sandboxes/{id}",         inspect_sandbox, 0, 0},
    {"PATCH",  "/v1/sandboxes/{id}",         update_sandbox,  ROUTE_BODY, 0},
    {"DELETE", "/v1/sandboxes/{id}",         delete_sandbox,  0, 0},
    {"POST",   "/v1/sandboxes/{id}/start",   sandbox_post_start,      ROUTE_BODY | ROUTE_UPGRADE, 0},
    {"POST",   "/v1/sandboxes/{id}/attach",  sandbox_post_attach, ROUTE_BODY | ROUTE_UPGRADE, 0},
    {"POST",   "/v1/sandboxes/{id}/stop",    sandbox_post_stop,       ROUTE_BODY, 0},
    {"POST",   "/v1/sandboxes/{id}/restart", sandbox_post_restart,    ROUTE_BODY, 0},
    {"POST",   "/v1/sandboxes/{id}/pause",   sandbox_post_pause,      ROUTE_BODY, 0},
    {"POST",   "/v1/sandboxes/{id}/resume",  sandbox_post_resume,     ROUTE_BODY, 0},
    {"POST",   "/v1/sandboxes/{id}/rename",  sandbox_post_rename,     ROUTE_BODY, 0},
    {"POST",   "/v1/sandboxes/{id}/signal",  sandbox_post_signal,     ROUTE_BODY, 0},
    {"GET",    "/v1/sandboxes/{id}/wait",    sandbox_get_wait,       0, 0},
    {"POST",   "/v1/sandboxes/{id}/snapshot", sandbox_post_snapshot, ROUTE_BODY, 0},
    {"POST",   "/v1/sandboxes/{id}/clone",   sandbox_post_clone,      ROUTE_BODY, 0},
    {"GET",    "/v1/sandboxes/{id}/stats",   sandbox_get_stats,      0, 0},
    {0},
};
/* clang-format on */
