/*
 * The image service as a whole: finds, lists, names and removes images, and sweeps unused blobs and
 * layers. Loads and saves are in images-load.c and images-save.c.
 */

#include "images/images.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "images/images-internal.h"
#include "json/decode.h"
#include "launch/launcher.h"
#include "policy/client.h"
#include "sandbox/limits.h"
#include "spec/spec.h"

enum {
    LAYER_LIST_MAX = 64 << 20,
    SWEEP_RETRY_MS = 500, /* delay after a sweep that could not remove everything */
};

/* ---- names ---- */

static size_t names_at(const struct image_names *n, const char *text)
{
    size_t low = 0, high = n->count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (strcmp(n->list[mid], text) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

bool image_names_has(const struct image_names *n, const char *text)
{
    size_t at = names_at(n, text);

    return at < n->count && strcmp(n->list[at], text) == 0;
}

int image_names_add_sized(struct image_names *n, const char *text, int64_t bytes)
{
    int64_t *sizes = reallocarray(n->bytes, n->count + 2, sizeof(*sizes));
    size_t at = names_at(n, text);
    int r;

    if (sizes == NULL)
        return -ENOMEM;
    n->bytes = sizes;
    if (at == n->count || strcmp(n->list[at], text) != 0) {
        const size_t count = n->count;

        r = image_names_add(n, text);
        if (r < 0)
            return r;
        (void)memmove(&sizes[at + 1], &sizes[at], (count - at) * sizeof(*sizes));
    }
    sizes[at] = bytes;
    return 0;
}

int image_names_add(struct image_names *n, const char *text)
{
    size_t at = names_at(n, text);
    char **more, *copy;

    if (at < n->count && strcmp(n->list[at], text) == 0)
        return 0;
    copy = strdup(text);
    more = copy != NULL ? reallocarray(n->list, n->count + 2, sizeof(*more)) : NULL;
    if (more == NULL) {
        free(copy);
        return -ENOMEM;
    }
    n->list = more;
    (void)memmove(&more[at + 1], &more[at], (n->count - at) * sizeof(*more));
    more[at] = copy;
    more[++n->count] = NULL;
    return 0;
}

static void image_names_drop(struct image_names *n, const char *text)
{
    size_t at = names_at(n, text);

    if (at == n->count || strcmp(n->list[at], text) != 0)
        return;
    free(n->list[at]);
    (void)memmove(&n->list[at], &n->list[at + 1], (n->count - at) * sizeof(n->list[0]));
    if (n->bytes != NULL)
        (void)memmove(&n->bytes[at], &n->bytes[at + 1], (n->count - at - 1) * sizeof(n->bytes[0]));
    n->count--;
}

static void image_names_done(struct image_names *n)
{
    json_strings_free(n->list);
    free(n->bytes);
    *n = (struct image_names){.list = NULL};
}

int images_bounds(const struct images *im, const struct image_view *view, struct image_bounds *ret,
                  struct err *err)
{
    const struct client_policy *c = im->config.clients;
    struct image_bounds b = IMAGE_BOUNDS_NONE;

    if (c != NULL && !view->all) {
        b.one = c->per_member.image_bytes;
        b.all = c->all_members.image_bytes;
    }
    if ((b.one >= 0 || b.all >= 0) && im->present.bytes != NULL) {
        b.trees = calloc(im->present.count + 1, sizeof(b.trees[0]));
        if (b.trees == NULL)
            return err_errno(err, -ENOMEM, "image");
        b.tree_count = im->present.count;
        for (size_t i = 0; i < b.tree_count; i++) {
            (void)snprintf(b.trees[i].name, sizeof(b.trees[i].name), "%.*s", CHARGE_KEY_MAX,
                           im->present.list[i]);
            b.trees[i].bytes = im->present.bytes[i];
        }
    }
    *ret = b;
    return 0;
}

int64_t images_most(const struct images *im, const struct image_view *view)
{
    const struct client_policy *c = im->config.clients;
    int64_t most = (int64_t)im->config.limits->image_bytes;

    if (c == NULL || view->all)
        return most;
    if (c->per_member.image_bytes >= 0 && c->per_member.image_bytes < most)
        most = c->per_member.image_bytes;
    if (c->all_members.image_bytes >= 0 && c->all_members.image_bytes < most)
        most = c->all_members.image_bytes;
    return most;
}

/* ---- lifecycle ---- */

int images_new(const struct images_config *config, struct images **ret, struct err *err)
{
    struct images *im = calloc(1, sizeof(*im));
    int r;

    if (im == NULL)
        return err_errno(err, -ENOMEM, "images");
    im->config = *config;
    r = image_store_open(config->dir_fd, &im->store, err);
    if (r < 0) {
        free(im);
        return r;
    }
    im->busy = 1; /* reference of the owner, dropped by images_close */
    (void)uv_timer_init(config->loop, &im->retry); /* cannot fail */
    im->retry.data = im;
    *ret = im;
    return 0;
}

void images_hold(struct images *im)
{
    im->busy++;
}

void images_release(struct images *im)
{
    if (--im->busy > 0)
        return;
    image_store_close(im->store);
    image_names_done(&im->present);
    image_names_done(&im->used);
    free(im);
}

static void on_retry_closed(uv_handle_t *h)
{
    images_release(h->data);
}

void images_close(struct images *im)
{
    if (im == NULL || im->closing)
        return;
    im->closing = true;
    image_workers_end(im);
    uv_close((uv_handle_t *)&im->retry, on_retry_closed);
}

int images_send(struct images *im, const struct buf *request, launch_cb cb, void *data,
                struct err *err)
{
    if (im->closing)
        return err_set(err, -ECANCELED, "the daemon stops");
    return launcher_client_send(im->config.launcher, request, cb, data, err);
}

void images_emit(struct images *im, const struct image_view *view, const char *type, const char *id,
                 const char *name)
{
    if (im->config.on_event != NULL && !im->closing)
        im->config.on_event(im->config.data, type, id, name, view->all ? -1 : view->uid);
}

/* ---- jobs ---- */

static void on_pool_work(uv_work_t *req)
{
    struct images_job *j = req->data;

    j->r = j->work(j);
}

static void on_pool_done(uv_work_t *req, int status)
{
    struct images_job *j = req->data;
    struct images *im = j->im;

    if (status < 0)
        j->r = err_errno(&j->err, status, "thread pool");
    j->after(j);
    images_release(im);
}

void job_start(struct images *im, struct images_job *j, int (*work)(struct images_job *),
               void (*after)(struct images_job *))
{
    j->im = im;
    j->work = work;
    j->after = after;
    j->r = 0;
    j->err = (struct err)ERR_NONE;
    j->req.data = j;
    images_hold(im);
    /* Fails only for a job without a work function. */
    (void)uv_queue_work(im->config.loop, &j->req, on_pool_work, on_pool_done);
}

/* ---- finding ---- */

struct image_search {
    struct images_job job;
    struct image_view view;
    char *name;          /* owned */
    struct image *image; /* owned */
    struct image **list; /* owned */
    size_t count;
    bool ready; /* its layers are wanted as well */
    image_cb cb;
    image_list_cb list_cb;
    void *data;
};

static struct image_search *finding_new(const struct image_view *view, const char *name, void *data)
{
    struct image_search *f = calloc(1, sizeof(*f));

    if (f != NULL) {
        f->view = *view;
        f->data = data;
        f->name = strdup(name);
    }
    if (f != NULL && f->name == NULL) {
        free(f);
        f = NULL;
    }
    return f;
}

static void finding_free(struct image_search *f)
{
    image_free(f->image);
    image_list_free(f->list, f->count);
    free(f->name);
    free(f);
}

static int work_find_image(struct images_job *j)
{
    struct image_search *f = (struct image_search *)(void *)j;

    return image_store_find(j->im->store, &f->view, f->name, &f->image, &j->err);
}

static void finding_finish(struct image_search *f, int r, const struct err *err)
{
    f->cb(f->data, r, r < 0 ? NULL : take(f->image), err);
    finding_free(f);
}

static void on_finding_layered(void *data, int r, const struct err *err)
{
    finding_finish(data, r, err);
}

static int open_blob(void *data, size_t i, struct err *err)
{
    struct image_search *f = data;
    int64_t size;

    return blob_open(f->job.im->store, f->image->layers[i].blob, &size, err);
}

static bool all_there(const struct images *im, const struct image *image)
{
    for (size_t i = 0; i < image->layer_count; i++)
        if (!image_names_has(&im->present, image_layer_name(&image->layers[i])))
            return false;
    return im->listed;
}

static void after_find(struct images_job *j)
{
    static const struct layering_events events = {.open_blob = open_blob,
                                                  .on_done = on_finding_layered};
    struct image_search *f = (struct image_search *)(void *)j;
    struct layering *unused;
    int r = j->r;

    if (r < 0 || !f->ready || all_there(j->im, f->image)) {
        finding_finish(f, r, &j->err);
        return;
    }
    r = layering_start(j->im, f->image, (int64_t)j->im->config.limits->image_bytes, &events, f,
                       &unused, &j->err);
    if (r < 0)
        finding_finish(f, r, &j->err);
}

static int find_image(struct images *im, const struct image_view *view, const char *name,
                      bool ready, image_cb cb, void *data, struct err *err)
{
    struct image_search *f = finding_new(view, name, data);

    if (f == NULL)
        return err_errno(err, -ENOMEM, "image");
    f->cb = cb;
    f->ready = ready;
    job_start(im, &f->job, work_find_image, after_find);
    return 0;
}

int images_find(struct images *im, const struct image_view *view, const char *name, image_cb cb,
                void *data, struct err *err)
{
    return find_image(im, view, name, false, cb, data, err);
}

int images_ready(struct images *im, const struct image_view *view, const char *name, image_cb cb,
                 void *data, struct err *err)
{
    return find_image(im, view, name, true, cb, data, err);
}

static int work_list(struct images_job *j)
{
    struct image_search *f = (struct image_search *)(void *)j;

    return image_store_list(j->im->store, &f->view, &f->list, &f->count, &j->err);
}

static void after_list(struct images_job *j)
{
    struct image_search *f = (struct image_search *)(void *)j;
    struct image **list = take(f->list);
    size_t count = f->count;

    f->count = 0;
    f->list_cb(f->data, j->r, list, count, &j->err);
    finding_free(f);
}

int images_list(struct images *im, const struct image_view *view, image_list_cb cb, void *data,
                struct err *err)
{
    struct image_search *f = finding_new(view, "", data);

    if (f == NULL)
        return err_errno(err, -ENOMEM, "images");
    f->list_cb = cb;
    job_start(im, &f->job, work_list, after_list);
    return 0;
}

/* ---- unpacked layers ---- */

struct image_listing {
    struct images_job job;
    images_done_cb cb;
    void *data;
};

/* The fd shares the launcher's file offset, which is at the end. */
static int read_list(int fd, char **ret, size_t *ret_len, struct err *err)
{
    if (lseek(fd, 0, SEEK_SET) < 0)
        return err_errno(err, -errno, "list of layers");
    return file_read_fd(fd, LAYER_LIST_MAX, ret, ret_len, err);
}

static int read_present_layers(struct images *im, int fd, struct err *err)
{
    auto_free char *text = NULL;
    size_t len = 0;
    int r;

    r = read_list(fd, &text, &len, err);
    if (r < 0)
        return r;
    image_names_done(&im->present);
    for (size_t at = 0; r == 0 && at < len; at += strlen(text + at) + 1) {
        char name[LAUNCH_LAYER_NAME + 1];
        const size_t name_len = strcspn(text + at, " ");

        (void)snprintf(name, sizeof(name), "%.*s", (int)name_len, text + at);
        r = image_names_add_sized(&im->present, name, strtoll(text + at + name_len, NULL, 10));
    }
    if (r < 0)
        return err_errno(err, r, "list of layers");
    im->listed = true;
    return 0;
}

static void on_layer_list(void *data, int r, const struct launch_reply *reply, int fds[2],
                          const struct err *err)
{
    struct image_listing *l = data;
    struct images *im = l->job.im;
    struct err own = ERR_NONE;

    (void)reply;
    if (r == 0) {
        r = read_present_layers(im, fds[0], &own);
        err = &own;
    }
    l->cb(l->data, r, err);
    free(l);
    images_release(im);
}

static int work_nothing(struct images_job *j)
{
    (void)j;
    return 0;
}

static void after_nothing(struct images_job *j)
{
    struct image_listing *l = (struct image_listing *)(void *)j;

    l->cb(l->data, 0, NULL);
    free(l);
}

/* Asks the launcher for its list of layers, even if one is known already. */
static int request_layer_list(struct images *im, struct image_listing *l, struct err *err)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    int r;

    launch_begin(&b, LAUNCH_LAYER_LIST);
    r = launch_end(&b);
    if (r < 0)
        return err_errno(err, r, "list of layers");
    l->job.im = im;
    r = images_send(im, &b, on_layer_list, l, err);
    if (r == 0)
        images_hold(im);
    return r;
}

int images_list_layers(struct images *im, images_done_cb cb, void *data, struct err *err)
{
    struct image_listing *l = calloc(1, sizeof(*l));
    int r;

    if (l == NULL)
        return err_errno(err, -ENOMEM, "list of layers");
    l->cb = cb;
    l->data = data;
    if (im->listed) {
        job_start(im, &l->job, work_nothing, after_nothing);
        return 0;
    }
    r = request_layer_list(im, l, err);
    if (r < 0)
        free(l);
    return r;
}

/* ---- names ---- */

struct name_update {
    struct images_job job;
    struct image_view view;
    char *name; /* owned */
    char whole[REFERENCE_MAX + 1], id[DIGEST_LEN + 1];
    images_done_cb cb;
    void *data;
};

static int work_tag(struct images_job *j)
{
    struct name_update *n = (struct name_update *)(void *)j;

    return image_store_tag(j->im->store, &n->view, n->name, n->whole, n->id, &j->err);
}

static void after_tag(struct images_job *j)
{
    struct name_update *n = (struct name_update *)(void *)j;

    if (j->r == 0)
        images_emit(j->im, &n->view, "image_tag", n->id, n->whole);
    n->cb(n->data, j->r, &j->err);
    free(n->name);
    free(n);
}

int image_whole_name(const char *name, char ret[REFERENCE_MAX + 1], struct err *err)
{
    struct reference ref;
    int r = reference_parse(name, &ref, err);

    if (r < 0)
        return r;
    if (ref.digest[0] != '\0')
        return err_set(err, -EINVAL, "image \"%.128s\": a digest cannot be given as a name", name);
    reference_default_tag(&ref);
    reference_format(&ref, ret);
    return 0;
}

int images_tag(struct images *im, const struct image_view *view, const char *name,
               const char *new_name, images_done_cb cb, void *data, struct err *err)
{
    struct name_update *n = calloc(1, sizeof(*n));
    int r;

    if (n == NULL)
        return err_errno(err, -ENOMEM, "image");
    r = image_whole_name(new_name, n->whole, err);
    if (r == 0 && (n->name = strdup(name)) == NULL)
        r = err_errno(err, -ENOMEM, "image");
    if (r < 0) {
        free(n);
        return r;
    }
    n->view = *view;
    n->cb = cb;
    n->data = data;
    job_start(im, &n->job, work_tag, after_tag);
    return 0;
}

/* ---- images and layers in use by sandboxes ---- */

void images_used(struct images *im, const struct spec *spec)
{
    int r = 0;

    if (spec == NULL || spec->image_id == NULL)
        return;
    r = image_names_add(&im->used, spec->image_id);
    for (char **l = spec->image_layers; r == 0 && l != NULL && *l != NULL; l++)
        r = image_names_add(&im->used, *l);
    if (r < 0)
        abort(); /* sweeping with an incomplete list would remove layers in use */
}

static void gather_used(struct images *im)
{
    image_names_done(&im->used);
    im->config.each_used(im->config.data, im);
}

/* ---- removing ---- */

struct image_removal {
    struct images_job job;
    struct image_view view;
    char *name; /* owned; NULL = prune */
    bool force, all;
    bool owed;                   /* some of it could not be removed; another sweep follows */
    struct image_names used;     /* owned; copy of job->im->used */
    struct images_filter filter; /* of a prune; wanted NULL = none */
    struct image_names wanted;   /* owned; ids that the filter lets through */
    struct store_removal done;
    int64_t bytes;
    images_removed_cb cb; /* NULL: a sweep, without a caller */
    void *data;
    char **keep; /* owned; layers of all images */
    int alone;   /* owned; exclusive lock: no layer is made while it is open */
};

static bool is_used(void *data, const char *id)
{
    return image_names_has(&((struct image_removal *)data)->used, id);
}

static bool is_unwanted(void *data, const char *id)
{
    return !image_names_has(&((struct image_removal *)data)->wanted, id);
}

/* An image that is added behind this is not removed. */
static int removal_find_wanted(struct image_removal *rm, struct err *err)
{
    struct image **list = NULL;
    size_t count = 0;
    int r = image_store_list(rm->job.im->store, &rm->view, &list, &count, err);

    for (size_t i = 0; r == 0 && i < count; i++)
        if (rm->filter.wanted(rm->filter.data, list[i]) &&
            !image_names_has(&rm->wanted, list[i]->id)) {
            r = image_names_add(&rm->wanted, list[i]->id);
            if (r < 0)
                (void)err_errno(err, r, "images");
        }
    image_list_free(list, count);
    return r;
}

static int work_remove(struct images_job *j)
{
    struct image_removal *rm = (struct image_removal *)(void *)j;
    struct image_store *s = j->im->store;
    int r = 0;

    if (rm->name != NULL)
        r = image_store_remove(s, &rm->view, rm->name, rm->force, is_used, rm, &rm->done, &j->err);
    else if (rm->cb != NULL && rm->filter.wanted != NULL)
        r = removal_find_wanted(rm, &j->err);
    if (r == 0 && rm->name == NULL && rm->cb != NULL)
        r = image_store_prune(s, &rm->view, rm->all, rm->filter.wanted != NULL ? is_unwanted : NULL,
                              is_used, rm, &rm->done, &j->err);
    if (r < 0)
        return r;
    rm->alone = image_store_collect(s, &rm->keep, &rm->bytes, &j->err);
    return rm->alone < 0 && rm->alone != FD_NONE ? rm->alone : 0;
}

static void on_sweep_retry(uv_timer_t *h)
{
    images_sweep_soon(h->data);
}

static void removing_free(struct image_removal *rm)
{
    struct images *im = rm->job.im;
    const bool owed = rm->owed;

    if (rm->alone >= 0)
        (void)close(rm->alone);
    store_removal_done(&rm->done);
    image_names_done(&rm->used);
    image_names_done(&rm->wanted);
    json_strings_free(rm->keep);
    free(rm->name);
    free(rm);
    im->sweeping--;
    if (owed && !im->closing)
        (void)uv_timer_start(&im->retry, on_sweep_retry, SWEEP_RETRY_MS, 0);
    else if (im->sweep_asked)
        images_sweep_soon(im);
    images_release(im);
}

static void finish_removal(struct image_removal *rm, int r, const struct err *err)
{
    static const char *const none[] = {NULL};
    const struct images_removed removed = {
        .untagged = rm->done.untagged != NULL ? (const char *const *)rm->done.untagged : none,
        .deleted = rm->done.deleted != NULL ? (const char *const *)rm->done.deleted : none,
        .bytes = rm->bytes};
    struct images *im = rm->job.im;

    for (size_t i = 0; r == 0 && removed.untagged[i] != NULL; i++)
        images_emit(im, &rm->view, "image_untag", "", removed.untagged[i]);
    for (size_t i = 0; r == 0 && removed.deleted[i] != NULL; i++)
        images_emit(im, &rm->view, "image_remove", removed.deleted[i], "");
    if (rm->cb != NULL)
        rm->cb(rm->data, r, &removed, err);
    removing_free(rm);
}

static void on_layer_removed(void *data, int r, const struct launch_reply *reply, int fds[2],
                             const struct err *err)
{
    (void)reply;
    (void)fds;
    if (r < 0 && r != -ENOENT && r != -ECANCELED)
        log_warn("images", "remove a layer: %s", err->msg);
    images_release(data);
}

/* Returns true if the request was sent. */
static bool remove_layer(struct images *im, const char *name)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);

    launch_begin(&b, LAUNCH_LAYER_REMOVE);
    launch_put_string(&b, TAG_IMAGE_LAYER, name);
    if (launch_end(&b) < 0 || images_send(im, &b, on_layer_removed, im, NULL) < 0)
        return false;
    images_hold(im);
    return true;
}

