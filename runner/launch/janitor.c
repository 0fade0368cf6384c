/*
 * The janitor removes what sandboxes leave. The launcher has one thread: its clients would wait for
 * a file system that discards each freed block, or for another user's million files.
 *
 * Two kinds of process run this file:
 *
 *   rind-janitor  one, from the launcher's start to its end. It takes jobs from a socket, one by
 *                 one. The full socket is the back-pressure.
 *   rind-job      does one job that takes long, then exits: a tree with many files, all hidden
 *                 volumes (both forked by the janitor), the end of a stopped sandbox, and any job
 *                 that the janitor's socket has no room for (both forked by the launcher).
 *
 * The job of a removed sandbox has three steps:
 *
 *   files ----> cgroups ----> link
 *               wait until    waits 1 s, only
 *               it is quiet   if there is one
 *
 * Cgroups wait until no removal has arrived for a moment: removing a memory cgroup makes the kernel
 * walk the lists of every superblock on the host. With a thousand sandboxes this takes 3 ms, under
 * a lock that each start needs. Held roots wait as well: closing one syncs the file system that the
 * next start writes to. A link is named by the number of the id range. The kernel keeps a net
 * namespace for minutes while one of its sockets has unsent data.
 *
 * Crash order: sandbox_dir_forget comes before the job. The job holds the lock of the sandbox and
 * that of its id range, so neither is used again while files with those ids exist. The directory,
 * its lock and the range go after the cgroups. So the sweep finds what a killed process leaves: the
 * launcher's, which repeats it, or the next start's.
 *
 * A stop is not sent to the janitor: its client waits, while the janitor may be removing the files
 * of another sandbox.
 *
 * Called by launcher.c, manage.c, sweep.c, volume-hide.c and serve.c.
 */
#include "launch/janitor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
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
#include "base/socket.h"
#include "launch/net-ops.h"
#include "launch/sandbox.h"
#include "launch/volume-internal.h"
#include "proto/syscalls.h"

enum {
    CGROUPS_MAX = 64, /* a queued memory cgroup takes some 100 KiB of kernel memory */
    JOBS_MAX = CGROUPS_MAX + 256,
    QUIET_MS = 100, /* from the last job until the first cgroup is removed */
    PACE_MS = 20,   /* between two cgroups, so that a start waits for one of them, not for all */
    LINK_MS = 1000, /* most net namespaces are gone by then */
    TRIES_MAX = 10, /* for a busy cgroup, PACE_MS apart */

    SMALL_ENTRIES = 2048, /* few enough for the janitor itself: some milliseconds */
    SMALL_DEPTH = 16,
    SMALL_BLOCKS = 256 << 11, /* of 512 bytes; of the disk image: 256 MiB */
    NICENESS = 10,            /* of rind-job: there may be many, and no client waits for them */

    OWN_FILES = 80, /* fds beyond the queue's: a walk's (rmtree.h), and those of a new job */
};

enum job_type { JOB_REMOVE_SANDBOX, JOB_REMOVE_HIDDEN, JOB_STOP_SANDBOX };

/* A message to the janitor. */
struct job {
    enum job_type type;
    bool cgroups; /* remove them as well */
    uid_t base;   /* of the id range */
    char id[LAUNCH_ID_MAX + 1];
};

/* The fds of a job: the lock of the sandbox and that of its id range. If the launcher holds the
 * root, that root and the release barrier (barrier_make) as well. */
enum { JOB_LOCK, JOB_IDS, JOB_ROOT, JOB_BARRIER, JOB_FDS };
_Static_assert((int)JOB_FDS <= (int)SOCKET_FDS_MAX, "all go with one message");

#define JOB_NO_FDS                                                                                 \
    {                                                                                              \
        FD_NONE, FD_NONE, FD_NONE, FD_NONE                                                         \
    }

enum job_step { STEP_CGROUPS, STEP_LINK };

/* A job in the queue; its files are removed. */
struct queued {
    struct job job;
    enum job_step step;
    int fds[JOB_FDS]; /* owned; FD_NONE: closed already */
    unsigned tries;   /* STEP_CGROUPS */
    int64_t due;      /* STEP_LINK: clock_mono_ms */
};

