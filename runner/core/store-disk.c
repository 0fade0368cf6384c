/*
 * The part of the store that may wait for a disk: syncs and deletions, in the thread pool, one
 * batch at a time. The worker sees a copy of the paths and the two directory fds, and nothing else.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "core/store_internal.h"

enum { PURGE_DEPTH_MAX = 4 /* <id>.<n>/processes/<name>.json, and one to spare */ };

static void start(struct store_disk *d);

/* ---- the worker ---- */

static int sync_at(int dir_fd, const char *path, int flags)
{
    auto_close int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | flags);

    if (fd < 0)
        return errno == ENOENT ? 0 : -errno; /* removed meanwhile: nothing to keep */
    return fsync(fd) < 0 ? -errno : 0;
}

/* The file, then each directory that leads to it. */
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

/* Deletes what is in a directory of ours, but not the directory. The first failure is told. */
static int empty_dir(int dir_fd, const char *name, int depth)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW), first = 0;
    struct dirent *e;
    DIR *d;

    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    d = fdopendir(fd);
    if (d == NULL) {
        (void)close(fd);
        return -ENOMEM;
    }
    while ((e = readdir(d)) != NULL) {
        int r = 0;

        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
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
    (void)closedir(d);
    return first;
}

static void work(uv_work_t *req)
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

/* ---- the loop's side ---- */

static void after_work(uv_work_t *req, int status)
{
    struct store_disk *d = req->data;

    (void)status; /* never cancelled */
    free(d->running.paths);
    d->running = (struct disk_batch){0};
    d->busy = false;
    start(d);
    if (!d->busy && d->on_idle != NULL)
        d->on_idle(d->data);
}

static void start(struct store_disk *d)
{
    if (d->busy || (d->next.count == 0 && !d->next.all && !d->next.purge))
        return;
    d->running = d->next;
    d->next = (struct disk_batch){0};
    d->work.data = d;
    d->busy = true;
    if (uv_queue_work(d->loop, &d->work, work, after_work) < 0)
        abort(); /* only for a work function that is NULL */
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
    start(d);
}

void disk_purge(struct store_disk *d)
{
    d->next.purge = true;
    start(d);
}

void disk_close(struct store_disk *d, void (*on_idle)(void *data), void *data)
{
    if (!d->busy) {
        on_idle(data);
        return;
    }
    d->on_idle = on_idle;
    d->data = data;
}
