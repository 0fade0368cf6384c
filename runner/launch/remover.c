/*
 * The remover: the process that removes what small sandboxes leave, one after another. It starts
 * and ends with the launcher.
 *
 * Files go at once. Cgroups wait until nothing has been removed for a moment: the end of a memory
 * cgroup makes the kernel walk the lists of every super block on the host (3 ms with a thousand
 * sandboxes) under the lock that each start needs for its own. So do roots that the launcher held:
 * the end of each syncs the file system that the next start makes its files in. What waits is
 * bounded: whoever removes more, one after another, has the oldest removed for each new one. A
 * sandbox's directory,
 * its lock and its id range stay until its cgroups are gone, so that a sweep finds those that are
 * left when we are killed. The id range stays for longer where its link does.
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
    WAITING_MAX = 64, /* a memory cgroup that waits is some 100 KiB of the kernel's */
    QUIET_MS = 100,   /* since the last removal, until those that wait are begun with */
    PACE_MS = 20,     /* between two of them: whoever starts meanwhile waits for one, not for all */
    TRIES_MAX = 10,   /* of one in which a process still is */

    PARTING_MS = 1000,  /* most net namespaces are gone by then */
    PARTINGS_MAX = 256, /* and their ranges held meanwhile */

    OWN_FILES = 80, /* that it has open beside them: a walk's (rmtree.h), and what it is handed */
};

/* What it is asked; with it come the lock of the sandbox and that of its id range, and its root if
 * that was held, with a pipe whose end says that nobody else has that any more. */
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

/* One whose files are gone. */
struct waiting {
    struct errand errand;
    int lock_fd;    /* owned */
    int root, gate; /* owned; FD_NONE: it has ended */
    struct idrange ids;
    unsigned tries;
};

/*
 * A range whose sandbox and files have gone, but not its link, which has its number. The kernel
 * keeps a net namespace for as long as a socket of it wants to send what nobody takes: minutes.
 */
struct parting {
    struct idrange ids;
    int64_t due; /* clock_mono_ms */
};

struct remover {
    struct launcher own; /* what it knows of the launcher: directories, functions; its cgroups */
    struct waiting waiting[WAITING_MAX]; /* a ring */
    unsigned first, count, room; /* room: of WAITING_MAX, as many as it may have open files for */
    int64_t due; /* clock_mono_ms: when the first is begun with; of a count above 0 */
    struct parting partings[PARTINGS_MAX];
    size_t parting_count, parting_room; /* in the order of their due times */
};

/* ---- ranges ---- */

/* The number of a range, which is that of its link. */
static uint32_t slot_of(uid_t base)
{
    return (base - IDRANGE_FIRST) / IDRANGE_SIZE;
}

/* Takes the links away that were due by then. */
static void part(struct remover *m, int64_t then)
{
    const struct launch_net_ops *net = m->own.net;
    size_t done = 0;

    for (; done < m->parting_count && m->partings[done].due <= then; done++) {
        struct parting *p = &m->partings[done];
        struct err err = ERR_NONE;

        if (net->lingers(slot_of(p->ids.base)) && net->erase(slot_of(p->ids.base), &err) < 0)
            log_warn("launcher", "%s", err.msg); /* whoever gets the range next tries, too */
        idrange_give_back(m->own.ids_fd, &p->ids);
    }
    m->parting_count -= done;
    (void)memmove(m->partings, m->partings + done, m->parting_count * sizeof(*m->partings));
}

static void give_back(struct remover *m, struct idrange *ids)
{
    const struct launch_net_ops *net = m->own.net;

    if (net == NULL || !net->lingers(slot_of(ids->base))) {
        idrange_give_back(m->own.ids_fd, ids);
        return;
    }
    if (m->parting_count == m->parting_room)
        part(m, m->partings[0].due);
    m->partings[m->parting_count++] =
        (struct parting){.ids = *ids, .due = clock_mono_ms() + PARTING_MS};
}

/* ---- files and cgroups ---- */

static void finish(struct remover *m, struct waiting *w, int r, const struct err *err)
{
    /* Only when nothing carries them any more. */
    if (r == 0) {
        give_back(m, &w->ids);
    } else {
        log_warn("launcher", "sandbox=%s %s, the next start tries again", w->errand.id, err->msg);
        idrange_done(&w->ids);
    }
    (void)close(w->lock_fd);
}

static void end_root(struct waiting *w)
{
    if (w->root >= 0)
        removal_close_root(take_fd(&w->root), take_fd(&w->gate));
}

