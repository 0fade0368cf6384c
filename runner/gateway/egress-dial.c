/* The way to where a connection goes: a name's address perhaps, a socket from the launcher, its
 * connection, and what a handler answers to CONNECT. */
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

/*
 * FIND     the name's addresses, of one family
 * OPEN     the launcher makes a socket
 * CONNECT  until it is writable
 * ASK      CONNECT is written to a handler
 * ANSWER   what it says to that
 */
enum dial_phase { DIAL_FIND, DIAL_OPEN, DIAL_CONNECT, DIAL_ASK, DIAL_ANSWER };

struct egress_dial {
    struct egress_box *box;
    dial_fn *cb;
    void *who;
    enum dial_phase phase;
    bool handler;
    struct address to; /* that is tried */
    struct net_addr tries[DIAL_ADDRESSES];
    size_t count, at;
    int family;       /* that the name was looked up for last; 0: none yet */
    struct err first; /* what became of the first one */
    enum egress_kind kind;
    char *handler_text; /* owned */
    char *name;         /* owned, or NULL */
    struct dns_query *query;
    void *opening;
    struct watch watch;
    int fd; /* owned */
    struct deadline clock, turn;
    struct buf ask;
    size_t asked;
};

static void dial_free(struct egress_dial *d)
{
    dns_cancel(d->query);
    if (d->opening != NULL)
        d->box->hub->ops->cancel(d->opening);
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

static void finish(struct egress_dial *d, int r, int status, const struct err *err)
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

static void fail(struct egress_dial *d, int r, const char *what)
{
    struct err err = ERR_NONE;

    (void)err_errno(&err, r, "%s", what);
    finish(d, r, 0, &err);
}

static void try_next(struct egress_dial *d);
static void not_this(struct egress_dial *d, int r);
static void remember(struct egress_dial *d, int r, const struct err *err);
static void on_turn(struct deadline *c);
static bool find_more(struct egress_dial *d);

static const char *what_of(const struct egress_dial *d)
{
    return d->handler ? "handler" : "connect";
}

static void on_due(struct deadline *c)
{
    struct egress_dial *d =
        (struct egress_dial *)(void *)((char *)c - offsetof(struct egress_dial, clock));

    fail(d, -ETIMEDOUT, what_of(d));
}

/* Only looked at, and then taken exactly: what follows is the connection's. */
static void read_answer(struct egress_dial *d)
{
    static char scratch[CONNECT_HEAD_MAX];
    struct err err = ERR_NONE;
    int status = 0;
    ssize_t n = recv(d->fd, scratch, sizeof(scratch), MSG_DONTWAIT | MSG_PEEK);
    long head;

    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        fail(d, n < 0 ? -errno : -ECONNRESET, "handler");
        return;
    }
    head = connect_reply(scratch, (size_t)n, &status, &err);
    if (head == 0 && (size_t)n < sizeof(scratch))
        return; /* more comes, and with it an event */
    if (head <= 0)
        finish(d, head < 0 ? (int)head : -E2BIG, 0, &err);
    else if (status < 200 || status > 299) {
        (void)err_set(&err, -EACCES, "handler: answered %d", status);
        finish(d, -EACCES, 0, &err);
    } else if (recv(d->fd, scratch, (size_t)head, MSG_DONTWAIT) != head) {
        fail(d, -EPROTO, "handler");
    } else {
        finish(d, 0, status, NULL);
    }
}

static void write_ask(struct egress_dial *d)
{
    while (d->asked < d->ask.len) {
        ssize_t n =
            send(d->fd, d->ask.data + d->asked, d->ask.len - d->asked, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) {
            fail(d, -errno, "handler");
            return;
        }
        d->asked += (size_t)n;
    }
    d->phase = DIAL_ANSWER;
    read_answer(d);
}

