/* The launcher's side of one init start (protocol: proto/init-msg.h): clones the child, hands it
 * its program and its plan, and waits for READY. Runs in the launcher and, until execveat, in the
 * cloned child. Called by launcher.c. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "launch/cgroup.h"
#include "launch/sandbox.h"
#include "proto/init-msg.h"
#include "proto/plan.h"
#include "proto/syscalls.h"

enum {
    BOOT_TIMEOUT_MS = 30000, /* the whole start; a bind source on a hung file system can block it */
    DEATH_TIMEOUT_MS = 2000, /* from EOF of the control socket to the exit of the process */
    BOOT_FDS_MAX = 253,      /* SCM_MAX_FD */
};

/* ---- the child, until it executes init ---- */

/* Receives the first GO, which carries init's program. Returns its fd, or -1. */
static int child_receive(void)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct imsg msg;
    struct iovec iov = {.iov_base = &msg, .iov_len = sizeof(msg)};
    struct msghdr hdr = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    const struct cmsghdr *c;
    int fd;

    if (recvmsg(PLAN_CONTROL_FD, &hdr, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof(msg) ||
        msg.type != IMSG_GO)
        return -1;
    c = CMSG_FIRSTHDR(&hdr);
    if (c == NULL || c->cmsg_type != SCM_RIGHTS || (hdr.msg_flags & MSG_CTRUNC) != 0)
        return -1;
    (void)memcpy(&fd, CMSG_DATA(c), sizeof(fd));
    return fd;
}

struct boot_child {
    int control, stages, null_fd;
    unsigned above;              /* every fd from this number on is closed */
    const char *net;             /* init's argument (enum init_net), or NULL */
    int net_ns;                  /* the net namespace to join, or FD_NONE */
    int tasks[CGROUP_TASKS_MAX]; /* `tasks` files of the v1 cgroups to enter */
    int tasks_count;
};

/* A failed send is ignored: the launcher sees EOF on the socket anyway. */
static void child_say(int control, uint16_t type, uint32_t step, int error)
{
    const struct imsg msg = {
        .magic = IMSG_MAGIC, .version = IMSG_VERSION, .type = type, .step = step, .error = error};

    (void)send(control, &msg, sizeof(msg), MSG_NOSIGNAL);
}

/* Gives the child its own fd table. A launcher with many sandboxes has thousands of fds, and
 * copying and closing them costs milliseconds. So the clone shares the launcher's table
 * (CLONE_FILES), and CLOSE_RANGE_UNSHARE copies only the fds below `above`. */
static void child_own_table(const struct boot_child *c)
{
    if (sys_close_range(c->above, ~0U, CLOSE_RANGE_UNSHARE) < 0)
        _exit(1);
    child_say(c->control, IMSG_STAGE, INIT_STAGE_CGROUP_ENTER, 0);
}

/* The child enters its cgroups before init unshares the cgroup namespace, which makes them its
 * roots. */
static void child_enter_cgroups(const struct boot_child *c)
{
    int r = cgroup_enter(c->tasks, c->tasks_count);

    if (r == 0)
        return;
    child_say(c->control, IMSG_FAIL, INIT_STAGE_CGROUP_ENTER, -r);
    _exit(1);
}

/* Makes system calls only (async-signal-safe). Other failures send no message: the launcher sees
 * EOF and reports that the start died before its first step. */
static _Noreturn void child_main(const struct boot_child *c)
{
    static char name[] = "rind-init";
    char *argv[] = {name, (char *)(uintptr_t)c->net, NULL};
    char *envp[] = {NULL};
    int program;

    child_own_table(c);
    child_enter_cgroups(c);
    if (dup2(c->null_fd, 0) < 0 || dup2(c->null_fd, 1) < 0 || dup2(c->null_fd, 2) < 0 ||
        dup2(c->control, PLAN_CONTROL_FD) < 0 || dup2(c->stages, PLAN_STAGE_FD) < 0)
        _exit(1);
    if (sys_close_range(PLAN_STAGE_FD + 1, ~0U, 0) < 0)
        _exit(1);
    program = child_receive();
    if (program < 0)
        _exit(1);
    /* The child must be root of the new user namespace: execveat as any other uid would drop its
     * capabilities. */
    if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, 0, 0, 0) < 0 ||
        syscall(SYS_setresuid, 0, 0, 0) < 0)
        _exit(1);
    (void)sys_execveat(program, "", argv, envp, AT_EMPTY_PATH);
    _exit(1);
}

