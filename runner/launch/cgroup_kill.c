/*
 * Ending and stopping all processes of a sandbox. On v2 the kernel does both; without it, the
 * processes are found in cgroup.procs, and stopped by the v1 freezer where there is one, so that
 * they cannot fork away from the reader.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <time.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/file.h"
#include "launch/cgroup_internal.h"

enum {
    FREEZE_MS = 10, /* most follow at once; nobody waits for a process that waits for something */
    PAUSE_MIN_USEC = 50,
    PAUSE_MAX_USEC = 12800,
    BATCH_MAX = 256, /* processes signalled in one go */
    PROCS_TEXT_MAX = BATCH_MAX * 12,
};

/* A wait that grows from look to look, so that what is done at once is seen at once, and what takes
 * long costs no CPU. */
struct patience {
    int64_t deadline; /* clock_mono_ms() */
    long usec;
};

static struct patience patience(int ms)
{
    return (struct patience){.deadline = clock_mono_ms() + ms, .usec = PAUSE_MIN_USEC};
}

/* Waits, or until fd polls as changed (FD_NONE: no fd). False, without a wait, past the deadline.
 */
static bool wait_more(struct patience *p, int fd)
{
    struct pollfd change = {.fd = fd, .events = POLLPRI};
    struct timespec t = {.tv_nsec = p->usec * 1000};

    if (clock_mono_ms() >= p->deadline)
        return false;
    (void)ppoll(&change, 1, &t, NULL);
    if (p->usec < PAUSE_MAX_USEC)
        p->usec *= 2;
    return true;
}

/* Waits until `key` of cgroup.events is `want`. The file polls as changed then, but the kernel
 * holds back a notice that follows another within 10 ms, so we look by ourselves, too. */
