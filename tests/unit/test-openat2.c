/* sys_openat2 against mounts that race with it. */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/syscalls.h"
#include "tap.h"

enum { LOOKUPS = 100000 };

/* Each copy of a mount namespace takes the kernel's mount_lock for writing, as the start of a
 * sandbox does. */
static void copy_mounts_without_end(void)
{
    while (unshare(CLONE_NEWNS) == 0)
        ;
    _exit(1);
}

/* With 4 tries, some 400 of these lookups fail. */
TEST(mounts_that_race_with_lookups_do_not_make_them_fail)
{
    char dir[] = "/tmp/rind-openat2-XXXXXX";
    int failed = 0, dir_fd;
    pid_t child;

    if (geteuid() != 0)
        SKIP("new mount namespaces need root");
    CHECK(mkdtemp(dir) != NULL);
    dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    CHECK(dir_fd >= 0 && mkdirat(dir_fd, "d", 0700) == 0);
    child = fork();
    if (child == 0)
        copy_mounts_without_end();
    for (int i = 0; i < LOOKUPS; i++) {
        int fd = sys_openat2(dir_fd, "d/../../../../../../../../d", O_PATH, 0, RESOLVE_IN_ROOT);

        failed += fd < 0;
        if (fd >= 0)
            (void)close(fd);
    }
    CHECK_INT(failed, 0);
    CHECK(child > 0 && kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    (void)unlinkat(dir_fd, "d", AT_REMOVEDIR);
    CHECK(rmdir(dir) == 0);
    (void)close(dir_fd);
}

TAP_MAIN
