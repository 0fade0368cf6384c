/*
 * Removes what a killed launcher leaves: a directory, cgroups and an id range. Processes and mounts
 * never remain: init exits with its socket, and mounts disappear with their namespace. A sandbox's
 * lock is held by the launcher that made it and by init, so taking it proves that both have exited.
 * Runs in the launcher.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/dir.h"
#include "base/err.h"
#include "launch/cgroup.h"
#include "launch/janitor.h"
#include "launch/launcher.h"
#include "launch/network.h"
#include "launch/sandbox.h"

enum {
    SWEEP_KILL_MS = 5000,
    SWEEP_KILL_ASIDE_MS = 20, /* when the sweep will be repeated */
    SWEEPS_MORE = 10,         /* in almost two minutes */
    SWEEP_FIRST_MS = 100,
};

/* Returns the lock's fd, or a negative errno when it is held or unknown. -ENOENT: a launcher died
 * before it made the lock, or has removed all other files. The lock file is never created here: its
 * owner would find its directory not empty. */
static int sweep_take_lock(int dir_fd)
{
    auto_close int fd = openat(dir_fd, "lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0)
        return -errno;
    return flock(fd, LOCK_EX | LOCK_NB) < 0 ? -errno : take_fd(&fd);
}

/* Takes the id range of its files, unless another process has it. Root inside may have chowned
 * `upper` to any id of the range; all lead to the same range. A removal that a crash cut off may
 * have taken `upper` away already: then the registry says which range was kept for it. */
static void sweep_take_ids(struct launcher *l, int dir_fd, const char *id, struct idrange *ret)
{
    /* needed if the sandbox is kept and its removal was interrupted */
    auto_free char *owner = sandbox_owner(l, id);
    struct stat st;
    uid_t base;

    if (fstatat(dir_fd, "upper", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_uid >= IDRANGE_FIRST)
        base = st.st_uid - (st.st_uid - IDRANGE_FIRST) % IDRANGE_SIZE;
    else if (owner == NULL || idrange_find(l->ids_fd, owner, &base, NULL) < 0)
        return;
    (void)idrange_retake(l->ids_fd, base, owner, ret, NULL);
}

static int sweep_kill(struct launcher *l, const char *id, bool aside)
{
    struct cgroup *cg = NULL;

    if (cgroup_open(l->cgroups, id, &cg, NULL) == 0) {
        cgroup_hurry(cg);
        (void)cgroup_kill(cg, aside ? SWEEP_KILL_ASIDE_MS : SWEEP_KILL_MS, NULL);
        cgroup_free(cg);
    }
    return cgroup_remove(l->cgroups, id, NULL);
}

/* s has its directory and lock open; its range is taken here. */
static bool sweep_locked(struct launcher *l, struct launch_sandbox *s, bool aside)
{
    int r;

    sweep_take_ids(l, s->dir_fd, s->id, &s->ids);
    fuse_abort(l, s->ids.base);
    network_load(s);
    (void)network_leave(l, s, NULL);
    r = sweep_kill(l, s->id, aside);
    if (r == 0 && aside && s->ids.lock_fd >= 0 && janitor_remove_large(l, s))
        return true;
    if (r < 0 && aside && l->sweeps_left == 0)
        sweep_later(l);
    if (r == 0)
        r = sandbox_dir_remove(l, s->id, NULL);
    /* The range is released only when no file with its ids is left. */
    if (r == 0)
        idrange_release(l->ids_fd, &s->ids);
    return r == 0;
}

static bool sweep_one(struct launcher *l, const char *id, bool aside)
{
    struct launch_sandbox *s = sandbox_new(id);
    bool swept = false;

    if (s == NULL)
        return false;
    s->dir_fd = openat(l->sandboxes_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    /* A kept sandbox is stopped, not abandoned: its supervisor has it. */
    if (s->dir_fd >= 0 && faccessat(s->dir_fd, KEEP_FILE, F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
        int lock = sweep_take_lock(s->dir_fd);

        s->lock_fd = lock >= 0 ? lock : FD_NONE;
        if (lock >= 0)
            swept = sweep_locked(l, s, aside);
        else if (lock == -ENOENT)
            swept = sandbox_dir_remove(l, id, NULL) == 0;
        /* The sandbox runs, or its processes are about to exit. */
        if (aside && lock == -EWOULDBLOCK && l->sweeps_left == 0)
            sweep_later(l);
    }
    sandbox_free(s);
    return swept;
}

/* Keeps all reservations: this sweep does not know whether their sandboxes exist. */
static bool keep_reserved(void *arg, const char *id)
{
    (void)arg;
    (void)id;
    return true;
}

/* Sweeps one sandbox under the lock, so that starts and removals wait only for one. */
static bool sweep_alone(struct launcher *l, const char *id, bool aside)
{
    bool swept;

    /* A launcher holds this lock shared from making a directory until it has locked it. So an
     * unlocked directory is abandoned. */
    if (flock(l->sandboxes_fd, LOCK_EX | LOCK_NB) < 0)
        return false;
    swept = sweep_one(l, id, aside);
    (void)flock(l->sandboxes_fd, LOCK_UN);
    return swept;
}

static int launcher_do_sweep(struct launcher *l, bool aside)
{
    auto_ptr(dir_close) DIR *d = dir_open(l->sandboxes_fd, ".");
    const struct dirent *e;
    int count = 0;

    while (d != NULL && (e = dir_next(d)) != NULL)
        if (launch_id_ok(e->d_name) && sweep_alone(l, e->d_name, aside))
            count++;
    volumes_sweep(l);
    /* Also removes files of ranges whose launcher was killed before it had made a directory. */
    (void)idrange_sweep(l->ids_fd, "", keep_reserved, NULL, NULL);
    return count;
}

void sweep_later(struct launcher *l)
{
    l->sweeps_left = SWEEPS_MORE;
    l->sweep_ms = clock_mono_ms() + SWEEP_FIRST_MS;
}

int sweep_wait(const struct launcher *l)
{
    int64_t left = l->sweep_ms - clock_mono_ms();

    return l->sweeps_left == 0 ? -1 : left > 0 ? (int)left : 0;
}

void sweep_due(struct launcher *l)
{
    if (sweep_wait(l) != 0)
        return;
    l->sweep_ms = clock_mono_ms() + (SWEEP_FIRST_MS << (SWEEPS_MORE - l->sweeps_left + 1));
    /* sweeps_left is decremented afterwards, so that this sweep does not schedule the series again
     */
    (void)launcher_do_sweep(l, true);
    l->sweeps_left--;
}

int launcher_sweep(struct launcher *l)
{
    return launcher_do_sweep(l, false);
}

int launcher_sweep_aside(struct launcher *l)
{
    return launcher_do_sweep(l, true);
}
