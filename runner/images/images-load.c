/*
 * Loads images from an archive. The input goes through a pipe to a worker, which splits it into
 * files. image-archive.c interprets them as images. Their layers are unpacked, and only then does
 * an image get its name. The images of one archive are handled one after the other. Runs on the
 * event loop of images_new, with jobs in the thread pool.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "image/claims.h"
#include "images/image-archive.h"
#include "images/images-internal.h"
#include "json/decode.h"
#include "sandbox/limits.h"

enum {
    INPUT_PAUSE = 1 << 20, /* bytes waiting for the worker at which image_load_write says "pause" */
    PIPE_BYTES = 1 << 20,
};

struct image_loading {
    struct image_load base; /* first member */
    struct images_job job;
    struct images *im; /* counted reference */
    struct image_view view;
    struct image_bounds bounds; /* owned; for work_add */
    char name[REFERENCE_MAX +
              1];    /* complete reference; of the only image, instead of its own name; "" = none */
    int use_fd;      /* owned; while it is open, a sweep does not remove the new files */
    uv_pipe_t input; /* write end of the pipe to the worker */
    int worker_end;  /* owned; read end, until the worker has it */
    size_t queued;
    bool input_open, want_drain, input_ended;
    struct image_worker *worker;
    ssize_t taking; /* index of the entry being received; -1 = none */
    struct archive archive;
    struct archived_list list;
    struct claims claims;
    size_t at; /* index into list */
    struct layering *layering;
    bool committing, layered; /* progress of the image at `at` */
    bool in_job, cancelled, told;
    int r; /* the first failure */
    struct err err;
    const struct image_load_events *events;
    void *data;
};

static void load_next_image(struct image_loading *l);

static struct image_loading *loading_of(struct images_job *j)
{
    return (struct image_loading *)(void *)((char *)j - offsetof(struct image_loading, job));
}

/* ---- the end ---- */

/* Runs in the thread pool, because there may be tens of thousands of files to remove. */
static int work_forget(struct images_job *j)
{
    struct image_loading *l = loading_of(j);

    archive_done(&l->archive, j->im->store);
    archived_list_done(&l->list);
    claims_done(&l->claims);
    return 0;
}

static void after_forget(struct images_job *j)
{
    struct image_loading *l = loading_of(j);
    struct images *im = l->im;

    if (l->use_fd >= 0)
        (void)close(l->use_fd);
    image_bounds_done(&l->bounds);
    free(l);
    im->loads--;
    images_sweep_soon(
        im); /* removes what is incomplete, and files that concurrent sweeps had to leave */
    images_release(im);
}

static void load_free(struct image_loading *l)
{
    if (l->worker_end >= 0)
        (void)close(take_fd(&l->worker_end));
    l->in_job = true;
    job_start(l->im, &l->job, work_forget, after_forget);
}

static void on_input_closed(uv_handle_t *h)
{
    struct image_loading *l = h->data;

    l->input_open = false;
    if (l->told && !l->in_job)
        load_free(l);
}

static void close_input(struct image_loading *l)
{
    if (l->input_open && !uv_is_closing((uv_handle_t *)&l->input))
        uv_close((uv_handle_t *)&l->input, on_input_closed);
}

/* Frees the load as soon as no job and no handle refers to it. */
static void load_free_when_idle(struct image_loading *l)
{
    image_worker_drop(take(l->worker));
    layering_cancel(take(l->layering));
    close_input(l);
    if (!l->in_job && !l->input_open)
        load_free(l);
}

static void load_finish(struct image_loading *l, int r, const struct err *err)
{
    if (l->told)
        return;
    l->told = true;
    if (!l->cancelled)
        l->events->on_done(l->data, r, err);
    load_free_when_idle(l);
}

static void load_fail(struct image_loading *l, int r, struct err *err)
{
    load_finish(l, r, err);
}

static void load_cancel(struct image_load *base)
{
    struct image_loading *l = (struct image_loading *)(void *)base;

    if (l->told)
        return;
    l->cancelled = l->told = true;
    load_free_when_idle(l);
}

