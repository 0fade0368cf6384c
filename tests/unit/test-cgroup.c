/*
 * What a host of any kind would be asked to do, on directories that look like cgroupfs: this
 * program's own fstat, fstatfs, mkdirat, unlinkat and sysinfo stand before the C library's, give
 * the directory <tmp>/<minor> the device number 0:<minor>, and fill new directories with the files
 * that the kernel would make. test-cgroup-host does the rest on the real thing.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "launch/cgroup-internal.h"
#include "tap.h"

/* ---- the fake kernel ---- */

enum { V2 = 900, MEMORY, CPU, CPUACCT, PIDS, FREEZER, CPU_CPUACCT, NAMED, CPUSET };

static char fake_root[64];
static const char *fake_missing = ""; /* a file that this kernel does not have */
static unsigned long fake_swap;

/* clang-format off */
static const struct fake_file {
    int minor;
    const char *name, *text;
} fake_files[] = {
    { V2, "cgroup.procs", "" },           { V2, "cgroup.subtree_control", "" },
    { V2, "cgroup.max.depth", "" },       { V2, "cgroup.max.descendants", "" },
    { V2, "cgroup.kill", "" },            { V2, "cgroup.freeze", "" },
    { V2, "cgroup.events", "populated 0\nfrozen 1\n" },
    { V2, "cpu.stat", "usage_usec 77\nuser_usec 70\nsystem_usec 7\n" },
    { V2, "memory.max", "" },             { V2, "memory.swap.max", "" },
    { V2, "memory.current", "4096\n" },   { V2, "memory.peak", "8192\n" },
    { V2, "memory.events", "low 0\nhigh 1\nmax 2\noom 3\noom_kill 4\noom_group_kill 5\n" },
    { V2, "cpu.max", "" },                { V2, "pids.max", "" },
    { V2, "pids.current", "3\n" },

    { MEMORY, "cgroup.procs", "" }, { MEMORY, "tasks", "" },
    { MEMORY, "memory.limit_in_bytes", "" },
    { MEMORY, "memory.memsw.limit_in_bytes", "" },
    { MEMORY, "memory.kmem.tcp.limit_in_bytes", "" },
    { MEMORY, "memory.usage_in_bytes", "1\n" }, { MEMORY, "memory.max_usage_in_bytes", "2\n" },
    { MEMORY, "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 6\n" },
    { CPU, "cgroup.procs", "" }, { CPU, "tasks", "" },
    { CPU, "cpu.cfs_period_us", "" },
    { CPU, "cpu.cfs_quota_us", "" },
    { CPUACCT, "cgroup.procs", "" }, { CPUACCT, "tasks", "" },
    { CPUACCT, "cpuacct.usage", "5000999\n" },
    { PIDS, "cgroup.procs", "" }, { PIDS, "tasks", "" },
    { PIDS, "pids.max", "" },
    { PIDS, "pids.current", "9\n" },
    { FREEZER, "cgroup.procs", "" }, { FREEZER, "tasks", "" },
    { FREEZER, "freezer.state", "" },
    { CPU_CPUACCT, "cgroup.procs", "" }, { CPU_CPUACCT, "tasks", "" },
    { CPU_CPUACCT, "cpu.cfs_period_us", "" },
    { CPU_CPUACCT, "cpu.cfs_quota_us", "" }, { CPU_CPUACCT, "cpuacct.usage", "1000\n" },
};
/* clang-format on */

/* The minor number of the fake hierarchy that fd is in, or 0. */
static int fake_minor(int fd)
{
    char link[64], path[256];
    size_t len = strlen(fake_root);
    ssize_t n;

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof(path) - 1);
    if (len == 0 || n < 0)
        return 0;
    path[n] = '\0';
    return strncmp(path, fake_root, len) == 0 && path[len] == '/' ? atoi(path + len + 1) : 0;
}

int fstat(int fd, struct stat *st)
{
    int r = fstatat(fd, "", st, AT_EMPTY_PATH);

    if (r == 0 && fake_minor(fd) != 0)
        st->st_dev = makedev(0, (unsigned)fake_minor(fd));
    return r;
}

int fstatfs(int fd, struct statfs *fs)
{
    int minor_number = fake_minor(fd);

    *fs = (struct statfs){0};
    fs->f_type = minor_number == V2 ? CGROUP2_SUPER_MAGIC : CGROUP_SUPER_MAGIC;
    if (minor_number == 0)
        fs->f_type = TMPFS_MAGIC;
    return 0;
}

int sysinfo(struct sysinfo *info)
{
    *info = (struct sysinfo){.totalswap = fake_swap};
    return 0;
}

static void put_file(int dirfd, const char *name, const char *text)
{
    auto_close int fd = openat(dirfd, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);

    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        tap_fail("put %s", name);
}

static void fill_dir(int fd, int minor_number)
{
    for (size_t i = 0; i < sizeof(fake_files) / sizeof(fake_files[0]); i++)
        if (fake_files[i].minor == minor_number && strcmp(fake_files[i].name, fake_missing) != 0)
            put_file(fd, fake_files[i].name, fake_files[i].text);
}

