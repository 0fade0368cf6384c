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
#include <sys/random.h>
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
    bool looking, gentle;
    uint32_t last_seq;
    int64_t next_ms, forgive_ms;
    unsigned unknown_ms; /* for sandboxes that are not in the table any more */
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
static unsigned depth;

void stall_tell(struct stall *s)
{
    told = s;
}

void stall_begin(uint64_t id)
{
    const uint64_t one = 1;

    if (told == NULL || depth++ > 0)
        return;
    atomic_store_explicit(&told->page->id, id, memory_order_relaxed);
    (void)atomic_fetch_add(&told->page->seq, 1);
    /* Either this sees that nobody looks, or who stops looking sees the new number. */
    if (atomic_load(&told->page->asleep) != 0 && atomic_exchange(&told->page->asleep, 0) != 0)
        (void)!write(told->wake, &one, sizeof(one)); /* full: it is readable */
}

void stall_end(void)
{
    if (told != NULL && --depth == 0)
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

void stall_be_gentle(struct stall *s)
{
    s->gentle = true;
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
bool stall_sleeps(int stat_fd)
{
    char text[512];
    ssize_t n = pread(stat_fd, text, sizeof(text) - 1, 0);
    const char *end;

    text[n > 0 ? n : 0] = '\0';
    end = strrchr(text, ')'); /* its name may have any in it */
    return end != NULL && end[1] == ' ' && end[2] == 'D';
}

bool stall_waits(const struct launcher *l, uint32_t *ret_seq)
{
    *ret_seq = atomic_load(&l->stall->page->seq);
    return (*ret_seq & 1) != 0 && stall_sleeps(l->stall->stat);
}

bool stall_is_over(const struct launcher *l, uint32_t seq)
{
    return atomic_load(&l->stall->page->seq) != seq;
}

/*
 * The second time the same start of a sandbox is blamed, it is dead or about to be, and the lock is
 * held by somebody whom it has given its pipe to.
 */
static void end(struct launcher *l, struct sandbox *s, const char *name)
{
    struct err err = ERR_NONE;

    if (l->stall->gentle) {
        if (s != NULL)
            stall_shake(l, s);
        return;
    }
    if (s == NULL || s->blamed_pid == s->pid) {
        stall_free_lock(l, name);
        return;
    }
    s->blamed_pid = s->pid;
    if (launcher_end(l, name, &err) < 0)
        log_warn("launch", "sandbox=%s keeps the daemon waiting by the lock of a pipe: %s", name,
                 err.msg);
    else
        log_warn("launch",
                 "sandbox=%s is ended: by the lock of a pipe it has kept the daemon waiting for %d "
                 "ms",
                 name, STALL_MOST_MS);
}

static void blame(struct launcher *l, uint64_t id)
{
    struct sandbox *s;
    unsigned *ms;
    char name[17];

    (void)snprintf(name, sizeof(name), "%016" PRIx64, id);
    s = launcher_find(l, name);
    ms = s != NULL ? &s->stalled_ms : &l->stall->unknown_ms;
    *ms += STALL_LOOK_MS;
    if (*ms < STALL_MOST_MS)
        return;
    *ms = 0;
    end(l, s, name);
}

static void forgive_one(unsigned *ms, unsigned share)
{
    *ms -= *ms < share ? *ms : share;
}

/* All together: else ten sandboxes of one owner's could take turns for ever. */
static void forgive(struct launcher *l, int64_t now)
{
    unsigned count = 0, share;

    if (now < l->stall->forgive_ms)
        return;
    l->stall->forgive_ms = now + 1000;
    for (const struct sandbox *s = l->sandboxes; s != NULL; s = s->all.next)
        count += s->stalled_ms > 0;
    share = STALL_FORGIVE_MS / (count > 0 ? count : 1);
    for (struct sandbox *s = l->sandboxes; s != NULL; s = s->all.next)
        forgive_one(&s->stalled_ms, share > 0 ? share : 1);
    forgive_one(&l->stall->unknown_ms, STALL_FORGIVE_MS);
}

/* Not to be foreseen: who knew when, because its own output has woken us, would let go in time. */
static int64_t next_look(int64_t now)
{
    uint32_t any = 0;

    (void)!getrandom(&any, sizeof(any), GRND_NONBLOCK); /* without: at once */
    return now + 1 + any % (2 * STALL_LOOK_MS - 1);
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
        s->next_ms = next_look(now);
        return;
    }
    if (now < s->next_ms)
        return;
    s->next_ms = next_look(now);
    forgive(l, now);
    seq = atomic_load(&s->page->seq);
    id = atomic_load(&s->page->id);
    if ((seq & 1) != 0 && stall_sleeps(s->stat) && atomic_load(&s->page->seq) == seq)
        blame(l, id);
    else if ((seq & 1) == 0 && seq == s->last_seq)
        s->looking = !stop_looking(s, seq);
    s->last_seq = seq;
}
