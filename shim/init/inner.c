/*
 * The inner PID 1: a copy of init in the inner pid namespace. It mounts that namespace's /proc and
 * follows init into the locked namespaces. Then it waits to become the main process by execve, or
 * the reaper.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init/exec-table.h"
#include "proto/syscalls.h"

enum inner_msg { INNER_PROC = 1, INNER_LOCK, INNER_LOCKED, INNER_RUN, INNER_REAP };

struct inner_wire {
    int32_t type;
    int32_t error;
    uint32_t flags;
    uint32_t request_size; /* bytes */
};

static int inner_send(int sock, enum inner_msg type, int error, const int *fds, int fd_count)
{
    struct inner_wire msg = {.type = type, .error = error};

    return wire_send(sock, &msg, sizeof(msg), fds, fd_count);
}

static int inner_make_proc(void)
{
    int fs, r;

    fs = sys_fsopen("proc");
    if (fs < 0)
        return fs;
    r = sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
    if (r >= 0)
        r = sys_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    (void)close(fs);
    return r;
}

/* Descriptors that the inner PID 1 needs until it has followed init into the locked namespaces. */
struct leader {
    int pidfd;
    int proc; /* O_PATH of /proc/<init> of the host's /proc, which goes with the old root; -1: the
                 maps are written (admin.c) */
};

static int inner_enter_lock(const struct plan *plan, const struct leader *init)
{
    int r = init->proc >= 0 ? init_write_maps(init->proc) : 0;

    if (r < 0)
        return r;
    if (setns(init->pidfd, CLONE_NEWUSER | CLONE_NEWNS) < 0 || chdir("/") < 0)
        return -errno;
    return plan_drop_capabilities(plan);
}

/*
 * Installs a filter that allows only what the reaper needs. Processes inside may be root and write
 * to its memory. The policy's filter is not used, since it may forbid reaping. So to control the
 * reaper gains an attacker nothing.
 */
static int reaper_confine(void)
{
#ifdef __x86_64__
    enum { ARCH = AUDIT_ARCH_X86_64 };
#else
    enum { ARCH = AUDIT_ARCH_AARCH64 };
#endif
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 0, 6),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_wait4, 5, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigtimedwait, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_restart_syscall, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog prog = {.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};
    int r;

    r = exec_set_caps(0, 0);
    if (r != 0)
        return -r;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    return sys_seccomp_filter(0, &prog);
}

/* Reaps orphans until init ends the namespace. */
static _Noreturn void reaper_run(void)
{
    for (;;) {
        if (waitpid(-1, NULL, 0) < 0) {
            sigset_t child;
            int sig;

            (void)sigemptyset(&child);
            (void)sigaddset(&child, SIGCHLD);
            (void)sigwait(&child, &sig);
        }
    }
}

static _Noreturn void inner_main(const struct plan *plan, int sock, const struct leader *init)
{
    struct inner_wire msg;
    int fds[5], fd_count, proc, r;

    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* not dumpable, as in exec_child */
    /* If init dies, the kernel kills this process, too: its pid namespace is a child of init's. */
    proc = inner_make_proc();
    r = inner_send(sock, INNER_PROC, proc < 0 ? -proc : 0, &proc, proc >= 0);
    if (proc >= 0)
        (void)close(proc);
    if (r < 0)
        _exit(1);

    for (;;) {
        int n = wire_recv(sock, &msg, sizeof(msg), fds, 5, &fd_count);

        if (n != (int)sizeof(msg))
            _exit(1);
        if (msg.type == INNER_LOCK) {
            r = inner_enter_lock(plan, init);
            /*
             * Both fds lead out of the sandbox, so they are closed before a process of the user
             * runs.
             */
            (void)close(init->pidfd);
            if (init->proc >= 0)
                (void)close(init->proc);
            (void)inner_send(sock, INNER_LOCKED, -r, NULL, 0);
        } else if (msg.type == INNER_REAP) {
            /* Also closes 0 to 2, which are the host's null device. */
            (void)sys_close_range(0, ~0U, 0);
            if (reaper_confine() < 0)
                _exit(1);
            reaper_run();
        } else if (msg.type == INNER_RUN && fd_count == 5) {
            struct exec_start start = {.request_fd = fds[0],
                                       .request_size = msg.request_size,
                                       .program_fd = -1,
                                       .stdio = {fds[1], fds[2], fds[3]},
                                       .status_fd = fds[4],
                                       .flags = msg.flags};

            (void)close(sock);
            exec_child(plan, &start);
        } else {
            _exit(1);
        }
    }
}

