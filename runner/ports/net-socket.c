#include "ports/net-socket.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/evloop.h"
#include "ports/gateway.h"
#include "sandbox/launcher-client.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/shared.h"

enum { CLASSES = 4 };

/* Ready sockets of one address family, marked or unmarked. */
struct net_socket_class {
    struct net_sockets *pool; /* the pool that contains this */
    int family;               /* 4 or 6 */
    enum net_socket_mark mark;
    int fds[NET_SOCKETS_READY];
    unsigned count; /* number of fds, all owned */
    /*
     * Target number of ready sockets. It is 0 for the first connection, which may stay the only
     * one, and doubles with every request to the launcher.
     */
    unsigned keep;
    unsigned most;  /* largest number in one request */
    unsigned epoch; /* sockets requested in an earlier epoch are closed */
    bool asking;
    struct net_socket_wait *first, **last;
    unsigned waiting;
};

struct net_sockets {
    struct sandbox *s; /* borrowed: the sandbox owns this */
    struct deadline idle;
    struct net_socket_class classes[CLASSES];
};

/* One request to the launcher. */
struct asked {
    struct sandbox *s; /* a reference */
    struct net_socket_class *class;
    unsigned epoch, count;
};

static struct net_socket_class *class_of(struct net_sockets *p, int family,
                                         enum net_socket_mark mark)
{
    return &p->classes[2 * (mark == NET_SOCKET_MARKED) + (family == 6)];
}

/* ---- ready sockets ---- */

static void class_drop(struct net_socket_class *c)
{
    c->pool->s->sup->spare_sockets -= c->count;
    while (c->count > 0)
        (void)close(c->fds[--c->count]);
    c->keep = 0;
    c->most = NET_SOCKETS_READY;
}

static void on_pool_idle(struct deadline *d)
{
    struct net_sockets *p =
        (struct net_sockets *)(void *)((char *)d - offsetof(struct net_sockets, idle));

    for (int i = 0; i < CLASSES; i++)
        class_drop(&p->classes[i]);
}

static void class_keep(struct net_socket_class *c, int *fd)
{
    struct supervisor *sup = c->pool->s->sup;

    if (c->pool->s->channel == NULL || c->count >= c->keep ||
        sup->spare_sockets >= sup->limits.spare_sockets)
        return; /* the caller closes it */
    c->fds[c->count++] = take_fd(fd);
    sup->spare_sockets++;
}

/* Restarts the idle timer: a connection has been requested. */
static void pool_touch(struct net_sockets *p)
{
    struct gateway *g = p->s->sup->gateway;

    if (g != NULL && p->s->channel != NULL)
        deadline_set(gateway_evloop(g), &p->idle, NET_SOCKETS_MS, on_pool_idle);
}

/* ---- waiters ---- */

static void class_wait_push(struct net_socket_class *c, struct net_socket_wait *w)
{
    w->next = NULL;
    w->link = c->last;
    *c->last = w;
    c->last = &w->next;
    c->waiting++;
}

void net_socket_forget(struct net_socket_wait *w)
{
    struct net_socket_class *c = w->class;

    if (c == NULL)
        return;
    *w->link = w->next;
    if (w->next != NULL)
        w->next->link = w->link;
    else
        c->last = w->link;
    c->waiting--;
    w->class = NULL;
}

static void class_tell_first(struct net_socket_class *c, int r, const struct err *err)
{
    struct net_socket_wait *w = c->first;

    net_socket_forget(w);
    w->cb(w, r, err);
}

/* Completes the present waiters; a callback may queue a new waiter, which stays. */
static void class_tell_all(struct net_socket_class *c, int r, const struct err *err)
{
    for (unsigned n = c->waiting; n > 0 && c->first != NULL; n--)
        class_tell_first(c, r, err);
}

/* ---- requests to the launcher ---- */

static void class_ask_more(struct net_socket_class *c);

static void class_use(struct net_socket_class *c, const struct asked *a, int *fds)
{
    for (unsigned i = 0; a->epoch == c->epoch && i < LAUNCH_REPLY_FDS_MAX && fds[i] >= 0; i++)
        if (c->first != NULL)
            class_tell_first(c, take_fd(&fds[i]), NULL);
        else
            class_keep(c, &fds[i]);
}

static void on_connect_reply(void *data, int r, const struct launch_reply *reply, int *fds,
                             const struct err *err)
{
    struct asked *a = data;
    struct net_socket_class *c = a->class;
    struct err own = ERR_NONE;

    (void)reply;
    c->asking = false;
    if (r == 0 && fds[0] < 0) {
        r = err_set(&own, -EPROTO, "connect: no socket came");
        err = &own;
    }
    if (r == 0)
        class_use(c, a, fds);
    else if (r == -EMFILE && a->count > 1)
        c->most = 1; /* the fd limit does not allow that many, but perhaps one */
    else
        class_tell_all(c, r, err);
    if (c->first != NULL)
        class_ask_more(c);
    sandbox_unref(a->s);
    free(a);
}

