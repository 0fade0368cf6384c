#include "gateway/poller.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/list.h"

enum {
    BATCH = 128, /* events taken from the kernel at a time */
    ROUNDS = 8,  /* batches before the loop's other handles get their turn */
};

struct deadline_list {
    unsigned ms;                    /* 0 = not in use */
    QUEUE(struct deadline) waiting; /* the earliest first */
};

struct poller {
    uv_loop_t *loop; /* borrowed */
    int epoll;       /* owned */
    uv_poll_t poll;
    uv_timer_t timer;
    uv_idle_t idle; /* runs while a watch wants to be called again */
    unsigned handles;
    struct epoll_event batch[BATCH]; /* of which [at, count) have not been told yet */
    int at, count;
    QUEUE(struct watch) again;
    unsigned again_count;
    struct deadline_list lists[DEADLINE_KINDS_MAX];
    uint64_t armed; /* when the timer runs out; 0 = it does not run */
};

/* ---- watches ---- */

static void forget_again(struct watch *w)
{
    struct poller *p = w->poller;

    if (!w->again)
        return;
    w->again = false;
    p->again_count--;
    queue_remove(&p->again, w);
}

static void on_idle(uv_idle_t *h)
{
    struct poller *p = h->data;

    /* As many as are here now: who asks again comes to the end and waits for the next turn. */
    for (unsigned n = p->again_count; n > 0 && p->again.first != NULL; n--) {
        struct watch *w = p->again.first;

        forget_again(w);
        w->on_event(w, 0);
    }
    if (p->again.first == NULL)
        (void)uv_idle_stop(h);
}

void watch_again(struct watch *w)
{
    struct poller *p = w->poller;

    if (p == NULL || w->again)
        return;
    w->again = true;
    p->again_count++;
    queue_add(&p->again, w);
    if (!uv_is_active((uv_handle_t *)&p->idle))
        (void)uv_idle_start(&p->idle, on_idle);
}

bool poller_crowded(const struct poller *p)
{
    return p->again.first != NULL || p->at < p->count;
}

static int control(struct poller *p, int op, struct watch *w, int fd, uint32_t events)
{
    struct epoll_event ev = {.events = events | EPOLLIN | EPOLLRDHUP | EPOLLET, .data.ptr = w};

    return epoll_ctl(p->epoll, op, fd, &ev) < 0 ? -errno : 0;
}

static int add(struct poller *p, struct watch *w, int fd, watch_fn *on_event, uint32_t events)
{
    int r;

    assert(w->poller == NULL);
    r = control(p, EPOLL_CTL_ADD, w, fd, events);
    if (r == 0)
        *w = (struct watch){.poller = p, .on_event = on_event, .fd = fd};
    return r;
}

int watch_add(struct poller *p, struct watch *w, int fd, watch_fn *on_event)
{
    return add(p, w, fd, on_event, EPOLLOUT);
}

int watch_add_input(struct poller *p, struct watch *w, int fd, watch_fn *on_event)
{
    return add(p, w, fd, on_event, 0);
}

int watch_output(struct watch *w)
{
    return control(w->poller, EPOLL_CTL_MOD, w, w->fd, EPOLLOUT);
}

void watch_remove(struct watch *w)
{
    struct poller *p = w->poller;

    if (p == NULL)
        return;
    (void)epoll_ctl(p->epoll, EPOLL_CTL_DEL, w->fd, NULL);
    for (int i = p->at; i < p->count; i++)
        if (p->batch[i].data.ptr == w)
            p->batch[i].data.ptr = NULL;
    forget_again(w);
    w->poller = NULL;
}

static void on_ready(uv_poll_t *h, int status, int events)
{
    struct poller *p = h->data;

    (void)status;
    (void)events;
    for (int round = 0; round < ROUNDS; round++) {
        p->count = epoll_wait(p->epoll, p->batch, BATCH, 0);
        for (p->at = 0; p->at < p->count;) {
            struct epoll_event *ev = &p->batch[p->at++];
            struct watch *w = ev->data.ptr;

            if (w != NULL)
                w->on_event(w, ev->events);
        }
        if (p->count < BATCH)
            break;
    }
    p->at = p->count = 0;
}

/* ---- deadlines ---- */

static void arm(struct poller *p);

static void unlink_deadline(struct deadline *d)
{
    if (d->link != NULL)
        queue_remove(&d->list->waiting, d);
}

static void on_timer(uv_timer_t *t)
{
    struct poller *p = t->data;
    uint64_t now = uv_now(p->loop);

    p->armed = 0;
    for (int i = 0; i < DEADLINE_KINDS_MAX; i++) {
        struct deadline_list *list = &p->lists[i];

        while (list->waiting.first != NULL && list->waiting.first->due <= now) {
            struct deadline *d = list->waiting.first;

            unlink_deadline(d);
            d->on_due(d);
        }
    }
    arm(p);
}

/* For the earliest; a timer that runs out too early does no harm. */
static void arm(struct poller *p)
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
    (void)uv_timer_start(&p->timer, on_timer, due > now ? due - now : 0, 0);
}

static struct deadline_list *list_of(struct poller *p, unsigned ms)
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

void deadline_set(struct poller *p, struct deadline *d, unsigned ms, deadline_fn *on_due)
{
    struct deadline_list *list = list_of(p, ms > 0 ? ms : 1);

    deadline_clear(d);
    d->list = list;
    d->due = uv_now(p->loop) + list->ms;
    d->on_due = on_due;
    queue_add(&list->waiting, d);
    if (list->waiting.first == d)
        arm(p);
}

void deadline_clear(struct deadline *d)
{
    unlink_deadline(d);
}

/* ---- life ---- */

static void on_closed(uv_handle_t *h)
{
    struct poller *p = h->data;

    if (--p->handles > 0)
        return;
    if (p->epoll >= 0)
        (void)close(p->epoll);
    free(p);
}

void poller_close(struct poller *p)
{
    if (p == NULL)
        return;
    assert(p->again.first == NULL);
    uv_close((uv_handle_t *)&p->timer, on_closed);
    uv_close((uv_handle_t *)&p->idle, on_closed);
    uv_close((uv_handle_t *)&p->poll, on_closed);
}

uv_loop_t *poller_loop(struct poller *p)
{
    return p->loop;
}

int poller_new(uv_loop_t *loop, struct poller **ret, struct err *err)
{
    struct poller *p = calloc(1, sizeof(*p));
    int r;

    if (p == NULL)
        return err_errno(err, -ENOMEM, "sockets of the gateway");
    p->loop = loop;
    p->epoll = epoll_create1(EPOLL_CLOEXEC);
    r = p->epoll < 0 ? -errno : uv_poll_init(loop, &p->poll, p->epoll);
    if (r < 0) {
        if (p->epoll >= 0)
            (void)close(p->epoll);
        free(p);
        return err_errno(err, r, "sockets of the gateway");
    }
    (void)uv_timer_init(loop, &p->timer); /* cannot fail */
    (void)uv_idle_init(loop, &p->idle);
    p->poll.data = p->timer.data = p->idle.data = p;
    p->handles = 3;
    r = uv_poll_start(&p->poll, UV_READABLE, on_ready);
    if (r < 0) {
        poller_close(p);
        return err_errno(err, r, "sockets of the gateway");
    }
    *ret = p;
    return 0;
}