static void load_progress(struct image_loading *l, const struct image_progress *p)
{
    if (l->events->on_progress != NULL && !l->cancelled)
        l->events->on_progress(l->data, p);
}

/*
 * Starts a job in the thread pool. Until `after` runs, the job alone may touch the data it works
 * on.
 */
static void load_job(struct image_loading *l, int (*work)(struct images_job *),
                     void (*after)(struct images_job *))
{
    l->in_job = true;
    job_start(l->im, &l->job, work, after);
}

/* Returns true if the load continues after a job; false: it has ended, and may be freed. */
static bool load_job_done(struct image_loading *l)
{
    l->in_job = false;
    if (l->told) {
        if (!l->input_open)
            load_free(l);
        return false;
    }
    return true;
}

/* ---- putting images into the store ---- */

static int work_commit(struct images_job *j)
{
    struct image_loading *l = loading_of(j);
    struct archived *x = &l->list.images[l->at];
    struct image_store *s = j->im->store;
    char digest[DIGEST_LEN + 1];
    int r = 0;

    for (size_t i = 0; r == 0 && i < x->blob_count; i++) {
        struct archive_entry *e = &l->archive.entries[x->blobs[i]];

        if (e->file.tmp[0] != '\0') {
            r = e->file.fd = blob_reopen(s, &e->file, &j->err);
            r = r < 0 ? r : blob_commit(s, &e->file, e->digest, &j->err);
        } else if (!blob_there(s, e->digest)) {
            r = err_set(&j->err, -EIO, "blob %s: is gone", e->digest);
        }
    }
    if (r == 0 && x->config != NULL)
        r = blob_put(s, x->config, strlen(x->config), digest, &j->err);
    if (r == 0 && x->manifest != NULL)
        r = blob_put(s, x->manifest, strlen(x->manifest), digest, &j->err);
    return r;
}

static int work_add(struct images_job *j)
{
    struct image_loading *l = loading_of(j);
    struct archived *x = &l->list.images[l->at];

    return image_store_add(j->im->store, &l->view, x->image, x->names, j->im->config.limits->images,
                           &l->bounds, &j->err);
}

static void after_add(struct images_job *j)
{
    struct image_loading *l = loading_of(j);
    struct archived *x = &l->list.images[l->at];
    struct image_progress p = {.stage = "image", .id = x->image->id, .name = ""};

    if (!load_job_done(l))
        return;
    if (j->r < 0) {
        load_fail(l, j->r, &j->err);
        return;
    }
    for (size_t i = 0; x->names[i] != NULL || i == 0; i++) {
        p.name = x->names[i] != NULL ? x->names[i] : "";
        load_progress(l, &p);
        images_emit(l->im, &l->view, "image_load", p.id, p.name);
        if (x->names[i] == NULL)
            break;
    }
    l->at++;
    load_next_image(l);
}

static void load_add_when_ready(struct image_loading *l)
{
    if (l->told || l->committing || !l->layered)
        return;
    if (l->r == 0) {
        image_bounds_done(&l->bounds);
        l->r = images_bounds(l->im, &l->view, &l->bounds, &l->err);
    }
    if (l->r < 0)
        load_fail(l, l->r, &l->err);
    else
        load_job(l, work_add, after_add);
}

static void after_commit(struct images_job *j)
{
    struct image_loading *l = loading_of(j);

    l->committing = false;
    if (!load_job_done(l))
        return;
    if (j->r < 0 && l->r == 0) {
        l->r = j->r;
        l->err = j->err;
        layering_cancel(take(l->layering));
        l->layered = true;
    }
    load_add_when_ready(l);
}

/*
 * The file may be renamed to a blob at any time, even between two tries; its contents do not
 * change.
 */
