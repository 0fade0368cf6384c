/*
 * Cgroups on the real thing: whatever this host mounts (v2, v1 or both), below its own `rind`, with
 * ids of this process's own. What the host lacks is skipped with the reason.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "launch/cgroup-internal.h"
#include "tap.h"

enum { INIT_UID = 1879048192, DEADLINE_MS = 10000 };

static const struct cgroup_limits no_limits = {.memory_bytes = -1, .pids = -1, .cpu_millis = -1};

/* One host, one sandbox, and a page that its processes share with the test. */
struct rig {
    struct cgroup_host *h;
    struct cgroup *c;
    char id[CG_ID_MAX + 1];
    _Atomic uint64_t *shared;
    struct err err;
};

static bool may_run(void)
{
    struct cgroup_host *h = NULL;
    bool yes;

    yes = geteuid() == 0 && cgroup_host_open(&h, NULL) == 0 && cgroup_host_mode(h) != CG_MODE_NONE;
    for (int i = 0; yes && i < h->count; i++)
        yes = cg_rind_open(&h->hier[i], true, NULL) == 0;
    cgroup_host_free(h);
    return yes;
}
#define NEED_HOST                                                                                  \
    if (!may_run())                                                                                \
    SKIP("needs root and a writable cgroup hierarchy")

static void *shared_page(void)
{
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        exit(1);
    return p;
}

/* A sandbox on `h` (taken), or on what this host has. False when the limits cannot be had. */
static bool rig_on(struct rig *g, struct cgroup_host *h, const struct cgroup_limits *limits)
{
    static int serial;

    *g = (struct rig){.h = h, .shared = shared_page()};
    (void)snprintf(g->id, sizeof(g->id), "test-%d-%d", getpid(), serial++);
    if (g->h == NULL)
        CHECK_INT(cgroup_host_open(&g->h, &g->err), 0);
    if (cgroup_create(g->h, g->id, limits, INIT_UID, &g->c, &g->err) == 0)
        return true;
    printf("# %s\n", g->err.msg);
    return false;
}

static void rig_done(struct rig *g)
{
    if (g->c != NULL)
        CHECK_INT(cgroup_kill(g->c, DEADLINE_MS, &g->err), 0);
    while (waitpid(-1, NULL, 0) > 0)
        ;
    cgroup_free(g->c);
    CHECK_INT(cgroup_remove(g->h, g->id, &g->err), 0);
    for (int i = 0; i < g->h->count; i++)
        if (g->h->hier[i].rind_fd >= 0)
            CHECK_INT(faccessat(g->h->hier[i].rind_fd, g->id, F_OK, 0), -1);
    CHECK_STR(g->err.msg, "");
    cgroup_host_free(g->h);
    (void)munmap(g->shared, 4096);
}

/* Forks into the sandbox the way the launcher does. The child has 0 here once it is in all of its
 * cgroups. */
static pid_t enter(struct rig *g)
{
    struct clone_args args = {.exit_signal = SIGCHLD};
    int tasks[CGROUP_TASKS_MAX], count = 0;
    pid_t pid;

    CHECK_INT(cgroup_open_tasks(g->c, tasks, &count, &g->err), 0);
    if (cgroup_v2_fd(g->c) >= 0) {
        args.flags = CLONE_INTO_CGROUP;
        args.cgroup = (unsigned)cgroup_v2_fd(g->c);
    }
    (void)fflush(stdout);
    pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
    if (pid == 0) {
        if (cgroup_enter(tasks, count) < 0)
            _exit(99);
        return 0;
    }
    CHECK(pid > 0);
    for (int i = 0; i < count; i++)
        (void)close(tasks[i]);
    return pid;
}

static void nap(long usec)
{
    struct timespec t = {.tv_nsec = usec * 1000};

    (void)nanosleep(&t, NULL);
}

/* Waits until *v passes `than`; false after DEADLINE_MS. */
static bool grows(const _Atomic uint64_t *v, uint64_t than)
{
    int64_t end = clock_mono_ms() + DEADLINE_MS;

    while (atomic_load(v) <= than && clock_mono_ms() < end)
        nap(500);
    return atomic_load(v) > than;
}

static void count_for_ever(_Atomic uint64_t *v)
{
    for (;;) {
        (void)atomic_fetch_add(v, 1);
        nap(200);
    }
}

