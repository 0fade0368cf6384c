/* Owns one outgoing dial: looks up the name if needed, gets a socket from the launcher, connects
 * it, and for a handler exchanges the CONNECT request and its answer.
 *
 * Runs in the supervisor's loop thread; called by egress-conn.c and egress-http.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "gateway/connect.h"
#include "gateway/egress-internal.h"

/* FIND     looks up the name's addresses of one family
 * OPEN     the launcher makes a socket
 * CONNECT  waits until the socket is writable
 * ASK      writes CONNECT to a handler
 * ANSWER   reads the handler's answer */
enum dial_phase { DIAL_FIND, DIAL_OPEN, DIAL_CONNECT, DIAL_ASK, DIAL_ANSWER };

struct egress_dial {
    struct egress_ctx *ctx;
    dial_fn *cb;
    void *who;
    enum dial_phase phase;
    bool handler;
    struct address to; /* the address being tried */
    struct net_addr tries[DIAL_ADDRESSES];
    size_t count, at;
    int family;       /* of the last lookup; 0: none yet */
    struct err first; /* the error of the first address */
    enum egress_kind kind;
    char *handler_text; /* owned */
    char *name;         /* owned, or NULL */
    struct dns_query *query;
    void *opening;
    struct fd_watch watch;
    int fd; /* owned */
    struct deadline clock, turn;
    struct buf ask;
    size_t asked;
};

static void dial_free(struct egress_dial *d)
{
    dns_cancel(d->query);
    if (d->opening != NULL)
        d->ctx->hub->ops->cancel(d->opening);
    watch_remove(&d->watch);
    deadline_clear(&d->clock);
    deadline_clear(&d->turn);
    if (d->fd >= 0)
        (void)close(d->fd);
    buf_done(&d->ask);
    free(d->handler_text);
    free(d->name);
    free(d);
}

void egress_dial_cancel(struct egress_dial *d)
{
    if (d != NULL)
        dial_free(d);
}

static void dial_finish(struct egress_dial *d, int r, int status, const struct err *err)
{
    dial_fn *cb = d->cb;
    void *who = d->who;
    int fd = FD_NONE;

    if (r == 0) {
        watch_remove(&d->watch);
        fd = take_fd(&d->fd);
    }
    dial_free(d);
    cb(who, r, fd, status, err);
}

static void dial_fail(struct egress_dial *d, int r, const char *what)
{
    struct err err = ERR_NONE;

    (void)err_errno(&err, r, "%s", what);
    dial_finish(d, r, 0, &err);
}

static void dial_try_next(struct egress_dial *d);
static void dial_drop_address(struct egress_dial *d, int r);
static void dial_keep_first_error(struct egress_dial *d, int r, const struct err *err);
static void on_dial_address_slow(struct deadline *c);
static bool dial_find_more(struct egress_dial *d);

static const char *dial_what(const struct egress_dial *d)
{
    return d->handler ? "handler" : "connect";
}

static void on_dial_timeout(struct deadline *c)
{
    struct egress_dial *d =
        (struct egress_dial *)(void *)((char *)c - offsetof(struct egress_dial, clock));

    dial_fail(d, -ETIMEDOUT, dial_what(d));
}

/* Peeks first, then consumes exactly the head: the bytes after it belong to the connection. */
static void dial_read_answer(struct egress_dial *d)
{
    static char scratch[CONNECT_HEAD_MAX];
    struct err err = ERR_NONE;
    int status = 0;
    ssize_t n = recv(d->fd, scratch, sizeof(scratch), MSG_DONTWAIT | MSG_PEEK);
    long head;

    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        dial_fail(d, n < 0 ? -errno : -ECONNRESET, "handler");
        return;
    }
    head = connect_reply(scratch, (size_t)n, &status, &err);
    if (head == 0 && (size_t)n < sizeof(scratch))
        return; /* an event follows when more bytes arrive */
    if (head <= 0)
        dial_finish(d, head < 0 ? (int)head : -E2BIG, 0, &err);
    else if (status < 200 || status > 299) {
        (void)err_set(&err, -EACCES, "handler: answered %d", status);
        dial_finish(d, -EACCES, 0, &err);
    } else if (recv(d->fd, scratch, (size_t)head, MSG_DONTWAIT) != head) {
        dial_fail(d, -EPROTO, "handler");
    } else {
        dial_finish(d, 0, status, NULL);
    }
}

static void dial_write_ask(struct egress_dial *d)
{
    while (d->asked < d->ask.len) {
        ssize_t n =
            send(d->fd, d->ask.data + d->asked, d->ask.len - d->asked, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) {
            dial_fail(d, -errno, "handler");
            return;
        }
        d->asked += (size_t)n;
    }
    d->phase = DIAL_ANSWER;
    dial_read_answer(d);
}

