#include "base/evloop.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/list.h"

enum {
    BATCH = 128, /* events of one epoll_wait */
    ROUNDS = 8,  /* batches before libuv's other handles are served */
};

struct deadline_list {
    unsigned ms;                    /* 0 = not in use */
    QUEUE(struct deadline) waiting; /* the earliest first */
};

struct evloop {
    uv_loop_t *loop; /* borrowed */
    int epoll;       /* owned */
    uv_poll_t poll;
    uv_timer_t timer;
    uv_idle_t idle; /* active while a watch waits in `again` */
    unsigned handles;
    struct epoll_event batch[BATCH]; /* the events [at, count) are not dispatched yet */
    int at, count;
    QUEUE(struct fd_watch) again;
    unsigned again_count;
    struct deadline_list lists[DEADLINE_KINDS_MAX];
    uint64_t armed; /* due time of the timer; 0 = stopped */
};

/* ---- watches ---- */

static void watch_unqueue(struct fd_watch *w)
{
    struct evloop *p = w->evloop;

    if (!w->again)
        return;
    w->again = false;
    p->again_count--;
    queue_remove(&p->again, w);
}

static void on_poller_idle(uv_idle_t *h)
{
    struct evloop *p = h->data;

    /* Only watches that are queued now: one that queues itself again waits for the next
     * iteration. */
    for (unsigned n = p->again_count; n > 0 && p->again.first != NULL; n--) {
        struct fd_watch *w = p->again.first;

        watch_unqueue(w);
        w->on_event(w, 0);
    }
    if (p->again.first == NULL)
        (void)uv_idle_stop(h);
}

void watch_again(struct fd_watch *w)
{
    struct evloop *p = w->evloop;

    if (p == NULL || w->again)
        return;
    w->again = true;
    p->again_count++;
    queue_add(&p->again, w);
    if (!uv_is_active((uv_handle_t *)&p->idle))
        (void)uv_idle_start(&p->idle, on_poller_idle);
}

bool evloop_crowded(const struct evloop *p)
{
    return p->again.first != NULL || p->at < p->count;
}

static int epoll_control(struct evloop *p, int op, struct fd_watch *w, int fd, uint32_t events)
{
    struct epoll_event ev = {.events = events | EPOLLIN | EPOLLPRI | EPOLLRDHUP | EPOLLET,
                             .data.ptr = w};

    return epoll_ctl(p->epoll, op, fd, &ev) < 0 ? -errno : 0;
}

static int watch_register(struct evloop *p, struct fd_watch *w, int fd, watch_fn *on_event,
                          uint32_t events)
{
    int r;

    assert(w->evloop == NULL);
    r = epoll_control(p, EPOLL_CTL_ADD, w, fd, events);
    if (r == 0)
        *w = (struct fd_watch){.evloop = p, .on_event = on_event, .fd = fd};
    return r;
}

int watch_add(struct evloop *p, struct fd_watch *w, int fd, watch_fn *on_event)
{
    return watch_register(p, w, fd, on_event, EPOLLOUT);
}

int watch_add_input(struct evloop *p, struct fd_watch *w, int fd, watch_fn *on_event)
{
    return watch_register(p, w, fd, on_event, 0);
}

int watch_output(struct fd_watch *w)
{
    return epoll_control(w->evloop, EPOLL_CTL_MOD, w, w->fd, EPOLLOUT);
}

void watch_remove(struct fd_watch *w)
{
    struct evloop *p = w->evloop;

    if (p == NULL)
        return;
    (void)epoll_ctl(p->epoll, EPOLL_CTL_DEL, w->fd, NULL);
    for (int i = p->at; i < p->count; i++)
        if (p->batch[i].data.ptr == w)
            p->batch[i].data.ptr = NULL;
    watch_unqueue(w);
    w->evloop = NULL;
}

static void on_epoll_ready(uv_poll_t *h, int status, int events)
{
    struct evloop *p = h->data;

    (void)status;
    (void)events;
    for (int round = 0; round < ROUNDS; round++) {
        p->count = epoll_wait(p->epoll, p->batch, BATCH, 0);
        for (p->at = 0; p->at < p->count;) {
            struct epoll_event *ev = &p->batch[p->at++];
            struct fd_watch *w = ev->data.ptr;

            if (w != NULL)
                w->on_event(w, ev->events);
        }
        if (p->count < BATCH)
            break;
    }
    p->at = p->count = 0;
}

