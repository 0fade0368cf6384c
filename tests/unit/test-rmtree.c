#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/rmtree.h"
#include "tap.h"

/* A fresh directory, and an fd for it. */
struct place {
    char path[64];
    int fd;
};

static struct place place_new(void)
{
    struct place p = {.path = "/tmp/test-rmtree-XXXXXX", .fd = -1};

    if (mkdtemp(p.path) == NULL)
        abort();
    p.fd = open(p.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return p;
}

/* Removes the place; it must be empty but for what `leave` names. */
static void place_done(struct place *p)
{
    CHECK(rmdir(p->path) == 0);
    (void)close(p->fd);
}

static void make_dir(int at, const char *name)
{
    if (mkdirat(at, name, 0755) < 0)
        tap_fail("mkdir %s: %s", name, strerror(errno));
}

static void make_file(int at, const char *name)
{
    int fd = openat(at, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

    if (fd < 0)
        tap_fail("create %s: %s", name, strerror(errno));
    (void)close(fd);
}

static bool exists(int at, const char *name)
{
    struct stat st;

    return fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* depth directories in each other, each with a file and with `side` more directories that hold a
 * file. */
static void make_deep(int at, const char *name, int depth, int side)
{
    int fd = dup(at);

    for (int i = 0; i < depth; i++) {
        char buf[32];
        int next;

        make_dir(fd, i == 0 ? name : "d");
        next = openat(fd, i == 0 ? name : "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        (void)close(fd);
        fd = next;
        make_file(fd, "f");
        for (int j = 0; j < side; j++) {
            (void)snprintf(buf, sizeof(buf), "s%d", j);
            make_dir(fd, buf);
            (void)snprintf(buf, sizeof(buf), "s%d/f", j);
            make_file(fd, buf);
        }
    }
    (void)close(fd);
}

static int fds_open(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    while (readdir(d) != NULL)
        n++;
    (void)closedir(d);
    return n;
}

TEST(what_is_no_directory_is_refused)
{
    struct place p = place_new();

    make_file(p.fd, "f");
    make_dir(p.fd, "d");
    make_file(p.fd, "d/keep");
    CHECK_INT(symlinkat("d", p.fd, "l"), 0);
    CHECK_INT(rmtree_at(p.fd, "none", 0), -ENOENT);
    CHECK_INT(rmtree_at(p.fd, "f", 0), -ENOTDIR);
    CHECK_INT(rmtree_at(p.fd, "l", 0), -ENOTDIR);
    CHECK_INT(rmtree_at(p.fd, "f", RMTREE_ONE_MOUNT), -ENOTDIR);
    CHECK_INT(rmtree_at(p.fd, "l", RMTREE_ONE_MOUNT), -ENOTDIR);
    CHECK(exists(p.fd, "d/keep"));
    CHECK_INT(rmtree_at(p.fd, "d", 0), 0);
    CHECK(!exists(p.fd, "d"));
    CHECK(unlinkat(p.fd, "l", 0) == 0 && unlinkat(p.fd, "f", 0) == 0);
    place_done(&p);
}

TEST(links_are_removed_not_followed)
{
    struct place p = place_new();

    make_dir(p.fd, "out");
    make_file(p.fd, "out/keep");
    make_dir(p.fd, "d");
    make_dir(p.fd, "d/e");
    CHECK_INT(symlinkat("../out", p.fd, "d/l"), 0);
    CHECK_INT(symlinkat("/", p.fd, "d/e/root"), 0);
    CHECK_INT(symlinkat("..", p.fd, "d/e/up"), 0);
    CHECK_INT(rmtree_at(p.fd, "d", 0), 0);
    CHECK(exists(p.fd, "out/keep"));
    CHECK_INT(rmtree_at(p.fd, "out", 0), 0);
    place_done(&p);
}

/* Depths around every limit, with slots so few that levels are closed and with so few levels that
 * they are forgotten. */
TEST(any_depth_with_any_limits)
{
    static const struct rmtree_limits limits[] = {
        {.pinned = 1, .recent = 2, .levels = 4},
        {.pinned = 2, .recent = 3, .levels = 9},
        {.pinned = 1, .recent = 2, .levels = 1000},
        {.pinned = 16, .recent = 24, .levels = 131072},
    };
    static const int depths[] = {1, 2, 3, 4, 5, 8, 9, 10, 30, 41, 100};
    int before = fds_open();

    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        for (size_t j = 0; j < sizeof(depths) / sizeof(depths[0]); j++) {
            struct place p = place_new();
            int r;

            make_deep(p.fd, "top", depths[j], 3);
            r = rmtree_at_limits(p.fd, "top", 0, &limits[i]);
            if (r < 0 || exists(p.fd, "top"))
                tap_fail("limits %zu, depth %d: %s", i, depths[j], strerror(-r));
            place_done(&p);
        }
    }
    CHECK_INT(fds_open(), before);
}

/* Many directories that are not empty, in one that is closed again and again: what was skipped must
 * be found. */
TEST(wide_directories_below_the_window)
{
    static const struct rmtree_limits limits = {.pinned = 1, .recent = 2, .levels = 64};
    struct place p = place_new();
    char name[64];
    int wide;

    make_dir(p.fd, "top");
    make_dir(p.fd, "top/a");
    make_dir(p.fd, "top/a/wide");
    wide = openat(p.fd, "top/a/wide", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 60; i++) {
        (void)snprintf(name, sizeof(name), "sub%d", i);
        make_deep(wide, name, 6, 0);
    }
    for (int i = 0; i < 1500; i++) {
        (void)snprintf(name, sizeof(name), "a-file-with-a-long-name-to-fill-the-buffer-%d", i);
        make_file(wide, name);
    }
    (void)close(wide);
    CHECK_INT(rmtree_at_limits(p.fd, "top", 0, &limits), 0);
    CHECK(!exists(p.fd, "top"));
    place_done(&p);
}

/* With as many fds left as it takes: the top, the deepest directory, the one being opened. */
TEST(few_file_descriptors)
{
    struct place p = place_new();
    struct rlimit old, few;
    int probe, r;

    make_deep(p.fd, "top", 100, 1);
    probe = dup(p.fd);
    (void)close(probe);
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &old), 0);
    few = (struct rlimit){.rlim_cur = (rlim_t)probe + 3, .rlim_max = old.rlim_max};
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &few), 0);
    r = rmtree_at(p.fd, "top", 0);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &old), 0);
    CHECK_INT(r, 0);
    CHECK(!exists(p.fd, "top"));
    place_done(&p);
}

