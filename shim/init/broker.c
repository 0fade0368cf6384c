/*
 * A broker: does one system call in the caller's stead (guard.h). Should: have no more rights than
 * the caller from the first access to a file on, and check the opened file, never its name.
 * Mustn't: pass on a file of its own (/proc/self), or outlive the call.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <linux/stat.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include "init/guard.h"
#include "init/init.h"
#include "proto/syscalls.h"

enum {
    SET_ID = S_ISUID | S_ISGID,
    MODE_ALL = 07777,
    TMPFILE = 020000000, /* O_TMPFILE without O_DIRECTORY */
    FCHMODAT2_NR = 452,
    TEXT_MAX_BYTES = 32 << 10, /* a status file with BROKER_GROUPS_MAX groups */
    COPY_STEP = 4096,
    CREATE_TRIES = 8,
    LISTENER_FD = 3, /* numbers of the broker's descriptors */
    PROC_FD,
    OWNER_FD,
    FREE_FD,
    /* The flags of open(2) without FASYNC: openat2 refuses flags that it does not know. */
    OPEN_FLAGS = O_ACCMODE | O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_APPEND | O_NONBLOCK |
                 O_DSYNC | O_SYNC | O_DIRECT | O_DIRECTORY | O_NOFOLLOW | O_NOATIME | TMPFILE,
};

enum op { OP_CHMOD, OP_FCHMOD, OP_OPEN };

/* The call, decoded from any of the system calls. */
struct request {
    enum op op;
    bool has_dir;   /* dirfd is used, for a relative path */
    bool chmodat2;  /* the call is fchmodat2, which older kernels lack */
    int dirfd;      /* dirfd, or the descriptor of fchmod */
    uint64_t path;  /* address in the caller's memory */
    unsigned flags; /* flags of open or of fchmodat2 */
    unsigned mode;
};

struct broker {
    const struct guard *guard;
    const struct guard_call *call;
    struct request q;
    int dir;     /* /proc/<the thread>, O_PATH */
    int base;    /* the directory for its relative paths, or -1 */
    int by_path; /* the caller's descriptor that its path may name, or -1 */
    struct broker_status who;
    bool may_fsetid;
    char path[PATH_MAX];
};

/* ---- decoding the call ---- */

static int32_t arg_int(const struct guard_call *c, int i)
{
    return (int32_t)(uint32_t)c->args[i];
}

static bool decode(const struct guard_call *c, struct request *q)
{
    const unsigned a1 = (unsigned)c->args[1], a2 = (unsigned)c->args[2];

    *q = (struct request){.op = OP_CHMOD, .path = c->args[1], .dirfd = arg_int(c, 0), .mode = a2};
    switch (c->nr) {
    case SYS_fchmod:
        *q = (struct request){.op = OP_FCHMOD, .dirfd = arg_int(c, 0), .mode = a1};
        return true;
    case FCHMODAT2_NR:
        q->chmodat2 = true;
        q->flags = (unsigned)c->args[3];
        q->has_dir = true;
        return true;
    case SYS_fchmodat:
        q->has_dir = true;
        return true;
    case SYS_openat:
        q->op = OP_OPEN;
        q->has_dir = true;
        q->flags = a2;
        q->mode = (unsigned)c->args[3];
        return true;
#ifdef SYS_chmod
    case SYS_chmod:
        *q = (struct request){.op = OP_CHMOD, .path = c->args[0], .mode = a1};
        return true;
    case SYS_open:
        *q = (struct request){.op = OP_OPEN, .path = c->args[0], .flags = a1, .mode = a2};
        return true;
    case SYS_creat:
        *q = (struct request){
            .op = OP_OPEN, .path = c->args[0], .flags = O_CREAT | O_WRONLY | O_TRUNC, .mode = a1};
        return true;
#endif
    default:
        return false;
    }
}

/* ---- the caller ---- */

/* A short name in a directory of /proc, such as "fd/7". */
struct name {
    char text[32];
};

static struct name name_of(const char *prefix, int number)
{
    struct name n;
    struct text t = text_begin(n.text, sizeof(n.text));

    text_add_str(&t, prefix);
    text_add_number(&t, (uint32_t)number);
    return n;
}

/*
 * Finds the thread's id in this pid namespace and opens its /proc directory. The open directory
 * stays that of this thread, even if its id is used again. 0 or -errno.
 */
