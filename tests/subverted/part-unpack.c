/*
 * What stands in the place of the unpacker in build/builder/rind-rootfs-subverted, for
 * tests/integ/test-rootfs-worker: an archive has taken it over, and it now tries to get out. It is
 * confined just as the unpacker is, and has the same descriptors.
 *
 * Each thing that it must not get is one row. The result is FAILED with the names of those that it
 * got, or DONE, with as many entries as there were rows.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "part.h"
#include "proto/syscalls.h"

static const struct part_request *request;

/* Opened for reading or writing, whatever the way. */
static bool opens(int dir, const char *path, int flags)
{
    int fd = openat(dir, path, flags | O_CLOEXEC, 0600);

    if (fd < 0)
        fd = sys_openat2(dir, path, flags, (flags & O_CREAT) != 0 ? 0600 : 0, 0);
    if (fd < 0)
        fd = (int)syscall(SYS_open, path, flags, 0600);
    return fd >= 0;
}

static bool host_files(void)
{
    return opens(AT_FDCWD, "/etc/passwd", O_RDONLY) || opens(AT_FDCWD, "etc/passwd", O_RDONLY) ||
           opens(AT_FDCWD, "/root", O_RDONLY) || opens(AT_FDCWD, "/proc/self/status", O_RDONLY) ||
           opens(AT_FDCWD, "/dev/null", O_RDONLY) || opens(AT_FDCWD, "/sys", O_RDONLY);
}

static bool root_writable(void)
{
    return opens(AT_FDCWD, "/x", O_WRONLY | O_CREAT) || mkdirat(AT_FDCWD, "/d", 0700) == 0 ||
           mknodat(AT_FDCWD, "/p", S_IFIFO | 0600, 0) == 0;
}

/* `..` of the tree is the tree. */
static bool above_tree(void)
{
    struct stat here, above;
    const char *up = "../../../../../../../..";
    int fd = openat(request->tree, up, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (opens(request->tree, "../../../../../../../../etc/passwd", O_RDONLY) ||
        opens(request->tree, "../x", O_WRONLY | O_CREAT | O_EXCL))
        return fstatat(request->tree, "x", &here, 0) < 0; /* it went into the tree itself: fine */
    if (fd < 0)
        return false;
    return fstat(fd, &above) == 0 && fstat(request->tree, &here) == 0 &&
           (above.st_ino != here.st_ino || above.st_dev != here.st_dev);
}

/* A link out of the tree, followed. */
static bool through_link(void)
{
    return symlinkat("/etc/passwd", request->tree, "out") == 0 &&
           symlinkat("/", request->tree, "root") == 0 &&
           (opens(request->tree, "out", O_RDONLY) ||
            opens(request->tree, "root/etc/passwd", O_RDONLY) ||
            opens(request->tree, "root/bin", O_RDONLY));
}

static bool parents_writable(void)
{
    for (size_t i = 0; i < request->parent_count; i++) {
        int fd = request->parents[i];

        if (opens(fd, "x", O_WRONLY | O_CREAT) || opens(fd, "file", O_WRONLY) ||
            mkdirat(fd, "d", 0700) == 0 || unlinkat(fd, "file", 0) == 0 ||
            fchmodat(fd, "file", 04777, 0) == 0 || fchownat(fd, "file", 1, 1, 0) == 0 ||
            utimensat(fd, "file", NULL, 0) == 0 || symlinkat("x", fd, "l") == 0 ||
            linkat(fd, "file", request->tree, "linked", 0) == 0 ||
            linkat(request->tree, "inside", fd, "linked", 0) == 0)
            return true;
    }
    return false;
}

static bool devices(void)
{
    return mknodat(request->tree, "b", S_IFBLK | 0600, makedev(8, 0)) == 0 ||
           mknodat(request->tree, "c", S_IFCHR | 0600, makedev(1, 1)) == 0;
}

static bool trusted_xattr(void)
{
    int fd = openat(request->tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fsetxattr(fd, "trusted.overlay.opaque", "y", 1, 0) == 0 ||
           fsetxattr(fd, "security.ima", "x", 1, 0) == 0;
}

static bool network(void)
{
    static const int families[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, 38, 40};
    int pair[2];

    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
        if (socket(families[i], SOCK_STREAM, 0) >= 0 || socket(families[i], SOCK_DGRAM, 0) >= 0 ||
            socket(families[i], SOCK_RAW, 0) >= 0)
            return true;
    return socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0;
}

/* Its own socket, turned against somebody else. */
static bool connects(void)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX, .sun_path = "/run/x"};

    return connect(request->report, (struct sockaddr *)&to, sizeof(to)) == 0 || errno != EPERM;
}

static bool processes(void)
{
    struct clone_args args = {.exit_signal = SIGCHLD};
    long pid = syscall(SYS_clone3, &args, sizeof(args));

    if (pid < 0)
        pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
#ifdef SYS_fork
    if (pid < 0)
        pid = syscall(SYS_fork);
#endif
    if (pid == 0)
        _exit(0);
    return pid > 0;
}

static bool executes(void)
{
    char name[] = "x";
    char *argv[] = {name, NULL}, *envp[] = {NULL};
    int fd = openat(request->tree, "program", O_RDWR | O_CREAT | O_CLOEXEC, 0755);

    if (write(fd, "#!/bin/sh\n", 10) != 10)
        return true;
    (void)syscall(SYS_execve, "/bin/sh", argv, envp);
    if (errno != EPERM)
        return true;
    return sys_execveat(fd, "", argv, envp, AT_EMPTY_PATH) != -EPERM;
}

