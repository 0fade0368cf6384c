/*
 * The remover: a process that removes in turn what small sandboxes leave. It starts and exits with
 * the launcher.
 *
 * Files are removed at once. Cgroups are queued until no removal has arrived for a moment: removing
 * a memory cgroup makes the kernel walk the lists of every superblock on the host. With a thousand
 * sandboxes this takes 3 ms, under a lock that each start needs. Held roots are queued as well:
 * closing one syncs the file system that the next start writes to.
 *
 * The queue is bounded: when it is full, each new removal first finishes the oldest. A sandbox's
 * directory, its lock and its id range stay until its cgroups are removed, so that a sweep finds
 * them if the remover is killed. An id range stays longer if the kernel still has its link.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "launch/net-ops.h"
#include "launch/sandbox.h"

enum {
    WAITING_MAX = 64, /* a queued memory cgroup takes some 100 KiB of kernel memory */
    QUIET_MS = 100,   /* from the last request until the queue is started */
    PACE_MS = 20,     /* between two entries, so that a start waits for one of them, not for all */
    TRIES_MAX = 10,   /* for a cgroup that still has a process */

    PARTING_MS = 1000,  /* most net namespaces are gone by then */
    PARTINGS_MAX = 256, /* ranges held meanwhile */

    OWN_FILES = 80, /* fds beyond the queue's: a walk's (rmtree.h), and those of one request */
};

/* A request. Its fds are the lock of the sandbox, that of its id range and, if the launcher holds
 * the root, that root and the gate (removal_make_gate). */
struct errand {
    char id[LAUNCH_ID_MAX + 1];
    uid_t base;
    bool cgroups;
};

enum { ERRAND_LOCK, ERRAND_IDS, ERRAND_ROOT, ERRAND_GATE, ERRAND_FDS };

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

/* An entry of the queue: its files are removed. */
struct waiting {
    struct errand errand;
    int lock_fd;    /* owned */
    int root, gate; /* owned; FD_NONE: closed already */
    struct idrange ids;
    unsigned tries;
};

/* A range whose sandbox and files are removed, but whose link, named by the range's number, still
 * exists. The kernel keeps a net namespace for minutes while one of its sockets has unsent data. */
struct parting {
    struct idrange ids;
    int64_t due; /* clock_mono_ms */
};

struct remover {
    /* a copy of the launcher's state: directories and functions; its own cgroup_host */
    struct launcher own;
    struct waiting waiting[WAITING_MAX]; /* ring buffer */
    unsigned first, count, room; /* room: entries allowed by RLIMIT_NOFILE, at most WAITING_MAX */
    int64_t due; /* clock_mono_ms of the first entry's removal; valid if count > 0 */
    struct parting partings[PARTINGS_MAX];
    size_t parting_count, parting_room; /* sorted by due time */
};

/* ---- ranges ---- */

/* Returns the number of a range, which is also its link's. */
static uint32_t range_slot(uid_t base)
{
    return (base - IDRANGE_FIRST) / IDRANGE_SIZE;
}

/* Removes the lingering links that were due by `then`, and releases their ranges. */
static void partings_finish_due(struct remover *m, int64_t then)
{
    const struct launch_net_ops *net = m->own.net;
    size_t done = 0;

    for (; done < m->parting_count && m->partings[done].due <= then; done++) {
        struct parting *p = &m->partings[done];
        struct err err = ERR_NONE;

        if (net->lingers(range_slot(p->ids.base)) && net->erase(range_slot(p->ids.base), &err) < 0)
            log_warn("launcher", "%s", err.msg); /* the next sandbox with this range tries again */
        idrange_give_back(m->own.ids_fd, &p->ids);
    }
    m->parting_count -= done;
    (void)memmove(m->partings, m->partings + done, m->parting_count * sizeof(*m->partings));
}

static void remover_release_ids(struct remover *m, struct idrange *ids)
{
    const struct launch_net_ops *net = m->own.net;

    if (net == NULL || !net->lingers(range_slot(ids->base))) {
        idrange_give_back(m->own.ids_fd, ids);
        return;
    }
    if (m->parting_count == m->parting_room)
        partings_finish_due(m, m->partings[0].due);
    m->partings[m->parting_count++] =
        (struct parting){.ids = *ids, .due = clock_mono_ms() + PARTING_MS};
}

