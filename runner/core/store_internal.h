#pragma once

/* What the saving half of the store (store.c) tells the half that works in the thread pool
 * (store-disk.c). */

#include <stdbool.h>
#include <uv.h>

enum {
    STORE_PATH_MAX = 160,   /* "<id>/processes/<name>.json" */
    STORE_MARKS_MAX = 1024, /* files that wait for their sync; more: the whole file system is */
};

/* Work for the thread pool. Belongs to the loop while it is collected, to the worker while it runs.
 */
struct disk_batch {
    char (*paths)[STORE_PATH_MAX]; /* owned; below sandboxes/, each once */
    size_t count;
    bool all;   /* there were too many to list */
    bool purge; /* something lies in gone/ */
};

struct store_disk {
    uv_loop_t *loop;                        /* borrowed */
    int sandboxes_fd, gone_fd, networks_fd; /* owned */
    struct disk_batch next, running;
    uv_timer_t timer;
    uv_work_t work;
    bool busy;                   /* a batch is in the pool */
    bool closed;                 /* the timer is, and so the rest of the store soon */
    void (*on_idle)(void *data); /* called once, when the disk is closed and nothing runs */
    void *data;
};

/* loop: borrowed. The fds are set. */
void disk_open(struct store_disk *d, uv_loop_t *loop);
/* A saved file, and its directories, are to be synced: a moment later, in the thread pool. path:
 * below sandboxes/, or "../networks/…" beside it. */
void disk_mark(struct store_disk *d, const char *path);
/* gone/ is to be emptied. */
void disk_purge(struct store_disk *d);
/* on_idle follows, never at once. What is marked is still done. */
void disk_close(struct store_disk *d, void (*on_idle)(void *data), void *data);
