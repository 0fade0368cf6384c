/*
 * The loop: one message, one death or one chunk of output at a time. Children are reaped until none
 * is left after each SIGCHLD, because it coalesces. What the supervisor must hear stays noted in
 * the table until the socket took it: a supervisor that is slow, gone or new loses nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "init/table.h"
#include "proto/syscalls.h"

enum {
    POLL_CONTROL = 0,
    POLL_SIGNAL,
    POLL_LISTEN,
    POLL_GUARD,
    POLL_FIXED,
    NOT_LISTING = -1,
    LISTEN_BACKLOG = 4
};

struct loop {
    struct table table;
    int control; /* the supervisor; -1 while there is none */
    int listen;  /* where the next one connects; -1 when init ends with its first */
    int signal_fd;
    int list_at;        /* next slot to tell of for LIST, or NOT_LISTING */
    bool blocked;       /* the socket was full: poll for room, read no more requests */
    struct imsg unsaid; /* an answer that no slot remembers and that found no room */
    bool has_unsaid;
};

/* ---- telling ---- */

/* Returns whether it was taken (or nobody is there to take it). */
static bool say(struct loop *l, const struct imsg *what, const int *fds, int count)
{
    struct imsg msg = *what;
    int r;

    if (l->control < 0)
        return false;
    msg.magic = IMSG_MAGIC;
    msg.version = IMSG_VERSION;
    r = wire_send(l->control, &msg, sizeof(msg), fds, count);
    if (r == -EAGAIN)
        l->blocked = true;
    return r == 0;
}

/* What no slot remembers. While it waits no request is read that could lead to another. */
static void answer(struct loop *l, const struct imsg *what)
{
    if (!say(l, what, NULL, 0) && l->blocked) {
        l->unsaid = *what;
        l->has_unsaid = true;
    }
}

static bool tell_started(struct loop *l, struct slot *s, uint16_t type)
{
    const struct imsg msg = {.type = type, .id = s->id, .value = s->pid};
    int fds[3];
    int count = slot_ends(s, fds);

    if (!say(l, &msg, fds, count))
        return false;
    /* Unless parked they are the supervisor's alone now: the process must see its death as EPIPE
     * and end of file. */
    if ((s->flags & IMSG_PARK) == 0) {
        if ((s->flags & IMSG_SINK) == 0)
            slot_close_ends(s);
        else
            slot_close_end(s, 0);
    }
    return true;
}

static bool tell_one(struct loop *l, struct slot *s, unsigned what)
{
    struct imsg msg = {.id = s->id};

    switch (what) {
    case TELL_STARTED:
        return tell_started(l, s, IMSG_STARTED);
    case TELL_ATTACHED:
        return tell_started(l, s, IMSG_ATTACHED);
    case TELL_FAILED:
        msg.type = IMSG_EXEC_FAILED;
        msg.step = s->failure.step;
        msg.error = s->failure.error;
        return say(l, &msg, NULL, 0);
    default:
        msg.type = IMSG_EXITED;
        msg.value = s->status;
        msg.flags = s->flags & (IMSG_TIMED_OUT | IMSG_SINK);
        return say(l, &msg, NULL, 0);
    }
}

/* Says what is noted, in order; frees the slot that has nothing more to say and that nobody
 * collects. */
static void tell(struct loop *l, struct slot *s)
{
    static const unsigned order[] = {TELL_STARTED, TELL_FAILED, TELL_ATTACHED, TELL_EXITED};

    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        if ((s->tell & order[i]) == 0)
            continue;
        if (!tell_one(l, s, order[i]))
            return;
        s->tell &= ~order[i];
    }
    /* The main process's stays: who takes this sandbox up must see that it has had its one. */
    if (s->state == SLOT_ENDED &&
        (s->flags & (IMSG_PARK | IMSG_LOGGED | IMSG_MAIN | IMSG_SINK)) == 0)
        table_release(&l->table, s);
}

