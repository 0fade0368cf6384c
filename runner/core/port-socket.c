#include "core/port-socket.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "core/gateway.h"
#include "core/launcher-client.h"
#include "core/sandbox_internal.h"
#include "core/supervisor_internal.h"
#include "gateway/poller.h"

enum { FAMILIES = 2 };

struct family {
    int number; /* 4 or 6 */
    int fds[PORT_SOCKETS];
    unsigned count; /* of fds, which are owned */
    /* How many are to be ready: none for the first connection, as it may stay the only one, then
     * twice as many each time that the launcher is asked. */
    unsigned keep;
    unsigned most; /* to be asked for at once */
    bool asking;
    struct port_socket_wait *first, **last;
    unsigned waiting;
};

struct port_sockets {
    struct sandbox *s; /* borrowed: it owns this */
    unsigned run;      /* the sandbox's runs so far: sockets of an earlier one are of no use */
    struct deadline idle;
    struct family families[FAMILIES];
};

/* One request to the launcher. */
struct asked {
    struct sandbox *s; /* a reference */
    struct family *family;
    unsigned run, count;
};

static struct family *family_of(struct port_sockets *p, int family)
{
    return &p->families[family == 6];
}

/* ---- those that are ready ---- */

static void drop(struct port_sockets *p)
{
    for (int i = 0; i < FAMILIES; i++) {
        struct family *f = &p->families[i];

        p->s->sup->port_sockets -= f->count;
        while (f->count > 0)
            (void)close(f->fds[--f->count]);
        f->keep = 0;
        f->most = PORT_SOCKETS;
    }
}

static void on_idle(struct deadline *d)
{
    drop((struct port_sockets *)(void *)((char *)d - offsetof(struct port_sockets, idle)));
}

static void keep(struct port_sockets *p, struct family *f, int *fd)
{
    struct supervisor *sup = p->s->sup;

    if (f->count >= f->keep || sup->port_sockets >= sup->limits.port_sockets)
        return; /* who brought it closes it */
    f->fds[f->count++] = take_fd(fd);
    sup->port_sockets++;
}

/* A connection comes. */
static void touch(struct port_sockets *p)
{
    struct gateway *g = p->s->sup->gateway;

    if (g != NULL && p->s->channel != NULL)
        deadline_set(gateway_poller(g), &p->idle, PORT_SOCKETS_MS, on_idle);
}

/* ---- those who wait ---- */

static void wait_push(struct family *f, struct port_socket_wait *w)
{
    w->next = NULL;
    w->link = f->last;
    *f->last = w;
    f->last = &w->next;
    f->waiting++;
}

void port_socket_forget(struct port_socket_wait *w)
{
    struct family *f;

    if (w->all == NULL)
        return;
    f = family_of(w->all, w->family);
    *w->link = w->next;
    if (w->next != NULL)
        w->next->link = w->link;
    else
        f->last = w->link;
    f->waiting--;
    w->all = NULL;
}

static void tell_first(struct family *f, int r, const struct err *err)
{
    struct port_socket_wait *w = f->first;

    port_socket_forget(w);
    w->cb(w, r, err);
}

/* All who wait now; who waits again meanwhile is behind them. */
static void tell_all(struct family *f, int r, const struct err *err)
{
    for (unsigned n = f->waiting; n > 0 && f->first != NULL; n--)
        tell_first(f, r, err);
}

/* ---- the launcher ---- */

static void ask_more(struct port_sockets *p, struct family *f);

/* Sockets of the run before are of its net namespace, which nobody needs any more. */
static void use(struct port_sockets *p, const struct asked *a, int *fds)
{
    struct family *f = a->family;

    for (unsigned i = 0; a->run == p->run && i < LAUNCH_REPLY_FDS_MAX && fds[i] >= 0; i++)
        if (f->first != NULL)
            tell_first(f, take_fd(&fds[i]), NULL);
        else
            keep(p, f, &fds[i]);
}