int mkdirat(int dirfd, const char *name, mode_t mode)
{
    auto_close int fd = FD_NONE;

    if (syscall(SYS_mkdirat, dirfd, name, mode) < 0)
        return -1;
    fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fill_dir(fd, fake_minor(fd));
    return 0;
}

/* rmdir of a cgroup takes its files away, and is refused while there are directories in it. */
int unlinkat(int dirfd, const char *name, int flags)
{
    struct dirent *e;
    DIR *dir;
    int fd;

    fd = flags == AT_REMOVEDIR ? openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : FD_NONE;
    if (fd >= 0 && (dir = fdopendir(fd)) != NULL) {
        while ((e = readdir(dir)) != NULL) {
            if (e->d_type != DT_DIR || e->d_name[0] == '.')
                continue;
            (void)closedir(dir);
            errno = EBUSY;
            return -1;
        }
        rewinddir(dir);
        while ((e = readdir(dir)) != NULL)
            if (e->d_type != DT_DIR)
                (void)syscall(SYS_unlinkat, fd, e->d_name, 0);
        (void)closedir(dir);
    }
    return (int)syscall(SYS_unlinkat, dirfd, name, flags);
}

/* ---- hosts of the fake kernel ---- */

struct line {
    int minor;
    const char *where; /* directory below fake_root */
    const char *root, *options, *fstype, *super;
};

/* clang-format off */
#define L_V2       { V2, "900", "/", "rw", "cgroup2", "rw,nsdelegate" }
#define L_MEMORY   { MEMORY, "901", "/", "rw", "cgroup", "rw,memory" }
#define L_CPU      { CPU, "902", "/", "rw", "cgroup", "rw,cpu" }
#define L_CPUACCT  { CPUACCT, "903", "/", "rw", "cgroup", "rw,cpuacct" }
#define L_PIDS     { PIDS, "904", "/", "rw", "cgroup", "rw,pids" }
#define L_FREEZER  { FREEZER, "905", "/", "rw", "cgroup", "rw,freezer" }
#define L_COMBINED { CPU_CPUACCT, "906", "/", "rw", "cgroup", "rw,cpu,cpuacct" }
#define L_NAMED    { NAMED, "907", "/", "rw", "cgroup", "rw,xattr,name=memory" }
#define L_CPUSET   { CPUSET, "908", "/", "rw", "cgroup", "rw,cpuset" }
/* clang-format on */

enum { LINES_MAX = 9 };

static void fake_start(void)
{
    (void)snprintf(fake_root, sizeof(fake_root), "/tmp/rind-cgroup-XXXXXX");
    if (mkdtemp(fake_root) == NULL)
        exit(1);
    fake_missing = "";
    fake_swap = 0;
}

static void fake_stop(void)
{
    char command[128];

    (void)snprintf(command, sizeof(command), "rm -r %s", fake_root);
    if (system(command) != 0)
        tap_fail("%s", command);
    fake_root[0] = '\0';
}

static void make_hierarchy(const char *where, int minor_number, const char *controllers)
{
    char path[128];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/%s", fake_root, where);
    if (mkdir(path, 0755) < 0)
        return; /* mounted twice in the sample */
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (minor_number == V2) {
        put_file(fd, "cgroup.controllers", controllers);
        put_file(fd, "cgroup.subtree_control", "");
    }
    (void)close(fd);
}

/* A host with these mounts; `controllers` is what its v2 root offers. */
static struct cgroup_host *host_of(const struct line *lines, const char *controllers)
{
    struct cgroup_host *h = NULL;
    struct err err = ERR_NONE;
    char text[4096] = "1 0 8:1 / / rw - ext4 /dev/sda rw\nnot a line\n";
    size_t len = strlen(text);

    for (int i = 0; i < LINES_MAX && lines[i].minor != 0; i++) {
        const struct line *l = &lines[i];

        make_hierarchy(l->where, atoi(l->where), controllers);
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%d 1 0:%d %s %s/%s %s - %s c %s\n",
                                i + 2, l->minor, l->root, fake_root, l->where, l->options,
                                l->fstype, l->super);
    }
    if (cg_host_from_mountinfo(text, len, &h, &err) < 0) {
        tap_fail("%s", err.msg);
        exit(1);
    }
    return h;
}

/* The text of <fake_root>/<path>, or "(none)". */
static const char *text_of(const char *path)
{
    static char text[4096];
    char full[256];
    ssize_t n = -1;
    int fd;

    (void)snprintf(full, sizeof(full), "%s/%s", fake_root, path);
    fd = open(full, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = read(fd, text, sizeof(text) - 1);
        (void)close(fd);
    }
    if (n < 0)
        return "(none)";
    text[n] = '\0';
    return text;
}

static bool exists(const char *path)
{
    char full[256];

    (void)snprintf(full, sizeof(full), "%s/%s", fake_root, path);
    return access(full, F_OK) == 0;
}