static void list_some(struct loop *l)
{
    while (l->list_at != NOT_LISTING) {
        struct imsg msg = {.type = IMSG_LIST_END, .flags = IMSG_APPEND};

        if ((unsigned)l->list_at < l->table.used) {
            const struct slot *s = &l->table.slots[l->list_at];

            if (s->state == SLOT_FREE) {
                l->list_at++;
                continue;
            }
            msg = (struct imsg){.type = IMSG_SLOT, .id = s->id, .value = s->pid, .flags = s->flags};
            if (s->state == SLOT_ENDED) {
                msg.flags |= IMSG_ENDED;
                msg.value = s->status;
            } else if (s->state == SLOT_STARTING) {
                msg.flags |= IMSG_UNSURE;
            }
        }
        if (!say(l, &msg, NULL, 0))
            return;
        l->list_at = msg.type == IMSG_LIST_END ? NOT_LISTING : l->list_at + 1;
    }
}

static void tell_all(struct loop *l)
{
    l->blocked = false;
    if (l->has_unsaid && !say(l, &l->unsaid, NULL, 0))
        return;
    l->has_unsaid = false;
    list_some(l);
    for (unsigned i = 0; i < l->table.used && !l->blocked; i++)
        if (l->table.slots[i].tell != 0)
            tell(l, &l->table.slots[i]);
}

/* ---- what happens to processes ---- */

static void leave_twin(struct loop *l, struct slot *s)
{
    if (s->twin)
        twin_left(&l->table.twin);
    s->twin = false;
}

/* The status pipe has something to say: a record is a failure, its end is a successful execve (or a
 * death, which the reaping tells). */
static void on_status(struct loop *l, struct slot *s)
{
    ssize_t n;

    n = read(s->status_fd, &s->failure, sizeof(s->failure));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    (void)close(s->status_fd);
    s->status_fd = -1;
    s->state = SLOT_RUNNING;
    if (n == (ssize_t)sizeof(s->failure)) {
        s->tell |= TELL_FAILED;
        /* Nothing of it is worth keeping: the slot is free once that has been told. */
        s->flags &= ~(uint32_t)(IMSG_PARK | IMSG_LOGGED | IMSG_SINK);
    } else {
        s->tell |= TELL_STARTED;
        if (n == 0)
            leave_twin(l, s);
    }
    tell(l, s);
}

/* What the process has said is in its log before its end is told: who is told may read it at once.
 * No more than is there now, because children of its may go on for ever. */
static void drain_log(struct log *log)
{
    uint64_t at = log_total(log), end;
    int waiting = 0;

    if (log->pipe < 0 || ioctl(log->pipe, FIONREAD, &waiting) < 0)
        return;
    end = at + (uint64_t)waiting;
    while (at < end) {
        uint64_t before = at;

        if (!log_move(log)) {
            log_close(log);
            return;
        }
        at = log_total(log);
        if (at == before)
            return;
    }
}

/* Whether somebody else than the process that has ended may go on to write. */
static bool has_writers(const struct slot *s)
{
    struct pollfd p[] = {{.fd = s->ends[1]}, {.fd = s->ends[2]}};

    (void)poll(p, 2, 0);
    return (p[0].fd >= 0 && (p[0].revents & POLLHUP) == 0) ||
           (p[1].fd >= 0 && (p[1].revents & POLLHUP) == 0);
}

static void reap(struct loop *l)
{
    const struct init *init = l->table.init;
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        struct slot *s = table_by_pid(&l->table, pid);

        if (s == NULL && pid == init->inner_pid && (init->plan.header->flags & PLAN_ATTACHED))
            _exit(1); /* the namespace has ended before it had a main process */
        if (s == NULL) {
            (void)guard_reaped(&l->table.init->guard, pid);
            continue;
        }
        if (s->state == SLOT_STARTING)
            on_status(l, s);
        leave_twin(l, s);
        for (int i = 0; s->log >= 0 && i < LOG_STREAMS; i++)
            drain_log(&l->table.logs[s->log][i]);
        s->state = SLOT_ENDED;
        s->status = status;
        if ((s->flags & (IMSG_SINK | IMSG_PARK)) == IMSG_SINK && !has_writers(s))
            s->flags &= ~(uint32_t)IMSG_SINK; /* the most frequent case costs no COLLECT */
        s->tell |= TELL_EXITED;
        tell(l, s);
    }
}