/*
 * Removes the layers that neither an image nor a sandbox uses. The launcher handles requests in
 * order, so a layer made again later is not affected by this removal.
 */
static void on_all_layers(void *data, int r, const struct err *err)
{
    struct image_removal *rm = data;
    struct images *im = rm->job.im;
    struct image_names keep = {.list = NULL};
    bool orphans = false;

    if (r < 0) {
        finish_removal(rm, r, err);
        return;
    }
    gather_used(im); /* gathered now, because a sandbox may have been created meanwhile */
    for (char **k = rm->keep; r == 0 && k != NULL && *k != NULL; k++)
        r = image_names_add(&keep, *k);
    for (size_t i = 0; r == 0 && i < im->present.count;) {
        const char *name = im->present.list[i];

        if (image_names_has(&keep, name) || image_names_has(&im->used, name)) {
            orphans |= !image_names_has(&keep, name);
            i++;
        } else if (rm->owed || !remove_layer(im, name)) {
            rm->owed = true; /* the launcher's queue is full: the remaining layers stay for now */
            i++;
        } else {
            image_names_drop(&im->present, name);
        }
    }
    image_names_done(&keep);
    im->orphans = orphans;
    finish_removal(rm, 0, NULL);
}

static void after_remove(struct images_job *j)
{
    struct image_removal *rm = (struct image_removal *)(void *)j;
    struct image_listing *l = NULL;

    if (j->r < 0 || rm->alone < 0) {
        rm->owed = j->r == 0; /* a load or another sweep holds the lock */
        finish_removal(rm, j->r, &j->err);
        return;
    }
    l = calloc(1, sizeof(*l));
    if (l != NULL) {
        l->cb = on_all_layers;
        l->data = rm;
    }
    if (l == NULL || request_layer_list(j->im, l, &j->err) < 0) {
        free(l);
        rm->owed = true;
        finish_removal(rm, 0, NULL);
    }
}

