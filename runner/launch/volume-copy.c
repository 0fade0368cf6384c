/*
 * The process that fills a volume. In namespaces of its own it chroots into an empty directory,
 * keeps three fds, installs a seccomp filter, and only then reads the image. From then on it can
 * read below src, write below dst, and report its result.
 *
 * No other process changes either tree meanwhile. But the image is hostile: any depth, number of
 * links, or size. Anything but files, directories, links, fifos and sockets is left out. Memory
 * holds a path, the open directories that lead to it, and the files with several names, whose
 * number is limited.
 *
 * Runs in a child that volume-fill.c forks.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/file.h"
#include "launch/volume-internal.h"
#include "proto/syscalls.h"

enum {
    DEPTH_MAX = 200,        /* nesting of directories; three fds each */
    LINKS_MAX = 1 << 20,    /* files with several names */
    LINK_BUCKETS = 1 << 12, /* a power of two */
    XATTR_NAMES_MAX = 64 << 10,
    XATTR_VALUE_MAX = 64 << 10, /* the kernel's limit */
    COPY_STEP = 256 << 10,
    CHECK_BYTES = 16 << 20, /* between two checks of the free space */
    CHECK_ENTRIES = 512,    /* likewise */
    MEMORY_MAX = 512 << 20,
    NICENESS = 5,
};

struct volume_copy_link {
    dev_t dev;
    ino_t ino;
    struct volume_copy_link *next;
    char path[]; /* beneath dst */
};

struct fill {
    int src, dst, report;
    uint64_t reserve;
    struct volume_copy_link *links[LINK_BUCKETS];
    size_t link_count;
    unsigned entries; /* since the last check */
    /* path of the file being copied, relative to dst; for links and messages */
    char path[LAUNCH_PATH_MAX * 4 + 2];
    size_t path_len;
    char names[XATTR_NAMES_MAX], value[XATTR_VALUE_MAX], data[COPY_STEP];
    struct err err;
};

static int fill_error(struct fill *f, int code, const char *what)
{
    return err_errno(&f->err, code, "'%s': %s", f->path_len > 0 ? f->path : "/", what);
}

/* ---- confinement ---- */

static int fill_install_filter(void)
{
    /* No call that makes a process, a socket, a mount, a device, or a name outside of the two
     * trees. */
    static const int allowed[] = {
        SYS_openat2,
        SYS_openat,
        SYS_close,
        SYS_read,
        SYS_write,
        SYS_pread64,
        SYS_lseek,
        SYS_pwrite64,
        SYS_ftruncate,
        SYS_fstat,
        SYS_newfstatat,
        SYS_statx,
        SYS_fstatfs,
        SYS_statfs,
        SYS_getdents64,
        SYS_readlinkat,
        SYS_mkdirat,
        SYS_mknodat,
        SYS_symlinkat,
        SYS_linkat,
        SYS_fchown,
        SYS_fchownat,
        SYS_fchmod,
        SYS_fchmodat,
        SYS_utimensat,
        SYS_flistxattr,
        SYS_fgetxattr,
        SYS_fsetxattr,
        SYS_syncfs,
        SYS_poll,
        SYS_ppoll,
        SYS_fcntl,
        SYS_brk,
        SYS_mmap,
        SYS_munmap,
        SYS_mremap,
        SYS_madvise,
        SYS_futex,
        SYS_getpid,
        SYS_gettid,
        SYS_rt_sigreturn,
        SYS_rt_sigprocmask,
        SYS_exit_group,
        SYS_exit,
#if defined(__SANITIZE_ADDRESS__)
        SYS_sigaltstack, /* sanitizers call it before a function that does not return */
#endif
    };
    enum { COUNT = sizeof(allowed) / sizeof(allowed[0]) };
    struct sock_filter code[COUNT + 7];
    struct sock_fprog prog = {.filter = code};
    size_t n = 0;

    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                             (uint32_t)offsetof(struct seccomp_data, arch));
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                             (uint32_t)offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < COUNT; i++)
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)allowed[i],
                                                 (uint8_t)(COUNT - i), 0);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    prog.len = (unsigned short)n;
    return sys_seccomp_filter(0, &prog);
}

/* Changes the root to an empty, read-only directory that is not attached: no host path is
 * reachable. */
static int fill_enter_empty_root(void)
{
    auto_close int fs = sys_fsopen("tmpfs");
    auto_close int mnt = FD_NONE;
    int r = fs;

    if (r >= 0)
        r = sys_fsconfig(fs, FSCONFIG_SET_STRING, "size", "4096", 0);
    if (r == 0)
        r = sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
    if (r < 0)
        return r;
    mnt = sys_fsmount(fs, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_NODEV);
    if (mnt < 0)
        return mnt;
    return fchdir(mnt) < 0 || chroot(".") < 0 ? -errno : 0;
}

