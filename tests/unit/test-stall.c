/* The launcher's half of launch/stall.h, beside a supervisor that sleeps when it is told to: while
 * a child of its clone(CLONE_VFORK) lives, it is in the state (D) in which it would wait for a
 * lock. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "launch/launcher.h"
#include "launch/sandbox.h"
#include "launch/stall.h"
#include "proto/syscalls.h"
#include "tap.h"

enum {
    LIMIT_MS = 20000,
    BOXES_MAX = 10,
    RANGE = 0x50000000, /* that no rind uses */
    ID = 0x1000,
};

/* What the supervisor does when it is told so, until it is told something else. */
enum what { CALL = 'c', SLEEP = 's', SLEEP_UNSAID = 'u', COMPUTE = 'r', CALLS = 'm' };

struct world {
    struct launcher l;
    struct stall *stall;
    pid_t supervisor;
    int to; /* the supervisor */
    struct sandbox *boxes[BOXES_MAX];
    int count;
};

/* ---- the supervisor ---- */

static bool told_more(int from)
{
    struct pollfd p = {.fd = from, .events = POLLIN};

    return poll(&p, 1, 0) != 0;
}

static void sleep_there(int from)
{
    struct pollfd p = {.fd = from, .events = POLLIN};
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0);

    if (pid == 0) {
        (void)poll(&p, 1, -1);
        _exit(0);
    }
    (void)waitpid(pid, NULL, 0);
}

static _Noreturn void supervise(struct stall *s, int from)
{
    struct {
        char what;
        uint64_t id;
    } order;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    stall_tell(s);
    while (read(from, &order, sizeof(order)) == (ssize_t)sizeof(order)) {
        if (order.what != SLEEP_UNSAID)
            stall_begin(order.id);
        if (order.what == SLEEP || order.what == SLEEP_UNSAID)
            sleep_there(from);
        while (order.what == COMPUTE && !told_more(from))
            continue;
        stall_begin(order.id + 1); /* nested: it counts for nothing */
        stall_end();
        if (order.what != SLEEP_UNSAID)
            stall_end();
        while (order.what == CALLS && !told_more(from)) {
            stall_begin(order.id);
            stall_end();
            (void)poll(NULL, 0, 1);
        }
    }
    _exit(0);
}

static void tell(const struct world *w, enum what what, uint64_t id)
{
    struct {
        char what;
        uint64_t id;
    } order = {.what = (char)what, .id = id};

    CHECK_INT(write(w->to, &order, sizeof(order)), (long long)sizeof(order));
}

/* ---- sandboxes of one process each ---- */

