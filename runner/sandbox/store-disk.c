/*
 * The part of the store that waits for the disk: syncs and deletions, in the thread pool, one batch
 * at a time. The pool thread only uses its batch and the directory fds.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/dir.h"
#include "base/log.h"
#include "sandbox/store-internal.h"

enum { PURGE_DEPTH_MAX = 4 /* <id>.<n>/processes/<name>.json, and one level to spare */ };

enum {
    /*
     * Delay of a sync after a change. Changes of a short-lived sandbox are synced together, or not
     * at all if it is removed before.
     */
    DELAY_MS = 50,
};

static void disk_schedule(struct store_disk *d);
static void disk_finish(struct store_disk *d);

/* ---- in the pool thread ---- */

static int sync_at(int dir_fd, const char *path, int flags)
{
    auto_close int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | flags);

    if (fd < 0)
        return errno == ENOENT ? 0 : -errno; /* removed meanwhile: nothing to sync */
    return fsync(fd) < 0 ? -errno : 0;
}

/* Syncs the file, then each directory of its path. */
static int sync_path(int sandboxes_fd, const char *path)
{
    char dir[STORE_PATH_MAX];
    char *slash;
    int r;

    r = sync_at(sandboxes_fd, path, 0);
    (void)snprintf(dir, sizeof(dir), "%s", path);
    while (r == 0 && (slash = strrchr(dir, '/')) != NULL) {
        *slash = '\0';
        r = sync_at(sandboxes_fd, dir, O_DIRECTORY);
    }
    return r;
}

/*
 * Deletes the contents of a directory, but not the directory. Continues after a failure; returns
 * the first one.
 */
static int empty_dir(int dir_fd, const char *name, int depth)
{
    auto_ptr(dir_close) DIR *d = dir_open(dir_fd, name);
    const struct dirent *e;
    int first = 0;

    if (d == NULL)
        return errno == ENOENT ? 0 : -errno;
    while ((e = dir_next(d)) != NULL) {
        const int fd = dirfd(d);
        int r = 0;

        if (unlinkat(fd, e->d_name, 0) < 0) {
            r = -errno;
            if ((r == -EISDIR || r == -EPERM) && depth < PURGE_DEPTH_MAX)
                r = empty_dir(fd, e->d_name, depth + 1);
            if (r == 0 && unlinkat(fd, e->d_name, AT_REMOVEDIR) < 0)
                r = -errno;
        }
        if (first == 0)
            first = r;
    }
    return first;
}

static void disk_work(uv_work_t *req)
{
    const struct store_disk *d = req->data;
    const struct disk_batch *b = &d->running;
    int r = 0, one;

    if (b->all && syncfs(d->sandboxes_fd) < 0)
        r = -errno;
    for (size_t i = 0; i < b->count; i++) {
        one = sync_path(d->sandboxes_fd, b->paths[i]);
        r = r < 0 ? r : one;
    }
    if ((b->count > 0 || b->purge) && fsync(d->sandboxes_fd) < 0)
        r = r < 0 ? r : -errno;
    if (r < 0)
        log_warn("store", "sync: %s; a power failure may lose the last changes", strerror(-r));

    r = b->purge ? empty_dir(d->gone_fd, ".", 0) : 0;
    if (r < 0)
        log_warn("store", "delete the files of a removed sandbox: %s; left for the next start",
                 strerror(-r));
}

/* ---- on the loop ---- */

static bool is_marked(const struct store_disk *d)
{
    return d->next.count > 0 || d->next.all || d->next.purge;
}

static void after_work(uv_work_t *req, int status)
{
    struct store_disk *d = req->data;

    (void)status; /* the job is never cancelled */
    free(d->running.paths);
    d->running = (struct disk_batch){0};
    d->busy = false;
    if (d->closed)
        disk_finish(d);
    else if (is_marked(d))
        disk_schedule(d);
}

static void disk_start_batch(struct store_disk *d)
{
    if (d->busy || !is_marked(d))
        return;
    d->running = d->next;
    d->next = (struct disk_batch){0};
    d->work.data = d;
    d->busy = true;
    if (uv_queue_work(d->loop, &d->work, disk_work, after_work) < 0)
        abort(); /* uv_queue_work fails only without a work function */
}

static void on_delay_over(uv_timer_t *t)
{
    disk_start_batch(t->data);
}

static void disk_schedule(struct store_disk *d)
{
    if (!d->busy && !d->closed && !uv_is_active((uv_handle_t *)&d->timer))
        (void)uv_timer_start(&d->timer, on_delay_over, DELAY_MS, 0);
}

/* Runs the last batch; calls on_idle when nothing is left. */
static void disk_finish(struct store_disk *d)
{
    disk_start_batch(d);
    if (!d->busy)
        d->on_idle(d->data);
}

void disk_open(struct store_disk *d, uv_loop_t *loop)
{
    d->loop = loop;
    (void)uv_timer_init(loop, &d->timer);
    d->timer.data = d;
}

void disk_mark(struct store_disk *d, const char *path)
{
    struct disk_batch *b = &d->next;

    for (size_t i = 0; i < b->count; i++)
        if (strcmp(b->paths[i], path) == 0)
            return;
    if (b->paths == NULL)
        b->paths = calloc(STORE_MARKS_MAX, sizeof(*b->paths));
    if (b->paths == NULL || b->count == STORE_MARKS_MAX)
        b->all = true;
    else
        (void)snprintf(b->paths[b->count++], STORE_PATH_MAX, "%s", path);
    disk_schedule(d);
}

void disk_purge(struct store_disk *d)
{
    d->next.purge = true;
    disk_schedule(d);
}

static void on_timer_closed(uv_handle_t *h)
{
    struct store_disk *d = h->data;

    d->closed = true;
    if (!d->busy)
        disk_finish(d); /* else after_work does it */
}

void disk_close(struct store_disk *d, void (*on_idle)(void *data), void *data)
{
    d->on_idle = on_idle;
    d->data = data;
    uv_close((uv_handle_t *)&d->timer, on_timer_closed);
}
