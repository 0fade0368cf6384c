#include "launch/stall.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "launch/launcher.h"
#include "launch/sandbox.h"

/* What both see. The launcher believes none of it: at worst, a sandbox of the supervisor's ends. */
struct page {
    _Atomic uint32_t seq;    /* odd: within a call */
    _Atomic uint32_t asleep; /* the launcher does not look until it is told of the next call */
    _Atomic uint64_t id;
};

struct stall {
    struct page *page; /* shared */
    int wake;          /* eventfd; owned */
    /* The launcher's. */
    int stat; /* of the supervisor in /proc; owned */
    bool looking;
    uint32_t last_seq;
    int64_t next_ms, forgive_ms;
    struct culprit {
        uint64_t id;
        unsigned ms;
    } culprits[STALL_NAMES];
};

int stall_new(struct stall **ret, struct err *err)
{
    struct stall *s = calloc(1, sizeof(*s));
    void *page;

    if (s == NULL)
        return err_errno(err, -ENOMEM, "watch over the supervisor");
    s->stat = FD_NONE;
    s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    page = s->wake < 0 ? MAP_FAILED
                       : mmap(NULL, sizeof(*s->page), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        int r = -errno;

        stall_free(s);
        return err_errno(err, r, "watch over the supervisor");
    }
    s->page = page;
    atomic_store(&s->page->asleep, 1);
    *ret = s;
    return 0;
}

void stall_free(struct stall *s)
{
    if (s == NULL)
        return;
    if (s->page != NULL)
        (void)munmap(s->page, sizeof(*s->page));
    if (s->wake >= 0)
        (void)close(s->wake);
    if (s->stat >= 0)
        (void)close(s->stat);
    free(s);
}

/* ---- in the supervisor ---- */

static struct stall *told;

void stall_tell(struct stall *s)
{
    told = s;
}

void stall_begin(uint64_t id)
{
    const uint64_t one = 1;

    if (told == NULL)
        return;
    atomic_store_explicit(&told->page->id, id, memory_order_relaxed);
    (void)atomic_fetch_add(&told->page->seq, 1);
    /* Either this sees that nobody looks, or who stops looking sees the new number. */
    if (atomic_load(&told->page->asleep) != 0 && atomic_exchange(&told->page->asleep, 0) != 0)
        (void)!write(told->wake, &one, sizeof(one)); /* full: it is readable */
}

void stall_end(void)
{
    if (told != NULL)
        (void)atomic_fetch_add(&told->page->seq, 1);
}

void stall_close(uint64_t id, int *fd)
{
    if (*fd < 0)
        return;
    stall_begin(id);
    (void)close(take_fd(fd));
    stall_end();
}

/* ---- in the launcher ---- */

int stall_watch(struct launcher *l, struct stall *s, pid_t supervisor, struct err *err)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)supervisor);
    s->stat = open(path, O_RDONLY | O_CLOEXEC);
    if (s->stat < 0)
        return err_errno(err, -errno, "watch over the supervisor: %s", path);
    l->stall = s;
    return 0;
}

int stall_fd(const struct launcher *l)
{
    return l->stall != NULL ? l->stall->wake : -1;
}

int stall_wait(const struct launcher *l)
{
    int64_t left;

    if (l->stall == NULL || !l->stall->looking)
        return -1;
    left = l->stall->next_ms - clock_mono_ms();
    return left > 0 ? (int)left : 0;
}

/* Not to be woken (D), as one is who waits for a lock; and not merely without a processor (R). */
static bool sleeps(const struct stall *s)
{
    char text[512];
    ssize_t n = pread(s->stat, text, sizeof(text) - 1, 0);
    const char *end;

    text[n > 0 ? n : 0] = '\0';
    end = strrchr(text, ')'); /* its name may have any in it */
    return end != NULL && end[1] == ' ' && end[2] == 'D';
}

static struct culprit *find(struct stall *s, uint64_t id)
{
    struct culprit *least = &s->culprits[0];

    for (size_t i = 0; i < STALL_NAMES; i++) {
        if (s->culprits[i].id == id)
            return &s->culprits[i];
        if (s->culprits[i].ms < least->ms)
            least = &s->culprits[i];
    }
    *least = (struct culprit){.id = id};
    return least;
}

static void blame(struct launcher *l, uint64_t id)
{
    struct culprit *c = find(l->stall, id);
    struct err err = ERR_NONE;
    char name[17];

    c->ms += STALL_LOOK_MS;
    if (c->ms < STALL_MOST_MS)
        return;
    c->ms = 0;
    (void)snprintf(name, sizeof(name), "%016" PRIx64, id);
    if (launcher_end(l, name, &err) < 0)
        log_warn("launch", "sandbox=%s keeps the daemon waiting by the lock of a pipe: %s", name,
                 err.msg);
    else
        log_warn("launch",
                 "sandbox=%s is ended: by the lock of a pipe it has kept the daemon waiting for %d "
                 "ms",
                 name, STALL_MOST_MS);
}

static void forgive(struct stall *s, int64_t now)
{
    if (now < s->forgive_ms)
        return;
    s->forgive_ms = now + 1000;
    for (size_t i = 0; i < STALL_NAMES; i++)
        s->culprits[i].ms -=
            s->culprits[i].ms < STALL_FORGIVE_MS ? s->culprits[i].ms : STALL_FORGIVE_MS;
}

static bool stop_looking(struct stall *s, uint32_t seq)
{
    atomic_store(&s->page->asleep, 1);
    if (atomic_load(&s->page->seq) == seq)
        return true;
    atomic_store(&s->page->asleep, 0);
    return false;
}

void stall_look(struct launcher *l)
{
    struct stall *s = l->stall;
    int64_t now = clock_mono_ms();
    uint64_t times, id;
    uint32_t seq;
    bool woken;

    if (s == NULL)
        return;
    /* Also while it looks: who was about to stop may have been told already. */
    woken = read(s->wake, &times, sizeof(times)) > 0;
    if (!s->looking) {
        if (!woken)
            return;
        s->looking = true;
        s->next_ms = now + STALL_LOOK_MS;
        return;
    }
    if (now < s->next_ms)
        return;
    s->next_ms = now + STALL_LOOK_MS;
    forgive(s, now);
    seq = atomic_load(&s->page->seq);
    id = atomic_load(&s->page->id);
    if ((seq & 1) != 0 && sleeps(s) && atomic_load(&s->page->seq) == seq)
        blame(l, id);
    else if ((seq & 1) == 0 && seq == s->last_seq)
        s->looking = !stop_looking(s, seq);
    s->last_seq = seq;
}
