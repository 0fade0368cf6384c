#include "sandbox/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/list.h"
#include "base/log.h"
#include "sandbox/exec-request.h"

/* A message for which init's socket had no room. */
struct queued_message {
    struct imsg msg;
    int fds[IMSG_FDS_MAX]; /* owned */
    int fd_count;
    struct queued_message *next, **link;
};

struct channel {
    const char *name;                   /* borrowed; the sandbox's, for the log */
    int control, pidfd;                 /* owned */
    QUEUE(struct queued_message) queue; /* owned; sent in order */
    unsigned queued;
    uv_poll_t poll, pidfd_wait;
    struct channel_exec *execs; /* borrowed */
    const struct channel_ops *ops;
    void *data;
    unsigned handles;
    bool gone, closing;
};

static struct channel_exec *channel_find(const struct channel *c, uint64_t id)
{
    struct channel_exec *e = c->execs;

    while (e != NULL && e->id != id)
        e = e->next;
    return e;
}

static void channel_dispatch(struct channel *c, const struct imsg *msg, int *fds, int count)
{
    struct channel_exec *e = channel_find(c, msg->id);

    if (e != NULL && msg->type != IMSG_SLOT && msg->type != IMSG_LIST_END) {
        e->on_message(e, msg, fds, count);
        return;
    }
    c->ops->on_other(c->data, msg);
    for (int i = 0; i < count; i++)
        (void)close(fds[i]);
}

/* ---- the send queue ---- */

static void queued_free(struct queued_message *q)
{
    for (int i = 0; i < q->fd_count; i++)
        (void)close(q->fds[i]);
    free(q);
}

static void message_drop_first(struct channel *c)
{
    struct queued_message *q = c->queue.first;

    queue_remove(&c->queue, q);
    c->queued--;
    queued_free(q);
}

static void message_drop_all(struct channel *c)
{
    while (c->queue.first != NULL)
        message_drop_first(c);
}

/*
 * True for messages that are never dropped, because no code repeats them. There is at most one of
 * each for an exec, which bounds their number.
 */
static bool message_is_vital(const struct imsg *msg)
{
    return msg->type == IMSG_COLLECT || msg->type == IMSG_LIST || msg->type == IMSG_PING ||
           (msg->type == IMSG_SIGNAL && msg->value == SIGKILL &&
            (msg->flags & IMSG_WHOLE_EXEC) != 0);
}

static bool message_is_queued(const struct channel *c, const struct imsg *msg)
{
    for (const struct queued_message *q = c->queue.first; q != NULL; q = q->next)
        if (q->msg.type == msg->type && q->msg.id == msg->id && message_is_vital(&q->msg))
            return true;
    return false;
}

static int message_queue(struct channel *c, const struct imsg *msg, const int *fds, int fd_count)
{
    struct queued_message *q;

    if (message_is_vital(msg) && message_is_queued(c, msg))
        return 0;
    if (!message_is_vital(msg) && c->queued >= CHANNEL_QUEUE_MAX)
        return -EAGAIN;
    q = calloc(1, sizeof(*q));
    if (q == NULL)
        return -ENOMEM;
    q->msg = *msg;
    for (; q->fd_count < fd_count; q->fd_count++) {
        q->fds[q->fd_count] = fcntl(fds[q->fd_count], F_DUPFD_CLOEXEC, 3);
        if (q->fds[q->fd_count] < 0) {
            int r = -errno;

            queued_free(q);
            return r;
        }
    }
    queue_add(&c->queue, q);
    c->queued++;
    return 0;
}

static void on_control_event(uv_poll_t *h, int status, int events);

static void channel_watch(struct channel *c)
{
    (void)uv_poll_start(&c->poll, UV_READABLE | (c->queue.first != NULL ? UV_WRITABLE : 0),
                        on_control_event);
}

/* A failure other than EAGAIN means that init has exited, which the reader notices. */
static void queue_flush(struct channel *c)
{
    while (c->queue.first != NULL) {
        const struct queued_message *q = c->queue.first;

        if (channel_send(c->control, &q->msg, q->fds, q->fd_count) == -EAGAIN)
            return;
        message_drop_first(c);
    }
    channel_watch(c);
}