/* ---- files and cgroups ---- */

static void waiting_finish(struct remover *m, struct waiting *w, int r, const struct err *err)
{
    /* The range is released only when no file, cgroup or link uses it any more. */
    if (r == 0) {
        remover_release_ids(m, &w->ids);
    } else {
        log_warn("launcher", "sandbox=%s %s, the next start tries again", w->errand.id, err->msg);
        idrange_done(&w->ids);
    }
    (void)close(w->lock_fd);
}

static void waiting_close_root(struct waiting *w)
{
    if (w->root >= 0)
        removal_close_root(take_fd(&w->root), take_fd(&w->gate));
}

/* Finishes the first entry of the queue. If its cgroup is still busy, it moves to the end: its last
 * process may have exited without having left the cgroup yet. */
static void remover_finish_first(struct remover *m)
{
    struct waiting w = m->waiting[m->first];
    struct err err = ERR_NONE;
    int r;

    waiting_close_root(&w);
    r = cgroup_remove(m->own.cgroups, w.errand.id, &err);
    m->first = (m->first + 1) % WAITING_MAX;
    m->count--;
    if (r == -EBUSY && ++w.tries < TRIES_MAX) {
        m->waiting[(m->first + m->count++) % WAITING_MAX] = w;
        return;
    }
    if (r == 0)
        r = sandbox_dir_remove(&m->own, w.errand.id, &err);
    waiting_finish(m, &w, r, &err);
}

static void errand_run(struct remover *m, const struct errand *e, const int fds[ERRAND_FDS])
{
    struct waiting w = {.errand = *e,
                        .lock_fd = fds[ERRAND_LOCK],
                        .root = fds[ERRAND_ROOT],
                        .gate = fds[ERRAND_GATE],
                        .ids = {.base = e->base, .lock_fd = fds[ERRAND_IDS]}};
    struct err err = ERR_NONE;
    int r = e->cgroups ? sandbox_dir_clear(&m->own, e->id, &err)
                       : sandbox_dir_remove(&m->own, e->id, &err);

    /* The root is closed after the files are removed, so that its sync has less to write. If
     * cgroups remain it is closed later still, because the sync covers the host's whole file
     * system. */
    if (r <= 0 || !e->cgroups)
        waiting_close_root(&w);
    if (r < 0 || !e->cgroups) {
        waiting_finish(m, &w, r, &err);
        return;
    }
    if (m->count == m->room)
        remover_finish_first(m);
    if (m->count == m->room) {
        waiting_close_root(&w);
        waiting_finish(m, &w, err_set(&err, -EBUSY, "its cgroups cannot wait any longer"), &err);
        return;
    }
    m->waiting[(m->first + m->count++) % WAITING_MAX] = w;
    m->due = clock_mono_ms() + QUIET_MS;
}

/* Returns milliseconds until the next queued work; -1: there is none. */
static int remover_wait_ms(const struct remover *m)
{
    int64_t due = m->count > 0 ? m->due : INT64_MAX, left;

    if (m->parting_count > 0 && m->partings[0].due < due)
        due = m->partings[0].due;
    left = due - clock_mono_ms();
    return due == INT64_MAX ? -1 : left > 0 ? (int)left : 0;
}

static void remover_run_due(struct remover *m)
{
    int64_t now = clock_mono_ms();

    if (m->count > 0 && m->due <= now) {
        remover_finish_first(m);
        m->due = now + PACE_MS;
    }
    partings_finish_due(m, now);
}

/* Receives one request and runs it. Returns false when the launcher has exited or the message is
 * invalid. */
static bool errand_receive(struct remover *m, int sock)
{
    union errand_control control;
    struct errand e;
    struct iovec iov = {.iov_base = &e, .iov_len = sizeof(e)};
    struct msghdr hdr = errand_message(&iov, &control);
    int fds[ERRAND_FDS] = {FD_NONE, FD_NONE, FD_NONE, FD_NONE};
    const struct cmsghdr *c;
    size_t len;
    ssize_t n = recvmsg(sock, &hdr, MSG_CMSG_CLOEXEC);

    if (n < 0 && errno == EINTR)
        return true;
    c = n == (ssize_t)sizeof(e) ? CMSG_FIRSTHDR(&hdr) : NULL;
    len = c != NULL ? c->cmsg_len - CMSG_LEN(0) : 0;
    if (len < ERRAND_ROOT * sizeof(int) || len > sizeof(fds))
        return false; /* the next start then sweeps what was requested */
    (void)memcpy(fds, CMSG_DATA(c), len);
    errand_run(m, &e, fds);
    return true;
}

