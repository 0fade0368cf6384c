#pragma once

/*
 * Shared by store.c, which writes the files, and store-disk.c, which syncs and deletes them in the
 * thread pool.
 */

#include <stdbool.h>
#include <uv.h>

enum {
    STORE_PATH_MAX = 160, /* "<id>/processes/<name>.json" */
    STORE_MARKS_MAX =
        1024, /* files waiting for a sync; with more, the whole file system is synced */
};

/*
 * Work for the thread pool. Owned by the loop while it is collected, then by the pool thread while
 * it runs.
 */
struct disk_batch {
    char (*paths)[STORE_PATH_MAX]; /* owned; below sandboxes/, without duplicates */
    size_t count;
    bool all;   /* too many to list: sync the file system */
    bool purge; /* gone/ is not empty */
};

struct store_disk {
    uv_loop_t *loop;                        /* borrowed */
    int sandboxes_fd, gone_fd, networks_fd; /* owned */
    struct disk_batch next, running;
    uv_timer_t timer;
    uv_work_t work;
    bool busy;                   /* a batch is in the pool */
    bool closed;                 /* the timer is closed; the store is freed when it is idle */
    void (*on_idle)(void *data); /* called once, when the disk is closed and nothing runs */
    void *data;
};

/* loop: borrowed. The caller has set the fds. */
void disk_open(struct store_disk *d, uv_loop_t *loop);
/*
 * Schedules a sync of a saved file and its directories, in the thread pool, after a short delay.
 * path: below sandboxes/, or "../networks/…".
 */
void disk_mark(struct store_disk *d, const char *path);
/* Schedules the deletion of everything in gone/. */
void disk_purge(struct store_disk *d);
/* Completes all scheduled work; then calls on_idle, never inside this call. */
void disk_close(struct store_disk *d, void (*on_idle)(void *data), void *data);