/*
 * Clones with `owner` as effective uid, which becomes the owner of the new user namespace.
 *
 * Ucounts (inotify instances, namespaces) are charged to that owner in the parent namespace. With
 * the launcher's own uid all sandboxes would share one account, and one could starve the others. So
 * the owner is the sandbox's first host id.
 *
 * SECBIT_NO_SETUID_FIXUP keeps the capabilities: root's cgroups need them, and so do hosts that
 * allow user namespaces only with privileges.
 */
static int clone_as(uid_t owner, struct clone_args *args)
{
    int bits = prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);
    int pid;

    if (bits < 0 ||
        prctl(PR_SET_SECUREBITS, (unsigned long)bits | SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0)
        return -errno;
    if (syscall(SYS_setresuid, -1, owner, -1) < 0)
        return -errno;
    pid = sys_clone3(args);
    if (pid == 0)
        return 0;
    if (syscall(SYS_setresuid, -1, 0, -1) < 0 ||
        prctl(PR_SET_SECUREBITS, (unsigned long)bits, 0, 0, 0) < 0)
        abort(); /* running on with a foreign uid would be worse */
    return pid;
}

/* Clones while the launcher is briefly in the net namespace of another sandbox. The child must not
 * close `home`: it still shares the launcher's fd table. */
static int clone_joined(const struct boot_child *c, uid_t owner, struct clone_args *args)
{
    int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    int pid;

    if (home < 0)
        return -errno;
    pid = setns(c->net_ns, CLONE_NEWNET) < 0 ? -errno : clone_as(owner, args);
    if (pid == 0)
        return 0;
    if (setns(home, CLONE_NEWNET) < 0)
        abort(); /* the launcher would stay in a sandbox's net namespace */
    (void)close(home);
    return pid;
}

/* Returns the child's pid or a negative errno. */
static int clone_child(const struct launch_sandbox *s, struct clone_args *args,
                       const struct boot_child *c)
{
    sigset_t all, old;
    int pid;

    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &old);
    pid = c->net_ns >= 0 ? clone_joined(c, s->ids.base, args) : clone_as(s->ids.base, args);
    if (pid == 0)
        child_main(c);
    (void)sigprocmask(SIG_SETMASK, &old, NULL);
    return pid;
}

int boot_open(struct launcher *l, struct err *err)
{
    for (size_t i = 0; i < BOOT_SLOTS; i++) {
        /* The slots lie above the fd numbers that the child dup2s onto. */
        l->boot_slots[i] = fcntl(l->null_fd, F_DUPFD_CLOEXEC, PLAN_STAGE_FD + 1);
        if (l->boot_slots[i] < 0)
            return err_errno(err, -errno, "descriptors for a start");
    }
    return 0;
}

void boot_clear(struct launcher *l)
{
    for (size_t i = 0; i < BOOT_SLOTS; i++)
        (void)dup3(l->null_fd, l->boot_slots[i], O_CLOEXEC); /* cannot fail: null_fd is open */
}

/* Moves *fd into a slot and sets *fd to the slot's number. */
static int fd_into_slot(const struct launcher *l, size_t slot, int *fd)
{
    int r = dup3(*fd, l->boot_slots[slot], O_CLOEXEC) < 0 ? -errno : 0;

    (void)close(*fd);
    *fd = l->boot_slots[slot];
    return r;
}

enum { SLOT_CONTROL, SLOT_STAGES, SLOT_TASKS };