TEST(no_file_descriptor_at_all)
{
    struct place p = place_new();
    struct rlimit old, none;
    int r;

    make_deep(p.fd, "top", 3, 1);
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &old), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = old.rlim_max};
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &none), 0);
    r = rmtree_at(p.fd, "top", 0);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &old), 0);
    CHECK_INT(r, -EMFILE);
    CHECK_INT(rmtree_at(p.fd, "top", 0), 0);
    place_done(&p);
}

/* ---- somebody moves things about ---- */

struct mover {
    int fd;
    pthread_mutex_t lock; /* held by the test while it builds */
    atomic_bool stop;
    unsigned long moves;
};

/* Swaps a directory of the tree with a link to the outside, and moves it out of the tree and back.
 */
static void *mover_run(void *arg)
{
    struct mover *m = arg;

    while (!atomic_load(&m->stop)) {
        (void)pthread_mutex_lock(&m->lock);
        if (renameat(m->fd, "top/d/d", m->fd, "away") == 0) {
            m->moves++;
            if (symlinkat("../../outside", m->fd, "top/d/d") == 0)
                (void)unlinkat(m->fd, "top/d/d", 0);
            (void)renameat(m->fd, "away", m->fd, "top/d/d");
        }
        (void)pthread_mutex_unlock(&m->lock);
    }
    return NULL;
}