/* The first of those that wait. One that is not empty yet goes to the end: its last process may
 * have ended and not have left. */
static void remove_first(struct remover *m)
{
    struct waiting w = m->waiting[m->first];
    struct err err = ERR_NONE;
    int r;

    end_root(&w);
    r = cgroup_remove(m->own.cgroups, w.errand.id, &err);
    m->first = (m->first + 1) % WAITING_MAX;
    m->count--;
    if (r == -EBUSY && ++w.tries < TRIES_MAX) {
        m->waiting[(m->first + m->count++) % WAITING_MAX] = w;
        return;
    }
    if (r == 0)
        r = sandbox_dir_remove(&m->own, w.errand.id, &err);
    finish(m, &w, r, &err);
}

static void run_errand(struct remover *m, const struct errand *e, const int fds[ERRAND_FDS])
{
    struct waiting w = {.errand = *e,
                        .lock_fd = fds[ERRAND_LOCK],
                        .root = fds[ERRAND_ROOT],
                        .gate = fds[ERRAND_GATE],
                        .ids = {.base = e->base, .lock_fd = fds[ERRAND_IDS]}};
    struct err err = ERR_NONE;
    int r = e->cgroups ? sandbox_dir_clear(&m->own, e->id, &err)
                       : sandbox_dir_remove(&m->own, e->id, &err);

    /* Afterwards: what is removed is not worth a sync. And later, where no file's blocks wait for
     * it: the sync is of the host's whole file system. */
    if (r <= 0 || !e->cgroups)
        end_root(&w);
    if (r < 0 || !e->cgroups) {
        finish(m, &w, r, &err);
        return;
    }
    if (m->count == m->room)
        remove_first(m);
    if (m->count == m->room) {
        end_root(&w);
        finish(m, &w, err_set(&err, -EBUSY, "its cgroups cannot wait any longer"), &err);
        return;
    }
    m->waiting[(m->first + m->count++) % WAITING_MAX] = w;
    m->due = clock_mono_ms() + QUIET_MS;
}

/* Milliseconds until there is something to do without an errand; -1: there is nothing. */
static int patience(const struct remover *m)
{
    int64_t due = m->count > 0 ? m->due : INT64_MAX, left;

    if (m->parting_count > 0 && m->partings[0].due < due)
        due = m->partings[0].due;
    left = due - clock_mono_ms();
    return due == INT64_MAX ? -1 : left > 0 ? (int)left : 0;
}

static void do_due(struct remover *m)
{
    int64_t now = clock_mono_ms();

    if (m->count > 0 && m->due <= now) {
        remove_first(m);
        m->due = now + PACE_MS;
    }
    part(m, now);
}

/* One message; false: the launcher is gone, or is not ours. */
static bool receive_errand(struct remover *m, int sock)
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
        return false; /* what was asked is the next start's then */
    (void)memcpy(fds, CMSG_DATA(c), len);
    run_errand(m, &e, fds);
    return true;
}

/* Half of the files that it may have open for those that wait, half for ranges: whoever has no file
 * to remove another with leaves it to the next start. */
static void make_room(struct remover *m)
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

/* Until the launcher has gone, and what it has asked for is done. */
static _Noreturn void remover(const struct launcher *l, int sock)
{
    enum { FIRST = STDERR_FILENO + 1, COUNT = 3 }; /* what fails is in the log */
    int kept[COUNT] = {l->sandboxes_fd, l->ids_fd, sock};
    struct remover m = {.own = *l};

    /* ^C is for all of a terminal's; we end when the launcher has. */
    removal_become("rind-remover", SIG_IGN);
    if (removal_keep_only(kept, COUNT, FIRST) < 0 || cgroup_host_open(&m.own.cgroups, NULL) < 0)
        _exit(1);
    m.own.sandboxes_fd = kept[0];
    m.own.ids_fd = kept[1];
    make_room(&m);
    for (;;) {
        struct pollfd p = {.fd = kept[2], .events = POLLIN};
        int r = poll(&p, 1, patience(&m));

        if (r < 0 && errno != EINTR)
            break;
        if (r > 0 && !receive_errand(&m, kept[2]))
            break;
        if (r == 0)
            do_due(&m);
    }
    while (m.count > 0)
        remove_first(&m);
    part(&m, INT64_MAX);
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

/* Never waits: -EAGAIN when more is under way than the socket holds. */
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