/* fork as the kernel has it: a sanitizer's adds a thread to each process, which counts as one. */
static pid_t plain_fork(void)
{
    return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static void touch(size_t size)
{
    volatile char *p = malloc(size);

    for (size_t i = 0; p != NULL && i < size; i += 4096)
        p[i] = 1;
}

static int status_of(pid_t pid)
{
    int status = -1;

    (void)waitpid(pid, &status, 0);
    return status;
}

/* The processes of a limited sandbox are in rind/<id> of each hierarchy that it has a directory in.
 */
TEST(attached_everywhere)
{
    char path[64], want[128];
    auto_free char *text = NULL;
    struct cgroup_stats s;
    struct rig g;
    pid_t pid;
    int fd;

    NEED_HOST;
    if (!rig_on(&g, NULL,
                &(struct cgroup_limits){.memory_bytes = 64 << 20, .pids = 50, .cpu_millis = 500})) {
        rig_done(&g);
        SKIP("not all of memory, cpu and pids here");
    }
    pid = enter(&g);
    if (pid == 0) {
        touch(1 << 20);
        count_for_ever(g.shared);
    }
    CHECK(grows(g.shared, 0));

    (void)snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK_INT(file_read_fd(fd, 1 << 16, &text, NULL, NULL), 0);
    (void)close(fd);
    (void)snprintf(want, sizeof(want), "rind/%s\n", g.id);
    int at = 0, hiers = 0;
    for (const char *p = text; p != NULL && (p = strstr(p, want)) != NULL; p++)
        at++;
    for (int i = 0; i < g.h->count; i++)
        hiers += g.c->dir_fd[i] >= 0 || (g.c->seen_fd[i] >= 0 && i != g.h->home[CG_CPUSET]);
    CHECK(hiers >= 1);
    CHECK_INT(at, hiers);

    CHECK_INT(cgroup_stats(g.c, &s, &g.err), 0);
    CHECK_INT(s.pids, 1);
    CHECK(s.cpu_usec > 0);
    CHECK(s.memory_bytes > 0 && s.memory_peak_bytes > 0);
    CHECK_INT(cgroup_remove(g.h, g.id, &g.err), -EBUSY);
    g.err = (struct err)ERR_NONE;
    rig_done(&g);
}

TEST(pids_limit)
{
    struct rig g;

    NEED_HOST;
    if (!rig_on(&g, NULL,
                &(struct cgroup_limits){.memory_bytes = -1, .pids = 5, .cpu_millis = -1})) {
        rig_done(&g);
        SKIP("no pids controller");
    }
    if (enter(&g) == 0) {
        uint64_t n = 1;

        for (;;) {
            pid_t pid = plain_fork();

            if (pid == 0)
                for (;;)
                    (void)pause();
            if (pid < 0)
                break;
            n++;
        }
        atomic_store(g.shared, errno == EAGAIN ? n : 1000);
        for (;;)
            (void)pause();
    }
    CHECK(grows(g.shared, 0));
    CHECK_INT(atomic_load(g.shared), 5);
    rig_done(&g);
}

TEST(memory_limit)
{
    enum { LIMIT = 16 << 20 };
    uint64_t kills = 99;
    struct rig g;
    pid_t pid;

    NEED_HOST;
    if (!rig_on(&g, NULL,
                &(struct cgroup_limits){.memory_bytes = LIMIT, .pids = -1, .cpu_millis = -1})) {
        rig_done(&g);
        SKIP("no memory controller");
    }
    CHECK_INT(cgroup_oom_kills(g.c, &kills), 0);
    CHECK_INT(kills, 0);
    pid = enter(&g);
    if (pid == 0) {
        touch(4UL * LIMIT);
        _exit(0);
    }
    CHECK_INT(status_of(pid), SIGKILL);
    CHECK_INT(cgroup_oom_kills(g.c, &kills), 0);
    CHECK_INT(kills, 1);
    rig_done(&g);
}

static bool is_throttled(struct rig *g)
{
    char text[CG_SMALL_MAX];
    uint64_t n = 0;

    return cg_read(g->c->dir_fd[g->c->home[CG_CPU]], "cpu.stat", text) == 0 &&
           cg_keyed(text, "nr_throttled", &n) == 0 && n > 0;
}

TEST(cpu_limit)
{
    int64_t end = clock_mono_ms() + DEADLINE_MS;
    struct rig g;

    NEED_HOST;
    if (!rig_on(&g, NULL,
                &(struct cgroup_limits){.memory_bytes = -1, .pids = -1, .cpu_millis = 50})) {
        rig_done(&g);
        SKIP("no cpu controller");
    }
    if (enter(&g) == 0)
        for (;;)
            (void)atomic_fetch_add(g.shared, 1);
    while (!is_throttled(&g) && clock_mono_ms() < end)
        nap(5000);
    CHECK(is_throttled(&g));
    rig_done(&g);
}

/* Stopped means: no progress; and a stopped sandbox can be ended. */
/* Asked again until all have followed, which takes a busy machine some time. */
static int freeze_all(const struct rig *g, bool freeze, struct err *err)
{
    int r = -EAGAIN;

    for (int i = 0; r == -EAGAIN && i < 10000; i++) {
        r = cgroup_freeze(g->c, freeze, err);
        if (r == -EAGAIN)
            nap(1000);
    }
    return r;
}

static void freeze_and_kill(struct cgroup_host *h)
{
    uint64_t before;
    struct rig g;
    pid_t pid;

    CHECK(rig_on(&g, h, &no_limits));
    pid = enter(&g);
    if (pid == 0)
        count_for_ever(g.shared);
    CHECK(grows(g.shared, 0));

    CHECK_INT(freeze_all(&g, true, &g.err), 0);
    before = atomic_load(g.shared);
    nap(20000);
    CHECK_INT(atomic_load(g.shared), before);
    CHECK_INT(freeze_all(&g, false, &g.err), 0);
    CHECK(grows(g.shared, before));

    CHECK_INT(freeze_all(&g, true, &g.err), 0);
    CHECK_INT(cgroup_kill(g.c, DEADLINE_MS, &g.err), 0);
    CHECK_INT(status_of(pid), SIGKILL);
    rig_done(&g);
}

TEST(a_frozen_cgroup_stands_still)
{
    NEED_HOST;
    freeze_and_kill(NULL);
}

/* Forks as fast as it can, in children that outlive their parents. */
static void fork_bomb(_Atomic uint64_t *count)
{
    for (;;) {
        if (plain_fork() >= 0)
            (void)atomic_fetch_add(count, 1);
        else
            nap(1000);
    }
}

static void kill_a_bomb(struct cgroup_host *h)
{
    struct rig g;

    if (!rig_on(&g, h, &(struct cgroup_limits){.memory_bytes = -1, .pids = 40, .cpu_millis = -1})) {
        rig_done(&g);
        SKIP("no pids controller to bound a fork bomb with");
    }
    if (enter(&g) == 0)
        fork_bomb(g.shared);
    CHECK(grows(g.shared, 50));
    CHECK_INT(cgroup_kill(g.c, DEADLINE_MS, &g.err), 0);
    while (waitpid(-1, NULL, 0) > 0)
        ;
    CHECK_INT(cgroup_remove(g.h, g.id, &g.err), 0);
    rig_done(&g);
}

TEST(fork_bomb)
{
    NEED_HOST;
    kill_a_bomb(NULL);
}

/* This host as it would be if only these hierarchies were mounted; `sub` is a directory in each of
 * them that a container's mount shows as its root, "" for the whole. NULL when none is left. */
static struct cgroup_host *view(int version, const char *sub)
{
    struct cgroup_host *h = NULL, *all = NULL;
    char text[4096] = "";
    size_t len = 0;

    CHECK_INT(cgroup_host_open(&all, NULL), 0);
    for (int i = 0; i < all->count; i++) {
        const struct cg_hierarchy *hier = &all->hier[i];
        char controllers[64] = "rw";
        struct stat st;

        if (version != 0 && hier->version != version)
            continue;
        for (int c = 0; hier->version == 1 && c < CG_CONTROLLER_MAX; c++)
            if ((hier->has & 1U << c) != 0) {
                (void)strcat(controllers, ",");
                (void)strcat(controllers, cgroup_controller_name((enum cgroup_controller)c));
            }
        CHECK_INT(fstat(hier->root_fd, &st), 0);
        len += (size_t)snprintf(text + len, sizeof(text) - len,
                                "%d 1 %u:%u /docker%s %s%s rw - %s c %s\n", i + 2, major(st.st_dev),
                                minor(st.st_dev), sub, hier->path, sub,
                                hier->version == 2 ? "cgroup2" : "cgroup", controllers);
    }
    CHECK_INT(cg_host_from_mountinfo(text, len, &h, NULL), 0);
    cgroup_host_free(all);
    if (cgroup_host_mode(h) != CG_MODE_NONE)
        return h;
    cgroup_host_free(h);
    return NULL;
}

/* A file of what a view's mount shows, or a negative errno. */
static int shown(int mount, const char *file, int flags)
{
    int fd = openat(mount, file, flags | O_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

static void check_part(const struct rig *g, const struct cgroup_view_part *part)
{
    auto_close int limit = FD_NONE;
    char text[CG_SMALL_MAX];

    CHECK_INT(shown(part->fd, "cgroup.procs", O_WRONLY), -EROFS);
    CHECK(mkdirat(part->fd, "x", 0755) < 0 && errno == EROFS);
    CHECK(faccessat(part->fd, "../rind", F_OK, 0) < 0);
    if (strstr(part->name, "pids") == NULL)
        return;
    CHECK_INT(cg_read(part->fd, "pids.max", text), 0);
    CHECK_STR(text, g->c->home[CG_PIDS] != CG_NOWHERE ? "9\n" : "max\n");
}

/* The directories that the sandbox is in. */
TEST(view_of_the_sandbox)
{
    static const struct cgroup_limits sets[] = {
        {.memory_bytes = -1, .pids = 9, .cpu_millis = -1},
        {.memory_bytes = -1, .pids = -1, .cpu_millis = -1},
        {.memory_bytes = 64 << 20, .pids = 9, .cpu_millis = 500}};

    NEED_HOST;
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
        struct cgroup_view v;
        struct rig g;
        int want = 0;

        if (!rig_on(&g, NULL, &sets[i])) {
            rig_done(&g);
            continue;
        }
        for (int h = 0; h < g.h->count; h++)
            want += g.c->dir_fd[h] >= 0 || g.c->seen_fd[h] >= 0;
        CHECK_INT(cgroup_view_open(g.h, g.c, &v, &g.err), 0);
        CHECK_INT(v.whole, cgroup_host_mode(g.h) == CG_MODE_V2);
        CHECK_INT(v.count, want);
        for (int p = 0; p < v.count; p++)
            check_part(&g, &v.parts[p]);
        cgroup_view_close(&v);
        CHECK_INT(v.count, 0);
        rig_done(&g);
    }
}

/* Without v2 the freezer stops, and a list of processes ends. */
TEST(v1_alone_freeze)
{
    struct cgroup_host *h;

    NEED_HOST;
    h = view(1, "");
    if (h == NULL || cgroup_host_controller(h, CG_FREEZER) != 1) {
        cgroup_host_free(h);
        SKIP("no v1 freezer");
    }
    CHECK_INT(cgroup_host_mode(h), CG_MODE_V1);
    freeze_and_kill(h);
}

TEST(v1_alone_fork_bomb)
{
    struct cgroup_host *h;

    NEED_HOST;
    h = view(1, "");
    if (h == NULL)
        SKIP("no v1 hierarchy");
    kill_a_bomb(h);
}

/* By the list, as kernels before 5.14 need it: on v2 in all leaves, and nobody else. */
TEST(kill_by_list)
{
    pid_t pids[3], bystander;
    struct rig g;

    NEED_HOST;
    CHECK(rig_on(&g, NULL, &no_limits));
    bystander = fork();
    if (bystander == 0)
        for (;;)
            (void)pause();
    for (int i = 0; i < 3; i++) {
        pids[i] = enter(&g);
        if (pids[i] != 0)
            continue;
        if (cgroup_exec_fd(g.c) >= 0 && i > 0) {
            const char *leaf = i == 1 ? "1" : "2";
            char procs[32];

            (void)mkdirat(cgroup_exec_fd(g.c), leaf, 0755);
            (void)snprintf(procs, sizeof(procs), "%s/cgroup.procs", leaf);
            (void)file_poke_at(cgroup_exec_fd(g.c), procs, "0");
        }
        (void)atomic_fetch_add(g.shared, 1);
        for (;;)
            (void)pause();
    }
    CHECK(grows(g.shared, 2));
    CHECK_INT(cg_kill_by_list(g.c, DEADLINE_MS), 0);
    for (int i = 0; i < 3; i++)
        CHECK_INT(status_of(pids[i]), SIGKILL);
    CHECK_INT(waitpid(bystander, NULL, WNOHANG), 0);
    (void)kill(bystander, SIGKILL);
    rig_done(&g);
}

/* ---- the exec subtree ---- */

enum { ALL_STEPS = 100 };

static void step(struct rig *g, uint64_t n, bool ok)
{
    if (ok)
        return;
    atomic_store(g->shared, n);
    _exit(1);
}

/* As init: no root, but the exec subtree. Says which step went wrong, or ALL_STEPS. */
static void be_init(struct rig *g)
{
    int exec_fd = cgroup_exec_fd(g->c), dir_fd = cgroup_v2_fd(g->c), leaf, depth = 2;
    char deep[64] = "1";

    step(g, 1, file_poke_at(exec_fd, "cgroup.procs", "0") == 0); /* where the launcher starts it */
    step(g, 1, setresgid(INIT_UID, INIT_UID, INIT_UID) == 0);
    step(g, 2, setresuid(INIT_UID, INIT_UID, INIT_UID) == 0);
    step(g, 3, mkdirat(exec_fd, "1", 0755) == 0);
    leaf = openat(exec_fd, "1", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    step(g, 4, leaf >= 0 && file_poke_at(leaf, "cgroup.procs", "0") == 0);
    /* The leaf is its own; nothing else of the sandbox's directory is. */
    step(g, 5, faccessat(leaf, "cgroup.kill", W_OK, AT_EACCESS) == 0);
    step(g, 6, file_poke_at(dir_fd, "cgroup.kill", "1") == -EACCES);
    step(g, 7, file_poke_at(dir_fd, "cgroup.freeze", "1") == -EACCES);
    step(g, 8, file_poke_at(dir_fd, "cgroup.max.descendants", "max") == -EACCES);
    step(g, 9, file_poke_at(dir_fd, "cgroup.subtree_control", "+pids") == -EACCES);
    step(g, 9, file_poke_at(dir_fd, "cgroup.procs", "0") == -EACCES);
    step(g, 10, mkdirat(dir_fd, "x", 0755) < 0 && errno == EACCES);
    step(g, 11, unlinkat(dir_fd, "exec", AT_REMOVEDIR) < 0);
    /* How deep it may go is bounded, and removal goes that deep. */
    while (mkdirat(exec_fd, strcat(deep, "/d"), 0755) == 0)
        depth++;
    step(g, 12, errno == EAGAIN && depth == CG_DEPTH_MAX);
    atomic_store(g->shared, ALL_STEPS);
    for (;;)
        (void)pause();
}

TEST(exec_subtree)
{
    char text[CG_SMALL_MAX] = "";
    struct rig g;
    pid_t pid;
    int leaf;

    NEED_HOST;
    CHECK(rig_on(&g, NULL, &no_limits));
    if (cgroup_exec_fd(g.c) < 0) {
        rig_done(&g);
        SKIP("no v2 hierarchy");
    }
    pid = enter(&g);
    if (pid == 0)
        be_init(&g);
    CHECK(grows(g.shared, 0));
    CHECK_INT(atomic_load(g.shared), ALL_STEPS);

    leaf = openat(cgroup_exec_fd(g.c), "1", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_INT(cg_read(leaf, "cgroup.procs", text), 0);
    CHECK_INT(atoi(text), pid);
    (void)close(leaf);
    CHECK_INT(cgroup_remove(g.h, g.id, &g.err), -EBUSY);
    g.err = (struct err)ERR_NONE;
    rig_done(&g); /* kills what is in the leaf, and removes the levels below it */
}

/* ---- another process, a container ---- */

/* The next launcher finds what this one has made. */
TEST(open_again)
{
    struct cgroup *again = NULL;
    struct cgroup_host *h = NULL;
    struct cgroup_stats s;
    struct rig g;
    pid_t pid;

    NEED_HOST;
    CHECK(rig_on(&g, NULL, &no_limits));
    pid = enter(&g);
    if (pid == 0)
        count_for_ever(g.shared);
    CHECK_INT(cgroup_host_open(&h, &g.err), 0);
    CHECK_INT(cgroup_open(h, g.id, &again, &g.err), 0);
    CHECK_INT(cgroup_exec_fd(again) >= 0, cgroup_exec_fd(g.c) >= 0);
    CHECK_INT(cgroup_stats(again, &s, &g.err), 0);
    CHECK_INT(cgroup_kill(again, DEADLINE_MS, &g.err), 0);
    CHECK_INT(status_of(pid), SIGKILL);
    cgroup_free(again);
    CHECK_INT(cgroup_remove(h, g.id, &g.err), 0);
    CHECK_INT(cgroup_open(h, g.id, &again, NULL), -ENOENT);
    cgroup_host_free(h);
    rig_done(&g);
}

static void each_hierarchy(const char *sub, bool make)
{
    struct cgroup_host *h = NULL;

    CHECK_INT(cgroup_host_open(&h, NULL), 0);
    for (int i = 0; i < h->count; i++) {
        char rind[64];

        (void)snprintf(rind, sizeof(rind), "%s/rind", sub + 1);
        if (make)
            CHECK_INT(mkdirat(h->hier[i].root_fd, sub + 1, 0755), 0);
        else if (unlinkat(h->hier[i].root_fd, rind, AT_REMOVEDIR) == 0 || errno == ENOENT)
            CHECK_INT(unlinkat(h->hier[i].root_fd, sub + 1, AT_REMOVEDIR), 0);
    }
    cgroup_host_free(h);
}

/* Inside a container the mount's root is somewhere below the hierarchy's. */
TEST(below_a_containers_root)
{
    char sub[32], want[128], path[64];
    auto_free char *text = NULL;
    struct rig g;
    pid_t pid;
    int fd;

    NEED_HOST;
    (void)snprintf(sub, sizeof(sub), "/rind-test-%d", getpid());
    each_hierarchy(sub, true);
    CHECK(rig_on(&g, view(0, sub), &no_limits));
    pid = enter(&g);
    if (pid == 0)
        count_for_ever(g.shared);
    CHECK(grows(g.shared, 0)); /* on v1 it enters by itself */
    (void)snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
    (void)snprintf(want, sizeof(want), ":%s/rind/%s\n", sub, g.id);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK_INT(file_read_fd(fd, 1 << 16, &text, NULL, NULL), 0);
    (void)close(fd);
    CHECK(text != NULL && strstr(text, want) != NULL);
    rig_done(&g);
    each_hierarchy(sub, false);
}

/* v2, inside a container: the root that it sees is not the real one, and may not hold processes
 * when it hands controllers on. */
TEST(container_root_with_processes)
{
    char sub[32], sub_procs[64], type[CG_SMALL_MAX] = "";
    struct cgroup_host *h;
    struct rig g;
    pid_t pid;

    NEED_HOST;
    h = view(2, "");
    if (h == NULL || cgroup_host_controller(h, CG_PIDS) != 2) {
        cgroup_host_free(h);
        SKIP("no pids controller on v2");
    }
    (void)snprintf(sub, sizeof(sub), "/rind-test-%d", getpid());
    (void)snprintf(sub_procs, sizeof(sub_procs), "%s/cgroup.procs", sub + 1);
    CHECK_INT(file_poke_at(h->hier[0].root_fd, "cgroup.subtree_control", "+pids"), 0);
    each_hierarchy(sub, true);
    pid = fork();
    if (pid == 0)
        for (;;)
            (void)pause();
    char text[16];
    (void)snprintf(text, sizeof(text), "%d", pid);
    CHECK_INT(file_poke_at(h->hier[0].root_fd, sub_procs, text), 0);

    CHECK(!rig_on(&g, view(2, sub),
                  &(struct cgroup_limits){.memory_bytes = -1, .pids = 9, .cpu_millis = -1}));
    CHECK_INT(g.err.code, -EOPNOTSUPP);
    /* The pids controller alone would go through, and spoil it for processes. */
    CHECK_INT(cg_read(g.h->hier[0].root_fd, "cgroup.type", type), 0);
    CHECK_STR(type, "domain\n");
    CHECK(strstr(g.err.msg, "holds processes, so its limits cannot be handed on (+pids); move "
                            "them: mkdir ") != NULL);
    (void)kill(pid, SIGKILL);
    g.err = (struct err)ERR_NONE;
    rig_done(&g);
    each_hierarchy(sub, false);
    cgroup_host_free(h);
}

TAP_MAIN
