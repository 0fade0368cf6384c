#include "gateway/throughput.h"

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
    struct throughput *t =
        (struct throughput *)(void *)((char *)d - offsetof(struct throughput, window));

    if (t->moved < THROUGHPUT_MUCH) {
        thread_set_policy(SCHED_OTHER);
        return;
    }
    t->moved = 0;
    deadline_set(t->poller, d, THROUGHPUT_WINDOW_MS, on_throughput_window);
}

void throughput_moved(struct throughput *t, size_t bytes)
{
    uint64_t now = uv_now(poller_loop(t->poller));

    t->moved += bytes;
    if (t->fixed || t->window.link != NULL)
        return;
    if (now - t->since > THROUGHPUT_WINDOW_MS) {
        t->since = now;
        t->moved = bytes;
    } else if (t->moved >= THROUGHPUT_MUCH) {
        thread_set_policy(SCHED_BATCH);
        t->moved = 0;
        deadline_set(t->poller, &t->window, THROUGHPUT_WINDOW_MS, on_throughput_window);
    }
}

void throughput_init(struct throughput *t, struct poller *p)
{
    *t = (struct throughput){
        .poller = p,
        .fixed = (sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) != SCHED_OTHER,
    };
}

void throughput_close(struct throughput *t)
{
    if (t->window.link == NULL)
        return;
    deadline_clear(&t->window);
    thread_set_policy(SCHED_OTHER);
}