/* polled: of its streams that are open. Returns what follows. */
static const struct pollfd *move_logs(struct loop *l, struct slot *s, const struct pollfd *polled)
{
    for (int i = 0; i < LOG_STREAMS; i++) {
        struct log *log = &l->table.logs[s->log][i];

        if (log->pipe >= 0 && (polled++)->revents != 0 && !log_move(log))
            log_close(log);
    }
    return polled;
}

/* ---- deadlines ---- */

static int64_t now_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Also after the exec's end: what it left running in its leaf is still its own. */
static void kill_whole(struct slot *s, int signo)
{
    if (leaf_kill(s) == 0 || s->state == SLOT_ENDED)
        return;
    /* Each leads a session, and so a group, of its own from its first step on. */
    if (kill(-s->pid, signo) < 0)
        (void)kill(s->pid, signo);
}

/* Kills what has had its time. Returns for how long to poll: until the next deadline, or -1. */
static int expire(struct loop *l)
{
    struct guard *g = &l->table.init->guard;
    int64_t next = INT64_MAX, now = 0;

    if (g->broker_count > 0) {
        now = now_ms();
        next = guard_expire(g, now);
    }
    for (unsigned i = 0; i < l->table.used; i++) {
        struct slot *s = &l->table.slots[i];

        if (s->deadline == 0 || (s->state != SLOT_STARTING && s->state != SLOT_RUNNING))
            continue;
        if (now == 0)
            now = now_ms();
        if (s->deadline <= now) {
            s->deadline = 0;
            s->flags |= IMSG_TIMED_OUT;
            kill_whole(s, SIGKILL);
        } else if (s->deadline < next) {
            next = s->deadline;
        }
    }
    if (next == INT64_MAX)
        return -1;
    return next - now < INT_MAX ? (int)(next - now) : INT_MAX;
}

/* ---- requests ---- */

static void on_exec(struct loop *l, const struct imsg *msg, const int *fds, int count)
{
    struct imsg failed = {
        .type = IMSG_EXEC_FAILED, .id = msg->id, .step = EXEC_STEP_REQUEST, .error = EEXIST};
    struct slot *s;

    if (table_find(&l->table, msg->id) == NULL) {
        s = table_take(&l->table);
        failed.step = EXEC_STEP_LIMIT;
        failed.error = EAGAIN;
        if (s != NULL) {
            failed.step = start_exec(&l->table, s, msg, fds, count, &failed.error);
            if (failed.step == 0) {
                if (msg->flags & IMSG_TIMEOUT)
                    s->deadline = now_ms() + imsg_time(msg);
                return;
            }
            table_release(&l->table, s);
        }
    }
    answer(l, &failed);
}

static void on_signal_request(struct loop *l, const struct imsg *msg)
{
    struct slot *s = table_find(&l->table, msg->id);

    if (s == NULL || msg->value < 1 || msg->value > 64)
        return; /* it has been forgotten meanwhile: EXITED is under way */
    if (msg->flags & IMSG_WHOLE_EXEC) {
        kill_whole(s, msg->value);
        return;
    }
    if (s->state == SLOT_ENDED)
        return;
    if ((msg->flags & IMSG_GROUP) && kill(-s->pid, msg->value) == 0)
        return;
    (void)kill(s->pid, msg->value);
}

static void on_attach(struct loop *l, const struct imsg *msg)
{
    const struct imsg none = {.type = IMSG_NO_SLOT, .id = msg->id};
    struct slot *s = table_find(&l->table, msg->id);

    if (s == NULL || (s->flags & IMSG_PARK) == 0) {
        answer(l, &none);
        return;
    }
    s->tell |= TELL_ATTACHED;
    tell(l, s);
}

static void on_collect(struct loop *l, const struct imsg *msg)
{
    struct slot *s = table_find(&l->table, msg->id);

    if (s == NULL || s->state != SLOT_ENDED)
        return;
    if (s->flags & IMSG_SINK)
        slot_sink_ends(&l->table, s);
    table_release(&l->table, s);
}

