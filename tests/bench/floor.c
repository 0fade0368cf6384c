/*
 * The floor: the kernel work of one rind sandbox (create, run a static true, remove), and nothing
 * else: no plan, no policy, no protocol, no checks of what came back. `make bench` measures rind
 * against it. Its processes, and what each of them does:
 *
 *   L  this process, in the place of the launcher: id range lock, directories, cgroups, clone3,
 * maps, overlay of idmapped lower layers, /dev, removal A  init (floor-init.c), PID 1 of the outer
 * pid namespace; builds the mount tree B  the later main process: PID 1 of the inner pid namespace;
 * mounts /proc, writes A's second id map, joins A's second namespaces, execs
 *
 * What rind does per sandbox beyond this is its overhead. Who changes the kernel work of rind's
 * set-up changes this too: `tests/bench/where --compare` shows both by system call.
 *
 * usage at the end of this file. FLOOR_STEPS=1 prints where the time goes.
 */

#include "floor.h"

#include <grp.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "floor-cgroup.h"

enum {
    LAYERS_MAX = 8,
    INIT_MAX = 1 << 20,      /* bytes of the init program */
    FIRST_BASE = 1879048192, /* of the id ranges, as rind's */
    RANGES = 4094,
    CHILD_FD = 64, /* above what init finds at fixed numbers */
};

static struct {
    unsigned runs, pause_ms;
    const char *state;              /* where upper and work are made: where rind's would be */
    const char *layers[LAYERS_MAX]; /* top first */
    unsigned layer_count;
    const char *init;
    bool is_volatile; /* else the overlay's end syncs the whole file system of the upper: for
                         sandboxes that are kept */
    bool late;        /* net, ipc and uts are made by A while L makes the root */
    bool attach_self; /* v1 cgroups are entered by A, not written to by L */
} arg = {.runs = 100, .is_volatile = true, .attach_self = true, .late = true};

static struct {
    int state, proc, init, shared;
} host;

struct job {
    char name[32], id_name[32];
    uid_t base;
    int id_lock, dir, dir_lock, pidfd, sock;
    struct cgroups cg;
    pid_t pid;
};

/* ---- id range, directories --------------------------------------------------------------------
 */

static void take_ids(struct job *j, unsigned run)
{
    j->base = (uid_t)FIRST_BASE + (uid_t)IDS * (run % RANGES);
    (void)snprintf(j->id_name, sizeof(j->id_name), "id-%u", j->base);
    j->id_lock =
        MUST(openat(host.state, j->id_name, O_CREAT | O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0600));
    MUST(flock(j->id_lock, LOCK_EX | LOCK_NB));
    step(L_IDLOCK);
}

static void release_ids(const struct job *j)
{
    MUST(unlinkat(host.state, j->id_name, 0));
    (void)close(j->id_lock);
    step(L_IDUNLOCK);
}

static void make_dirs(struct job *j)
{
    MUST(mkdirat(host.state, j->name, 0700));
    j->dir = MUST(openat(host.state, j->name, O_DIRECTORY | O_RDONLY | O_CLOEXEC));
    j->dir_lock = MUST(openat(j->dir, "lock", O_CREAT | O_RDONLY | O_CLOEXEC, 0600));
    MUST(flock(j->dir_lock, LOCK_EX | LOCK_NB));
    MUST(mkdirat(j->dir, "upper", 0755));
    MUST(mkdirat(j->dir, "work", 0700));
    MUST(fchownat(j->dir, "upper", j->base, j->base, 0));
    step(L_DIRS);
}

static void remove_dirs(struct job *j)
{
    /* As rind does it, so that both pay for the same. */
    int work = MUST(openat(j->dir, "work", O_PATH | O_DIRECTORY | O_CLOEXEC));

    if (arg.is_volatile) {
        MUST(unlinkat(work, "work/incompat/volatile/dirty", 0));
        MUST(unlinkat(work, "work/incompat/volatile", AT_REMOVEDIR));
        MUST(unlinkat(work, "work/incompat", AT_REMOVEDIR));
    }
    MUST(unlinkat(work, "work", AT_REMOVEDIR));
    MUST(close(work));
    MUST(unlinkat(j->dir, "work", AT_REMOVEDIR));
    MUST(unlinkat(j->dir, "upper", AT_REMOVEDIR));
    MUST(unlinkat(j->dir, "lock", 0));
    MUST(unlinkat(host.state, j->name, AT_REMOVEDIR));
    (void)close(j->dir_lock);
    (void)close(j->dir);
    step(L_RMDIRS);
}