static int open_blob(void *data, size_t i, struct err *err)
{
    struct image_loading *l = data;
    const struct archive_entry *e = &l->archive.entries[l->list.images[l->at].layer_entries[i]];
    struct blob_file f = {.fd = FD_NONE};
    int64_t size;
    int fd;

    (void)memcpy(f.tmp, e->tmp, sizeof(f.tmp));
    fd = blob_open(l->im->store, e->digest, &size, NULL);
    if (fd < 0)
        fd = blob_reopen(l->im->store, &f, NULL);
    return fd >= 0 ? fd : blob_open(l->im->store, e->digest, &size, err);
}

static void on_layering_progress(void *data, const struct image_progress *p)
{
    load_progress(data, p);
}

static void on_layering_done(void *data, int r, const struct err *err)
{
    struct image_loading *l = data;

    l->layering = NULL;
    l->layered = true;
    if (r < 0 && l->r == 0) {
        l->r = r;
        l->err = *err;
    }
    if (r == 0)
        claims_prove(&l->claims, l->list.images[l->at].image);
    load_add_when_ready(l);
}

/* Commits the blobs in the thread pool and unpacks the layers in workers, at the same time. */
static void load_next_image(struct image_loading *l)
{
    static const struct layering_events events = {
        .open_blob = open_blob, .on_progress = on_layering_progress, .on_done = on_layering_done};
    struct err err = ERR_NONE;
    int r;

    if (l->at == l->list.count) {
        load_finish(l, 0, NULL);
        return;
    }
    l->layered = false;
    claims_mark(&l->claims, l->list.images[l->at].image);
    r = layering_start(l->im, l->list.images[l->at].image, images_most(l->im, &l->view), &events, l,
                       &l->layering, &err);
    if (r < 0) {
        load_fail(l, r, &err);
        return;
    }
    l->committing = true;
    load_job(l, work_commit, after_commit);
}

/* ---- reading the archive ---- */

static int load_find_claims(struct image_loading *l, struct err *err)
{
    auto_free struct image **images = calloc(l->list.count + 1, sizeof(struct image *));
    int r = -ENOMEM;

    for (size_t i = 0; images != NULL && i < l->list.count; i++)
        images[i] = l->list.images[i].image;
    if (images != NULL)
        r = claims_collect(&l->claims, images, l->list.count);
    return r < 0 ? err_errno(err, r, "images") : claims_look_up(&l->claims, l->im->store, err);
}

static int work_interpret(struct images_job *j)
{
    struct image_loading *l = loading_of(j);
    int r = archive_interpret(&l->archive, j->im->store, &l->list, &j->err);

    return r < 0 ? r : load_find_claims(l, &j->err);
}

static void after_interpret(struct images_job *j)
{
    struct image_loading *l = loading_of(j);
    struct archived *only;

    if (!load_job_done(l))
        return;
    if (j->r < 0) {
        load_fail(l, j->r, &j->err);
        return;
    }
    only = &l->list.images[0];
    if (l->list.count > 1 && l->name[0] != '\0') {
        load_fail(l,
                  err_set(&j->err, -EINVAL,
                          "name: the archive has %zu images, and one name is given", l->list.count),
                  &j->err);
        return;
    }
    if (l->name[0] != '\0') {
        char **names = calloc(2, sizeof(*names));

        if (names != NULL)
            names[0] = strdup(l->name);
        if (names == NULL || names[0] == NULL) {
            json_strings_free(names);
            load_fail(l, err_errno(&j->err, -ENOMEM, "image"), &j->err);
            return;
        }
        json_strings_free(only->names);
        only->names = names;
    }
    load_next_image(l);
}

static void on_worker_entry(struct image_loading *l, const struct worker_msg *m, struct err *err)
{
    struct archive_entry *e = NULL;
    int r = 0;

    if (l->taking >= 0)
        r = err_set(err, -EPROTO, "the worker went on before a file was whole");
    if (r == 0)
        r = archive_add(&l->archive, m, &e, err);
    if (r == 0 && e->kind == WORKER_ENTRY_FILE) {
        if (blob_begin(l->im->store, &e->file, err) < 0)
            return;
        (void)memcpy(e->tmp, e->file.tmp, sizeof(e->tmp));
        l->taking = (ssize_t)l->archive.count - 1;
        (void)image_worker_take(l->worker, e->file.fd, err);
    }
}

