/*
 * Opens a host path that a client names: below the owner's prefixes, through no symbolic link, with
 * the client's rights.
 *
 * A file system may never answer: a FUSE server that its user has stopped, or an unreachable NFS
 * server. The launcher has one thread. So a path that is not in the kernel's caches, or whose file
 * system has no disk, is opened by a child with a deadline. The child holds none of the launcher's
 * fds: if it hangs in the kernel it cannot be killed, and must not hold a lock. Every call that
 * asks the file system is made there.
 *
 * Runs in the launcher and in that child.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/socket.h"
#include "launch/sandbox.h"
#include "proto/syscalls.h"

enum {
    OPEN_MS = 5000,
    /* The time-out of a creator whose last file system did not answer, so that one user cannot
     * delay others again and again. */
    OPEN_AGAIN_MS = 100,
    UID_BACKOFF_MS = 60 * 1000,
};

/* The child's message, which carries the fd. */
struct source_answer {
    int code; /* 0, or a negative errno that err explains */
    struct stat st;
    bool read_only;
    struct err err;
};

/* What is asked of one path. */
struct source_ask {
    const char *path;
    unsigned flags;    /* enum source_flags */
    bool cached;       /* -EAGAIN instead of asking a file system that may not answer */
    const char *state; /* with SOURCE_MAKE: the path of the state directory */
};

static int source_fail(const struct creator *creator, const struct source_ask *a, int r,
                       struct err *err)
{
    if (creator->kind == CREATOR_NONE)
        return err_set(err, r, "'%s': the request names no client as which it is to be opened",
                       a->path);
    return err_errno(err, r, "'%s'%s", a->path,
                     creator->kind == CREATOR_CLIENT ? ", opened as you" : "");
}

/* Opens the path `rest` below a prefix, and makes it if that is asked. */
static int source_open_below(const struct creator *creator, int root, const char *rest,
                             const struct source_ask *a, struct err *err)
{
    const bool write = (a->flags & SOURCE_WRITE) != 0;
    int fd, r;

    fd = creator_open(creator, root, rest, write, a->cached);
    if (fd == -EAGAIN && a->cached)
        return fd;
    if (fd != -ENOENT || a->cached || (a->flags & SOURCE_MAKE) == 0)
        return fd < 0 ? source_fail(creator, a, fd, err) : fd;
    r = source_make(creator, root, rest, a->state);
    if (r == -EPERM && creator->kind == CREATOR_OWNER)
        return err_set(err, -ENOENT,
                       "'%s': No such file or directory, and none is made among those of the "
                       "system or of rind itself",
                       a->path);
    if (r < 0)
        return err_errno(err, r, "'%s': make the missing directory%s", a->path,
                         creator->kind == CREATOR_CLIENT ? " as you" : "");
    fd = creator_open(creator, root, rest, write, false);
    return fd < 0 ? source_fail(creator, a, fd, err) : fd;
}

static int source_open_allowed(const struct launcher *l, const struct creator *creator,
                               const struct source_ask *a, struct err *err)
{
    const char *path = a->path;

    for (const char *const *prefix = l->bind_prefixes; *prefix != NULL; prefix++) {
        auto_close int root = FD_NONE;
        size_t len = strlen(*prefix);
        const char *rest;

        while (len > 0 && (*prefix)[len - 1] == '/')
            len--;
        if (strncmp(path, *prefix, len) != 0 || (path[len] != '/' && path[len] != '\0'))
            continue;
        root = sys_openat2(AT_FDCWD, *prefix, O_PATH | O_DIRECTORY | O_CLOEXEC, 0,
                           a->cached ? RESOLVE_CACHED : 0);
        if (root < 0 && a->cached)
            return -EAGAIN;
        if (root < 0)
            continue;
        rest = path + len + strspn(path + len, "/");
        return source_open_below(creator, root, *rest != '\0' ? rest : ".", a, err);
    }
    return err_set(err, -EPERM, "'%s' is not beneath a directory that may be mounted", path);
}

/* True if the source's mount is read-only. Asks the file system. A later remount on the host does
 * not affect the clone. */
static bool source_is_read_only(int source)
{
    struct statvfs fs;

    return fstatvfs(source, &fs) == 0 && (fs.f_flag & ST_RDONLY) != 0;
}

/* ---- the child ---- */