void inner_start(struct init *init)
{
    struct leader self;
    int pair[2], pidfd = -1;
    struct clone_args args = {.flags = CLONE_NEWPID | CLONE_PIDFD,
                              .pidfd = (uint64_t)(uintptr_t)&pidfd,
                              .exit_signal = SIGCHLD};
    int pid, exec_cgroup;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        init_fail(INIT_STAGE_INNER, 0, errno);
    self.pidfd = sys_pidfd_open(getpid());
    if (self.pidfd < 0)
        init_fail(INIT_STAGE_INNER, 0, -self.pidfd);
    self.proc = -1;
    if (init->locked_userns < 0) {
        self.proc = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (self.proc < 0)
            init_fail(INIT_STAGE_INNER, 0, errno);
    }

    exec_cgroup = exec_cgroup_main(init);
    if (exec_cgroup >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)(unsigned)exec_cgroup;
    }
    pid = sys_clone3(&args);
    if (exec_cgroup >= 0 && pid != 0)
        (void)close(exec_cgroup);
    if (pid < 0)
        init_fail(INIT_STAGE_INNER, 0, -pid);
    if (pid == 0) {
        (void)close(pair[0]);
        /* The inner PID 1 keeps none of init's descriptors, so it cannot leak them. */
        for (int fd = PLAN_CONTROL_FD; fd < PLAN_FD_OPS + (int)init->plan.header->fd_count; fd++)
            (void)close(fd);
        if (init->locked_userns >= 0)
            (void)close(init->locked_userns);
        if (init->guard.listener >= 0)
            (void)close(init->guard.listener);
        inner_main(&init->plan, pair[1], &self);
    }
    (void)close(pair[1]);
    (void)close(self.pidfd);
    if (self.proc >= 0)
        (void)close(self.proc);
    init->inner_pid = pid;
    init->inner_pidfd = pidfd;
    init->inner_sock = pair[0];
}

static int inner_expect(const struct init *init, enum inner_msg type, int *fds, int fd_max,
                        int *ret_fds)
{
    struct inner_wire msg;
    int n;

    n = wire_recv(init->inner_sock, &msg, sizeof(msg), fds, fd_max, ret_fds);
    if (n < 0)
        return n;
    if (n == 0)
        return -ECHILD; /* it was killed, most likely by the OOM killer */
    if (n != (int)sizeof(msg) || msg.type != (int32_t)type)
        return -EPROTO;
    return -msg.error;
}

int inner_take_proc(const struct init *init)
{
    int fd = -1, count = 0;
    int r;

    r = inner_expect(init, INNER_PROC, &fd, 1, &count);
    if (r < 0)
        return r;
    return count == 1 ? fd : -EPROTO;
}

void inner_lock(const struct init *init)
{
    int count = 0;
    int r;

    init_stage(INIT_STAGE_INNER_LOCK);
    r = inner_send(init->inner_sock, INNER_LOCK, 0, NULL, 0);
    if (r == 0)
        r = inner_expect(init, INNER_LOCKED, NULL, 0, &count);
    if (r < 0)
        init_fail(INIT_STAGE_INNER_LOCK, 0, -r);
    if (init->plan.header->flags & PLAN_REAPER) {
        r = inner_send(init->inner_sock, INNER_REAP, 0, NULL, 0);
        if (r < 0)
            init_fail(INIT_STAGE_INNER_LOCK, 0, -r);
    }
}

int inner_run(struct init *init, const struct exec_start *start)
{
    struct inner_wire msg = {
        .type = INNER_RUN, .flags = start->flags, .request_size = (uint32_t)start->request_size};
    int fds[5] = {start->request_fd, start->stdio[0], start->stdio[1], start->stdio[2],
                  start->status_fd};
    int r;

    r = wire_send(init->inner_sock, &msg, sizeof(msg), fds, 5);
    (void)close(init->inner_sock);
    init->inner_sock = -1;
    return r;
}
