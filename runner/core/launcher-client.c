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
    launch_cb cb;
    void *data;
    struct pending *next;
};

struct launcher_client {
    int sock; /* owned */
    uv_poll_t poll;
    struct pending *first, **last; /* owned; answered in order */
    unsigned count;
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
    answer_all(c, -EPIPE, "the launcher is gone");
    c->on_gone(c->data);
}

static void on_readable(uv_poll_t *h, int status, int events)
{
    struct launcher_client *c = h->data;
    struct launch_reply reply;
    int fds[2];

    (void)status;
    (void)events;
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

int launcher_client_new(uv_loop_t *loop, int sock, void (*on_gone)(void *data), void *data,
                        struct launcher_client **ret)
{
    struct launcher_client *c = calloc(1, sizeof(*c));
    int r;

    if (c == NULL)
        return -ENOMEM;
    c->sock = sock;
    c->last = &c->first;
    c->on_gone = on_gone;
    c->data = data;
    r = uv_poll_init(loop, &c->poll, sock);
    if (r == 0) {
        c->poll.data = c;
        r = uv_poll_start(&c->poll, UV_READABLE, on_readable);
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
    auto_close int fd = FD_NONE;
    struct pending *p;
    int r;

    if (c->gone || c->closing)
        return err_set(err, -EPIPE, "the launcher is gone");
    if (c->count == LAUNCHER_PENDING_MAX)
        return err_set(err, -EAGAIN, "the launcher has %d requests to do already",
                       LAUNCHER_PENDING_MAX);
    p = calloc(1, sizeof(*p));
    if (p == NULL)
        return err_errno(err, -ENOMEM, "launcher request");
    fd = memfd_sealed("rind-request", request->data, request->len);
    r = fd < 0 ? fd : send_fd(c->sock, fd);
    if (r < 0) {
        free(p);
        return err_errno(err, r, "send to the launcher");
    }
    *p = (struct pending){.cb = cb, .data = data};
    *c->last = p;
    c->last = &p->next;
    c->count++;
    return 0;
}