static int start_removal(struct images *im, const char *name, struct image_removal *rm,
                         struct err *err)
{
    int r = 0;

    rm->alone = FD_NONE;
    if (name != NULL && (rm->name = strdup(name)) == NULL)
        r = -ENOMEM;
    gather_used(im);
    for (size_t i = 0; r == 0 && i < im->used.count; i++)
        r = image_names_add(&rm->used, im->used.list[i]);
    if (r < 0) {
        image_names_done(&rm->used);
        free(rm->name);
        free(rm);
        return err_errno(err, r, "images");
    }
    im->sweep_asked = false;
    im->sweeping++;
    images_hold(im);
    job_start(im, &rm->job, work_remove, after_remove);
    return 0;
}

int images_remove(struct images *im, const struct image_view *view, const char *name, bool force,
                  images_removed_cb cb, void *data, struct err *err)
{
    struct image_removal *rm = calloc(1, sizeof(*rm));

    if (rm == NULL)
        return err_errno(err, -ENOMEM, "image");
    rm->view = *view;
    rm->force = force;
    rm->cb = cb;
    rm->data = data;
    return start_removal(im, name, rm, err);
}

int images_prune(struct images *im, const struct image_view *view, bool all,
                 const struct images_filter *filter, images_removed_cb cb, void *data,
                 struct err *err)
{
    struct image_removal *rm = calloc(1, sizeof(*rm));

