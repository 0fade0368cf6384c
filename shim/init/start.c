/*
 * Starts an exec from its message: its descriptors, the fork into the inner pid namespace, its
 * record in the table.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "init/exec-table.h"
#include "proto/syscalls.h"

struct stdio {
    int child[3];
    int parent[3];
};

static const struct stdio stdio_none = {.child = {-1, -1, -1}, .parent = {-1, -1, -1}};

static void stdio_close(int fds[3])
{
    for (int i = 0; i < 3; i++) {
        if (fds[i] >= 0)
            (void)close(fds[i]);
        fds[i] = -1;
    }
}

static int stdio_pty(const struct init *init, const struct imsg *msg, struct stdio *io)
{
    struct winsize size = {.ws_row = msg->rows, .ws_col = msg->cols};
    int unlock = 0;

    io->parent[0] = openat(init->pts_fd, "ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (io->parent[0] < 0)
        return -errno;
    if (ioctl(io->parent[0], TIOCSWINSZ, &size) < 0 ||
        ioctl(io->parent[0], TIOCSPTLCK, &unlock) < 0)
        return -errno;
    for (int i = 0; i < 3; i++) {
        io->child[i] = i == 0 ? ioctl(io->parent[0], TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC)
                              : fcntl(io->child[0], F_DUPFD_CLOEXEC, 3);
        if (io->child[i] < 0)
            return -errno;
    }
    return 0;
}

static int stdio_pipes(const struct init *init, const struct imsg *msg, struct stdio *io)
{
    for (int i = 0; i < 3; i++) {
        int pair[2];

        if (i == 0 && (msg->flags & IMSG_STDIN) == 0) {
            io->child[i] = fcntl(init->null_fd, F_DUPFD_CLOEXEC, 3);
        } else if (i == 2 && (msg->flags & IMSG_COMBINED) != 0) {
            io->child[i] = fcntl(io->child[1], F_DUPFD_CLOEXEC, 3);
        } else {
            if (pipe2(pair, O_CLOEXEC) < 0)
                return -errno;
            io->child[i] = pair[i == 0 ? 0 : 1];
            io->parent[i] = pair[i == 0 ? 1 : 0];
        }
        if (io->child[i] < 0)
            return -errno;
    }
    return 0;
}

/* The memfd is sealed, so that it cannot change after the checks. */
static bool request_memfd_ok(int fd, size_t *ret_size)
{
    const int want = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    struct stat st;
    int seals;

    seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & want) != want || fstat(fd, &st) < 0)
        return false;
    *ret_size = (size_t)st.st_size;
    return st.st_size >= (off_t)sizeof(struct exec_header) && st.st_size <= EXEC_SIZE_MAX;
}

/* Forks into the inner pid namespace, and into the exec's own cgroup if there is a v2 tree. */
static int start_fork(struct table *t, struct slot *s, const struct exec_start *start)
{
    struct clone_args args = {.exit_signal = SIGCHLD};
    int exec_cgroup, pid;

    exec_cgroup = exec_cgroup_make(t, s);
    if (exec_cgroup >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)(unsigned)exec_cgroup;
    } else if (exec_cgroup != -ENODEV) {
        return exec_cgroup;
    }
    if (spawn_vm_is_free(&t->spawn_vm, start->request_size)) {
        pid = spawn_vm_clone(&t->spawn_vm, &t->init->plan, start, &args);
        s->spawn_vm = pid > 0;
    } else {
        pid = sys_clone3(&args);
        if (pid == 0)
            exec_child(&t->init->plan, start);
    }
    if (exec_cgroup >= 0)
        (void)close(exec_cgroup);
    return pid;
}

/* The waiting inner PID 1 becomes the main process, unless it is a reaper. */
static int start_process(struct table *t, struct slot *s, const struct exec_start *start)
{
    struct init *init = t->init;

    if ((s->flags & IMSG_MAIN) == 0 || init->inner_sock < 0 ||
        (init->plan.header->flags & PLAN_REAPER) != 0)
        return start_fork(t, s, start);
    int r = inner_run(init, start);

    return r < 0 ? r : init->inner_pid;
}

static int log_take(struct table *t)
{
    for (int i = 0; i < LOGGED_MAX; i++)
        if (!t->log_used[i]) {
            t->log_used[i] = true;
            return i;
        }
    return -1;
}

/*
 * Gives the read ends of the streams to the logs. The segments are duplicated, because the caller
 * closes the message's descriptors.
 */
