/*
 * Composes images: one new layer on top of another image's layers, or on none. The blocking part
 * runs in the thread pool, the rest on the event loop of images_new.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "image/manifest.h"
#include "images/images-internal.h"
#include "json/decode.h"
#include "json/parse.h"
#include "sandbox/limits.h"

enum { CHANGES_MAX = 1024, TEXT_MAX = 4096 };

/* ---- files for new layers ---- */

struct image_blob {
    struct images *im; /* counted reference */
    struct blob_file file;
    int use_fd; /* owned */
};

int image_blob_fd(const struct image_blob *b)
{
    return b->file.fd;
}

void image_blob_free(struct image_blob *b)
{
    struct images *im;

    if (b == NULL)
        return;
    im = b->im;
    blob_drop(im->store, &b->file);
    if (b->use_fd >= 0)
        (void)close(b->use_fd);
    free(b);
    images_release(im);
}

struct blob_making {
    struct images_job job;
    struct image_blob *blob; /* owned */
    image_blob_cb cb;
    void *data;
};

static int work_blob(struct images_job *j)
{
    struct image_blob *b = ((struct blob_making *)(void *)j)->blob;

    b->use_fd = image_store_use(j->im->store, &j->err);
    return b->use_fd < 0 ? b->use_fd : blob_begin(j->im->store, &b->file, &j->err);
}

static void after_blob(struct images_job *j)
{
    struct blob_making *m = (struct blob_making *)(void *)j;

    if (j->r < 0)
        image_blob_free(take(m->blob));
    m->cb(m->data, j->r, m->blob, &j->err);
    free(m);
}

int images_blob_new(struct images *im, image_blob_cb cb, void *data, struct err *err)
{
    struct blob_making *m = calloc(1, sizeof(*m));
    struct image_blob *b = calloc(1, sizeof(*b));

    if (m == NULL || b == NULL) {
        free(m);
        free(b);
        return err_errno(err, -ENOMEM, "image");
    }
    *b = (struct image_blob){.im = im, .file = BLOB_FILE_NONE, .use_fd = FD_NONE};
    images_hold(im);
    m->blob = b;
    m->cb = cb;
    m->data = data;
    job_start(im, &m->job, work_blob, after_blob);
    return 0;
}

/* ---- composing ---- */

struct composing {
    struct images_job job;
    struct image_view view;
    struct image_bounds bounds;           /* owned; for work_put */
    struct image_blob *layer;             /* owned; NULL = none */
    char *parent_name, *message, *author; /* owned, or NULL */
    char **changes;                       /* owned, NULL-terminated, or NULL */
    char name[REFERENCE_MAX + 1];         /* complete reference; "" = none */
    bool any_parent;
    struct image *parent;        /* owned, or NULL */
    struct image *image;         /* owned */
    char digest[DIGEST_LEN + 1]; /* digest of the layer's archive */
    int64_t bytes;
    char tmp[BLOB_TMP_MAX];
    void (*on_progress)(void *data, const struct image_progress *p);
    image_cb cb;
    void *data;
};

static void composing_free(struct composing *c)
{
    struct images *im = c->job.im;

    image_blob_free(c->layer);
    image_bounds_done(&c->bounds);
    image_free(c->parent);
    image_free(c->image);
    json_strings_free(c->changes);
    free(c->parent_name);
    free(c->message);
    free(c->author);
    free(c);
    if (im != NULL)
        images_sweep_soon(im);
}

static void compose_end(struct composing *c, int r, const struct err *err)
{
    c->cb(c->data, r, r < 0 ? NULL : take(c->image), err);
    composing_free(c);
}

static void now_text(char ret[40])
{
    struct timespec ts;
    struct tm tm;
    size_t n;

    (void)clock_gettime(CLOCK_REALTIME, &ts);
    (void)gmtime_r(&ts.tv_sec, &tm);
    n = strftime(ret, 40, "%Y-%m-%dT%H:%M:%S", &tm);
    (void)snprintf(ret + n, 40 - n, ".%09ldZ", ts.tv_nsec);
}

static json_t *new_config(void)
{
    return json_pack("{s:s, s:s, s:{}, s:{s:s, s:[]}, s:[]}", "architecture", image_architecture(),
                     "os", "linux", "config", "rootfs", "type", "layers", "diff_ids", "history");
}

/*
 * A parent without a history gets an empty entry for each of its layers, so that the counts match.
 */
static json_t *history_of(json_t *root, size_t layers)
{
    json_t *history = json_object_get(root, "history");

    if (json_is_array(history) && json_array_size(history) > 0)
        return history;
    history = json_array();
    for (size_t i = 0; i < layers; i++)
        (void)json_array_append_new(history, json_pack("{s:s}", "created_by", ""));
    return json_object_set_new(root, "history", history) == 0 ? history : NULL;
}

