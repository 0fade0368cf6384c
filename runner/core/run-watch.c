#include "core/run-watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "launch/stall.h"

static _Noreturn void watch(struct launcher *l, struct stall *s, pid_t runner)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)prctl(PR_SET_NAME, "rind-watch");
    if (getppid() != runner || stall_watch(l, s, runner, NULL) < 0)
        _exit(1);
    stall_be_gentle(s);
    for (;;) {
        struct pollfd p = {.fd = stall_fd(l), .events = POLLIN};

        (void)poll(&p, 1, stall_wait(l));
        stall_look(l);
    }
}

int run_watch_start(struct run_watch *w, struct launcher *l, struct err *err)
{
    const pid_t runner = getpid();
    int r = stall_new(&w->stall, err);

    if (r < 0)
        return r;
    w->pid = fork();
    if (w->pid == 0)
        watch(l, w->stall, runner);
    if (w->pid < 0) {
        r = -errno;
        w->pid = 0;
        run_watch_end(w);
        return err_errno(err, r, "fork the watch over the sandbox");
    }
    stall_tell(w->stall);
    return 0;
}

void run_watch_stop(struct run_watch *w)
{
    stall_tell(NULL);
    if (w->pid > 0)
        (void)kill(w->pid, SIGKILL);
}

void run_watch_end(struct run_watch *w)
{
    run_watch_stop(w);
    while (w->pid > 0 && waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    stall_free(w->stall);
    *w = (struct run_watch){.stall = NULL};
}