struct janitor {
    /* A copy of the launcher's state: its own directories and cgroup_host, and functions. Its table
     * has the children of this process. */
    struct launcher own;
    int sock;                     /* owned; FD_NONE in a rind-job */
    struct queued jobs[JOBS_MAX]; /* each step in order of arrival */
    size_t count, fds_max;
    int64_t quiet; /* clock_mono_ms of the next STEP_CGROUPS */
};

/* ---- the release barrier ---- */

/*
 * Closing the last fd of a sandbox's root unmounts it, which syncs the file system below. So the
 * launcher's fd must not be the last. A barrier is a pipe: the launcher closes the write end after
 * its own root_fd (sandbox_free); the job waits for that before it closes the root. Returns the
 * read end, or FD_NONE: s holds no root.
 */
static int barrier_make(struct launch_sandbox *s)
{
    int pair[2];

    if (s->root_fd < 0 || pipe2(pair, O_CLOEXEC) < 0)
        return FD_NONE;
    s->barrier_fd = pair[1];
    return pair[0];
}

static void job_close_root(int fds[JOB_FDS])
{
    struct pollfd p = {.fd = fds[JOB_BARRIER], .events = 0};

    if (fds[JOB_ROOT] < 0)
        return;
    while (poll(&p, 1, -1) < 0 && errno == EINTR)
        ;
    (void)close(take_fd(&fds[JOB_ROOT]));
    (void)close(take_fd(&fds[JOB_BARRIER]));
}

/* ---- the queue ---- */

/* Returns the index of the first job at this step; m->count if there is none. */
static size_t queue_first(const struct janitor *m, enum job_step step)
{
    size_t i = 0;

    while (i < m->count && m->jobs[i].step != step)
        i++;
    return i;
}

static struct queued queue_take(struct janitor *m, size_t i)
{
    const struct queued q = m->jobs[i];

    m->count--;
    (void)memmove(m->jobs + i, m->jobs + i + 1, (m->count - i) * sizeof(*m->jobs));
    return q;
}

static bool queue_is_full(const struct janitor *m)
{
    size_t fds = JOB_FDS, cgroups = 0;

    for (size_t i = 0; i < m->count; i++) {
        cgroups += m->jobs[i].step == STEP_CGROUPS;
        for (size_t k = 0; k < JOB_FDS; k++)
            fds += m->jobs[i].fds[k] >= 0;
    }
    return m->count == JOBS_MAX || cgroups == CGROUPS_MAX || (m->count > 0 && fds > m->fds_max);
}

/* ---- the end of a removal ---- */

/* Returns the number of a range, which is also its link's. */
static uint32_t job_slot(const struct job *j)
{
    return (j->base - IDRANGE_FIRST) / IDRANGE_SIZE;
}

static void job_release_ids(struct janitor *m, const struct queued *q)
{
    struct idrange ids = {.base = q->job.base, .lock_fd = q->fds[JOB_IDS]};

    idrange_give_back(m->own.ids_fd, &ids);
}

static void janitor_finish_link(struct janitor *m, size_t i)
{
    const struct queued q = queue_take(m, i);
    const uint32_t slot = job_slot(&q.job);
    struct err err = ERR_NONE;

    if (m->own.net->lingers(slot) && m->own.net->erase(slot, &err) < 0)
        log_warn("launcher", "%s", err.msg); /* the next sandbox with this range tries again */
    job_release_ids(m, &q);
}

/* The range is released only when no file, cgroup or link uses it any more. */
static void job_removed(struct janitor *m, struct queued *q, int r, const struct err *err)
{
    job_close_root(q->fds);
    (void)close(take_fd(&q->fds[JOB_LOCK]));
    if (r < 0) {
        log_warn("launcher", "sandbox=%s %s, the next start tries again", q->job.id, err->msg);
        (void)close(q->fds[JOB_IDS]);
    } else if (m->own.net != NULL && m->own.net->lingers(job_slot(&q->job))) {
        q->step = STEP_LINK;
        q->due = clock_mono_ms() + LINK_MS;
        m->jobs[m->count++] = *q;
    } else {
        job_release_ids(m, q);
    }
}