static int make_config(struct composing *c, json_t **ret, struct err *err)
{
    auto_ptr(json_decref) json_t *root =
        c->parent != NULL ? json_deep_copy(c->parent->config_tree) : new_config();
    const size_t below = c->parent != NULL ? c->parent->layer_count : 0;
    json_t *history, *entry, *ids;
    char now[40];
    int r = 0;

    if (root == NULL)
        return err_errno(err, -ENOMEM, "configuration");
    now_text(now);
    history = history_of(root, below);
    ids = json_object_get(json_object_get(root, "rootfs"), "diff_ids");
    entry = json_pack("{s:s}", "created", now);
    if (history == NULL || entry == NULL || ids == NULL) {
        json_decref(entry);
        return err_errno(err, -ENOMEM, "configuration");
    }
    if (c->layer != NULL)
        (void)json_array_append_new(ids, json_string(c->image->layers[below].diff_id));
    else
        (void)json_object_set_new(entry, "empty_layer", json_true());
    if (c->message != NULL)
        (void)json_object_set_new(entry, "comment", json_string(c->message));
    if (c->author != NULL) {
        (void)json_object_set_new(entry, "author", json_string(c->author));
        (void)json_object_set_new(root, "author", json_string(c->author));
    }
    (void)json_array_append_new(history, entry);
    (void)json_object_set_new(root, "created", json_string(now));
    /* Remains of the builder's container, which do not describe this image. */
    (void)json_object_del(root, "container");
    (void)json_object_del(root, "container_config");
    for (char **change = c->changes; r == 0 && change != NULL && *change != NULL; change++)
        r = image_config_change(root, *change, err);
    if (r == 0)
        *ret = take(root);
    return r;
}

static int make_manifest(struct composing *c, const char *config_digest, size_t config_len,
                         char **ret, struct err *err)
{
    json_t *layers = json_array();

    for (size_t i = 0; i < c->image->layer_count; i++) {
        const struct image_layer *l = &c->image->layers[i];

        (void)json_array_append_new(layers, descriptor_of(l->media_type, l->blob, l->bytes));
    }
    *ret = manifest_format(config_digest, (int64_t)config_len, layers);
    return *ret != NULL ? 0 : err_errno(err, -ENOMEM, "manifest");
}

/* Writes all blobs of the image, then its name. Blocks. */
static int put_image(struct composing *c, struct image_store *s, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    auto_free char *config = NULL, *manifest = NULL;
    char *const names[] = {c->name[0] != '\0' ? c->name : NULL, NULL};
    char id[DIGEST_LEN + 1];
    struct image *i = c->image;
    int r;

    r = make_config(c, &root, err);
    if (r == 0 && (config = json_dumps(root, JSON_COMPACT)) == NULL)
        r = err_errno(err, -ENOMEM, "configuration");
    if (r == 0)
        r = image_config_parse(config, strlen(config), &i->config, err);
    if (r == 0 && c->layer != NULL)
        r = blob_commit(s, &c->layer->file, c->digest, err);
    if (r == 0)
        r = blob_put(s, config, strlen(config), id, err);
    if (r == 0)
        r = make_manifest(c, id, strlen(config), &manifest, err);
    if (r == 0)
        r = blob_put(s, manifest, strlen(manifest), i->manifest, err);
    if (r != 0)
        return r;
    (void)memcpy(i->id, id, sizeof(i->id));
    (void)snprintf(i->media_type, sizeof(i->media_type), "%s", MEDIA_TYPE_MANIFEST);
    i->manifest_bytes = (int64_t)strlen(manifest);
    if (c->parent != NULL)
        (void)memcpy(i->parent, c->parent->id, sizeof(i->parent));
    r = image_store_add(s, &c->view, i, names, c->job.im->config.limits->images, &c->bounds, err);
    if (r < 0)
        return r;
    image_free(take(c->image));
    return image_store_find(s, &c->view, id, &c->image, err);
}

static int work_put(struct images_job *j)
{
    struct composing *c = (struct composing *)(void *)j;

    return put_image(c, j->im->store, &j->err);
}

static void after_put(struct images_job *j)
{
    struct composing *c = (struct composing *)(void *)j;

    if (j->r == 0)
        images_emit(j->im, &c->view, "image_load", c->image->id, c->name);
    compose_end(c, j->r, &j->err);
}

static int open_blob(void *data, size_t i, struct err *err)
{
    struct composing *c = data;
    struct image_store *s = c->job.im->store;
    struct blob_file f = {.fd = FD_NONE};
    int64_t size;

    if (c->parent != NULL && i < c->parent->layer_count)
        return blob_open(s, c->image->layers[i].blob, &size, err);
    (void)memcpy(f.tmp, c->tmp, sizeof(f.tmp));
    return blob_reopen(s, &f, err);
}

static void on_layering_progress(void *data, const struct image_progress *p)
{
    struct composing *c = data;

    if (c->on_progress != NULL)
        c->on_progress(c->data, p);
}

static void on_layering_done(void *data, int r, const struct err *err)
{
    struct composing *c = data;

    struct err own = ERR_NONE;

    if (r == 0) {
        r = images_bounds(c->job.im, &c->view, &c->bounds, &own);
        err = &own;
    }
    if (r < 0)
        compose_end(c, r, err);
    else
        job_start(c->job.im, &c->job, work_put, after_put);
}

