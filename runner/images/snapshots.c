/*
 * A snapshot is a chain of steps, each started by the callback of the one before. It looks up the
 * sandbox's image, for its configuration, and creates a file in the store. It pauses the sandbox,
 * has a worker pack the upper layer into the file, and resumes the sandbox. The store then composes
 * an image of that layer and the parent's. A failure ends the chain, and resumes the sandbox if it
 * was paused. Runs in the supervisor's event loop.
 */
#include "images/snapshots.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "image/layer.h"
#include "images/images-internal.h"
#include "images/snapshot-config.h"
#include "json/decode.h"
#include "sandbox/freeze-ref.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/shared.h"
#include "spec/spec.h"

struct snapshot {
    struct image_view view;
    struct sandbox *s; /* a reference */
    struct images *im;
    image_cb cb;
    void *data;
    char *name, *message, *author; /* owned */
    char **changes; /* owned, NULL-terminated; changes derived from the spec come first */
    bool pause;
    struct freeze_ref freeze_ref;
    struct image_blob *blob; /* owned */
    struct image_worker *worker;
    int r;
    struct err err;
};

static void snapshot_free(struct snapshot *p)
{
    json_strings_free(p->changes);
    image_blob_free(p->blob);
    free(p->name);
    free(p->message);
    free(p->author);
    sandbox_unref(p->s);
    free(p);
}

static void finish(struct snapshot *p, int r, struct image *image, const struct err *err)
{
    p->cb(p->data, r, image, err);
    snapshot_free(p);
}

/* ---- composing the image ---- */

static void on_composed(void *data, int r, struct image *image, const struct err *err)
{
    struct snapshot *p = data;

    if (r == 0)
        sandbox_emit(p->s, "snapshot", NULL);
    finish(p, r, image, err);
}

static void compose(struct snapshot *p)
{
    const struct image_compose c = {.parent = p->s->spec->image_id,
                                    .name = p->name,
                                    .message = p->message,
                                    .author = p->author,
                                    .changes = (const char *const *)p->changes,
                                    .layer = p->blob,
                                    .any_parent = true};
    struct err err = ERR_NONE;
    int r = images_compose(p->im, &p->view, &c, on_composed, p, &err);

    if (r < 0)
        finish(p, r, NULL, &err);
    else
        p->blob = NULL;
}

/* ---- reading the files ---- */

static void after_files(struct snapshot *p)
{
    if (p->r < 0)
        finish(p, p->r, NULL, &p->err);
    else if (p->s->state == SANDBOX_GONE || p->s->spec == NULL)
        finish(p, -ECANCELED, NULL, NULL);
    else
        compose(p);
}

static void on_resumed(void *data, int r, const struct err *err)
{
    struct snapshot *p = data;

    freeze_ref_thawed(&p->freeze_ref, r);
    if (r < 0)
        log_warn("snapshot", "id=%s resume: %s, going on", p->s->id, err != NULL ? err->msg : "");
    after_files(p);
}

static void go_on(struct snapshot *p)
{
    if (!freeze_ref_put(&p->freeze_ref, on_resumed, p))
        after_files(p);
}

static void on_packed(void *data, int r, const struct worker_msg *done, const struct err *err)
{
    struct snapshot *p = data;

    (void)done;
    p->worker = NULL;
    p->r = r;
    if (r < 0)
        p->err = *err;
    go_on(p);
}

static void on_progress(void *data, const struct worker_msg *m)
{
    (void)data;
    (void)m;
}

static int pack(struct snapshot *p, struct err *err)
{
    static const struct image_worker_events events = {.on_msg = on_progress, .on_end = on_packed};
    const char *base[] = {NULL, NULL};
    const struct spec *spec = p->s->spec;
    struct image_work work = {
        .kind = spec->image_id != NULL ? LAUNCH_WORK_UPPER : LAUNCH_WORK_ROOT,
        .base_layers = base,
        .sandbox = p->s->id,
        .start = {.op = WORKER_PACK,
                  .kind = WORKER_ZSTD,
                  .flags = WORKER_ROOT_ENTRY | (spec->image_id != NULL ? WORKER_OVERLAY : 0),
                  .bytes = INT64_MAX,
                  .files = INT64_MAX,
                  .entries = p->im->config.limits->image_files},
        .fd = fcntl(image_blob_fd(p->blob), F_DUPFD_CLOEXEC, 3)};

    if (work.fd < 0)
        return err_errno(err, -errno, "snapshot");
    if (spec->image_id == NULL)
        base[0] = image_builtin_name(BUILTIN_ROOT);
    return image_worker_start(p->im, &work, &events, p, &p->worker, err);
}