/* Moves src, dst and report to 3, 4 and 5, and closes all other fds. */
static int fill_keep_fds(struct fill *f)
{
    enum { OUT_OF_THE_WAY = 100 };
    int *const fds[] = {&f->src, &f->dst, &f->report};

    for (int i = 0; i < 3; i++) {
        *fds[i] = fcntl(*fds[i], F_DUPFD, OUT_OF_THE_WAY);
        if (*fds[i] < 0)
            return -errno;
    }
    for (int i = 0; i < 3; i++) {
        if (dup2(*fds[i], 3 + i) < 0)
            return -errno;
        *fds[i] = 3 + i;
    }
    for (int i = 0; i < 3; i++) /* the child prints no messages */
        (void)close(i);
    return sys_close_range(6, ~0U, 0);
}

static int fill_confine(struct fill *f)
{
    struct rlimit core = {0, 0};
    int r;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    struct rlimit memory = {MEMORY_MAX, MEMORY_MAX};

    if (setrlimit(RLIMIT_AS, &memory) < 0)
        return -errno;
#endif
    (void)prctl(PR_SET_NAME, "rind-fill");
    (void)setpriority(PRIO_PROCESS, 0, NICENESS);
    r = fill_keep_fds(f);
    if (r < 0)
        return r;
    if (setrlimit(RLIMIT_CORE, &core) < 0 || syscall(SYS_setgroups, 0, NULL) < 0 ||
        syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
        return -errno;
    /* Set again: changing ids has cleared it. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return -errno;
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return -errno;
    r = fill_enter_empty_root();
    if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        r = -errno;
    return r < 0 ? r : fill_install_filter();
}

/* ---- free space ---- */

static int fill_check_space(struct fill *f)
{
    struct pollfd p = {.fd = f->report};
    struct statvfs st;

    f->entries = 0;
    if (fstatvfs(f->dst, &st) < 0)
        return fill_error(f, -errno, "room");
    if ((uint64_t)st.f_bavail * st.f_frsize < f->reserve)
        return err_set(&f->err, -ENOSPC, "limit diskReserveBytes: '%s': what is left is the host's",
                       f->path);
    /* POLLERR: the reader has closed the pipe, so the volume is not wanted any more. */
    if (poll(&p, 1, 0) > 0 && (p.revents & POLLERR) != 0)
        return err_set(&f->err, -ECANCELED, "the request has been cancelled");
    return 0;
}

/* ---- one file ---- */

/* Attributes that configure overlayfs, or other security modules, are not copied. */
static bool wants_xattr(const char *name)
{
    return (strncmp(name, "user.", 5) == 0 && strncmp(name, "user.overlay.", 13) != 0) ||
           strcmp(name, "security.capability") == 0 || strncmp(name, "system.posix_acl_", 17) == 0;
}

static int fill_copy_xattrs(struct fill *f, int from, int to)
{
    ssize_t len = flistxattr(from, f->names, sizeof(f->names));

    if (len < 0)
        return errno == EOPNOTSUPP ? 0 : fill_error(f, -errno, "list its attributes");
    for (const char *name = f->names; name < f->names + len; name += strlen(name) + 1) {
        ssize_t size;

        if (!wants_xattr(name))
            continue;
        size = fgetxattr(from, name, f->value, sizeof(f->value));
        if (size < 0)
            return fill_error(f, -errno, "read an attribute");
        if (fsetxattr(to, name, f->value, (size_t)size, 0) < 0)
            return fill_error(f, -errno, "set an attribute");
    }
    return 0;
}

/* The owner comes first, because fchown clears set-id bits and capabilities; times come last. */
static int fill_copy_attributes(struct fill *f, int from, int to, const struct stat *st)
{
    const struct timespec times[2] = {st->st_atim, st->st_mtim};
    int r;

    if (fchown(to, st->st_uid, st->st_gid) < 0 || fchmod(to, st->st_mode & 07777) < 0)
        return fill_error(f, -errno, "set owner and mode");
    r = fill_copy_xattrs(f, from, to);
    if (r == 0 && futimens(to, times) < 0)
        r = fill_error(f, -errno, "set times");
    return r;
}

static int fill_copy_extent(struct fill *f, int from, int to, off_t at, off_t end)
{
    off_t looked = at;

    /* read and write, because no kernel copies from an overlay to its lower file system. */
    while (at < end) {
        size_t want = end - at < COPY_STEP ? (size_t)(end - at) : COPY_STEP;
        ssize_t n = pread(from, f->data, want, at), put;

        if (n < 0)
            return fill_error(f, -errno, "read");
        if (n == 0)
            break; /* the file is shorter than fstat has said */
        for (ssize_t done = 0; done < n; done += put) {
            put = pwrite(to, f->data + done, (size_t)(n - done), at + done);
            if (put < 0)
                return fill_error(f, -errno, "write");
        }
        at += n;
        if (at - looked >= CHECK_BYTES) {
            int r = fill_check_space(f);

            if (r < 0)
                return r;
            looked = at;
        }
    }
    return 0;
}

static int fill_copy_data(struct fill *f, int from, int to, off_t size)
{
    off_t at = 0, end;
    int r = 0;

    while (r == 0 && at < size) {
        at = lseek(from, at, SEEK_DATA);
        if (at < 0 && errno == ENXIO)
            break; /* the rest is a hole */
        end = at < 0 ? -1 : lseek(from, at, SEEK_HOLE);
        if (at < 0 || end < 0)
            return fill_error(f, -errno, "read");
        r = fill_copy_extent(f, from, to, at, end);
        at = end;
    }
    return r == 0 && ftruncate(to, size) < 0 ? fill_error(f, -errno, "set its size") : r;
}

/* Links a file that dst has under another name. Returns 1 if it did, 0 if the file is new. */
static int fill_copy_hard_link(struct fill *f, int to_dir, const char *name, const struct stat *st)
{
    struct volume_copy_link **at = &f->links[(st->st_ino ^ st->st_dev) & (LINK_BUCKETS - 1)], *l;

    if (st->st_nlink < 2)
        return 0;
    for (l = *at; l != NULL; l = l->next)
        if (l->ino == st->st_ino && l->dev == st->st_dev)
            return linkat(f->dst, l->path, to_dir, name, 0) < 0 ? fill_error(f, -errno, "link") : 1;
    if (f->link_count++ == LINKS_MAX)
        return err_set(&f->err, -EMLINK, "'%s': more than %d files with several names", f->path,
                       LINKS_MAX);
    l = malloc(sizeof(*l) + f->path_len + 1);
    if (l == NULL)
        return fill_error(f, -ENOMEM, "link");
    l->dev = st->st_dev;
    l->ino = st->st_ino;
    (void)memcpy(l->path, f->path, f->path_len + 1);
    l->next = *at;
    *at = l;
    return 0;
}

static int fill_copy_regular(struct fill *f, int from_dir, int to_dir, const char *name,
                             const struct stat *st)
{
    auto_close int from = openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    auto_close int to = FD_NONE;
    struct stat now;
    int r;

    if (from < 0 || fstat(from, &now) < 0)
        return fill_error(f, -errno, "open");
    if (!S_ISREG(now.st_mode))
        return fill_error(f, -EBADF, "open");
    to = openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (to < 0)
        return fill_error(f, -errno, "make");
    r = fill_copy_data(f, from, to, now.st_size);
    return r < 0 ? r : fill_copy_attributes(f, from, to, st);
}

static int set_link_attributes(struct fill *f, int dir, const char *name, const struct stat *st)
{
    const struct timespec times[2] = {st->st_atim, st->st_mtim};

    if (fchownat(dir, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0 ||
        utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0)
        return fill_error(f, -errno, "set owner and times");
    return 0;
}

static int fill_copy_symlink(struct fill *f, int from_dir, int to_dir, const char *name,
                             const struct stat *st)
{
    char target[LAUNCH_PATH_MAX + 1];
    ssize_t n = readlinkat(from_dir, name, target, sizeof(target) - 1);

    if (n < 0)
        return fill_error(f, -errno, "read the link");
    target[n] = '\0';
    if (symlinkat(target, to_dir, name) < 0)
        return fill_error(f, -errno, "make the link");
    return set_link_attributes(f, to_dir, name, st);
}

static int fill_copy_node(struct fill *f, int to_dir, const char *name, const struct stat *st)
{
    if (mknodat(to_dir, name, (st->st_mode & S_IFMT) | 0600, 0) < 0)
        return fill_error(f, -errno, "make");
    if (fchownat(to_dir, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0 ||
        fchmodat(to_dir, name, st->st_mode & 07777, 0) < 0)
        return fill_error(f, -errno, "set owner and mode");
    return set_link_attributes(f, to_dir, name, st);
}

/* ---- trees ---- */

static int fill_copy_dir(struct fill *f, int from, int to, int depth);

static int fill_copy_subdir(struct fill *f, int from_dir, int to_dir, const char *name,
                            const struct stat *st, int depth)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    auto_close int from = FD_NONE, to = FD_NONE;
    int r;

    if (depth == DEPTH_MAX)
        return err_set(&f->err, -ELOOP, "'%.200s…': deeper than %d directories", f->path,
                       DEPTH_MAX);
    if (mkdirat(to_dir, name, 0700) < 0)
        return fill_error(f, -errno, "make");
    from = openat(from_dir, name, flags);
    to = openat(to_dir, name, flags);
    if (from < 0 || to < 0)
        return fill_error(f, -errno, "open");
    r = fill_copy_dir(f, from, to, depth + 1);
    return r < 0 ? r : fill_copy_attributes(f, from, to, st);
}

static int fill_copy_entry(struct fill *f, int from_dir, int to_dir, const char *name, int depth)
{
    struct stat st;
    int r;

    if (fstatat(from_dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return fill_error(f, -errno, "look at it");
    if (f->entries++ >= CHECK_ENTRIES && (r = fill_check_space(f)) < 0)
        return r;
    if (S_ISDIR(st.st_mode))
        return fill_copy_subdir(f, from_dir, to_dir, name, &st, depth);
    r = fill_copy_hard_link(f, to_dir, name, &st);
    if (r != 0)
        return r < 0 ? r : 0;
    if (S_ISREG(st.st_mode))
        return fill_copy_regular(f, from_dir, to_dir, name, &st);
    if (S_ISLNK(st.st_mode))
        return fill_copy_symlink(f, from_dir, to_dir, name, &st);
    if (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode))
        return fill_copy_node(f, to_dir, name, &st);
    return 0; /* a device: it can be neither made nor opened here */
}

static int fill_copy_named(struct fill *f, int from, int to, const char *name, int depth)
{
    const size_t before = f->path_len, slash = before > 0 ? 1 : 0, len = strlen(name);
    int r;

    if (before + slash + len + 1 > sizeof(f->path))
        return fill_error(f, -ENAMETOOLONG, "its names");
    if (slash > 0)
        f->path[before] = '/';
    (void)memcpy(f->path + before + slash, name, len + 1);
    f->path_len = before + slash + len;
    r = fill_copy_entry(f, from, to, name, depth);
    f->path_len = before;
    f->path[before] = '\0';
    return r;
}

static int fill_copy_dir(struct fill *f, int from, int to, int depth)
{
    auto_ptr(dir_close) DIR *d = dir_take(fcntl(from, F_DUPFD_CLOEXEC, 3));
    const struct dirent *e;
    int r = 0;

    if (d == NULL)
        return fill_error(f, -ENOMEM, "read the directory");
    while (r == 0 && (e = dir_next(d)) != NULL)
        r = fill_copy_named(f, from, to, e->d_name, depth);
    return r == 0 && errno != 0 ? fill_error(f, -errno, "read the directory") : r;
}

/* Copies the image's directory job->path, resolved within the image. Returns 0 if it does not
 * exist. */
static int fill_copy_all(struct fill *f, const struct fill_job *job)
{
    auto_close int from = sys_openat2(f->src, job->path, O_RDONLY | O_DIRECTORY, 0,
                                      RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
    /* f->dst may be an O_PATH fd of a mount, which cannot be written through. */
    auto_close int to = openat(f->dst, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;
    int r;

    if ((from == -ENOENT || from == -ENOTDIR) && !job->must)
        return 0;
    if (from == -ENOENT || from == -ENOTDIR)
        return err_errno(&f->err, from, "'%s'", job->path);
    if (from < 0 || fstat(from, &st) < 0)
        return fill_error(f, from < 0 ? from : -errno, "open the image's directory");
    if (to < 0)
        return fill_error(f, -errno, "open the volume");
    r = fill_check_space(f);
    if (r == 0)
        r = fill_copy_dir(f, from, to, 0);
    if (r == 0)
        r = fill_copy_attributes(f, from, to, &st);
    if (r == 0 && job->sync && syncfs(to) < 0)
        r = fill_error(f, -errno, "write to the disk");
    return r < 0 ? r : 1;
}

_Noreturn void fill_run(const struct fill_job *job)
{
    static struct fill f;
    struct volume_report report;
    int r;

    f.src = job->src;
    f.dst = job->dst;
    f.report = job->report;
    f.reserve = job->reserve;
    r = fill_confine(&f);
    if (r < 0)
        (void)err_errno(&f.err, r, "confine the process that fills it");
    else
        r = fill_copy_all(&f, job);
    report = (struct volume_report){.code = r < 0 ? r : 0};
    (void)snprintf(report.message, sizeof(report.message), "fill the volume: %.400s", f.err.msg);
    (void)!write(f.report, &report, sizeof(report));
    _exit(r < 0 ? FILL_FAILED : r == 0 ? FILL_NOTHING : FILL_DONE);
}
