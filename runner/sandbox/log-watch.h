#pragma once

/* Reports that log files grow. One inotify instance for all of them: the kernel gives a user no
 * more than 128. Nothing is watched, and nothing wakes up, without a watcher. */

#include <stdbool.h>
#include <uv.h>

struct log_watch;

enum { LOG_WATCH_FILES = 4 };

/* A watcher of the files of one log. Embedded; zeroed before the first use. */
struct log_watched {
    void (*on_change)(struct log_watched *w); /* from the loop; it may stop itself or others */
    int wds[LOG_WATCH_FILES];
    struct log_watched *next;
    bool active;
};

/* The instance itself is made with the first watch. NULL on OOM. */
struct log_watch *log_watch_new(uv_loop_t *loop);
/* Freed by the loop; no watcher may be left. */
void log_watch_close(struct log_watch *lw);

/* Watches files by name. 0, or a negative errno and nothing is watched; -EALREADY. */
int log_watch_start(struct log_watch *lw, struct log_watched *w,
                    const char *const paths[LOG_WATCH_FILES]);
/* Idempotent. */
void log_watch_stop(struct log_watch *lw, struct log_watched *w);
