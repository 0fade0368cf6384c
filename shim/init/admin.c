/*
 * The net namespace of a sandbox that administers it. A process needs capabilities in the user
 * namespace that owns a net namespace. Processes inside have theirs in the locked user namespace,
 * which init enters last. So a child process makes that user namespace first, with the net
 * namespace in it. init is above both, so it can enter the net namespace at once, and the launcher
 * moves the link into it.
 *
 * A sandbox that joins this network has a locked user namespace of its own, beside this one. Its
 * capabilities count only there, not in this network.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init/init.h"
#include "proto/syscalls.h"

enum { MAKER_PROC, MAKER_USER, MAKER_FDS };

/* The plan's descriptors take the lowest numbers (plan.c). */
enum { BEHIND_PLAN = PLAN_FD_OPS + PLAN_FDS_MAX };

/* Reports error and, if it is 0, sends the descriptors. */
static void maker_say(int sock, int error, const int *fds, int count)
{
    if (wire_send(sock, &error, sizeof(error), fds, error == 0 ? count : 0) < 0)
        _exit(1);
}

/*
 * Runs in the new user namespace. It opens its /proc files itself: until the maps are written, no
 * other process may. The net namespace is made after the maps, so that its files belong to root.
 */
static _Noreturn void maker_main(int sock)
{
    int fds[MAKER_FDS], net = -1, error = 0;
    char go;

    fds[MAKER_PROC] = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    fds[MAKER_USER] = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
    if (fds[MAKER_PROC] < 0 || fds[MAKER_USER] < 0)
        error = errno;
    maker_say(sock, error, fds, MAKER_FDS);
    if (read(sock, &go, 1) != 1)
        _exit(1);
    if (unshare(CLONE_NEWNET) < 0 || (net = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)) < 0)
        error = errno;
    maker_say(sock, error, &net, 1);
    _exit(0);
}

/* Returns what the maker reported: 0, or a negative errno. */
static int maker_hear(int sock, int *fds, int want)
{
    int error = 0, count = 0, r;

    r = wire_recv(sock, &error, sizeof(error), fds, want, &count);
    if (r < 0)
        return r;
    if (r == (int)sizeof(error) && error == 0 && count == want)
        return 0;
    for (int i = 0; i < count; i++)
        (void)close(fds[i]);
    return r == (int)sizeof(error) && error > 0 ? -error : -ECHILD;
}

static int admin_enter_net(int sock)
{
    const char go = 0;
    int net, r;

    if (send(sock, &go, 1, MSG_NOSIGNAL) != 1)
        return -errno;
    r = maker_hear(sock, &net, 1);
    if (r < 0)
        return r;
    r = setns(net, CLONE_NEWNET) < 0 ? -errno : 0;
    (void)close(net);
    return r;
}

static int admin_follow_maker(struct init *init, int sock)
{
    int fds[MAKER_FDS], r;

    r = maker_hear(sock, fds, MAKER_FDS);
    if (r < 0)
        return r;
    r = init_write_maps(fds[MAKER_PROC]);
    if (r == 0)
        r = admin_enter_net(sock);
    if (r == 0) {
        init->locked_userns = fcntl(fds[MAKER_USER], F_DUPFD_CLOEXEC, BEHIND_PLAN);
        r = init->locked_userns < 0 ? -errno : 0;
    }
    for (int i = 0; i < MAKER_FDS; i++)
        (void)close(fds[i]);
    return r;
}

void admin_namespaces(struct init *init)
{
    struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    int pair[2], pid, r;

    init_stage(INIT_STAGE_ADMIN);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        init_fail(INIT_STAGE_ADMIN, 0, errno);
    pid = sys_clone3(&args);
    if (pid < 0)
        init_fail(INIT_STAGE_ADMIN, 0, -pid);
    if (pid == 0) {
        (void)close(pair[0]);
        maker_main(pair[1]);
    }
    (void)close(pair[1]);
    r = admin_follow_maker(init, pair[0]);
    (void)close(pair[0]);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    if (r < 0)
        init_fail(INIT_STAGE_ADMIN, 0, -r);
    init_tell(INIT_STAGE_ADMIN);
}