/* ---- receiving ---- */

/* Called when init is gone, once its last messages were read. */
static void channel_lost(struct channel *c)
{
    if (c->gone)
        return;
    c->gone = true;
    (void)uv_poll_stop(&c->poll);
    (void)uv_poll_stop(&c->pidfd_wait);
    message_drop_all(c);
    c->ops->on_gone(c->data);
}

static void channel_read(struct channel *c)
{
    struct imsg msg;
    int fds[IMSG_FDS_MAX], count = 0;

    while (!c->closing && !c->gone) {
        int r;

        r = channel_recv(c->control, MSG_DONTWAIT, &msg, fds, &count);
        if (r == -EAGAIN)
            return;
        if (r == -EPROTONOSUPPORT)
            log_error("sandbox",
                      "id=%s is ended: its init speaks version %u of the protocol, this rind "
                      "version %d; a new start brings the right one",
                      c->name, msg.version, IMSG_VERSION);
        if (r <= 0) {
            channel_lost(c);
            return;
        }
        channel_dispatch(c, &msg, fds, count);
    }
}

static void on_control_event(uv_poll_t *h, int status, int events)
{
    struct channel *c = h->data;

    if (status == 0 && (events & UV_WRITABLE) != 0)
        queue_flush(c);
    if (status != 0 || (events & UV_READABLE) != 0)
        channel_read(c);
}

static void on_init_death(uv_poll_t *h, int status, int events)
{
    struct channel *c = h->data;

    (void)status;
    (void)events;
    channel_read(c);
    if (!c->closing)
        channel_lost(c);
}

int channel_open(uv_loop_t *loop, const char *name, int control, int pidfd,
                 const struct channel_ops *ops, void *data, struct channel **ret)
{
    struct channel *c = calloc(1, sizeof(*c));
    int r;

    if (c == NULL)
        return -ENOMEM;
    *c = (struct channel){
        .name = name, .control = control, .pidfd = pidfd, .ops = ops, .data = data};
    r = uv_poll_init(loop, &c->poll, control);
    if (r < 0) {
        free(c);
        return r;
    }
    c->handles = 1;
    c->poll.data = c->pidfd_wait.data = c;
    r = uv_poll_init(loop, &c->pidfd_wait, pidfd);
    if (r == 0)
        c->handles++;
    if (r == 0)
        r = uv_poll_start(&c->poll, UV_READABLE, on_control_event);
    if (r == 0)
        r = uv_poll_start(&c->pidfd_wait, UV_READABLE, on_init_death);
    if (r < 0) {
        c->control = c->pidfd = FD_NONE; /* the caller keeps both fds */
        channel_close(c);
        return r;
    }
    *ret = c;
    return 0;
}

static void on_handle_closed(uv_handle_t *h)
{
    struct channel *c = h->data;

    if (--c->handles > 0)
        return;
    if (c->control >= 0)
        (void)close(c->control); /* discards unread messages, too */
    if (c->pidfd >= 0)
        (void)close(c->pidfd);
    free(c);
}

void channel_close(struct channel *c)
{
    if (c == NULL || c->closing)
        return;
    c->closing = true;
    message_drop_all(c);
    while (c->execs != NULL)
        list_remove(c->execs);
    uv_close((uv_handle_t *)&c->poll, on_handle_closed);
    if (c->handles > 1)
        uv_close((uv_handle_t *)&c->pidfd_wait, on_handle_closed);
}

int channel_pidfd(const struct channel *c)
{
    return c->pidfd;
}

void channel_add(struct channel *c, struct channel_exec *e)
{
    list_add(&c->execs, e);
}

void channel_remove(struct channel_exec *e)
{
    if (e->link != NULL)
        list_remove(e);
}

int channel_post(struct channel *c, const struct imsg *msg, const int *fds, int fd_count)
{
    int r = -EAGAIN;

    if (c->gone || c->closing)
        return -EPIPE;
    if (c->queue.first == NULL)
        r = channel_send(c->control, msg, fds, fd_count);
    if (r != -EAGAIN)
        return r;
    r = message_queue(c, msg, fds, fd_count);
    if (r == 0)
        channel_watch(c);
    return r;
}