/* ---- the process ------------------------------------------------------------------------------
 */

/* A, until it is init. */
__attribute__((noreturn)) static void child_main(const struct job *j, int launcher)
{
    const char *argv[] = {"init", NULL}, *envp[] = {NULL};
    int fds[2] = {launcher, host.shared}, init;

    step_begin();
    if (arg.attach_self && shared->opt.on[FEAT_CGROUPS]) {
        cg_enter(&j->cg);
        step(A_ATTACH);
    }
    (void)heed(launcher);
    step(A_START);
    MUST(setgroups(0, NULL));
    MUST(setresgid(0, 0, 0));
    MUST(setresuid(0, 0, 0));
    /* Out of the way first, so that no dup2 overwrites what is still needed. */
    for (int i = 0; i < 2; i++)
        fds[i] = MUST(fcntl(fds[i], F_DUPFD_CLOEXEC, CHILD_FD));
    init = MUST(fcntl(host.init, F_DUPFD_CLOEXEC, CHILD_FD));
    for (int i = 0; i < 2; i++)
        MUST(dup2(fds[i], LAUNCHER_FD + i));
    MUST(syscall(SYS_close_range, SHARED_FD + 1, ~0U, CLOSE_RANGE_CLOEXEC));
    step(A_IDS);
    shared->exec_at = clock_now();
    MUST(syscall(SYS_execveat, init, "", argv, envp, AT_EMPTY_PATH));
    _exit(127);
}

static void clone_outer(struct job *j)
{
    const bool *on = shared->opt.on;
    int pair[2];
    struct clone_args args = {.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_PIDFD,
                              .exit_signal = SIGCHLD,
                              .pidfd = (uintptr_t)&j->pidfd};

    unsigned more = (on[FEAT_NET] ? CLONE_NEWNET : 0) | (on[FEAT_IPC] ? CLONE_NEWIPC : 0) |
                    (on[FEAT_UTS] ? CLONE_NEWUTS : 0);
    if (arg.late)
        shared->opt.late_namespaces = more;
    else
        args.flags |= more;
    if (j->cg.v2 >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (unsigned)j->cg.v2;
    }
    MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
    j->pid = MUST(syscall(SYS_clone3, &args, sizeof(args)));
    if (j->pid == 0) {
        (void)close(pair[0]);
        child_main(j, pair[1]);
    }
    (void)close(pair[1]);
    j->sock = pair[0];
    step(L_CLONE);
}

static void write_maps(const struct job *j)
{
    char map[48], path[48];

    (void)snprintf(map, sizeof(map), "0 %u %d", j->base, IDS);
    (void)snprintf(path, sizeof(path), "%d/uid_map", j->pid);
    poke(host.proc, path, map);
    (void)snprintf(path, sizeof(path), "%d/gid_map", j->pid);
    poke(host.proc, path, map);
    (void)snprintf(path, sizeof(path), "%d/oom_score_adj", j->pid);
    poke(host.proc, path, "0");
    step(L_MAPS);
}

/* ---- what A is given --------------------------------------------------------------------------
 */

static void make_lowers(const struct job *j, int *ret_fds)
{
    char path[48];
    int userns;

    (void)snprintf(path, sizeof(path), "%d/ns/user", j->pid);
    userns = MUST(openat(host.proc, path, O_RDONLY | O_CLOEXEC));
    for (unsigned i = 0; i < arg.layer_count; i++) {
        ret_fds[i] = tree_clone(AT_FDCWD, arg.layers[i]);
        tree_attr(ret_fds[i],
                  (shared->opt.on[FEAT_IDMAP] ? MOUNT_ATTR_IDMAP : 0) | MOUNT_ATTR_RDONLY |
                      MOUNT_ATTR_NODEV,
                  userns);
    }
    (void)close(userns);
    step(L_LOWER);
}

