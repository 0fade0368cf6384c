/*
 * The loop: one message or one death at a time. Requests come from the supervisor on the control
 * socket; children are reaped until none is left before the loop waits again, because SIGCHLD
 * coalesces. A started process is in the table until its end has been told.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init/init.h"
#include "proto/syscalls.h"

enum slot_state {
    SLOT_FREE = 0,
    SLOT_STARTING, /* forked; whether execve worked is not known yet: status_fd is open */
    SLOT_RUNNING,
};

struct slot {
    uint64_t id;
    pid_t pid;
    int status_fd;
    enum slot_state state;
    int parent_fds[IMSG_FDS_MAX]; /* the supervisor's ends, until STARTED has handed them over */
    int parent_fd_count;
    int has_leaf; /* a cgroup leaf named by the id exists */
};

struct loop {
    struct init *init;
    struct slot slots[INIT_EXECS_MAX];
    unsigned used; /* slots at or above this index are free */
    int signal_fd;
};

static void send_event(uint16_t type, uint64_t id, int value, uint32_t step, int error,
                       const int *fds, int count)
{
    struct imsg msg = {.magic = IMSG_MAGIC,
                       .version = IMSG_VERSION,
                       .type = type,
                       .id = id,
                       .value = value,
                       .step = step,
                       .error = error};

    (void)wire_send(PLAN_CONTROL_FD, &msg, sizeof(msg), fds,
                    count); /* a supervisor that is gone is seen by poll */
}

/* ---- cgroup leaves
 * ------------------------------------------------------------------------------------------- */

struct leaf_name {
    char text[24];
};

static struct leaf_name leaf_name(uint64_t id)
{
    struct leaf_name n;

    (void)snprintf(n.text, sizeof(n.text), "%llu", (unsigned long long)id);
    return n;
}