/* Splits the allowed fds: half for the queue, half for ranges. A removal without an fd left is left
 * to the next start. */
static void remover_set_room(struct remover *m)
{
    struct rlimit most = {0};
    rlim_t left;

    (void)getrlimit(RLIMIT_NOFILE, &most);
    left = most.rlim_cur > OWN_FILES ? (most.rlim_cur - OWN_FILES) / 2 : 0;
    m->room = left / ERRAND_FDS < WAITING_MAX ? (unsigned)(left / ERRAND_FDS) : WAITING_MAX;
    m->parting_room = left < PARTINGS_MAX ? (size_t)left : PARTINGS_MAX;
    m->room += m->room == 0;
    m->parting_room += m->parting_room == 0;
}

/* Runs until the launcher has closed its socket and all requests are done. */
static _Noreturn void remover_main(const struct launcher *l, int sock)
{
    enum { FIRST = STDERR_FILENO + 1, COUNT = 3 }; /* stderr stays open for the log */
    int kept[COUNT] = {l->sandboxes_fd, l->ids_fd, sock};
    struct remover m = {.own = *l};

    /* A terminal sends SIGINT to its whole process group; the remover exits after the launcher. */
    removal_become("rind-remover", SIG_IGN);
    if (removal_keep_only(kept, COUNT, FIRST) < 0 || cgroup_host_open(&m.own.cgroups, NULL) < 0)
        _exit(1);
    m.own.sandboxes_fd = kept[0];
    m.own.ids_fd = kept[1];
    remover_set_room(&m);
    for (;;) {
        struct pollfd p = {.fd = kept[2], .events = POLLIN};
        int r = poll(&p, 1, remover_wait_ms(&m));

        if (r < 0 && errno != EINTR)
            break;
        if (r > 0 && !errand_receive(&m, kept[2]))
            break;
        if (r == 0)
            remover_run_due(&m);
    }
    while (m.count > 0)
        remover_finish_first(&m);
    partings_finish_due(&m, INT64_MAX);
    _exit(0);
}

/* ---- the launcher's side ---- */

int remover_start(struct launcher *l)
{
    int pair[2];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    pid = fork();
    if (pid == 0)
        remover_main(l, pair[1]);
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
    if (WIFSIGNALED(status)) {
        log_warn("launcher",
                 "the process that removes files was killed by signal %d, another one goes on",
                 WTERMSIG(status));
        sweep_later(l);
    } else if (status != 0) {
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

/* Does not block: -EAGAIN when the socket is full. */
static int errand_send(const struct launcher *l, const struct sandbox *s, bool cgroups, int gate)
{
    const int fds[ERRAND_FDS] = {s->lock_fd, s->ids.lock_fd, s->root_fd, gate};
    const size_t len = sizeof(int) * (gate >= 0 ? ERRAND_FDS : ERRAND_ROOT);
    struct errand e = {.base = s->ids.base, .cgroups = cgroups};
    struct iovec iov = {.iov_base = &e, .iov_len = sizeof(e)};
    union errand_control control = {
        .first = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(len)}};
    struct msghdr hdr = errand_message(&iov, &control);

    (void)snprintf(e.id, sizeof(e.id), "%s", s->id);
    (void)memcpy(CMSG_DATA(&control.first), fds, len);
    hdr.msg_controllen = CMSG_SPACE(len);
    return sendmsg(l->remover, &hdr, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

bool remover_take(struct launcher *l, const struct sandbox *s, bool cgroups, int gate)
{
    int r = l->remover >= 0 ? errand_send(l, s, cgroups, gate) : -EPIPE;

    if (r == -EPIPE || r == -ECONNRESET) {
        remover_end(l);
        r = l->remover_fails ? -ECHILD : remover_start(l);
        if (r == 0)
            r = errand_send(l, s, cgroups, gate);
    }
    return r == 0;
}