static uid_t owner_of(const char *path)
{
    struct stat st = {0};
    char full[256];

    (void)snprintf(full, sizeof(full), "%s/%s", fake_root, path);
    CHECK_INT(stat(full, &st), 0);
    return st.st_uid;
}

/* chown takes root; as another user, the tests hand things to themselves. */
static uid_t some_uid(void)
{
    return geteuid() == 0 ? 1879048192 : geteuid();
}

static const struct cgroup_limits no_limits = {.memory_bytes = -1, .pids = -1, .cpu_millis = -1};
static const struct cgroup_limits all_limits = {
    .memory_bytes = 64 << 20, .pids = 100, .cpu_millis = 1500};

/* ---- discovery ---- */

struct discovery {
    const char *what;
    struct line lines[LINES_MAX];
    const char *controllers;
    enum cgroup_mode mode;
    int version[CG_CONTROLLER_MAX]; /* memory, cpu, cpuacct, pids, freezer, cpuset */
};

/* clang-format off */
static const struct discovery discoveries[] = {
    { "nothing", { {0} }, "", CG_MODE_NONE, { 0, 0, 0, 0, 0 } },
    { "v2", { L_V2 }, "cpuset cpu io memory hugetlb pids rdma misc\n", CG_MODE_V2,
      { 2, 2, 2, 2, 2, 2, 2 } },
    { "v2 without memory", { L_V2 }, "cpuset cpu io pids\n", CG_MODE_V2, { 0, 2, 2, 2, 2, 2, 2 } },
    { "v2 whose names only resemble", { L_V2 }, "cpuset memory_x xpids\n", CG_MODE_V2,
      { 0, 0, 2, 0, 2, 2 } },
    { "v1, separate", { L_CPU, L_CPUACCT, L_MEMORY, L_PIDS, L_FREEZER }, "", CG_MODE_V1,
      { 1, 1, 1, 1, 1 } },
    { "v1, combined", { L_COMBINED, L_MEMORY, L_NAMED }, "", CG_MODE_V1, { 1, 1, 1, 0, 0 } },
    { "v1 with cpuset", { L_CPUSET, L_PIDS }, "", CG_MODE_V1, { 0, 0, 0, 1, 0, 1 } },
    { "hybrid", { L_CPU, L_CPUACCT, L_MEMORY, L_FREEZER, L_PIDS, L_NAMED, L_V2 }, "",
      CG_MODE_HYBRID, { 1, 1, 2, 1, 2 } },
    { "hybrid with one controller on v2", { L_MEMORY, L_V2 }, "pids\n", CG_MODE_HYBRID,
      { 1, 0, 2, 2, 2 } },
    { "named v1 beside v2", { L_NAMED, L_V2 }, "memory\n", CG_MODE_V2, { 2, 0, 2, 0, 2 } },
    { "a named hierarchy alone", { L_NAMED }, "", CG_MODE_NONE, { 0, 0, 0, 0, 0 } },
    { "read-only mount", { { V2, "900", "/", "ro,nosuid", "cgroup2", "rw" }, L_PIDS }, "memory\n",
      CG_MODE_V1, { 0, 0, 0, 1, 0 } },
    { "read-only file system", { { V2, "900", "/", "rw", "cgroup2", "ro" } }, "memory\n",
      CG_MODE_NONE, { 0, 0, 0, 0, 0 } },
    { "files without prefix", { { PIDS, "904", "/", "rw", "cgroup", "rw,noprefix,pids" } }, "",
      CG_MODE_NONE, { 0, 0, 0, 0, 0 } },
    { "a container's part of v1", { { PIDS, "904", "/docker/1", "rw", "cgroup", "rw,pids" } }, "",
      CG_MODE_V1, { 0, 0, 0, 1, 0 } },
    { "seen from a cgroup namespace below", { { V2, "900", "/../..", "rw", "cgroup2", "rw" } },
      "pids\n", CG_MODE_V2, { 0, 0, 2, 2, 2 } },
    { "another device than mountinfo says", { { PIDS, "901", "/", "rw", "cgroup", "rw,pids" } },
      "", CG_MODE_NONE, { 0, 0, 0, 0, 0 } },
    { "v1 that says it is v2", { { MEMORY, "901", "/", "rw", "cgroup2", "rw" } }, "memory\n",
      CG_MODE_NONE, { 0, 0, 0, 0, 0 } },
    { "another file system", { { PIDS, "904", "/", "rw", "fuse.cgroup2", "rw,pids" } }, "",
      CG_MODE_NONE, { 0, 0, 0, 0, 0 } },
};
/* clang-format on */

