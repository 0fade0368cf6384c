#pragma once

/* Serves a state directory's images without a daemon, for one client in the calling process.
 * Forks the launcher and the confined service with the same rights as a daemon's; of the API
 * only /v1/images exists. May work beside a daemon. */

#include <sys/types.h>

struct err;

struct alone {
    int fd;    /* owned; the client's end of an HTTP connection */
    int alive; /* owned; closing it ends the service */
    pid_t pid;
};

/* Forks both processes. state_dir is created if missing. 0 or a negative errno. */
int alone_start(const char *state_dir, struct alone *ret, struct err *err);
/* Closes the fds and blocks until the processes have ended. */
void alone_end(struct alone *a);