/* Layers by descriptor (Linux 6.13): nothing is attached anywhere. */
static int make_overlay(const struct job *j, const int *lowers)
{
    int fs = fs_new("overlay"), root;
    int upper = MUST(openat(j->dir, "upper", O_PATH | O_CLOEXEC));
    int work = MUST(openat(j->dir, "work", O_PATH | O_CLOEXEC));

    for (unsigned i = 0; i < arg.layer_count; i++)
        MUST(syscall(SYS_fsconfig, fs, FSCONFIG_SET_FD, "lowerdir+", NULL, lowers[i]));
    MUST(syscall(SYS_fsconfig, fs, FSCONFIG_SET_FD, "upperdir", NULL, upper));
    MUST(syscall(SYS_fsconfig, fs, FSCONFIG_SET_FD, "workdir", NULL, work));
    if (arg.is_volatile)
        MUST(syscall(SYS_fsconfig, fs, FSCONFIG_SET_FLAG, "volatile", NULL, 0));
    root = fs_mount(fs, MOUNT_ATTR_NODEV);
    (void)close(upper);
    (void)close(work);
    step(L_OVERLAY);
    return root;
}

static const struct {
    const char *name;
    unsigned major, minor;
} nodes[] = {
    {"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
    {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0},
};
static const char *const links[][2] = {
    {"ptmx", "pts/ptmx"},          {"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"},
    {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"},
};
static const char *const points[] = {"pts", "shm", "mqueue"};

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

/* Made by the host's root: nodes on a user namespace's own tmpfs do not open. */
static int make_dev(const struct job *j)
{
    int dev = tmpfs_new("1m", "0755", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);

    for (size_t i = 0; i < LENGTH(nodes); i++) {
        MUST(mknodat(dev, nodes[i].name, S_IFCHR | 0666, makedev(nodes[i].major, nodes[i].minor)));
        MUST(fchownat(dev, nodes[i].name, j->base, j->base, AT_SYMLINK_NOFOLLOW));
    }
    for (size_t i = 0; i < LENGTH(links); i++) {
        MUST(symlinkat(links[i][1], dev, links[i][0]));
        MUST(fchownat(dev, links[i][0], j->base, j->base, AT_SYMLINK_NOFOLLOW));
    }
    for (size_t i = 0; i < LENGTH(points); i++) {
        MUST(mkdirat(dev, points[i], 0755));
        MUST(fchownat(dev, points[i], j->base, j->base, AT_SYMLINK_NOFOLLOW));
    }
    step(L_DEV);
    return dev;
}

static void send_fds(int sock, const int fds[GO_FDS])
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * GO_FDS)] = {0};
    char byte = 'g';
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control,
                       .msg_controllen = sizeof(control)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * GO_FDS);
    (void)memcpy(CMSG_DATA(c), fds, sizeof(int) * GO_FDS);
    MUST(sendmsg(sock, &m, 0));
}

static void give(const struct job *j)
{
    int lowers[LAYERS_MAX], fds[GO_FDS];

    make_lowers(j, lowers);
    fds[0] = make_overlay(j, lowers);
    fds[1] = make_dev(j);
    send_fds(j->sock, fds);
    (void)close(fds[0]);
    (void)close(fds[1]);
    step(L_GO);
    /* The end of a detached mount waits for an RCU grace period: not before A has what it needs. */
    for (unsigned i = 0; i < arg.layer_count; i++)
        (void)close(lowers[i]);
    step(L_LOWER_END);
}

static void one_sandbox(unsigned run)
{
    struct job j = {.cg = CGROUPS_NONE};
    siginfo_t si;

    (void)snprintf(j.name, sizeof(j.name), "s%d-%u", getpid(), run);
    step_begin();
    take_ids(&j, run);
    make_dirs(&j);
    if (shared->opt.on[FEAT_CGROUPS])
        cg_make(&j.cg, j.name, j.base);
    clone_outer(&j);
    write_maps(&j);
    if (!arg.attach_self) {
        cg_attach(&j.cg, j.pid);
        step(L_ATTACH);
    }
    tell(j.sock);
    give(&j);
    (void)heed(j.sock);
    step(L_WAIT_READY);
    tell(j.sock);
    if (heed(j.sock) != 0) {
        errno = ECHILD;
        die("the command failed");
    }
    step(L_WAIT_EXIT);
    MUST(waitid(P_PIDFD, (id_t)j.pidfd, &si, WEXITED));
    (void)close(j.pidfd);
    (void)close(j.sock);
    step(L_WAIT_GONE);
    cg_remove(&j.cg, j.name);
    step(L_CG_RMDIR);
    remove_dirs(&j);
    release_ids(&j);
}