static int wait_event(int dir_fd, const char *key, uint64_t want, struct patience p)
{
    auto_close int fd = FD_NONE;

    fd = openat(dir_fd, "cgroup.events", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -errno;
    do {
        char text[CG_SMALL_MAX];
        uint64_t value;
        ssize_t n;
        int r;

        n = pread(fd, text, sizeof(text) - 1, 0);
        if (n < 0)
            return -errno;
        text[n] = '\0';
        r = cg_keyed(text, key, &value);
        if (r < 0)
            return r;
        if (value == want)
            return 0;
    } while (wait_more(&p, fd));
    return -ETIMEDOUT;
}

/* The processes in dir, at most BATCH_MAX of them. */
static int read_procs(int dir_fd, pid_t pids[static BATCH_MAX])
{
    auto_close int fd = FD_NONE;
    char text[PROCS_TEXT_MAX + 1];
    char *p = text, *end;
    ssize_t n;
    int count = 0;

    fd = openat(dir_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -errno;
    n = read(fd, text, PROCS_TEXT_MAX);
    if (n < 0)
        return -errno;
    text[n] = '\0';
    /* A number that the buffer cut off has no newline, and waits for the next batch. */
    while (count < BATCH_MAX && (end = strchr(p, '\n')) != NULL) {
        long pid = strtol(p, NULL, 10);

        if (pid > 0) /* 0: a process that our pid namespace does not see */
            pids[count++] = (pid_t)pid;
        p = end + 1;
    }
    return count;
}

static bool has_pid(const pid_t *pids, int count, pid_t pid)
{
    for (int i = 0; i < count; i++)
        if (pids[i] == pid)
            return true;
    return false;
}

/*
 * Signals one batch; returns how many were there. A pid may be somebody else's by the time we use
 * it: each is pinned by a pidfd first, and then has to be in the list still. One that is pinned and
 * listed afterwards was ours, or has ended since.
 */
static int kill_batch(int dir_fd)
{
    int fds[BATCH_MAX], count, again;
    pid_t pids[BATCH_MAX], now[BATCH_MAX];

    count = read_procs(dir_fd, pids);
    if (count <= 0)
        return count;
    for (int i = 0; i < count; i++)
        fds[i] = pidfd_open(pids[i], 0);
    again = read_procs(dir_fd, now);
    for (int i = 0; i < count; i++) {
        if (fds[i] < 0)
            continue;
        if (has_pid(now, again, pids[i]))
            (void)pidfd_send_signal(fds[i], SIGKILL, NULL, 0); /* ESRCH: it has ended */
        (void)close(fds[i]);
    }
    return count;
}

/* The same for a directory and all below it (v2 leaves). */
static int kill_tree(int dir_fd, int depth)
{
    auto_ptr(dir_close) DIR *d = NULL;
    int count = kill_batch(dir_fd);
    const struct dirent *e;

    if (count < 0 || depth == 0)
        return count;
    d = dir_open(dir_fd, ".");
    if (d == NULL)
        return -errno;
    while ((e = dir_next(d)) != NULL) {
        auto_close int child = FD_NONE;
        int n;

        if (e->d_type != DT_DIR)
            continue;
        child = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        n = child < 0 ? 0 : kill_tree(child, depth - 1); /* gone in between: nothing to end */
        count += n > 0 ? n : 0;
    }
    return count;
}

static int freezer_fd(const struct cgroup *c)
{
    return c->home[CG_FREEZER] == CG_NOWHERE ? FD_NONE : c->dir_fd[c->home[CG_FREEZER]];
}

/* A directory that holds all of the sandbox's processes. */
static int any_dir(const struct cgroup *c)
{
    if (c->v2 != CG_NOWHERE)
        return c->dir_fd[c->v2];
    for (int i = 0; i < CG_HIERARCHIES_MAX; i++)
        if (c->dir_fd[i] >= 0)
            return c->dir_fd[i];
    return FD_NONE;
}

/* Signals until nobody is listed. A v1 freezer holds them meanwhile, and must let go of them for
 * the signal to work; a v2 one need not. */
int cg_kill_by_list(const struct cgroup *c, int deadline_ms)
{
    struct patience p = patience(deadline_ms);
    int dir_fd = any_dir(c);
    int freezer = c->v2 == CG_NOWHERE ? freezer_fd(c) : FD_NONE;

    for (;;) {
        int n;

        if (freezer >= 0)
            (void)file_poke_at(freezer, "freezer.state", "FROZEN");
        n = kill_tree(dir_fd, CG_DEPTH_MAX);
        if (freezer >= 0)
            (void)file_poke_at(freezer, "freezer.state", "THAWED");
        if (n <= 0)
            return n == -ENOENT || n == -ENODEV ? 0 : n; /* a removed cgroup has nobody in it */
        if (!wait_more(&p, FD_NONE))
            return -ETIMEDOUT;
    }
}

int cgroup_kill(const struct cgroup *c, int deadline_ms, struct err *err)
{
    int dir_fd = any_dir(c);
    int r = -ENOENT;

    if (dir_fd < 0)
        return err_set(err, -EOPNOTSUPP, "this host has no cgroup to end a sandbox by");
    if (c->v2 != CG_NOWHERE) {
        r = file_poke_at(dir_fd, "cgroup.kill", "1");
        if (r == 0)
            r = wait_event(dir_fd, "populated", 0, patience(deadline_ms));
    }
    if (r == -ENOENT) /* v1, or a kernel before 5.14 */
        r = cg_kill_by_list(c, deadline_ms);
    if (r == -ETIMEDOUT)
        return err_set(err, r, "processes are still there %d ms after SIGKILL", deadline_ms);
    return r < 0 ? err_errno(err, r, "end the processes of a cgroup") : 0;
}

void cgroup_signal_kill(const struct cgroup *c)
{
    int dir_fd = any_dir(c);

    if (dir_fd < 0)
        return;
    if (c->v2 == CG_NOWHERE || file_poke_at(dir_fd, "cgroup.kill", "1") < 0)
        (void)kill_tree(dir_fd, CG_DEPTH_MAX);
}

/* Whether `file` says what it says of frozen ones: whoever asks again is not waited for again. */
static struct patience patience_to_freeze(int dir_fd, const char *file, const char *frozen,
                                          bool freeze)
{
    char text[CG_SMALL_MAX];
    bool again = freeze && cg_read(dir_fd, file, text) == 0 && strcmp(text, frozen) == 0;

    return patience(again ? 0 : FREEZE_MS);
}

static int freeze_v1(int dir_fd, bool freeze)
{
    const char *want = freeze ? "FROZEN\n" : "THAWED\n";
    struct patience p = patience_to_freeze(dir_fd, "freezer.state", "FREEZING\n", freeze);
    char text[CG_SMALL_MAX];
    int r;

    do {
        /* Written again each time: processes that came late keep it FREEZING otherwise. */
        r = file_poke_at(dir_fd, "freezer.state", freeze ? "FROZEN" : "THAWED");
        if (r == 0)
            r = cg_read(dir_fd, "freezer.state", text);
        if (r < 0)
            return r;
        if (strcmp(text, want) == 0)
            return 0;
    } while (wait_more(&p, FD_NONE));
    return -ETIMEDOUT;
}

static int freeze_v2(int dir_fd, bool freeze)
{
    struct patience p = patience_to_freeze(dir_fd, "cgroup.freeze", "1\n", freeze);
    int r = file_poke_at(dir_fd, "cgroup.freeze", freeze ? "1" : "0");

    return r < 0 ? r : wait_event(dir_fd, "frozen", freeze, p);
}

/*
 * init keeps the users' processes in `u` of its subtree, and itself and helpers (file operations on
 * a paused sandbox) outside of it; before it has, everything stops.
 */
static int open_users(const struct cgroup *c)
{
    return c->exec_fd < 0 ? FD_NONE
                          : openat(c->exec_fd, "u", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int freeze_users(const struct cgroup *c, bool freeze)
{
    auto_close int users = open_users(c);

    return freeze_v2(users >= 0 ? users : c->dir_fd[c->v2], freeze);
}

int cgroup_frozen(const struct cgroup *c)
{
    auto_close int users = c->v2 != CG_NOWHERE ? open_users(c) : FD_NONE;
    int dir_fd = c->v2 == CG_NOWHERE ? freezer_fd(c) : users >= 0 ? users : c->dir_fd[c->v2];
    char text[CG_SMALL_MAX];
    int r;

    if (dir_fd < 0)
        return 0; /* nobody could have frozen it */
    r = cg_read(dir_fd, c->v2 != CG_NOWHERE ? "cgroup.freeze" : "freezer.state", text);
    if (r < 0)
        return r == -ENOENT ? 0 : r;
    /* FREEZING, too: whoever froze it died at it. */
    return strcmp(text, c->v2 != CG_NOWHERE ? "0\n" : "THAWED\n") != 0;
}

int cgroup_users_fd(const struct cgroup *c)
{
    int fd, all = c->v2 != CG_NOWHERE ? FD_NONE : any_dir(c);

    if (c->v2 != CG_NOWHERE)
        fd = openat(c->exec_fd, "u", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    else
        fd = all >= 0 ? fcntl(all, F_DUPFD_CLOEXEC, 3) : (errno = EOPNOTSUPP, -1);
    return fd < 0 ? -errno : fd;
}

static int set_frozen(const struct cgroup *c, bool freeze)
{
    if (c->v2 != CG_NOWHERE)
        return freeze_users(c, freeze);
    return freeze_v1(freezer_fd(c), freeze);
}

int cgroup_freeze(const struct cgroup *c, bool freeze, struct err *err)
{
    int r;

    if (c->v2 == CG_NOWHERE && freezer_fd(c) < 0)
        return err_set(err, -EOPNOTSUPP,
                       "pause: this host has no cgroup freezer; mount -t cgroup2 cgroup2 "
                       "/sys/fs/cgroup/unified");
    r = set_frozen(c, freeze);
    if (r == -ETIMEDOUT)
        return err_set(err, -EAGAIN, "%s: a process has not followed yet",
                       freeze ? "pause" : "resume");
    return r < 0 ? err_errno(err, r, "%s", freeze ? "pause" : "resume") : 0;
}