static int opener_send(int sock, const struct source_answer *a, int fd)
{
    union socket_fds control;
    struct iovec iov = {.iov_base = (void *)(uintptr_t)a, .iov_len = sizeof(*a)};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    socket_attach_fds(&msg, &control, &fd, fd >= 0 ? 1 : 0);
    return sendmsg(sock, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* Before the child closes the launcher's fds. */
static bool opener_find_state(const struct launcher *l, char ret[PATH_MAX])
{
    char link[64];
    ssize_t n;

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", l->state_fd);
    n = readlink(link, ret, PATH_MAX - 1);
    ret[n > 0 ? n : 0] = '\0';
    return n > 0 && n < PATH_MAX - 1;
}

static _Noreturn void opener_main(const struct launcher *l, const struct creator *c,
                                  const char *path, unsigned flags, int sock)
{
    static struct source_answer a;
    static char state[PATH_MAX];
    struct source_ask ask = {.path = path, .flags = flags, .state = state};
    int fd;

    if ((flags & SOURCE_MAKE) != 0 && !opener_find_state(l, state))
        ask.flags &= ~(unsigned)SOURCE_MAKE;

    child_become("rind-open", SIG_DFL);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (child_keep_fds(&sock, 1, 0) < 0)
        _exit(1);
    fd = source_open_allowed(l, c, &ask, &a.err);
    a.code = fd < 0 ? fd : 0;
    if (fd >= 0 && fstat(fd, &a.st) < 0)
        a.code = err_errno(&a.err, -errno, "'%s'", path);
    a.read_only = a.code == 0 && source_is_read_only(fd);
    _exit(opener_send(0, &a, fd) < 0);
}

/* ---- the parent ---- */

static int opener_receive(int sock, int64_t ms, struct source_answer *a, int *ret_fd)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec iov = {.iov_base = a, .iov_len = sizeof(*a)};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.space,
                         .msg_controllen = sizeof(control.space)};
    struct pollfd p = {.fd = sock, .events = POLLIN};
    int64_t end = clock_mono_ms() + ms, left;
    struct cmsghdr *c;
    int r;

    do {
        left = end - clock_mono_ms();
        r = poll(&p, 1, left > 0 ? (int)left : 0);
    } while (r < 0 && errno == EINTR);
    if (r <= 0)
        return r < 0 ? -errno : -ETIMEDOUT;
    if (recvmsg(sock, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) != (ssize_t)sizeof(*a))
        return -ECHILD;
    c = CMSG_FIRSTHDR(&msg);
    if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(sizeof(int)))
        (void)memcpy(ret_fd, CMSG_DATA(c), sizeof(*ret_fd));
    return a->code == 0 && *ret_fd < 0 ? -ECHILD : 0;
}

static struct uid_backoff *uid_backoff_of(struct launcher *l, const struct creator *c)
{
    const uid_t uid = c->kind == CREATOR_CLIENT ? c->uid : 0;

    for (size_t i = 0; i < LAUNCH_PENALTIES_MAX; i++)
        if (l->uid_backoffs[i].until_ms > clock_mono_ms() && l->uid_backoffs[i].uid == uid)
            return &l->uid_backoffs[i];
    return NULL;
}

void source_punish(struct launcher *l, const struct creator *c)
{
    struct uid_backoff *p = uid_backoff_of(l, c);

    if (p == NULL)
        p = &l->uid_backoffs[l->uid_backoff_next++ % LAUNCH_PENALTIES_MAX];
    *p = (struct uid_backoff){.uid = c->kind == CREATOR_CLIENT ? c->uid : 0,
                              .until_ms = clock_mono_ms() + UID_BACKOFF_MS};
}

static int source_open_in_child(struct launcher *l, const struct creator *c, const char *path,
                                unsigned flags, struct stat *ret_st, bool *ret_read_only,
                                struct err *err)
{
    const long long ms = uid_backoff_of(l, c) != NULL ? OPEN_AGAIN_MS : OPEN_MS;
    auto_close int in = FD_NONE, out = FD_NONE, fd = FD_NONE;
    struct source_answer a;
    int pair[2], r;
    pid_t pid;

    if (!child_table_has_room(&l->children))
        return err_set(err, -EBUSY,
                       "'%s': too many others wait for file systems that do not answer", path);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(err, -errno, "'%s': open it", path);
    in = pair[0];
    out = pair[1];
    pid = fork();
    if (pid < 0)
        return err_errno(err, -errno, "'%s': open it", path);
    if (pid == 0)
        opener_main(l, c, path, flags, out);
    (void)close(take_fd(&out));
    r = opener_receive(in, ms, &a, &fd);
    if (r == -ETIMEDOUT) {
        /* The child may not even die before the file system answers: it is reaped when it does. */
        (void)kill(pid, SIGKILL);
        child_table_add(&l->children, pid, NULL, NULL);
        source_punish(l, c);
        return err_set(err, r, "'%s': its file system has not answered for %lld ms", path, ms);
    }
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    if (r < 0)
        return err_errno(err, r, "'%s': open it", path);
    if (a.code < 0) {
        a.err.msg[sizeof(a.err.msg) - 1] = '\0';
        return err_set(err, a.code, "%s", a.err.msg);
    }
    *ret_st = a.st;
    *ret_read_only = a.read_only;
    return take_fd(&fd);
}

int source_open(struct launcher *l, const struct creator *c, const char *path, unsigned flags,
                struct stat *ret_st, bool *ret_read_only, struct err *err)
{
    const struct source_ask ask = {.path = path, .flags = flags, .cached = true};
    int fd = source_open_allowed(l, c, &ask, err);

    if (fd == -EAGAIN || (fd == -ENOENT && (flags & SOURCE_MAKE) != 0))
        return source_open_in_child(l, c, path, flags, ret_st, ret_read_only, err);
    if (fd >= 0 && fstat(fd, ret_st) < 0) {
        int r = err_errno(err, -errno, "'%s'", path);

        (void)close(fd);
        return r;
    }
    if (fd >= 0)
        *ret_read_only = source_is_read_only(fd);
    return fd;
}