TEST(each_hierarchy_is_found_once)
{
    for (size_t i = 0; i < sizeof(discoveries) / sizeof(discoveries[0]); i++) {
        const struct discovery *d = &discoveries[i];
        struct cgroup_host *h;

        fake_start();
        h = host_of(d->lines, d->controllers);
        if (cgroup_host_mode(h) != d->mode)
            tap_fail("%s: mode %d, want %d", d->what, cgroup_host_mode(h), d->mode);
        for (int c = 0; c < CG_CONTROLLER_MAX; c++)
            if (cgroup_host_controller(h, (enum cgroup_controller)c) != d->version[c])
                tap_fail("%s: %s is v%d, want v%d", d->what,
                         cgroup_controller_name((enum cgroup_controller)c),
                         cgroup_host_controller(h, (enum cgroup_controller)c), d->version[c]);
        cgroup_host_free(h);
        fake_stop();
    }
}

/* Of several mounts of one hierarchy the first counts, but one that shows all of it is better. */
TEST(mounted_more_than_once)
{
    static const struct {
        struct line lines[LINES_MAX];
        const char *want;
    } rows[] = {
        {{L_PIDS, {PIDS, "904b", "/", "rw", "cgroup", "rw,pids"}}, "904"},
        {{{PIDS, "904b", "/x", "rw", "cgroup", "rw,pids"}, L_PIDS}, "904"},
        {{{PIDS, "904b", "/x", "rw", "cgroup", "rw,pids"},
          {PIDS, "904c", "/y", "rw", "cgroup", "rw,pids"}},
         "904b"},
        {{{PIDS, "904b", "/", "ro", "cgroup", "rw,pids"}, L_PIDS}, "904"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct cgroup_host *h;
        char want[128];

        fake_start();
        h = host_of(rows[i].lines, "");
        (void)snprintf(want, sizeof(want), "%s/%s", fake_root, rows[i].want);
        CHECK_INT(h->count, 1);
        CHECK_STR(h->hier[0].path, want);
        cgroup_host_free(h);
        fake_stop();
    }
}

TEST(no_more_hierarchies_than_fit)
{
    static const struct line lines[LINES_MAX] = {L_CPU,      L_CPUACCT, L_MEMORY, L_PIDS, L_FREEZER,
                                                 L_COMBINED, L_CPUSET,  L_V2,     L_NAMED};
    struct cgroup_host *h;

    fake_start();
    h = host_of(lines, "");
    CHECK_INT(h->count, CG_HIERARCHIES_MAX);
    cgroup_host_free(h);
    fake_stop();
}

TEST(controller_names)
{
    static const char *const names[] = {"memory",  "cpu",    "cpuacct", "pids",
                                        "freezer", "cpuset", "io"};

    for (int i = 0; i < CG_CONTROLLER_MAX; i++)
        CHECK_STR(cgroup_controller_name((enum cgroup_controller)i), names[i]);
}

/* ---- limits ---- */

TEST(v2_create)
{
    static const struct line lines[LINES_MAX] = {L_V2};
    struct cgroup *c = NULL, *d = NULL;
    struct err err = ERR_NONE;
    struct cgroup_stats s;
    struct cgroup_host *h;
    int tasks[CGROUP_TASKS_MAX], count = -1;
    uint64_t oom = 0;

    fake_start();
    h = host_of(lines, "cpu memory pids\n");
    CHECK_INT(cgroup_create(h, "a-1", &all_limits, some_uid(), &c, &err), 0);
    CHECK_STR(err.msg, "");
    CHECK_STR(text_of("900/cgroup.subtree_control"), "+memory +cpu +pids");
    CHECK_STR(text_of("900/rind/cgroup.subtree_control"), "+memory +cpu +pids");
    CHECK_STR(text_of("900/rind/cgroup.max.depth"), "9");
    CHECK_STR(text_of("900/rind/a-1/cgroup.subtree_control"), "");
    CHECK_STR(text_of("900/rind/a-1/cgroup.max.descendants"), "4096");
    CHECK_STR(text_of("900/rind/a-1/memory.max"), "67108864");
    CHECK_STR(text_of("900/rind/a-1/memory.swap.max"), "0");
    CHECK_STR(text_of("900/rind/a-1/cpu.max"), "150000 100000");
    CHECK_STR(text_of("900/rind/a-1/pids.max"), "100");
    CHECK_INT(owner_of("900/rind/a-1"), geteuid());
    CHECK_INT(owner_of("900/rind/a-1/cgroup.procs"), geteuid());
    CHECK_INT(owner_of("900/rind/a-1/memory.max"), geteuid());
    CHECK_INT(owner_of("900/rind/a-1/exec"), some_uid());
    CHECK_INT(owner_of("900/rind/a-1/exec/cgroup.procs"), some_uid());
    CHECK_INT(owner_of("900/rind/a-1/exec/cgroup.max.depth"), geteuid());
    CHECK(cgroup_v2_fd(c) >= 0 && cgroup_exec_fd(c) >= 0);
    CHECK_INT(fcntl(cgroup_exec_fd(c), F_GETFD), FD_CLOEXEC);

    CHECK_INT(cgroup_open_tasks(c, tasks, &count, &err), 0);
    CHECK_INT(count, 0);
    CHECK_STR(text_of("900/rind/a-1/cgroup.procs"), "");
    CHECK_INT(cgroup_stats(c, &s, &err), 0);
    CHECK_INT(s.memory_bytes, 4096);
    CHECK_INT(s.memory_peak_bytes, 8192);
    CHECK_INT(s.cpu_usec, 77);
    CHECK_INT(s.pids, 3);
    CHECK_INT(cgroup_oom_kills(c, &oom), 0);
    CHECK_INT(oom, 4);
    CHECK_INT(cgroup_freeze(c, true, &err), 0);
    CHECK_STR(text_of("900/rind/a-1/cgroup.freeze"), "1");
    CHECK_INT(cgroup_kill(c, 100, &err), 0);
    CHECK_STR(text_of("900/rind/a-1/cgroup.kill"), "1");

    CHECK_INT(cgroup_open(h, "a-1", &d, &err), 0);
    CHECK(cgroup_exec_fd(d) >= 0);
    CHECK_INT(cgroup_open(h, "a-2", &d, &err), -ENOENT);
    CHECK_STR(err.msg, "no cgroup of 'a-2'");
    cgroup_free(c);
    cgroup_free(d);
    CHECK_INT(cgroup_remove(h, "a-1", &err), 0);
    CHECK(!exists("900/rind/a-1"));
    CHECK_INT(cgroup_remove(h, "a-1", &err), 0);
    cgroup_host_free(h);
    fake_stop();
}

/* A sandbox without limits has nothing handed down, and no figures but those of every directory. */
TEST(v2_create_without_limits)
{
    static const struct line lines[LINES_MAX] = {L_V2};
    struct err err = ERR_NONE;
    struct cgroup *c = NULL;
    struct cgroup_stats s;
    struct cgroup_host *h;
    uint64_t oom = 9;

    fake_start();
    h = host_of(lines, "cpu memory pids\n");
    fake_missing = "memory.peak"; /* kernel 5.19 */
    CHECK_INT(cgroup_create(h, "a", &no_limits, some_uid(), &c, &err), 0);
    CHECK_STR(text_of("900/cgroup.subtree_control"), "");
    CHECK_STR(text_of("900/rind/cgroup.subtree_control"), "");
    CHECK_STR(text_of("900/rind/a/memory.max"), "");
    CHECK_INT(cgroup_stats(c, &s, &err), 0);
    CHECK_INT(s.memory_peak_bytes, 0);
    CHECK_INT(unlinkat(cgroup_v2_fd(c), "memory.events", 0), 0);
    CHECK_INT(cgroup_oom_kills(c, &oom), 0);
    CHECK_INT(oom, 0);
    cgroup_free(c);

    /* The next one asks for one more thing at a time; what is enabled is not written again. */
    CHECK_INT(cgroup_create(
                  h, "b", &(struct cgroup_limits){.memory_bytes = -1, .pids = 5, .cpu_millis = -1},
                  some_uid(), &c, &err),
              0);
    CHECK_STR(text_of("900/rind/cgroup.subtree_control"), "+pids");
    cgroup_free(c);
    CHECK_INT(cgroup_create(
                  h, "c", &(struct cgroup_limits){.memory_bytes = -1, .pids = 5, .cpu_millis = 10},
                  some_uid(), &c, &err),
              0);
    CHECK_STR(text_of("900/rind/cgroup.subtree_control"), "+cpus"); /* "+cpu" over "+pids" */
    cgroup_free(c);
    cgroup_host_free(h);
    fake_stop();
}

TEST(hybrid_create)
{
    static const struct line lines[LINES_MAX] = {L_COMBINED, L_MEMORY, L_PIDS, L_FREEZER, L_V2};
    struct err err = ERR_NONE;
    struct cgroup *c = NULL;
    struct cgroup_stats s;
    struct cgroup_host *h;
    int tasks[CGROUP_TASKS_MAX], count = -1;
    uint64_t oom = 0;

    fake_start();
    h = host_of(lines, "");
    CHECK_INT(cgroup_create(h, "none", &no_limits, some_uid(), &c, &err), 0);
    CHECK(exists("900/rind/none/exec"));
    CHECK(!exists("901/rind") && !exists("904/rind") && !exists("905/rind") && !exists("906/rind"));
    cgroup_free(c);

    CHECK_INT(cgroup_create(h, "all", &all_limits, some_uid(), &c, &err), 0);
    CHECK_STR(text_of("901/rind/all/memory.limit_in_bytes"), "67108864");
    CHECK_STR(text_of("901/rind/all/memory.memsw.limit_in_bytes"), "67108864");
    CHECK_STR(text_of("901/rind/all/memory.kmem.tcp.limit_in_bytes"), "16777216");
    CHECK_STR(text_of("906/rind/all/cpu.cfs_period_us"), "");
    CHECK_STR(text_of("906/rind/all/cpu.cfs_quota_us"), "150000");
    CHECK_STR(text_of("904/rind/all/pids.max"), "100");
    CHECK(!exists("905/rind"));
    CHECK_STR(text_of("900/rind/all/memory.max"), "");
    CHECK_STR(text_of("900/cgroup.subtree_control"), "");

    CHECK_INT(cgroup_open_tasks(c, tasks, &count, &err), 0);
    CHECK_INT(count, 3);
    CHECK_INT(fcntl(tasks[0], F_GETFD), FD_CLOEXEC);
    CHECK_INT(cgroup_enter(tasks, count), 0);
    for (int i = 0; i < count; i++)
        (void)close(tasks[i]);
    CHECK_STR(text_of("901/rind/all/tasks"), "0");
    CHECK_STR(text_of("904/rind/all/tasks"), "0");
    CHECK_STR(text_of("906/rind/all/tasks"), "0");
    CHECK_STR(text_of("901/rind/all/cgroup.procs"), "");
    CHECK_STR(text_of("900/rind/all/cgroup.procs"), "");
    CHECK_INT(cgroup_enter((const int[]){-1}, 1), -EBADF);
    CHECK_INT(cgroup_stats(c, &s, &err), 0);
    CHECK_INT(s.memory_bytes, 1);
    CHECK_INT(s.memory_peak_bytes, 2);
    CHECK_INT(s.cpu_usec, 77);
    CHECK_INT(s.pids, 9);
    CHECK_INT(cgroup_oom_kills(c, &oom), 0);
    CHECK_INT(oom, 6);
    cgroup_free(c);
    CHECK_INT(cgroup_remove(h, "all", &err), 0);
    CHECK(!exists("901/rind/all") && !exists("904/rind/all") && !exists("906/rind/all"));
    CHECK(!exists("900/rind/all") && exists("900/rind/none"));
    cgroup_host_free(h);
    fake_stop();
}

/* Without v2 a sandbox is stopped, ended and accounted by v1 directories of its own. */
TEST(v1_create)
{
    static const struct line lines[LINES_MAX] = {L_CPU, L_CPUACCT, L_MEMORY, L_PIDS, L_FREEZER};
    struct err err = ERR_NONE;
    struct cgroup *c = NULL;
    struct cgroup_stats s;
    struct cgroup_host *h;

    fake_start();
    h = host_of(lines, "");
    CHECK_INT(cgroup_create(h, "a", &no_limits, some_uid(), &c, &err), 0);
    CHECK(exists("903/rind/a") && exists("905/rind/a"));
    CHECK(!exists("901/rind") && !exists("902/rind") && !exists("904/rind"));
    CHECK_INT(cgroup_v2_fd(c), -1);
    CHECK_INT(cgroup_exec_fd(c), -1);
    CHECK_INT(cgroup_stats(c, &s, &err), 0);
    CHECK_INT(s.cpu_usec, 5000);
    CHECK_INT(s.pids, 0);
    CHECK_INT(cgroup_kill(c, 100, &err), 0);
    CHECK_STR(text_of("905/rind/a/freezer.state"), "THAWED");
    cgroup_free(c);
    CHECK_INT(cgroup_remove(h, "a", &err), 0);
    CHECK(!exists("903/rind/a") && !exists("905/rind/a"));
    cgroup_host_free(h);
    fake_stop();
}

/* A kernel before 5.14 ends by the list: here nobody is on it. */
TEST(no_cgroup_kill)
{
    static const struct line lines[LINES_MAX] = {L_V2};
    struct err err = ERR_NONE;
    struct cgroup *c = NULL;
    struct cgroup_host *h;

    fake_start();
    h = host_of(lines, "");
    fake_missing = "cgroup.kill";
    CHECK_INT(cgroup_create(h, "a", &no_limits, some_uid(), &c, &err), 0);
    CHECK_INT(cgroup_kill(c, 100, &err), 0);
    CHECK_INT(cgroup_freeze(c, false, &err), -EAGAIN); /* this kernel is always frozen */
    CHECK_STR(err.msg, "resume: a process has not followed yet");
    cgroup_free(c);
    cgroup_host_free(h);
    fake_stop();
}

TEST(cpu_figures)
{
    /* clang-format off */
    static const struct {
        int64_t millis;
        const char *period, *quota, *max;
    } rows[] = {
        { 1,       "1000000", "1000",       "1000 1000000" },
        { 9,       "1000000", "9000",       "9000 1000000" },
        { 10,      "",        "1000",       "1000 100000" },
        { 500,     "",        "50000",      "50000 100000" },
        { 1000,    "",        "100000",     "100000 100000" },
        { 1 << 24, "",        "1677721600", "1677721600 100000" },
    };
    /* clang-format on */
    static const struct line v1[LINES_MAX] = {L_CPU}, v2[LINES_MAX] = {L_V2};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct cgroup_limits limits = {
            .memory_bytes = -1, .pids = -1, .cpu_millis = rows[i].millis};
        struct cgroup *c = NULL;
        struct cgroup_host *h;

        fake_start();
        h = host_of(v1, "");
        CHECK_INT(cgroup_create(h, "a", &limits, some_uid(), &c, NULL), 0);
        CHECK_STR(text_of("902/rind/a/cpu.cfs_period_us"), rows[i].period);
        CHECK_STR(text_of("902/rind/a/cpu.cfs_quota_us"), rows[i].quota);
        cgroup_free(c);
        cgroup_host_free(h);
        h = host_of(v2, "cpu\n");
        CHECK_INT(cgroup_create(h, "a", &limits, some_uid(), &c, NULL), 0);
        CHECK_STR(text_of("900/rind/a/cpu.max"), rows[i].max);
        cgroup_free(c);
        cgroup_host_free(h);
        fake_stop();
    }
}

