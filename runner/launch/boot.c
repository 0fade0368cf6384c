/* The start of one init: the protocol of proto/init-msg.h, the launcher's side. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "launch/cgroup.h"
#include "launch/sandbox.h"
#include "proto/init-msg.h"
#include "proto/plan.h"
#include "proto/syscalls.h"

enum {
    BOOT_TIMEOUT_MS = 30000, /* between two messages of init; a hung file system under a bind source
                                can hold it up */
    BOOT_FDS_MAX = 253,      /* SCM_MAX_FD */
};

static const char *const stage_names[INIT_STAGE_MAX] = {
    [INIT_STAGE_PLAN] = "read the set-up plan",
    [INIT_STAGE_PRIVATE] = "make mounts private",
    [INIT_STAGE_CGROUP_NS] = "unshare the cgroup namespace",
    [INIT_STAGE_LOOPBACK] = "bring the loopback interface up",
    [INIT_STAGE_HOSTNAME] = "set the host name",
    [INIT_STAGE_INNER] = "clone the inner pid namespace",
    [INIT_STAGE_PROC] = "mount /proc",
    [INIT_STAGE_MOUNTS] = "mount",
    [INIT_STAGE_PIVOT] = "change the root",
    [INIT_STAGE_ENTER_PID] = "enter the inner pid namespace",
    [INIT_STAGE_LOCK] = "unshare the locked user and mount namespace",
    [INIT_STAGE_INNER_LOCK] = "lock the inner process's namespaces",
    [INIT_STAGE_PTS] = "open /dev/pts",
    [INIT_STAGE_SECCOMP] = "install init's seccomp filter",
    [INIT_STAGE_LOOP] = "become ready",
};

static const char *stage_name(uint32_t stage)
{
    return stage > INIT_STAGE_INVALID && stage < INIT_STAGE_MAX ? stage_names[stage]
                                                                : "an unknown step";
}

/* ---- the child, until it is init ---- */

/* GO carries the descriptors. They take the lowest free numbers in order: PLAN_FD, PLAN_LEASE_FD, …
 * Returns their count. */
static int child_receive(void)
{
    char control[CMSG_SPACE(sizeof(int) * BOOT_FDS_MAX)];
    struct imsg msg;
    struct iovec iov = {.iov_base = &msg, .iov_len = sizeof(msg)};
    struct msghdr hdr = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control,
                         .msg_controllen = sizeof(control)};
    struct cmsghdr *c;

    if (recvmsg(PLAN_CONTROL_FD, &hdr, 0) != (ssize_t)sizeof(msg) || msg.type != IMSG_GO)
        return -1;
    c = CMSG_FIRSTHDR(&hdr);
    if (c == NULL || c->cmsg_type != SCM_RIGHTS || (hdr.msg_flags & MSG_CTRUNC) != 0)
        return -1;
    return (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
}

/* System calls only. A failure needs no words: the launcher sees the end of the socket and says
 * that the start died before its first step. */
static _Noreturn void child_main(int control, int null_fd)
{
    static char name[] = "rind-init";
    char *argv[] = {name, NULL};
    char *envp[] = {NULL};
    int count;

    if (dup2(null_fd, 0) < 0 || dup2(null_fd, 1) < 0 || dup2(null_fd, 2) < 0 ||
        dup2(control, PLAN_CONTROL_FD) < 0)
        _exit(1);
    if (sys_close_range(PLAN_CONTROL_FD + 1, ~0U, 0) < 0)
        _exit(1);
    count = child_receive();
    if (count < 1)
        _exit(1);
    /* Root of the new user namespace: exec as anybody else would lose the capabilities in it. */
    if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, 0, 0, 0) < 0 ||
        syscall(SYS_setresuid, 0, 0, 0) < 0)
        _exit(1);
    (void)sys_execveat(PLAN_CONTROL_FD + count, "", argv, envp, AT_EMPTY_PATH);
    _exit(1);
}

/*
 * Counters such as inotify instances and namespaces are charged to the owner of a user namespace in
 * its parent. Owned by the launcher's own uid, all sandboxes would share one account, and one could
 * starve the others: so the namespace is made as the sandbox's first host id. Capabilities stay,
 * for cgroups that are root's and for hosts where only they allow user namespaces.
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
        abort(); /* going on with a foreign uid would be worse */
    return pid;
}

