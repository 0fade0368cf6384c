/*
 * Removing the files of a sandbox: not by the launcher, which has one thread. Whoever waits for a
 * removal or a start would wait for a file system that discards each block as it is freed, or for
 * the end of somebody else's million files.
 *
 * The files of most are few: one process, the remover, removes them one after another. It starts
 * and ends with the launcher. Those of a sandbox that has many have a process of their own.
 *
 * The caller has made the sandbox one that nobody keeps (sandbox_dir_forget): should the process,
 * or the host, die in the middle, the next start removes the rest. It holds the sandbox's lock and
 * that of its id range, so that neither is anybody else's while a file carries those ids.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/log.h"
#include "launch/net-ops.h"
#include "launch/sandbox.h"
#include "proto/syscalls.h"

enum {
    SMALL_ENTRIES = 2048, /* removed at once: some milliseconds */
    SMALL_DEPTH = 16,
    SMALL_BLOCKS = 256 << 11, /* of 512 bytes, of a disk's image: 256 MiB */
    NICENESS = 10,
    PARTING_MS = 1000,  /* most net namespaces are gone by then */
    PARTINGS_MAX = 256, /* and their ranges held meanwhile */
};

/* Whether it is known, without looking at all of it, that there is little. */
static bool is_small(int at, const char *name, int depth, unsigned *left)
{
    auto_ptr(dir_close) DIR *d = dir_open(at, name);
    const struct dirent *e;
    bool small = true;

    if (d == NULL)
        return true; /* what cannot be read is not walked here either */
    while (small && (e = dir_next(d)) != NULL) {
        small = --*left > 0;
        if (small && e->d_type == DT_DIR)
            small = depth > 0 && is_small(dirfd(d), e->d_name, depth - 1, left);
    }
    return small;
}

/* Whoever asked for the removal was answered long ago: the log is all that can tell. */
static void tell_failed(const struct removal *r, int status)
{
    if (WIFSIGNALED(status))
        log_warn("launcher",
                 "sandbox=%s removing its files was killed by signal %d, the next start goes on",
                 r->id, WTERMSIG(status));
    else
        log_warn("launcher", "sandbox=%s removing its files failed: %s, the next start tries again",
                 r->id, strerror(WEXITSTATUS(status)));
}

void removal_reap(struct launcher *l)
{
    size_t kept = 0;

    for (size_t i = 0; i < l->removal_count; i++) {
        int status = 0;

        if (waitpid(l->removals[i].pid, &status, WNOHANG) == 0) {
            l->removals[kept++] = l->removals[i];
            continue;
        }
        if (l->removals[i].pidfd >= 0)
            (void)close(l->removals[i].pidfd);
        if (status != 0 && l->removals[i].id[0] != '\0')
            tell_failed(&l->removals[i], status);
    }
    l->removal_count = kept;
}

/* Of all descriptors only these stay, as `first` and so on, and those below: locks of other
 * sandboxes must not be held by us. */
static int keep_only(int *fds, int count, int first)
{
    for (int i = 0; i < count; i++) {
        fds[i] = fcntl(fds[i], F_DUPFD, first + count); /* out of the way */
        if (fds[i] < 0)
            return -errno;
    }
    for (int i = 0; i < count; i++) {
        if (dup2(fds[i], first + i) < 0)
            return -errno;
        fds[i] = first + i;
    }
    return sys_close_range((unsigned)(first + count), ~0U, 0);
}

static void become(const char *name, void (*on_stop)(int))
{
    (void)signal(SIGTERM, on_stop);
    (void)signal(SIGINT, on_stop);
    (void)prctl(PR_SET_NAME, name);
}

static _Noreturn void child(const struct launcher *l, const struct sandbox *s)
{
    int fds[4] = {l->sandboxes_fd, l->ids_fd, s->lock_fd, s->ids.lock_fd};
    struct launcher own = *l;
    struct idrange ids = {.base = s->ids.base, .lock_fd = 3};
    int r;

    become("rind-remove", SIG_DFL);
    (void)setpriority(PRIO_PROCESS, 0, NICENESS); /* there may be many, and nobody waits for them */
    r = keep_only(fds, 4, 0);
    own.sandboxes_fd = 0;
    own.ids_fd = 1;
    if (r == 0)
        r = sandbox_dir_remove(&own, s->id, NULL);
    if (r < 0)
        _exit(-r < 256 ? -r : EIO); /* the status is the errno */
    idrange_give_back(own.ids_fd, &ids);
    _exit(0);
}

bool removal_has_room(struct launcher *l)
{
    removal_reap(l);
    return l->removal_count < LAUNCH_REMOVALS_MAX;
}

