/*
 * The loop: it handles one message, one exit or one chunk of output at a time. After each SIGCHLD
 * it reaps all ended children, because SIGCHLD coalesces. Messages for the supervisor stay noted in
 * the table until the socket has taken them. So a slow, dead or new supervisor loses none.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "init/exec-table.h"
#include "proto/syscalls.h"

enum {
    EVENTS = 64, /* events handled in one round */
    NOT_LISTING = -1,
    LISTEN_BACKLOG = 4
};

struct loop {
    struct table table;
    int control; /* socket to the supervisor; -1 while there is none */
    int control_watched;
    int listen; /* socket where the next supervisor connects; -1 when init ends with its first one
                 */
    int listen_watched;
    int signal_fd;
    int list_at;        /* next slot to report for LIST, or NOT_LISTING */
    bool blocked;       /* the socket was full: poll for room, read no more requests */
    struct imsg unsaid; /* an answer that no slot remembers and that the socket had no room for */
    bool has_unsaid;
};

/* ---- sending ---- */

static void loop_watch_control(struct loop *l);

/* Sends a message to the supervisor. Returns whether it was sent. */
static bool loop_send(struct loop *l, const struct imsg *what, const int *fds, int count)
{
    struct imsg msg = *what;
    int r;

    if (l->control < 0)
        return false;
    msg.magic = IMSG_MAGIC;
    msg.version = IMSG_VERSION;
    r = wire_send(l->control, &msg, sizeof(msg), fds, count);
    if (r == -EAGAIN) {
        l->blocked = true;
        loop_watch_control(l);
    }
    return r == 0;
}

/*
 * Sends an answer that no slot keeps. While one waits for room, no request is read, because it
 * could cause another answer.
 */
static void loop_reply(struct loop *l, const struct imsg *what)
{
    if (!loop_send(l, what, NULL, 0) && l->blocked) {
        l->unsaid = *what;
        l->has_unsaid = true;
    }
}

/* Waits for room in the socket or for requests, as the state demands. */
static void loop_watch_control(struct loop *l)
{
    watch_set(&l->table, l->control, &l->control_watched, l->blocked ? EPOLLOUT : EPOLLIN,
              ABOUT_CONTROL);
}

static bool slot_tell_attached(struct loop *l, struct slot *s)
{
    const struct imsg msg = {.type = IMSG_ATTACHED, .id = s->id, .value = s->pid};
    int fds[RELAY_STREAMS], count = 0;

    for (int i = 0; i < RELAY_STREAMS; i++)
        if (s->parked[i] >= 0)
            fds[count++] = s->parked[i];
    return loop_send(l, &msg, fds, count);
}

/* True if output of the ended process waits for room. Logs do not count. */
static bool slot_has_more(const struct slot *s)
{
    for (int i = 0; i < RELAY_STREAMS; i++)
        if (s->relays[i].kind != RELAY_NONE && s->relays[i].ended)
            return true;
    return false;
}

static bool slot_tell_one(struct loop *l, struct slot *s, unsigned what)
{
    struct imsg msg = {.id = s->id};

    switch (what) {
    case TELL_STARTED:
        msg.type = IMSG_STARTED;
        msg.value = s->pid;
        return loop_send(l, &msg, NULL, 0);
    case TELL_ATTACHED:
        return slot_tell_attached(l, s);
    case TELL_FAILED:
        msg.type = IMSG_EXEC_FAILED;
        msg.step = s->failure.step;
        msg.error = s->failure.error;
        return loop_send(l, &msg, NULL, 0);
    default:
        msg.type = IMSG_EXITED;
        msg.value = s->status;
        msg.flags = (s->flags & IMSG_TIMED_OUT) | (slot_has_more(s) ? IMSG_MORE : 0);
        return loop_send(l, &msg, NULL, 0);
    }
}

/*
 * Frees an ended slot when everything is reported and moved. The main process's slot stays until
 * COLLECT. A supervisor that reattaches must see that the sandbox has had its main process.
 */
static void slot_release_if_over(struct loop *l, struct slot *s)
{
    if (s->state != SLOT_ENDED || s->tell != 0 || !slot_is_quiet(s))
        return;
    if ((s->flags & (IMSG_PARK | IMSG_LOGGED | IMSG_MAIN)) == 0)
        table_release(&l->table, s);
}

