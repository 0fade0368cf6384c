/*
 * What stands in the place of parts in build/builder/rind-rootfs-subverted, for tests/integ/
 * test-rootfs-worker and tests/unit/test-launcher-subverted: an archive has taken one over, and it
 * now tries to get out. It is confined just as the part is, and has the same descriptors.
 *
 * Each thing that it must not get is one row. The unpacker's result is FAILED with the names of
 * those that it got, or DONE, with as many entries as there were rows. The others' is FAILED in any
 * case, with the number of rows and what was got: of their DONE nothing is passed on.
 */
#include "parts.h"

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
#include "proto/landlock.h"
#include "proto/syscalls.h"

enum { UNPACKER = 1, CODEC = 2, SPLITTER = 4, PACKER = 8, ALL = 15 };

static const struct part_request *request;
static unsigned who;
static bool locked; /* the kernel has Landlock */

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
           opens(AT_FDCWD, "/dev/null", O_RDONLY) || opens(AT_FDCWD, "/sys", O_RDONLY) ||
           (locked && opens(AT_FDCWD, "/", O_RDONLY | O_DIRECTORY)); /* an empty directory */
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
    int fd;

    (void)syscall(SYS_execve, "/bin/sh", argv, envp);
    if (errno != EPERM)
        return true;
    if (who != UNPACKER)
        return sys_execveat(request->in, "", argv, envp, AT_EMPTY_PATH) != -EPERM;
    fd = openat(request->tree, "program", O_RDWR | O_CREAT | O_CLOEXEC, 0755);
    if (write(fd, "#!/bin/sh\n", 10) != 10)
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
        if ((syscall(calls[i], 0, 0, 0, 0, 0, 0) >= 0 || errno != EPERM) &&
            !(who == CODEC && calls[i] == SYS_splice && errno != ENOSYS))
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

static bool is_there(int fd)
{
    return lseek(fd, 0, SEEK_CUR) >= 0 || errno != EBADF;
}

/* Descriptors that are not its own: the archive, the supervisor's socket, the other parts'. */
static bool foreign_descriptors(void)
{
    for (int fd = 3; fd < 1024; fd++) {
        bool own = fd == request->report || fd == request->in || fd == request->out ||
                   fd == request->tree || fd == request->opaque;

        for (size_t i = 0; i < request->parent_count; i++)
            own |= fd == request->parents[i];
        if (!own && is_there(fd))
            return true;
    }
    return is_there(WORKER_FD_CONTROL);
}

/* Bytes that go into files uncounted. */
static bool maps_files(void)
{
    int fd = openat(request->tree, who == UNPACKER ? "mapped" : "usr",
                    who == UNPACKER ? O_RDWR | O_CREAT | O_CLOEXEC : O_RDONLY | O_CLOEXEC, 0600);
    int prot = who == UNPACKER ? PROT_READ | PROT_WRITE : PROT_READ;

    return fd < 0 || (who == UNPACKER && ftruncate(fd, 4096) < 0) ||
           mmap(NULL, 4096, prot, MAP_SHARED, fd, 0) != MAP_FAILED || errno != EPERM;
}

/* What is only to be read. */
static bool tree_writable(void)
{
    int tree = request->tree;
    int fd = openat(tree, "usr", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 || opens(tree, "x", O_WRONLY | O_CREAT) || mkdirat(tree, "d", 0700) == 0 ||
           unlinkat(tree, "usr", AT_REMOVEDIR) == 0 || symlinkat("x", tree, "l") == 0 ||
           fchmodat(tree, "usr", 0777, 0) == 0 || fchownat(tree, "usr", 1, 1, 0) == 0 ||
           utimensat(tree, "usr", NULL, 0) == 0 || fchmod(fd, 0777) == 0 ||
           fsetxattr(fd, "user.x", "x", 1, 0) == 0;
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
    unsigned by;
} rows[] = {
    {"descriptors of others", foreign_descriptors, ALL}, /* before the others open some */
    {"no work at all", cannot_work, UNPACKER},
    {"a writable tree", tree_writable, PACKER},
    {"files of the host", host_files, ALL},
    {"a writable root", root_writable, ALL},
    {"what is above the tree", above_tree, UNPACKER | PACKER},
    {"what a link points to", through_link, UNPACKER},
    {"layers below", parents_writable, UNPACKER},
    {"devices", devices, UNPACKER},
    {"trusted attributes", trusted_xattr, UNPACKER},
    {"the network", network, ALL},
    {"another end of its socket", connects, ALL},
    {"processes", processes, ALL},
    {"programs", executes, ALL},
    {"other processes", others, ALL},
    {"mounts", mounts, ALL},
    {"namespaces", namespaces, ALL},
    {"privileges", privileges, ALL},
    {"odd system calls", odd_calls, ALL},
    {"new code", makes_code, ALL},
    {"mapped files", maps_files, UNPACKER | PACKER},
    {"large files", large_files, UNPACKER},
};

/* Returns how many were tried; the names of those that it got in `got`. */
static unsigned try_all(const struct part_request *q, unsigned as, char *got, size_t size)
{
    unsigned tried = 0;

    request = q;
    who = as;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t len = strlen(got);

        if ((rows[i].by & as) == 0)
            continue;
        tried++;
        if (rows[i].gets())
            (void)snprintf(got + len, size - len, "%s%s", len > 0 ? ", " : "", rows[i].name);
    }
    return tried;
}

