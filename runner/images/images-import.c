/*
 * Turns one archive of a root file system into an image. The input is first written to a temporary
 * file of the store, because its name is its digest, known only at the end. Runs on the event loop
 * of images_new.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "images/images-internal.h"
#include "json/decode.h"
#include "sandbox/limits.h"

enum { INPUT_PAUSE = 1 << 20, INPUT_MAX = 8 << 20 };

struct importing {
    struct image_load base; /* first member */
    struct images *im;      /* counted reference */
    struct image_view view;
    struct image_blob *blob; /* owned; NULL: not created yet, or handed to images_compose */
    char name[REFERENCE_MAX + 1], *message; /* message: owned */
    char **changes;                         /* owned */
    struct buf pending, flying;             /* flying: the bytes being written */
    uv_fs_t req;
    uint64_t bytes;
    bool writing, waiting, composing, input_ended, want_drain, told, cancelled;
    const struct image_load_events *events;
    void *data;
};

static bool import_proceed(struct importing *m);

static void importing_free(struct importing *m)
{
    struct images *im = m->im;

    image_blob_free(m->blob);
    buf_done(&m->pending);
    buf_done(&m->flying);
    json_strings_free(m->changes);
    free(m->message);
    free(m);
    im->loads--;
    images_sweep_soon(im);
    images_release(im);
}

/* Frees the import unless a callback is still pending. */
static void import_free_if_idle(struct importing *m)
{
    if (!m->writing && !m->waiting && !m->composing)
        importing_free(m);
}

static void import_finish(struct importing *m, int r, const struct err *err)
{
    if (m->told)
        return;
    m->told = true;
    if (!m->cancelled)
        m->events->on_done(m->data, r, err);
    import_free_if_idle(m);
}

static void import_fail(struct importing *m, int r, const char *what)
{
    struct err err = ERR_NONE;

    (void)err_errno(&err, r, "%s", what);
    import_finish(m, r, &err);
}

static void import_cancel(struct image_load *base)
{
    struct importing *m = (struct importing *)(void *)base;

    if (m->told)
        return;
    m->told = m->cancelled = true;
    import_free_if_idle(m);
}

/* ---- the image ---- */

static void on_image_composed(void *data, int r, struct image *image, const struct err *err)
{
    struct importing *m = data;
    struct image_progress p = {.stage = "image", .name = m->name};

    m->composing = false;
    if (m->told) {
        image_free(image);
        import_free_if_idle(m);
        return;
    }
    if (r == 0) {
        p.id = image->id;
        if (m->events->on_progress != NULL)
            m->events->on_progress(m->data, &p);
    }
    image_free(image);
    import_finish(m, r, err);
}

static void on_compose_progress(void *data, const struct image_progress *p)
{
    struct importing *m = data;

    if (!m->told && m->events->on_progress != NULL)
        m->events->on_progress(m->data, p);
}

static void import_compose(struct importing *m)
{
    struct image_compose c = {.name = m->name[0] != '\0' ? m->name : NULL,
                              .message = m->message != NULL ? m->message : "imported",
                              .changes = (const char *const *)m->changes,
                              .layer = m->blob,
                              .on_progress = on_compose_progress};
    struct err err = ERR_NONE;
    int r = images_compose(m->im, &m->view, &c, on_image_composed, m, &err);

    if (r < 0) {
        import_finish(m, r, &err);
        return;
    }
    m->blob = NULL;
    m->composing = true;
}

/* ---- the input ---- */

static void on_chunk_written(uv_fs_t *req)
{
    struct importing *m = req->data;
    ssize_t n = req->result;

    uv_fs_req_cleanup(req);
    m->writing = false;
    if (m->told) {
        import_free_if_idle(m);
        return;
    }
    if (n < 0) {
        import_fail(m, (int)n, "write the archive");
        return;
    }
    buf_consume(&m->flying, (size_t)n);
    (void)import_proceed(m);
}