static void on_stdin_close(struct loop *l, const struct imsg *msg)
{
    struct slot *s = table_find(&l->table, msg->id);

    if (s == NULL || (s->flags & IMSG_TTY) || (s->flags & IMSG_STDIN) == 0)
        return;
    slot_close_end(s, 0);
}

static void on_output_close(struct loop *l, const struct imsg *msg)
{
    struct slot *s = table_find(&l->table, msg->id);

    if (s != NULL && (s->flags & IMSG_TTY) == 0 && (msg->value == 1 || msg->value == 2))
        slot_close_end(s, msg->value);
}

static void on_message(struct loop *l, const struct imsg *msg, const int *fds, int count)
{
    switch (msg->type) {
    case IMSG_EXEC:
        on_exec(l, msg, fds, count);
        break;
    case IMSG_SIGNAL:
        on_signal_request(l, msg);
        break;
    case IMSG_ATTACH:
        on_attach(l, msg);
        break;
    case IMSG_COLLECT:
        on_collect(l, msg);
        break;
    case IMSG_STDIN_CLOSE:
        on_stdin_close(l, msg);
        break;
    case IMSG_OUTPUT_CLOSE:
        on_output_close(l, msg);
        break;
    case IMSG_LIST:
        l->list_at = 0;
        list_some(l);
        break;
    default:
        break; /* of a later version: its sender reads our version and knows */
    }
}

/* The output of these was the supervisor's that has gone. A process that runs is to see that; those
 * that it has left behind had nobody to hear them before. */
static void lose_sinks(struct loop *l)
{
    for (unsigned i = 0; i < l->table.used; i++) {
        struct slot *s = &l->table.slots[i];
        bool handed_out =
            (s->state == SLOT_RUNNING || s->state == SLOT_ENDED) && (s->tell & TELL_STARTED) == 0;

        if ((s->flags & (IMSG_SINK | IMSG_PARK)) != IMSG_SINK || !handed_out)
            continue;
        if (s->state == SLOT_ENDED)
            slot_sink_ends(&l->table, s);
        slot_close_ends(s);
        s->flags &= ~(uint32_t)IMSG_SINK;
        if (s->tell == 0 && s->state == SLOT_ENDED)
            table_release(&l->table, s);
    }
}

static void lose_control(struct loop *l)
{
    if (l->table.init->plan.header->flags & PLAN_ATTACHED)
        _exit(0); /* and with us the whole sandbox */
    (void)close(l->control);
    l->control = -1;
    l->list_at = NOT_LISTING;
    l->blocked = l->has_unsaid = false;
    lose_sinks(l);
}

static void on_control(struct loop *l)
{
    struct imsg msg;
    int fds[IMSG_FDS_MAX], count = 0;
    int n;

    n = wire_recv(l->control, &msg, sizeof(msg), fds, IMSG_FDS_MAX, &count);
    if (n == 0 || n == -ECONNRESET) {
        lose_control(l);
        return;
    }
    if (n == (int)sizeof(msg) && msg.magic == IMSG_MAGIC && msg.version == IMSG_VERSION)
        on_message(l, &msg, fds, count);
    for (int i = 0; n > 0 && i < count; i++)
        (void)close(fds[i]);
}

/* The socket lies where only the launcher can reach it: who connects is its successor. */
static void on_listen(struct loop *l)
{
    int fd = accept4(l->listen, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0) {
        /* Nobody there after all is fine; a socket that will never have anybody must not keep us
         * busy. */
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED && errno != EMFILE)
            l->listen = -1;
        return;
    }
    if (l->control >= 0)
        lose_control(l);
    l->control = fd;
    tell_all(l);
}

/* SIGCHLD, which is pending once or not at all: what has ended since is told of again. */
static void take_signal(int fd)
{
    struct signalfd_siginfo info;

    (void)!read(fd, &info, sizeof(info));
}

/* ---- the loop ---- */

