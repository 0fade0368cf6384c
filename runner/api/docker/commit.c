/* POST /commit: makes an image of a container (images/snapshots.h). */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "api/docker/body.h"
#include "api/docker/common.h"
#include "api/docker/create-body.h"
#include "api/docker/docker-routes.h"
#include "api/docker/images.h"
#include "api/json-body.h"
#include "api/native/images.h"
#include "api/reply.h"
#include "api/route-query.h"
#include "base/auto.h"
#include "base/err.h"
#include "images/snapshots.h"
#include "sandbox/sandbox.h"

struct commit_query {
    const char *container, *repo, *tag, *comment, *author, *pause;
    struct query_list changes;
};

#define TEXT(key, member)                                                                          \
    {                                                                                              \
        .name = (key), .type = QUERY_STRING, .off = offsetof(struct commit_query, member),         \
        .max = 4096                                                                                \
    }

static const struct query_field fields[] = {
    {.name = "container",
     .type = QUERY_STRING,
     .off = offsetof(struct commit_query, container),
     .min = 1,
     .max = DOCKER_NAME_MAX,
     .required = true},
    TEXT("repo", repo),
    TEXT("tag", tag),
    TEXT("comment", comment),
    TEXT("author", author),
    TEXT("pause", pause),
    {.name = "changes", .type = QUERY_LIST, .off = offsetof(struct commit_query, changes)},
    {0},
};

/* The image's configuration is set by `changes`; a body with one is refused. dockerode repeats
 * the query's parameters in the body. */
static int commit_read_body(struct http_request *req, struct err *err)
{
    static const struct body_field none[] = {{0}};
    auto_ptr(json_decref) json_t *root = NULL;
    int r;

    r = docker_optional_body(req, &root, err);
    return r < 0 || root == NULL ? r
                                 : body_decode_whole(root, none, create_body_of_commit, NULL, err);
}

static void on_commit_image(void *data, int r, struct image *image, const struct err *err)
{
    struct http_request *req = data;

    if (r < 0) {
        reply_error(req, err);
        return;
    }
    reply_json(req, 201, json_pack("{s:s}", "Id", image->id));
    image_free(image);
}

/* A commit that waits for the clean-up of the container's last run. */
struct docker_commit {
    struct http_request *req;
    struct sandbox *s;     /* a reference */
    struct commit_query q; /* its strings live as long as the request */
};

static int commit_begin(const struct docker_commit *c, struct err *err)
{
    const struct commit_query *q = &c->q;
    const char *changes[QUERY_LIST_MAX + 1] = {NULL};
    char name[REFERENCE_MAX + 1];
    struct snapshot_options o = {.message = q->comment, .author = q->author, .changes = changes};

    for (size_t i = 0; i < q->changes.count; i++)
        changes[i] = q->changes.values[i];
    if (q->repo != NULL && q->repo[0] != '\0') {
        docker_join_name(q->repo, q->tag, name);
        o.name = name;
    }
    o.no_pause = q->pause != NULL && !docker_bool(q->pause);
    return sandbox_snapshot(c->s, IMAGE_VIEW(c->req), &o, on_commit_image, c->req, err);
}

static void on_commit_settled(void *data, int r, const struct err *err)
{
    struct docker_commit *c = data;
    struct err own = ERR_NONE;

    (void)r;
    (void)err;
    if (commit_begin(c, &own) < 0)
        reply_error(c->req, &own);
    sandbox_unref(c->s);
    free(c);
}

static int commit_start(struct http_request *req, const struct commit_query *q, struct err *err)
{
    struct sandbox *s = NULL;
    struct docker_commit *c;
    int r;

    r = docker_find(req, q->container, &s, err);
    if (r == 0)
        r = commit_read_body(req, err);
    if (r < 0)
        return r;
    c = calloc(1, sizeof(*c));
    if (c == NULL)
        return err_errno(err, -ENOMEM, "commit");
    *c = (struct docker_commit){.req = req, .s = s, .q = *q};
    sandbox_ref(s);
    r = docker_when_settled(s, on_commit_settled, c, err);
    if (r < 0) {
        sandbox_unref(s);
        free(c);
    }
    return r;
}

static void post_commit(struct http_request *req)
{
    struct commit_query q = {0};
    struct err err = ERR_NONE;

    if (!api_may_load(req))
        return;
    if (http_query_known(req, fields, &q, &err) < 0 || commit_start(req, &q, &err) < 0)
        reply_error(req, &err);
}

const struct route docker_commit_routes[] = {
    {"POST", "/commit", post_commit, ROUTE_BODY, 0},
    {0},
};