static void on_worker_stored(struct image_loading *l, const struct worker_msg *m, struct err *err)
{
    struct archive_entry *e;

    if (l->taking < 0) {
        (void)err_set(err, -EPROTO, "the worker has stored a file that was not asked for");
        return;
    }
    e = &l->archive.entries[l->taking];
    /* an archive may have more files than the process may open */
    (void)close(take_fd(&e->file.fd));
    digest_format(m->digest, e->digest);
    e->size = (int64_t)m->bytes;
    l->taking = -1;
}

static void on_worker_msg(void *data, const struct worker_msg *m)
{
    struct image_loading *l = data;
    struct image_progress p = {.stage = "read", .id = "", .name = "", .done = (int64_t)m->packed};
    struct err err = ERR_NONE;

    if (m->type == WORKER_ENTRY)
        on_worker_entry(l, m, &err);
    else if (m->type == WORKER_STORED)
        on_worker_stored(l, m, &err);
    else
        load_progress(l, &p);
    if (err.code < 0)
        load_fail(l, err.code, &err);
}

static void on_worker_end(void *data, int r, const struct worker_msg *done, const struct err *err)
{
    struct image_loading *l = data;
    struct err own = ERR_NONE;

    (void)done;
    l->worker = NULL;
    close_input(l); /* bytes after the archive's end are not read */
    if (r < 0) {
        own = *err;
        (void)err_wrap(&own, r, "archive");
        if (r == -EFBIG)
            (void)err_wrap(&own, r, "limit %s",
                           images_most(l->im, &l->view) < (int64_t)l->im->config.limits->image_bytes
                               ? "perMember.imageBytes"
                               : "maxImageBytes");
        load_fail(l, r, &own);
        return;
    }
    load_job(l, work_interpret, after_interpret);
}

/* ---- the input ---- */

struct piece {
    uv_write_t req;
    struct image_loading *l;
    size_t len;
    char data[];
};

static void load_drain_if_wanted(struct image_loading *l)
{
    if (!l->want_drain || l->told || (l->queued > INPUT_PAUSE / 2 && l->worker != NULL))
        return;
    l->want_drain = false;
    if (l->events->on_drain != NULL)
        l->events->on_drain(l->data);
}

static void on_input_written(uv_write_t *req, int status)
{
    struct piece *p = (struct piece *)(void *)req;
    struct image_loading *l = p->l;

    (void)status; /* a worker that stops reading reports the cause itself */
    l->queued -= p->len;
    free(p);
    load_drain_if_wanted(l);
}

static bool load_write(struct image_load *base, const void *data, size_t len)
{
    struct image_loading *l = (struct image_loading *)(void *)base;
    struct piece *p;
    uv_buf_t buf;

    if (l->told || !l->input_open || uv_is_closing((uv_handle_t *)&l->input))
        return false;
    p = malloc(sizeof(*p) + len);
    if (p == NULL) {
        struct err err = ERR_NONE;

        load_fail(l, err_errno(&err, -ENOMEM, "archive"), &err);
        return false;
    }
    p->l = l;
    p->len = len;
    (void)memcpy(p->data, data, len);
    buf = uv_buf_init(p->data, (unsigned)len);
    if (uv_write(&p->req, (uv_stream_t *)&l->input, &buf, 1, on_input_written) < 0) {
        free(p);
        return false;
    }
    l->queued += len;
    l->want_drain = l->queued > INPUT_PAUSE;
    return l->want_drain;
}

static void on_input_shut(uv_shutdown_t *req, int status)
{
    struct image_loading *l = req->data;

    (void)status;
    free(req);
    close_input(l);
}

