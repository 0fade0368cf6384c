#pragma once

/* System calls that a libc lacks, or lacks in this form, as thin inlines: they return a
 * non-negative result or -errno. Shared by the runner (glibc) and by init and the shim (musl). All
 * `__NR_` numbers that would need an #ifdef elsewhere are here. */

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL
#endif
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif
#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC 4U
#endif

#ifndef SYS_landlock_create_ruleset /* one number on all machines */
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule       445
#define SYS_landlock_restrict_self  446
#endif

static inline long sys_ret(long r)
{
    return r < 0 ? -errno : r;
}

static inline int sys_clone3(struct clone_args *args)
{
    return (int)sys_ret(syscall(SYS_clone3, args, sizeof(*args)));
}

/* Beneath dirfd and through no symbolic link: for rind's own directories, which contain none. */
enum { OPEN_PLAIN = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };

/* EAGAIN: a rename or mount, anywhere on the machine, raced with a lookup that has "..", and the
 * kernel asks to retry. A loop of renames on the other processor makes most attempts fail, so the
 * bound is far above what it can win: about 10 ms. */
enum { OPENAT2_TRIES = 4096 };

/* O_CLOEXEC is always added. */
static inline int sys_openat2(int dirfd, const char *path, int flags, uint64_t mode,
                              uint64_t resolve)
{
    struct open_how how = {
        .flags = (uint64_t)(unsigned)(flags | O_CLOEXEC), .mode = mode, .resolve = resolve};
    /* With RESOLVE_CACHED, EAGAIN says that the disk would have to be read. */
    int max = resolve & RESOLVE_CACHED ? 1 : OPENAT2_TRIES;
    long fd = -EAGAIN;

    for (int tries = 0; tries < max && (fd == -EAGAIN || fd == -EINTR); tries++)
        fd = sys_ret(syscall(SYS_openat2, dirfd, path, &how, sizeof(how)));
    return (int)fd;
}

static inline int sys_open_tree(int dirfd, const char *path, unsigned flags)
{
    return (int)sys_ret(syscall(SYS_open_tree, dirfd, path, flags));
}

static inline int sys_move_mount(int from_fd, const char *from, int to_fd, const char *to,
                                 unsigned flags)
{
    return (int)sys_ret(syscall(SYS_move_mount, from_fd, from, to_fd, to, flags));
}

static inline int sys_mount_setattr(int fd, const char *path, unsigned flags,
                                    struct mount_attr *attr)
{
    return (int)sys_ret(syscall(SYS_mount_setattr, fd, path, flags, attr, sizeof(*attr)));
}

static inline int sys_fsopen(const char *type)
{
    return (int)sys_ret(syscall(SYS_fsopen, type, FSOPEN_CLOEXEC));
}

static inline int sys_fsconfig(int fd, unsigned cmd, const char *key, const void *value, int aux)
{
    return (int)sys_ret(syscall(SYS_fsconfig, fd, cmd, key, value, aux));
}

static inline int sys_fsmount(int fd, unsigned attr)
{
    return (int)sys_ret(syscall(SYS_fsmount, fd, FSMOUNT_CLOEXEC, attr));
}

static inline int sys_pivot_root(const char *new_root, const char *put_old)
{
    return (int)sys_ret(syscall(SYS_pivot_root, new_root, put_old));
}

static inline int sys_pidfd_open(pid_t pid)
{
    return (int)sys_ret(syscall(SYS_pidfd_open, pid, 0));
}

static inline int sys_pidfd_getfd(int pidfd, int fd)
{
    return (int)sys_ret(syscall(SYS_pidfd_getfd, pidfd, fd, 0));
}

static inline int sys_pidfd_send_signal(int pidfd, int sig)
{
    return (int)sys_ret(syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0));
}

static inline int sys_close_range(unsigned first, unsigned last, unsigned flags)
{
    return (int)sys_ret(syscall(SYS_close_range, first, last, flags));
}

static inline int sys_execveat(int fd, const char *path, char *const argv[], char *const envp[],
                               int flags)
{
    return (int)sys_ret(syscall(SYS_execveat, fd, path, argv, envp, flags));
}

static inline int sys_seccomp_filter(unsigned flags, const void *prog)
{
    enum { SET_MODE_FILTER = 1 };

    return (int)sys_ret(syscall(SYS_seccomp, SET_MODE_FILTER, flags, prog));
}

/* Sets the default action for a signal, also for those that a libc reserves (32 to 34) and that its
 * sigaction(3) refuses: they can be inherited as ignored. */
static inline int sys_signal_default(int sig)
{
    const struct {
        uintptr_t handler;
        unsigned long flags;
        uintptr_t restorer;
        uint64_t mask;
    } dfl = {.handler = (uintptr_t)SIG_DFL};

    return (int)sys_ret(syscall(SYS_rt_sigaction, sig, &dfl, NULL, sizeof(dfl.mask)));
}
