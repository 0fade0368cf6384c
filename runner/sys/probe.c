/* Runs a probe (child, result, time limit), and the probes that need no mounts and no network. Runs
 * in `rind doctor`. */

#include "sys/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/file.h"
#include "sys/probe-internal.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U /* Linux 6.3 */
#endif
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

enum {
    NOBODY = 65534,
    REAP_GRACE_MS = 1000, /* a killed child that does not exit is left behind after this time */
};

/* Makes the calling child die with its parent. */
static void child_die_with_parent(pid_t parent)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
        _exit(1);
}

static void probe_child_main(probe_fn *fn, const struct probe_env *env, pid_t parent, int out)
{
    int code;

    (void)setpgid(0, 0); /* so that one kill reaches grandchildren, too */
    child_die_with_parent(parent);
    code = fn(env);
    (void)write_all(out, &code, sizeof(code));
    _exit(0);
}

/* Returns the child's result, or -ETIMEDOUT, or -ECHILD. */
static int probe_read_result(int in, int timeout_ms)
{
    int64_t deadline = clock_mono_ms() + timeout_ms;
    int code;

    for (;;) {
        struct pollfd p = {.fd = in, .events = POLLIN};
        int64_t left = deadline - clock_mono_ms();
        int n = poll(&p, 1, left > 0 ? (int)left : 0);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            return -ETIMEDOUT;
        return read(in, &code, sizeof(code)) == (ssize_t)sizeof(code) ? code : -ECHILD;
    }
}

static void child_kill_and_reap(pid_t pid)
{
    const struct timespec pause = {.tv_nsec = 200000};
    int64_t deadline = clock_mono_ms() + REAP_GRACE_MS;

    (void)kill(-pid, SIGKILL);
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, NULL, WNOHANG) == 0 && clock_mono_ms() < deadline)
        (void)nanosleep(&pause, NULL);
}

int probe_try(probe_fn *fn, const struct probe_env *env, int timeout_ms)
{
    auto_close int in = FD_NONE;
    pid_t parent = getpid(), pid;
    int fds[2], code;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return -errno;
    in = fds[0];
    pid = fork();
    if (pid == 0)
        probe_child_main(fn, env, parent, fds[1]);
    (void)close(fds[1]);
    if (pid < 0)
        return -errno;
    code = probe_read_result(in, timeout_ms);
    child_kill_and_reap(pid);
    return code;
}

bool probe_privileged(void)
{
    cap_flag_value_t value = CAP_CLEAR;
    cap_t caps = cap_get_proc();

    if (caps == NULL)
        return false;
    (void)cap_get_flag(caps, CAP_SYS_ADMIN, CAP_EFFECTIVE, &value);
    (void)cap_free(caps);
    return value == CAP_SET;
}

int probe_in_grandchild(int (*fn)(const struct probe_env *), const struct probe_env *env)
{
    pid_t parent = getpid(), pid;
    int code = 0, status, fds[2];

    if (pipe2(fds, O_CLOEXEC) < 0)
        return -errno;
    pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        /* In a new pid namespace the parent's pid reads as 0. */
        if (getppid() != parent && getppid() != 0)
            _exit(1);
        code = fn(env);
        (void)write_all(fds[1], &code, sizeof(code));
        _exit(0);
    }
    (void)close(fds[1]);
    if (read(fds[0], &code, sizeof(code)) != (ssize_t)sizeof(code))
        code = -ECHILD;
    (void)close(fds[0]);
    (void)waitpid(pid, &status, 0);
    return code;
}

