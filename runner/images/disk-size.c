/* The queue of counts, and the results of the last seconds (disk-size.h). Owned by struct images;
 * runs in the supervisor's event loop; called by the API. */
#include "images/disk-size.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "images/images-internal.h"
#include "sandbox/limits.h"

enum {
    AT_ONCE = 2,
    QUEUE_MAX = 4096,
    QUEUE_MS = 10000, /* the longest wait for a worker */
    ENTRIES_MAX = 1000000,
    KEEP_MS = 3000,
};

/* One count, queued or running. */
struct size_job {
    struct size_job *next;
    struct images *im; /* counted reference */
    enum disk_size_kind kind;
    char name[DISK_SIZE_NAME_MAX + 1];
    int64_t asked_ms;
    disk_size_cb cb;
    void *data;
    struct image_worker *worker; /* frees itself at its end */
};

/* since_ms: by clock_mono_ms; older results do not count. */
static bool size_find(const struct images *im, enum disk_size_kind kind, const char *name,
                      int64_t since_ms, struct disk_size *ret)
{
    for (size_t i = 0; i < DISK_SIZES_KEPT; i++) {
        const struct size_kept *k = &im->sizes.kept[i];

        if (k->kind != kind || strcmp(k->name, name) != 0 || k->counted_ms < since_ms)
            continue;
        *ret = k->size;
        return true;
    }
    return false;
}

bool disk_size_kept(const struct images *im, enum disk_size_kind kind, const char *name,
                    struct disk_size *ret)
{
    return size_find(im, kind, name, clock_mono_ms() - KEEP_MS, ret);
}

static void size_keep(struct images *im, const struct size_job *j, const struct disk_size *size)
{
    struct size_kept *k = &im->sizes.kept[im->sizes.next_kept++ % DISK_SIZES_KEPT];

    k->kind = j->kind;
    k->size = *size;
    k->counted_ms = clock_mono_ms();
    (void)memcpy(k->name, j->name, sizeof(k->name));
}

static void size_job_end(struct size_job *j, const struct disk_size *size)
{
    j->cb(j->data, size);
    images_release(j->im);
    free(j);
}

static void sizes_start_next(struct images *im);

static void on_size_message(void *data, const struct worker_msg *m)
{
    (void)data;
    (void)m; /* progress */
}

static void on_size_worker_end(void *data, int r, const struct worker_msg *done,
                               const struct err *err)
{
    struct disk_size size = {.bytes = -1};
    struct size_job *j = data;
    struct images *im = j->im;

    if (r < 0) {
        log_debug("images", "size of %s is not counted: %s", j->name, err->msg);
    } else {
        size.bytes = done->files < INT64_MAX ? (int64_t)done->files : INT64_MAX;
        size.partial = (done->flags & WORKER_PARTIAL) != 0;
        size_keep(im, j, &size);
    }
    im->sizes.running--;
    images_hold(im);
    size_job_end(j, &size);
    sizes_start_next(im);
    images_release(im);
}

static int size_job_start(struct size_job *j, struct err *err)
{
    static const struct image_worker_events events = {.on_msg = on_size_message,
                                                      .on_end = on_size_worker_end};
    const unsigned most = j->im->config.limits->image_files;
    bool sandbox = j->kind == DISK_SIZE_SANDBOX;
    struct image_work work = {
        .kind = sandbox ? LAUNCH_WORK_SANDBOX_SIZE : LAUNCH_WORK_VOLUME_SIZE,
        .sandbox = sandbox ? j->name : NULL,
        .volume = sandbox ? NULL : j->name,
        .start = {.op = WORKER_SIZE, .entries = most < ENTRIES_MAX ? most : ENTRIES_MAX},
        .fd = FD_NONE,
    };
    int r = image_worker_start(j->im, &work, &events, j, &j->worker, err);

    if (r == 0)
        j->im->sizes.running++;
    return r;
}

/* Starts queued counts. One that another request has counted since it was asked for, or that has
 * waited for too long, ends without a worker. */
static void sizes_start_next(struct images *im)
{
    while (im->sizes.first != NULL && im->sizes.running < AT_ONCE) {
        struct size_job *j = im->sizes.first;
        struct disk_size size = {.bytes = -1};
        struct err err = ERR_NONE;

        im->sizes.first = j->next;
        if (im->sizes.first == NULL)
            im->sizes.last = NULL;
        im->sizes.queued--;
        if (!size_find(im, j->kind, j->name, j->asked_ms, &size) &&
            clock_mono_ms() - j->asked_ms < QUEUE_MS && size_job_start(j, &err) == 0)
            continue;
        size_job_end(j, &size);
    }
}

int disk_size_count(struct images *im, enum disk_size_kind kind, const char *name, disk_size_cb cb,
                    void *data, struct err *err)
{
    struct size_job *j;
    int r = 0;

    if (strlen(name) > DISK_SIZE_NAME_MAX)
        return err_set(err, -EINVAL, "size: the name is too long");
    if (im->sizes.queued >= QUEUE_MAX)
        return err_set(err, -EAGAIN, "size: %d counts wait already", QUEUE_MAX);
    j = calloc(1, sizeof(*j));
    if (j == NULL)
        return err_errno(err, -ENOMEM, "size");
    *j = (struct size_job){
        .im = im, .kind = kind, .asked_ms = clock_mono_ms(), .cb = cb, .data = data};
    (void)memcpy(j->name, name, strlen(name) + 1);
    images_hold(im);
    if (im->sizes.running < AT_ONCE) {
        r = size_job_start(j, err);
        if (r < 0) {
            images_release(im);
            free(j);
        }
        return r;
    }
    if (im->sizes.last != NULL)
        im->sizes.last->next = j;
    else
        im->sizes.first = j;
    im->sizes.last = j;
    im->sizes.queued++;
    return 0;
}