static int stdio_open_logs(struct table *t, struct slot *s, struct stdio *io,
                           const struct imsg *msg, const int *segments)
{
    int index = log_take(t);

    if (index < 0)
        return -EAGAIN;
    /* Both are set before a step can fail, because table_release closes them. */
    for (int i = 0; i < LOG_STREAMS; i++)
        t->logs[index][i] = (struct log){.pipe = -1, .segments = {-1, -1}};
    s->log = (int16_t)index;
    for (unsigned i = 0; i < LOG_STREAMS; i++) {
        struct log *log = &t->logs[index][i];
        int pair[2] = {-1, -1}, r;

        if (io->parent[1 + i] < 0)
            continue; /* combined: stderr's log stays empty */
        for (int k = 0; k < 2; k++) {
            pair[k] = fcntl(segments[2 * i + (unsigned)k], F_DUPFD_CLOEXEC, 3);
            if (pair[k] < 0) {
                r = -errno;
                if (k > 0)
                    (void)close(pair[0]);
                return r;
            }
        }
        (void)fcntl(io->parent[1 + i], F_SETFL, O_NONBLOCK);
        r = log_open(log, io->parent[1 + i], pair, msg->log_size);
        if (r == 0)
            r = relay_open(t, s, 1 + i, RELAY_LOG, io->parent[1 + i], -1, log);
        io->parent[1 + i] = -1; /* the log owns it */
        if (r < 0)
            return r;
    }
    return 0;
}

/* Takes a descriptor of the message. */
static int fd_take(int *fd)
{
    int taken = *fd;

    *fd = -1;
    return taken;
}

/*
 * Gives the message's sockets to the other streams; with PARK their other ends follow in the
 * message.
 */
static int stdio_open_relays(struct table *t, struct slot *s, struct stdio *io, int *sockets)
{
    const int count = imsg_streams(s->flags);
    int next = 0, r = 0;

    for (unsigned i = 0; i < RELAY_STREAMS && r == 0; i++) {
        const enum relay_kind kind = (s->flags & IMSG_TTY) ? RELAY_TERMINAL
                                     : i == 0              ? RELAY_INPUT
                                                           : RELAY_OUTPUT;

        if (io->parent[i] < 0)
            continue;
        (void)fcntl(sockets[next], F_SETFL, O_NONBLOCK); /* splice(2) checks this flag */
        r = relay_open(t, s, i, kind, io->parent[i], sockets[next], NULL);
        if (r < 0)
            continue;
        io->parent[i] = -1;
        (void)fd_take(&sockets[next]);
        if (s->flags & IMSG_PARK)
            s->parked[i] = fd_take(&sockets[count + next]);
        next++;
    }
    return r;
}

static int request_fds(uint32_t flags)
{
    const int sockets = imsg_streams(flags);

    return 1 + ((flags & IMSG_PROGRAM) ? 1 : 0) + ((flags & IMSG_LOGGED) ? 2 * LOG_STREAMS : 0) +
           ((flags & IMSG_PARK) ? 2 * sockets : sockets);
}

static bool request_ok(const struct imsg *msg, const int *fds, int fd_count, size_t *ret_size)
{
    if (fd_count != request_fds(msg->flags) || !request_memfd_ok(fds[0], ret_size))
        return false;
    return (msg->flags & IMSG_LOGGED) == 0 || (msg->flags & (IMSG_TTY | IMSG_PARK)) == 0;
}

/* Makes the process's ends of its stdio, and the relays of the other ends. */
static int stdio_open(struct table *t, struct slot *s, const struct imsg *msg, int *fds,
                      struct stdio *io)
{
    int r = (msg->flags & IMSG_TTY) ? stdio_pty(t->init, msg, io) : stdio_pipes(t->init, msg, io);

    if (r == 0 && (msg->flags & IMSG_LOGGED)) {
        r = stdio_open_logs(t, s, io, msg, fds);
        fds += 2 * LOG_STREAMS;
    }
    if (r == 0)
        r = stdio_open_relays(t, s, io, fds);
    if (r < 0)
        stdio_close(io->child);
    stdio_close(io->parent);
    return r;
}

enum exec_step start_exec(struct table *t, struct slot *s, const struct imsg *msg, int *fds,
                          int fd_count, int *ret_error)
{
    struct stdio io = stdio_none;
    int status[2] = {-1, -1};
    size_t size = 0;
    int next = 1, r;

    *ret_error = EINVAL;
    s->id = msg->id;
    s->flags = msg->flags & ~(uint32_t)(IMSG_ENDED | IMSG_TIMED_OUT | IMSG_UNSURE | IMSG_MORE);
    if (!request_ok(msg, fds, fd_count, &size))
        return EXEC_STEP_REQUEST;

    struct exec_start start = {
        .request_fd = fds[0], .request_size = size, .program_fd = -1, .flags = msg->flags};

    if (msg->flags & IMSG_PROGRAM)
        start.program_fd = fds[next++];
    r = stdio_open(t, s, msg, fds + next, &io);
    if (r == 0 && pipe2(status, O_CLOEXEC | O_NONBLOCK) < 0) {
        r = -errno;
        stdio_close(io.child);
    }
    if (r < 0) {
        *ret_error = -r;
        return EXEC_STEP_STDIO;
    }

    (void)memcpy(start.stdio, io.child, sizeof(start.stdio));
    start.status_fd = status[1];
    r = start_process(t, s, &start);
    (void)close(status[1]);
    stdio_close(io.child);
    s->status_fd = status[0];
    slot_watch_status(t, s);
    if (r < 0) {
        *ret_error = -r;
        return EXEC_STEP_FORK;
    }
    s->pid = r;
    s->state = SLOT_STARTING;
    return 0;
}