static void connected(struct egress_dial *d)
{
    socklen_t len = sizeof(int);
    int error = 0;

    if (getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        error = errno;
    deadline_clear(&d->turn);
    if (error != 0) {
        not_this(d, -error);
        return;
    }
    if (!d->handler) {
        finish(d, 0, 0, NULL);
        return;
    }
    deadline_set(d->box->hub->poller, &d->clock, d->box->hub->limits.handler_ms, on_due);
    d->phase = DIAL_ASK;
    write_ask(d);
}

static void on_event(struct watch *w, unsigned events)
{
    struct egress_dial *d =
        (struct egress_dial *)(void *)((char *)w - offsetof(struct egress_dial, watch));

    if (d->phase == DIAL_CONNECT && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0)
        connected(d);
    else if (d->phase == DIAL_ASK)
        write_ask(d);
    else if (d->phase == DIAL_ANSWER)
        read_answer(d);
}

/* Takes fd, on success; connects it, and waits. */
static int use_socket(struct egress_dial *d, int fd, struct err *err)
{
    struct sockaddr_storage to;
    socklen_t len = address_socket(&d->to, &to);
    int r;

    if (!d->handler && connect(fd, (struct sockaddr *)(void *)&to, len) < 0 && errno != EINPROGRESS)
        return err_errno(err, -errno, "%s", what_of(d));
    r = watch_add(d->box->hub->poller, &d->watch, fd, on_event);
    if (r < 0)
        return err_errno(err, r, "%s", what_of(d));
    d->fd = fd;
    d->phase = DIAL_CONNECT;
    if (d->name != NULL)
        deadline_set(d->box->hub->poller, &d->turn, DIAL_TRY_MS, on_turn);
    return 0;
}

static void on_socket(void *who, int r, int fd, const struct err *err)
{
    struct egress_dial *d = who;
    struct err own = ERR_NONE;

    d->opening = NULL;
    if (r == 0 && (r = use_socket(d, fd, &own)) < 0) {
        (void)close(fd);
        err = &own;
    }
    if (r < 0) {
        remember(d, r, err);
        try_next(d);
    }
}

static int open_socket(struct egress_dial *d, struct err *err)
{
    const struct egress_want want = {.kind = d->handler ? EGRESS_HANDLER : EGRESS_DIRECT,
                                     .family = d->to.family,
                                     .handler = d->handler_text};
    int fd = d->handler ? FD_NONE : d->box->hub->ops->spare(d->box->data, d->to.family), r;

    d->phase = DIAL_OPEN;
    if (fd < 0)
        return d->box->hub->ops->open(d->box->data, &want, on_socket, d, &d->opening, err);
    r = use_socket(d, fd, err);
    if (r < 0)
        (void)close(fd);
    return r;
}

/* ---- the addresses of a name ---- */

static void remember(struct egress_dial *d, int r, const struct err *err)
{
    if (d->first.code != 0)
        return;
    d->first = *err;
    d->first.code = r;
}

static bool has(const struct egress_dial *d, const struct net_addr *a)
{
    for (size_t i = 0; i < d->count; i++)
        if (d->tries[i].family == a->family &&
            memcmp(d->tries[i].bytes, a->bytes, sizeof(a->bytes)) == 0)
            return true;
    return false;
}

static void on_found(void *who, int r, const struct net_addr *a, size_t count)
{
    struct egress_dial *d = who;
    struct err err = ERR_NONE;

    d->query = NULL;
    for (size_t i = 0; r == 0 && i < count && d->count < DIAL_ADDRESSES; i++)
        if (a[i].family == d->family && !has(d, &a[i]))
            d->tries[d->count++] = a[i];
    if (r < 0 && r != -ENOENT) {
        (void)err_errno(&err, r, "%s", d->name);
        remember(d, r, &err);
    }
    if (d->phase == DIAL_FIND)
        try_next(d);
    else if (d->at < d->count)
        not_this(d, -ETIMEDOUT);
    else
        (void)find_more(d);
}

/* Whether there may be; on_found follows, perhaps from within. An address that is being tried goes
 * on meanwhile. */
static bool find_more(struct egress_dial *d)
{
    if (d->name == NULL || d->family == 6 || d->count == DIAL_ADDRESSES)
        return false;
    d->family = d->family == 0 ? 4 : 6;
    dns_lookup(d->box->dns, d->name, d->family, on_found, d, &d->query);
    return true;
}

static void try_next(struct egress_dial *d)
{
    struct err err = ERR_NONE;
    int r;

    while (d->at < d->count) {
        const struct net_addr *a = &d->tries[d->at++];

        d->to.family = a->family;
        (void)memcpy(d->to.bytes, a->bytes, sizeof(d->to.bytes));
        /* Let through by its name, and an earlier rule may be for the address. */
        r = egress_decide(d->box, d->kind, d->name, &d->to, true).action == EGRESS_ALLOW
                ? open_socket(d, &err)
                : err_set(&err, -EACCES, "a rule for the address of that name denies it");
        if (r == 0)
            return;
        remember(d, r, &err);
    }
    d->phase = DIAL_FIND;
    if (d->query != NULL || find_more(d))
        return;
    if (d->first.code == 0)
        (void)err_errno(&d->first, -ENOENT, "%s", d->name != NULL ? d->name : what_of(d));
    err = d->first;
    finish(d, err.code, 0, &err);
}

/* The address that is being tried cannot be reached. */
static void not_this(struct egress_dial *d, int r)
{
    struct err err = ERR_NONE;

    (void)err_errno(&err, r, "%s", what_of(d));
    remember(d, r, &err);
    watch_remove(&d->watch);
    deadline_clear(&d->turn);
    if (d->fd >= 0)
        (void)close(take_fd(&d->fd));
    try_next(d);
}

/* It is slow: if there is another one, that has its turn; a client inside cannot look for itself,
 * as it has been connected already. */
static void on_turn(struct deadline *c)
{
    struct egress_dial *d =
        (struct egress_dial *)(void *)((char *)c - offsetof(struct egress_dial, turn));

    if (d->at < d->count)
        not_this(d, -ETIMEDOUT);
    else if (d->query == NULL)
        (void)find_more(d);
}

static void on_begin(struct deadline *c)
{
    struct egress_dial *d =
        (struct egress_dial *)(void *)((char *)c - offsetof(struct egress_dial, clock));

    deadline_set(d->box->hub->poller, &d->clock, EGRESS_DIAL_MS, on_due);
    (void)find_more(d);
}

/* ---- the beginning ---- */

/* An address that nobody gave the client out for that name is meant as it is. */
static bool may_try_others(const struct egress_dial *d, const struct dial_request *q)
{
    const struct net_addr a = egress_addr(&q->to);

    return q->to.family == 0 ||
           names_has(d->box->names, q->resolve, &a, uv_now(poller_loop(d->box->hub->poller)));
}

static int prepare(struct egress_dial *d, const struct dial_request *q)
{
    const struct connect_request ask = {.to = &d->to,
                                        .name = q->name,
                                        .sni = q->sni,
                                        .protocol = q->protocol,
                                        .client = d->box->own,
                                        .sandbox = d->box->id};

    d->handler = q->handler != NULL;
    if (q->handler != NULL && (d->handler_text = strdup(q->handler)) == NULL)
        return -ENOMEM;
    if (q->resolve != NULL && may_try_others(d, q) && (d->name = strdup(q->resolve)) == NULL)
        return -ENOMEM;
    return d->handler ? connect_write(&ask, &d->ask) : 0;
}

int egress_dial(struct egress_box *b, const struct dial_request *q, dial_fn *cb, void *who,
                struct egress_dial **ret, struct err *err)
{
    struct egress_dial *d = calloc(1, sizeof(*d));
    int r;

    if (d == NULL)
        return err_errno(err, -ENOMEM, "connect");
    *d = (struct egress_dial){.box = b,
                              .cb = cb,
                              .who = who,
                              .to = q->to,
                              .kind = q->kind,
                              .fd = FD_NONE,
                              .ask = BUF_INIT(CONNECT_HEAD_MAX)};
    r = prepare(d, q);
    if (r < 0)
        (void)err_errno(err, r, "connect");
    else if (d->name == NULL || d->to.family != 0)
        r = open_socket(d, err);
    if (r < 0 && d->name != NULL && r != -ENOMEM) {
        remember(d, r, err);
        d->phase = DIAL_FIND;
        r = 0;
    }
    if (r < 0) {
        dial_free(d);
        return r;
    }
    if (d->phase == DIAL_FIND)
        deadline_set(b->hub->poller, &d->clock, 1, on_begin); /* an answer may be there already */
    else
        deadline_set(b->hub->poller, &d->clock, EGRESS_DIAL_MS, on_due);
    if (d->name != NULL && d->to.family != 0)
        d->tries[d->count++] = egress_addr(&d->to);
    d->at = d->count;
    *ret = d;
    return 0;
}