/* Makes the control socket and the stage pipe; the child's fds are moved into slots. */
static int connect_child(struct launcher *l, struct boot_child *c, struct boot_ends *ret)
{
    auto_close int control = FD_NONE;
    auto_close int stages = FD_NONE;
    int pair[2], r;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    control = pair[0];
    c->control = pair[1];
    r = fd_into_slot(l, SLOT_CONTROL, &c->control);
    if (r == 0 && pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
        r = -errno;
    if (r < 0)
        return r;
    stages = pair[0];
    c->stages = pair[1];
    r = fd_into_slot(l, SLOT_STAGES, &c->stages);
    if (r < 0)
        return r;
    *ret = (struct boot_ends){.control = take_fd(&control), .stages = take_fd(&stages)};
    return 0;
}

static int child_prepare(struct launcher *l, const struct launch_sandbox *s, struct boot_child *c,
                         struct boot_ends *ret, struct err *err)
{
    int r = cgroup_open_tasks(s->cgroup, c->tasks, &c->tasks_count, err);

    if (r < 0)
        return r;
    for (int i = 0; i < c->tasks_count; i++) {
        int one = fd_into_slot(l, SLOT_TASKS + (size_t)i, &c->tasks[i]);

        r = r < 0 ? r : one;
    }
    if (r == 0)
        r = connect_child(l, c, ret);
    if (r < 0)
        return err_errno(err, r, "control socket");
    c->null_fd = l->null_fd;
    c->above = (unsigned)l->null_fd;
    for (size_t i = 0; i < BOOT_SLOTS; i++)
        if ((unsigned)l->boot_slots[i] > c->above)
            c->above = (unsigned)l->boot_slots[i];
    c->above++;
    return 0;
}

int boot_clone(struct launcher *l, struct launch_sandbox *s, const struct boot_net *net,
               struct boot_ends *ret, struct err *err)
{
    /* Init unshares the other namespaces itself, while the launcher mounts its root. */
    struct clone_args args = {.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_PIDFD |
                                       CLONE_FILES,
                              .pidfd = (uint64_t)(uintptr_t)&s->pidfd,
                              .exit_signal = SIGCHLD};
    struct boot_child child = {.net = net->admin                 ? "admin"
                                      : net->now || net->ns >= 0 ? "net"
                                                                 : NULL,
                               .net_ns = net->ns};
    int cgroup_fd = cgroup_exec_fd(s->cgroup);
    struct boot_ends ends = {.control = FD_NONE, .stages = FD_NONE};
    int pid;

    pid = child_prepare(l, s, &child, &ends, err);
    if (pid < 0)
        return pid;
    if (net->now && net->ns < 0 && !net->admin)
        args.flags |= CLONE_NEWNET;
    if (cgroup_fd >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)(unsigned)cgroup_fd;
    }
    pid = clone_child(s, &args, &child);
    if (pid < 0) {
        (void)close(ends.control);
        (void)close(ends.stages);
        return err_errno(err, pid, "clone the sandbox's namespaces");
    }
    s->pid = pid;
    *ret = ends;
    return 0;
}

/* ---- following the start ---- */

int boot_go(int control, const int *fds, int count, struct err *err)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * BOOT_FDS_MAX)];
        struct cmsghdr first;
    } buffer;
    struct imsg msg = {.magic = IMSG_MAGIC, .version = IMSG_VERSION, .type = IMSG_GO};
    struct iovec iov = {.iov_base = &msg, .iov_len = sizeof(msg)};
    struct msghdr hdr = {.msg_iov = &iov, .msg_iovlen = 1};

    if (count > BOOT_FDS_MAX)
        return err_set(err, -E2BIG, "too many mounts");
    (void)memset(&buffer, 0, sizeof(buffer));
    hdr.msg_control = buffer.bytes;
    hdr.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)count);
    buffer.first.cmsg_level = SOL_SOCKET;
    buffer.first.cmsg_type = SCM_RIGHTS;
    buffer.first.cmsg_len = CMSG_LEN(sizeof(int) * (size_t)count);
    (void)memcpy(CMSG_DATA(&buffer.first), fds, sizeof(int) * (size_t)count);
    if (sendmsg(control, &hdr, MSG_NOSIGNAL) < 0) {
        /* Init has exited already; boot_follow finds the reason. */
        if (errno == EPIPE || errno == ECONNRESET)
            return 0;
        return err_errno(err, -errno, "hand over to init");
    }
    return 0;
}

/* EOF is never a success. The error names the stage and the exit status or signal. */
static int boot_died(const struct launch_sandbox *s, const struct boot *b, struct err *err)
{
    struct pollfd p = {.fd = s->pidfd, .events = POLLIN};
    const char *stage = boot_stage_name(b->stage);
    siginfo_t info = {.si_code = 0};
    int r;

    /* The socket closes before the process has exited: wait for the exit, but not without a limit.
     */
    do
        r = poll(&p, 1, DEATH_TIMEOUT_MS);
    while (r < 0 && errno == EINTR);
    if (r <= 0)
        return err_set(err, -EPROTO, "start sandbox: hung up during '%s'", stage);
    if (waitid(P_PIDFD, (id_t)s->pidfd, &info, WEXITED | WNOWAIT) < 0)
        return err_errno(err, -errno, "start sandbox: died during '%s'", stage);
    if (info.si_code == CLD_EXITED)
        return err_set(err, -ECHILD, "start sandbox: died during '%s' with exit status %d", stage,
                       info.si_status);
    return err_set(
        err, -ECHILD, "start sandbox: killed by signal %d during '%s'%s", info.si_status, stage,
        info.si_status == SIGKILL ? " (is the memory limit too low to start a process?)" : "");
}