static void outside_check(int fd)
{
    CHECK(exists(fd, "outside/keep"));
    CHECK(exists(fd, "outside/d/keep"));
    CHECK(exists(fd, "keep"));
}

TEST(nothing_outside_is_touched_while_directories_move)
{
    static const struct rmtree_limits limits = {.pinned = 1, .recent = 2, .levels = 100};
    struct place p = place_new();
    struct mover m = {.fd = p.fd, .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t thread;
    int refused = 0;

    make_dir(p.fd, "outside");
    make_dir(p.fd, "outside/d");
    make_file(p.fd, "outside/keep");
    make_file(p.fd, "outside/d/keep");
    make_file(p.fd, "keep");
    if (pthread_create(&thread, NULL, mover_run, &m) != 0)
        abort();
    for (int i = 0; i < 150; i++) {
        int r;

        (void)pthread_mutex_lock(&m.lock);
        make_deep(p.fd, "top", 12, 1);
        (void)pthread_mutex_unlock(&m.lock);
        r = rmtree_at_limits(p.fd, "top", 0, &limits);
        /* Refusals are right, as long as they say what another process did. */
        if (r != 0 && r != -ENOTEMPTY && r != -EBUSY && r != -ENOTDIR && r != -ENOENT)
            tap_fail("unexpected: %s", strerror(-r));
        (void)pthread_mutex_lock(&m.lock);
        outside_check(p.fd);
        refused += r != 0;
        r = rmtree_at(p.fd, "away", 0);
        CHECK(r == 0 || r == -ENOENT);
        r = rmtree_at(p.fd, "top", 0);
        CHECK(r == 0 || r == -ENOENT);
        (void)pthread_mutex_unlock(&m.lock);
    }
    atomic_store(&m.stop, true);
    (void)pthread_join(thread, NULL);
    CHECK(m.moves > 0);
    printf("# %lu moves, %d of 150 removals refused\n", m.moves, refused);
    outside_check(p.fd);
    CHECK_INT(rmtree_at(p.fd, "outside", 0), 0);
    CHECK_INT(unlinkat(p.fd, "keep", 0), 0);
    place_done(&p);
}

/* ---- modes and mounts ---- */

static int as_nobody(int (*run)(int fd), int fd)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
            _exit(255);
        _exit(-run(fd));
    }
    (void)waitpid(pid, &status, 0);
    return WIFEXITED(status) ? -WEXITSTATUS(status) : -1000;
}

static int run_plain(int fd)
{
    return rmtree_at(fd, "top", 0);
}

static int run_chmod(int fd)
{
    return rmtree_at(fd, "top", RMTREE_CHMOD | RMTREE_ONE_MOUNT);
}

TEST(locked_directories_are_unlocked_on_request)
{
    static const mode_t modes[] = {0000, 0400, 0200, 0100, 0500, 0600, 0300};
    struct place p = place_new();
    char name[32];

    if (geteuid() == 0)
        CHECK_INT(fchown(p.fd, 65534, 65534), 0);
    make_dir(p.fd, "top");
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        (void)snprintf(name, sizeof(name), "top/d%zu", i);
        make_dir(p.fd, name);
        (void)snprintf(name, sizeof(name), "top/d%zu/e", i);
        make_dir(p.fd, name);
        (void)snprintf(name, sizeof(name), "top/d%zu/e/f", i);
        make_file(p.fd, name);
        if (geteuid() == 0) {
            CHECK_INT(fchownat(p.fd, name, 65534, 65534, 0), 0);
            (void)snprintf(name, sizeof(name), "top/d%zu/e", i);
            CHECK_INT(fchownat(p.fd, name, 65534, 65534, 0), 0);
            (void)snprintf(name, sizeof(name), "top/d%zu", i);
            CHECK_INT(fchownat(p.fd, name, 65534, 65534, 0), 0);
        }
        (void)snprintf(name, sizeof(name), "top/d%zu/e", i);
        CHECK_INT(fchmodat(p.fd, name, modes[i], 0), 0);
        (void)snprintf(name, sizeof(name), "top/d%zu", i);
        CHECK_INT(fchmodat(p.fd, name, modes[i], 0), 0);
    }
    if (geteuid() == 0)
        CHECK_INT(fchownat(p.fd, "top", 65534, 65534, 0), 0);
    CHECK_INT(fchmodat(p.fd, "top", 0, 0), 0);
    CHECK_INT(as_nobody(run_plain, p.fd), -EACCES);
    CHECK(exists(p.fd, "top"));
    CHECK_INT(as_nobody(run_chmod, p.fd), 0);
    CHECK(!exists(p.fd, "top"));
    place_done(&p);
}