/* Sends the slot's noted messages, in order. */
static void slot_tell(struct loop *l, struct slot *s)
{
    static const unsigned order[] = {TELL_STARTED, TELL_FAILED, TELL_ATTACHED, TELL_EXITED};

    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        if ((s->tell & order[i]) == 0)
            continue;
        if (!slot_tell_one(l, s, order[i]))
            return;
        s->tell &= ~order[i];
    }
    slot_release_if_over(l, s);
}

static void loop_list(struct loop *l)
{
    while (l->list_at != NOT_LISTING) {
        struct imsg msg = {.type = IMSG_LIST_END};

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
        if (!loop_send(l, &msg, NULL, 0))
            return;
        l->list_at = msg.type == IMSG_LIST_END ? NOT_LISTING : l->list_at + 1;
    }
}

static void loop_tell_all(struct loop *l)
{
    l->blocked = false;
    loop_watch_control(l);
    if (l->has_unsaid && !loop_send(l, &l->unsaid, NULL, 0))
        return;
    l->has_unsaid = false;
    loop_list(l);
    for (unsigned i = 0; i < l->table.used && !l->blocked; i++)
        if (l->table.slots[i].tell != 0)
            slot_tell(l, &l->table.slots[i]);
}

/* ---- events of processes ---- */

static void slot_leave_spawn_vm(struct loop *l, struct slot *s)
{
    if (s->spawn_vm)
        spawn_vm_left(&l->table.spawn_vm);
    s->spawn_vm = false;
}

/*
 * Handles the status pipe. A record is a failure. Its end means a successful execve, or an exit,
 * which reaping reports.
 */
static void on_status_pipe(struct loop *l, struct slot *s)
{
    ssize_t n;

    n = read(s->status_fd, &s->failure, sizeof(s->failure));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    slot_close_status(&l->table, s);
    s->state = SLOT_RUNNING;
    if (n == (ssize_t)sizeof(s->failure)) {
        s->tell |= TELL_FAILED;
        /* There is nothing to keep, so the slot is free once the failure is reported. */
        s->flags &= ~(uint32_t)(IMSG_PARK | IMSG_LOGGED);
    } else {
        s->tell |= TELL_STARTED;
        if (n == 0)
            slot_leave_spawn_vm(l, s);
    }
    slot_tell(l, s);
}

/* True if the sandbox has, or had, its main process. */
static bool loop_has_main(const struct loop *l)
{
    for (unsigned i = 0; i < l->table.used; i++)
        if (l->table.slots[i].state != SLOT_FREE && (l->table.slots[i].flags & IMSG_MAIN) != 0)
            return true;
    return false;
}

static void loop_reap(struct loop *l)
{
    const struct init *init = l->table.init;
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        struct slot *s = table_by_pid(&l->table, pid);

        /*
         * The inner namespace has ended before it had a main process. Nothing can be started in it
         * any more, so init's exit tells the supervisor that the sandbox has ended. All that ran
         * there was reaped before.
         */
        if (s == NULL && pid == init->inner_pid && !loop_has_main(l))
            _exit(1);
        if (s == NULL) {
            (void)guard_reaped(&l->table.init->guard, pid);
            continue;
        }
        if (s->state == SLOT_STARTING)
            on_status_pipe(l, s);
        slot_leave_spawn_vm(l, s);
        /* The process's output is in its log, or on its way to its reader, before EXITED is sent.
         */
        for (unsigned i = 0; i < RELAY_STREAMS; i++)
            relay_finish(&l->table, s, i);
        s->state = SLOT_ENDED;
        s->status = status;
        s->tell |= TELL_EXITED;
        slot_tell(l, s);
    }
}

/* ---- deadlines ---- */

static int64_t now_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Also after the exec's end: processes that it has left running stay in its cgroup. */
static void slot_kill_all(struct slot *s, int signo)
{
    if (exec_cgroup_kill(s) == 0 || s->state == SLOT_ENDED)
        return;
    /* Each process leads a session, and so a group, of its own from its first step on. */
    if (kill(-s->pid, signo) < 0)
        (void)kill(s->pid, signo);
}

/*
 * Kills processes whose deadline is over. Returns the timeout for poll until the next deadline, or
 * -1.
 */
