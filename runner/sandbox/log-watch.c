#include "sandbox/log-watch.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/list.h"

struct log_watch {
    uv_loop_t *loop; /* borrowed */
    int fd;          /* owned; -1 = not opened yet */
    uv_poll_t poll;
    struct log_watched *first;
    struct log_watched *at; /* next watcher to visit while events are delivered */
};

struct log_watch *log_watch_new(uv_loop_t *loop)
{
    struct log_watch *lw = calloc(1, sizeof(*lw));

    if (lw != NULL)
        *lw = (struct log_watch){.loop = loop, .fd = FD_NONE};
    return lw;
}

static void on_poll_closed(uv_handle_t *h)
{
    struct log_watch *lw = h->data;

    (void)close(lw->fd);
    free(lw);
}

void log_watch_close(struct log_watch *lw)
{
    if (lw == NULL)
        return;
    if (lw->fd < 0)
        free(lw);
    else
        uv_close((uv_handle_t *)&lw->poll, on_poll_closed);
}

static void log_watch_tell(struct log_watch *lw, int wd)
{
    for (struct log_watched *w = lw->first; w != NULL; w = lw->at) {
        lw->at = w->next; /* log_watch_stop updates it */
        for (int i = 0; i < LOG_WATCH_FILES; i++)
            if (w->wds[i] == wd) {
                w->on_change(w);
                lw->at = NULL;
                return;
            }
    }
}

static void on_inotify_event(uv_poll_t *h, int status, int events)
{
    char buffer[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    struct log_watch *lw = h->data;
    ssize_t n;

    (void)status;
    (void)events;
    /* Reads once only: a process that writes all the time would keep the loop here. */
    n = read(lw->fd, buffer, sizeof(buffer));
    for (const char *at = buffer; n > 0 && at < buffer + n;) {
        const struct inotify_event *ev = (const struct inotify_event *)(const void *)at;

        at += sizeof(*ev) + ev->len;
        if ((ev->mask & IN_MODIFY) != 0)
            log_watch_tell(lw, ev->wd);
    }
}

static int log_watch_open_instance(struct log_watch *lw)
{
    auto_close int fd = FD_NONE;
    int r;

    if (lw->fd >= 0)
        return 0;
    fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (fd < 0)
        return -errno;
    r = uv_poll_init(lw->loop, &lw->poll, fd);
    if (r < 0)
        return r;
    lw->poll.data = lw;
    lw->fd = take_fd(&fd);
    return uv_poll_start(&lw->poll, UV_READABLE, on_inotify_event);
}

int log_watch_start(struct log_watch *lw, struct log_watched *w,
                    const char *const paths[LOG_WATCH_FILES])
{
    int r;

    if (w->active)
        return -EALREADY;
    r = log_watch_open_instance(lw);
    if (r < 0)
        return r;
    for (int i = 0; i < LOG_WATCH_FILES; i++) {
        w->wds[i] = inotify_add_watch(lw->fd, paths[i], IN_MODIFY);
        if (w->wds[i] >= 0)
            continue;
        r = -errno;
        while (i-- > 0)
            (void)inotify_rm_watch(lw->fd, w->wds[i]);
        return r;
    }
    list_add(&lw->first, w);
    w->active = true;
    return 0;
}

void log_watch_stop(struct log_watch *lw, struct log_watched *w)
{
    if (!w->active)
        return;
    list_remove(w);
    if (lw->at == w)
        lw->at = w->next;
    for (int i = 0; i < LOG_WATCH_FILES; i++)
        (void)inotify_rm_watch(lw->fd, w->wds[i]); /* -EINVAL: the file has been removed */
    w->active = false;
}
