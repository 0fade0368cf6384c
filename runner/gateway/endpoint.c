#include "gateway/endpoint.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/socket.h"

int endpoint_open(struct endpoint *e, struct evloop *evloop, int fd, SSL *ssl, watch_fn *on_event,
                  void *owner)
{
    int r;

    *e = (struct endpoint){.fd = fd,
                           .ssl = ssl,
                           .owner = owner,
                           .in = BUF_INIT(ENDPOINT_OUT_MAX),
                           .out = BUF_INIT(ENDPOINT_OUT_MAX)};
    r = ssl == NULL || SSL_set_fd(ssl, fd) == 1 ? watch_add(evloop, &e->watch, fd, on_event)
                                                : -ENOMEM;
    if (r == 0)
        return 0;
    SSL_free(ssl);
    *e = (struct endpoint){.fd = FD_NONE};
    return r;
}

static void endpoint_release(struct endpoint *e)
{
    watch_remove(&e->watch);
    SSL_free(take(e->ssl));
    buf_done(&e->in);
    buf_done(&e->out);
    e->out_at = 0;
}

void endpoint_close(struct endpoint *e, bool reset)
{
    if (e->fd < 0)
        return;
    if (reset)
        socket_reset_on_close(e->fd);
    endpoint_release(e);
    (void)close(take_fd(&e->fd));
}

int endpoint_take_fd(struct endpoint *e)
{
    endpoint_release(e);
    return take_fd(&e->fd);
}

void endpoint_event(struct endpoint *e, unsigned events)
{
    e->hung = e->hung || (events & (EPOLLERR | EPOLLHUP)) != 0;
    /* TLS may have to write in order to read and vice versa, so each event makes both worth a
     * try. */
    if (e->ssl != NULL || (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0)
        e->readable = true;
    if (e->ssl != NULL || (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0)
        e->writable = true;
}

/* Converts a result of SSL_read or SSL_write: bytes, 0 at the end, -EAGAIN, or another negative
 * errno. */
static ssize_t endpoint_tls_result(struct endpoint *e, int n)
{
    if (n > 0)
        return n;
    switch (SSL_get_error(e->ssl, n)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return -EAGAIN;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    default:
        ERR_clear_error();
        return -EPROTO;
    }
}

static ssize_t endpoint_receive(struct endpoint *e, char *data, size_t size)
{
    ssize_t n;

    if (e->ssl != NULL) {
        ERR_clear_error();
        return endpoint_tls_result(e, SSL_read(e->ssl, data, (int)size));
    }
    do
        n = recv(e->fd, data, size, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

static ssize_t endpoint_transmit(struct endpoint *e, const char *data, size_t len)
{
    ssize_t n;

    if (e->ssl != NULL) {
        ERR_clear_error();
        n = endpoint_tls_result(e, SSL_write(e->ssl, data, (int)len));
        return n == 0 ? -EPIPE : n;
    }
    do
        n = send(e->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

bool endpoint_read(struct endpoint *e, size_t most)
{
    static char scratch[ENDPOINT_READ]; /* static: one thread; an idle connection holds no buffer */
    size_t room = e->in.len < most ? most - e->in.len : 0;
    ssize_t n;

    if (!e->readable || e->eof || e->failed || room == 0)
        return false;
    n = endpoint_receive(e, scratch, room < sizeof(scratch) ? room : sizeof(scratch));
    if (n == -EAGAIN) {
        e->readable = false;
        return false;
    }
    if (n > 0)
        e->received += (uint64_t)n;
    if (n == 0)
        e->eof = true;
    else if (n < 0 || buf_append(&e->in, scratch, (size_t)n) < 0)
        e->failed = true;
    return true;
}

bool endpoint_write(struct endpoint *e)
{
    bool any = false;

    while (endpoint_queued(e) > 0 && e->writable && !e->failed) {
        ssize_t n = endpoint_transmit(e, e->out.data + e->out_at, endpoint_queued(e));

        if (n == -EAGAIN) {
            e->writable = false;
        } else if (n < 0) {
            e->failed = true;
        } else {
            e->out_at += (size_t)n;
            e->sent += (uint64_t)n;
            any = true;
        }
    }
    if (endpoint_queued(e) == 0) {
        buf_done(&e->out);
        e->out_at = 0;
    } else if (e->out_at > ENDPOINT_READ) {
        buf_consume(&e->out, e->out_at);
        e->out_at = 0;
    }
    return any;
}

void endpoint_shut(struct endpoint *e)
{
    if (e->shut || e->fd < 0)
        return;
    e->shut = true;
    if (e->ssl != NULL) {
        ERR_clear_error();
        (void)SSL_shutdown(e->ssl);
    } else {
        (void)shutdown(e->fd, SHUT_WR);
    }
}

void endpoint_used(struct endpoint *e, size_t n)
{
    if (n == e->in.len)
        buf_done(&e->in);
    else
        buf_consume(&e->in, n);
}

bool endpoint_pump(struct endpoint *from, struct endpoint *to, size_t most)
{
    bool any = false;

    if (endpoint_queued(to) < most) {
        if (from->in.len == 0)
            any = endpoint_read(from, ENDPOINT_READ);
        if (from->in.len > 0) {
            if (buf_append(&to->out, from->in.data, from->in.len) < 0)
                to->failed = true;
            endpoint_used(from, from->in.len);
            any = true;
        }
    }
    any = endpoint_write(to) || any;
    if (from->eof && from->in.len == 0 && endpoint_queued(to) == 0 && !to->shut) {
        endpoint_shut(to);
        any = true;
    }
    return any;
}