static int leaf_make(const struct init *init, uint64_t id)
{
    struct leaf_name name = leaf_name(id);
    int fd;

    if ((init->plan.header->flags & PLAN_HAS_CGROUP) == 0)
        return -ENODEV;
    if (mkdirat(PLAN_CGROUP_FD, name.text, 0755) < 0)
        return -errno;
    fd = openat(PLAN_CGROUP_FD, name.text, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static void leaf_remove(uint64_t id)
{
    struct leaf_name name = leaf_name(id);

    /* Not empty when background children of the exec live on: the launcher removes it with the
     * sandbox. */
    (void)unlinkat(PLAN_CGROUP_FD, name.text, AT_REMOVEDIR);
}

static int leaf_kill(uint64_t id)
{
    struct leaf_name name = leaf_name(id);
    int leaf, fd, r;

    leaf = openat(PLAN_CGROUP_FD, name.text, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (leaf < 0)
        return -errno;
    fd = openat(leaf, "cgroup.kill", O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    r = fd < 0 ? -errno : 0;
    if (fd >= 0) {
        if (write(fd, "1", 1) < 0)
            r = -errno;
        (void)close(fd);
    }
    (void)close(leaf);
    return r;
}

/* ---- slots
 * -------------------------------------------------------------------------------------------------
 */

static struct slot *slot_find(struct loop *l, uint64_t id)
{
    for (unsigned i = 0; i < l->used; i++)
        if (l->slots[i].state != SLOT_FREE && l->slots[i].id == id)
            return &l->slots[i];
    return NULL;
}

static struct slot *slot_by_pid(struct loop *l, pid_t pid)
{
    for (unsigned i = 0; i < l->used; i++)
        if (l->slots[i].state != SLOT_FREE && l->slots[i].pid == pid)
            return &l->slots[i];
    return NULL;
}

static struct slot *slot_take(struct loop *l)
{
    for (unsigned i = 0; i < INIT_EXECS_MAX; i++)
        if (l->slots[i].state == SLOT_FREE) {
            if (i >= l->used)
                l->used = i + 1;
            return &l->slots[i];
        }
    return NULL;
}

static void slot_release(struct loop *l, struct slot *s)
{
    for (int i = 0; i < s->parent_fd_count; i++)
        (void)close(s->parent_fds[i]);
    if (s->status_fd >= 0)
        (void)close(s->status_fd);
    if (s->has_leaf)
        leaf_remove(s->id);
    *s = (struct slot){.status_fd = -1};
    while (l->used > 0 && l->slots[l->used - 1].state == SLOT_FREE)
        l->used--;
}

/* ---- starting a process
 * --------------------------------------------------------------------------------------- */

struct stdio {
    int child[3];
    int parent[IMSG_FDS_MAX];
    int parent_count;
};

static void stdio_close_child(struct stdio *io)
{
    for (int i = 0; i < 3; i++)
        if (io->child[i] >= 0)
            (void)close(io->child[i]);
}

static void stdio_close_all(struct stdio *io)
{
    stdio_close_child(io);
    for (int i = 0; i < io->parent_count; i++)
        (void)close(io->parent[i]);
}

static int stdio_pty(const struct init *init, const struct imsg *msg, struct stdio *io)
{
    struct winsize size = {.ws_row = msg->rows, .ws_col = msg->cols};
    int unlock = 0, master, slave;

    master = openat(init->pts_fd, "ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0)
        return -errno;
    io->parent[io->parent_count++] = master;
    if (ioctl(master, TIOCSWINSZ, &size) < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
        return -errno;
    slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0)
        return -errno;
    for (int i = 0; i < 3; i++) {
        io->child[i] = i == 0 ? slave : fcntl(slave, F_DUPFD_CLOEXEC, 3);
        if (io->child[i] < 0)
            return -errno;
    }
    return 0;
}

static int stdio_pipes(const struct init *init, const struct imsg *msg, struct stdio *io)
{
    int pair[2];

    for (int i = 0; i < 3; i++) {
        if (i == 0 && (msg->flags & IMSG_STDIN) == 0) {
            io->child[i] = fcntl(init->null_fd, F_DUPFD_CLOEXEC, 3);
        } else if (i == 2 && (msg->flags & IMSG_COMBINED) != 0) {
            io->child[i] = fcntl(io->child[1], F_DUPFD_CLOEXEC, 3);
        } else {
            if (pipe2(pair, O_CLOEXEC) < 0)
                return -errno;
            io->child[i] = pair[i == 0 ? 0 : 1];
            io->parent[io->parent_count++] = pair[i == 0 ? 1 : 0];
        }
        if (io->child[i] < 0)
            return -errno;
    }
    return 0;
}

static int request_ok(int fd)
{
    const int want = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    struct stat st;
    int seals;

    seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & want) != want || fstat(fd, &st) < 0)
        return 0;
    return st.st_size >= (off_t)sizeof(struct exec_header) && st.st_size <= EXEC_SIZE_MAX;
}

/* Forks into the inner pid namespace, and into the exec's own leaf where there is a v2 tree. */
static pid_t spawn(struct loop *l, struct slot *s, const struct exec_start *start)
{
    struct clone_args args = {.exit_signal = SIGCHLD};
    int leaf, pid;

    leaf = leaf_make(l->init, s->id);
    if (leaf >= 0) {
        s->has_leaf = 1;
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)(unsigned)leaf;
    } else if (leaf != -ENODEV) {
        return leaf;
    }
    pid = sys_clone3(&args);
    if (pid == 0)
        exec_child(&l->init->plan, start);
    if (leaf >= 0)
        (void)close(leaf);
    return pid;
}

/* Returns 0 or the step that failed, with *ret_error. */
static enum exec_step start_process(struct loop *l, struct slot *s, const struct imsg *msg,
                                    int request_fd, int *ret_error)
{
    struct stdio io = {.child = {-1, -1, -1}};
    int status[2];
    int r;

    r = (msg->flags & IMSG_TTY) ? stdio_pty(l->init, msg, &io) : stdio_pipes(l->init, msg, &io);
    if (r == 0 && pipe2(status, O_CLOEXEC | O_NONBLOCK) < 0)
        r = -errno;
    if (r < 0) {
        stdio_close_all(&io);
        *ret_error = -r;
        return EXEC_STEP_STDIO;
    }

    struct exec_start start = {.request_fd = request_fd,
                               .stdio = {io.child[0], io.child[1], io.child[2]},
                               .status_fd = status[1],
                               .flags = msg->flags};

    if ((msg->flags & IMSG_MAIN) != 0 && l->init->inner_sock >= 0 &&
        (l->init->plan.header->flags & PLAN_REAPER) == 0) {
        r = inner_run(l->init, &start);
        s->pid = l->init->inner_pid;
    } else {
        r = spawn(l, s, &start);
        s->pid = r;
    }
    (void)close(status[1]);
    if (r < 0) {
        (void)close(status[0]);
        stdio_close_all(&io);
        *ret_error = -r;
        return EXEC_STEP_FORK;
    }

    stdio_close_child(&io);
    s->state = SLOT_STARTING;
    s->status_fd = status[0];
    s->parent_fd_count = io.parent_count;
    (void)memcpy(s->parent_fds, io.parent, sizeof(s->parent_fds));
    return 0;
}

static void on_exec(struct loop *l, const struct imsg *msg, int request_fd)
{
    enum exec_step step = EXEC_STEP_REQUEST;
    struct slot *s = NULL;
    int error = EINVAL;

    if (request_fd >= 0 && request_ok(request_fd) && slot_find(l, msg->id) == NULL) {
        s = slot_take(l);
        step = EXEC_STEP_LIMIT;
        error = EAGAIN;
    }
    if (s != NULL) {
        *s = (struct slot){.id = msg->id, .status_fd = -1};
        step = start_process(l, s, msg, request_fd, &error);
        if (step != 0)
            slot_release(l, s);
    }
    if (step != 0)
        send_event(IMSG_EXEC_FAILED, msg->id, 0, step, error, NULL, 0);
}

/* The status pipe has something to say: a record is a failure, its end is a successful execve (or a
 * death, which the reaping tells). */
static void on_status(struct slot *s)
{
    struct exec_failure failure;
    ssize_t n;

    n = read(s->status_fd, &failure, sizeof(failure));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    (void)close(s->status_fd);
    s->status_fd = -1;
    s->state = SLOT_RUNNING;
    if (n == (ssize_t)sizeof(failure))
        send_event(IMSG_EXEC_FAILED, s->id, 0, failure.step, failure.error, NULL, 0);
    else
        send_event(IMSG_STARTED, s->id, s->pid, 0, 0, s->parent_fds, s->parent_fd_count);
    for (int i = 0; i < s->parent_fd_count; i++)
        (void)close(s->parent_fds[i]);
    s->parent_fd_count = 0;
}

static void reap(struct loop *l)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        struct slot *s = slot_by_pid(l, pid);

        if (pid == l->init->inner_pid && s == NULL && (l->init->plan.header->flags & PLAN_ATTACHED))
            _exit(1); /* the namespace has ended before it had a main process */
        if (s == NULL)
            continue;
        if (s->state == SLOT_STARTING)
            on_status(s);
        send_event(IMSG_EXITED, s->id, status, 0, 0, NULL, 0);
        slot_release(l, s);
    }
}