/* ---- once a run -------------------------------------------------------------------------------
 */

static int load_init(const char *path)
{
    static char buf[INIT_MAX];
    int from = MUST(open(path, O_RDONLY | O_CLOEXEC));
    int to = MUST(memfd_create("rind-init", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ssize_t n;

    while ((n = read(from, buf, sizeof(buf))) > 0)
        if (write(to, buf, (size_t)n) != n)
            die("copy of init");
    MUST(fchmod(to, 0555));
    MUST(fcntl(to, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE));
    (void)close(from);
    return to;
}

static void prepare(void)
{
    host.state = MUST(open(arg.state, O_DIRECTORY | O_RDONLY | O_CLOEXEC));
    host.proc = MUST(open("/proc", O_DIRECTORY | O_RDONLY | O_CLOEXEC));
    host.init = load_init(arg.init);
    if (shared->opt.on[FEAT_CGROUPS])
        cg_host_open();
}

static void share(void)
{
    host.shared = MUST(memfd_create("floor", MFD_CLOEXEC));
    MUST(ftruncate(host.shared, sizeof(*shared)));
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, host.shared, 0);
    if (shared == MAP_FAILED)
        die("mmap");
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void report_steps(void)
{
    static const char *const names[STEP_MAX] = {
#define STEP_NAME(id, text) [id] = text,
        STEPS(STEP_NAME)};
    static int64_t column[RUNS_MAX];
    const unsigned half = arg.runs / 2, tenth = arg.runs / 10;

    printf("%-46s %9s %9s %9s\n", "step (L launcher, A init, B main; us)", "median", "p10", "min");
    for (int s = 0; s < STEP_MAX; s++) {
        for (unsigned i = 0; i < arg.runs; i++)
            column[i] = shared->rows[i][s];
        qsort(column, arg.runs, sizeof(column[0]), by_value);
        if (column[half] > 0)
            printf("%-46s %9.1f %9.1f %9.1f\n", names[s], (double)column[half] / 1e3,
                   (double)column[tenth] / 1e3, (double)column[0] / 1e3);
    }
}

/* ---- options ----------------------------------------------------------------------------------
 */

#define FEATURE_LIST(id, text) " " text
static const char usage[] =
    "usage: floor --state DIR --init FILE --layer DIR [--layer DIR…] [option…]\n"
    "  --runs N               sandboxes, one after another (100)\n"
    "  --pause MS             before each, not counted (0)\n"
    "  --mask PATH            a masked path; repeat\n"
    "  --read-only PATH       a read-only path; repeat\n"
    "  --command PATH         static program without arguments, inside (/bin/true)\n"
    "  --filter FILE          raw BPF program for the main process\n"
    "  --init-filter FILE     the same for init\n"
    "  --volatile yes|no      without the sync of the upper's file system at the end (yes)\n"
    "  --attach tasks|procs   v1 cgroups: A enters by itself, or L writes A's pid\n"
    "  --late yes|no          net, ipc and uts are made by A, while L makes the root (yes)\n"
    "  --without A,B…         leave out parts:" FEATURES(
        FEATURE_LIST) "\n"
                      "prints ns per sandbox: {\"samples\":[…],\"cpu\":N}; with FLOOR_STEPS=1 a "
                      "table of "
                      "steps before it\n";

__attribute__((noreturn)) static void give_up(void)
{
    fputs(usage, stderr);
    exit(2);
}

static unsigned number(const char *text, unsigned max)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);

    if (*end != '\0' || n > max)
        give_up();
    return (unsigned)n;
}

/* Two words: which one is it? */
static bool second(const char *value, const char *first_word, const char *second_word)
{
    bool is_second = strcmp(value, second_word) == 0;

    if (!is_second && strcmp(value, first_word) != 0)
        give_up();
    return is_second;
}

static void add_path(char (*list)[PATH_LEN], unsigned *count, const char *path)
{
    if (*count == PATHS_MAX || strlen(path) >= PATH_LEN || path[0] != '/')
        give_up();
    (void)strcpy(list[(*count)++], path);
}

static void add_layer(const char *path)
{
    if (arg.layer_count == LAYERS_MAX)
        give_up();
    arg.layers[arg.layer_count] = realpath(path, NULL);
    if (arg.layers[arg.layer_count++] == NULL)
        die("layer %s", path);
}

