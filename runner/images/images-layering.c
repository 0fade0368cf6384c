/*
 * Unpacks the layers of one image in worker processes, from the bottom up, each above those below
 * it. Runs on the event loop of images_new.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "images/images-internal.h"
#include "sandbox/limits.h"

struct layering {
    struct images *im;   /* counted reference */
    struct image *image; /* borrowed */
    size_t at;           /* index of the layer being unpacked */
    int64_t left;        /* bytes that may still be unpacked */
    bool bounded;        /* by what a member may have, not by the daemon's limit */
    struct image_worker *worker;
    struct worker_msg done;  /* DONE message of the worker of the layer being committed */
    bool cancelled, waiting; /* waiting: a callback with a pointer to this is pending */
    const struct layering_events *events;
    void *data;
};

static void layering_next(struct layering *l);

static void layering_free(struct layering *l)
{
    images_release(l->im);
    free(l);
}

static void layering_finish(struct layering *l, int r, const struct err *err)
{
    images_done_cb cb = l->events->on_done;
    void *data = l->data;

    layering_free(l);
    cb(data, r, err);
}

static void layering_fail(struct layering *l, int r, struct err *err)
{
    const struct image_layer *layer = &l->image->layers[l->at];

    (void)err_wrap(err, r, "layer %zu of %zu (%s)", l->at + 1, l->image->layer_count,
                   layer->blob[0] != '\0' ? layer->blob : "new");
    if (r == -EFBIG)
        (void)err_wrap(err, r, "limit %s", l->bounded ? "perMember.imageBytes" : "maxImageBytes");
    else if (r == -E2BIG)
        (void)err_wrap(err, r, "limit maxImageFiles");
    layering_finish(l, r, err);
}

static void layering_progress(struct layering *l, const char *stage, int64_t done)
{
    const struct image_layer *layer = &l->image->layers[l->at];
    const struct image_progress p = {.stage = stage,
                                     .id = layer->diff_id,
                                     .name = "",
                                     .layer = (unsigned)l->at + 1,
                                     .layers = (unsigned)l->image->layer_count,
                                     .done = done,
                                     .total = layer->bytes};

    if (l->events->on_progress != NULL)
        l->events->on_progress(l->data, &p);
}

static void on_layer_committed(void *data, int r, const struct err *err)
{
    struct layering *l = data;

    l->waiting = false;
    if (l->cancelled) {
        layering_free(l);
        return;
    }
    if (r < 0) {
        struct err own = *err;

        layering_fail(l, r, &own);
        return;
    }
    l->left -= (int64_t)l->done.files;
    layering_progress(l, "layer", l->image->layers[l->at].bytes);
    l->at++;
    layering_next(l);
}

/*
 * Checks the diff id against the digest of the unpacked archive, which the worker's trusted process
 * has computed.
 */
static int layering_check_digest(struct layering *l, const struct worker_msg *done, struct err *err)
{
    struct image_layer *layer = &l->image->layers[l->at];
    char is[DIGEST_LEN + 1];

    digest_format(done->digest, is);
    if (layer->diff_id[0] == '\0') {
        (void)memcpy(layer->diff_id, is, sizeof(layer->diff_id));
        image_chain(l->image->layers, l->at);
    }
    if (strcmp(is, layer->diff_id) != 0)
        return err_set(err, -EBADMSG,
                       "its uncompressed archive has the digest %s, not the diff id %s of the "
                       "configuration",
                       is, layer->diff_id);
    layer->of_parents = (done->flags & WORKER_OF_PARENTS) != 0;
    layer->claimed = false;
    return 0;
}

static void on_worker_end(void *data, int r, const struct worker_msg *done, const struct err *err)
{
    struct layering *l = data;
    struct image_worker *w = l->worker;
    struct err own = ERR_NONE;

    if (r < 0) {
        own = *err;
        l->worker = NULL; /* the worker drops itself after a failure */
        layering_fail(l, r, &own);
        return;
    }
    r = layering_check_digest(l, done, &own);
    l->worker = NULL;
    if (r < 0) {
        image_worker_drop(w);
        layering_fail(l, r, &own);
        return;
    }
    if (image_names_has(&l->im->present, image_layer_name(&l->image->layers[l->at]))) {
        image_worker_drop(w); /* it has shown that the claim is true */
        layering_progress(l, "layer", l->image->layers[l->at].bytes);
        l->at++;
        layering_next(l);
        return;
    }
    l->done = *done;
    l->waiting = true;
    r = image_worker_commit(w, image_layer_name(&l->image->layers[l->at]), (int64_t)done->files,
                            on_layer_committed, l, &own);
    if (r < 0) {
        l->waiting = false;
        layering_fail(l, r, &own);
    }
}

