#include "sandbox/pidfd-wait.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"

struct pidfd_wait {
    int pidfd; /* owned */
    uv_poll_t poll;
    uv_timer_t limit;
    unsigned handles; /* number of open handles */
    bool closing;
    pidfd_wait_cb cb;
    void *data;
};

static void on_handle_closed(uv_handle_t *h)
{
    struct pidfd_wait *d = h->data;

    if (--d->handles > 0)
        return;
    (void)close(d->pidfd);
    free(d);
}

void pidfd_wait_close(struct pidfd_wait *d)
{
    if (d == NULL || d->closing)
        return;
    d->closing = true;
    uv_close((uv_handle_t *)&d->poll, on_handle_closed);
    uv_close((uv_handle_t *)&d->limit, on_handle_closed);
}

static void death_over(struct pidfd_wait *d, bool late)
{
    pidfd_wait_close(d);
    d->cb(d->data, late);
}

int pidfd_wait_again(struct pidfd_wait *d, struct pidfd_wait **ret)
{
    return pidfd_wait_start(d->poll.loop, d->pidfd, 0, d->cb, d->data, ret);
}

static void on_pidfd_readable(uv_poll_t *h, int status, int events)
{
    (void)status; /* an error is treated as an exit, because no better event can follow */
    (void)events;
    death_over(h->data, false);
}

static void on_death_limit(uv_timer_t *h)
{
    death_over(h->data, true);
}

int pidfd_wait_start(uv_loop_t *loop, int pidfd, unsigned limit_ms, pidfd_wait_cb cb, void *data,
                     struct pidfd_wait **ret)
{
    auto_close int fd = fcntl(pidfd, F_DUPFD_CLOEXEC, 3);
    auto_free struct pidfd_wait *d = calloc(1, sizeof(*d));
    int r;

    if (fd < 0 || d == NULL)
        return fd < 0 ? -errno : -ENOMEM;
    r = uv_poll_init(loop, &d->poll, fd);
    if (r < 0)
        return r;
    (void)uv_timer_init(loop, &d->limit);
    d->poll.data = d->limit.data = d;
    d->pidfd = take_fd(&fd);
    d->handles = 2;
    d->cb = cb;
    d->data = data;
    if (limit_ms > 0)
        (void)uv_timer_start(&d->limit, on_death_limit, limit_ms, 0);
    r = uv_poll_start(&d->poll, UV_READABLE, on_pidfd_readable);
    if (r < 0) {
        pidfd_wait_close(take(d));
        return r;
    }
    *ret = take(d);
    return 0;
}
