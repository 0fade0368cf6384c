#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "http/server-internal.h"

enum { OUT_IOV_MAX = 4 };

int bytes_reserve(struct bytes *b, size_t more)
{
    size_t cap = b->cap < 1024 ? 1024 : b->cap;
    char *data;
    int r;

    if (b->pos > 0 && (b->pos == b->len || more > b->cap - b->len)) {
        (void)memmove(b->data, b->data + b->pos, b->len - b->pos);
        b->len -= b->pos;
        b->pos = 0;
    }
    if (more <= b->cap - b->len)
        return 0;
    while (cap - b->len < more)
        cap *= 2;
    r = budget_resize(b->budget, b->cap, cap);
    if (r < 0)
        return r;
    data = realloc(b->data, cap);
    if (data == NULL) {
        (void)budget_resize(b->budget, cap, b->cap);
        return -ENOMEM;
    }
    b->data = data;
    b->cap = cap;
    return 0;
}

void bytes_use(struct bytes *b, size_t n)
{
    b->pos += n;
    if (b->pos == b->len)
        b->pos = b->len = 0;
}

void bytes_done(struct bytes *b)
{
    (void)budget_resize(b->budget, b->cap, 0);
    free(b->data);
    *b = (struct bytes){.budget = b->budget};
}

/* Returns the bytes written, 0 if the socket is full. On other errors the connection is marked
 * broken. */
static size_t out_write_now(struct http_conn *c, struct iovec *iov, size_t count)
{
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = count};
    ssize_t n;

    do
        n = sendmsg(c->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n >= 0)
        return (size_t)n;
    if (errno != EAGAIN)
        conn_break(c);
    return 0;
}

static int out_try_reserve(struct http_conn *c, size_t more)
{
    int r;

    if (bytes_left(&c->out) + more > c->server->config.queue_max)
        return -ENOBUFS;
    do
        r = bytes_reserve(&c->out, more);
    while (r == -EAGAIN && server_make_room(c));
    return r;
}

/* Reserves room in the queue, if necessary by breaking the connection with the most unread
 * output. On failure this client's connection is broken. */
static bool out_reserve(struct http_conn *c, size_t more)
{
    int r = out_try_reserve(c, more);

    if (r == 0)
        return true;
    log_warn("http", "limit %s: %zu bytes wait for a client (pid %d), which is cut off",
             r == -ENOBUFS ? "maxQueueBytes" : "maxBufferedBytes", bytes_left(&c->out),
             (int)c->peer.pid);
    conn_break(c);
    return false;
}

static void out_queue_rest(struct http_conn *c, const struct iovec *iov, size_t count, size_t skip)
{
    size_t total = 0;

    for (size_t i = 0; i < count; i++)
        total += iov[i].iov_len;
    total -= skip;
    if (total == 0 || !out_reserve(c, total))
        return;
    for (size_t i = 0; i < count; i++) {
        size_t n = iov[i].iov_len;

        if (skip >= n) {
            skip -= n;
            continue;
        }
        (void)memcpy(c->out.data + c->out.len, (const char *)iov[i].iov_base + skip, n - skip);
        c->out.len += n - skip;
        skip = 0;
    }
    conn_watch(c);
}

void out_release(struct http_conn *c)
{
    if (!c->head_unread)
        return;
    c->head_unread = false;
    c->server->heads_unread--;
}

bool out_waits(struct http_conn *c)
{
    int unread = 0;

    if (!c->head_unread)
        return false;
    /* On a unix socket SIOCOUTQ counts the bytes that the peer has not read. */
    if (ioctl(c->fd, SIOCOUTQ, &unread) == 0 && unread > 0 &&
        uv_now(c->server->loop) < c->head_deadline)
        return true;
    out_release(c);
    return false;
}

void out_send(struct http_conn *c, const struct iovec *iov, size_t count)
{
    struct iovec copy[OUT_IOV_MAX];
    size_t sent = 0;

    if (c->broken || c->state == CONN_CLOSED)
        return;
    if (bytes_left(&c->out) == 0 && !out_waits(c)) {
        (void)memcpy(copy, iov, count * sizeof(*iov));
        sent = out_write_now(c, copy, count);
    }
    if (!c->broken)
        out_queue_rest(c, iov, count, sent);
}

/* As out_write_now, but an error is left for the write that follows. */
static size_t out_splice_now(const struct http_conn *c, int pipe, size_t len)
{
    ssize_t n;

    do
        n = splice(pipe, NULL, c->fd, NULL, len, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    while (n < 0 && errno == EINTR);
    return n > 0 ? (size_t)n : 0;
}

static void out_queue_pipe(struct http_conn *c, int pipe, size_t len)
{
    if (len == 0 || !out_reserve(c, len))
        return;
    if (read_held(pipe, c->out.data + c->out.len, len) == len) {
        c->out.len += len;
        conn_watch(c);
    } else { /* a gap in the stream must not go unnoticed */
        conn_break(c);
    }
}

void out_send_pipe(struct http_conn *c, int pipe, size_t len)
{
    size_t sent = 0;

    if (c->broken || c->state == CONN_CLOSED)
        return;
    if (bytes_left(&c->out) == 0 && !out_waits(c))
        sent = out_splice_now(c, pipe, len);
    out_queue_pipe(c, pipe, len - sent);
}

bool out_flush(struct http_conn *c)
{
    struct iovec iov = {.iov_base = c->out.data + c->out.pos, .iov_len = bytes_left(&c->out)};
    size_t n;

    if (iov.iov_len == 0)
        return false;
    n = out_write_now(c, &iov, 1);
    bytes_use(&c->out, n);
    if (bytes_left(&c->out) == 0)
        bytes_done(&c->out); /* queues are rare: an idle connection keeps no buffer */
    return n > 0;
}
