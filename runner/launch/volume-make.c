/*
 * Makes a volume in a directory with a temporary name, which is renamed when it is complete and, if
 * requested, on disk. Waiting for a disk is done by a child, as the launcher has one thread. The
 * child is killed with the launcher, so that no volume appears that the next launcher has not seen.
 * It is also killed at its deadline, so that no volume appears after its client got an error. It
 * reports each step before it begins: if the disk hangs it cannot report an error.
 *
 * The maker holds the new volume's lock. The lock of the volumes directory is held only while names
 * are made and changed: under it, an unlocked temporary directory is abandoned.
 *
 * Runs in the launcher and in that child.
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
#include "launch/volume-internal.h"
#include "proto/rmtree.h"
#include "proto/syscalls.h"

#define MAKING_PREFIX ".new-"

/* A volume that is being made. */
struct volume_make_making {
    const struct launch_request *q;
    struct creator who;
    char name[sizeof(MAKING_PREFIX) + 16];
    int volumes_fd;      /* borrowed */
    int dir_fd, lock_fd; /* owned */
    int report_fd;       /* borrowed; or FD_NONE: the launcher makes it, without reports */
};

static int making_error(const struct volume_make_making *m, int r, struct err *err)
{
    return err_errno(err, r, "make volume '%s'", m->q->volume_name);
}

static void making_report_step(const struct volume_make_making *m, const char *what)
{
    struct volume_report report = {.code = VOLUME_STEP};

    if (m->report_fd < 0)
        return;
    (void)snprintf(report.message, sizeof(report.message), "%s", what);
    (void)!write(m->report_fd, &report, sizeof(report));
}

static bool making_is_durable(const struct volume_make_making *m)
{
    return (m->q->flags & LAUNCH_KEEP) != 0;
}

static int volumes_lock(int volumes_fd)
{
    while (flock(volumes_fd, LOCK_EX) < 0)
        if (errno != EINTR)
            return -errno;
    return 0;
}

