#include "daemon/confine.h"

#include <errno.h>
#include <grp.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "proto/landlock.h"

/* The sanitizers' own threads and ptrace need what the filter refuses. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool confine_filter = false;
#else
static const bool confine_filter = true;
#endif

enum { SOCK_TYPE_MASK = 0xf };

/* The system calls that libuv, its thread pool, glibc and rind itself need on open fds. All
 * others fail with EPERM. */
static const char *const allowed[] = {
    /* descriptors */
    "read",
    "write",
    "readv",
    "writev",
    "pread64",
    "pwrite64",
    "preadv",
    "pwritev",
    "lseek",
    "close",
    "close_range",
    "dup",
    "dup2",
    "dup3",
    "fcntl",
    "ioctl",
    "pipe2",
    "splice",
    "tee",
    "sendfile",
    "copy_file_range",
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "epoll_create1",
    "epoll_ctl",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "eventfd2",
    "timerfd_create",
    "timerfd_settime",
    "timerfd_gettime",
    "signalfd4",
    "inotify_init1",
    "inotify_add_watch",
    "inotify_rm_watch",
    "memfd_create",
    /* sockets that are open, and those accepted from them */
    "accept",
    "accept4",
    "recvfrom",
    "recvmsg",
    "recvmmsg",
    "sendto",
    "sendmsg",
    "sendmmsg",
    "shutdown",
    "connect", /* sockets of a sandbox's net namespace, which the launcher hands over */
    "getsockopt",
    "setsockopt",
    "getsockname",
    "getpeername",
    /* files beneath the root directory */
    "open",
    "openat",
    "openat2",
    "stat",
    "fstat",
    "lstat",
    "newfstatat",
    "statx",
    "access",
    "faccessat",
    "faccessat2",
    "readlink",
    "readlinkat",
    "getdents64",
    "mkdir",
    "mkdirat",
    "unlink",
    "unlinkat",
    "rmdir",
    "rename",
    "renameat",
    "renameat2",
    "ftruncate",
    "fallocate",
    "fsync",
    "fdatasync",
    "syncfs",
    "sync_file_range",
    "fchmod",
    "fchmodat",
    "utimensat",
    "flock",
    "statfs",
    "fstatfs",
    "umask",
    "getcwd",
    "fadvise64",
    "mknodat",
    /* memory, threads, time, the process itself */
    "mmap",
    "munmap",
    "mprotect",
    "mremap",
    "madvise",
    "brk",
    "futex",
    "futex_waitv",
    "set_robust_list",
    "rseq",
    "sched_yield",
    "sched_getaffinity",
    "sched_getscheduler",
    "membarrier",
    "getrandom",
    "clock_gettime",
    "clock_getres",
    "clock_nanosleep",
    "nanosleep",
    "gettimeofday",
    "time",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "rt_sigpending",
    "rt_sigtimedwait",
    "sigaltstack",
    "restart_syscall",
    "exit",
    "exit_group",
    "getpid",
    "gettid",
    "getppid",
    "getuid",
    "geteuid",
    "getgid",
    "getegid",
    "getrusage",
    "getrlimit",
    "prlimit64",
    "sysinfo",
    "uname",
    "tgkill",
    "waitid",
    "wait4",
    "pidfd_send_signal",
    "prctl",
    "arch_prctl",
    "set_tid_address",
};

static int filter_add_rules(scmp_filter_ctx ctx)
{
    static const scmp_datum_t pairs[] = {SOCK_STREAM, SOCK_SEQPACKET};
    static const scmp_datum_t policies[] = {SCHED_OTHER | SCHED_RESET_ON_FORK,
                                            SCHED_BATCH | SCHED_RESET_ON_FORK};
    int r = 0;

    for (size_t i = 0; r == 0 && i < sizeof(allowed) / sizeof(allowed[0]); i++) {
        int nr = seccomp_syscall_resolve_name(allowed[i]);

        if (nr != __NR_SCMP_ERROR)
            r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, nr, 0);
    }
    /* Threads but no processes: with ENOSYS for clone3, glibc falls back to clone, whose flags
     * can be checked. */
    if (r == 0)
        r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    if (r == 0)
        r = seccomp_rule_add(
            ctx, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
            SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD | CLONE_VM, CLONE_THREAD | CLONE_VM));
    /* Only socket types that are connected from birth: a datagram socket could be sent to the
     * abstract addresses of host services. */
    for (size_t i = 0; r == 0 && i < sizeof(pairs) / sizeof(pairs[0]); i++)
        r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socketpair), 1,
                             SCMP_A1(SCMP_CMP_MASKED_EQ, SOCK_TYPE_MASK, pairs[i]));
    /* For this thread only: SCHED_OTHER and SCHED_BATCH (gateway/throughput). */
    for (size_t i = 0; r == 0 && i < sizeof(policies) / sizeof(policies[0]); i++)
        r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(sched_setscheduler), 2,
                             SCMP_A0(SCMP_CMP_EQ, 0), SCMP_A1(SCMP_CMP_EQ, policies[i]));
    /* libuv tries io_uring and works without it. */
    if (r == 0)
        r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(io_uring_setup), 0);
    return r;
}

static int install_filter(struct err *err)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    int r;

    if (ctx == NULL)
        return err_errno(err, -ENOMEM, "the supervisor's filter");
    r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    if (r == 0)
        r = filter_add_rules(ctx);
    if (r == 0)
        r = seccomp_load(ctx); /* sets no_new_privs, too */
    seccomp_release(ctx);
    return r < 0 ? err_errno(err, r, "the supervisor's filter") : 0;
}

/*
 * One lock more: should the root directory, the ids or the filter have a hole, files outside of the
 * root still cannot be opened, nothing can be executed, and no signal or abstract socket reaches a
 * process outside. fds that come from the launcher stay usable. connect(2) is not locked, since the
 * sockets of sandboxes' namespaces are connected here.
 */
static int install_landlock(int root_fd, struct err *err)
{
    const struct lock_dir root = {
        .fd = root_fd,
        .access = LOCK_FS_READ | LOCK_FS_WRITE_FILE | LOCK_FS_TRUNCATE | LOCK_FS_MAKE_REG |
                  LOCK_FS_MAKE_DIR | LOCK_FS_REMOVE_FILE | LOCK_FS_REMOVE_DIR | LOCK_FS_REFER,
    };
    int r = landlock_lock(&root, 1, LOCK_NET_BIND_TCP, LOCK_SCOPE_ABSTRACT | LOCK_SCOPE_SIGNAL);

    if (r < 0)
        return err_errno(err, r, "the supervisor's Landlock rules");
    if (r == 0)
        log_info("serve", "the kernel has no Landlock for the supervisor; its other locks hold");
    return 0;
}

int confine_supervisor(int root_fd, unsigned uid, struct err *err)
{
    int r;

    if (fchdir(root_fd) < 0 || chroot(".") < 0)
        return err_errno(err, -errno, "the supervisor's root");
    /* Changing the uid from 0 to another drops all capabilities. */
    if (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
        return err_errno(err, -errno, "the supervisor's ids");
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return err_errno(err, -errno, "the supervisor");
    r = install_landlock(root_fd, err);
    return r == 0 && confine_filter ? install_filter(err) : r;
}
