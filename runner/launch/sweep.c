/*
 * What a killed launcher leaves: a directory, cgroups and an id range, never a process or a mount
 * (init dies with its socket, mounts with its namespace). A sandbox's lock is held by the launcher
 * that made it and by init: whoever gets it knows that both are gone.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "launch/cgroup.h"
#include "launch/launcher.h"
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

static void free_ids(struct launcher *l, int dir_fd)
{
    struct idrange ids = IDRANGE_NONE;
    struct stat st;

    if (fstatat(dir_fd, "upper", &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_uid < IDRANGE_FIRST)
        return;
    if (idrange_retake(l->ids_fd, st.st_uid, NULL, &ids, NULL) == 0)
        idrange_release(l->ids_fd, &ids);
}

static bool sweep_one(struct launcher *l, const char *id)
{
    auto_close int dir =
        openat(l->sandboxes_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    auto_close int lock = FD_NONE;
    struct cgroup *cg = NULL;

    if (dir < 0)
        return false;
    if (faccessat(dir, "keep", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return false; /* a supervisor's: stopped, not forgotten */
    lock = take_lock(dir);
    if (lock == -ENOENT)
        return sandbox_dir_remove(l, id, NULL) == 0;
    if (lock < 0)
        return false;
    if (cgroup_open(l->cgroups, id, &cg, NULL) == 0) {
        (void)cgroup_kill(cg, SWEEP_KILL_MS, NULL);
        cgroup_free(cg);
    }
    if (cgroup_remove(l->cgroups, id, NULL) < 0)
        return false;
    free_ids(l, dir);
    return sandbox_dir_remove(l, id, NULL) == 0;
}

int launcher_sweep(struct launcher *l)
{
    DIR *d;
    int count = 0, fd;

    /* Starters hold it shared between making a directory and locking it: what we see unlocked is
     * dead. */
    if (flock(l->sandboxes_fd, LOCK_EX | LOCK_NB) < 0)
        return 0;
    fd = openat(l->sandboxes_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    d = fd < 0 ? NULL : fdopendir(fd);
    if (d == NULL && fd >= 0)
        (void)close(fd);
    while (d != NULL) {
        const struct dirent *e = readdir(d);

        if (e == NULL)
            break;
        if (launch_id_ok(e->d_name) && sweep_one(l, e->d_name))
            count++;
    }
    if (d != NULL)
        (void)closedir(d);
    (void)flock(l->sandboxes_fd, LOCK_UN);
    return count;
}
