#include "core/run-watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "launch/launcher.h"
#include "launch/stall.h"

/* The kernel closes the descriptors of who was killed from the highest number on, and the next free
 * one is the lowest: this one goes before the pipes do. */
enum { LIFE_FD = 200 };

/* Nobody sends it to a whole group of processes. */
static int stop_signal(void)
{
    return SIGRTMAX;
}

static int let_go_of_output(void)
{
    auto_close int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int r = null < 0 ? -1 : 0;

    for (int fd = STDIN_FILENO; r >= 0 && fd <= STDERR_FILENO; fd++)
        r = dup2(null, fd);
    return r;
}

/* Whom it has paused it has go on before it ends: the signal comes while it waits only. */
static void keep_watch(struct launcher *l, int life)
{
    struct pollfd p[] = {{.fd = stall_fd(l), .events = POLLIN}, {.fd = life}};
    sigset_t mask;

    (void)sigfillset(&mask);
    (void)sigdelset(&mask, stop_signal());
    while (p[1].revents == 0) {
        const int ms = stall_wait(l);
        const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

        if (ppoll(p, sizeof(p) / sizeof(p[0]), ms < 0 ? NULL : &time, &mask) < 0)
            p[1].revents = 0;
        stall_look(l);
    }
}

static _Noreturn void watch(struct launcher *l, struct stall *s, const char *id, int life,
                            pid_t runner)
{
    struct err err = ERR_NONE;
    sigset_t all;

    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    (void)signal(stop_signal(), SIG_DFL);
    (void)prctl(PR_SET_NAME, "rind-watch");
    /* Said, and no reason to end the run: it misses what keeps it from waiting, and nothing else.
     */
    if (stall_watch(l, s, runner, &err) < 0) {
        log_warn("run", "%s", err.msg);
        _exit(1);
    }
    if (let_go_of_output() < 0) {
        log_warn("run", "watch over the sandbox: /dev/null: %s", strerrorname_np(errno));
        _exit(1);
    }
    stall_be_gentle(s);
    keep_watch(l, life);
    (void)launcher_kill(l, id, NULL);
    _exit(0);
}

/* ret[1]: ours, up high. */
static int make_life(int ret[2])
{
    auto_close int low = FD_NONE;
    int pair[2];

    if (pipe2(pair, O_CLOEXEC) < 0)
        return -errno;
    low = pair[1];
    ret[0] = pair[0];
    ret[1] = fcntl(low, F_DUPFD_CLOEXEC, LIFE_FD);
    if (ret[1] < 0) /* no number as high is allowed */
        ret[1] = take_fd(&low);
    return 0;
}

int run_watch_start(struct run_watch *w, struct launcher *l, const char *id, struct err *err)
{
    const pid_t runner = getpid();
    int r = stall_new(&w->stall, err);
    int life[2] = {FD_NONE, FD_NONE};

    if (r < 0)
        return r;
    r = make_life(life);
    if (r == 0) {
        w->life_fd = life[1];
        w->pid = fork();
        if (w->pid == 0) {
            (void)close(w->life_fd);
            watch(l, w->stall, id, life[0], runner);
        }
        r = w->pid < 0 ? -errno : 0;
        (void)close(life[0]);
    }
    if (r < 0) {
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
        (void)kill(w->pid, stop_signal());
}

void run_watch_end(struct run_watch *w)
{
    run_watch_stop(w);
    while (w->pid > 0 && waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    if (w->life_fd >= 0)
        (void)close(w->life_fd);
    stall_free(w->stall);
    *w = (struct run_watch){.life_fd = FD_NONE};
}