static void janitor_finish_cgroups(struct janitor *m, size_t i)
{
    struct queued q = queue_take(m, i);
    struct err err = ERR_NONE;
    int r;

    job_close_root(q.fds);
    r = cgroup_remove(m->own.cgroups, q.job.id, &err);
    if (r == -EBUSY && ++q.tries < TRIES_MAX) {
        /* its last process has exited, but has not left the cgroup yet */
        (void)poll(NULL, 0, PACE_MS);
        m->jobs[m->count++] = q;
        return;
    }
    if (r == 0)
        r = sandbox_dir_remove(&m->own, q.job.id, &err);
    job_removed(m, &q, r, &err);
}

/* Does not wait for a quiet moment. */
static void janitor_finish_oldest(struct janitor *m)
{
    const size_t i = queue_first(m, STEP_CGROUPS);

    if (i < m->count)
        janitor_finish_cgroups(m, i);
    else
        janitor_finish_link(m, 0);
}

/* ---- the first step ---- */

/* Returns true if the tree is small; stops counting when it is not. */
static bool tree_is_small(int at, const char *name, int depth, unsigned *left)
{
    auto_ptr(dir_close) DIR *d = dir_open(at, name);
    const struct dirent *e;
    bool small = true;

    if (d == NULL)
        return true; /* an unreadable directory is not walked by the removal either */
    while (small && (e = dir_next(d)) != NULL) {
        small = --*left > 0;
        if (small && e->d_type == DT_DIR)
            small = depth > 0 && tree_is_small(dirfd(d), e->d_name, depth - 1, left);
    }
    return small;
}

