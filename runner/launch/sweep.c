/*
 * What a killed launcher leaves: a directory, cgroups and an id range, never a process or a mount
 * (init dies with its socket, mounts with its namespace). A sandbox's lock is held by the launcher
 * that made it and by init: whoever gets it knows that both are gone.
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
#include "launch/launcher.h"
#include "launch/network.h"
#include "launch/sandbox.h"

enum {
    SWEEP_KILL_MS = 5000,
    SWEEP_KILL_ASIDE_MS = 20, /* of one who looks again */
    SWEEPS_MORE = 10,         /* over almost two minutes */
    SWEEP_FIRST_MS = 100,
};

/* Returns the lock's fd, or negative when somebody lives (or nothing can be known); -ENOENT is a
 * starter that died before it made the lock, or an owner that has removed all the rest: never made
 * here, or the owner would find its directory filled again. */
static int take_lock(int dir_fd)
{
    auto_close int fd = openat(dir_fd, "lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0)
        return -errno;
    return flock(fd, LOCK_EX | LOCK_NB) < 0 ? -errno : take_fd(&fd);
}

/* The range that its files carry, unless somebody has it by now. The sandbox's root may have given
 * its root directory to any id of the range: all lead to the same one. */
static void take_ids(struct launcher *l, int dir_fd, const char *id, struct idrange *ret)
{
    auto_free char *owner = sandbox_owner(l, id); /* of one whose removal was cut off */
    struct stat st;

    if (fstatat(dir_fd, "upper", &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_uid < IDRANGE_FIRST)
        return;
    (void)idrange_retake(l->ids_fd, st.st_uid - (st.st_uid - IDRANGE_FIRST) % IDRANGE_SIZE, owner,
                         ret, NULL);
}

static int end_dead(struct launcher *l, const char *id, bool aside)
{
    struct cgroup *cg = NULL;

    if (cgroup_open(l->cgroups, id, &cg, NULL) == 0) {
        cgroup_hurry(cg);
        (void)cgroup_kill(cg, aside ? SWEEP_KILL_ASIDE_MS : SWEEP_KILL_MS, NULL);
        cgroup_free(cg);
    }
    return cgroup_remove(l->cgroups, id, NULL);
}

/* s: with its directory and lock; takes its range. */
static bool sweep_locked(struct launcher *l, struct sandbox *s, bool aside)
{
    int r;

    take_ids(l, s->dir_fd, s->id, &s->ids);
    fuse_abort(l, s->ids.base);
    network_load(s);
    (void)network_leave(l, s, NULL);
    r = end_dead(l, s->id, aside);
    if (r == 0 && aside && s->ids.lock_fd >= 0 && removal_start_large(l, s))
        return true;
    if (r < 0 && aside && l->sweeps_left == 0)
        sweep_later(l);
    if (r == 0)
        r = sandbox_dir_remove(l, s->id, NULL);
    /* Only when no file carries them any more. */
    if (r == 0)
        idrange_release(l->ids_fd, &s->ids);
    return r == 0;
}

static bool sweep_one(struct launcher *l, const char *id, bool aside)
{
    struct sandbox *s = sandbox_new(id);
    bool swept = false;

    if (s == NULL)
        return false;
    s->dir_fd = openat(l->sandboxes_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    /* One that has it is a supervisor's: stopped, not forgotten. */
    if (s->dir_fd >= 0 && faccessat(s->dir_fd, KEEP_FILE, F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
        int lock = take_lock(s->dir_fd);

        s->lock_fd = lock >= 0 ? lock : FD_NONE;
        if (lock >= 0)
            swept = sweep_locked(l, s, aside);
        else if (lock == -ENOENT)
            swept = sandbox_dir_remove(l, id, NULL) == 0;
        /* One that lives, or one who is about to end. */
        if (aside && lock == -EWOULDBLOCK && l->sweeps_left == 0)
            sweep_later(l);
    }
    sandbox_free(s);
    return swept;
}

/* Reservations stay: whose sandbox they belong to is not ours to judge. */
static bool keep_reserved(void *arg, const char *id)
{
    (void)arg;
    (void)id;
    return true;
}

/* One victim at a time, so that starts and removals need not wait for all of them. */
static bool sweep_alone(struct launcher *l, const char *id, bool aside)
{
    bool swept;

    /* Starters hold it shared between making a directory and locking it: what we see unlocked is
     * dead. */
    if (flock(l->sandboxes_fd, LOCK_EX | LOCK_NB) < 0)
        return false;
    swept = sweep_one(l, id, aside);
    (void)flock(l->sandboxes_fd, LOCK_UN);
    return swept;
}

static int sweep(struct launcher *l, bool aside)
{
    auto_ptr(dir_close) DIR *d = dir_open(l->sandboxes_fd, ".");
    const struct dirent *e;
    int count = 0;

    while (d != NULL && (e = dir_next(d)) != NULL)
        if (launch_id_ok(e->d_name) && sweep_alone(l, e->d_name, aside))
            count++;
    volumes_sweep(l);
    /* And the files of ranges whose starter was killed before it had a directory. */
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
    (void)sweep(l, true); /* before it is the last: it does not begin them anew */
    l->sweeps_left--;
}

int launcher_sweep(struct launcher *l)
{
    return sweep(l, false);
}

int launcher_sweep_aside(struct launcher *l)
{
    return sweep(l, true);
}