/* ---- deadlines ---- */

static void evloop_arm(struct evloop *p);

static void deadline_unlink(struct deadline *d)
{
    if (d->link != NULL)
        queue_remove(&d->list->waiting, d);
}

static void on_poller_timer(uv_timer_t *t)
{
    struct evloop *p = t->data;
    uint64_t now = uv_now(p->loop);

    p->armed = 0;
    for (int i = 0; i < DEADLINE_KINDS_MAX; i++) {
        struct deadline_list *list = &p->lists[i];

        while (list->waiting.first != NULL && list->waiting.first->due <= now) {
            struct deadline *d = list->waiting.first;

            deadline_unlink(d);
            d->on_due(d);
        }
    }
    evloop_arm(p);
}

/* Starts the timer for the earliest deadline. Waking too early is harmless. */
static void evloop_arm(struct evloop *p)
{
    uint64_t due = 0, now = uv_now(p->loop);

    for (int i = 0; i < DEADLINE_KINDS_MAX; i++) {
        const struct deadline *d = p->lists[i].waiting.first;

        if (d != NULL && (due == 0 || d->due < due))
            due = d->due;
    }
    if (due == 0 || (p->armed != 0 && p->armed <= due))
        return;
    p->armed = due;
    (void)uv_timer_start(&p->timer, on_poller_timer, due > now ? due - now : 0, 0);
}

static struct deadline_list *evloop_list(struct evloop *p, unsigned ms)
{
    for (int i = 0; i < DEADLINE_KINDS_MAX; i++) {
        struct deadline_list *list = &p->lists[i];

        if (list->ms == ms)
            return list;
        if (list->ms == 0) {
            list->ms = ms;
            return list;
        }
    }
    assert(!"more durations than DEADLINE_KINDS_MAX");
    return NULL;
}

void deadline_set(struct evloop *p, struct deadline *d, unsigned ms, deadline_fn *on_due)
{
    struct deadline_list *list = evloop_list(p, ms > 0 ? ms : 1);

    deadline_clear(d);
    d->list = list;
    d->due = uv_now(p->loop) + list->ms;
    d->on_due = on_due;
    queue_add(&list->waiting, d);
    if (list->waiting.first == d)
        evloop_arm(p);
}

void deadline_clear(struct deadline *d)
{
    deadline_unlink(d);
}

/* ---- life ---- */

static void on_handle_closed(uv_handle_t *h)
{
    struct evloop *p = h->data;

    if (--p->handles > 0)
        return;
    if (p->epoll >= 0)
        (void)close(p->epoll);
    free(p);
}

void evloop_close(struct evloop *p)
{
    if (p == NULL)
        return;
    assert(p->again.first == NULL);
    uv_close((uv_handle_t *)&p->timer, on_handle_closed);
    uv_close((uv_handle_t *)&p->idle, on_handle_closed);
    uv_close((uv_handle_t *)&p->poll, on_handle_closed);
}

uv_loop_t *evloop_uv(struct evloop *p)
{
    return p->loop;
}

int evloop_new(uv_loop_t *loop, struct evloop **ret, struct err *err)
{
    struct evloop *p = calloc(1, sizeof(*p));
    int r;

    if (p == NULL)
        return err_errno(err, -ENOMEM, "an event loop of sockets");
    p->loop = loop;
    p->epoll = epoll_create1(EPOLL_CLOEXEC);
    r = p->epoll < 0 ? -errno : uv_poll_init(loop, &p->poll, p->epoll);
    if (r < 0) {
        if (p->epoll >= 0)
            (void)close(p->epoll);
        free(p);
        return err_errno(err, r, "an event loop of sockets");
    }
    (void)uv_timer_init(loop, &p->timer); /* never fails */
    (void)uv_idle_init(loop, &p->idle);
    p->poll.data = p->timer.data = p->idle.data = p;
    p->handles = 3;
    r = uv_poll_start(&p->poll, UV_READABLE, on_epoll_ready);
    if (r < 0) {
        evloop_close(p);
        return err_errno(err, r, "an event loop of sockets");
    }
    *ret = p;
    return 0;
}
