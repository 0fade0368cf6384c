/* Removes trees that may be large: they are renamed to a hidden name beside the volumes, and a
 * child removes them (removal.c says why). If the child dies, the next start continues. Runs in the
 * launcher and in that child. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/dir.h"
#include "base/err.h"
#include "launch/volume_internal.h"
#include "proto/rmtree.h"
#include "proto/syscalls.h"

#define TRASH_PREFIX ".gone-"

enum { NICENESS = 10 };

int trash_put(struct launcher *l, int at_fd, const char *name, struct err *err)
{
    char gone[sizeof(TRASH_PREFIX) + 16];
    uint64_t number;

    if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
        return err_set(err, -EIO, "remove '%s': no random numbers", name);
    (void)snprintf(gone, sizeof(gone), TRASH_PREFIX "%016llx", (unsigned long long)number);
    if (renameat(at_fd, name, l->volumes_fd, gone) < 0)
        return err_errno(err, -errno, "remove '%s'", name);
    return 0;
}

/* Returns true if there is a tree to remove; with `remove` it removes all of them. */
static bool trash_each(int volumes_fd, bool remove)
{
    auto_ptr(dir_close) DIR *d = dir_open(volumes_fd, ".");
    const struct dirent *e;
    bool any = false;

    while (d != NULL && (remove || !any) && (e = dir_next(d)) != NULL) {
        if (strncmp(e->d_name, TRASH_PREFIX, strlen(TRASH_PREFIX)) != 0)
            continue;
        any = true;
        if (remove)
            (void)rmtree_at(volumes_fd, e->d_name, RMTREE_ONE_MOUNT);
    }
    return any;
}

static _Noreturn void trash_child_main(int volumes_fd)
{
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGINT, SIG_DFL);
    (void)prctl(PR_SET_NAME, "rind-remove");
    (void)setpriority(PRIO_PROCESS, 0, NICENESS);
    /* The child must not hold locks of sandboxes and volumes. It opens the directory again, because
     * the launcher's fd would share the directory's flock with it. */
    volumes_fd = openat(volumes_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (volumes_fd < 0 || dup2(volumes_fd, 0) < 0 || sys_close_range(1, ~0U, 0) < 0)
        _exit(1);
    (void)trash_each(0, true);
    _exit(0);
}

void trash_empty(struct launcher *l)
{
    pid_t pid = -1;

    if (!trash_each(l->volumes_fd, false))
        return;
    if (l->clients.len > 0 && removal_has_room(l))
        pid = fork();
    if (pid == 0)
        trash_child_main(l->volumes_fd);
    if (pid > 0)
        removal_keep(l, pid, NULL);
    else
        (void)trash_each(l->volumes_fd, true);
}