static int loop_expire(struct loop *l)
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
            slot_kill_all(s, SIGKILL);
        } else if (s->deadline < next) {
            next = s->deadline;
        }
    }
    if (next == INT64_MAX)
        return -1;
    return next - now < INT_MAX ? (int)(next - now) : INT_MAX;
}

/* ---- requests ---- */

static void on_exec(struct loop *l, const struct imsg *msg, int *fds, int count)
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
    loop_reply(l, &failed);
}

static void on_signal_request(struct loop *l, const struct imsg *msg)
{
    struct slot *s = table_find(&l->table, msg->id);

    if (s == NULL || msg->value < 1 || msg->value > 64)
        return; /* the exec has been forgotten meanwhile; EXITED is being sent */
    if (msg->flags & IMSG_WHOLE_EXEC) {
        slot_kill_all(s, msg->value);
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
        loop_reply(l, &none);
        return;
    }
    s->tell |= TELL_ATTACHED;
    slot_tell(l, s);
}

static void on_collect(struct loop *l, const struct imsg *msg)
{
    struct slot *s = table_find(&l->table, msg->id);

    if (s != NULL && s->state == SLOT_ENDED)
        table_release(&l->table, s);
}

static void on_resize(struct loop *l, const struct imsg *msg)
{
    struct slot *s = table_find(&l->table, msg->id);

    if (s != NULL)
        relay_resize(&s->relays[0], msg->rows, msg->cols);
}

static void on_ping(struct loop *l, const struct imsg *msg)
{
    const struct imsg pong = {.type = IMSG_PONG, .id = msg->id};

    loop_reply(l, &pong);
}

static void on_message(struct loop *l, const struct imsg *msg, int *fds, int count)
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
    case IMSG_RESIZE:
        on_resize(l, msg);
        break;
    case IMSG_PING:
        on_ping(l, msg);
        break;
    case IMSG_LIST:
        l->list_at = 0;
        loop_list(l);
        break;
    default:
        break; /* unknown to this version */
    }
}

static void loop_lose_control(struct loop *l)
{
    if (l->table.init->plan.header->flags & PLAN_ATTACHED)
        _exit(0); /* the exit of init ends the whole sandbox */
    watch_set(&l->table, l->control, &l->control_watched, -1, 0);
    (void)close(l->control);
    l->control = -1;
    l->list_at = NOT_LISTING;
    l->blocked = l->has_unsaid = false;
}

static void on_control(struct loop *l)
{
    static const struct imsg other_version = {.type = IMSG_OTHER_VERSION};
    struct imsg msg = {.magic = 0};
    int fds[IMSG_FDS_MAX], count = 0;
    int n;

    n = wire_recv(l->control, &msg, sizeof(msg), fds, IMSG_FDS_MAX, &count);
    if (n == 0 || n == -ECONNRESET) {
        loop_lose_control(l);
        return;
    }
    if (n == (int)sizeof(msg) && msg.magic == IMSG_MAGIC && msg.version == IMSG_VERSION)
        on_message(l, &msg, fds, count);
    else if (n >= (int)IMSG_FIXED && msg.magic == IMSG_MAGIC && msg.version != IMSG_VERSION)
        loop_reply(l, &other_version);
    for (int i = 0; n > 0 && i < count; i++)
        if (fds[i] >= 0)
            (void)close(fds[i]);
}

/* Only the launcher can reach the socket: the peer is a new launcher, for its supervisor. */
static void on_listen(struct loop *l)
{
    int fd = accept4(l->listen, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0) {
        /*
         * The peer may have closed already. An unusable listening socket must not keep init busy.
         */
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED && errno != EMFILE)
            watch_set(&l->table, l->listen, &l->listen_watched, -1, 0);
        return;
    }
    if (l->control >= 0)
        loop_lose_control(l);
    l->control = fd;
    l->control_watched = -1;
    loop_tell_all(l);
}

/* Consumes SIGCHLD, which is pending at most once. A later exit raises it again. */
static void loop_take_signal(int fd)
{
    struct signalfd_siginfo info;

    (void)!read(fd, &info, sizeof(info));
}

/* ---- the loop ---- */

