#include "init/table.h"

#include <string.h>
#include <unistd.h>

static const struct slot empty = {.status_fd = -1, .ends = {-1, -1, -1}, .log = -1};

void table_init(struct table *t, struct init *init)
{
    /* Free slots stay as they are, zero: pages that nobody writes cost nothing, neither here nor at
     * each fork. */
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
            return &t->slots[i];
        }
    return NULL;
}

int slot_ends(const struct slot *s, int fds[3])
{
    int count = 0;

    for (int i = 0; i < 3; i++)
        if (s->ends[i] >= 0)
            fds[count++] = s->ends[i];
    return count;
}

void slot_close_ends(struct slot *s)
{
    for (int i = 0; i < 3; i++) {
        if (s->ends[i] >= 0)
            (void)close(s->ends[i]);
        s->ends[i] = -1;
    }
}

void table_release(struct table *t, struct slot *s)
{
    slot_close_ends(s);
    if (s->status_fd >= 0)
        (void)close(s->status_fd);
    if (s->log >= 0) {
        for (int i = 0; i < LOG_STREAMS; i++)
            log_close(&t->logs[s->log][i]);
        t->log_used[s->log] = false;
    }
    if (s->leaf != 0)
        leaf_release(t, s);
    *s = empty;
    while (t->used > 0 && t->slots[t->used - 1].state == SLOT_FREE)
        t->used--;
}
