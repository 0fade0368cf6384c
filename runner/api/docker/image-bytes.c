/* Image archives in and out: load, import, save, and pull of images that are already present. */
#include <errno.h>
#include <fnmatch.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/docker/change-lines.h"
#include "api/docker/common.h"
#include "api/docker/containers.h"
#include "api/docker/images.h"
#include "api/docker/reaper.h"
#include "api/docker/sidecar.h"
#include "api/native/images.h"
#include "base/auto.h"
#include "base/err.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "images/images.h"
#include "json/decode.h"
#include "sandbox/sandbox.h"

void docker_join_name(const char *repo, const char *tag, char ret[REFERENCE_MAX + 1])
{
    const char *between = tag == NULL || tag[0] == '\0' ? "" : strchr(tag, ':') != NULL ? "@" : ":";

    (void)snprintf(ret, REFERENCE_MAX + 1, "%s%s%s", repo, between, *between != '\0' ? tag : "");
}

bool docker_glob_name(const char *pattern, const char *name)
{
    char bare[REFERENCE_MAX + 1];
    char *colon;

    (void)snprintf(bare, sizeof(bare), "%s", name);
    colon = strrchr(bare, ':');
    if (colon != NULL && strchr(colon, '/') == NULL)
        *colon = '\0';
    return fnmatch(pattern, name, FNM_PATHNAME) == 0 || fnmatch(pattern, bare, FNM_PATHNAME) == 0;
}

/* ---- in ---- */

struct docker_loading {
    struct http_request *req;
    struct image_load *load;
    bool started, import;
    char id[DIGEST_LEN + 1]; /* of the last image received */
};

/* False: out of memory, nothing was sent. */
static bool loading_send_line(struct docker_loading *l, json_t *root)
{
    if (!l->started) {
        l->started = true;
        http_start(l->req, 200, NULL, "application/json");
    }
    return reply_json_line(l->req, root, "\r\n");
}

static void on_load_progress(void *data, const struct image_progress *p)
{
    struct docker_loading *l = data;
    char name[REFERENCE_MAX + 1];

    if (strcmp(p->stage, "image") != 0)
        return;
    (void)snprintf(l->id, sizeof(l->id), "%s", p->id);
    if (l->import)
        return;
    reference_shorten(p->name, name);
    if (p->name[0] != '\0')
        (void)loading_send_line(
            l, json_pack("{s:o}", "stream", json_sprintf("Loaded image: %s\n", name)));
    else
        (void)loading_send_line(
            l, json_pack("{s:o}", "stream", json_sprintf("Loaded image ID: %s\n", p->id)));
}

static void on_load_drain(void *data)
{
    http_body_resume(((struct docker_loading *)data)->req);
}

static void on_load_done(void *data, int r, const struct err *err)
{
    struct docker_loading *l = data;
    bool said = true;

    l->load = NULL;
    /* As in Docker a load that fails says so in its stream. */
    if (r < 0 && !l->started && l->import) {
        docker_image_fail(l->req, "archive", r, err);
        free(l);
        return;
    }
    l->req->error = r;
    if (r < 0)
        said = loading_send_line(
            l, json_pack("{s:{s:s}, s:s}", "errorDetail", "message", err->msg, "error", err->msg));
    else if (l->import)
        said = loading_send_line(l, json_pack("{s:s}", "status", l->id));
    else if (!l->started)
        http_start(l->req, 200, NULL, "application/json");
    /* A failure that could not be reported must not look like success. */
    if (said)
        http_end(l->req);
    else
        http_abort(l->req);
    free(l);
}

static const struct image_load_events load_events = {
    .on_progress = on_load_progress, .on_drain = on_load_drain, .on_done = on_load_done};

static void on_load_body(struct http_request *req, const char *data, size_t len)
{
    struct docker_loading *l = req->data;

    if (l->load == NULL)
        return;
    if (data == NULL)
        image_load_end(l->load);
    else if (image_load_write(l->load, data, len))
        http_body_pause(req);
}

static void on_load_gone(struct http_request *req)
{
    struct docker_loading *l = req->data;

    if (l->load != NULL)
        image_load_cancel(l->load);
    free(l);
    http_abort(req);
}

static struct docker_loading *loading_new(struct http_request *req, bool import)
{
    struct docker_loading *l = calloc(1, sizeof(*l));

    if (l == NULL) {
        reply_errorf(req, -ENOMEM, "out of memory");
        return NULL;
    }
    *l = (struct docker_loading){.req = req, .import = import};
    return l;
}

static void loading_begun(struct docker_loading *l, int r, const struct err *err)
{
    if (r < 0) {
        reply_error(l->req, err);
        free(l);
        return;
    }
    l->req->data = l;
    l->req->on_gone = on_load_gone;
    http_body_start(l->req, on_load_body);
}

struct docker_image_bytes_load_query {
    const char *quiet, *platform;
};

static const struct query_field load_fields[] = {
    {.name = "quiet",
     .type = QUERY_STRING,
     .off = offsetof(struct docker_image_bytes_load_query, quiet)},
    {.name = "platform",
     .type = QUERY_STRING,
     .off = offsetof(struct docker_image_bytes_load_query, platform)},
    {0},
};