static void load_filter(struct filter *f, const char *path)
{
    int fd = MUST(open(path, O_RDONLY | O_CLOEXEC));
    ssize_t n = read(fd, f->insns, sizeof(f->insns));

    if (n <= 0 || (size_t)n % sizeof(f->insns[0]) != 0)
        die("%s: not a BPF program", path);
    f->count = (uint32_t)((size_t)n / sizeof(f->insns[0]));
    (void)close(fd);
}

static void without(char *list)
{
#define FEATURE_NAME(id, text) [FEAT_##id] = text,
    static const char *const names[FEAT_MAX] = {FEATURES(FEATURE_NAME)};

    for (char *name = strtok(list, ","); name != NULL; name = strtok(NULL, ",")) {
        int i = 0;
        while (i < FEAT_MAX && strcmp(names[i], name) != 0)
            i++;
        if (i == FEAT_MAX)
            give_up();
        shared->opt.on[i] = false;
    }
}

static void option(const char *key, char *value)
{
    struct options *o = &shared->opt;

    if (strcmp(key, "--runs") == 0)
        arg.runs = number(value, RUNS_MAX);
    else if (strcmp(key, "--pause") == 0)
        arg.pause_ms = number(value, 10000);
    else if (strcmp(key, "--state") == 0)
        arg.state = value;
    else if (strcmp(key, "--init") == 0)
        arg.init = value;
    else if (strcmp(key, "--layer") == 0)
        add_layer(value);
    else if (strcmp(key, "--command") == 0 && strlen(value) < PATH_LEN)
        (void)strcpy(o->command, value);
    else if (strcmp(key, "--mask") == 0)
        add_path(o->masked, &o->masked_count, value);
    else if (strcmp(key, "--read-only") == 0)
        add_path(o->read_only, &o->read_only_count, value);
    else if (strcmp(key, "--filter") == 0)
        load_filter(&o->policy, value);
    else if (strcmp(key, "--init-filter") == 0)
        load_filter(&o->init, value);
    else if (strcmp(key, "--without") == 0)
        without(value);
    else if (strcmp(key, "--volatile") == 0)
        arg.is_volatile = second(value, "no", "yes");
    else if (strcmp(key, "--late") == 0)
        arg.late = second(value, "no", "yes");
    else if (strcmp(key, "--attach") == 0)
        arg.attach_self = second(value, "procs", "tasks");
    else
        give_up();
}

static void parse(int argc, char **argv)
{
    (void)strcpy(shared->opt.command, "/bin/true");
    for (int i = 0; i < FEAT_MAX; i++)
        shared->opt.on[i] = true;
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc)
            give_up();
        option(argv[i], argv[i + 1]);
    }
}

/* CPU time of L, A and B, which other load disturbs less than the clock's. */
static int64_t cpu_now(void)
{
    const int who[] = {RUSAGE_SELF, RUSAGE_CHILDREN};
    int64_t us = 0;

    for (size_t i = 0; i < LENGTH(who); i++) {
        struct rusage u;
        MUST(getrusage(who[i], &u));
        us += (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * INT64_C(1000000) + u.ru_utime.tv_usec +
              u.ru_stime.tv_usec;
    }
    return us * 1000;
}

int main(int argc, char **argv)
{
    static int64_t total[RUNS_MAX];
    int64_t cpu;

    share();
    parse(argc, argv);
    if (arg.state == NULL || arg.init == NULL || arg.layer_count == 0 || arg.runs == 0)
        give_up();
    shared->clock_on = getenv("FLOOR_STEPS") != NULL;
    prepare();
    cpu = cpu_now();
    for (unsigned i = 0; i < arg.runs; i++) {
        if (arg.pause_ms > 0)
            (void)usleep(arg.pause_ms * 1000);
        shared->row = i;
        int64_t t = clock_now();
        one_sandbox(i);
        total[i] = clock_now() - t;
    }
    cpu = cpu_now() - cpu;
    cg_host_remove();
    if (shared->clock_on)
        report_steps();
    printf("{\"samples\":[");
    for (unsigned i = 0; i < arg.runs; i++)
        printf("%s%lld", i > 0 ? "," : "", (long long)total[i]);
    printf("],\"cpu\":%lld}\n", (long long)(cpu / arg.runs));
    return 0;
}