static void dial_connected(struct egress_dial *d)
{
    socklen_t len = sizeof(int);
    int error = 0;

    if (getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        error = errno;
    deadline_clear(&d->turn);
    if (error != 0) {
        dial_drop_address(d, -error);
        return;
    }
    if (!d->handler) {
        dial_finish(d, 0, 0, NULL);
        return;
    }
    deadline_set(d->ctx->hub->evloop, &d->clock, d->ctx->hub->limits.handler_ms, on_dial_timeout);
    d->phase = DIAL_ASK;
    dial_write_ask(d);
}

static void on_dial_event(struct fd_watch *w, unsigned events)
{
    struct egress_dial *d =
        (struct egress_dial *)(void *)((char *)w - offsetof(struct egress_dial, watch));

    if (d->phase == DIAL_CONNECT && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0)
        dial_connected(d);
    else if (d->phase == DIAL_ASK)
        dial_write_ask(d);
    else if (d->phase == DIAL_ANSWER)
        dial_read_answer(d);
}

/* Connects fd and waits for it. On success d owns fd. */
static int dial_use_socket(struct egress_dial *d, int fd, struct err *err)
{
    struct sockaddr_storage to;
    socklen_t len = address_socket(&d->to, &to);
    int r;

    if (!d->handler && connect(fd, (struct sockaddr *)(void *)&to, len) < 0 && errno != EINPROGRESS)
        return err_errno(err, -errno, "%s", dial_what(d));
    r = watch_add(d->ctx->hub->evloop, &d->watch, fd, on_dial_event);
    if (r < 0)
        return err_errno(err, r, "%s", dial_what(d));
    d->fd = fd;
    d->phase = DIAL_CONNECT;
    if (d->name != NULL)
        deadline_set(d->ctx->hub->evloop, &d->turn, DIAL_TRY_MS, on_dial_address_slow);
    return 0;
}

static void on_dial_socket(void *who, int r, int fd, const struct err *err)
{
    struct egress_dial *d = who;
    struct err own = ERR_NONE;

    d->opening = NULL;
    if (r == 0 && (r = dial_use_socket(d, fd, &own)) < 0) {
        (void)close(fd);
        err = &own;
    }
    if (r < 0) {
        dial_keep_first_error(d, r, err);
        dial_try_next(d);
    }
}

static int dial_open_socket(struct egress_dial *d, struct err *err)
{
    const struct egress_want want = {.kind = d->handler ? EGRESS_HANDLER : EGRESS_DIRECT,
                                     .family = d->to.family,
                                     .handler = d->handler_text};
    int fd = d->handler ? FD_NONE : d->ctx->hub->ops->spare(d->ctx->data, d->to.family), r;

    d->phase = DIAL_OPEN;
    if (fd < 0)
        return d->ctx->hub->ops->open(d->ctx->data, &want, on_dial_socket, d, &d->opening, err);
    r = dial_use_socket(d, fd, err);
    if (r < 0)
        (void)close(fd);
    return r;
}

/* ---- the addresses of a name ---- */

static void dial_keep_first_error(struct egress_dial *d, int r, const struct err *err)
{
    if (d->first.code != 0)
        return;
    d->first = *err;
    d->first.code = r;
}

static bool dial_has_address(const struct egress_dial *d, const struct net_addr *a)
{
    for (size_t i = 0; i < d->count; i++)
        if (d->tries[i].family == a->family &&
            memcmp(d->tries[i].bytes, a->bytes, sizeof(a->bytes)) == 0)
            return true;
    return false;
}

static void on_dial_found(void *who, int r, const struct net_addr *a, size_t count)
{
    struct egress_dial *d = who;
    struct err err = ERR_NONE;

    d->query = NULL;
    for (size_t i = 0; r == 0 && i < count && d->count < DIAL_ADDRESSES; i++)
        if (a[i].family == d->family && !dial_has_address(d, &a[i]))
            d->tries[d->count++] = a[i];
    if (r < 0 && r != -ENOENT) {
        (void)err_errno(&err, r, "%s", d->name);
        dial_keep_first_error(d, r, &err);
    }
    if (d->phase == DIAL_FIND)
        dial_try_next(d);
    else if (d->at < d->count)
        dial_drop_address(d, -ETIMEDOUT);
    else
        (void)dial_find_more(d);
}

/* Starts a lookup of the next family. False: there is none left. on_dial_found follows, possibly
 * from within. An address that is being tried continues meanwhile. */
static bool dial_find_more(struct egress_dial *d)
{
    if (d->name == NULL || d->family == 6 || d->count == DIAL_ADDRESSES)
        return false;
    d->family = d->family == 0 ? 4 : 6;
    dns_lookup(d->ctx->dns, d->name, d->family, on_dial_found, d, &d->query);
    return true;
}

static void dial_try_next(struct egress_dial *d)
{
    struct err err = ERR_NONE;
    int r;

    while (d->at < d->count) {
        const struct net_addr *a = &d->tries[d->at++];

        d->to.family = a->family;
        (void)memcpy(d->to.bytes, a->bytes, sizeof(d->to.bytes));
        /* The name is allowed, but an earlier rule may deny this address. */
        r = egress_decide(d->ctx, d->kind, d->name, &d->to, true).action == EGRESS_ALLOW
                ? dial_open_socket(d, &err)
                : err_set(&err, -EACCES, "a rule for the address of that name denies it");
        if (r == 0)
            return;
        dial_keep_first_error(d, r, &err);
    }
    d->phase = DIAL_FIND;
    if (d->query != NULL || dial_find_more(d))
        return;
    if (d->first.code == 0)
        (void)err_errno(&d->first, -ENOENT, "%s", d->name != NULL ? d->name : dial_what(d));
    err = d->first;
    dial_finish(d, err.code, 0, &err);
}

/* Gives up the address being tried and tries the next. */
static void dial_drop_address(struct egress_dial *d, int r)
{
    struct err err = ERR_NONE;

    (void)err_errno(&err, r, "%s", dial_what(d));
    dial_keep_first_error(d, r, &err);
    watch_remove(&d->watch);
    deadline_clear(&d->turn);
    if (d->fd >= 0)
        (void)close(take_fd(&d->fd));
    dial_try_next(d);
}

/* The current address is slow: the next one is tried if there is one. The client inside cannot
 * try it itself, as its own connect has already succeeded. */
static void on_dial_address_slow(struct deadline *c)
{
    struct egress_dial *d =
        (struct egress_dial *)(void *)((char *)c - offsetof(struct egress_dial, turn));

    if (d->at < d->count)
        dial_drop_address(d, -ETIMEDOUT);
    else if (d->query == NULL)
        (void)dial_find_more(d);
}

static void on_dial_begin(struct deadline *c)
{
    struct egress_dial *d =
        (struct egress_dial *)(void *)((char *)c - offsetof(struct egress_dial, clock));

    deadline_set(d->ctx->hub->evloop, &d->clock, EGRESS_DIAL_MS, on_dial_timeout);
    (void)dial_find_more(d);
}

/* ---- the beginning ---- */

/* If the resolver never gave this address out for the name, the client means the address itself:
 * no other is tried. */
static bool dial_may_try_others(const struct egress_dial *d, const struct dial_request *q)
{
    const struct net_addr a = egress_addr(&q->to);

    return q->to.family == 0 ||
           names_has(d->ctx->names, q->resolve, &a, uv_now(evloop_uv(d->ctx->hub->evloop)));
}

static int dial_prepare(struct egress_dial *d, const struct dial_request *q)
{
    const struct connect_request ask = {.to = &d->to,
                                        .name = q->name,
                                        .sni = q->sni,
                                        .protocol = q->protocol,
                                        .client = d->ctx->own,
                                        .sandbox = d->ctx->id};

    d->handler = q->handler != NULL;
    if (q->handler != NULL && (d->handler_text = strdup(q->handler)) == NULL)
        return -ENOMEM;
    if (q->resolve != NULL && dial_may_try_others(d, q) && (d->name = strdup(q->resolve)) == NULL)
        return -ENOMEM;
    return d->handler ? connect_write(&ask, &d->ask) : 0;
}

int egress_dial(struct egress_ctx *b, const struct dial_request *q, dial_fn *cb, void *who,
                struct egress_dial **ret, struct err *err)
{
    struct egress_dial *d = calloc(1, sizeof(*d));
    int r;

    if (d == NULL)
        return err_errno(err, -ENOMEM, "connect");
    *d = (struct egress_dial){.ctx = b,
                              .cb = cb,
                              .who = who,
                              .to = q->to,
                              .kind = q->kind,
                              .fd = FD_NONE,
                              .ask = BUF_INIT(CONNECT_HEAD_MAX)};
    r = dial_prepare(d, q);
    if (r < 0)
        (void)err_errno(err, r, "connect");
    else if (d->name == NULL || d->to.family != 0)
        r = dial_open_socket(d, err);
    if (r < 0 && d->name != NULL && r != -ENOMEM) {
        dial_keep_first_error(d, r, err);
        d->phase = DIAL_FIND;
        r = 0;
    }
    if (r < 0) {
        dial_free(d);
        return r;
    }
    if (d->phase == DIAL_FIND)
        deadline_set(b->hub->evloop, &d->clock, 1, on_dial_begin); /* the resolver may answer from
                                                                    * its cache */
    else
        deadline_set(b->hub->evloop, &d->clock, EGRESS_DIAL_MS, on_dial_timeout);
    if (d->name != NULL && d->to.family != 0)
        d->tries[d->count++] = egress_addr(&d->to);
    d->at = d->count;
    *ret = d;
    return 0;
}