/*
 * Number of ready sockets still wanted. A sandbox that is stopping gets only sockets that are
 * waited for, since ready ones must not outlive its run.
 */
static unsigned class_spare_count(const struct net_socket_class *c)
{
    const struct supervisor *sup = c->pool->s->sup;
    unsigned more, room;

    if (c->pool->s->channel == NULL || c->keep <= c->count ||
        sup->spare_sockets >= sup->limits.spare_sockets)
        return 0;
    more = c->keep - c->count;
    room = sup->limits.spare_sockets - sup->spare_sockets;
    return more < room ? more : room;
}

static int class_ask(struct net_socket_class *c, struct err *err)
{
    struct sandbox *s = c->pool->s;
    unsigned count = c->waiting + class_spare_count(c);
    auto_buf struct buf b = BUF_INIT(0);
    struct asked *a;
    int r;

    if (count == 0)
        return 0;
    if (count > c->most)
        count = c->most;
    a = malloc(sizeof(*a));
    if (a == NULL)
        return err_errno(err, -ENOMEM, "connect");
    *a = (struct asked){.s = s, .class = c, .epoch = c->epoch, .count = count};
    launch_begin(&b, LAUNCH_CONNECT);
    launch_put_string(&b, TAG_ID, s->id);
    launch_put_number(&b, TAG_FAMILY, (uint64_t)c->family);
    launch_put_number(&b, TAG_COUNT, count);
    if (c->mark == NET_SOCKET_MARKED)
        launch_put_number(&b, TAG_MARK, 1);
    r = launch_end(&b);
    if (r == 0)
        r = launcher_client_send(s->sup->launcher, &b, on_connect_reply, a, err);
    if (r < 0) {
        free(a);
        return r;
    }
    sandbox_ref(s);
    c->asking = true;
    c->keep = c->keep == 0 ? 1 : 2 * c->keep;
    if (c->keep > NET_SOCKETS_READY)
        c->keep = NET_SOCKETS_READY;
    return 0;
}

static void class_ask_more(struct net_socket_class *c)
{
    struct err err = ERR_NONE;
    int r;

    if (c->asking)
        return;
    r = class_ask(c, &err);
    if (r < 0)
        class_tell_all(c, r, &err);
}

/* ---- interface ---- */

static struct net_sockets *pool_of(struct sandbox *s)
{
    struct net_sockets *p = s->parts.net_sockets;

    if (p != NULL)
        return p;
    p = calloc(1, sizeof(*p));
    if (p == NULL)
        return NULL;
    p->s = s;
    for (int family = 4; family <= 6; family += 2)
        for (enum net_socket_mark m = NET_SOCKET_PLAIN; m <= NET_SOCKET_MARKED; m++) {
            struct net_socket_class *c = class_of(p, family, m);

            *c = (struct net_socket_class){
                .pool = p, .family = family, .mark = m, .most = NET_SOCKETS_READY};
            c->last = &c->first;
        }
    s->parts.net_sockets = p;
    return p;
}

int net_socket_take(struct sandbox *s, int family, enum net_socket_mark mark)
{
    struct net_sockets *p = s->parts.net_sockets;
    struct net_socket_class *c;
    int fd;

    if (p == NULL)
        return FD_NONE;
    c = class_of(p, family, mark);
    pool_touch(p);
    if (c->count == 0)
        return FD_NONE;
    fd = c->fds[--c->count];
    s->sup->spare_sockets--;
    if (c->count < c->keep / 2) /* refills before the last one is used */
        class_ask_more(c);
    return fd;
}

int net_socket_wait(struct sandbox *s, int family, enum net_socket_mark mark,
                    struct net_socket_wait *w, net_socket_fn *cb, struct err *err)
{
    struct net_sockets *p = pool_of(s);
    struct net_socket_class *c;
    int r;

    assert(w->class == NULL);
    if (p == NULL)
        return err_errno(err, -ENOMEM, "connect");
    c = class_of(p, family, mark);
    *w = (struct net_socket_wait){.class = c, .cb = cb};
    class_wait_push(c, w);
    pool_touch(p);
    r = c->asking ? 0 : class_ask(c, err);
    if (r < 0)
        net_socket_forget(w);
    return r;
}

/*
 * Discards the ready sockets, and those still requested: they belong to an old namespace or to old
 * rules.
 */
static void class_end_epoch(struct net_socket_class *c)
{
    c->epoch++;
    class_drop(c);
}

void net_sockets_close_marked(struct sandbox *s)
{
    for (int family = 4; family <= 6 && s->parts.net_sockets != NULL; family += 2)
        class_end_epoch(class_of(s->parts.net_sockets, family, NET_SOCKET_MARKED));
}

void net_sockets_close(struct sandbox *s)
{
    struct net_sockets *p = s->parts.net_sockets;

    if (p == NULL)
        return;
    deadline_clear(&p->idle);
    for (int i = 0; i < CLASSES; i++)
        class_end_epoch(&p->classes[i]);
}

void net_sockets_free(struct sandbox *s)
{
    net_sockets_close(s);
    free(take(s->parts.net_sockets));
}