/* Archives are loaded and saved whole; selecting a platform of one is not supported. */
static int refuse_platform(const char *platform, struct err *err)
{
    if (platform == NULL || platform[0] == '\0')
        return 0;
    return err_set(err, -EOPNOTSUPP, "platform: archives are loaded and saved whole");
}

void docker_post_load(struct http_request *req)
{
    struct docker_image_bytes_load_query q = {0};
    struct docker_loading *l;
    struct err err = ERR_NONE;
    int r;

    if (!api_may_load(req))
        return;
    r = http_query_known(req, load_fields, &q, &err);
    if (r == 0)
        r = refuse_platform(q.platform, &err);
    if (r < 0) {
        reply_error(req, &err);
        return;
    }
    l = loading_new(req, false);
    if (l != NULL)
        loading_begun(
            l,
            images_load(native_images(req), IMAGE_VIEW(req), NULL, &load_events, l, &l->load, &err),
            &err);
}

/* ---- create: import, and what Docker pulls ---- */

struct image_create_query {
    const char *from, *source, *repo, *tag, *message, *platform;
    struct query_list changes;
};

static const struct query_field create_fields[] = {
    {.name = "fromImage", .type = QUERY_STRING, .off = offsetof(struct image_create_query, from)},
    {.name = "fromSrc", .type = QUERY_STRING, .off = offsetof(struct image_create_query, source)},
    {.name = "repo", .type = QUERY_STRING, .off = offsetof(struct image_create_query, repo)},
    {.name = "tag", .type = QUERY_STRING, .off = offsetof(struct image_create_query, tag)},
    {.name = "message", .type = QUERY_STRING, .off = offsetof(struct image_create_query, message)},
    {.name = "platform",
     .type = QUERY_STRING,
     .off = offsetof(struct image_create_query, platform)},
    {.name = "changes", .type = QUERY_LIST, .off = offsetof(struct image_create_query, changes)},
    {0},
};

static void import_image(struct http_request *req, const struct image_create_query *q)
{
    char **changes = NULL;
    char name[REFERENCE_MAX + 1];
    struct image_import i = {.message = q->message};
    struct err err = ERR_NONE;
    struct docker_loading *l;
    int r;

    if (!api_may_load(req))
        return;
    if (q->platform != NULL && q->platform[0] != '\0') {
        reply_errorf(req, -EOPNOTSUPP, "platform: what is imported is of this host's");
        return;
    }
    if (strcmp(q->source, "-") != 0) {
        reply_errorf(req, -EOPNOTSUPP, "fromSrc: only \"-\", the body: nothing is fetched");
        return;
    }
    r = change_lines(q->changes.values, q->changes.count, &changes);
    if (r < 0) {
        reply_errorf(req, r, "changes: %s", strerror(-r));
        json_strings_free(changes);
        return;
    }
    i.changes = (const char *const *)changes;
    if (q->repo != NULL && q->repo[0] != '\0') {
        docker_join_name(q->repo, q->tag, name);
        i.name = name;
    }
    l = loading_new(req, true);
    if (l != NULL)
        loading_begun(
            l,
            images_import(native_images(req), IMAGE_VIEW(req), &i, &load_events, l, &l->load, &err),
            &err);
    json_strings_free(changes);
}

struct pulling {
    struct http_request *req;
    const char *platform; /* of the request */
    char name[REFERENCE_MAX + 1];
};

static void pulling_reply_present(struct pulling *p)
{
    json_t *root =
        json_pack("{s:o}", "status", json_sprintf("Status: Image is up to date for %s", p->name));

    http_start(p->req, 200, NULL, "application/json");
    if (reply_json_line(p->req, root, "\r\n"))
        http_end(p->req);
    else
        http_abort(p->req);
    free(p);
}

static void on_pull_found(void *data, int r, struct image *found, const struct err *err)
{
    struct pulling *p = data;
    bool other = found != NULL && !docker_is_image_platform(p->platform, found);

    image_free(found);
    if (r == 0 && !other) {
        pulling_reply_present(p);
        return;
    }
    if (other)
        reply_errorf(p->req, -ENOENT,
                     "image %.255s is in the store for another platform than %.64s, and there are "
                     "no registries yet",
                     p->name, p->platform);
    else if (r == -ENOENT)
        reply_errorf(p->req, r,
                     "No such image: %.255s: it is not in the store, and there are no registries "
                     "to pull from yet: load it (docker load)",
                     p->name);
    else
        docker_image_fail(p->req, p->name, r, err);
    free(p);
}

static void pull_image(struct http_request *req, const struct image_create_query *q)
{
    struct pulling *p = calloc(1, sizeof(*p));
    struct err err = ERR_NONE;

    if (p == NULL) {
        reply_errorf(req, -ENOMEM, "out of memory");
        return;
    }
    p->req = req;
    p->platform = q->platform;
    docker_join_name(q->from, q->tag, p->name);
    if (docker_sidecar_image(native_of(req)->config.sidecar_image, p->name) ||
        docker_reaper_image(native_of(req)->config.reaper_image, p->name))
        pulling_reply_present(p);
    else if (images_find(native_images(req), IMAGE_VIEW(req), p->name, on_pull_found, p, &err) < 0)
        on_pull_found(p, err.code, NULL, &err);
}