void removal_keep(struct launcher *l, pid_t pid, const char *id)
{
    struct removal *r = &l->removals[l->removal_count++];

    r->pid = pid;
    r->pidfd = sys_pidfd_open(pid);
    (void)snprintf(r->id, sizeof(r->id), "%s", id != NULL ? id : "");
}

/* ---- the remover ---- */

/* What it is asked; with it come the lock of the sandbox and that of its id range, and its root if
 * that was held. */
struct errand {
    char id[LAUNCH_ID_MAX + 1];
    uid_t base;
};

enum { ERRAND_LOCK, ERRAND_IDS, ERRAND_ROOT, ERRAND_FDS };

union errand_control {
    char bytes[CMSG_SPACE(sizeof(int) * ERRAND_FDS)];
    struct cmsghdr first;
};

static struct msghdr errand_message(struct iovec *iov, union errand_control *control)
{
    return (struct msghdr){.msg_iov = iov,
                           .msg_iovlen = 1,
                           .msg_control = control->bytes,
                           .msg_controllen = sizeof(control->bytes)};
}

/*
 * A range whose sandbox and files have gone, but not its link, which has its number. The kernel
 * keeps a net namespace for as long as a socket of it wants to send what nobody takes: minutes.
 */
struct parting {
    struct idrange ids;
    int64_t due; /* clock_mono_ms */
};

struct remover {
    struct launcher own; /* what it knows of the launcher: directories, functions */
    struct parting partings[PARTINGS_MAX];
    size_t parting_count; /* in the order of their due times */
};

/* The number of a range, which is that of its link. */
static uint32_t slot_of(uid_t base)
{
    return (base - IDRANGE_FIRST) / IDRANGE_SIZE;
}

/* Takes the links away that were due by then. */
static void part(struct remover *rm, int64_t then)
{
    const struct launch_net_ops *net = rm->own.net;
    size_t done = 0;

    for (; done < rm->parting_count && rm->partings[done].due <= then; done++) {
        struct parting *p = &rm->partings[done];
        struct err err = ERR_NONE;

        if (net->lingers(slot_of(p->ids.base)) && net->erase(slot_of(p->ids.base), &err) < 0)
            log_warn("launcher", "%s", err.msg); /* whoever gets the range next tries, too */
        idrange_give_back(rm->own.ids_fd, &p->ids);
    }
    rm->parting_count -= done;
    (void)memmove(rm->partings, rm->partings + done, rm->parting_count * sizeof(*rm->partings));
}

static void give_back(struct remover *rm, struct idrange *ids)
{
    const struct launch_net_ops *net = rm->own.net;

    if (net == NULL || !net->lingers(slot_of(ids->base))) {
        idrange_give_back(rm->own.ids_fd, ids);
        return;
    }
    if (rm->parting_count == PARTINGS_MAX)
        part(rm, rm->partings[0].due);
    rm->partings[rm->parting_count++] =
        (struct parting){.ids = *ids, .due = clock_mono_ms() + PARTING_MS};
}

static void run_errand(struct remover *rm, const struct errand *e, const int fds[ERRAND_FDS])
{
    struct idrange ids = {.base = e->base, .lock_fd = fds[ERRAND_IDS]};
    struct err err = ERR_NONE;
    int r = sandbox_dir_remove(&rm->own, e->id, &err);

    /* Afterwards: what is removed is not worth a sync. */
    if (fds[ERRAND_ROOT] >= 0)
        (void)close(fds[ERRAND_ROOT]);
    if (r == 0) {
        give_back(rm, &ids);
    } else {
        log_warn("launcher", "sandbox=%s %s, the next start tries again", e->id, err.msg);
        idrange_done(&ids);
    }
    (void)close(fds[ERRAND_LOCK]);
}

/* Until there is an errand, or the launcher has gone. */
static void await(struct remover *rm, int sock)
{
    struct pollfd p = {.fd = sock, .events = POLLIN};

    while (rm->parting_count > 0) {
        int64_t left = rm->partings[0].due - clock_mono_ms();

        if (poll(&p, 1, left > 0 ? (int)left : 0) > 0)
            return;
        part(rm, clock_mono_ms());
    }
}