/* ---- what cannot be done ---- */

struct refusal {
    struct line lines[LINES_MAX];
    const char *controllers, *missing;
    unsigned long swap;
    struct cgroup_limits limits;
    int code;
    const char *msg; /* its start */
};

/* clang-format off */
static const struct refusal refusals[] = {
    { { {0} }, "", "", 0, { .memory_bytes = 1 << 20, .pids = -1, .cpu_millis = -1 }, -EOPNOTSUPP,
      "memory limit: no cgroup hierarchy is mounted; mount -t cgroup2 cgroup2 /sys/fs/cgroup" },
    { { L_V2 }, "cpu\n", "", 0, { .memory_bytes = -1, .pids = 5, .cpu_millis = -1 }, -EOPNOTSUPP,
      "pids limit: the kernel offers no pids controller in /tmp/rind-cgroup-" },
    { { L_V2, L_PIDS }, "", "", 0, { .memory_bytes = -1, .pids = -1, .cpu_millis = 100 }, -EOPNOTSUPP,
      "cpu limit: no mounted cgroup hierarchy has the cpu controller; mount -t cgroup -o cpu cpu "
      "/sys/fs/cgroup/cpu" },
    { { { V2, "900", "/", "ro", "cgroup2", "rw" } }, "", "", 0, { .memory_bytes = -1, .pids = 5, .cpu_millis = -1 }, -EOPNOTSUPP,
      "pids limit: the cgroup hierarchy with the pids controller is mounted read-only; " },
    { { L_V2, L_CPU }, "", "cpu.cfs_quota_us", 0, { .memory_bytes = -1, .pids = -1, .cpu_millis = 100 }, -EOPNOTSUPP,
      "cpu limit: this kernel has no cpu.cfs_quota_us in " },
    { { L_V2, L_MEMORY }, "", "memory.memsw.limit_in_bytes", 1, { .memory_bytes = 1 << 20, .pids = -1, .cpu_millis = -1 }, -EOPNOTSUPP,
      "memory limit: the kernel does not count swap (no memory.memsw.limit_in_bytes), and this "
      "host has swap; boot with swapaccount=1, or swapoff -a" },
    { { L_V2 }, "memory\n", "memory.swap.max", 1, { .memory_bytes = 1 << 20, .pids = -1, .cpu_millis = -1 }, -EOPNOTSUPP,
      "memory limit: the kernel does not count swap (no memory.swap.max), and this host has swap" },
    { { L_V2, L_CPU }, "", "", 0, { .memory_bytes = -1, .pids = -1, .cpu_millis = (1 << 24) + 1 }, -ERANGE,
      "cpu limit: at most 16777216 thousandths of a CPU" },
    { { L_V2, L_CPU }, "", "", 0, { .memory_bytes = -1, .pids = -1, .cpu_millis = INT64_MAX }, -ERANGE, "cpu limit: at most " },
};
/* clang-format on */

