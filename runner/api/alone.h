#pragma once

/*
 * The images of a state directory without a daemon: for one client, which is who calls, the same
 * processes with the same rights as a daemon's, and of its API what is below /v1/images. It may
 * work beside a daemon.
 */

#include <sys/types.h>

struct err;

struct alone {
    int fd;    /* owned; the client's end of an HTTP connection */
    int alive; /* owned; closed, it ends */
    pid_t pid;
};

/* state_dir: made when missing. */
int alone_start(const char *state_dir, struct alone *ret, struct err *err);
/* Closes what is open and waits for the end. */
void alone_end(struct alone *a);