static int userns_write_map(pid_t pid, const char *file, uint32_t inside, uint32_t outside,
                            uint32_t count)
{
    char path[64], text[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    (void)snprintf(text, sizeof(text), "%u %u %u\n", inside, outside, count);
    return file_poke_at(AT_FDCWD, path, text);
}

int probe_enter_user(int flags)
{
    uint32_t uid = (uint32_t)geteuid(), gid = (uint32_t)getegid();
    int r;

    if (unshare(CLONE_NEWUSER | flags) < 0)
        return -errno;
    (void)file_poke_at(AT_FDCWD, "/proc/self/setgroups", "deny");
    r = userns_write_map(getpid(), "uid_map", 0, uid, 1);
    if (r == 0)
        r = userns_write_map(getpid(), "gid_map", 0, gid, 1);
    return r;
}

int probe_enter(const struct probe_env *env, int flags)
{
    if (!env->privileged)
        return probe_enter_user(flags);
    return unshare(flags) < 0 ? -errno : 0;
}

int probe_namespace(const struct probe_env *env)
{
    int flag = (int)env->number;

    if (flag == CLONE_NEWUSER)
        return unshare(flag) < 0 ? -errno : 0;
    return probe_enter(env, flag);
}

int probe_user_drop(const struct probe_env *env)
{
    (void)env;
    if (setresgid(NOBODY, NOBODY, NOBODY) < 0 || setresuid(NOBODY, NOBODY, NOBODY) < 0)
        return -errno;
    if (unshare(CLONE_NEWUSER) < 0)
        return -errno;
    /* AppArmor may allow the namespace, but no capability in it. */
    return unshare(CLONE_NEWNS) < 0 ? -EACCES : 0;
}

/* The process for which the parent maps a user namespace: reports that it exists, and waits for
 * EOF. */
static void userns_holder(int out, int in)
{
    char byte = unshare(CLONE_NEWUSER) < 0 ? (char)errno : 0;

    (void)write_all(out, &byte, 1);
    (void)!read(in, &byte, 1); /* EOF when the parent is done */
    _exit(0);
}

static int userns_map(pid_t pid, int in, uint32_t base)
{
    char path[64], byte;
    int fd, r;

    if (read(in, &byte, 1) != 1)
        return -ECHILD;
    if (byte != 0)
        return -byte;
    r = userns_write_map(pid, "uid_map", 0, base, 65536);
    if (r == 0)
        r = userns_write_map(pid, "gid_map", 0, base, 65536);
    if (r < 0)
        return r;
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int probe_userns(uint32_t base)
{
    int up[2], down[2], fd, status;
    pid_t parent = getpid(), pid;

    if (pipe2(up, O_CLOEXEC) < 0 || pipe2(down, O_CLOEXEC) < 0)
        return -errno; /* the probe's process exits at once, which closes the pipes */
    pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0) {
        (void)close(down[1]);
        child_die_with_parent(parent);
        userns_holder(up[1], down[0]);
    }
    (void)close(up[1]);
    (void)close(down[0]);
    fd = userns_map(pid, up[0], base);
    (void)close(down[1]);
    (void)close(up[0]);
    (void)waitpid(pid, &status, 0);
    return fd;
}

int probe_id_map(const struct probe_env *env)
{
    int fd = probe_userns((uint32_t)env->number);

    return fd < 0 ? fd : 0;
}

int probe_seccomp(const struct probe_env *env)
{
    static const uint32_t actions[] = {SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ERRNO,
                                       SECCOMP_RET_ALLOW};
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {.len = 1, .filter = &allow};

    (void)env;
    for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
        if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &actions[i]) < 0)
            return -errno;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? -errno : 0;
}

int probe_core_sched(const struct probe_env *env)
{
    enum { SCHED_CORE = 62, SCHED_CORE_CREATE = 1, THIS_THREAD = 0 }; /* linux/prctl.h, 5.14 */

    (void)env;
    return prctl(SCHED_CORE, SCHED_CORE_CREATE, 0, THIS_THREAD, 0) < 0 ? -errno : 0;
}

int probe_pidfd(const struct probe_env *env)
{
    auto_close int fd = FD_NONE;
    siginfo_t info;

    (void)env;
    /* A kernel that has the call refuses size 0 with EINVAL. */
    if (syscall(SYS_clone3, NULL, (size_t)0) < 0 && errno != EINVAL)
        return -errno;
    fd = pidfd_open(getpid(), 0);
    if (fd < 0)
        return -errno;
    if (pidfd_send_signal(fd, 0, NULL, 0) < 0)
        return -errno;
    /* The process is no child of its own: ECHILD shows that the kernel knows P_PIDFD. */
    if (waitid(P_PIDFD, (id_t)fd, &info, WEXITED | WNOHANG) < 0 && errno != ECHILD)
        return -errno;
    return 0;
}

static int memfd_executable(void)
{
    int fd = memfd_create("rind-probe", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);

    /* Before Linux 6.3 the flag is unknown, and every memfd is executable. */
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create("rind-probe", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd < 0 ? -errno : fd;
}

int probe_memfd_exec(const struct probe_env *env)
{
    static const char not_a_program[] = "\1rind";
    char *argv[] = {NULL}, *envp[] = {NULL};
    auto_close int fd = memfd_executable();
    int r;

    (void)env;
    if (fd < 0)
        return fd;
    r = write_all(fd, not_a_program, sizeof(not_a_program));
    if (r < 0)
        return r;
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        return -errno;
    /* ENOEXEC comes after every permission check, so execution is allowed. */
    (void)execveat(fd, "", argv, envp, AT_EMPTY_PATH);
    return errno == ENOEXEC ? 0 : -errno;
}

int probe_openat2(const struct probe_env *env)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};

    (void)env;
    return syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof(how)) < 0 ? -errno : 0;
}

int probe_close_range(const struct probe_env *env)
{
    (void)env;
    return close_range(1U << 30, 1U << 30, 0) < 0 ? -errno : 0;
}
