/* POST /commit: makes an image of a container (images/snapshots.h). */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/docker/change-lines.h"
#include "api/docker/commit-config.h"
#include "api/docker/common.h"
#include "api/docker/containers.h"
#include "api/docker/docker-routes.h"
#include "api/docker/images.h"
#include "api/native/images.h"
#include "base/auto.h"
#include "base/err.h"
#include "http/json-body.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "image/change-text.h"
#include "images/snapshots.h"
#include "json/decode.h"
#include "sandbox/sandbox.h"
#include "spec/spec.h"

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

/* The body is a container.Config, which changes the image's configuration before `changes` do.
 * dockerode repeats the query's parameters in it. */
static int commit_read_body(struct http_request *req, char ***ret, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    int r;

    *ret = NULL;
    r = docker_optional_body(req, &root, err);
    return r < 0 || root == NULL ? r : commit_config_changes(root, ret, err);
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
    char **config;         /* owned: the changes of the body; NULL: none */
};

static void commit_free(struct docker_commit *c)
{
    json_strings_free(c->config);
    sandbox_unref(c->s);
    free(c);
}

static int commit_add_list(const char *instruction, char *const *list, size_t count, char **ret)
{
    auto_ptr(json_decref) json_t *array = json_array();

    for (size_t i = 0; i < count && list[i] != NULL; i++)
        if (json_array_append_new(array, json_string(list[i])) < 0)
            return -EILSEQ;
    return image_change_list(instruction, array, ret);
}

enum { ENTRY_CHANGES = 2 };

/* The entry point and the command apart: the snapshot's own changes know them as one. */
static int commit_entry(const struct sandbox *s, char *ret[ENTRY_CHANGES], struct err *err)
{
    const struct spec *spec = sandbox_spec(s);
    auto_ptr(json_decref) json_t *kept = docker_kept(spec);
    size_t entry = spec != NULL ? docker_entry_count(spec, kept) : 0;
    int r = 0;

    if (entry > 0)
        r = commit_add_list("ENTRYPOINT", spec->argv, entry, &ret[0]);
    if (r == 0 && entry > 0 && spec->argv[entry] != NULL)
        r = commit_add_list("CMD", spec->argv + entry, SIZE_MAX, &ret[1]);
    return r < 0 ? err_errno(err, r, "commit") : 0;
}

static int commit_begin(const struct docker_commit *c, struct err *err)
{
    const struct commit_query *q = &c->q;
    auto_free const char **changes = NULL;
    char *entry[ENTRY_CHANGES] = {NULL}, name[REFERENCE_MAX + 1];
    struct snapshot_options o = {.message = q->comment, .author = q->author};
    char **lines = NULL;
    size_t own = 0, n = 0, asked = 0;
    int r = commit_entry(c->s, entry, err);

    if (r == 0) {
        r = change_lines(q->changes.values, q->changes.count, &lines);
        if (r < 0)
            (void)err_errno(err, r, "changes");
    }
    while (lines != NULL && lines[asked] != NULL)
        asked++;

    while (c->config != NULL && c->config[own] != NULL)
        own++;
    changes = calloc(ENTRY_CHANGES + own + asked + 1, sizeof(*changes));
    if (r == 0 && changes == NULL)
        r = err_errno(err, -ENOMEM, "commit");
    for (size_t i = 0; r == 0 && i < ENTRY_CHANGES; i++)
        if (entry[i] != NULL)
            changes[n++] = entry[i];
    for (size_t i = 0; r == 0 && i < own; i++)
        changes[n++] = c->config[i];
    for (size_t i = 0; r == 0 && i < asked; i++)
        changes[n++] = lines[i];
    o.changes = changes;
    if (q->repo != NULL && q->repo[0] != '\0') {
        docker_join_name(q->repo, q->tag, name);
        o.name = name;
    }
    o.no_pause = q->pause != NULL && !docker_bool(q->pause);
    if (r == 0)
        r = sandbox_snapshot(c->s, IMAGE_VIEW(c->req), &o, on_commit_image, c->req, err);
    free(entry[0]);
    free(entry[1]);
    json_strings_free(lines);
    return r;
}

static void on_commit_settled(void *data, int r, const struct err *err)
{
    struct docker_commit *c = data;
    struct err own = ERR_NONE;

    (void)r;
    (void)err;
    if (commit_begin(c, &own) < 0)
        reply_error(c->req, &own);
    commit_free(c);
}

static int commit_start(struct http_request *req, const struct commit_query *q, struct err *err)
{
    struct sandbox *s = NULL;
    struct docker_commit *c;
    char **config = NULL;
    int r;

    r = docker_find(req, q->container, &s, err);
    if (r == 0)
        r = commit_read_body(req, &config, err);
    if (r < 0)
        return r;
    c = calloc(1, sizeof(*c));
    if (c == NULL) {
        json_strings_free(config);
        return err_errno(err, -ENOMEM, "commit");
    }
    *c = (struct docker_commit){.req = req, .s = s, .q = *q, .config = config};
    sandbox_ref(s);
    r = docker_when_settled(s, on_commit_settled, c, err);
    if (r < 0)
        commit_free(c);
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