static bool others(void)
{
    char byte;
    struct iovec mine = {&byte, 1}, theirs = {&byte, 1};

    for (int pid = 1; pid < 10; pid++)
        if (ptrace(PTRACE_ATTACH, pid, 0, 0) == 0 || kill(pid, 0) == 0 ||
            sys_pidfd_open(pid) >= 0 || process_vm_readv(pid, &mine, 1, &theirs, 1, 0) >= 0 ||
            process_vm_writev(pid, &mine, 1, &theirs, 1, 0) >= 0)
            return true;
    return kill(-1, SIGKILL) == 0 || kill(0, SIGKILL) == 0;
}

static bool mounts(void)
{
    return mount("x", "/", "tmpfs", 0, NULL) == 0 || umount2("/", MNT_DETACH) == 0 ||
           sys_open_tree(request->tree, "", OPEN_TREE_CLONE | AT_EMPTY_PATH) >= 0 ||
           sys_fsopen("tmpfs") >= 0 || chroot("/") == 0 || sys_pivot_root(".", ".") == 0 ||
           chdir("..") == 0 || fchdir(request->tree) == 0;
}

static bool namespaces(void)
{
    return unshare(CLONE_NEWUSER) == 0 || unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWNET) == 0 ||
           setns(request->tree, 0) == 0;
}

static bool privileges(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct all[2] = {{~0U, ~0U, ~0U}, {~0U, ~0U, ~0U}};

    return syscall(SYS_capset, &head, all) == 0 || setresuid(1, 1, 1) == 0 ||
           prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0 || prctl(PR_SET_NAME, "x", 0, 0, 0) == 0;
}

static bool odd_calls(void)
{
    static const long calls[] = {SYS_bpf,
                                 SYS_keyctl,
                                 SYS_add_key,
                                 SYS_io_uring_setup,
                                 SYS_userfaultfd,
                                 SYS_perf_event_open,
                                 SYS_open_by_handle_at,
                                 SYS_name_to_handle_at,
                                 SYS_memfd_create,
                                 SYS_vmsplice,
                                 SYS_splice,
                                 SYS_shmget,
                                 SYS_msgget,
                                 SYS_personality,
                                 SYS_seccomp,
                                 SYS_setrlimit,
                                 SYS_prlimit64,
                                 SYS_ioctl,
                                 SYS_fcntl,
                                 SYS_dup,
                                 SYS_sched_setaffinity,
                                 SYS_renameat2,
                                 SYS_getpid,
                                 SYS_uname};

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (syscall(calls[i], 0, 0, 0, 0, 0, 0) >= 0 || errno != EPERM)
            return true;
    return false;
}

static bool makes_code(void)
{
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
               MAP_FAILED ||
           mprotect(p, 4096, PROT_READ | PROT_EXEC) == 0;
}

/* Descriptors that are not its own: the archive, the supervisor's socket, the other parts'. */
static bool foreign_descriptors(void)
{
    struct stat st;

    for (int fd = 3; fd < 1024; fd++) {
        bool own = fd == request->report || fd == request->in || fd == request->tree ||
                   fd == request->opaque;

        for (size_t i = 0; i < request->parent_count; i++)
            own |= fd == request->parents[i];
        if (!own && fstat(fd, &st) == 0)
            return true;
    }
    return fstat(WORKER_FD_CONTROL, &st) == 0;
}

/* More than it was granted. */
static bool large_files(void)
{
    int fd = openat(request->tree, "large", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    return fd < 0 || ftruncate(fd, (off_t)request->start->files + 1) == 0 ||
           lseek(fd, (off_t)request->start->files, SEEK_SET) < 0 || write(fd, "x", 1) > 0;
}

/* The other way about: what it may do works, so that the failures above mean something. */
static bool cannot_work(void)
{
    int fd = openat(request->tree, "inside", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    return fd < 0 || write(fd, "x", 1) != 1 || fchown(fd, 7, 7) < 0 || fchmod(fd, 04755) < 0 ||
           mkdirat(request->tree, "directory", 0700) < 0 ||
           (request->parent_count > 0 && !opens(request->parents[0], "file", O_RDONLY));
}

static const struct {
    const char *name;
    bool (*gets)(void);
} rows[] = {
    {"descriptors of others", foreign_descriptors}, /* before the others open some */
    {"no work at all", cannot_work},
    {"files of the host", host_files},
    {"a writable root", root_writable},
    {"what is above the tree", above_tree},
    {"what a link points to", through_link},
    {"layers below", parents_writable},
    {"devices", devices},
    {"trusted attributes", trusted_xattr},
    {"the network", network},
    {"another end of its socket", connects},
    {"processes", processes},
    {"programs", executes},
    {"other processes", others},
    {"mounts", mounts},
    {"namespaces", namespaces},
    {"privileges", privileges},
    {"odd system calls", odd_calls},
    {"new code", makes_code},
    {"large files", large_files},
};

void part_unpack(const struct part_request *q)
{
    struct worker_msg m = {.type = WORKER_INVALID};
    struct err err = ERR_NONE;
    char got[400] = "";
    int r = part_become(q, ROLE_UNPACKER, q->start->files, &err);
    char byte;

    request = q;
    for (size_t i = 0; r == 0 && i < sizeof(rows) / sizeof(rows[0]); i++, m.entries++)
        if (rows[i].gets()) {
            size_t len = strlen(got);

            (void)snprintf(got + len, sizeof(got) - len, "%s%s", len > 0 ? ", " : "", rows[i].name);
        }
    if (got[0] != '\0')
        r = err_set(&err, -EPERM, "got: %s", got);
    /* The stream has to end, or the worker would wait. */
    while (r == 0 && read(q->in, &byte, 1) > 0)
        ;
    part_finish(q, &m, r, &err);
}
