/* Removed volumes, and files of volumes. They may be large trees, so they are renamed to a hidden
 * name beside the volumes, and the janitor removes them. After a crash the next start does. Runs in
 * the launcher, its makers of volumes, and the janitor. Called by volume*.c and janitor.c. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/auto.h"
#include "base/dir.h"
#include "base/err.h"
#include "launch/janitor.h"
#include "launch/volume-internal.h"
#include "proto/rmtree.h"

#define HIDDEN_PREFIX ".gone-"

int volume_hide(struct launcher *l, int at_fd, const char *name, struct err *err)
{
    char hidden[sizeof(HIDDEN_PREFIX) + 16];
    uint64_t number;

    if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
        return err_set(err, -EIO, "remove '%s': no random numbers", name);
    (void)snprintf(hidden, sizeof(hidden), HIDDEN_PREFIX "%016llx", (unsigned long long)number);
    if (renameat(at_fd, name, l->volumes_fd, hidden) < 0)
        return err_errno(err, -errno, "remove '%s'", name);
    return 0;
}

bool volumes_each_hidden(int volumes_fd, bool remove)
{
    auto_ptr(dir_close) DIR *d = dir_open(volumes_fd, ".");
    const struct dirent *e;
    bool any = false;

    while (d != NULL && (remove || !any) && (e = dir_next(d)) != NULL) {
        if (strncmp(e->d_name, HIDDEN_PREFIX, strlen(HIDDEN_PREFIX)) != 0)
            continue;
        any = true;
        if (remove)
            (void)rmtree_at(volumes_fd, e->d_name, RMTREE_ONE_MOUNT);
    }
    return any;
}

void volumes_remove_hidden(struct launcher *l)
{
    if (volumes_each_hidden(l->volumes_fd, false) &&
        (l->clients.len == 0 || !janitor_remove_hidden(l)))
        (void)volumes_each_hidden(l->volumes_fd, true);
}
