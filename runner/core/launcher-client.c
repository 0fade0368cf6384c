#include "core/launcher-client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "launch/launcher.h"

struct pending {
    int request; /* owned; its memfd, until it has been sent */
    launch_cb cb;
    void *data;
    struct pending *next;
};

struct launcher_client {
    int sock; /* owned */
    uv_poll_t poll;
    struct pending *first, **last; /* owned; answered in order */
    struct pending *unsent;        /* the first that the socket had no room for, or NULL */
    unsigned count, max;
    void (*on_gone)(void *data);
    void *data;
    bool gone, closing;
};

static void answer(struct launcher_client *c, int r, const struct launch_reply *reply, int fds[2],
                   const struct err *err)
{
    struct pending *p = c->first;

    c->first = p->next;
    if (c->first == NULL)
        c->last = &c->first;
    c->count--;
    if (c->unsent == p) /* when all are answered for a launcher that is gone */
        c->unsent = p->next;
    if (p->request >= 0)
        (void)close(p->request);
    p->cb(p->data, r, reply, fds, err);
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            (void)close(fds[i]);
    free(p);
}

static void answer_all(struct launcher_client *c, int r, const char *why)
{
    struct err err = ERR_NONE;

    (void)err_set(&err, r, "%s", why);
    while (c->first != NULL)
        answer(c, r, NULL, (int[2]){FD_NONE, FD_NONE}, &err);
}

static int take_fds(struct msghdr *hdr, int fds[2])
{
    int count = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(hdr); c != NULL; c = CMSG_NXTHDR(hdr, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) && count < 2; i++)
            (void)memcpy(&fds[count++], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
    }
    return count;
}

/* 1, 0 at the end, -EAGAIN, or another negative errno. */
static int receive(struct launcher_client *c, struct launch_reply *reply, int fds[2])
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * 2)];
        struct cmsghdr align;
    } control;
    struct iovec iov = {.iov_base = reply, .iov_len = sizeof(*reply)};
    struct msghdr hdr = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    ssize_t n;

    fds[0] = fds[1] = FD_NONE;
    do
        n = recvmsg(c->sock, &hdr, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == ECONNRESET ? 0 : -errno;
    (void)take_fds(&hdr, fds);
    if (n == 0)
        return 0;
    reply->message[sizeof(reply->message) - 1] = '\0';
    return n == (ssize_t)sizeof(*reply) ? 1 : -EPROTO;
}

static void lost(struct launcher_client *c)
{
    c->gone = true;
    (void)uv_poll_stop(&c->poll);
    /* First: a daemon ends here and now, before anybody takes an answer for what has happened. */
    c->on_gone(c->data);
    answer_all(c, -EPIPE, "the launcher is gone");
}

static void read_all(struct launcher_client *c)
{
    struct launch_reply reply;
    int fds[2];

    while (!c->closing && !c->gone) {
        struct err err = ERR_NONE;
        int r = receive(c, &reply, fds);

        if (r == -EAGAIN)
            return;
        if (r <= 0 || c->first == NULL) {
            for (int i = 0; i < 2; i++)
                if (fds[i] >= 0)
                    (void)close(fds[i]);
            lost(c);
            return;
        }
        if (reply.code < 0)
            (void)err_set(&err, reply.code, "%s", reply.message);
        answer(c, reply.code, &reply, fds, &err);
    }
}

static int send_fd(int sock, int fd);
static void on_event(uv_poll_t *h, int status, int events);

static void watch(struct launcher_client *c)
{
    (void)uv_poll_start(&c->poll, UV_READABLE | (c->unsent != NULL ? UV_WRITABLE : 0), on_event);
}

/* What the socket takes. A failure other than want of room is the launcher's end, which the reader
 * hears of. */
static int flush(struct launcher_client *c)
{
    while (c->unsent != NULL) {
        int r = send_fd(c->sock, c->unsent->request);

        if (r < 0)
            return r;
        (void)close(take_fd(&c->unsent->request));
        c->unsent = c->unsent->next;
    }
    return 0;
}

static void on_event(uv_poll_t *h, int status, int events)
{
    struct launcher_client *c = h->data;

    if (status == 0 && (events & UV_WRITABLE) != 0 && flush(c) == 0)
        watch(c);
    if (status != 0 || (events & UV_READABLE) != 0)
        read_all(c);
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
    c->last = &c->first;
    c->on_gone = on_gone;
    c->data = data;
    r = uv_poll_init(loop, &c->poll, sock);
    if (r == 0) {
        c->poll.data = c;
        r = uv_poll_start(&c->poll, UV_READABLE, on_event);
    }
    if (r < 0) {
        free(c);
        return r;
    }
    *ret = c;
    return 0;
}

static void on_closed(uv_handle_t *h)
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
    answer_all(c, -ECANCELED, "the supervisor stops");
    uv_close((uv_handle_t *)&c->poll, on_closed);
}

static int send_fd(int sock, int fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    char byte = 1;
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    struct msghdr hdr = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&hdr);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    (void)memcpy(CMSG_DATA(c), &fd, sizeof(fd));
    return sendmsg(sock, &hdr, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

int launcher_client_send(struct launcher_client *c, const struct buf *request, launch_cb cb,
                         void *data, struct err *err)
{
    struct pending *p;
    bool waits;
    int r;

    if (c->gone || c->closing)
        return err_set(err, -EPIPE, "the launcher is gone");
    if (c->count >= c->max)
        return err_set(err, -EAGAIN, "limit maxLauncherQueue: the launcher has %u requests to do",
                       c->count);
    p = calloc(1, sizeof(*p));
    if (p == NULL)
        return err_errno(err, -ENOMEM, "launcher request");
    *p = (struct pending){.cb = cb, .data = data};
    p->request = memfd_sealed("rind-request", request->data, request->len);
    r = p->request;
    waits = c->unsent != NULL; /* behind others */
    if (r >= 0 && !waits) {
        r = send_fd(c->sock, p->request);
        waits = r == -EAGAIN;
    }
    if (p->request < 0 || (r < 0 && !waits)) {
        if (p->request >= 0)
            (void)close(p->request);
        free(p);
        return err_errno(err, r, "send to the launcher");
    }
    *c->last = p;
    c->last = &p->next;
    c->count++;
    if (!waits)
        (void)close(take_fd(&p->request));
    else if (c->unsent == NULL)
        c->unsent = p;
    if (waits)
        watch(c);
    return 0;
}