static int find_thread(struct broker *b)
{
    struct f_owner_ex owner = {.pid = 0};

    if (fcntl(OWNER_FD, F_GETOWN_EX, &owner) < 0)
        return -errno;
    if (owner.pid <= 0)
        return -ESRCH;
    b->dir = openat(PROC_FD, name_of("", owner.pid).text, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return b->dir < 0 ? -errno : 0;
}

static int read_text(const struct broker *b, const char *name, char *text, size_t size)
{
    int fd = openat(b->dir, name, O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t n = 1;

    if (fd < 0)
        return -errno;
    while (n > 0 && len < size - 1) {
        n = read(fd, text + len, size - 1 - len);
        len += n > 0 ? (size_t)n : 0;
    }
    (void)close(fd);
    text[len] = '\0';
    return n < 0 ? -errno : n > 0 ? -E2BIG : 0;
}

/* Reads the path from the caller's memory, as the kernel would. */
static int read_path(struct broker *b)
{
    uint64_t at = b->q.path;
    size_t len = 0;
    int fd = openat(b->dir, "mem", O_RDONLY | O_CLOEXEC), r = -ENAMETOOLONG;

    if (fd < 0)
        return -errno;
    while (len < sizeof(b->path)) {
        size_t room = sizeof(b->path) - len, step = COPY_STEP - at % COPY_STEP;
        ssize_t n =
            at > INT64_MAX ? -1 : pread(fd, b->path + len, step < room ? step : room, (off_t)at);

        if (n <= 0) {
            r = -EFAULT;
            break;
        }
        if (memchr(b->path + len, '\0', (size_t)n) != NULL) {
            r = 0;
            break;
        }
        len += (size_t)n;
        at += (size_t)n;
    }
    (void)close(fd);
    return r;
}

/* Opens one of the caller's descriptors with O_PATH. */
static int open_callers(const struct broker *b, int number)
{
    int fd;

    if (number < 0)
        return -EBADF;
    fd = openat(b->dir, name_of("fd/", number).text, O_PATH | O_CLOEXEC);
    return fd >= 0 ? fd : errno == ENOENT ? -EBADF : -errno;
}

/* Opens the caller's descriptor for fchmod(2), which refuses O_PATH descriptors. */
static int open_for_fchmod(const struct broker *b)
{
    char text[1024];
    int fd = open_callers(b, b->q.dirfd), r;

    if (fd < 0)
        return fd;
    r = read_text(b, name_of("fdinfo/", b->q.dirfd).text, text, sizeof(text));
    /* If the text was cut off, only locks or watches are missing, which follow the flags. */
    return (r == 0 || r == -E2BIG) && !broker_fdinfo_is_path(text) ? fd : -EBADF;
}

/* Opens the directory where the caller's relative paths begin. */
static int open_base(const struct broker *b)
{
    int fd;

    if (b->q.has_dir && b->q.dirfd != AT_FDCWD)
        return open_callers(b, b->q.dirfd);
    fd = openat(b->dir, "cwd", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static bool still_waits(const struct broker *b)
{
    uint64_t id = b->call->id;

    return guard_ioctl(LISTENER_FD, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

/* ---- taking the caller's rights ---- */

static int set_caps(const struct broker *b, bool fsetid)
{
    const uint64_t caps = b->who.caps, more = UINT64_C(1) << CAP_FSETID;

    return -exec_set_caps(b->may_fsetid ? caps | more : caps, fsetid ? caps | more : caps);
}

static int take_root(const struct broker *b)
{
    int fd = openat(b->dir, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    if (fchdir(fd) < 0 || chroot(".") < 0)
        return -errno;
    (void)close(fd);
    return 0;
}

/* Takes the caller's ids and capabilities, permanently. */
static int take_rights(struct broker *b, bool ids_open)
{
    const struct broker_status *w = &b->who;
    const uint64_t all = b->guard->capabilities;

    if (ids_open && (w->uid != 0 || w->gid != 0))
        return -EPERM;
    b->may_fsetid = b->guard->fsetid && w->uid == 0 && (w->caps & all) == all;
    (void)umask(w->umask);
    if (setgroups(w->group_count, w->groups) < 0 || setresgid(w->gid, w->gid, w->gid) < 0 ||
        prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || setresuid(w->uid, w->uid, w->uid) < 0 ||
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return -errno;
    return set_caps(b, false);
}

/* ---- the named object ---- */

static long open_path(const char *path, uint64_t flags, unsigned mode)
{
    /* /proc/self is the broker's own here, not the caller's, so no path may go through it. */
    struct open_how how = {
        .flags = flags | O_CLOEXEC, .mode = mode, .resolve = RESOLVE_NO_MAGICLINKS};
    long fd = -EAGAIN;

    for (int tries = 0; tries < OPENAT2_TRIES && fd == -EAGAIN; tries++)
        fd = sys_ret(syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how)));
    return fd;
}

static bool is_procfs(int fd)
{
    struct statfs fs;

    return fstatfs(fd, &fs) < 0 || fs.f_type == PROC_SUPER_MAGIC;
}

/* True if the path names a descriptor by number, as libcs do where a kernel lacks the call. */
static bool is_by_number(const struct broker *b)
{
    int fd = b->by_path < 0 ? -1 : open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
    bool is = fd >= 0 && is_procfs(fd);

    if (fd >= 0)
        (void)close(fd);
    return is;
}

static bool is_guarded(const struct broker *b, int fd, struct statx *st)
{
    const unsigned want = STATX_TYPE | STATX_MODE | STATX_MNT_ID;

    if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, want, st) < 0 || (st->stx_mask & want) != want)
        return true;
    for (unsigned i = 0; i < b->guard->other_count; i++)
        if (b->guard->others[i] == st->stx_mnt_id)
            return false;
    return true;
}

/* ---- chmod ---- */

/*
 * Changes the mode through /proc, which works on every kernel. The seccomp baseline stops this
 * call, too, and init lets it through.
 */
static int set_mode(const struct broker *b, int fd, unsigned mode, bool guarded)
{
    int r = 0;

    if (b->may_fsetid && !guarded)
        r = set_caps(b, true);
    if (r == 0 && fchmodat(PROC_FD, name_of("self/fd/", fd).text, mode & MODE_ALL, 0) < 0)
        r = -errno;
    return r;
}

/* Opens the object of chmod, fchmodat or fchmodat2. */
static int open_object(const struct broker *b)
{
    const unsigned flags = b->q.chmodat2 ? b->q.flags : 0;

    if ((flags & ~(unsigned)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) != 0)
        return -EINVAL;
    if (b->path[0] == '\0' && (flags & AT_EMPTY_PATH) != 0)
        return b->base;
    if ((flags & AT_SYMLINK_NOFOLLOW) == 0 && is_by_number(b))
        return b->by_path;
    return (int)open_path(b->path, O_PATH | ((flags & AT_SYMLINK_NOFOLLOW) ? O_NOFOLLOW : 0), 0);
}

static int do_chmod(const struct broker *b, int fd)
{
    struct statx st = {0};
    bool guarded = is_guarded(b, fd, &st);

    if (S_ISLNK(st.stx_mode))
        return -EOPNOTSUPP;
    if (guarded && !S_ISDIR(st.stx_mode))
        return -EPERM;
    return set_mode(b, fd, b->q.mode, guarded);
}

/* ---- open ---- */

/*
 * Opens an existing file; the call's mode does not matter for it. Only regular files are opened in
 * the caller's stead: the open of another type could block for ever, or refer to the broker itself.
 */
static int open_existing(const struct broker *b, unsigned flags)
{
    const unsigned again = flags & ~(unsigned)(O_CREAT | O_EXCL | O_NOFOLLOW);
    struct stat st;
    int fd = (int)open_path(b->path, O_PATH | (flags & O_NOFOLLOW), 0), r;

    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        r = -errno;
    else if (S_ISLNK(st.st_mode))
        r = -ELOOP;
    else if (S_ISDIR(st.st_mode))
        r = -EISDIR;
    else if (!S_ISREG(st.st_mode) || is_procfs(fd))
        r = -EPERM;
    else
        r = (int)sys_ret(openat(PROC_FD, name_of("self/fd/", fd).text, (int)(again | O_CLOEXEC)));
    (void)close(fd);
    return r;
}

/* Opens the path as the kernel would, but without set-id bits, and only a regular file. */
static int open_plain(const struct broker *b, unsigned flags)
{
    struct stat st;
    int fd = (int)open_path(b->path, flags, b->q.mode & MODE_ALL & ~(unsigned)SET_ID);

    if (fd < 0 || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && !is_procfs(fd)))
        return fd;
    (void)close(fd);
    return -EPERM;
}

/* Creates a file without set-id bits, and sets the bits afterwards if the mount allows them. */
static int open_new(const struct broker *b, unsigned flags)
{
    struct stat st;
    struct statx stx;
    int fd = open_plain(b, flags);

    if (fd >= 0 && fstat(fd, &st) == 0 && !is_guarded(b, fd, &stx))
        (void)set_mode(b, fd, (st.st_mode & MODE_ALL) | (b->q.mode & SET_ID), false);
    return fd;
}

static int do_open(const struct broker *b)
{
    const unsigned flags = b->q.flags & OPEN_FLAGS;
    int fd = -EEXIST;

    if ((b->q.flags & O_PATH) != 0)
        return -EPERM; /* O_PATH creates no file, so the baseline never stops it */
    if ((flags & TMPFILE) != 0)
        return open_new(b, flags);
    /*
     * Only O_EXCL shows that a file is new. A dangling link is an existing file for O_EXCL, and a
     * missing one without it. A file that is created at its end gets no set-id bits.
     */
    for (int tries = 0; tries < CREATE_TRIES; tries++) {
        if ((flags & O_EXCL) == 0) {
            fd = open_existing(b, flags);
            if (fd != -ENOENT)
                return fd;
        }
        fd = open_new(b, flags | O_EXCL);
        if (fd != -EEXIST || (flags & O_EXCL) != 0)
            return fd;
    }
    return open_plain(b, flags);
}

/* Installs the file in the caller, as the result of the call. */
static void hand_over(const struct broker *b, int fd)
{
    struct seccomp_notif_addfd add = {
        .id = b->call->id,
        .flags = SECCOMP_ADDFD_FLAG_SEND,
        .srcfd = (uint32_t)fd,
        .newfd_flags = (b->q.flags & O_CLOEXEC) != 0 ? O_CLOEXEC : 0,
    };
    int r;

    if (guard_ioctl(LISTENER_FD, SECCOMP_IOCTL_NOTIF_ADDFD, &add) >= 0)
        return;
    if (errno != EINVAL) {
        guard_answer(LISTENER_FD, b->call->id, -errno);
        return;
    }
    add.flags = 0; /* before Linux 5.14 this takes two steps */
    r = guard_ioctl(LISTENER_FD, SECCOMP_IOCTL_NOTIF_ADDFD, &add);
    guard_answer(LISTENER_FD, b->call->id, r < 0 ? -errno : r);
}

/* ---- the whole call ---- */

/* True if the kernel has fchmodat2; otherwise the caller must get ENOSYS. */
static bool knows_fchmodat2(void)
{
    return syscall(FCHMODAT2_NR, -1, "", 0, 0) == 0 || errno != ENOSYS;
}

/* True if the call names the descriptor itself, which then need not be a directory. */
static bool names_base(const struct broker *b)
{
    return b->q.chmodat2 && (b->q.flags & AT_EMPTY_PATH) != 0 && b->path[0] == '\0';
}

/* Opens the directory where the caller's path begins. */
static int open_beginning(struct broker *b)
{
    const int number = broker_path_fd(b->path);

    if (b->path[0] != '/')
        return b->base = open_base(b);
    if (number >= 0)
        b->by_path = open_callers(b, number); /* -1 if the caller has no such descriptor */
    return 0;
}

/*
 * Does everything that needs more rights than the caller has. Returns the object of fchmod, or 0;
 * or -errno.
 */
static int prepare(struct broker *b, bool ids_open)
{
    static char text[TEXT_MAX_BYTES];
    int object = 0, r = find_thread(b);

    if (r == 0)
        r = read_text(b, "status", text, sizeof(text));
    if (r == 0 && broker_status_parse(text, &b->who) < 0)
        r = -EPERM;
    if (r == 0 && b->q.op == OP_FCHMOD)
        r = object = open_for_fchmod(b);
    else if (r == 0)
        r = read_path(b);
    if (r == 0 && b->q.op != OP_FCHMOD)
        r = open_beginning(b);
    /* If the call still waits, everything read above belonged to the caller. */
    if (r >= 0 && !still_waits(b))
        r = -ESRCH;
    if (r >= 0)
        r = take_root(b);
    if (r == 0 && b->base >= 0 && !names_base(b) && fchdir(b->base) < 0)
        r = -errno;
    if (r == 0)
        r = take_rights(b, ids_open);
    return r < 0 ? r : object;
}

static int run(struct broker *b, bool ids_open)
{
    int r = prepare(b, ids_open), fd;

    if (r < 0)
        return r;
    if (b->q.op == OP_FCHMOD)
        return do_chmod(b, r);
    if (b->q.op == OP_OPEN)
        return do_open(b);
    if (b->q.chmodat2 && !knows_fchmodat2())
        return -ENOSYS;
    fd = open_object(b);
    return fd < 0 ? fd : do_chmod(b, fd);
}

/* Closes every descriptor of init except these. */
static int keep_descriptors(const struct guard *g, int owner)
{
    int fds[] = {g->listener, g->proc, owner};

    for (int i = 0; i < 3; i++) {
        fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 16);
        if (fds[i] < 0)
            return -errno;
    }
    for (int i = 0; i < 3; i++)
        if (dup3(fds[i], LISTENER_FD + i, O_CLOEXEC) < 0)
            return -errno;
    return sys_close_range(FREE_FD, ~0U, 0);
}

void broker_main(const struct guard *g, const struct guard_call *call, int owner, bool ids_open)
{
    static struct broker b;
    int r;

    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    b = (struct broker){.guard = g, .call = call, .base = -1, .by_path = -1};
    if (keep_descriptors(g, owner) < 0)
        _exit(1); /* init answers the call in guard_reaped */
    r = decode(call, &b.q) ? run(&b, ids_open) : -EPERM;
    if (r >= 0 && b.q.op == OP_OPEN)
        hand_over(&b, r);
    else
        guard_answer(LISTENER_FD, call->id, r < 0 ? r : 0);
    _exit(0);
}