static void loop_open(struct loop *l, struct init *init)
{
    const struct plan_header *h = init->plan.header;
    sigset_t child;

    table_init(&l->table, init);
    l->control = PLAN_CONTROL_FD;
    l->listen = (h->flags & PLAN_LISTEN) ? PLAN_FD_OPS + (int)h->fd_count - 1 : -1;
    l->list_at = NOT_LISTING;
    /* Here, so that the credentials which a peer sees are ours. */
    if (l->listen >= 0 && listen(l->listen, LISTEN_BACKLOG) < 0)
        init_fail(INIT_STAGE_LOOP, 0, errno);
    (void)fcntl(l->control, F_SETFL, O_NONBLOCK);
    (void)sigemptyset(&child);
    (void)sigaddset(&child, SIGCHLD);
    l->signal_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    if (l->signal_fd < 0)
        init_fail(INIT_STAGE_LOOP, 0, errno); /* no death would be noticed */
}

/* Status pipes of starting processes and the pipes that are logged, behind the fixed ones; the
 * sinks are the last. */
static unsigned gather(struct loop *l, struct pollfd *polled)
{
    unsigned count = POLL_FIXED;

    polled[POLL_CONTROL] =
        (struct pollfd){.fd = l->control, .events = l->blocked ? POLLOUT : POLLIN};
    polled[POLL_SIGNAL] = (struct pollfd){.fd = l->signal_fd, .events = POLLIN};
    polled[POLL_LISTEN] = (struct pollfd){.fd = l->listen, .events = POLLIN};
    polled[POLL_GUARD] = (struct pollfd){.fd = l->table.init->guard.listener, .events = POLLIN};
    for (unsigned i = 0; i < l->table.used; i++) {
        const struct slot *s = &l->table.slots[i];

        if (s->state == SLOT_STARTING)
            polled[count++] = (struct pollfd){.fd = s->status_fd, .events = POLLIN};
        for (int k = 0; s->log >= 0 && k < LOG_STREAMS; k++)
            if (l->table.logs[s->log][k].pipe >= 0)
                polled[count++] =
                    (struct pollfd){.fd = l->table.logs[s->log][k].pipe, .events = POLLIN};
    }
    for (unsigned i = 0; i < l->table.sink_count; i++)
        polled[count++] = (struct pollfd){.fd = l->table.sinks[i], .events = POLLIN};
    return count;
}

/* polled: as gather has put them together, of which nothing has changed since. */
static void serve_processes(struct loop *l, const struct pollfd *polled)
{
    for (unsigned i = 0; i < l->table.used; i++) {
        struct slot *s = &l->table.slots[i];

        if (s->state == SLOT_STARTING && (polled++)->revents != 0)
            on_status(l, s);
        if (s->log >= 0)
            polled = move_logs(l, s, polled);
    }
}

/* polled: of the sinks. From behind, because one that has ended goes out of the row. */
static void serve_sinks(struct loop *l, const struct pollfd *polled)
{
    for (unsigned i = l->table.sink_count; i-- > 0;)
        if (polled[i].revents != 0)
            sink_drain(&l->table, i);
}

void loop_run(struct init *init)
{
    static struct loop l;
    static struct pollfd polled[POLL_FIXED + INIT_EXECS_MAX + LOGGED_MAX * LOG_STREAMS + SINKS_MAX];

    loop_open(&l, init);
    init_ready();
    for (;;) {
        unsigned count;

        count = gather(&l, polled);
        if (poll(polled, count, expire(&l)) < 0)
            continue;
        if (count > POLL_FIXED) {
            serve_sinks(&l, polled + count - l.table.sink_count);
            serve_processes(&l, polled + POLL_FIXED);
        }
        if (polled[POLL_SIGNAL].revents != 0) {
            take_signal(l.signal_fd);
            reap(&l);
        }
        if (polled[POLL_CONTROL].revents & POLLOUT)
            tell_all(&l);
        if (polled[POLL_CONTROL].revents & ~POLLOUT)
            on_control(&l);
        if (polled[POLL_LISTEN].revents != 0)
            on_listen(&l);
        if (polled[POLL_GUARD].revents & POLLIN)
            guard_take(&init->guard);
    }
}
