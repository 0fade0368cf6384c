#include "run/pump.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/terminal.h"

enum {
    DRAIN_READS = 16, /* of a terminal at a time: it hands out 4 KiB at most, and others wait */
};

static void pump_work(struct pump *p);

static enum pump_kind fd_kind(int fd)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return PUMP_OTHER;
    return S_ISFIFO(st.st_mode) ? PUMP_PIPE : S_ISSOCK(st.st_mode) ? PUMP_SOCKET : PUMP_OTHER;
}

static void pump_finish(struct pump *p, int error)
{
    if (p->done)
        return;
    p->done = true;
    p->error = error;
    if (p->in_polls)
        (void)uv_poll_stop(&p->in_poll);
    if (p->out_polls)
        (void)uv_poll_stop(&p->out_poll);
    (void)uv_idle_stop(&p->idle);
    p->on_done(p);
}

static void on_idle(uv_idle_t *h)
{
    pump_work(h->data);
}

static void on_in_ready(uv_poll_t *h, int status, int events)
{
    (void)events;
    if (status < 0) /* libuv has stopped it; the read says what it is */
        ((struct pump *)h->data)->in_waits = false;
    pump_work(h->data);
}

static void on_out_ready(uv_poll_t *h, int status, int events)
{
    struct pump *p = h->data;

    (void)status;
    (void)events;
    (void)uv_poll_stop(&p->out_poll);
    p->out_waits = false;
    pump_work(p);
}

/* To start what is started costs libuv two system calls. */
static void pump_wait_in(struct pump *p)
{
    if (p->in_waits)
        return;
    if (p->out_polls)
        (void)uv_poll_stop(&p->out_poll);
    (void)uv_idle_stop(&p->idle);
    if (p->in_polls)
        (void)uv_poll_start(&p->in_poll, UV_READABLE, on_in_ready);
    else
        (void)uv_idle_start(&p->idle, on_idle);
    p->in_waits = p->in_polls;
    p->out_waits = false;
}

static void pump_wait_out(struct pump *p)
{
    if (p->out_waits)
        return;
    if (p->in_polls)
        (void)uv_poll_stop(&p->in_poll);
    (void)uv_idle_stop(&p->idle);
    if (p->out_polls)
        (void)uv_poll_start(&p->out_poll, UV_WRITABLE, on_out_ready);
    else
        (void)uv_idle_start(&p->idle, on_idle);
    p->out_waits = p->out_polls;
    p->in_waits = false;
}

static bool fd_is_ready(int fd, short events)
{
    struct pollfd pfd = {.fd = fd, .events = events};

    return poll(&pfd, 1, 0) > 0;
}

/* Whether splice(2) can move the bytes: one side is a pipe, the other a pipe or a socket. */
static bool pump_can_splice(const struct pump *p)
{
    if (p->in_kind == PUMP_PIPE)
        return p->out_kind == PUMP_PIPE;
    return p->in_kind == PUMP_SOCKET && p->out_kind == PUMP_PIPE;
}

/* EAGAIN does not say which side it is: ask. */
static void pump_splice(struct pump *p)
{
    const ssize_t n =
        splice(p->in, NULL, p->out, NULL, PUMP_BUFFER * 16UL, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);

    if (n == 0)
        pump_finish(p, 0);
    else if (n < 0 && errno != EAGAIN && errno != EINTR)
        pump_finish(p, -errno);
    else if (n < 0 && fd_is_ready(p->in, POLLIN))
        pump_wait_out(p);
    else
        pump_wait_in(p);
}

/* Returns the number of bytes written, or a negative errno. */
static ssize_t pump_write(const struct pump *p)
{
    const char *at = p->buffer + p->pos;
    ssize_t n;

    if (p->out_kind != PUMP_SOCKET)
        return terminal_write(p->out, !p->out_polls, at, p->len);
    n = send(p->out, at, p->len, MSG_DONTWAIT | MSG_NOSIGNAL);
    return n < 0 ? -errno : n;
}

/* Returns whether the buffer is empty now. */
static bool pump_flush(struct pump *p)
{
    while (p->len > 0) {
        ssize_t n = pump_write(p);

        if (n == -EINTR)
            continue;
        if (n == -EAGAIN) {
            pump_wait_out(p);
            return false;
        }
        if (n < 0) {
            pump_finish(p, (int)n);
            return false;
        }
        p->pos += (size_t)n;
        p->len -= (size_t)n;
    }
    return true;
}