int boot_clone(struct launcher *l, struct sandbox *s, int *ret_control, struct err *err)
{
    struct clone_args args = {.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET |
                                       CLONE_NEWUTS | CLONE_NEWIPC | CLONE_PIDFD,
                              .pidfd = (uint64_t)(uintptr_t)&s->pidfd,
                              .exit_signal = SIGCHLD};
    int pair[2], pid, cgroup_fd;
    sigset_t all, old;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(err, -errno, "control socket");
    cgroup_fd = cgroup_exec_fd(s->cgroup);
    if (cgroup_fd >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)(unsigned)cgroup_fd;
    }

    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &old);
    pid = clone_as(s->ids.base, &args);
    if (pid == 0)
        child_main(pair[1], l->null_fd);
    (void)sigprocmask(SIG_SETMASK, &old, NULL);

    (void)close(pair[1]);
    if (pid < 0) {
        (void)close(pair[0]);
        return err_errno(err, pid, "clone the sandbox's namespaces");
    }
    s->pid = pid;
    *ret_control = pair[0];
    return 0;
}

/* ---- following it ---- */

int boot_go(int control, const int *fds, int count, struct err *err)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * BOOT_FDS_MAX)];
        struct cmsghdr align;
    } buffer;
    struct imsg msg = {.magic = IMSG_MAGIC, .version = IMSG_VERSION, .type = IMSG_GO};
    struct iovec iov = {.iov_base = &msg, .iov_len = sizeof(msg)};
    struct msghdr hdr = {.msg_iov = &iov, .msg_iovlen = 1};

    if (count > BOOT_FDS_MAX)
        return err_set(err, -E2BIG, "too many mounts");
    if (count > 0) {
        struct cmsghdr *c;

        (void)memset(&buffer, 0, sizeof(buffer));
        hdr.msg_control = buffer.bytes;
        hdr.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)count);
        c = CMSG_FIRSTHDR(&hdr);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)count);
        (void)memcpy(CMSG_DATA(c), fds, sizeof(int) * (size_t)count);
    }
    if (sendmsg(control, &hdr, MSG_NOSIGNAL) < 0)
        return err_errno(err, -errno, "hand over to init");
    return 0;
}

/* EOF is never success: what was it doing, and how did it end? */
static int died(const struct sandbox *s, uint32_t stage, struct err *err)
{
    siginfo_t info = {.si_code = 0};

    if (waitid(P_PIDFD, (id_t)s->pidfd, &info, WEXITED | WNOWAIT) < 0)
        return err_errno(err, -errno, "start sandbox: died during '%s'", stage_name(stage));
    if (info.si_code == CLD_EXITED)
        return err_set(err, -ECHILD, "start sandbox: died during '%s' with exit status %d",
                       stage_name(stage), info.si_status);
    return err_set(err, -ECHILD, "start sandbox: killed by signal %d during '%s'%s", info.si_status,
                   stage_name(stage),
                   info.si_status == SIGKILL ? " (is the memory limit too low to start a process?)"
                                             : "");
}

static int failed(const struct imsg *msg, int plan_fd, struct err *err)
{
    int error = msg->error > 0 && msg->error < 4096 ? msg->error : EIO;
    char what[256];

    if (msg->step == INIT_STAGE_MOUNTS) {
        plan_describe(plan_fd, msg->value, what, sizeof(what));
        return err_errno(err, -error, "start sandbox: %s", what);
    }
    return err_errno(err, -error, "start sandbox: %s", stage_name(msg->step));
}

static int receive(int control, struct imsg *msg)
{
    struct pollfd p = {.fd = control, .events = POLLIN};
    ssize_t n;
    int r;

    do
        r = poll(&p, 1, BOOT_TIMEOUT_MS);
    while (r < 0 && errno == EINTR);
    if (r == 0)
        return -ETIMEDOUT;
    n = recv(control, msg, sizeof(*msg), 0);
    if (n < 0)
        return errno == ECONNRESET ? 0 : -errno;
    if (n == 0)
        return 0;
    if (n != (ssize_t)sizeof(*msg) || msg->magic != IMSG_MAGIC || msg->version != IMSG_VERSION)
        return -EPROTO;
    return 1;
}

int boot_follow(const struct sandbox *s, int control, int userns_fd, int plan_fd, struct err *err)
{
    uint32_t stage = INIT_STAGE_PLAN;
    struct imsg msg;
    bool mapped = false;
    int r;

    for (;;) {
        r = receive(control, &msg);
        if (r == 0)
            return died(s, stage, err);
        if (r < 0)
            return err_errno(err, r, "start sandbox: waiting for '%s'", stage_name(stage));

        if (msg.type == IMSG_STAGE) {
            stage = msg.step;
        } else if (msg.type == IMSG_FAIL) {
            return failed(&msg, plan_fd, err);
        } else if (msg.type == IMSG_NEED_MAPS && !mapped) {
            mapped = true;
            r = idmap_write_inner(s->pid, userns_fd, err);
            if (r == 0)
                r = boot_go(control, NULL, 0, err);
            if (r < 0)
                return r;
        } else if (msg.type == IMSG_READY && mapped) {
            return 0;
        } else {
            return err_set(err, -EPROTO, "start sandbox: unexpected message %u after '%s'",
                           msg.type, stage_name(stage));
        }
    }
}