static void begin_packing(struct snapshot *p)
{
    p->r = p->s->state == SANDBOX_GONE || p->s->spec == NULL
               ? err_set(&p->err, -ENOENT, "sandbox %s has been removed", p->s->id)
               : pack(p, &p->err);
    if (p->r < 0)
        go_on(p);
}

static void on_paused(void *data, int r, const struct err *err)
{
    struct snapshot *p = data;

    if (r < 0) {
        finish(p, r, NULL, err);
        return;
    }
    freeze_ref_frozen(&p->freeze_ref);
    begin_packing(p);
}

static void on_blob(void *data, int r, struct image_blob *blob, const struct err *err)
{
    struct snapshot *p = data;
    struct err own = ERR_NONE;

    p->blob = blob;
    if (r < 0) {
        finish(p, r, NULL, err);
        return;
    }
    r = p->pause ? freeze_ref_get(&p->freeze_ref, p->s, on_paused, p, &own) : 1;
    if (r < 0)
        finish(p, r, NULL, &own);
    else if (r > 0)
        begin_packing(p);
}

/* ---- the parent image's configuration ---- */

static void begin_files(struct snapshot *p)
{
    struct err err = ERR_NONE;
    int r = images_blob_new(p->im, on_blob, p, &err);

    if (r < 0)
        finish(p, r, NULL, &err);
}

static void on_parent(void *data, int r, struct image *image, const struct err *err)
{
    struct snapshot *p = data;
    struct err own = ERR_NONE;

    if (r == 0 && (p->s->state == SANDBOX_GONE || p->s->spec == NULL))
        r = err_set(&own, -ENOENT, "sandbox %s has been removed", p->s->id);
    else if (r == 0)
        r = snapshot_changes(p->s->spec, image->config, &p->changes, &own);
    image_free(image);
    if (r < 0)
        finish(p, r, NULL, own.code < 0 ? &own : err);
    else
        begin_files(p);
}

/* ---- interface ---- */

int sandbox_check_readable(const struct sandbox *s, struct err *err)
{
    const unsigned readable = 1U << SANDBOX_CREATED | 1U << SANDBOX_RUNNING | 1U << SANDBOX_PAUSED |
                              1U << SANDBOX_STOPPED;

    if (s->state == SANDBOX_GONE)
        return err_set(err, -ENOENT, "sandbox %s has been removed", sandbox_name(s));
    if ((readable & (1U << s->state)) == 0)
        return err_set(err, -EBUSY, "sandbox %s is %s", sandbox_name(s),
                       sandbox_state_name(s->state));
    return 0;
}

static int copy(const char *text, char **ret)
{
    *ret = text != NULL ? strdup(text) : NULL;
    return text != NULL && *ret == NULL ? -ENOMEM : 0;
}

static int copy_options(struct snapshot *p, const struct snapshot_options *o)
{
    size_t n = 0;

    if (copy(o->name, &p->name) < 0 || copy(o->message, &p->message) < 0 ||
        copy(o->author, &p->author) < 0)
        return -ENOMEM;
    while (o->changes != NULL && o->changes[n] != NULL)
        n++;
    p->changes = calloc(n + 1, sizeof(*p->changes));
    for (size_t i = 0; p->changes != NULL && i < n; i++)
        if (copy(o->changes[i], &p->changes[i]) < 0)
            return -ENOMEM;
    return p->changes != NULL ? 0 : -ENOMEM;
}

int sandbox_snapshot(struct sandbox *s, const struct image_view *view,
                     const struct snapshot_options *o, image_cb cb, void *data, struct err *err)
{
    struct snapshot *p;
    int r = sandbox_check_readable(s, err);

    if (r < 0)
        return r;
    if (s->spec->rootfs != NULL)
        return err_set(err, -EOPNOTSUPP,
                       "snapshot: the root of sandbox %s is a directory of the host's, which is no "
                       "image; a snapshot of one directory can be made",
                       sandbox_name(s));
    p = calloc(1, sizeof(*p));
    if (p == NULL)
        return err_errno(err, -ENOMEM, "snapshot");
    sandbox_ref(s);
    *p = (struct snapshot){
        .s = s, .im = s->sup->images, .cb = cb, .data = data, .pause = !o->no_pause};
    p->view = *view;
    p->view.private = true; /* files of a sandbox are common to no other user */
    r = copy_options(p, o);
    if (r < 0)
        (void)err_errno(err, r, "snapshot");
    if (r == 0)
        r = image_changes_check((const char *const *)p->changes, err);
    if (r == 0 && s->spec->image_id == NULL) {
        r = snapshot_changes(s->spec, NULL, &p->changes, err);
        if (r == 0)
            r = images_blob_new(p->im, on_blob, p, err);
    } else if (r == 0) {
        r = images_find(p->im, &IMAGE_VIEW_ALL, s->spec->image_id, on_parent, p, err);
    }
    if (r < 0)
        snapshot_free(p);
    return r;
}
