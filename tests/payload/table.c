/*
 * The table of system calls: each is made in a child of its own, with arguments that do nothing
 * when the call is let through (a bad fd, a missing path, a bad magic number, a NULL), so that what
 * comes back tells only whether it was let through. What is right for each policy is written in
 * tests/integ/test-seccomp.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "payload.h"

struct call {
    const char *name;
    long nr;
    long a[6];
};

#define C(name, ...)                                                                               \
    {                                                                                              \
#name, SYS_##name,                                                                         \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
/* By number: newer than this libc, or gone from it. */
#define N(name, nr, ...)                                                                           \
    {                                                                                              \
#name, nr,                                                                                 \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define P(x)    ((long)(x))
#define NOWHERE P("/nonexistent/rind")

static char scratch[4096];
static long pair[2] = {0, 2000000}; /* a timeval whose microseconds are out of range */
static int fd_pair[2];
static long sigset_word[16];

/* clang-format off */
static const struct call calls[] = {
    /* what every program needs */
    C(read, -1, P(scratch), 1), C(write, -1, P(scratch), 1), C(openat, -100, NOWHERE, 0), C(close, -1),
    C(fstat, -1, P(scratch)), C(newfstatat, -100, NOWHERE, P(scratch), 0), C(statx, -100, NOWHERE, 0, 0, P(scratch)),
    C(lseek, -1, 0, 0), C(mmap, 0, 4096, 3, 0x22, -1, 0), C(mprotect, 0, 0, 0), C(munmap, 0, 4096),
    C(brk, 0), C(rt_sigaction, 10, 0, P(scratch), 8), C(rt_sigprocmask, 0, 0, P(scratch), 8),
    C(ioctl, -1, 0x5401, P(scratch)), C(pread64, -1, P(scratch), 1, 0), C(readv, -1, 0, 0), C(writev, -1, 0, 0),
    C(preadv2, -1, 0, 0, 0, 0, 0), C(faccessat, -100, NOWHERE, 0), C(pipe2, P(fd_pair), 0), C(sched_yield, 0),
    C(mremap, 0, 0, 0, 0), C(msync, 1, 0, 0), C(mincore, 1, 0, 0), C(madvise, 1, 0, 0), C(dup, -1), C(dup3, -1, 5, 0),
    C(nanosleep, P(fd_pair), 0), C(getitimer, 0, P(scratch)), C(setitimer, 0, 0, P(scratch)), C(getpid, 0),
    C(sendfile, -1, -1, 0, 1), C(socketpair, 1, 1, 0, P(fd_pair)), C(connect, -1, 0, 0), C(accept4, -1, 0, 0, 0),
    C(sendmsg, -1, 0, 0), C(recvmsg, -1, 0, 0), C(shutdown, -1, 0), C(bind, -1, 0, 0), C(listen, -1, 0),
    C(getsockopt, -1, 0, 0, 0, 0), C(setsockopt, -1, 0, 0, 0, 0), C(wait4, -1, 0, 1, 0), C(waitid, 0, 0, 0, 5, 0),
    C(kill, 1 << 30, 0), C(tgkill, 1 << 30, 1 << 30, 0), C(uname, P(scratch)), C(fcntl, -1, 1), C(flock, -1, 8),
    C(fsync, -1), C(ftruncate, -1, 0), C(getcwd, P(scratch), 4096), C(fchdir, -1), C(mkdirat, -100, NOWHERE, 0),
    C(renameat2, -100, NOWHERE, -100, NOWHERE, 0), C(linkat, -100, NOWHERE, -100, NOWHERE, 0),
    C(symlinkat, NOWHERE, -100, NOWHERE), C(readlinkat, -100, NOWHERE, P(scratch), 10), C(unlinkat, -100, NOWHERE, 0),
    C(fchmod, -1, 0), C(fchmodat, -100, NOWHERE, 0), C(fchownat, -100, NOWHERE, -1, -1, 0), C(umask, 022),
    C(getrlimit, 7, P(scratch)), C(prlimit64, 0, 7, 0, P(scratch)), C(getrusage, 0, P(scratch)), C(sysinfo, P(scratch)),
    C(times, P(scratch)), C(getuid, 0), C(setuid, -1), C(setgroups, -1, 0), C(setresuid, -1, -1, -1), C(setfsuid, -1),
    C(getpgid, 0), C(setsid, 0), C(capget, 0, 0), C(rt_sigtimedwait, P(sigset_word), 0, P(fd_pair), 8),
    C(sigaltstack, 0, P(scratch)), C(statfs, NOWHERE, P(scratch)), C(getpriority, 0, 0), C(sched_getparam, 0, P(scratch)),
    C(sched_getaffinity, 0, 128, P(scratch)), C(sched_setaffinity, 0, 0, 0), C(mlock, 0, 0), C(prctl, 3, 0, 0, 0, 0),
    C(sync_file_range, -1, 0, 0, 0), C(getxattr, NOWHERE, NOWHERE, 0, 0), C(setxattr, NOWHERE, NOWHERE, 0, 0, 0),
    C(futex, P(scratch), 1, 1, 0, 0, 0), C(epoll_create1, 0), C(epoll_pwait, -1, 0, 0, 0, 0, 8), C(getdents64, -1, 0, 0),
    C(timer_create, 99, 0, 0), C(timerfd_create, 1, 0), C(signalfd4, -1, P(sigset_word), 8, 0), C(eventfd2, 0, 0),
    C(clock_gettime, 1, P(scratch)), C(clock_nanosleep, 1, 0, P(fd_pair), 0), C(inotify_init1, 0), C(ppoll, 0, 0, P(fd_pair), 0, 8),
    C(set_robust_list, P(scratch), 24), C(splice, -1, 0, -1, 0, 0, 0), C(tee, -1, -1, 0, 0), C(utimensat, -100, NOWHERE, 0, 0),
    C(fallocate, -1, 0, 0, 0), C(getrandom, P(scratch), 1, 1), C(memfd_create, P("x"), 0), C(membarrier, 0, 0, 0),
    C(copy_file_range, -1, 0, -1, 0, 0, 0), C(getcpu, 0, 0, 0), C(sendmmsg, -1, 0, 0, 0), C(shmget, 0, 0, 0), C(mq_open, NOWHERE, 0, 0, 0),
    C(rseq, 0, 0, 0, 0), C(ioprio_get, 1, 0), C(seccomp, 2, 0, P(scratch)), C(adjtimex, P(scratch)), C(fadvise64, -1, 0, 0, 0),
    C(getppid, 0), C(pidfd_send_signal, -1, 0, 0, 0), C(io_setup, 0, 0),
    N(pidfd_open, 434, 1 << 30, 0), N(close_range, 436, 1 << 20, 1 << 20, 0), N(openat2, 437, -100, NOWHERE, P(sigset_word + 8), 24),
    N(faccessat2, 439, -100, NOWHERE, 0, 0), N(epoll_pwait2, 441, -1, 0, 0, 0, 0, 8),
    N(landlock_create_ruleset, 444, 0, 0, 1), N(futex_waitv, 449, 0, 0, 0, 0, 1), N(cachestat, 451, -1, 0, 0, 0),
    N(fchmodat2, 452, -100, NOWHERE, 0, 0), N(mseal, 462, 1, 0, 0),

    /* the machine, time, names */
    C(reboot, 1, 2, 3, 0), C(settimeofday, P(pair), 0), C(clock_settime, 99, P(scratch)), C(clock_adjtime, 99, P(scratch)),
    C(sethostname, P("x"), -1), C(setdomainname, P("x"), -1), C(syslog, 10, 0, 0), C(acct, NOWHERE), C(vhangup, 0),
    C(swapon, NOWHERE, 0), C(swapoff, NOWHERE), C(kexec_load, 0, 0, 0, -1), C(quotactl, -1, 0, 0, 0),
    C(init_module, 0, 0, P("")), C(finit_module, -1, P(""), 0), C(delete_module, P("rind-none"), 0),
    /* mounts and namespaces */
    C(mount, NOWHERE, NOWHERE, P("tmpfs"), 0, 0), C(umount2, NOWHERE, 0), C(pivot_root, NOWHERE, NOWHERE), C(chroot, NOWHERE),
    C(setns, -1, 0), C(unshare, 0x10000000), N(open_tree, 428, -100, NOWHERE, 1), N(move_mount, 429, -1, NOWHERE, -1, NOWHERE, 0),
    N(fsopen, 430, P("rind-none"), 0), N(fsconfig, 431, -1, 0, 0, 0, 0), N(fsmount, 432, -1, 0, 0), N(fspick, 433, -100, NOWHERE, 0),
    N(mount_setattr, 442, -100, NOWHERE, 0, 0, 0), N(clone3, 435, 0, 0), N(quotactl_fd, 443, -1, 0, 0, 0),
    N(statmount, 457, 0, 0, 0, 0), N(listmount, 458, 0, 0, 0, 0),
    /* other processes, debugging */
    C(ptrace, 0, 0, 0, 0), C(process_vm_readv, 1, 0, 0, 0, 0, 0), C(process_vm_writev, 1, 0, 0, 0, 0, 0),
    C(kcmp, 1, 1, 99, 0, 0), N(pidfd_getfd, 438, -1, 0, 0), N(process_madvise, 440, -1, 0, 0, 0, 0), C(personality, 0x0040000),
    C(perf_event_open, 0, 0, -1, -1, 0), C(userfaultfd, -1), C(lookup_dcookie, 0, 0, 0),
    /* memory placement */
    C(mbind, 1, 0, 0, 0, 0, 0), C(set_mempolicy, -1, 0, 0), C(get_mempolicy, 0, 0, 0, 0, -1), C(migrate_pages, 0, 0, 0, 0),
    C(move_pages, 0, 0, 0, 0, 0, -1), N(memfd_secret, 447, -1),
    /* large attack surface */
    C(bpf, -1, 0, 0), C(fanotify_init, -1, 0), C(name_to_handle_at, -100, NOWHERE, 0, 0, 0), C(open_by_handle_at, -1, 0, 0),
    C(add_key, P("rind-none"), 0, 0, 0, 0), C(request_key, P("rind-none"), 0, 0, 0), C(keyctl, -1, 0, 0),
    N(io_uring_setup, 425, 8, 0), N(io_uring_enter, 426, -1, 0, 0, 0, 0, 0), N(io_uring_register, 427, -1, -1, 0, 0),
    C(nfsservctl, 0, 0, 0), C(mknodat, -100, NOWHERE, 020600, 0x103),
    N(lsm_set_self_attr, 460, 0, 0, 0, -1),
#if defined(__x86_64__)
    C(iopl, 4), C(ioperm, -1, -1, 1), C(modify_ldt, 99, 0, 0), C(arch_prctl, 0, 0), C(kexec_file_load, -1, -1, 0, 0, -1),
    C(uselib, NOWHERE), C(ustat, 0, 0), C(sysfs, 3), C(_sysctl, 0), C(create_module, 0, 0), C(get_kernel_syms, 0),
    C(query_module, 0, 0, 0, 0, 0), C(getpmsg, 0), C(putpmsg, 0), C(afs_syscall, 0), C(tuxcall, 0), C(security, 0), C(vserver, 0),
    C(epoll_ctl_old, 0), C(epoll_wait_old, 0), C(set_thread_area, 0), C(get_thread_area, 0),
#endif
    /* nobody's: must look like a kernel that does not know them */
    N(nr_470, 470, 0), N(nr_600, 600, 0), N(nr_1000, 1000, 0), N(nr_100000, 100000, 0),
};
/* clang-format on */

static long make_call(void *arg)
{
    const struct call *c = arg;

    return syscall(c->nr, c->a[0], c->a[1], c->a[2], c->a[3], c->a[4], c->a[5]);
}

static int cmd_syscalls(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    js_open(NULL, '{');
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        struct call c = calls[i];

        js_outcome(c.name, in_child(make_call, &c));
    }
    js_close('}');
    putchar('\n');
    return 0;
}

const struct cmd table_cmds[] = {
    {"syscalls", cmd_syscalls, ": the table"},
    {0},
};