/* Returns when somebody has written more than anybody should be able to. */
static void flood(const struct part_request *q)
{
    static char block[FLOOD_FILE];
    char name[16];

    for (int i = 0; i < FLOOD_FILES; i++) {
        int fd;

        (void)snprintf(name, sizeof(name), "%d", i);
        fd = openat(q->tree, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0 || write(fd, block, sizeof(block)) < 0 || close(fd) < 0)
            return;
    }
}

/* Instead of the real ones (-Wl,--wrap), which stay there for when they are not the ones. */
void __real_part_codec(const struct part_request *q) __attribute__((noreturn));
void __real_part_split(const struct part_request *q) __attribute__((noreturn));
void __real_part_pack(const struct part_request *q) __attribute__((noreturn));
void __wrap_part_codec(const struct part_request *q) __attribute__((noreturn));
void __wrap_part_split(const struct part_request *q) __attribute__((noreturn));
void __wrap_part_pack(const struct part_request *q) __attribute__((noreturn));
void __wrap_part_unpack(const struct part_request *q) __attribute__((noreturn));

static _Noreturn void subverted(const struct part_request *q, enum confine_role role, unsigned as)
{
    struct worker_msg m = {.type = WORKER_INVALID};
    struct err err = ERR_NONE;
    char got[400] = "";
    int r;
    unsigned tried;

    locked = landlock_abi() >= LOCK_ABI_REFER;
    r = part_become(q, role, 0, &err);
    tried = r == 0 ? try_all(q, as, got, sizeof(got)) : 0;

    if (r == 0)
        r = err_set(&err, -EDOM, "tried %u, got: %s", tried, got);
    part_finish(q, &m, r, &err);
}

void __wrap_part_codec(const struct part_request *q)
{
    if (q->start->entries != SUBVERT_CODEC)
        __real_part_codec(q);
    subverted(q, ROLE_CODEC, CODEC);
}

void __wrap_part_split(const struct part_request *q)
{
    if (q->start->entries != SUBVERT_SPLITTER)
        __real_part_split(q);
    subverted(q, ROLE_SPLITTER, SPLITTER);
}

void __wrap_part_pack(const struct part_request *q)
{
    if (q->start->entries != SUBVERT_PACKER)
        __real_part_pack(q);
    subverted(q, ROLE_PACKER, PACKER);
}

void __wrap_part_unpack(const struct part_request *q)
{
    struct worker_msg m = {.type = WORKER_INVALID};
    struct err err = ERR_NONE;
    char got[400] = "";
    char byte;
    int r;

    locked = landlock_abi() >= LOCK_ABI_REFER;
    r = part_become(q, ROLE_UNPACKER, q->start->files, &err);

    if (r == 0 && q->start->entries == SUBVERT_FLOOD)
        flood(q);
    else if (r == 0 && q->start->entries != SUBVERT_CODEC)
        m.entries = try_all(q, UNPACKER, got, sizeof(got));
    if (got[0] != '\0')
        r = err_set(&err, -EPERM, "got: %s", got);
    /* The stream has to end, or the worker would wait. */
    while (r == 0 && read(q->in, &byte, 1) > 0)
        ;
    part_finish(q, &m, r, &err);
}