TEST(refusals_leave_nothing)
{
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        const struct refusal *f = &refusals[i];
        struct err err = ERR_NONE;
        struct cgroup *c = NULL;
        struct cgroup_host *h;

        fake_start();
        h = host_of(f->lines, f->controllers);
        fake_missing = f->missing;
        fake_swap = f->swap;
        CHECK_INT(cgroup_create(h, "a", &f->limits, some_uid(), &c, &err), f->code);
        CHECK(c == NULL);
        if (strncmp(err.msg, f->msg, strlen(f->msg)) != 0)
            tap_fail("\"%s\", want \"%s\"", err.msg, f->msg);
        CHECK(!exists("900/rind/a") && !exists("901/rind/a") && !exists("902/rind/a"));
        cgroup_host_free(h);
        fake_stop();
    }
}

/* Where there is no swap, it need not be counted. */
TEST(no_swap_no_accounting)
{
    static const struct line v2[LINES_MAX] = {L_V2}, v1[LINES_MAX] = {L_MEMORY};
    static const char *const missing[] = {"memory.swap.max", "memory.memsw.limit_in_bytes"};
    struct cgroup_limits limits = {.memory_bytes = 1 << 20, .pids = -1, .cpu_millis = -1};

    for (int i = 0; i < 2; i++) {
        struct cgroup *c = NULL;
        struct cgroup_host *h;

        fake_start();
        h = host_of(i == 0 ? v2 : v1, "memory\n");
        fake_missing = missing[i];
        CHECK_INT(cgroup_create(h, "a", &limits, some_uid(), &c, NULL), 0);
        cgroup_free(c);
        cgroup_host_free(h);
        fake_stop();
    }
}

