#include "core/channel.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "core/exec-request.h"

struct channel {
    int control, pidfd; /* owned */
    uv_poll_t poll, death;
    struct channel_exec *execs; /* borrowed */
    const struct channel_ops *ops;
    void *data;
    unsigned handles;
    bool gone, closing;
};

static struct channel_exec **find(struct channel *c, uint64_t id)
{
    struct channel_exec **e = &c->execs;

    while (*e != NULL && (*e)->id != id)
        e = &(*e)->next;
    return e;
}

static void dispatch(struct channel *c, const struct imsg *msg, int *fds, int count)
{
    struct channel_exec *e = *find(c, msg->id);

    if (e != NULL && msg->type != IMSG_SLOT && msg->type != IMSG_LIST_END) {
        e->on_message(e, msg, fds, count);
        return;
    }
    c->ops->on_other(c->data, msg);
    for (int i = 0; i < count; i++)
        (void)close(fds[i]);
}

/* What init has said before it died is heard first. */
static void lost(struct channel *c)
{
    if (c->gone)
        return;
    c->gone = true;
    (void)uv_poll_stop(&c->poll);
    (void)uv_poll_stop(&c->death);
    c->ops->on_gone(c->data);
}

static void on_readable(uv_poll_t *h, int status, int events)
{
    struct channel *c = h->data;
    struct imsg msg;
    int fds[IMSG_FDS_MAX], count = 0;

    (void)status;
    (void)events;
    while (!c->closing && !c->gone) {
        int r = channel_recv(c->control, MSG_DONTWAIT, &msg, fds, &count);

        if (r == -EAGAIN)
            return;
        if (r <= 0) {
            lost(c);
            return;
        }
        dispatch(c, &msg, fds, count);
    }
}

static void on_death(uv_poll_t *h, int status, int events)
{
    struct channel *c = h->data;

    (void)status;
    (void)events;
    on_readable(&c->poll, 0, 0);
    if (!c->closing)
        lost(c);
}

int channel_open(uv_loop_t *loop, int control, int pidfd, const struct channel_ops *ops, void *data,
                 struct channel **ret)
{
    struct channel *c = calloc(1, sizeof(*c));
    int r;

    if (c == NULL)
        return -ENOMEM;
    *c = (struct channel){.control = control, .pidfd = pidfd, .ops = ops, .data = data};
    r = uv_poll_init(loop, &c->poll, control);
    if (r < 0) {
        free(c);
        return r;
    }
    c->handles = 1;
    c->poll.data = c->death.data = c;
    r = uv_poll_init(loop, &c->death, pidfd);
    if (r == 0)
        c->handles++;
    if (r == 0)
        r = uv_poll_start(&c->poll, UV_READABLE, on_readable);
    if (r == 0)
        r = uv_poll_start(&c->death, UV_READABLE, on_death);
    if (r < 0) {
        c->control = c->pidfd = FD_NONE; /* not taken */
        channel_close(c);
        return r;
    }
    *ret = c;
    return 0;
}

static void on_closed(uv_handle_t *h)
{
    struct channel *c = h->data;

    if (--c->handles > 0)
        return;
    if (c->control >= 0)
        (void)close(c->control);
    if (c->pidfd >= 0)
        (void)close(c->pidfd);
    free(c);
}

void channel_close(struct channel *c)
{
    if (c == NULL || c->closing)
        return;
    c->closing = true;
    c->execs = NULL;
    uv_close((uv_handle_t *)&c->poll, on_closed);
    if (c->handles > 1)
        uv_close((uv_handle_t *)&c->death, on_closed);
}

void channel_add(struct channel *c, struct channel_exec *e)
{
    e->next = c->execs;
    c->execs = e;
}

void channel_remove(struct channel *c, struct channel_exec *e)
{
    struct channel_exec **at = find(c, e->id);

    if (*at == e)
        *at = e->next;
}

int channel_post(struct channel *c, const struct imsg *msg, const int *fds, int fd_count)
{
    return c->gone || c->closing ? -EPIPE : channel_send(c->control, msg, fds, fd_count);
}
