#include "init/exec-table.h"

#include <sys/epoll.h>
#include <unistd.h>

static const struct slot empty = {
    .status_fd = -1, .status_watched = -1, .parked = {-1, -1, -1}, .log = -1};

void table_init(struct table *t, struct init *init)
{
    /*
     * Free slots stay zero: pages that are never written cost nothing, neither here nor at a fork.
     */
    t->init = init;
}

struct slot *table_find(struct table *t, uint64_t id)
{
    for (unsigned i = 0; i < t->used; i++)
        if (t->slots[i].state != SLOT_FREE && t->slots[i].id == id)
            return &t->slots[i];
    return NULL;
}

struct slot *table_by_pid(struct table *t, pid_t pid)
{
    for (unsigned i = 0; i < t->used; i++)
        if ((t->slots[i].state == SLOT_STARTING || t->slots[i].state == SLOT_RUNNING) &&
            t->slots[i].pid == pid)
            return &t->slots[i];
    return NULL;
}

struct slot *table_take(struct table *t)
{
    for (unsigned i = 0; i < INIT_EXECS_MAX; i++)
        if (t->slots[i].state == SLOT_FREE) {
            if (i >= t->used)
                t->used = i + 1;
            t->slots[i] = empty;
            t->slots[i].serial = ++t->serial;
            return &t->slots[i];
        }
    return NULL;
}

void slot_watch_status(struct table *t, struct slot *s)
{
    watch_set(t, s->status_fd, &s->status_watched, EPOLLIN, watch_slot(t, s, 0, ABOUT_STATUS));
}

void slot_close_status(struct table *t, struct slot *s)
{
    if (s->status_fd < 0)
        return;
    watch_set(t, s->status_fd, &s->status_watched, -1, 0);
    (void)close(s->status_fd);
    s->status_fd = -1;
}

bool slot_is_quiet(const struct slot *s)
{
    for (int i = 0; i < RELAY_STREAMS; i++)
        if (s->relays[i].kind != RELAY_NONE)
            return false;
    return true;
}

void table_release(struct table *t, struct slot *s)
{
    for (int i = 0; i < RELAY_STREAMS; i++) {
        relay_close(t, &s->relays[i]);
        if (s->parked[i] >= 0)
            (void)close(s->parked[i]);
    }
    slot_close_status(t, s);
    if (s->log >= 0) {
        for (int i = 0; i < LOG_STREAMS; i++)
            log_close(&t->logs[s->log][i]);
        t->log_used[s->log] = false;
    }
    if (s->exec_cgroup != 0)
        exec_cgroup_release(t, s);
    *s = empty;
    while (t->used > 0 && t->slots[t->used - 1].state == SLOT_FREE)
        t->used--;
}