static void load_end(struct image_load *base)
{
    struct image_loading *l = (struct image_loading *)(void *)base;
    uv_shutdown_t *req;

    if (l->told || l->input_ended || !l->input_open || uv_is_closing((uv_handle_t *)&l->input))
        return;
    l->input_ended = true;
    req = malloc(sizeof(*req));
    if (req != NULL)
        req->data = l;
    if (req == NULL || uv_shutdown(req, (uv_stream_t *)&l->input, on_input_shut) < 0) {
        free(req);
        close_input(l); /* the worker reports a truncated archive */
    }
}

/* ---- starting ---- */

static int work_use(struct images_job *j)
{
    struct image_loading *l = loading_of(j);

    l->use_fd = image_store_use(j->im->store, &j->err);
    return l->use_fd < 0 ? l->use_fd : 0;
}

static void after_use(struct images_job *j)
{
    static const struct image_worker_events events = {.on_msg = on_worker_msg,
                                                      .on_end = on_worker_end};
    struct image_loading *l = loading_of(j);
    const uint64_t most = (uint64_t)images_most(j->im, &l->view);
    struct image_work work = {
        .kind = LAUNCH_WORK_STREAM,
        .start = {.op = WORKER_SPLIT,
                  .bytes = most + 3072ULL * ARCHIVE_ENTRIES_MAX,
                  .files = most,
                  .entries = ARCHIVE_ENTRIES_MAX},
    };
    int r = j->r;

    if (!load_job_done(l))
        return;
    if (r == 0) {
        work.fd = take_fd(&l->worker_end);
        r = image_worker_start(l->im, &work, &events, l, &l->worker, &j->err);
    }
    if (r < 0)
        load_fail(l, r, &j->err);
    else
        load_drain_if_wanted(l);
}

static int open_input(struct image_loading *l)
{
    int fds[2], r;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return -errno;
    (void)fcntl(fds[1], F_SETPIPE_SZ, PIPE_BYTES); /* the user's pipe limit may be lower */
    r = uv_pipe_init(l->im->config.loop, &l->input, 0);
    if (r == 0) {
        l->input.data = l;
        l->input_open = true;
        r = uv_pipe_open(&l->input, fds[1]);
    }
    if (r < 0) {
        (void)close(fds[0]);
        (void)close(fds[1]);
        return r;
    }
    l->worker_end = fds[0];
    return 0;
}

int images_take_slot(struct images *im, struct err *err)
{
    if (im->loads >= im->config.limits->image_loads)
        return err_set(err, -EAGAIN, "limit maxImageLoads: %u images are loaded or saved already",
                       im->loads);
    im->loads++;
    return 0;
}

static const struct image_load_ops load_ops = {
    .write = load_write, .end = load_end, .cancel = load_cancel};

int images_load(struct images *im, const struct image_view *view, const char *name,
                const struct image_load_events *events, void *data, struct image_load **ret,
                struct err *err)
{
    struct image_loading *l = calloc(1, sizeof(*l));
    int r = 0;

    if (l == NULL)
        return err_errno(err, -ENOMEM, "image");
    l->base.ops = &load_ops;
    l->im = im;
    l->view = *view;
    l->bounds = (struct image_bounds)IMAGE_BOUNDS_NONE;
    l->use_fd = l->worker_end = FD_NONE;
    l->taking = -1;
    l->events = events;
    l->data = data;
    if (name != NULL)
        r = image_whole_name(name, l->name, err);
    if (r == 0)
        r = images_take_slot(im, err);
    if (r < 0) {
        free(l);
        return r;
    }
    images_hold(im);
    r = open_input(l);
    if (r < 0) {
        l->told = true;
        (void)err_errno(err, r, "archive");
        load_free_when_idle(l);
        return r;
    }
    *ret = &l->base;
    load_job(l, work_use, after_use);
    return 0;
}

/* ---- dispatch to the kind of load ---- */

bool image_load_write(struct image_load *l, const void *data, size_t len)
{
    return l->ops->write(l, data, len);
}

void image_load_end(struct image_load *l)
{
    l->ops->end(l);
}

void image_load_cancel(struct image_load *l)
{
    if (l != NULL)
        l->ops->cancel(l);
}
