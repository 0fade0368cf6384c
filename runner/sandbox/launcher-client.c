#include "sandbox/launcher-client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/list.h"
#include "base/socket.h"
#include "launch/launcher.h"
#include "launch/request.h"

struct pending {
    int request; /* owned; its memfd, until it has been sent */
    int client;  /* owned until then; connection of the requesting client, or -1 */
    launch_cb cb;
    void *data;
    struct pending *next, **link;
};

struct launcher_client {
    int sock; /* owned */
    uv_poll_t poll;
    QUEUE(struct pending) pending; /* owned; answered in order */
    struct pending *unsent;        /* first request that the socket had no room for, or NULL */
    unsigned count, max;
    void (*on_gone)(void *data);
    void *data;
    bool gone, closing;
};

static void pending_close(struct pending *p)
{
    if (p->request >= 0)
        (void)close(take_fd(&p->request));
    if (p->client >= 0)
        (void)close(take_fd(&p->client));
}

static void reply_close_fds(int fds[LAUNCH_REPLY_FDS_MAX])
{
    for (int i = 0; i < LAUNCH_REPLY_FDS_MAX; i++)
        if (fds[i] >= 0)
            (void)close(take_fd(&fds[i]));
}

static void reply_no_fds(int fds[LAUNCH_REPLY_FDS_MAX])
{
    for (int i = 0; i < LAUNCH_REPLY_FDS_MAX; i++)
        fds[i] = FD_NONE;
}

static void pending_answer(struct launcher_client *c, int r, const struct launch_reply *reply,
                           int fds[LAUNCH_REPLY_FDS_MAX], const struct err *err)
{
    struct pending *p = c->pending.first;

    if (c->unsent == p) /* when the launcher has died and all are answered */
        c->unsent = p->next;
    queue_remove(&c->pending, p);
    c->count--;
    pending_close(p);
    p->cb(p->data, r, reply, fds, err);
    reply_close_fds(fds);
    free(p);
}

static void pending_answer_all(struct launcher_client *c, int r, const char *why)
{
    struct err err = ERR_NONE;
    int fds[LAUNCH_REPLY_FDS_MAX];

    reply_no_fds(fds);
    (void)err_set(&err, r, "%s", why);
    while (c->pending.first != NULL)
        pending_answer(c, r, NULL, fds, &err);
}

static int reply_take_fds(struct msghdr *hdr, int fds[LAUNCH_REPLY_FDS_MAX])
{
    int count = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(hdr); c != NULL; c = CMSG_NXTHDR(hdr, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0;
             i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) && count < LAUNCH_REPLY_FDS_MAX; i++)
            (void)memcpy(&fds[count++], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
    }
    return count;
}

/*
 * The launcher has done the work, but this process had no room for its fds: the caller must undo
 * the work.
 */
static void reply_no_room(struct launch_reply *reply, int fds[LAUNCH_REPLY_FDS_MAX])
{
    reply_close_fds(fds);
    reply->code = -EMFILE;
    (void)snprintf(reply->message, sizeof(reply->message),
                   "the daemon has no descriptors left (raise its limit of open files)");
}

/* Receives one reply. Returns 1, 0 at the end, -EAGAIN, or another negative errno. */
static int client_receive(struct launcher_client *c, struct launch_reply *reply,
                          int fds[LAUNCH_REPLY_FDS_MAX])
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * LAUNCH_REPLY_FDS_MAX)];
        struct cmsghdr align;
    } control;
    struct iovec iov = {.iov_base = reply, .iov_len = sizeof(*reply)};
    struct msghdr hdr = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    ssize_t n;

    reply_no_fds(fds);
    do
        n = recvmsg(c->sock, &hdr, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == ECONNRESET ? 0 : -errno;
    (void)reply_take_fds(&hdr, fds);
    if (n == 0)
        return 0;
    reply->message[sizeof(reply->message) - 1] = '\0';
    if ((hdr.msg_flags & MSG_CTRUNC) != 0 && n == (ssize_t)sizeof(*reply))
        reply_no_room(reply, fds);
    return n == (ssize_t)sizeof(*reply) ? 1 : -EPROTO;
}

static void client_lost(struct launcher_client *c)
{
    c->gone = true;
    (void)uv_poll_stop(&c->poll);
    /* First, because a daemon exits in on_gone: no failed reply may be acted on before. */
    c->on_gone(c->data);
    pending_answer_all(c, -EPIPE, "the launcher is gone");
}

static void client_read_all(struct launcher_client *c)
{
    struct launch_reply reply;
    int fds[LAUNCH_REPLY_FDS_MAX];

    while (!c->closing && !c->gone) {
        struct err err = ERR_NONE;
        int r = client_receive(c, &reply, fds);

        if (r == -EAGAIN)
            return;
        if (r <= 0 || c->pending.first == NULL) {
            reply_close_fds(fds);
            client_lost(c);
            return;
        }
        if (reply.code < 0)
            (void)err_set(&err, reply.code, "%s", reply.message);
        pending_answer(c, reply.code, &reply, fds, &err);
    }
}

