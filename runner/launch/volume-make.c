/*
 * Making a volume: in a directory of another name, which it changes for its own when it is whole,
 * and, where that was asked for, on the disk. What waits for a disk is done by a process of its
 * own, as the launcher has one thread: it ends with the launcher, so that nothing comes into being
 * that the next one has not seen, and when its time is over, so that nothing does that its client
 * has been told has failed. It says what it is about to do, because where a disk hangs it is not
 * there to say what it could not do.
 *
 * Who makes one holds the lock in it. The lock of the directory of all is held only while names are
 * made and changed: who has it knows that what is not locked is nobody's.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/file.h"
#include "launch/launcher.h"
#include "launch/volume_internal.h"
#include "proto/rmtree.h"
#include "proto/syscalls.h"

#define MAKING_PREFIX ".new-"

/* One that is being made. */
struct making {
    const struct launch_request *q;
    struct creator who;
    char name[sizeof(MAKING_PREFIX) + 16];
    int volumes_fd;      /* borrowed */
    int dir_fd, lock_fd; /* owned */
    int report_fd;       /* borrowed; or FD_NONE: nobody asks what it is at */
};

static int failed(const struct making *m, int r, struct err *err)
{
    return err_errno(err, r, "make volume '%s'", m->q->volume_name);
}

static void step(const struct making *m, const char *what)
{
    struct volume_report report = {.code = VOLUME_STEP};

    if (m->report_fd < 0)
        return;
    (void)snprintf(report.message, sizeof(report.message), "%s", what);
    (void)!write(m->report_fd, &report, sizeof(report));
}

static bool is_durable(const struct making *m)
{
    return (m->q->flags & LAUNCH_KEEP) != 0;
}

static int lock_all(int volumes_fd)
{
    while (flock(volumes_fd, LOCK_EX) < 0)
        if (errno != EINTR)
            return -errno;
    return 0;
}

