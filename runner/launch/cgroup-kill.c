/* Kills and freezes all processes of a sandbox. On v2 the kernel does both. Without v2, the
 * processes are found in cgroup.procs, and the v1 freezer, where there is one, keeps them from
 * forking away from the reader. Runs in the launcher. */

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
#include "launch/cgroup-internal.h"

enum {
    /* most processes stop at once; one in an uninterruptible wait is not waited for */
    FREEZE_MS = 10,
    PAUSE_MIN_USEC = 50,
    PAUSE_MAX_USEC = 12800,
    BATCH_MAX = 256, /* processes signalled in one pass */
    PROCS_TEXT_MAX = BATCH_MAX * 12,
};

/* A polling interval that doubles: a quick change is seen quickly, and a slow one costs no CPU. */
struct backoff {
    int64_t deadline; /* clock_mono_ms() */
    long usec;
};

static struct backoff patience_new(int ms)
{
    return (struct backoff){.deadline = clock_mono_ms() + ms, .usec = PAUSE_MIN_USEC};
}

/* Sleeps for the interval, or until fd polls as changed (FD_NONE: no fd). Returns false at once
 * when the deadline has passed. */
static bool wait_more(struct backoff *p, int fd)
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

/* Waits until `key` of cgroup.events is `want`. The file polls as changed then. But the kernel
 * delays a notification that follows another within 10 ms, so the file is also read at intervals.
 */
static int wait_event(int dir_fd, const char *key, uint64_t want, struct backoff p)
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

/* Reads the pids in dir, at most BATCH_MAX. Returns their number or a negative errno. */
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
    /* A number that the buffer cut off has no newline; the next batch contains it. */
    while (count < BATCH_MAX && (end = strchr(p, '\n')) != NULL) {
        long pid = strtol(p, NULL, 10);

        if (pid > 0) /* 0: not visible in the launcher's pid namespace */
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

/* Kills one batch; returns the number of listed processes. A pid may be reused before it is
 * signalled. So each process is pinned by a pidfd first and must still be listed afterwards. A
 * process that is pinned and listed was in the cgroup, or has exited since. */
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
            (void)pidfd_send_signal(fds[i], SIGKILL, NULL, 0); /* ESRCH: it has exited */
        (void)close(fds[i]);
    }
    return count;
}

/* kill_batch for a directory and all below it (v2 exec cgroups). */
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
        /* removed in between: no process to kill */
        n = child < 0 ? 0 : kill_tree(child, depth - 1);
        count += n > 0 ? n : 0;
    }
    return count;
}

/* Adds the pids in a directory and below it, at most max. Returns their number. */
static int list_tree(int dir_fd, int depth, pid_t *pids, int max)
{
    auto_ptr(dir_close) DIR *d = NULL;
    pid_t here[BATCH_MAX];
    int n = read_procs(dir_fd, here), count = 0;
    const struct dirent *e;

    for (; count < n && count < max; count++)
        pids[count] = here[count];
    d = depth > 0 && count < max ? dir_open(dir_fd, ".") : NULL;
    while (d != NULL && count < max && (e = dir_next(d)) != NULL) {
        auto_close int child = FD_NONE;

        if (e->d_type != DT_DIR)
            continue;
        child = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (child >= 0)
            count += list_tree(child, depth - 1, pids + count, max - count);
    }
    return count;
}

static int freezer_fd(const struct cgroup *c)
{
    return c->home[CG_FREEZER] == CG_NOWHERE ? FD_NONE : c->dir_fd[c->home[CG_FREEZER]];
}

/* Returns a directory that holds all of the sandbox's processes. */
static int any_dir(const struct cgroup *c)
{
    if (c->v2 != CG_NOWHERE)
        return c->dir_fd[c->v2];
    for (int i = 0; i < CG_HIERARCHIES_MAX; i++)
        if (c->dir_fd[i] >= 0)
            return c->dir_fd[i];
    return FD_NONE;
}

int cg_list(const struct cgroup *c, pid_t *pids, int max)
{
    const int dir_fd = any_dir(c);

    return dir_fd < 0 ? 0 : list_tree(dir_fd, CG_DEPTH_MAX, pids, max);
}

/* Kills until no process is listed. A v1 freezer stops them from forking during a pass, and must
 * thaw them for the signal to take effect; a v2 freezer need not. */
int cg_kill_by_list(const struct cgroup *c, int deadline_ms)
{
    struct backoff p = patience_new(deadline_ms);
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
            /* ENOENT, ENODEV: the cgroup has been removed, so it has no process */
            return n == -ENOENT || n == -ENODEV ? 0 : n;
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
            r = wait_event(dir_fd, "populated", 0, patience_new(deadline_ms));
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

/* If `file` shows that a freeze is already under way, the caller is retrying and does not wait
 * again. */
static struct backoff backoff_to_freeze(int dir_fd, const char *file, const char *frozen,
                                        bool freeze)
{
    char text[CG_SMALL_MAX];
    bool again = freeze && cg_read(dir_fd, file, text) == 0 && strcmp(text, frozen) == 0;

    return patience_new(again ? 0 : FREEZE_MS);
}

static int freeze_v1(int dir_fd, bool freeze)
{
    const char *want = freeze ? "FROZEN\n" : "THAWED\n";
    struct backoff p = backoff_to_freeze(dir_fd, "freezer.state", "FREEZING\n", freeze);
    char text[CG_SMALL_MAX];
    int r;

    do {
        /* The state is written in each pass: processes that forked late keep it FREEZING otherwise.
         */
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
    struct backoff p = backoff_to_freeze(dir_fd, "cgroup.freeze", "1\n", freeze);
    int r = file_poke_at(dir_fd, "cgroup.freeze", freeze ? "1" : "0");

    return r < 0 ? r : wait_event(dir_fd, "frozen", freeze, p);
}

/* Opens the cgroup of the users' processes. Init keeps them in `u` of its subtree, and itself and
 * its helpers (file operations on a frozen sandbox) outside. Before init has made `u`, the whole
 * sandbox is frozen. */
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
        return 0; /* without a freezer it cannot be frozen */
    r = cg_read(dir_fd, c->v2 != CG_NOWHERE ? "cgroup.freeze" : "freezer.state", text);
    if (r < 0)
        return r == -ENOENT ? 0 : r;
    /* FREEZING counts as frozen: the launcher that wrote it died before the state changed. */
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
