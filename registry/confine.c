/*
 * The steps behind confine.h. Runs in rind-registry, in its main thread.
 */
#include "confine.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "proto/syscalls.h"

/* Sanitizers need system calls that the filter refuses. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool with_filter = false;
#else
static const bool with_filter = true;
#endif

#if defined(__x86_64__)
enum { ARCH = AUDIT_ARCH_X86_64 };
#elif defined(__aarch64__)
enum { ARCH = (int)AUDIT_ARCH_AARCH64 };
#else
#error "the filter does not know this architecture"
#endif

enum {
    X32_BIT = 0x40000000,
    ID = 65532, /* the worker's processes have the two above */
    FDS = 256,
    MEMORY_MAX = 1 << 29, /* stacks of the threads included, which are mostly untouched */
    OPS_MAX = 256,
};

/* ---- root ---- */

static bool root_is_empty(void)
{
    DIR *dir = opendir("/");
    struct dirent *entry;
    bool empty = dir != NULL;

    while (empty && (entry = readdir(dir)) != NULL)
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    if (dir != NULL)
        (void)closedir(dir);
    return empty;
}

/* A user without rights gets them in a namespace of its own, for itself alone. */
static int enter_namespaces(void)
{
    const int others = CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS;
    const unsigned uid = geteuid(), gid = getegid();
    char map[64];
    int r = 0;

    if (uid == 0 && unshare(others) == 0)
        return 0;
    if (unshare(CLONE_NEWUSER | others) < 0)
        return -errno;
    (void)file_poke_at(AT_FDCWD, "/proc/self/setgroups", "deny");
    (void)snprintf(map, sizeof(map), "0 %u 1", uid);
    r = file_poke_at(AT_FDCWD, "/proc/self/uid_map", map);
    if (r < 0)
        return r;
    (void)snprintf(map, sizeof(map), "0 %u 1", gid);
    return file_poke_at(AT_FDCWD, "/proc/self/gid_map", map);
}

static int enter_empty_root(void)
{
    auto_close int fs = FD_NONE, root = FD_NONE;
    int r = enter_namespaces();

    if (r < 0)
        return r;
    fs = sys_fsopen("tmpfs");
    if (fs < 0)
        return fs;
    (void)sys_fsconfig(fs, FSCONFIG_SET_STRING, "size", "4k", 0);
    r = sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
    if (r == 0)
        r = root = sys_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC |
                                       MOUNT_ATTR_RDONLY);
    if (r < 0)
        return r;
    r = mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ? -errno : 0;
    if (r == 0)
        r = sys_move_mount(root, "", AT_FDCWD, "/tmp", MOVE_MOUNT_F_EMPTY_PATH);
    if (r == 0)
        r = chdir("/tmp") < 0 ? -errno : 0;
    if (r == 0)
        r = sys_pivot_root(".", ".");
    if (r == 0)
        r = umount2(".", MNT_DETACH) < 0 ? -errno : 0;
    return r < 0 ? r : (chdir("/") < 0 ? -errno : 0);
}

/* ---- limits, ids, capabilities ---- */

static int limit_set(int resource, uint64_t value)
{
    const struct rlimit l = {value, value};

    return setrlimit(resource, &l) < 0 ? -errno : 0;
}

static int set_limits(uint64_t file_max)
{
    int r = limit_set(RLIMIT_CORE, 0);

    if (r == 0)
        r = limit_set(RLIMIT_FSIZE, file_max);
    if (r == 0)
        r = limit_set(RLIMIT_NOFILE, FDS);
    if (r == 0 && with_filter)
        r = limit_set(RLIMIT_AS, MEMORY_MAX);
    return r;
}

static int drop_rights(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}, {0}};

    (void)setgroups(0, NULL); /* may be denied if there are none to drop */
    if ((setresgid(ID, ID, ID) < 0 || setresuid(ID, ID, ID) < 0) && errno != EINVAL &&
        errno != EPERM)
        return -errno;
    if (syscall(SYS_capset, &head, none) < 0)
        return -errno;
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? -errno : 0;
}

int confine_begin(unsigned fds, uint64_t file_max, struct err *err)
{
    int r;

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_errno(err, -errno, "no_new_privs");
    r = sys_close_range(3 + fds, ~0U, 0);
    if (r < 0)
        return err_errno(err, r, "close descriptors");
    r = root_is_empty() ? 0 : enter_empty_root();
    if (r < 0)
        return err_errno(err, r, "an empty root directory");
    r = set_limits(file_max);
    if (r < 0)
        return err_errno(err, r, "resource limits");
    r = drop_rights();
    return r < 0 ? err_errno(err, r, "ids and capabilities") : 0;
}

/* ---- filter ---- */