static int check_free(const struct making *m, struct err *err)
{
    if (faccessat(m->volumes_fd, m->q->volume_name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return err_set(err, -EEXIST, "volume '%s': the name is taken", m->q->volume_name);
    return 0;
}

/* ---- its directory ---- */

static int make_dir(struct making *m, struct err *err)
{
    uint64_t number;
    int r = check_free(m, err);

    if (r < 0)
        return r;
    if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
        return failed(m, -EIO, err);
    (void)snprintf(m->name, sizeof(m->name), MAKING_PREFIX "%016llx", (unsigned long long)number);
    if (mkdirat(m->volumes_fd, m->name, 0700) < 0)
        return failed(m, -errno, err);
    m->dir_fd = openat(m->volumes_fd, m->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (m->dir_fd >= 0)
        m->lock_fd = openat(m->dir_fd, VOLUME_LOCK, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (m->lock_fd < 0 || flock(m->lock_fd, LOCK_EX | LOCK_NB) < 0)
        return failed(m, -errno, err);
    return 0;
}

static int write_new(int dir_fd, const char *name, const void *data, size_t len)
{
    auto_close int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    return fd < 0 ? -errno : write_all(fd, data, len);
}

/* These files and no others: the file system is not ours alone. */
static int sync_record(int dir_fd)
{
    static const char *const names[] = {VOLUME_META, VOLUME_KEEP, VOLUME_DISK, "."};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        auto_close int fd = openat(dir_fd, names[i], O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

        if (fd < 0 && errno == ENOENT && strcmp(names[i], VOLUME_DISK) == 0)
            continue;
        if (fd < 0 || fsync(fd) < 0)
            return -errno;
    }
    return 0;
}

static int fill_record(const struct making *m, struct err *err)
{
    int r;

    step(m, "write its record");
    r = write_new(m->dir_fd, VOLUME_META, m->q->meta, m->q->meta_len);
    if (r < 0)
        return failed(m, r, err);
    r = creator_save(m->dir_fd, VOLUME_KEEP, &m->who, err);
    if (r < 0)
        return r;
    if (m->q->disk > 0) {
        step(m, "make its file system");
        r = disk_make(m->dir_fd, VOLUME_DISK, (uint64_t)m->q->disk, true, err);
    }
    if (r == 0 && is_durable(m)) {
        step(m, "sync what was written to the disk");
        r = sync_record(m->dir_fd);
        if (r < 0)
            (void)failed(m, r, err);
    }
    return r;
}

/* Somebody else may have made one of this name since. */
static int take_name(const struct making *m, struct err *err)
{
    int r = lock_all(m->volumes_fd);

    if (r < 0)
        return failed(m, r, err);
    r = check_free(m, err);
    if (r == 0 && renameat(m->volumes_fd, m->name, m->volumes_fd, m->q->volume_name) < 0)
        r = failed(m, -errno, err);
    if (r == 0)
        (void)flock(m->lock_fd, LOCK_UN);
    (void)flock(m->volumes_fd, LOCK_UN);
    return r;
}

/* From its empty directory to its name, or to nothing. */
static int complete(struct launcher *l, const struct making *m, struct err *err)
{
    int r = fill_record(m, err);

    if (r == 0) {
        step(m, "give it its name");
        r = take_name(m, err);
    }
    if (r < 0) {
        (void)rmtree_at(m->volumes_fd, m->name, RMTREE_ONE_MOUNT);
        return r;
    }
    step(m, "sync its name to the disk");
    if (is_durable(m) && fsync(m->volumes_fd) < 0) {
        r = failed(m, -errno, err);
        (void)trash_put(l, m->volumes_fd, m->q->volume_name, NULL);
    }
    return r;
}

/* ---- the process ---- */

/* By the deadline it is over, whatever it does: one that is killed in the middle of a call of the
 * kernel's that cannot be left comes back to nothing. */
static int bound_time(int64_t deadline_ms)
{
    const int64_t left = deadline_ms - clock_mono_ms();
    const struct itimerval timer = {
        .it_value = {.tv_sec = left / 1000, .tv_usec = left % 1000 * 1000}};

    if (left <= 0)
        return -ETIMEDOUT;
    (void)signal(SIGALRM, SIG_DFL);
    return setitimer(ITIMER_REAL, &timer, NULL) < 0 ? -errno : 0;
}

static _Noreturn void child(const struct launcher *l, const struct making *m, int report_fd,
                            int64_t deadline_ms, pid_t launcher)
{
    enum { FIRST = STDERR_FILENO + 1, VOLUMES = 0, DIR_FD, LOCK, REPORT, COUNT };
    /* A lock of its own of the directory: through the launcher's descriptor it would be its. */
    int fds[COUNT] = {openat(l->volumes_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), m->dir_fd,
                      m->lock_fd, report_fd};
    struct making own = *m;
    struct launcher its = *l;
    struct volume_report report;
    struct err err = ERR_NONE;

    removal_become("rind-volume", SIG_DFL);
    if (fds[VOLUMES] < 0 || removal_keep_only(fds, COUNT, FIRST) < 0 ||
        prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != launcher ||
        (l->volume_make_ms > 0 && bound_time(deadline_ms) < 0))
        _exit(1);
    own.volumes_fd = its.volumes_fd = fds[VOLUMES];
    own.dir_fd = fds[DIR_FD];
    own.lock_fd = fds[LOCK];
    own.report_fd = fds[REPORT];
    report = (struct volume_report){.code = complete(&its, &own, &err)};
    (void)memcpy(report.message, err.msg, sizeof(report.message));
    (void)!write(fds[REPORT], &report, sizeof(report));
    _exit(0);
}

/* Where the disk is slow, or does not answer at all, they would be as many as anybody asks for. */
static int check_makers(struct launcher *l, const struct making *m, struct err *err)
{
    unsigned count = 0;

    if (!is_durable(m) || l->clients.len == 0)
        return 0;
    removal_reap(l);
    for (size_t i = 0; i < l->removal_count; i++)
        count += l->removals[i].makes_volume;
    return count < l->volume_makers
               ? 0
               : err_set(err, -EAGAIN,
                         "limit maxVolumeMakers: %u volumes are being made, whose disk is slow",
                         count);
}

/* As launcher_volume_make; -EAGAIN, and err is not set: there is none, and the caller does it. */
static int complete_aside(struct launcher *l, const struct making *m, int ret[2])
{
    auto_close int ours = FD_NONE, its = FD_NONE;
    const int64_t deadline_ms = clock_mono_ms() + (int64_t)l->volume_make_ms;
    const pid_t self = getpid();
    int pidfd = FD_NONE, pair[2];
    struct clone_args args = {
        .flags = CLONE_PIDFD, .pidfd = (uint64_t)(uintptr_t)&pidfd, .exit_signal = SIGCHLD};
    pid_t pid;

    if (!is_durable(m) || l->clients.len == 0 || !removal_has_room(l) ||
        pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
        return -EAGAIN;
    ours = pair[0];
    its = pair[1];
    pid = sys_clone3(&args);
    if (pid == 0)
        child(l, m, its, deadline_ms, self);
    if (pid < 0)
        return -EAGAIN;
    removal_keep(l, pid, NULL);
    l->removals[l->removal_count - 1].makes_volume = true;
    ret[0] = pidfd;
    ret[1] = take_fd(&ours);
    return 1;
}

/* ---- requests ---- */

/* Whoever makes one has its lock from before ours was free. */
static bool is_being_made(int volumes_fd, const char *name)
{
    auto_close int dir = openat(volumes_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    auto_close int fd =
        dir < 0 ? FD_NONE : openat(dir, VOLUME_LOCK, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0;
}

static void sweep_locked(struct launcher *l)
{
    auto_ptr(dir_close) DIR *d = dir_open(l->volumes_fd, ".");
    const struct dirent *e;

    if (d == NULL)
        return;
    l->volumes_unswept = false;
    while ((e = dir_next(d)) != NULL) {
        if (strncmp(e->d_name, MAKING_PREFIX, strlen(MAKING_PREFIX)) != 0)
            continue;
        /* By another launcher, or by what is about to end with one that was killed. */
        if (is_being_made(l->volumes_fd, e->d_name))
            l->volumes_unswept = true;
        else
            (void)trash_put(l, l->volumes_fd, e->d_name, NULL);
    }
}

/* Its empty directory. */
static int begin(struct launcher *l, struct making *m, struct err *err)
{
    const bool sweep = l->volumes_unswept;
    int r = lock_all(l->volumes_fd);

    if (r < 0)
        return failed(m, r, err);
    if (sweep)
        sweep_locked(l);
    r = make_dir(m, err);
    if (r < 0 && m->dir_fd >= 0)
        (void)rmtree_at(l->volumes_fd, m->name, RMTREE_ONE_MOUNT);
    (void)flock(l->volumes_fd, LOCK_UN);
    if (sweep)
        trash_empty(l);
    return r;
}

int launcher_volume_make(struct launcher *l, const struct launch_request *q, int ret[2],
                         struct err *err)
{
    struct making m = {.q = q,
                       .who = {.kind = CREATOR_OWNER},
                       .volumes_fd = l->volumes_fd,
                       .dir_fd = FD_NONE,
                       .lock_fd = FD_NONE,
                       .report_fd = FD_NONE};
    int r = 0;

    if (l->clients.len > 0)
        r = creator_ask(q->client_fd, &l->clients, &m.who, err);
    if (r == 0)
        r = disk_check_reserve(l, q->disk > 0 ? (uint64_t)q->disk : 0, err);
    if (r == 0)
        r = check_makers(l, &m, err);
    if (r == 0)
        r = begin(l, &m, err);
    if (r == 0)
        r = complete_aside(l, &m, ret);
    if (r == -EAGAIN && m.lock_fd >= 0)
        r = complete(l, &m, err);
    if (m.dir_fd >= 0)
        (void)close(m.dir_fd);
    if (m.lock_fd >= 0)
        (void)close(m.lock_fd);
    return r;
}

void volumes_sweep(struct launcher *l)
{
    /* Children of a launcher that was killed in the middle may hold its lock for a moment longer:
     * then whoever makes the next volume does it. */
    l->volumes_unswept = true;
    if (flock(l->volumes_fd, LOCK_EX | LOCK_NB) == 0) {
        sweep_locked(l);
        (void)flock(l->volumes_fd, LOCK_UN);
    }
    trash_empty(l);
}