/* ---- requests
 * --------------------------------------------------------------------------------------------------
 */

static void on_signal_request(struct loop *l, const struct imsg *msg)
{
    struct slot *s = slot_find(l, msg->id);

    if (s == NULL || msg->value < 1 || msg->value > 64)
        return; /* it has ended meanwhile: EXITED is under way */
    if ((msg->flags & IMSG_WHOLE_EXEC) && s->has_leaf && leaf_kill(s->id) == 0)
        return;
    (void)kill(s->pid, msg->value);
}

static void on_message(struct loop *l, const struct imsg *msg, int fd)
{
    if (msg->type == IMSG_EXEC)
        on_exec(l, msg, fd);
    else if (msg->type == IMSG_SIGNAL)
        on_signal_request(l, msg);
}

/* Returns 0 when the supervisor is gone. */
static int on_control(struct loop *l)
{
    struct imsg msg;
    int fd = -1, count = 0;
    int n;

    n = wire_recv(PLAN_CONTROL_FD, &msg, sizeof(msg), &fd, 1, &count);
    if (n == 0 || n == -ECONNRESET)
        return 0;
    if (n == (int)sizeof(msg) && msg.magic == IMSG_MAGIC && msg.version == IMSG_VERSION)
        on_message(l, &msg, count == 1 ? fd : -1);
    if (n > 0 && count == 1)
        (void)close(fd);
    return 1;
}

static void drain_signals(int fd)
{
    struct signalfd_siginfo info[8];

    while (read(fd, info, sizeof(info)) > 0)
        ;
}

void loop_run(struct init *init)
{
    static struct loop l;
    static struct pollfd polled[INIT_EXECS_MAX + 2];
    sigset_t child;

    l.init = init;
    for (unsigned i = 0; i < INIT_EXECS_MAX; i++)
        l.slots[i].status_fd = -1;
    (void)sigemptyset(&child);
    (void)sigaddset(&child, SIGCHLD);
    l.signal_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);

    polled[0] = (struct pollfd){.fd = PLAN_CONTROL_FD, .events = POLLIN};
    polled[1] = (struct pollfd){.fd = l.signal_fd, .events = POLLIN};
    for (;;) {
        unsigned count = 2;

        reap(&l);
        for (unsigned i = 0; i < l.used; i++)
            if (l.slots[i].state == SLOT_STARTING)
                polled[count++] = (struct pollfd){.fd = l.slots[i].status_fd, .events = POLLIN};
        if (poll(polled, count, -1) < 0)
            continue;
        if (polled[1].revents != 0)
            drain_signals(l.signal_fd);
        for (unsigned i = 0; count > 2 && i < l.used; i++)
            if (l.slots[i].state == SLOT_STARTING)
                on_status(&l.slots[i]);
        if (polled[0].revents != 0 && !on_control(&l)) {
            if (init->plan.header->flags & PLAN_ATTACHED)
                _exit(0);
            polled[0].fd = -1;
        }
    }
}