/* Somebody else's directory stays locked: the first error is the answer. */
TEST(foreign_directories_stay_locked)
{
    struct place p = place_new();

    if (geteuid() != 0)
        SKIP("needs root");
    make_dir(p.fd, "top");
    make_dir(p.fd, "top/d");
    make_file(p.fd, "top/d/f");
    CHECK_INT(fchmodat(p.fd, "top/d", 0700, 0), 0);
    CHECK_INT(fchownat(p.fd, "top", 65534, 65534, 0), 0);
    CHECK_INT(as_nobody(run_chmod, p.fd), -EACCES);
    CHECK(exists(p.fd, "top/d/f"));
    CHECK_INT(rmtree_at(p.fd, "top", 0), 0);
    place_done(&p);
}

TEST(mounts_are_not_entered_on_request)
{
    struct place p;
    char path[96];

    /* Before anything is opened: a descriptor leads into the namespace that it is from. */
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        SKIP("cannot have mounts of its own");
    p = place_new();
    make_dir(p.fd, "top");
    make_dir(p.fd, "top/m");
    (void)snprintf(path, sizeof(path), "%s/top/m", p.path);
    if (mount("tmpfs", path, "tmpfs", 0, "size=64k") < 0) {
        (void)rmtree_at(p.fd, "top", 0);
        place_done(&p);
        SKIP("cannot mount a tmpfs");
    }
    make_file(p.fd, "top/m/keep");
    CHECK_INT(rmtree_at(p.fd, "top", RMTREE_ONE_MOUNT), -EXDEV);
    CHECK(exists(p.fd, "top/m/keep"));
    CHECK_INT(rmtree_at(p.fd, "top/m", RMTREE_ONE_MOUNT), -EXDEV);
    CHECK(exists(p.fd, "top/m/keep"));
    CHECK_INT(rmtree_at(p.fd, "top", 0), -EBUSY);
    CHECK(!exists(p.fd, "top/m/keep"));
    CHECK_INT(umount(path), 0);

    /* A bind mount has the same device number. */
    make_dir(p.fd, "other");
    make_file(p.fd, "other/keep");
    {
        char from[96];

        (void)snprintf(from, sizeof(from), "%s/other", p.path);
        CHECK_INT(mount(from, path, NULL, MS_BIND, NULL), 0);
    }
    CHECK_INT(rmtree_at(p.fd, "top", RMTREE_ONE_MOUNT), -EXDEV);
    CHECK(exists(p.fd, "other/keep"));
    CHECK_INT(umount(path), 0);
    CHECK_INT(rmtree_at(p.fd, "top", RMTREE_ONE_MOUNT), 0);
    CHECK_INT(rmtree_at(p.fd, "other", RMTREE_ONE_MOUNT), 0);
    place_done(&p);
}

TEST(a_large_directory)
{
    struct place p = place_new();
    char name[96];

    make_dir(p.fd, "top");
    for (int i = 0; i < 5000; i++) {
        (void)snprintf(name, sizeof(name), "top/a-rather-long-name-for-a-file-%d", i);
        if (i % 500 == 0)
            make_dir(p.fd, name);
        else
            make_file(p.fd, name);
    }
    CHECK_INT(rmtree_at(p.fd, "top", RMTREE_ONE_MOUNT), 0);
    CHECK(!exists(p.fd, "top"));
    place_done(&p);
}

TAP_MAIN