static void on_answer(void *data, int r, const struct launch_reply *reply, int *fds,
                      const struct err *err)
{
    struct asked *a = data;
    struct port_sockets *p = a->s->port_sockets;
    struct family *f = a->family;
    struct err own = ERR_NONE;

    (void)reply;
    f->asking = false;
    if (r == 0 && fds[0] < 0) {
        r = err_set(&own, -EPROTO, "connect: no socket came");
        err = &own;
    }
    if (r == 0)
        use(p, a, fds);
    else if (r == -EMFILE && a->count > 1)
        f->most = 1; /* there is no room for so many, but perhaps for one */
    else
        tell_all(f, r, err);
    if (f->first != NULL)
        ask_more(p, f);
    sandbox_unref(a->s);
    free(a);
}

static int ask(struct port_sockets *p, struct family *f, struct err *err)
{
    const struct supervisor *sup = p->s->sup;
    const unsigned room = sup->limits.port_sockets > sup->port_sockets
                              ? sup->limits.port_sockets - sup->port_sockets
                              : 0;
    /* A run that ends gets what was asked for, and leaves nothing to the next. */
    unsigned more = p->s->channel != NULL && f->keep > f->count ? f->keep - f->count : 0;
    unsigned count = f->waiting + (more < room ? more : room);
    auto_buf struct buf b = BUF_INIT(0);
    struct asked *a;
    int r;

    if (count == 0)
        return 0;
    if (count > f->most)
        count = f->most;
    a = malloc(sizeof(*a));
    if (a == NULL)
        return err_errno(err, -ENOMEM, "connect");
    *a = (struct asked){.s = p->s, .family = f, .run = p->run, .count = count};
    launch_begin(&b, LAUNCH_CONNECT);
    launch_put_string(&b, TAG_ID, p->s->id);
    launch_put_number(&b, TAG_FAMILY, (uint64_t)f->number);
    launch_put_number(&b, TAG_COUNT, count);
    r = launch_end(&b);
    if (r == 0)
        r = launcher_client_send(p->s->sup->launcher, &b, on_answer, a, err);
    if (r < 0) {
        free(a);
        return r;
    }
    sandbox_ref(p->s);
    f->asking = true;
    f->keep = f->keep == 0 ? 1 : 2 * f->keep;
    if (f->keep > PORT_SOCKETS)
        f->keep = PORT_SOCKETS;
    return 0;
}

static void ask_more(struct port_sockets *p, struct family *f)
{
    struct err err = ERR_NONE;
    int r;

    if (f->asking)
        return;
    r = ask(p, f, &err);
    if (r < 0)
        tell_all(f, r, &err);
}

/* ---- the sandbox's side ---- */

static struct port_sockets *of(struct sandbox *s)
{
    struct port_sockets *p = s->port_sockets;

    if (p != NULL)
        return p;
    p = calloc(1, sizeof(*p));
    if (p == NULL)
        return NULL;
    p->s = s;
    for (int i = 0; i < FAMILIES; i++) {
        struct family *f = &p->families[i];

        f->number = i == 0 ? 4 : 6;
        f->most = PORT_SOCKETS;
        f->last = &f->first;
    }
    s->port_sockets = p;
    return p;
}

int port_socket_take(struct sandbox *s, int family)
{
    struct port_sockets *p = s->port_sockets;
    struct family *f;
    int fd;

    if (p == NULL)
        return FD_NONE;
    f = family_of(p, family);
    touch(p);
    if (f->count == 0)
        return FD_NONE;
    fd = f->fds[--f->count];
    s->sup->port_sockets--;
    if (f->count < f->keep / 2) /* before they run out */
        ask_more(p, f);
    return fd;
}

int port_socket_wait(struct sandbox *s, int family, struct port_socket_wait *w, port_socket_fn *cb,
                     struct err *err)
{
    struct port_sockets *p = of(s);
    struct family *f;
    int r;

    assert(w->all == NULL);
    if (p == NULL)
        return err_errno(err, -ENOMEM, "connect");
    f = family_of(p, family);
    *w = (struct port_socket_wait){.all = p, .family = family, .cb = cb};
    wait_push(f, w);
    touch(p);
    r = f->asking ? 0 : ask(p, f, err);
    if (r < 0)
        port_socket_forget(w);
    return r;
}

void port_sockets_close(struct sandbox *s)
{
    struct port_sockets *p = s->port_sockets;

    if (p == NULL)
        return;
    p->run++;
    deadline_clear(&p->idle);
    drop(p);
}

void port_sockets_free(struct sandbox *s)
{
    port_sockets_close(s);
    free(take(s->port_sockets));
}