/* Receives one message without its fds. Returns its length, which is more than sizeof(*msg) if it
 * was truncated. Returns 0 at EOF, or at the exit of `pidfd` if that is not FD_NONE; else a
 * negative errno. */
static ssize_t boot_receive(int control, int pidfd, struct imsg *msg, int64_t deadline)
{
    struct pollfd p[] = {{.fd = control, .events = POLLIN}, {.fd = pidfd, .events = POLLIN}};
    int64_t left = deadline - clock_mono_ms();
    ssize_t n;
    int r;

    do
        r = poll(p, 2, left > 0 ? (int)left : 0);
    while (r < 0 && errno == EINTR);
    if (r == 0)
        return -ETIMEDOUT;
    if (p[0].revents == 0)
        return 0;
    /* ECONNRESET: init exited without reading all that was sent. Its own last message is still
     * queued behind the error, so read again. */
    for (int tries = 0; tries < 2; tries++) {
        n = recv(control, msg, sizeof(*msg), MSG_TRUNC | MSG_DONTWAIT);
        if (n >= 0 || errno != ECONNRESET)
            break;
    }
    if (n < 0)
        return errno == ECONNRESET ? 0 : -errno;
    return n;
}

int boot_await(struct launcher *l, const struct launch_sandbox *s, int control, struct err *err)
{
    struct boot b = BOOT_INIT(FD_NONE);
    struct imsg msg;
    /* Before boot_await returns, the launcher shares the child's fd table and holds the peer socket
     * open. An exit then causes no EOF, so the pidfd is polled as well. */
    ssize_t n = boot_receive(control, s->pidfd, &msg, clock_mono_ms() + BOOT_TIMEOUT_MS);
    int r;

    if (n == 0)
        return boot_died(s, &b, err);
    if (n < 0)
        return err_errno(err, (int)n, "start sandbox: waiting for its process");
    r = boot_feed(&b, &msg, (size_t)n, err);
    boot_clear(l);
    return r < 0 ? r : 0;
}

int boot_await_net(const struct launch_sandbox *s, int control, struct err *err)
{
    struct boot b = BOOT_INIT(FD_NONE);
    struct imsg msg;
    ssize_t n = boot_receive(control, FD_NONE, &msg, clock_mono_ms() + BOOT_TIMEOUT_MS);
    int r;

    b.stage = INIT_STAGE_ADMIN;
    if (n == 0)
        return boot_died(s, &b, err);
    if (n < 0)
        return err_errno(err, (int)n, "start sandbox: waiting for its network");
    r = boot_feed(&b, &msg, (size_t)n, err);
    if (r >= 0 && b.stage != INIT_STAGE_ADMIN)
        r = err_set(err, -EPROTO, "start sandbox: its network is not told of");
    return r < 0 ? r : 0;
}

/* Reads the stages announced so far; b->stage becomes the last one. Init can fill the pipe with
 * more words than a start has: words beyond this buffer are not read in this call. */
static int boot_read_stages(struct boot *b, int fd, struct err *err)
{
    uint32_t words[2 * INIT_STAGE_MAX];
    ssize_t n = fd < 0 ? 0 : read(fd, words, sizeof(words));
    int r = 0;

    if (n < 0 && errno != EAGAIN && errno != EINTR)
        return err_errno(err, -errno, "start sandbox: read the stages");
    for (ssize_t i = 0; r == 0 && i < n / (ssize_t)sizeof(words[0]); i++)
        r = boot_stage(b, words[i], err);
    return r;
}

int boot_follow(const struct launch_sandbox *s, const struct boot_ends *ends, int plan_fd,
                struct err *err)
{
    const int64_t deadline = clock_mono_ms() + BOOT_TIMEOUT_MS;
    struct boot b = BOOT_INIT(plan_fd);
    struct imsg msg;

    for (;;) {
        ssize_t n = boot_receive(ends->control, FD_NONE, &msg, deadline);
        int r = boot_read_stages(&b, ends->stages, err);

        if (r < 0)
            return r;
        if (n == 0)
            return boot_died(s, &b, err);
        if (n < 0)
            return err_errno(err, (int)n, "start sandbox: waiting for '%s'",
                             boot_stage_name(b.stage));
        r = boot_feed(&b, &msg, (size_t)n, err);
        if (r == BOOT_READY)
            return 0;
        if (r < 0)
            return r;
    }
}