static int making_check_name(const struct volume_make_making *m, struct err *err)
{
    if (faccessat(m->volumes_fd, m->q->volume_name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return err_set(err, -EEXIST, "volume '%s': the name is taken", m->q->volume_name);
    return 0;
}

/* ---- its directory ---- */

static int making_make_dir(struct volume_make_making *m, struct err *err)
{
    uint64_t number;
    int r = making_check_name(m, err);

    if (r < 0)
        return r;
    if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
        return making_error(m, -EIO, err);
    (void)snprintf(m->name, sizeof(m->name), MAKING_PREFIX "%016llx", (unsigned long long)number);
    if (mkdirat(m->volumes_fd, m->name, 0700) < 0)
        return making_error(m, -errno, err);
    m->dir_fd = openat(m->volumes_fd, m->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (m->dir_fd >= 0)
        m->lock_fd = openat(m->dir_fd, VOLUME_LOCK, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (m->lock_fd < 0 || flock(m->lock_fd, LOCK_EX | LOCK_NB) < 0)
        return making_error(m, -errno, err);
    return 0;
}

static int file_write_new(int dir_fd, const char *name, const void *data, size_t len)
{
    auto_close int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    return fd < 0 ? -errno : write_all(fd, data, len);
}

/* fsyncs these files only: other users' data may be on the same file system. */
static int volume_sync_record(int dir_fd)
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

static int making_fill(const struct volume_make_making *m, struct err *err)
{
    int r;

    making_report_step(m, "write its record");
    r = file_write_new(m->dir_fd, VOLUME_META, m->q->meta, m->q->meta_len);
    if (r < 0)
        return making_error(m, r, err);
    r = creator_save(m->dir_fd, VOLUME_KEEP, &m->who, err);
    if (r < 0)
        return r;
    if (m->q->disk > 0) {
        making_report_step(m, "make its file system");
        r = disk_make(m->dir_fd, VOLUME_DISK, (uint64_t)m->q->disk, true, err);
    }
    if (r == 0 && making_is_durable(m)) {
        making_report_step(m, "sync what was written to the disk");
        r = volume_sync_record(m->dir_fd);
        if (r < 0)
            (void)making_error(m, r, err);
    }
    return r;
}

/* Renames it to its name, which another request may have taken meanwhile. */
static int making_take_name(const struct volume_make_making *m, struct err *err)
{
    int r = volumes_lock(m->volumes_fd);

    if (r < 0)
        return making_error(m, r, err);
    r = making_check_name(m, err);
    if (r == 0 && renameat(m->volumes_fd, m->name, m->volumes_fd, m->q->volume_name) < 0)
        r = making_error(m, -errno, err);
    if (r == 0)
        (void)flock(m->lock_fd, LOCK_UN);
    (void)flock(m->volumes_fd, LOCK_UN);
    return r;
}

/* Completes the volume, or removes it on failure. */
static int making_complete(struct launcher *l, const struct volume_make_making *m, struct err *err)
{
    int r = making_fill(m, err);

    if (r == 0) {
        making_report_step(m, "give it its name");
        r = making_take_name(m, err);
    }
    if (r < 0) {
        (void)rmtree_at(m->volumes_fd, m->name, RMTREE_ONE_MOUNT);
        return r;
    }
    making_report_step(m, "sync its name to the disk");
    if (making_is_durable(m) && fsync(m->volumes_fd) < 0) {
        r = making_error(m, -errno, err);
        (void)volume_hide(l, m->volumes_fd, m->q->volume_name, NULL);
    }
    return r;
}

/* ---- the child ---- */

/* SIGALRM kills the process at the deadline, whatever it does. If it hangs in a system call, it
 * dies when that returns. */
static int making_set_deadline(int64_t deadline_ms)
{
    const int64_t left = deadline_ms - clock_mono_ms();
    const struct itimerval timer = {
        .it_value = {.tv_sec = left / 1000, .tv_usec = left % 1000 * 1000}};

    if (left <= 0)
        return -ETIMEDOUT;
    (void)signal(SIGALRM, SIG_DFL);
    return setitimer(ITIMER_REAL, &timer, NULL) < 0 ? -errno : 0;
}

static _Noreturn void making_child_main(const struct launcher *l,
                                        const struct volume_make_making *m, int report_fd,
                                        int64_t deadline_ms, pid_t launcher)
{
    enum { FIRST = STDERR_FILENO + 1, VOLUMES = 0, DIR_FD, LOCK, REPORT, COUNT };
    /* Opened again, for a flock of its own: the launcher's fd would share the launcher's lock. */
    int fds[COUNT] = {openat(l->volumes_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), m->dir_fd,
                      m->lock_fd, report_fd};
    struct volume_make_making own = *m;
    struct launcher its = *l;
    struct volume_report report;
    struct err err = ERR_NONE;

    child_become("rind-volume", SIG_DFL);
    child_yield();
    if (fds[VOLUMES] < 0 || child_keep_fds(fds, COUNT, FIRST) < 0 ||
        prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != launcher ||
        (l->volume_make_ms > 0 && making_set_deadline(deadline_ms) < 0))
        _exit(1);
    own.volumes_fd = its.volumes_fd = fds[VOLUMES];
    own.dir_fd = fds[DIR_FD];
    own.lock_fd = fds[LOCK];
    own.report_fd = fds[REPORT];
    report = (struct volume_report){.code = making_complete(&its, &own, &err)};
    (void)memcpy(report.message, err.msg, sizeof(report.message));
    (void)!write(fds[REPORT], &report, sizeof(report));
    _exit(0);
}

/* A killed maker leaves its directory, or a finished volume that has not been synced. */
static void making_on_exit(void *owner, const struct child_process *c, int status)
{
    (void)c;
    if (WIFSIGNALED(status))
        volumes_sweep(owner);
}

/* Limits the children: if the disk is slow or hangs, there would be one per request. */
static int making_check_limit(struct launcher *l, const struct volume_make_making *m,
                              struct err *err)
{
    size_t count;

    if (!making_is_durable(m) || l->clients.len == 0)
        return 0;
    child_table_reap(&l->children);
    count = child_table_count(&l->children, making_on_exit);
    return count < l->volume_makers
               ? 0
               : err_set(err, -EAGAIN,
                         "limit maxVolumeMakers: %zu volumes are being made, whose disk is slow",
                         count);
}

/* Like launcher_volume_make. -EAGAIN, without err: there is no child, and the caller makes the
 * volume. */
static int making_complete_in_child(struct launcher *l, const struct volume_make_making *m,
                                    int ret[2])
{
    auto_close int ours = FD_NONE, its = FD_NONE;
    const int64_t deadline_ms = clock_mono_ms() + (int64_t)l->volume_make_ms;
    const pid_t self = getpid();
    int pidfd = FD_NONE, pair[2];
    struct clone_args args = {
        .flags = CLONE_PIDFD, .pidfd = (uint64_t)(uintptr_t)&pidfd, .exit_signal = SIGCHLD};
    pid_t pid;

    if (!making_is_durable(m) || l->clients.len == 0 || !child_table_has_room(&l->children) ||
        pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
        return -EAGAIN;
    ours = pair[0];
    its = pair[1];
    pid = sys_clone3(&args);
    if (pid == 0)
        making_child_main(l, m, its, deadline_ms, self);
    if (pid < 0)
        return -EAGAIN;
    child_table_add(&l->children, pid, NULL, making_on_exit);
    ret[0] = pidfd;
    ret[1] = take_fd(&ours);
    return 1;
}

/* ---- requests ---- */

/* True if the temporary directory is locked. Its maker has held that lock since before it released
 * the directory's. */
static bool volume_is_being_made(int volumes_fd, const char *name)
{
    auto_close int dir = openat(volumes_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    auto_close int fd =
        dir < 0 ? FD_NONE : openat(dir, VOLUME_LOCK, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0;
}

static void volumes_sweep_locked(struct launcher *l)
{
    auto_ptr(dir_close) DIR *d = dir_open(l->volumes_fd, ".");
    const struct dirent *e;

    if (d == NULL)
        return;
    l->volumes_unswept = false;
    while ((e = dir_next(d)) != NULL) {
        if (strncmp(e->d_name, MAKING_PREFIX, strlen(MAKING_PREFIX)) != 0)
            continue;
        /* Locked by another launcher's maker, or by a child that is about to be killed. */
        if (volume_is_being_made(l->volumes_fd, e->d_name))
            l->volumes_unswept = true;
        else
            (void)volume_hide(l, l->volumes_fd, e->d_name, NULL);
    }
}

/* Makes the empty directory. */
static int making_begin(struct launcher *l, struct volume_make_making *m, struct err *err)
{
    const bool sweep = l->volumes_unswept;
    int r = volumes_lock(l->volumes_fd);

    if (r < 0)
        return making_error(m, r, err);
    if (sweep)
        volumes_sweep_locked(l);
    r = making_make_dir(m, err);
    if (r < 0 && m->dir_fd >= 0)
        (void)rmtree_at(l->volumes_fd, m->name, RMTREE_ONE_MOUNT);
    (void)flock(l->volumes_fd, LOCK_UN);
    if (sweep)
        volumes_remove_hidden(l);
    return r;
}

int launcher_volume_make(struct launcher *l, const struct launch_request *q, int ret[2],
                         struct err *err)
{
    struct volume_make_making m = {.q = q,
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
        r = making_check_limit(l, &m, err);
    if (r == 0)
        r = making_begin(l, &m, err);
    if (r == 0)
        r = making_complete_in_child(l, &m, ret);
    if (r == -EAGAIN && m.lock_fd >= 0)
        r = making_complete(l, &m, err);
    if (m.dir_fd >= 0)
        (void)close(m.dir_fd);
    if (m.lock_fd >= 0)
        (void)close(m.lock_fd);
    return r;
}

void volumes_sweep(struct launcher *l)
{
    /* Children of a killed launcher may hold the lock a moment longer; then the next maker of a
     * volume sweeps. */
    l->volumes_unswept = true;
    if (flock(l->volumes_fd, LOCK_EX | LOCK_NB) == 0) {
        volumes_sweep_locked(l);
        (void)flock(l->volumes_fd, LOCK_UN);
    }
    volumes_remove_hidden(l);
}