/* Until the launcher has gone. */
static _Noreturn void remover(const struct launcher *l, int sock)
{
    enum { FIRST = STDERR_FILENO + 1, COUNT = 3 }; /* what fails is in the log */
    int kept[COUNT] = {l->sandboxes_fd, l->ids_fd, sock};
    struct remover rm = {.own = *l};

    /* ^C is for all of a terminal's; we end when the launcher has. */
    become("rind-remover", SIG_IGN);
    if (keep_only(kept, COUNT, FIRST) < 0)
        _exit(1);
    rm.own.sandboxes_fd = kept[0];
    rm.own.ids_fd = kept[1];
    for (;;) {
        union errand_control control;
        struct errand e;
        struct iovec iov = {.iov_base = &e, .iov_len = sizeof(e)};
        struct msghdr hdr = errand_message(&iov, &control);
        const struct cmsghdr *c;
        int fds[ERRAND_FDS] = {FD_NONE, FD_NONE, FD_NONE};
        size_t len;
        ssize_t n;

        await(&rm, kept[2]);
        n = recvmsg(kept[2], &hdr, MSG_CMSG_CLOEXEC);
        if (n < 0 && errno == EINTR)
            continue;
        c = n == (ssize_t)sizeof(e) ? CMSG_FIRSTHDR(&hdr) : NULL;
        len = c != NULL ? c->cmsg_len - CMSG_LEN(0) : 0;
        if (len < ERRAND_ROOT * sizeof(int) || len > sizeof(fds)) {
            part(&rm, INT64_MAX);
            _exit(n != 0); /* what was asked is the next start's then */
        }
        (void)memcpy(fds, CMSG_DATA(c), len);
        run_errand(&rm, &e, fds);
    }
}

int remover_start(struct launcher *l)
{
    int pair[2];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    pid = fork();
    if (pid == 0)
        remover(l, pair[1]);
    (void)close(pair[1]);
    if (pid < 0) {
        (void)close(pair[0]);
        return -errno;
    }
    l->remover = pair[0];
    l->remover_pid = pid;
    return 0;
}

void remover_end(struct launcher *l)
{
    int status = 0;

    if (l->remover < 0)
        return;
    (void)close(take_fd(&l->remover));
    while (waitpid(l->remover_pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(status))
        log_warn("launcher",
                 "the process that removes files was killed by signal %d, the next start goes on",
                 WTERMSIG(status));
    else if (status != 0) {
        log_warn("launcher", "no process can remove files: the launcher does it itself");
        l->remover_fails = true;
    }
}

bool remover_settle(struct launcher *l)
{
    if (l->remover < 0)
        return false;
    remover_end(l);
    (void)remover_start(l);
    return true;
}

/* Never waits: -EAGAIN when more is under way than the socket holds. */
static int errand_send(const struct launcher *l, const struct sandbox *s)
{
    const int fds[ERRAND_FDS] = {s->lock_fd, s->ids.lock_fd, s->root_fd};
    const size_t len = sizeof(int) * (s->root_fd >= 0 ? ERRAND_FDS : ERRAND_ROOT);
    struct errand e = {.base = s->ids.base};
    struct iovec iov = {.iov_base = &e, .iov_len = sizeof(e)};
    union errand_control control = {
        .first = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(len)}};
    struct msghdr hdr = errand_message(&iov, &control);

    (void)snprintf(e.id, sizeof(e.id), "%s", s->id);
    (void)memcpy(CMSG_DATA(&control.first), fds, len);
    hdr.msg_controllen = CMSG_SPACE(len);
    return sendmsg(l->remover, &hdr, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

/* Whether the remover has it. One that was killed is started again. */
static bool hand_over(struct launcher *l, const struct sandbox *s)
{
    int r = l->remover >= 0 ? errand_send(l, s) : -EPIPE;

    if (r == -EPIPE || r == -ECONNRESET) {
        remover_end(l);
        r = l->remover_fails ? -ECHILD : remover_start(l);
        if (r == 0)
            r = errand_send(l, s);
    }
    return r == 0;
}

/* ---- choosing ---- */

static bool has_little(const struct sandbox *s)
{
    unsigned left = SMALL_ENTRIES;
    struct stat st;

    return is_small(s->dir_fd, "upper", SMALL_DEPTH, &left) &&
           (fstatat(s->dir_fd, DISK_FILE, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            st.st_blocks < SMALL_BLOCKS);
}

bool removal_start(struct launcher *l, struct sandbox *s)
{
    pid_t pid;

    if (l->clients.len == 0 || s->dir_fd < 0 || s->ids.lock_fd < 0 || sandbox_dir_lock(s) < 0)
        return false; /* nobody else waits for us */
    if (has_little(s))
        return hand_over(l, s);
    if (!removal_has_room(l))
        return false;
    if (idrange_reserve(l->ids_fd, &s->ids, NULL, NULL) < 0)
        return false;
    pid = fork();
    if (pid == 0)
        child(l, s);
    if (pid < 0)
        return false;
    removal_keep(l, pid, s->id);
    return true;
}
