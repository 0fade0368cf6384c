#include "doctor/doctor-fork.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "doctor/doctor.h"

/* Never returns. The process exits at once, so nothing is freed. */
static void write_report(const char *state_dir, int fd)
{
    struct doctor_report *report = NULL;
    json_t *root;

    if (doctor_run(state_dir, &report, NULL) < 0)
        _exit(1);
    root = doctor_encode(report);
    if (root == NULL || json_object_set_new(root, "checkedMs", json_integer(clock_wall_ms())) < 0 ||
        json_dumpfd(root, fd, JSON_COMPACT) < 0)
        _exit(1);
    _exit(0);
}

/*
 * The child may outlive the daemon, so it must not keep the daemon's locks or listening sockets
 * open.
 */
static void close_all_but(int fd)
{
    if (fd > 3)
        (void)close_range(3, (unsigned)fd - 1, 0);
    (void)close_range((unsigned)fd + 1, ~0U, 0);
}

int doctor_fork(const char *state_dir, int *ret_fd, struct err *err)
{
    auto_close int to = FD_NONE, from = FD_NONE;
    int fds[2], status = 0;
    pid_t child;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_errno(err, -errno, "doctor");
    from = fds[0];
    to = fds[1];
    child = fork();
    if (child < 0)
        return err_errno(err, -errno, "doctor");
    if (child == 0) {
        /* Double fork: the grandchild is reparented to PID 1, so this process need not reap it. */
        child = fork();
        if (child != 0)
            _exit(child < 0);
        (void)signal(SIGPIPE, SIG_DFL);
        close_all_but(to);
        write_report(state_dir, to);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return err_set(err, -EAGAIN, "doctor: cannot fork");
    *ret_fd = take_fd(&from);
    return 0;
}
