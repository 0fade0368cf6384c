#pragma once

/*
 * A process beside a `rind run` without a daemon, which ends its sandbox if the run is killed. Most
 * often init does so itself, when its socket ends. But it cannot while it sleeps for the lock of a
 * pipe (init/relay.h), and no signal ends what waits for a FUSE server of its own.
 */

#include <sys/types.h>

struct err;
struct launcher;

struct run_watch {
    int life_fd; /* owned; the last one that is open says that the run lives */
    pid_t pid;   /* 0: there is none */
};

/* Forks it, without our standard streams, whose end others may wait for. id: the sandbox's. */
int run_watch_start(struct run_watch *w, struct launcher *l, const char *id, struct err *err);
/* Ends it, and waits for that. Idempotent, also of one that is all zero but for its life_fd,
 * FD_NONE. */
void run_watch_end(struct run_watch *w);