static int pending_send(int sock, const struct pending *p);
static void on_launcher_event(uv_poll_t *h, int status, int events);

static void client_watch(struct launcher_client *c)
{
    (void)uv_poll_start(&c->poll, UV_READABLE | (c->unsent != NULL ? UV_WRITABLE : 0),
                        on_launcher_event);
}

/*
 * Sends queued requests while the socket has room. A failure other than EAGAIN means that the
 * launcher has exited, which client_read_all notices.
 */
static int client_flush(struct launcher_client *c)
{
    while (c->unsent != NULL) {
        int r = pending_send(c->sock, c->unsent);

        if (r < 0)
            return r;
        pending_close(c->unsent);
        c->unsent = c->unsent->next;
    }
    return 0;
}

static void on_launcher_event(uv_poll_t *h, int status, int events)
{
    struct launcher_client *c = h->data;

    if (status == 0 && (events & UV_WRITABLE) != 0 && client_flush(c) == 0)
        client_watch(c);
    if (status != 0 || (events & UV_READABLE) != 0)
        client_read_all(c);
}

int launcher_client_new(uv_loop_t *loop, int sock, unsigned max_pending,
                        void (*on_gone)(void *data), void *data, struct launcher_client **ret)
{
    struct launcher_client *c = calloc(1, sizeof(*c));
    int r;

    if (c == NULL)
        return -ENOMEM;
    c->sock = sock;
    c->max = max_pending;
    c->on_gone = on_gone;
    c->data = data;
    r = uv_poll_init(loop, &c->poll, sock);
    if (r == 0) {
        c->poll.data = c;
        r = uv_poll_start(&c->poll, UV_READABLE, on_launcher_event);
    }
    if (r < 0) {
        free(c);
        return r;
    }
    *ret = c;
    return 0;
}

static void on_poll_closed(uv_handle_t *h)
{
    struct launcher_client *c = h->data;

    (void)close(c->sock);
    free(c);
}

void launcher_client_close(struct launcher_client *c)
{
    if (c == NULL || c->closing)
        return;
    c->closing = true;
    pending_answer_all(c, -ECANCELED, "the supervisor stops");
    uv_close((uv_handle_t *)&c->poll, on_poll_closed);
}

static int pending_send(int sock, const struct pending *p)
{
    const int fds[] = {p->request, p->client};
    const size_t count = p->client >= 0 ? 2 : 1;
    union socket_fds control;
    char byte = 1;
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    struct msghdr hdr = {.msg_iov = &iov, .msg_iovlen = 1};

    socket_attach_fds(&hdr, &control, fds, count);
    return sendmsg(sock, &hdr, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

/* Queues a request regardless of the limit of pending ones. */
static int client_enqueue(struct launcher_client *c, const struct buf *request, int client_fd,
                          launch_cb cb, void *data, struct err *err)
{
    struct pending *p;
    bool waits;
    int r;

    if (c->gone || c->closing)
        return err_set(err, -EPIPE, "the launcher is gone");
    p = calloc(1, sizeof(*p));
    if (p == NULL)
        return err_errno(err, -ENOMEM, "launcher request");
    *p = (struct pending){.client = FD_NONE, .cb = cb, .data = data};
    p->request = memfd_sealed("rind-request", request->data, request->len);
    r = p->request;
    if (r >= 0 && client_fd >= 0) { /* the connection may be closed before the send */
        p->client = fcntl(client_fd, F_DUPFD_CLOEXEC, 3);
        r = p->client < 0 ? -errno : r;
    }
    waits = r >= 0 && c->unsent != NULL; /* queued behind others */
    if (r >= 0 && !waits) {
        r = pending_send(c->sock, p);
        waits = r == -EAGAIN;
    }
    if (r < 0 && !waits) {
        pending_close(p);
        free(p);
        if (r == -ECONNRESET) /* the launcher exited with unread requests */
            return err_set(err, -EPIPE, "the launcher is gone");
        return err_errno(err, r, "send to the launcher");
    }
    queue_add(&c->pending, p);
    c->count++;
    if (!waits)
        pending_close(p);
    else if (c->unsent == NULL)
        c->unsent = p;
    if (waits)
        client_watch(c);
    return 0;
}

int launcher_client_send(struct launcher_client *c, const struct buf *request, launch_cb cb,
                         void *data, struct err *err)
{
    return launcher_client_send_for(c, request, FD_NONE, cb, data, err);
}

int launcher_client_send_for(struct launcher_client *c, const struct buf *request, int client_fd,
                             launch_cb cb, void *data, struct err *err)
{
    if (c->count >= c->max && !c->gone && !c->closing)
        return err_set(err, -EAGAIN, "limit maxLauncherQueue: the launcher has %u requests to do",
                       c->count);
    return client_enqueue(c, request, client_fd, cb, data, err);
}

int launcher_client_send_due(struct launcher_client *c, const struct buf *request, launch_cb cb,
                             void *data, struct err *err)
{
    return client_enqueue(c, request, FD_NONE, cb, data, err);
}
