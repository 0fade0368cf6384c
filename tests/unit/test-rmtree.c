/* Removing a tree that somebody hostile has made. */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "sys/rmtree.h"
#include "tap.h"

struct dir {
    char path[64];
    int fd;
};

static struct dir dir_new(void)
{
    struct dir d = {.path = ""};

    /* In memory where there is such a place: a disk is slow at making thousands of files. */
    (void)snprintf(d.path, sizeof(d.path), "%s/rind-test-rmtree-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (mkdtemp(d.path) == NULL) {
        perror("mkdtemp");
        exit(1);
    }
    d.fd = open(d.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return d;
}

static void dir_end(struct dir *d)
{
    (void)close(d->fd);
    if (rmdir(d->path) < 0)
        tap_fail("%s: not empty", d->path);
}

static void touch(int fd, const char *name)
{
    auto_close int file = openat(fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    CHECK(file >= 0);
}

static bool exists(int fd, const char *name)
{
    return faccessat(fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

TEST(missing_and_plain_things)
{
    struct dir d = dir_new();

    CHECK_INT(rmtree_at(d.fd, "none", NULL), 0);
    touch(d.fd, "file");
    CHECK_INT(rmtree_at(d.fd, "file", NULL), 0);
    CHECK(!exists(d.fd, "file"));
    CHECK_INT(mkdirat(d.fd, "empty", 0), 0);
    CHECK_INT(rmtree_at(d.fd, "empty", NULL), 0);
    CHECK(!exists(d.fd, "empty"));
    dir_end(&d);
}

TEST(follows_no_link)
{
    struct dir d = dir_new();

    CHECK_INT(mkdirat(d.fd, "keep", 0700), 0);
    touch(d.fd, "keep/canary");
    CHECK_INT(mkdirat(d.fd, "t", 0700), 0);
    CHECK_INT(symlinkat("../keep", d.fd, "t/l"), 0);
    CHECK_INT(symlinkat("keep", d.fd, "top"), 0);
    CHECK_INT(rmtree_at(d.fd, "t", NULL), 0);
    CHECK_INT(rmtree_at(d.fd, "top", NULL), 0);
    CHECK(!exists(d.fd, "t"));
    CHECK(!exists(d.fd, "top"));
    CHECK(exists(d.fd, "keep/canary"));
    CHECK_INT(rmtree_at(d.fd, "keep", NULL), 0);
    dir_end(&d);
}

/* Deeper than any path and than any number of fds, with names like those that the walk itself makes
 * up. */
TEST(deep_tree_with_few_fds)
{
    const struct rlimit few = {.rlim_cur = 64, .rlim_max = 64};
    struct err err = ERR_NONE;
    struct dir d = dir_new();
    struct rlimit before;
    int fd;

    CHECK_INT(mkdirat(d.fd, "t", 0700), 0);
    CHECK_INT(mkdirat(d.fd, "t/.rind-rm-0", 0700), 0);
    touch(d.fd, "t/.rind-rm-1");
    fd = openat(d.fd, "t", O_PATH | O_CLOEXEC);
    for (int i = 0; i < 2500; i++) {
        int next;

        if (mkdirat(fd, "d", 0700) < 0)
            tap_fail("level %d", i);
        touch(fd, "f");
        next = openat(fd, "d", O_PATH | O_CLOEXEC);
        (void)close(fd);
        fd = next;
    }
    (void)close(fd);
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &before), 0);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &(struct rlimit){few.rlim_cur, before.rlim_max}), 0);
    CHECK_INT(rmtree_at(d.fd, "t", &err), 0);
    CHECK_STR(err.msg, "");
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &before), 0);
    CHECK(!exists(d.fd, "t"));
    dir_end(&d);
}

TEST(many_entries)
{
    struct dir d = dir_new();
    char name[32];

    CHECK_INT(mkdirat(d.fd, "t", 0700), 0);
    for (int i = 0; i < 3000; i++) {
        (void)snprintf(name, sizeof(name), "t/%d", i);
        if (i % 3 == 0)
            CHECK_INT(mkdirat(d.fd, name, 0700), 0);
        else
            touch(d.fd, name);
    }
    CHECK_INT(rmtree_at(d.fd, "t", NULL), 0);
    CHECK(!exists(d.fd, "t"));
    dir_end(&d);
}

/* 0 = refused with EXDEV or EBUSY and the mount's content stayed; else what went wrong. */
static int try_mount(const struct dir *d)
{
    char path[128];
    int r;

    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return 77;
    (void)snprintf(path, sizeof(path), "%s/t/m", d->path);
    if (mount("none", path, "tmpfs", 0, "size=64k") < 0)
        return 77;
    touch(d->fd, "t/m/canary");
    r = rmtree_at(d->fd, "t", NULL);
    if (r != -EXDEV && r != -EBUSY)
        return 1;
    return exists(d->fd, "t/m/canary") ? 0 : 2;
}

TEST(crosses_no_mount)
{
    struct dir d = dir_new();
    int status;
    pid_t pid;

    CHECK_INT(mkdirat(d.fd, "t", 0700), 0);
    CHECK_INT(mkdirat(d.fd, "t/m", 0700), 0);
    (void)fflush(stdout);
    pid = fork();
    if (pid == 0)
        _exit(try_mount(&d));
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(rmtree_at(d.fd, "t", NULL), 0);
    dir_end(&d);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        SKIP("cannot mount here");
    CHECK_INT(status, 0);
}

TAP_MAIN