/*
 * Builds the layer list: the parent's, plus the new one. Unpacking computes the new layer's diff
 * id.
 */
static int compose_stack_layers(struct composing *c, struct err *err)
{
    const size_t below = c->parent != NULL ? c->parent->layer_count : 0;
    struct image_layer *top;

    c->image = calloc(1, sizeof(*c->image));
    if (c->image != NULL)
        c->image->layers = calloc(below + 1, sizeof(struct image_layer));
    if (c->image == NULL || c->image->layers == NULL)
        return err_errno(err, -ENOMEM, "image");
    if (below > 0)
        (void)memcpy(c->image->layers, c->parent->layers, below * sizeof(struct image_layer));
    c->image->layer_count = below + (c->layer != NULL);
    if (c->layer == NULL)
        return 0;
    if (below >= IMAGE_LAYERS_MAX)
        return err_set(err, -E2BIG, "an image has at most %d layers", IMAGE_LAYERS_MAX);
    top = &c->image->layers[below];
    (void)memcpy(top->blob, c->digest, sizeof(top->blob));
    (void)snprintf(top->media_type, sizeof(top->media_type), "%s",
                   media_type_of_layer(c->layer->file.fd));
    top->bytes = c->bytes;
    return 0;
}

static int work_prepare(struct images_job *j)
{
    struct composing *c = (struct composing *)(void *)j;
    int r = 0;

    if (c->parent_name != NULL)
        r = image_store_find(j->im->store, c->any_parent ? &IMAGE_VIEW_ALL : &c->view,
                             c->parent_name, &c->parent, &j->err);
    if (r == 0 && c->layer != NULL) {
        r = digest_of_file(c->layer->file.fd, c->digest, &c->bytes);
        if (r < 0)
            (void)err_errno(&j->err, r, "layer");
    }
    return r < 0 ? r : compose_stack_layers(c, &j->err);
}

static void after_prepare(struct images_job *j)
{
    static const struct layering_events events = {
        .open_blob = open_blob, .on_progress = on_layering_progress, .on_done = on_layering_done};
    struct composing *c = (struct composing *)(void *)j;
    struct layering *unused;
    int r = j->r;

    if (r == 0)
        r = layering_start(j->im, c->image, images_most(j->im, &c->view), &events, c, &unused,
                           &j->err);
    if (r < 0)
        compose_end(c, r, &j->err);
}

static int copy_text(const char *text, char **ret)
{
    if (text == NULL)
        return 0;
    if (strlen(text) > TEXT_MAX)
        return -E2BIG;
    *ret = strdup(text);
    return *ret != NULL ? 0 : -ENOMEM;
}

static int copy_changes(const char *const *changes, char ***ret)
{
    size_t n = 0;
    char **copy;

    if (changes == NULL)
        return 0;
    while (changes[n] != NULL)
        n++;
    if (n > CHANGES_MAX)
        return -E2BIG;
    copy = *ret = calloc(n + 1, sizeof(*copy));
    for (size_t i = 0; copy != NULL && i < n; i++)
        if ((copy[i] = strdup(changes[i])) == NULL)
            return -ENOMEM;
    return copy != NULL ? 0 : -ENOMEM;
}

int image_changes_check(const char *const *changes, struct err *err)
{
    auto_ptr(json_decref) json_t *root = new_config();
    int r = root != NULL ? 0 : err_errno(err, -ENOMEM, "image");

    for (; r == 0 && changes != NULL && *changes != NULL; changes++)
        r = image_config_change(root, *changes, err);
    return r;
}

int images_compose(struct images *im, const struct image_view *view, const struct image_compose *o,
                   image_cb cb, void *data, struct err *err)
{
    struct composing *c = calloc(1, sizeof(*c));
    int r;

    if (c == NULL)
        return err_errno(err, -ENOMEM, "image");
    c->view = *view;
    c->bounds = (struct image_bounds)IMAGE_BOUNDS_NONE;
    c->any_parent = o->any_parent;
    c->cb = cb;
    c->data = data;
    c->on_progress = o->on_progress;
    r = copy_text(o->parent, &c->parent_name);
    if (r == 0)
        r = copy_text(o->message, &c->message);
    if (r == 0)
        r = copy_text(o->author, &c->author);
    if (r == 0)
        r = copy_changes(o->changes, &c->changes);
    if (r < 0)
        (void)err_errno(err, r, "image");
    if (r == 0)
        r = image_changes_check((const char *const *)c->changes, err);
    if (r == 0 && o->name != NULL)
        r = image_whole_name(o->name, c->name, err);
    if (r < 0) {
        c->job.im = NULL;
        composing_free(c);
        return r;
    }
    c->layer = o->layer;
    if (c->layer != NULL)
        (void)memcpy(c->tmp, c->layer->file.tmp, sizeof(c->tmp));
    job_start(im, &c->job, work_prepare, after_prepare);
    return 0;
}