static void on_worker_msg(void *data, const struct worker_msg *m)
{
    if (m->type == WORKER_PROGRESS)
        layering_progress(data, "unpack", (int64_t)m->packed);
}

static int layering_start_worker(struct layering *l, struct err *err)
{
    static const struct image_worker_events events = {.on_msg = on_worker_msg,
                                                      .on_end = on_worker_end};
    const char *parents[IMAGE_LAYERS_MAX + 1];
    const struct supervisor_limits *limits = l->im->config.limits;
    struct image_work work = {
        .kind = LAUNCH_WORK_LAYER,
        .layers = parents,
        .start = {.op = WORKER_UNPACK,
                  .flags = l->at == 0 ? WORKER_BOTTOM : 0,
                  .files = (uint64_t)l->left,
                  .entries = limits->image_files},
    };
    size_t n = 0;

    /* tar headers and padding are not contents; 3 KiB for each entry allow for long names */
    work.start.bytes = work.start.files + work.start.entries * 3072;
    for (size_t i = l->at; i > 0; i--)
        parents[n++] = image_layer_name(&l->image->layers[i - 1]);
    parents[n] = NULL;
    work.fd = l->events->open_blob(l->data, l->at, err);
    if (work.fd < 0)
        return work.fd;
    return image_worker_start(l->im, &work, &events, l, &l->worker, err);
}

/*
 * True if the layer is unpacked already, for any chain of parents or for this one. A diff id that
 * only an archive claims is not believed: whoever knows the digest of another user's layer would
 * have its files, and the image's blob, which is what scanners read, could be other bytes than what
 * runs. So such a blob is unpacked, and hashed by that.
 */
static bool is_there(struct layering *l, struct image_layer *layer)
{
    if (layer->diff_id[0] == '\0' || layer->claimed)
        return false;
    layer->of_parents = false;
    if (image_names_has(&l->im->present, image_layer_name(layer)))
        return true;
    layer->of_parents = true;
    return image_names_has(&l->im->present, image_layer_name(layer));
}

static void layering_next(struct layering *l)
{
    struct err err = ERR_NONE;
    int r;

    while (l->at < l->image->layer_count && is_there(l, &l->image->layers[l->at])) {
        layering_progress(l, "layer", l->image->layers[l->at].bytes);
        l->at++;
    }
    if (l->at == l->image->layer_count) {
        layering_finish(l, 0, NULL);
        return;
    }
    r = layering_start_worker(l, &err);
    if (r < 0)
        layering_fail(l, r, &err);
}

static void on_layers_listed(void *data, int r, const struct err *err)
{
    struct layering *l = data;

    l->waiting = false;
    if (l->cancelled)
        layering_free(l);
    else if (r < 0)
        layering_finish(l, r, err);
    else
        layering_next(l);
}

int layering_start(struct images *im, struct image *image, int64_t most,
                   const struct layering_events *events, void *data, struct layering **ret,
                   struct err *err)
{
    struct layering *l;
    int r;

    if (image->layer_count > im->config.limits->image_layers)
        return err_set(err, -E2BIG, "limit maxImageLayers: the image has %zu layers",
                       image->layer_count);
    l = calloc(1, sizeof(*l));
    if (l == NULL)
        return err_errno(err, -ENOMEM, "layers");
    *l = (struct layering){.im = im,
                           .image = image,
                           .left = most,
                           .bounded = most < (int64_t)im->config.limits->image_bytes,
                           .events = events,
                           .data = data,
                           .waiting = true};
    images_hold(im);
    *ret = l;
    r = images_list_layers(im, on_layers_listed, l, err);
    if (r < 0) {
        *ret = NULL;
        layering_free(l);
    }
    return r;
}

void layering_cancel(struct layering *l)
{
    if (l == NULL)
        return;
    image_worker_drop(take(l->worker));
    l->cancelled = true;
    if (!l->waiting)
        layering_free(l);
}
