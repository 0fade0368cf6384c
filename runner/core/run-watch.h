#pragma once

/*
 * Somebody beside a `rind run` without a daemon, who has its sandbox let go of the lock of a pipe
 * by which it keeps the runner waiting (launch/stall.h): out of reach of signals as it is then, the
 * runner could not even end it at its time-out. And who is killed closes its descriptors, which
 * waits for such a lock, too; so the sandbox is ended first.
 */

#include <sys/types.h>

struct err;
struct launcher;
struct stall;

struct run_watch {
    struct stall *stall; /* owned */
    int life_fd;         /* owned; the last one that is open says that we live */
    pid_t pid;           /* 0: there is nobody */
};

/* A process of its own, with what is open now but for our standard streams, whose end others may
 * wait for. From now on stall_begin and stall_end of this process count. id: the sandbox's, which
 * it ends should we be killed. */
int run_watch_start(struct run_watch *w, struct launcher *l, const char *id, struct err *err);
/* It goes; and is gone. Idempotent, also of one that is all zero but for its life_fd, FD_NONE. */
void run_watch_stop(struct run_watch *w);
void run_watch_end(struct run_watch *w);
