#pragma once

/* The user for whom an object (sandbox, volume, network, image) is created, found or used. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct caller {
    uid_t uid;
    bool limited; /* not the owner of the daemon: per-user limits apply, and another user's objects
                   * do not exist for this caller unless they are shared with it */
    uid_t daemon; /* owner of the daemon, whose objects are root's own, too, and the reverse */
    int fd;       /* borrowed; the client's connection, which proves the uid to the launcher; -1:
                   * none, then no volume can be opened */
    gid_t gid;
    const gid_t *groups; /* borrowed; supplementary groups, as of the client's connect(2) */
    size_t group_count;
};