/* in_splice: it sleeps there, else for good. */
static pid_t inhabitant(uid_t uid, bool in_splice)
{
    pid_t pid = fork();
    int pipes[2], pair[2];

    if (pid != 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (pipe(pipes) < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0 ||
        setresuid(uid, uid, uid) < 0)
        _exit(1);
    if (in_splice)
        (void)splice(pair[0], NULL, pipes[1], NULL, 4096, 0);
    for (;;)
        (void)pause();
}

static struct sandbox *add_box(struct world *w, bool in_splice)
{
    char id[LAUNCH_ID_MAX + 1];
    struct sandbox *s;

    (void)snprintf(id, sizeof(id), "%016x", ID + 0x10 * w->count);
    s = sandbox_new(id);
    if (s == NULL)
        return NULL;
    s->ids.base = (uid_t)(RANGE + w->count * (int)IDRANGE_SIZE);
    s->pid = inhabitant(s->ids.base + 7, in_splice);
    s->pidfd = sys_pidfd_open(s->pid);
    launcher_add(&w->l, s);
    w->boxes[w->count++] = s;
    return s;
}

static bool lives(const struct sandbox *s)
{
    struct pollfd p = {.fd = s->pidfd, .events = POLLIN};

    return poll(&p, 1, 0) == 0;
}

static int alive(const struct world *w)
{
    int n = 0;

    for (int i = 0; i < w->count; i++)
        n += lives(w->boxes[i]);
    return n;
}

/* ---- the launcher ---- */

static bool world_open(struct world *w)
{
    struct err err = ERR_NONE;
    int pair[2];

    *w = (struct world){.l = {.fusectl = FD_NONE}};
    w->l.children.owner = &w->l;
    CHECK_INT(stall_new(&w->stall, &err), 0);
    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    w->supervisor = fork();
    if (w->supervisor == 0) {
        (void)close(pair[0]);
        supervise(w->stall, pair[1]);
    }
    (void)close(pair[1]);
    w->to = pair[0];
    CHECK_INT(stall_watch(&w->l, w->stall, w->supervisor, &err), 0);
    CHECK_STR(err.msg, "");
    return !tap_failed;
}

static void world_close(struct world *w)
{
    (void)close(w->to); /* also an end of what it sleeps for */
    (void)kill(w->supervisor, SIGKILL);
    (void)waitpid(w->supervisor, NULL, 0);
    while (w->l.children.count > 0) {
        (void)poll(NULL, 0, 5);
        child_table_reap(&w->l.children);
    }
    for (int i = 0; i < w->count; i++) {
        (void)kill(w->boxes[i]->pid, SIGKILL);
        (void)waitpid(w->boxes[i]->pid, NULL, 0);
        launcher_drop(&w->l, w->boxes[i]);
        sandbox_free(w->boxes[i]);
    }
    if (w->l.fusectl >= 0)
        (void)close(w->l.fusectl);
    stall_free(w->stall);
}

/* As the launcher's loop does, for so long, or until so few sandboxes live; returns how often it
 * came round. */
static int serve(struct world *w, int ms, int until)
{
    const int64_t end = clock_mono_ms() + ms;
    int rounds = 0;

    while (clock_mono_ms() < end && alive(w) > until) {
        struct pollfd p = {.fd = stall_fd(&w->l), .events = POLLIN};
        int wait = stall_wait(&w->l);

        (void)poll(&p, 1, wait >= 0 && wait < 100 ? wait : 100);
        stall_look(&w->l);
        child_table_reap(&w->l.children);
        rounds++;
    }
    return rounds;
}

/* ---- tests ---- */

TEST(who_makes_it_sleep_is_ended)
{
    struct world w;
    int64_t begun;

    if (!world_open(&w))
        return;
    (void)add_box(&w, false);
    (void)add_box(&w, false);
    tell(&w, SLEEP, ID + 0x10);
    begun = clock_mono_ms();
    (void)serve(&w, LIMIT_MS, 1);
    CHECK(lives(w.boxes[0]));
    CHECK(!lives(w.boxes[1]));
    /* Ten looks, which follow one another by 1 to 99 ms. */
    CHECK(clock_mono_ms() - begun >= 10);
    world_close(&w);
}

TEST(not_when_it_is_busy_or_sleeps_elsewhere)
{
    static const enum what whats[] = {COMPUTE, SLEEP_UNSAID, CALLS};
    struct world w;

    if (!world_open(&w))
        return;
    (void)add_box(&w, false);
    for (size_t i = 0; i < sizeof(whats) / sizeof(whats[0]); i++) {
        tell(&w, whats[i], ID);
        (void)serve(&w, 1500, 0);
        CHECK_INT(w.boxes[0]->stalled_ms, 0);
    }
    CHECK(lives(w.boxes[0]));
    world_close(&w);
}

TEST(nobody_looks_when_nothing_happens)
{
    struct world w;

    if (!world_open(&w))
        return;
    (void)add_box(&w, false);
    CHECK_INT(stall_wait(&w.l), -1);
    for (int i = 0; i < 3; i++) {
        int64_t end = clock_mono_ms() + LIMIT_MS;

        tell(&w, CALL, ID);
        do /* it is told, looks, and stops that */
            (void)serve(&w, 10, 0);
        while (stall_wait(&w.l) >= 0 && clock_mono_ms() < end);
        CHECK_INT(stall_wait(&w.l), -1);
        CHECK(serve(&w, 1000, 0) <= 12); /* of 100 ms, as nothing wakes it */
    }
    world_close(&w);
}

/* Else ten could take turns: each would be forgiven what it has done while the others did. */
TEST(all_together_are_forgiven_a_tenth)
{
    unsigned left = 0;
    struct world w;

    if (!world_open(&w))
        return;
    for (int i = 0; i < BOXES_MAX; i++)
        add_box(&w, false)->stalled_ms = 300;
    tell(&w, CALLS, ID + 0x1000);
    (void)serve(&w, 2500, 0);
    for (int i = 0; i < BOXES_MAX; i++)
        left += w.boxes[i]->stalled_ms;
    CHECK(left >= 3000 - 4 * STALL_FORGIVE_MS);
    CHECK(left <= 3000 - 2 * STALL_FORGIVE_MS);
    world_close(&w);
}

/* The supervisor sleeps on when the first has been ended, and a process of the third may be why.
 * Here nobody can be paused, as they have no cgroups; nobody is ended for it either. */
TEST(whoever_else_may_hold_it_lives)
{
    struct world w;

    if (!world_open(&w))
        return;
    (void)add_box(&w, false);
    (void)add_box(&w, false);
    (void)add_box(&w, true);
    tell(&w, SLEEP, ID);
    (void)serve(&w, 3000, 0);
    CHECK(!lives(w.boxes[0]));
    CHECK(lives(w.boxes[1]));
    CHECK(lives(w.boxes[2]));
    world_close(&w);
}

/* Whoever looks for it would have a sandbox go on that a user has paused meanwhile. */
TEST(nobody_is_paused_while_others_are)
{
    struct err err = ERR_NONE;
    struct world w;
    int64_t end;

    if (!world_open(&w))
        return;
    (void)add_box(&w, true);
    CHECK(!stall_seeks(&w.l));
    tell(&w, SLEEP, ID + 1);
    end = clock_mono_ms() + LIMIT_MS;
    while (w.l.children.count == 0 && clock_mono_ms() < end) {
        (void)poll(NULL, 0, 1);
        stall_look(&w.l);
    }
    CHECK_INT(w.l.children.count, 1);
    if (w.l.children.count == 1) {
        (void)kill(w.l.children.children[0].pid, SIGSTOP);
        CHECK(stall_seeks(&w.l));
        CHECK_INT(launcher_freeze(&w.l, w.boxes[0]->id, true, &err), -EAGAIN);
        (void)kill(w.l.children.children[0].pid, SIGKILL);
        while (stall_seeks(&w.l) && clock_mono_ms() < end)
            (void)poll(NULL, 0, 1);
    }
    CHECK(!stall_seeks(&w.l));
    world_close(&w);
}

/* A supervisor that was taken over may say what it likes: nobody is ended for a sandbox that is not
 * there. */
TEST(sandboxes_that_are_not_there)
{
    static const uint64_t ids[] = {0, UINT64_MAX, ID + 1};
    struct world w;

    if (!world_open(&w))
        return;
    (void)add_box(&w, false);
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        tell(&w, SLEEP, ids[i]);
        CHECK(serve(&w, 1500, 0) < 200);
    }
    CHECK(lives(w.boxes[0]));
    world_close(&w);
}

TEST(a_supervisor_that_dies_within_a_call)
{
    struct world w;

    if (!world_open(&w))
        return;
    (void)add_box(&w, false);
    tell(&w, SLEEP, ID);
    (void)serve(&w, 200, 0);
    (void)kill(w.supervisor, SIGKILL);
    (void)waitpid(w.supervisor, NULL, 0);
    CHECK(serve(&w, 1500, 0) < 200);
    CHECK(lives(w.boxes[0]));
    world_close(&w);
}

TAP_MAIN