/* As read(2). */
static ssize_t pump_read(const struct pump *p)
{
    unsigned left = p->in_drains ? DRAIN_READS : 1;
    size_t len = 0;
    ssize_t n;

    do {
        n = read(p->in, p->buffer + len, PUMP_BUFFER - len);
        len += n > 0 ? (size_t)n : 0;
    } while (n > 0 && len < PUMP_BUFFER && --left > 0);
    return len > 0 ? (ssize_t)len : n;
}

static void pump_work(struct pump *p)
{
    ssize_t n;

    if (p->done)
        return;
    if (pump_can_splice(p)) {
        pump_splice(p);
        return;
    }
    if (!pump_flush(p))
        return;
    if (p->in_polls && !fd_is_ready(p->in, POLLIN)) {
        pump_wait_in(p);
        return;
    }
    n = pump_read(p);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
        pump_wait_in(p);
        return;
    }
    /* A pty master whose last slave is closed says EIO: that is its end of file. */
    if (n == 0 || (n < 0 && errno == EIO)) {
        pump_finish(p, 0);
        return;
    }
    if (n < 0) {
        pump_finish(p, -errno);
        return;
    }
    p->pos = 0;
    p->len = (size_t)n;
    if (pump_flush(p))
        pump_wait_in(p);
}

/*
 * epoll refuses regular files: they are always ready. libuv refuses a descriptor that it watches
 * already (a terminal's, which is read and written), so that gets another number; and it makes the
 * open file description non-blocking, which the shell that gave us its terminal, or the next
 * command that writes to the same pipe, would find so afterwards: that is undone.
 */
static bool pump_poll_open(uv_loop_t *loop, uv_poll_t *h, int fd, int *ret_dup)
{
    int flags = fcntl(fd, F_GETFL);
    int r;

    r = uv_poll_init(loop, h, fd);
    if (r == UV_EEXIST) {
        *ret_dup = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        r = *ret_dup < 0 ? -errno : uv_poll_init(loop, h, *ret_dup);
    }
    if (flags >= 0)
        (void)fcntl(fd, F_SETFL, flags);
    return r == 0;
}

int pump_start(uv_loop_t *loop, struct pump *p, int in, int out, void (*on_done)(struct pump *),
               void *data)
{
    int r;

    *p = (struct pump){
        .in = in, .out = out, .in_dup = -1, .out_dup = -1, .on_done = on_done, .data = data};
    p->in_kind = fd_kind(in);
    p->out_kind = fd_kind(out);
    p->in_drains = p->in_kind == PUMP_OTHER && isatty(in) && (fcntl(in, F_GETFL) & O_NONBLOCK) != 0;
    p->buffer = malloc(PUMP_BUFFER);
    if (p->buffer == NULL)
        return -ENOMEM;

    r = uv_idle_init(loop, &p->idle);
    if (r < 0)
        return r;
    p->started = true;
    p->handles = 1;
    p->idle.data = p->in_poll.data = p->out_poll.data = p;
    p->in_polls = pump_poll_open(loop, &p->in_poll, in, &p->in_dup);
    p->handles += p->in_polls;
    p->out_polls = pump_poll_open(loop, &p->out_poll, out, &p->out_dup);
    p->handles += p->out_polls;
    pump_wait_in(p);
    return 0;
}

static void on_handle_closed(uv_handle_t *h)
{
    struct pump *p = h->data;

    if (--p->handles > 0)
        return;
    if (p->in_dup >= 0)
        (void)close(p->in_dup);
    if (p->out_dup >= 0)
        (void)close(p->out_dup);
    free(p->buffer);
    p->buffer = NULL;
}

void pump_stop(struct pump *p)
{
    if (!p->started || p->closing)
        return;
    p->closing = true;
    p->done = true;
    uv_close((uv_handle_t *)&p->idle, on_handle_closed);
    if (p->in_polls)
        uv_close((uv_handle_t *)&p->in_poll, on_handle_closed);
    if (p->out_polls)
        uv_close((uv_handle_t *)&p->out_poll, on_handle_closed);
}
