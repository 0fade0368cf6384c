#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "init/init.h"
#include "proto/syscalls.h"

/*
 * The caller of rind may have left signals ignored. Processes inside must not inherit that. This
 * process never sets a handler.
 */
static void main_default_signals(void)
{
    for (int sig = 1; sig <= 64; sig++)
        (void)sys_signal_default(sig); /* KILL and STOP refuse */
}

/*
 * init keeps fds 0 to 2, the socket and the pipe for stages. It closes all others, which the
 * launcher may have forgotten to close.
 */
static void main_adopt_descriptors(void)
{
    if (sys_close_range(PLAN_STAGE_FD + 1, ~0U, 0) < 0 ||
        fcntl(PLAN_CONTROL_FD, F_SETFD, FD_CLOEXEC) < 0 ||
        fcntl(PLAN_STAGE_FD, F_SETFD, FD_CLOEXEC) < 0)
        init_fail(INIT_STAGE_PLAN, 0, errno);
}

/* Parses the argument: none, "net" or "admin". */
static enum init_net main_net_of(const char *word)
{
    if (word == NULL)
        return INIT_NET_OWN;
    return strcmp(word, "admin") == 0 ? INIT_NET_ADMIN : INIT_NET_THERE;
}

int main(int argc, char **argv)
{
    static struct init init = {.locked_userns = -1,
                               .inner_sock = -1,
                               .inner_pidfd = -1,
                               .pts_fd = -1,
                               .null_fd = -1,
                               .guard = {.listener = -1, .proc = -1}};
    sigset_t all;

    main_default_signals();
    (void)sigfillset(&all);
    if (sigprocmask(SIG_SETMASK, &all, NULL) < 0)
        init_fail(INIT_STAGE_PLAN, 0, errno);
    /*
     * Processes inside must not trace init or read its memory. The waiting inner PID 1 inherits
     * this.
     */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        init_fail(INIT_STAGE_PLAN, 0, errno);

    (void)umask(022); /* replaces the umask of rind's caller */
    main_adopt_descriptors();
    setup_namespaces(&init, main_net_of(argc > 1 ? argv[1] : NULL));
    plan_load(&init.plan);
    setup_mounts(&init);
    setup_lock(&init);
    setup_confine(&init);
    loop_run(&init);
}
