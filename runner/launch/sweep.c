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
#include "base/dir.h"
#include "base/err.h"
#include "launch/cgroup.h"
#include "launch/launcher.h"
#include "launch/network.h"
#include "launch/sandbox.h"

enum { SWEEP_KILL_MS = 5000 };

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

static int remove_dead(struct launcher *l, const char *id)
{
    struct cgroup *cg = NULL;
    int r;

    if (cgroup_open(l->cgroups, id, &cg, NULL) == 0) {
        (void)cgroup_kill(cg, SWEEP_KILL_MS, NULL);
        cgroup_free(cg);
    }
    r = cgroup_remove(l->cgroups, id, NULL);
    return r < 0 ? r : sandbox_dir_remove(l, id, NULL);
}

static void leave_network(struct launcher *l, int dir, const char *id)
{
    struct sandbox *s = sandbox_new(id);

    if (s == NULL)
        return;
    s->dir_fd = dir;
    network_load(s);
    (void)network_leave(l, s, NULL);
    s->dir_fd = FD_NONE; /* borrowed */
    sandbox_free(s);
}

static bool sweep_one(struct launcher *l, const char *id)
{
    auto_close int dir =
        openat(l->sandboxes_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    auto_close int lock = FD_NONE;
    struct idrange ids = IDRANGE_NONE;
    int r;

    if (dir < 0)
        return false;
    if (faccessat(dir, KEEP_FILE, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return false; /* a supervisor's: stopped, not forgotten */
    lock = take_lock(dir);
    if (lock == -ENOENT)
        return sandbox_dir_remove(l, id, NULL) == 0;
    if (lock < 0)
        return false;
    take_ids(l, dir, id, &ids);
    fuse_abort(l, ids.base);
    leave_network(l, dir, id);
    r = remove_dead(l, id);
    /* Only when no file carries them any more. */
    if (r == 0)
        idrange_release(l->ids_fd, &ids);
    else
        idrange_done(&ids);
    return r == 0;
}

/* Reservations stay: whose sandbox they belong to is not ours to judge. */
static bool keep_reserved(void *arg, const char *id)
{
    (void)arg;
    (void)id;
    return true;
}

/* One victim at a time, so that starts and removals need not wait for all of them. */
static bool sweep_alone(struct launcher *l, const char *id)
{
    bool swept;

    /* Starters hold it shared between making a directory and locking it: what we see unlocked is
     * dead. */
    if (flock(l->sandboxes_fd, LOCK_EX | LOCK_NB) < 0)
        return false;
    swept = sweep_one(l, id);
    (void)flock(l->sandboxes_fd, LOCK_UN);
    return swept;
}

int launcher_sweep(struct launcher *l)
{
    auto_ptr(dir_close) DIR *d = dir_open(l->sandboxes_fd, ".");
    const struct dirent *e;
    int count = 0;

    while (d != NULL && (e = dir_next(d)) != NULL)
        if (launch_id_ok(e->d_name) && sweep_alone(l, e->d_name))
            count++;
    volumes_sweep(l);
    /* And the files of ranges whose starter was killed before it had a directory. */
    (void)idrange_sweep(l->ids_fd, "", keep_reserved, NULL, NULL);
    return count;
}