    if (rm == NULL)
        return err_errno(err, -ENOMEM, "images");
    rm->view = *view;
    rm->all = all;
    if (filter != NULL)
        rm->filter = *filter;
    rm->cb = cb;
    rm->data = data;
    return start_removal(im, NULL, rm, err);
}

void images_sweep_soon(struct images *im)
{
    struct image_removal *rm;

    im->sweep_asked = true;
    if (im->sweeping > 0 || im->closing || im->loads > 0)
        return; /* the load or removal in progress starts the sweep when it ends */
    rm = calloc(1, sizeof(*rm));
    if (rm != NULL)
        (void)start_removal(im, NULL, rm, NULL);
}

void images_sandbox_gone(struct images *im)
{
    if (im->orphans)
        images_sweep_soon(im);
}

/* ---- disk use ---- */

struct counting {
    struct images_job job;
    struct image_view view;
    struct images_usage usage;
    images_usage_cb cb;
    void *data;
};

static int work_usage(struct images_job *j)
{
    struct counting *c = (struct counting *)(void *)j;

    return image_store_usage(j->im->store, &c->view, &c->usage.blob_bytes, &c->usage.images,
                             &j->err);
}

static void on_layer_sizes(void *data, int r, const struct launch_reply *reply, int fds[2],
                           const struct err *err)
{
    struct counting *c = data;
    struct images *im = c->job.im;
    auto_free char *text = NULL;
    struct err own = ERR_NONE;
    size_t len = 0;

    (void)reply;
    if (r == 0) {
        r = read_list(fds[0], &text, &len, &own);
        err = &own;
    }
    for (size_t at = 0; r == 0 && at < len; at += strlen(text + at) + 1)
        c->usage.layer_bytes += strtoll(text + at + strcspn(text + at, " "), NULL, 10);
    c->cb(c->data, r, &c->usage, err);
    free(c);
    images_release(im);
}

static void after_usage(struct images_job *j)
{
    struct counting *c = (struct counting *)(void *)j;
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    int r = j->r;

    launch_begin(&b, LAUNCH_LAYER_LIST);
    if (r == 0)
        r = launch_end(&b);
    if (r == 0)
        r = images_send(j->im, &b, on_layer_sizes, c, &j->err);
    if (r == 0) {
        images_hold(j->im);
        return;
    }
    c->cb(c->data, r, NULL, &j->err);
    free(c);
}

int images_usage(struct images *im, const struct image_view *view, images_usage_cb cb, void *data,
                 struct err *err)
{
    struct counting *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return err_errno(err, -ENOMEM, "images");
    c->view = *view;
    c->cb = cb;
    c->data = data;
    job_start(im, &c->job, work_usage, after_usage);
    return 0;
}
