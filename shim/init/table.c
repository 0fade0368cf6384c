#include "init/table.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { SINK_CHUNKS = 16 /* reads of a sink before others have their turn */ };

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
    for (int i = 0; i < 3; i++)
        slot_close_end(s, i);
}

void slot_close_end(struct slot *s, int i)
{
    if (s->ends[i] >= 0)
        (void)close(s->ends[i]);
    s->ends[i] = -1;
}

static void sink_remove(struct table *t, unsigned i)
{
    (void)close(t->sinks[i]);
    t->sink_count--;
    (void)memmove(t->sinks + i, t->sinks + i + 1, (t->sink_count - i) * sizeof(t->sinks[0]));
}

void slot_sink_ends(struct table *t, struct slot *s)
{
    for (int i = 1; i < 3; i++) {
        if (s->ends[i] < 0)
            continue;
        if (t->sink_count == SINKS_MAX)
            sink_remove(t, 0);
        (void)fcntl(s->ends[i], F_SETFL, O_NONBLOCK);
        t->sinks[t->sink_count++] = s->ends[i];
        s->ends[i] = -1;
    }
}

void sink_drain(struct table *t, unsigned i)
{
    char scratch[4096];
    ssize_t n = 1;

    for (int k = 0; k < SINK_CHUNKS && n > 0; k++)
        n = read(t->sinks[i], scratch, sizeof(scratch));
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        sink_remove(t, i);
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
