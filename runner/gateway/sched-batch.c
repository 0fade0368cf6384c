#include "gateway/sched-batch.h"

#include <sched.h>

/* SCHED_RESET_ON_FORK: new threads and processes get the ordinary policy. The supervisor's
 * seccomp filter (api/confine) allows these calls. */
static void thread_set_policy(int policy)
{
    const struct sched_param none = {.sched_priority = 0};

    (void)sched_setscheduler(0, policy | SCHED_RESET_ON_FORK, &none);
}

static void on_throughput_window(struct deadline *d)
{
    struct sched_batch *t =
        (struct sched_batch *)(void *)((char *)d - offsetof(struct sched_batch, window));

    if (t->moved < SCHED_BATCH_MUCH) {
        thread_set_policy(SCHED_OTHER);
        return;
    }
    t->moved = 0;
    deadline_set(t->evloop, d, SCHED_BATCH_WINDOW_MS, on_throughput_window);
}

void sched_batch_moved(struct sched_batch *t, size_t bytes)
{
    uint64_t now = uv_now(evloop_uv(t->evloop));

    t->moved += bytes;
    if (t->fixed || t->window.link != NULL)
        return;
    if (now - t->since > SCHED_BATCH_WINDOW_MS) {
        t->since = now;
        t->moved = bytes;
    } else if (t->moved >= SCHED_BATCH_MUCH) {
        thread_set_policy(SCHED_BATCH);
        t->moved = 0;
        deadline_set(t->evloop, &t->window, SCHED_BATCH_WINDOW_MS, on_throughput_window);
    }
}

void sched_batch_init(struct sched_batch *t, struct evloop *p)
{
    *t = (struct sched_batch){
        .evloop = p,
        .fixed = (sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) != SCHED_OTHER,
    };
}

void sched_batch_close(struct sched_batch *t)
{
    if (t->window.link == NULL)
        return;
    deadline_clear(&t->window);
    thread_set_policy(SCHED_OTHER);
}