static int loop_open_epoll(struct loop *l)
{
    struct table *t = &l->table;
    int signals = -1, guard = -1;

    t->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (t->epoll < 0)
        return -errno;
    l->control_watched = l->listen_watched = -1;
    loop_watch_control(l);
    watch_set(t, l->signal_fd, &signals, EPOLLIN, ABOUT_SIGNAL);
    watch_set(t, l->listen, &l->listen_watched, EPOLLIN, ABOUT_LISTEN);
    watch_set(t, t->init->guard.listener, &guard, EPOLLIN, ABOUT_GUARD);
    return l->control_watched < 0 || signals < 0 || (l->listen >= 0 && l->listen_watched < 0) ||
                   (t->init->guard.listener >= 0 && guard < 0)
               ? -errno
               : 0;
}

static void loop_open(struct loop *l, struct init *init)
{
    const struct plan_header *h = init->plan.header;
    sigset_t child;
    int r;

    table_init(&l->table, init);
    l->control = PLAN_CONTROL_FD;
    l->listen = (h->flags & PLAN_LISTEN) ? PLAN_FD_OPS + (int)h->fd_count - 1 : -1;
    l->list_at = NOT_LISTING;
    /* listen(2) is called here, so that a peer sees init's credentials. */
    if (l->listen >= 0 && listen(l->listen, LISTEN_BACKLOG) < 0)
        init_fail(INIT_STAGE_LOOP, 0, errno);
    (void)fcntl(l->control, F_SETFL, O_NONBLOCK);
    (void)sigemptyset(&child);
    (void)sigaddset(&child, SIGCHLD);
    l->signal_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    if (l->signal_fd < 0)
        init_fail(INIT_STAGE_LOOP, 0, errno); /* without it no exit would be noticed */
    r = loop_open_epoll(l);
    if (r < 0)
        init_fail(INIT_STAGE_LOOP, 0, -r);
}

/* Handles an event of a process's stream or status pipe. */
static void on_slot_event(struct loop *l, uint64_t data, uint32_t events)
{
    struct slot *s = &l->table.slots[data >> 8 & 0xffff];
    const enum about about = (enum about)(data & 15);

    if (s->serial != (uint32_t)(data >> 32))
        return; /* the slot has another exec by now */
    if (about == ABOUT_STATUS) {
        if (s->state == SLOT_STARTING)
            on_status_pipe(l, s);
        return;
    }
    relay_event(&l->table, s, data >> 4 & 3, about == ABOUT_OUTER, events);
    slot_release_if_over(l, s);
}

/*
 * Handles one event. Control, signal, listen and guard events are handled last; for these it
 * returns a bit.
 */
static unsigned on_epoll_event(struct loop *l, const struct epoll_event *e)
{
    const enum about about = (enum about)(e->data.u64 & 15);

    switch (about) {
    case ABOUT_SINK:
        sink_drain(&l->table, (int)(e->data.u64 >> 8));
        return 0;
    case ABOUT_STATUS:
    case ABOUT_INNER:
    case ABOUT_OUTER:
        on_slot_event(l, e->data.u64, e->events);
        return 0;
    case ABOUT_CONTROL:
        if (e->events & EPOLLOUT)
            loop_tell_all(l);
        return (e->events & ~(uint32_t)EPOLLOUT) != 0 ? 1U << ABOUT_CONTROL : 0;
    case ABOUT_SIGNAL:
    case ABOUT_LISTEN:
    case ABOUT_GUARD:
        return 1U << about;
    }
    return 0;
}

void loop_run(struct init *init)
{
    static struct loop l;
    struct epoll_event events[EVENTS];

    loop_open(&l, init);
    init_ready();
    for (;;) {
        const int n = epoll_wait(l.table.epoll, events, EVENTS, loop_expire(&l));
        unsigned last = 0;

        for (int i = 0; i < n; i++)
            last |= on_epoll_event(&l, &events[i]);
        if (last & 1U << ABOUT_SIGNAL) {
            loop_take_signal(l.signal_fd);
            loop_reap(&l);
        }
        if (last & 1U << ABOUT_CONTROL)
            on_control(&l);
        if (last & 1U << ABOUT_LISTEN)
            on_listen(&l);
        if (last & 1U << ABOUT_GUARD)
            guard_take(&init->guard);
    }
}