TEST(an_id_is_made_once)
{
    static const struct line lines[LINES_MAX] = {L_PIDS, L_V2};
    struct cgroup_limits limits = {.memory_bytes = -1, .pids = 7, .cpu_millis = -1};
    struct cgroup *c = NULL, *d = NULL;
    struct err err = ERR_NONE;
    struct cgroup_host *h;

    fake_start();
    h = host_of(lines, "");
    CHECK_INT(cgroup_create(h, "a", &no_limits, some_uid(), &c, &err), 0);
    /* v1 is made first and undone, the first one's v2 directory stays. */
    CHECK_INT(cgroup_create(h, "a", &limits, some_uid(), &d, &err), -EEXIST);
    CHECK(strstr(err.msg, "/900/rind/a: File exists") != NULL);
    CHECK(exists("904/rind") && !exists("904/rind/a") && exists("900/rind/a/exec"));
    cgroup_free(c);
    cgroup_host_free(h);
    fake_stop();
}

TEST(rind_directory)
{
    static const struct line lines[LINES_MAX] = {L_V2};
    struct err err = ERR_NONE;
    struct cgroup *c = NULL;
    struct cgroup_host *h;

    fake_start();
    h = host_of(lines, "");
    CHECK_INT(cgroup_open(h, "a", &c, &err), -ENOENT);
    CHECK_INT(cgroup_remove(h, "a", &err), 0);
    CHECK(!exists("900/rind")); /* looking makes nothing */

    CHECK_INT(cgroup_create(h, "a", &no_limits, some_uid(), &c, &err), 0);
    cgroup_free(take(c));
    /* Somebody removes it between two starts. */
    CHECK_INT(cgroup_remove(h, "a", &err), 0);
    CHECK_INT(unlinkat(h->hier[0].root_fd, "rind", AT_REMOVEDIR), 0);
    CHECK_INT(cgroup_create(h, "a", &no_limits, some_uid(), &c, &err), 0);
    CHECK_STR(text_of("900/rind/cgroup.max.depth"), "9");
    cgroup_free(take(c));
    CHECK_INT(cgroup_remove(h, "a", &err), 0);

    /* A link in its place is not followed, another's directory not used. */
    cg_rind_forget(&h->hier[0]);
    CHECK_INT(unlinkat(h->hier[0].root_fd, "rind", AT_REMOVEDIR), 0);
    CHECK_INT(symlinkat("/tmp", h->hier[0].root_fd, "rind"), 0);
    CHECK_INT(cgroup_create(h, "a", &no_limits, some_uid(), &c, &err), -ENOTDIR);
    CHECK(!exists("../a"));
    CHECK_INT(unlinkat(h->hier[0].root_fd, "rind", 0), 0);
    if (geteuid() == 0) {
        CHECK_INT(mkdirat(h->hier[0].root_fd, "rind", 0755), 0);
        CHECK_INT(fchownat(h->hier[0].root_fd, "rind", 12345, 0, 0), 0);
        CHECK_INT(cgroup_create(h, "a", &no_limits, some_uid(), &c, &err), -EPERM);
        CHECK(strstr(err.msg, "/900/rind: belongs to uid 12345, not to rind") != NULL);
    }
    cgroup_host_free(h);
    fake_stop();
}

