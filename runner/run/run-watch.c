#include "run/run-watch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "launch/launcher.h"

static int watch_close_stdio(void)
{
    auto_close int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int r = null < 0 ? -1 : 0;

    for (int fd = STDIN_FILENO; r >= 0 && fd <= STDERR_FILENO; fd++)
        r = dup2(null, fd);
    return r;
}

/* Signals of a terminal or a group are the run's. */
static _Noreturn void watch_main(struct launcher *l, const char *id, int life)
{
    sigset_t all;
    char byte;

    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    (void)prctl(PR_SET_NAME, "rind-watch");
    if (watch_close_stdio() < 0) {
        log_warn("run", "watch over the run: /dev/null: %s", strerrorname_np(errno));
        _exit(1);
    }
    if (read(life, &byte, 1) == 0)
        (void)launcher_kill(l, id, NULL);
    _exit(0);
}

int run_watch_start(struct run_watch *w, struct launcher *l, const char *id, struct err *err)
{
    auto_close int end = FD_NONE;
    int life[2];

    if (pipe2(life, O_CLOEXEC) < 0)
        return err_errno(err, -errno, "watch over the run");
    end = life[0];
    w->life_fd = life[1];
    w->pid = fork();
    if (w->pid == 0) {
        (void)close(w->life_fd);
        watch_main(l, id, end);
    }
    if (w->pid < 0) {
        const int r = -errno;

        w->pid = 0;
        run_watch_end(w);
        return err_errno(err, r, "fork the watch over the run");
    }
    return 0;
}

void run_watch_end(struct run_watch *w)
{
    if (w->pid > 0)
        (void)kill(w->pid, SIGKILL);
    while (w->pid > 0 && waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    if (w->life_fd >= 0)
        (void)close(w->life_fd);
    *w = (struct run_watch){.life_fd = FD_NONE};
}
