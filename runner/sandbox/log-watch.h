#pragma once

/*
 * Reports growth of log files. All watchers share one inotify instance, because the kernel allows a
 * user only 128. Without watchers there is no watch and no wakeup.
 */

#include <stdbool.h>
#include <uv.h>

struct log_watch;

enum { LOG_WATCH_FILES = 4 };

/* A watcher of the files of one log. Embedded; zeroed before the first use. */
struct log_watched {
    void (*on_change)(struct log_watched *w); /* from the loop; may stop any watcher */
    int wds[LOG_WATCH_FILES];
    struct log_watched *next, **link;
    bool active;
};

/* Creates the object; the first watch opens the inotify instance. NULL on OOM. */
struct log_watch *log_watch_new(uv_loop_t *loop);
/* Closes it; the loop frees it. No watcher may be left. */
void log_watch_close(struct log_watch *lw);

/*
 * Watches files by name. Returns 0, or a negative errno and watches none; -EALREADY: w is in use.
 */
int log_watch_start(struct log_watch *lw, struct log_watched *w,
                    const char *const paths[LOG_WATCH_FILES]);
/* Stops a watcher; may be called again. */
void log_watch_stop(struct log_watch *lw, struct log_watched *w);