/* The caller checks ids; one that it let through is our own bug, and ends the process. */
TEST(bad_ids_abort)
{
    static const char *const ids[] = {
        "",     "..",
        ".",    "a/b",
        "../x", "A",
        "a b",  "a\n",
        "a_b",  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    static const struct line lines[LINES_MAX] = {L_V2};
    struct cgroup_host *h;

    fake_start();
    h = host_of(lines, "");
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        int status = 0;
        pid_t pid = fork();

        if (pid == 0) {
            struct cgroup *c;

            (void)close(STDERR_FILENO);
            (void)cgroup_create(h, ids[i], &no_limits, some_uid(), &c, NULL);
            _exit(0);
        }
        (void)waitpid(pid, &status, 0);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
            tap_fail("id '%s' went through", ids[i]);
    }
    CHECK(!exists("900/rind"));
    cgroup_host_free(h);
    fake_stop();
}

TEST(keyed_files_are_read_by_key)
{
    static const char text[] = "low 0\noom_kill 12\noom 7\nhuge 18446744073709551616\nneg -1\n"
                               "word max\nlast 5";
    static const struct {
        const char *key;
        int code;
        uint64_t want;
    } rows[] = {
        {"low", 0, 0},        {"oom", 0, 7},       {"oom_kill", 0, 12},
        {"last", 0, 5},       {"oo", -ENOENT, 0},  {"kill", -ENOENT, 0},
        {"huge", -EINVAL, 0}, {"neg", -EINVAL, 0}, {"word", -EINVAL, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t value = 0;
        int r = cg_keyed(text, rows[i].key, &value);

        if (r != rows[i].code || (r == 0 && value != rows[i].want))
            tap_fail("%s: %d, %llu", rows[i].key, r, (unsigned long long)value);
    }
}

TAP_MAIN