void docker_post_image_create(struct http_request *req)
{
    struct image_create_query q = {0};
    struct err err = ERR_NONE;

    if (http_query_known(req, create_fields, &q, &err) < 0)
        reply_error(req, &err);
    else if (q.source != NULL && q.source[0] != '\0')
        import_image(req, &q);
    else if (q.from != NULL && q.from[0] != '\0')
        pull_image(req, &q);
    else
        reply_errorf(req, -EINVAL, "fromImage or fromSrc is missing");
}

/* ---- out ---- */

struct docker_saving {
    struct http_request *req;
    struct image_save *save;
    bool started;
};

static bool on_save_bytes(void *data, const void *bytes, size_t len)
{
    struct docker_saving *s = data;

    if (!s->started) {
        s->started = true;
        http_start(s->req, 200, NULL, "application/x-tar");
    }
    return http_write(s->req, bytes, len);
}

static void on_save_done(void *data, int r, const struct err *err)
{
    struct docker_saving *s = data;

    s->save = NULL;
    if (r < 0 && !s->started) {
        reply_error(s->req, err);
    } else if (r < 0) {
        http_abort(s->req);
    } else {
        if (!s->started)
            http_start(s->req, 200, NULL, "application/x-tar");
        http_end(s->req);
    }
    free(s);
}

static const struct image_save_events save_events = {.on_bytes = on_save_bytes,
                                                     .on_done = on_save_done};

static void on_save_drain(struct http_request *req)
{
    struct docker_saving *s = req->data;

    if (s->save != NULL)
        image_save_resume(s->save);
}

static void on_save_gone(struct http_request *req)
{
    struct docker_saving *s = req->data;

    if (s->save != NULL)
        image_save_cancel(s->save);
    free(s);
    http_abort(req);
}

static struct docker_saving *saving_new(struct http_request *req)
{
    struct docker_saving *s = calloc(1, sizeof(*s));

    if (s == NULL) {
        reply_errorf(req, -ENOMEM, "out of memory");
        return NULL;
    }
    s->req = req;
    return s;
}

static void saving_begun(struct docker_saving *s, int r, const struct err *err)
{
    if (r < 0) {
        reply_error(s->req, err);
        free(s);
        return;
    }
    s->req->data = s;
    s->req->on_gone = on_save_gone;
    s->req->on_drain = on_save_drain;
}

static void save_images(struct http_request *req, const char *const *names)
{
    struct docker_saving *s = saving_new(req);
    struct err err = ERR_NONE;

    if (s != NULL)
        saving_begun(s,
                     images_save(native_images(req), IMAGE_VIEW(req), names, &save_events, s,
                                 &s->save, &err),
                     &err);
}

struct docker_image_bytes_save_query {
    struct query_list names;
    const char *platform;
};

static const struct query_field save_fields[] = {
    {.name = "names",
     .type = QUERY_LIST,
     .off = offsetof(struct docker_image_bytes_save_query, names)},
    {.name = "platform",
     .type = QUERY_STRING,
     .off = offsetof(struct docker_image_bytes_save_query, platform)},
    {0},
};

void docker_get_save(struct http_request *req)
{
    const char *names[QUERY_LIST_MAX + 1] = {NULL};
    struct docker_image_bytes_save_query q = {0};
    struct err err = ERR_NONE;

    if (http_query_known(req, save_fields, &q, &err) < 0 || refuse_platform(q.platform, &err) < 0) {
        reply_error(req, &err);
        return;
    }
    if (q.names.count == 0) {
        reply_errorf(req, -EINVAL, "names: no image was named");
        return;
    }
    for (size_t i = 0; i < q.names.count; i++)
        names[i] = q.names.values[i];
    save_images(req, names);
}

void docker_get_save_one(struct http_request *req)
{
    const char *const names[] = {http_param(req, "name"), NULL};
    struct docker_image_bytes_save_query q = {0};
    struct err err = ERR_NONE;

    if (http_query_known(req, save_fields + 1, &q, &err) < 0 ||
        refuse_platform(q.platform, &err) < 0)
        reply_error(req, &err);
    else
        save_images(req, names);
}

/* GET /containers/{id}/export */
void docker_get_export(struct http_request *req)
{
    struct sandbox *sb = docker_sandbox(req);
    struct docker_saving *s;
    struct err err = ERR_NONE;

    if (sb == NULL)
        return;
    if (api_check_intact(sb, &err) < 0) {
        reply_error(req, &err);
        return;
    }
    s = saving_new(req);
    if (s != NULL)
        saving_begun(s,
                     images_export_sandbox(native_images(req), sandbox_id(sb), sandbox_spec(sb),
                                           &save_events, s, &s->save, &err),
                     &err);
}