static const uint16_t calls[] = {
    SYS_read,
    SYS_write,
    SYS_pread64,
    SYS_close,
    SYS_lseek,
    SYS_fstat,
    SYS_newfstatat,
    SYS_brk,
    SYS_munmap,
    SYS_mremap,
    SYS_madvise,
    SYS_sendmsg,
    SYS_recvmsg,
    SYS_sendto,
    SYS_recvfrom,
    SYS_connect,
    SYS_getsockname,
    SYS_getpeername,
    SYS_getsockopt,
    SYS_setsockopt,
    SYS_ppoll,
    SYS_futex,
    SYS_getrandom,
    SYS_clock_gettime,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_sched_yield,
    SYS_rt_sigreturn,
    SYS_rt_sigprocmask,
    SYS_fcntl,
    SYS_memfd_create,
    SYS_exit,
    SYS_exit_group,
    SYS_gettid,
    SYS_getpid,
    SYS_shutdown,
    SYS_restart_syscall,
#ifdef SYS_poll
    SYS_poll,
#endif
};

/* Calls of which only one value of an argument is allowed. */
static const struct {
    uint16_t call;
    uint8_t arg;
    uint32_t value;
} calls_of_value[] = {
    {SYS_socket, 0, AF_INET},
    {SYS_socket, 0, AF_INET6},
    {SYS_socketpair, 0, AF_UNIX}, /* libcurl wakes itself by one */
    {SYS_ioctl, 1, FIONBIO},
};

struct registry_filter {
    struct sock_filter ops[OPS_MAX];
    unsigned short len;
};

static void filter_add(struct registry_filter *p, uint16_t code, uint32_t k, unsigned jt,
                       unsigned jf)
{
    assert(p->len < OPS_MAX);
    p->ops[p->len++] = (struct sock_filter)BPF_JUMP(code, k, (uint8_t)jt, (uint8_t)jf);
}

static void filter_add_load(struct registry_filter *p, size_t off)
{
    filter_add(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)off, 0, 0);
}

static void filter_add_ret(struct registry_filter *p, uint32_t what)
{
    filter_add(p, BPF_RET | BPF_K, what, 0, 0);
}

/* mmap: anonymous, not executable. mprotect: not executable. */
static void filter_add_memory(struct registry_filter *p)
{
    filter_add(p, BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 6);
    filter_add_load(p, offsetof(struct seccomp_data, args[3]));
    filter_add(p, BPF_JMP | BPF_JSET | BPF_K, MAP_ANONYMOUS, 0, 3);
    filter_add_load(p, offsetof(struct seccomp_data, args[2]));
    filter_add(p, BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 1, 0);
    filter_add_ret(p, SECCOMP_RET_ALLOW);
    filter_add_ret(p, SECCOMP_RET_ERRNO | EPERM);
    filter_add(p, BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 4);
    filter_add_load(p, offsetof(struct seccomp_data, args[2]));
    filter_add(p, BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 1, 0);
    filter_add_ret(p, SECCOMP_RET_ALLOW);
    filter_add_ret(p, SECCOMP_RET_ERRNO | EPERM);
}

int confine_filter(struct err *err)
{
    struct registry_filter p = {.len = 0};
    struct sock_fprog prog = {.filter = p.ops};
    int r;

    filter_add_load(&p, offsetof(struct seccomp_data, arch));
    filter_add(&p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)ARCH, 1, 0);
    filter_add_ret(&p, SECCOMP_RET_KILL_PROCESS);
    filter_add_load(&p, offsetof(struct seccomp_data, nr));
    filter_add(&p, BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
    filter_add_ret(&p, SECCOMP_RET_KILL_PROCESS);
    filter_add_memory(&p);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        filter_add(&p, BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1);
        filter_add_ret(&p, SECCOMP_RET_ALLOW);
    }
    for (size_t i = 0; i < sizeof(calls_of_value) / sizeof(calls_of_value[0]); i++) {
        filter_add(&p, BPF_JMP | BPF_JEQ | BPF_K, calls_of_value[i].call, 0, 4);
        filter_add_load(&p, offsetof(struct seccomp_data, args[0]) +
                                sizeof(uint64_t) * calls_of_value[i].arg);
        filter_add(&p, BPF_JMP | BPF_JEQ | BPF_K, calls_of_value[i].value, 0, 1);
        filter_add_ret(&p, SECCOMP_RET_ALLOW);
        filter_add_load(&p, offsetof(struct seccomp_data, nr));
    }
    filter_add_ret(&p, SECCOMP_RET_ERRNO | EPERM);
    prog.len = p.len;
    r = with_filter ? sys_seccomp_filter(SECCOMP_FILTER_FLAG_TSYNC, &prog) : 0;
    if (r > 0) /* a thread that cannot have it */
        r = -EBUSY;
    return r < 0 ? err_errno(err, r, "filter") : 0;
}
