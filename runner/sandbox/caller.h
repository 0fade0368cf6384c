#pragma once

/* The user for whom a sandbox, volume or network is created or used. */

#include <stdbool.h>
#include <sys/types.h>

struct caller {
    uid_t uid;
    bool limited; /* not the owner of the daemon: per-user limits apply, and another user's volumes
                   * and networks may not be used */
    int fd;       /* borrowed; the client's connection, which proves the uid to the launcher; -1:
                   * none, then no volume can be opened */
};