static bool sandbox_is_small(const struct launcher *l, const char *id)
{
    auto_close int dir =
        openat(l->sandboxes_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    unsigned left = SMALL_ENTRIES;
    struct stat st;

    return dir < 0 ||
           (tree_is_small(dir, "upper", SMALL_DEPTH, &left) &&
            (fstatat(dir, DISK_FILE, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_blocks < SMALL_BLOCKS));
}

/* The root is closed after the files are removed, so that its sync has less to write. If nothing
 * was written it is closed with the cgroups, because the sync covers the host's file system. */
static void job_remove_sandbox(struct janitor *m, struct queued *q)
{
    struct err err = ERR_NONE;
    int r;

    if (!q->job.cgroups) {
        r = sandbox_dir_remove(&m->own, q->job.id, &err);
        job_removed(m, q, r, &err);
        return;
    }
    r = sandbox_dir_clear(&m->own, q->job.id, &err);
    if (r < 0) {
        job_removed(m, q, r, &err);
        return;
    }
    if (r == 0)
        job_close_root(q->fds);
    q->step = STEP_CGROUPS;
    m->jobs[m->count++] = *q;
    m->quiet = clock_mono_ms() + QUIET_MS;
}

static void job_stop_sandbox(struct janitor *m, struct queued *q)
{
    const struct idrange ids = {.base = q->job.base, .lock_fd = q->fds[JOB_IDS]};
    auto_free char *owner = sandbox_owner(&m->own, q->job.id);
    struct err err = ERR_NONE;

    if (owner == NULL)
        (void)err_errno(&err, -ENOMEM, "stop sandbox");
    /* After a failure the range is reserved, but not synced. */
    if (owner == NULL || idrange_reserve(m->own.ids_fd, &ids, owner, &err) < 0)
        log_warn("launcher", "sandbox=%s %s", q->job.id, err.msg);
    job_close_root(q->fds);
}

static void job_run(struct janitor *m, struct queued *q)
{
    switch (q->job.type) {
    case JOB_REMOVE_SANDBOX:
        job_remove_sandbox(m, q);
        break;
    case JOB_REMOVE_HIDDEN:
        (void)volumes_each_hidden(m->own.volumes_fd, true);
        break;
    case JOB_STOP_SANDBOX:
        job_stop_sandbox(m, q);
        break;
    }
}

/* ---- the two kinds of process ---- */

static _Noreturn void janitor_main(const struct launcher *l, int sock, const struct queued *job);

/* Called in the launcher and in the janitor. The launcher's sweep repeats a killed removal. */
static void on_job_exit(void *owner, const struct child_process *c, int status)
{
    const char *id = c->id[0] != '\0' ? c->id : "(volumes)";

    if (WIFSIGNALED(status)) {
        log_warn("launcher",
                 "sandbox=%s removing its files was killed by signal %d, another one goes on", id,
                 WTERMSIG(status));
        sweep_later(owner);
    } else if (status != 0) {
        log_warn("launcher", "sandbox=%s removing its files failed: %s, the next start tries again",
                 id, strerror(WEXITSTATUS(status)));
    }
}

/* Starts a rind-job. Returns its pid, or -1. */
static pid_t job_start(struct launcher *l, const struct queued *q)
{
    pid_t pid = child_table_has_room(&l->children) ? fork() : -1;

    if (pid == 0)
        janitor_main(l, FD_NONE, q);
    if (pid > 0)
        child_table_add(&l->children, pid, q->job.id,
                        q->job.type != JOB_STOP_SANDBOX ? on_job_exit : NULL);
    return pid;
}

/* Receives one job and does its first step. Returns false when the launcher has exited or the
 * message is invalid; the next start then sweeps what the job was to remove. */
static bool janitor_receive(struct janitor *m)
{
    union socket_fds control;
    struct queued q = {.fds = JOB_NO_FDS};
    struct iovec iov = {.iov_base = &q.job, .iov_len = sizeof(q.job)};
    struct msghdr hdr = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof(control)};
    const struct cmsghdr *c;
    bool large;
    size_t len;
    ssize_t n = recvmsg(m->sock, &hdr, MSG_CMSG_CLOEXEC);

    if (n < 0 && errno == EINTR)
        return true;
    c = n == (ssize_t)sizeof(q.job) ? CMSG_FIRSTHDR(&hdr) : NULL;
    len = c != NULL ? c->cmsg_len - CMSG_LEN(0) : 0;
    if (n != (ssize_t)sizeof(q.job) || len > sizeof(q.fds) ||
        (q.job.type == JOB_REMOVE_SANDBOX && len < JOB_ROOT * sizeof(int)))
        return false;
    if (c != NULL)
        (void)memcpy(q.fds, CMSG_DATA(c), len);
    large = q.job.type == JOB_REMOVE_HIDDEN || !sandbox_is_small(&m->own, q.job.id);
    if (!large || job_start(&m->own, &q) < 0) {
        while (queue_is_full(m))
            janitor_finish_oldest(m);
        job_run(m, &q);
        return true;
    }
    for (size_t i = 0; i < JOB_FDS; i++)
        if (q.fds[i] >= 0)
            (void)close(q.fds[i]);
    return true;
}

/* Returns milliseconds until the next queued work; -1: there is none. */
static int janitor_wait_ms(const struct janitor *m)
{
    const size_t link = queue_first(m, STEP_LINK);
    int64_t due = queue_first(m, STEP_CGROUPS) < m->count ? m->quiet : INT64_MAX, left;

    if (link < m->count && m->jobs[link].due < due)
        due = m->jobs[link].due;
    left = due - clock_mono_ms();
    return due == INT64_MAX ? -1 : left > 0 ? (int)left : 0;
}

static void janitor_run_due(struct janitor *m)
{
    const int64_t now = clock_mono_ms();
    size_t i = queue_first(m, STEP_CGROUPS);

    if (i < m->count && m->quiet <= now) {
        janitor_finish_cgroups(m, i);
        m->quiet = now + PACE_MS;
    }
    while ((i = queue_first(m, STEP_LINK)) < m->count && m->jobs[i].due <= now)
        janitor_finish_link(m, i);
}

/* Runs until the launcher has closed its socket. */
static void janitor_loop(struct janitor *m)
{
    struct pollfd p[1 + CHILDREN_MAX] = {{.fd = m->sock, .events = POLLIN}};
    int r;

    do {
        const size_t children = child_table_poll(&m->own.children, p + 1);

        r = poll(p, 1 + children, janitor_wait_ms(m));
        if (r < 0 && errno != EINTR)
            return;
        child_table_reap(&m->own.children);
        if (m->own.sweeps_left > 0) /* set by on_job_exit: janitor_on_event sweeps */
            (void)send(m->sock, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        m->own.sweeps_left = 0;
        if (r == 0)
            janitor_run_due(m);
    } while (r <= 0 || p[0].revents == 0 || janitor_receive(m));
}

/* The number of fds in the queue, at most. A job without an fd left is left to the next start. */
static size_t janitor_fds_max(void)
{
    struct rlimit most = {0};

    (void)getrlimit(RLIMIT_NOFILE, &most);
    return most.rlim_cur > OWN_FILES ? (size_t)(most.rlim_cur - OWN_FILES) : 0;
}

/* Opens the directory again: the launcher's fd would share the directory's flock with it. */
static int reopen(int dir_fd)
{
    return openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* job: NULL for the janitor. The exit status is an errno. */
static _Noreturn void janitor_main(const struct launcher *l, int sock, const struct queued *job)
{
    enum { FIRST = STDERR_FILENO + 1 }; /* stderr stays open for the log */
    enum { SANDBOXES, IDS, VOLUMES, SOCK, OF_JOB, COUNT = OF_JOB + JOB_FDS };
    int fds[COUNT] = {reopen(l->sandboxes_fd), reopen(l->ids_fd), reopen(l->volumes_fd), sock};
    struct queued q = {.fds = JOB_NO_FDS};
    static struct janitor m;
    int r = fds[SANDBOXES] < 0 || fds[IDS] < 0 || fds[VOLUMES] < 0 ? -errno : 0;

    /* A terminal sends SIGINT to its whole process group; the janitor exits after the launcher. */
    child_become(job != NULL ? "rind-job" : "rind-janitor", job != NULL ? SIG_DFL : SIG_IGN);
    child_yield();
    if (job != NULL)
        q = *job;
    (void)memcpy(fds + OF_JOB, q.fds, sizeof(q.fds));
    if (r == 0)
        r = child_keep_fds(fds, COUNT, FIRST);
    m.own = *l;
    m.own.children.owner = &m.own;
    m.own.children.count = m.own.sweeps_left = 0;
    m.count = 0; /* a child of the janitor has a copy of its queue */
    m.own.sandboxes_fd = fds[SANDBOXES];
    m.own.ids_fd = fds[IDS];
    m.own.volumes_fd = fds[VOLUMES];
    m.sock = fds[SOCK];
    m.fds_max = janitor_fds_max();
    (void)memcpy(q.fds, fds + OF_JOB, sizeof(q.fds));
    if (r == 0 && (job == NULL || q.job.cgroups))
        r = cgroup_host_open(&m.own.cgroups, NULL);
    if (r < 0)
        _exit(-r < 256 ? -r : EIO);
    if (job != NULL && q.job.type != JOB_STOP_SANDBOX)
        (void)setpriority(PRIO_PROCESS, 0, NICENESS);
    if (job != NULL)
        job_run(&m, &q);
    else
        janitor_loop(&m);
    while (m.count > 0)
        janitor_finish_oldest(&m);
    _exit(0);
}

/* ---- the launcher's side ---- */

int janitor_start(struct launcher *l)
{
    int pair[2];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    pid = fork();
    if (pid == 0)
        janitor_main(l, pair[1], NULL);
    (void)close(pair[1]);
    if (pid < 0) {
        (void)close(pair[0]);
        return -errno;
    }
    l->janitor = pair[0];
    l->janitor_pid = pid;
    return 0;
}

void janitor_end(struct launcher *l)
{
    int status = 0;

    if (l->janitor < 0)
        return;
    (void)close(take_fd(&l->janitor));
    while (waitpid(l->janitor_pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(status)) {
        log_warn("launcher",
                 "the process that removes files was killed by signal %d, another one goes on",
                 WTERMSIG(status));
        sweep_later(l);
    } else if (status != 0) {
        log_warn("launcher", "no process can remove files: the launcher does it itself");
        l->janitor_fails = true;
    }
}

bool janitor_flush(struct launcher *l)
{
    if (l->janitor < 0)
        return false;
    janitor_end(l);
    (void)janitor_start(l);
    return true;
}

void janitor_on_event(struct launcher *l)
{
    char byte;
    const ssize_t n = recv(l->janitor, &byte, 1, MSG_DONTWAIT);

    if (n == 1) /* a child of the janitor was killed */
        sweep_later(l);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        janitor_end(l); /* it was killed; the next job starts another */
}

/* Does not block: -EAGAIN when the socket is full. */
static int job_send(const struct launcher *l, const struct queued *q)
{
    const size_t count = q->fds[JOB_ROOT] >= 0 ? JOB_FDS : q->fds[JOB_LOCK] >= 0 ? JOB_ROOT : 0;
    union socket_fds control;
    struct iovec iov = {.iov_base = (void *)(uintptr_t)&q->job, .iov_len = sizeof(q->job)};
    struct msghdr hdr = {.msg_iov = &iov, .msg_iovlen = 1};

    if (count > 0)
        socket_attach_fds(&hdr, &control, q->fds, count);
    return sendmsg(l->janitor, &hdr, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

static bool job_hand_over(struct launcher *l, const struct queued *q)
{
    int r = l->janitor >= 0 ? job_send(l, q) : -EPIPE;

    if (r == -EPIPE || r == -ECONNRESET) {
        janitor_end(l);
        r = l->janitor_fails ? -ECHILD : janitor_start(l);
        if (r == 0)
            r = job_send(l, q);
    }
    return r == 0;
}

/* Returns false if no process takes the job. A rind-job would fail for the janitor's reason. */
static bool job_post(struct launcher *l, const struct queued *q)
{
    return job_hand_over(l, q) || (!l->janitor_fails && job_start(l, q) > 0);
}

static struct queued job_of(enum job_type type, const struct launch_sandbox *s, bool cgroups,
                            int barrier)
{
    struct queued q = {.job = {.type = type, .cgroups = cgroups, .base = s->ids.base},
                       .fds = {s->lock_fd, s->ids.lock_fd, FD_NONE, barrier}};

    /* Without a barrier the root is the launcher's alone. */
    if (barrier >= 0)
        q.fds[JOB_ROOT] = s->root_fd;
    (void)snprintf(q.job.id, sizeof(q.job.id), "%s", s->id);
    return q;
}

bool janitor_remove_sandbox(struct launcher *l, struct launch_sandbox *s, bool cgroups)
{
    auto_close int barrier = FD_NONE;
    struct queued q;

    if (s->dir_fd < 0 || s->ids.lock_fd < 0 || sandbox_dir_lock(s) < 0)
        return false;
    barrier = barrier_make(s);
    q = job_of(JOB_REMOVE_SANDBOX, s, cgroups, barrier);
    return job_post(l, &q);
}

bool janitor_remove_large(struct launcher *l, const struct launch_sandbox *s)
{
    const struct queued q = job_of(JOB_REMOVE_SANDBOX, s, false, FD_NONE);

    return !sandbox_is_small(l, s->id) && job_start(l, &q) > 0;
}

bool janitor_remove_hidden(struct launcher *l)
{
    const struct queued q = {.job = {.type = JOB_REMOVE_HIDDEN}, .fds = JOB_NO_FDS};

    return job_post(l, &q);
}

int janitor_stop_sandbox(struct launcher *l, struct launch_sandbox *s)
{
    auto_close int barrier = FD_NONE;
    struct queued q;
    pid_t pid;
    int fd;

    if (sandbox_dir_lock(s) < 0)
        return -EAGAIN;
    barrier = barrier_make(s);
    if (s->root_fd >= 0 && barrier < 0)
        return -EAGAIN;
    q = job_of(JOB_STOP_SANDBOX, s, false, barrier);
    pid = job_start(l, &q);
    if (pid < 0)
        return -EAGAIN;
    /* Without it the caller cannot wait, and an immediate restart may get -EBUSY. */
    fd = sys_pidfd_open(pid);
    return fd >= 0 ? fd : FD_NONE;
}