/* Returns false if the write failed; m may be freed then. */
static bool write_some(struct importing *m)
{
    uv_buf_t b;
    int r;

    if (m->flying.len == 0) {
        struct buf swap = m->flying;

        m->flying = m->pending;
        m->pending = swap;
    }
    b = uv_buf_init(m->flying.data, (unsigned)m->flying.len);
    m->req.data = m;
    m->writing = true;
    r = uv_fs_write(m->im->config.loop, &m->req, image_blob_fd(m->blob), &b, 1, -1,
                    on_chunk_written);
    if (r == 0)
        return true;
    m->writing = false;
    import_fail(m, r, "write the archive");
    return false;
}

/* Returns true if the caller must wait for on_drain. m may be freed when it returns false. */
static bool import_proceed(struct importing *m)
{
    if (m->told || m->writing || m->waiting || m->blob == NULL)
        return m->want_drain;
    if (m->flying.len > 0 || m->pending.len > 0) {
        if (!write_some(m))
            return false;
    } else if (m->input_ended) {
        import_compose(m);
        return false;
    }
    if (!m->want_drain || m->pending.len >= INPUT_PAUSE)
        return m->want_drain;
    m->want_drain = false;
    if (m->events->on_drain != NULL)
        m->events->on_drain(m->data);
    return false;
}

static bool import_write(struct image_load *base, const void *data, size_t len)
{
    struct importing *m = (struct importing *)(void *)base;
    const uint64_t most = (uint64_t)images_most(m->im, &m->view);
    struct err err = ERR_NONE;

    if (m->told)
        return false;
    m->bytes += len;
    if (m->bytes > most) {
        import_finish(m,
                      err_set(&err, -EFBIG, "limit %s: the archive is larger than %llu bytes",
                              most < m->im->config.limits->image_bytes ? "perMember.imageBytes"
                                                                       : "maxImageBytes",
                              (unsigned long long)most),
                      &err);
        return false;
    }
    if (buf_append(&m->pending, data, len) < 0) {
        import_fail(m, -ENOMEM, "archive");
        return false;
    }
    m->want_drain = m->pending.len > INPUT_PAUSE;
    return import_proceed(m);
}

static void import_end(struct image_load *base)
{
    struct importing *m = (struct importing *)(void *)base;

    m->input_ended = true;
    (void)import_proceed(m);
}

/* ---- starting ---- */

static void on_blob_created(void *data, int r, struct image_blob *blob, const struct err *err)
{
    struct importing *m = data;

    m->waiting = false;
    m->blob = blob;
    if (m->told)
        import_free_if_idle(m);
    else if (r < 0)
        import_finish(m, r, err);
    else
        (void)import_proceed(m);
}

static int copy_options(struct importing *m, const struct image_import *o, struct err *err)
{
    size_t n = 0;

    while (o->changes != NULL && o->changes[n] != NULL)
        n++;
    m->changes = calloc(n + 1, sizeof(*m->changes));
    if (m->changes == NULL)
        return err_errno(err, -ENOMEM, "image");
    for (size_t i = 0; i < n; i++)
        if ((m->changes[i] = strdup(o->changes[i])) == NULL)
            return err_errno(err, -ENOMEM, "image");
    if (o->message != NULL && (m->message = strdup(o->message)) == NULL)
        return err_errno(err, -ENOMEM, "image");
    return o->name != NULL ? image_whole_name(o->name, m->name, err) : 0;
}

int images_import(struct images *im, const struct image_view *view, const struct image_import *o,
                  const struct image_load_events *events, void *data, struct image_load **ret,
                  struct err *err)
{
    static const struct image_load_ops ops = {
        .write = import_write, .end = import_end, .cancel = import_cancel};
    struct importing *m = calloc(1, sizeof(*m));
    int r;

    if (m == NULL)
        return err_errno(err, -ENOMEM, "image");
    m->base.ops = &ops;
    m->im = im;
    m->view = *view;
    m->events = events;
    m->data = data;
    m->pending.max = m->flying.max = INPUT_MAX;
    r = images_take_slot(im, err);
    if (r < 0) {
        free(m);
        return r;
    }
    images_hold(im);
    r = copy_options(m, o, err);
    if (r == 0)
        r = image_changes_check((const char *const *)m->changes, err);
    if (r == 0)
        r = images_blob_new(im, on_blob_created, m, err);
    if (r < 0) {
        m->told = true;
        importing_free(m);
        return r;
    }
    m->waiting = true;
    *ret = &m->base;
    return 0;
}
