/*
 * The floor: the kernel work of one rind sandbox (create, run a static true, remove), and nothing
 * else: no plan, no policy, no protocol, no checks of what came back. `make bench` measures rind
 * against it. It follows DESIGN section 2:
 *
 *   L  this process, in the place of the launcher: id range lock, directories, cgroups, clone3,
 * maps, idmapped lower layers, removal A  the later init: PID 1 of the outer pid namespace; builds
 * the mount tree B  the later main process: PID 1 of the inner pid namespace; mounts /proc, writes
 * A's second id map (only the first user namespace may), joins A's second namespaces, execs
 *
 * What rind does per sandbox beyond this is its overhead. A change of rind's set-up that changes
 * its kernel work must be followed here: `tests/bench/where --compare` shows both by system call.
 *
 * usage at the end of this file. FLOOR_STEPS=1 prints where the time goes.
 */

#include "floor.h"

#include <linux/sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

struct options opt = {
    .runs = 100, .command = "/bin/true", .mask_shared = true, .attach_self = true};

/* ---- L: the launcher's part -------------------------------------------------------------------
 */

struct job {
    char name[32];
    uid_t base;
    int idlock, dir, cg_v2, pidfd, sock;
    int v1[CG_V1_MAX];
    pid_t pid;
};

static void take_ids(struct job *j, unsigned run)
{
    char name[48];

    j->base = 1879048192U + IDS * (run % 4094U);
    if (!opt.on[FEAT_IDLOCK])
        return;
    (void)snprintf(name, sizeof(name), "id-%u", j->base);
    j->idlock = MUST(openat(host.state, name, O_CREAT | O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0600));
    MUST(flock(j->idlock, LOCK_EX | LOCK_NB));
    step(L_IDLOCK);
}

static void release_ids(const struct job *j)
{
    char name[48];

    if (!opt.on[FEAT_IDLOCK])
        return;
    (void)snprintf(name, sizeof(name), "id-%u", j->base);
    MUST(unlinkat(host.state, name, 0));
    (void)close(j->idlock);
    step(L_IDUNLOCK);
}

static void make_dirs(struct job *j)
{
    MUST(mkdirat(host.state, j->name, 0755));
    j->dir = MUST(openat(host.state, j->name, O_DIRECTORY | O_RDONLY | O_CLOEXEC));
    MUST(mkdirat(j->dir, "upper", 0755));
    MUST(mkdirat(j->dir, "work", 0755));
    MUST(fchownat(j->dir, "upper", j->base, j->base, 0));
    MUST(fchownat(j->dir, "work", j->base, j->base, 0));
    if (opt.overlay_by == BY_PATHS)
        for (unsigned i = 0; i < opt.layer_count; i++) {
            char name[LAYER_NAME];
            layer_name(name, i);
            MUST(mkdirat(j->dir, name, 0755));
        }
    step(L_DIRS);
}

static void remove_dirs(struct job *j)
{
    if (opt.is_volatile) {
        MUST(unlinkat(j->dir, "work/work/incompat/volatile/dirty", 0));
        MUST(unlinkat(j->dir, "work/work/incompat/volatile", AT_REMOVEDIR));
        MUST(unlinkat(j->dir, "work/work/incompat", AT_REMOVEDIR));
    }
    MUST(unlinkat(j->dir, "work/work", AT_REMOVEDIR));
    MUST(unlinkat(j->dir, "work", AT_REMOVEDIR));
    MUST(unlinkat(j->dir, "upper", AT_REMOVEDIR));
    if (opt.overlay_by == BY_PATHS)
        for (unsigned i = 0; i < opt.layer_count; i++) {
            char name[LAYER_NAME];
            layer_name(name, i);
            MUST(unlinkat(j->dir, name, AT_REMOVEDIR));
        }
    MUST(unlinkat(host.state, j->name, AT_REMOVEDIR));
    (void)close(j->dir);
    step(L_RMDIRS);
}

static void make_cgroups(struct job *j)
{
    if (!opt.on[FEAT_CGROUPS])
        return;
    for (int i = 0; i < CG_V1_MAX; i++)
        if (host.v1[i] >= 0) {
            MUST(mkdirat(host.v1[i], j->name, 0755));
            j->v1[i] = MUST(openat(host.v1[i], j->name, O_DIRECTORY | O_RDONLY | O_CLOEXEC));
        }
    if (host.v2 >= 0) {
        MUST(mkdirat(host.v2, j->name, 0755));
        j->cg_v2 = MUST(openat(host.v2, j->name, O_DIRECTORY | O_RDONLY | O_CLOEXEC));
        MUST(mkdirat(j->cg_v2, "exec", 0755));
    }
    step(L_CG_MKDIR);
}

static void limit_cgroups(struct job *j)
{
    if (!opt.on[FEAT_CGROUPS])
        return;
    if (host.v1[CG_MEMORY] >= 0) {
        poke(j->v1[CG_MEMORY], "memory.limit_in_bytes", "536870912");
        poke(j->v1[CG_MEMORY], "memory.memsw.limit_in_bytes", "536870912");
    }
    if (host.v1[CG_PIDS] >= 0)
        poke(j->v1[CG_PIDS], "pids.max", "512");
    if (host.v1[CG_CPU] >= 0)
        poke(j->v1[CG_CPU], "cpu.cfs_quota_us", "200000");
    if (host.v2_controllers) {
        poke(j->cg_v2, "memory.max", "536870912");
        poke(j->cg_v2, "memory.swap.max", "0");
        poke(j->cg_v2, "pids.max", "512");
        poke(j->cg_v2, "cpu.max", "200000 100000");
    }
    if (host.v2 >= 0) {
        MUST(fchownat(j->cg_v2, "exec", j->base, j->base, 0));
        MUST(fchownat(j->cg_v2, "exec/cgroup.procs", j->base, j->base, 0));
        MUST(fchownat(j->cg_v2, "exec/cgroup.subtree_control", j->base, j->base, 0));
    }
    step(L_CG_LIMITS);
}

static void attach_cgroups(struct job *j)
{
    char text[16];

    if (!opt.on[FEAT_CGROUPS] || opt.attach_self)
        return;
    (void)snprintf(text, sizeof(text), "%d", j->pid);
    for (int i = 0; i < CG_V1_MAX; i++)
        if (host.v1[i] >= 0)
            poke(j->v1[i], "cgroup.procs", text);
    step(L_ATTACH);
}

static void remove_job_cgroups(struct job *j)
{
    if (!opt.on[FEAT_CGROUPS])
        return;
    for (int i = 0; i < CG_V1_MAX; i++)
        if (host.v1[i] >= 0) {
            (void)close(j->v1[i]);
            MUST(unlinkat(host.v1[i], j->name, AT_REMOVEDIR));
        }
    if (host.v2 >= 0) {
        MUST(unlinkat(j->cg_v2, "exec", AT_REMOVEDIR));
        (void)close(j->cg_v2);
        MUST(unlinkat(host.v2, j->name, AT_REMOVEDIR));
    }
    step(L_CG_RMDIR);
}

static void clone_outer(struct job *j)
{
    int pair[2], tasks[CG_V1_MAX];
    struct clone_args args = {.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_PIDFD,
                              .exit_signal = SIGCHLD,
                              .pidfd = (uintptr_t)&j->pidfd};

    args.flags |= (opt.on[FEAT_NET] ? CLONE_NEWNET : 0) | (opt.on[FEAT_IPC] ? CLONE_NEWIPC : 0) |
                  (opt.on[FEAT_UTS] ? CLONE_NEWUTS : 0);
    if (opt.on[FEAT_CGROUPS] && host.v2 >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (unsigned)j->cg_v2;
    }
    for (int i = 0; i < CG_V1_MAX; i++)
        tasks[i] = opt.attach_self && j->v1[i] >= 0
                       ? MUST(openat(j->v1[i], "tasks", O_WRONLY | O_CLOEXEC))
                       : -1;
    MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
    MUST(fchdir(j->dir));
    j->pid = MUST(syscall(SYS_clone3, &args, sizeof(args)));
    if (j->pid == 0) {
        (void)close(pair[0]);
        outer_main(pair[1], tasks);
    }
    (void)close(pair[1]);
    for (int i = 0; i < CG_V1_MAX; i++)
        if (tasks[i] >= 0)
            (void)close(tasks[i]);
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
    step(L_MAPS);
}

static int overlay_by_launcher(const struct job *j, const int *lowers)
{
    int fs = fs_new("overlay"), top = tree_clone(j->dir, "");
    int upper = MUST(openat(top, "upper", O_PATH | O_CLOEXEC));
    int work = MUST(openat(top, "work", O_PATH | O_CLOEXEC));

    for (unsigned i = 0; i < opt.layer_count; i++)
        MUST(syscall(SYS_fsconfig, fs, FSCONFIG_SET_FD, "lowerdir+", NULL, lowers[i]));
    MUST(syscall(SYS_fsconfig, fs, FSCONFIG_SET_FD, "upperdir", NULL, upper));
    MUST(syscall(SYS_fsconfig, fs, FSCONFIG_SET_FD, "workdir", NULL, work));
    if (opt.is_volatile)
        MUST(syscall(SYS_fsconfig, fs, FSCONFIG_SET_FLAG, "volatile", NULL, 0));
    int root = fs_mount(fs, MOUNT_ATTR_NODEV);
    (void)close(upper);
    (void)close(work);
    (void)close(top);
    return root;
}

static void send_layers(struct job *j)
{
    int fds[LAYERS_MAX], userns, root;
    char path[48];

    (void)snprintf(path, sizeof(path), "%d/ns/user", j->pid);
    userns = MUST(openat(host.proc, path, O_RDONLY | O_CLOEXEC));
    for (unsigned i = 0; i < opt.layer_count; i++) {
        fds[i] = tree_clone(AT_FDCWD, opt.layers[i]);
        if (opt.on[FEAT_IDMAP])
            tree_attr(fds[i], MOUNT_ATTR_IDMAP | MOUNT_ATTR_NODEV, userns);
    }
    (void)close(userns);
    step(L_LOWER);
    if (opt.overlay_by == BY_LAUNCHER) {
        root = overlay_by_launcher(j, fds);
        send_fds(j->sock, &root, 1);
        (void)close(root);
    } else {
        send_fds(j->sock, fds, opt.layer_count);
    }
    for (unsigned i = 0; i < opt.layer_count; i++)
        (void)close(fds[i]);
    step(L_OVERLAY);
}

static void one_sandbox(unsigned run)
{
    struct job j = {.cg_v2 = -1, .v1 = {-1, -1, -1}};
    siginfo_t si;

    (void)snprintf(j.name, sizeof(j.name), "s%d-%u", getpid(), run);
    step_begin();
    take_ids(&j, run);
    make_dirs(&j);
    make_cgroups(&j);
    limit_cgroups(&j);
    clone_outer(&j);
    write_maps(&j);
    attach_cgroups(&j);
    tell(j.sock);
    send_layers(&j);
    (void)heed(j.sock); /* READY */
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
    remove_job_cgroups(&j);
    remove_dirs(&j);
    release_ids(&j);
}

/* ---- report -----------------------------------------------------------------------------------
 */

static void load_filter(const char *path)
{
    static struct sock_filter insns[FILTER_MAX];
    int fd = MUST(open(path, O_RDONLY | O_CLOEXEC));
    ssize_t n = read(fd, insns, sizeof(insns));

    if (n <= 0 || (size_t)n % sizeof(insns[0]) != 0)
        die("%s: not a BPF program", path);
    opt.filter =
        (struct sock_fprog){.len = (unsigned short)((size_t)n / sizeof(insns[0])), .filter = insns};
    (void)close(fd);
}

#define FEATURE_NAME(id, text) [FEAT_##id] = text,
static const char *const feature_names[FEAT_MAX] = {FEATURES(FEATURE_NAME)};

static void without(char *list)
{
    for (char *name = strtok(list, ","); name != NULL; name = strtok(NULL, ",")) {
        int i = 0;
        while (i < FEAT_MAX && strcmp(feature_names[i], name) != 0)
            i++;
        if (i == FEAT_MAX) {
            errno = EINVAL;
            die("--without %s", name);
        }
        opt.on[i] = false;
    }
}

#define FEATURE_LIST(id, text) " " text
static const char usage[] =
    "usage: floor --state DIR --init FILE --layer DIR [--layer DIR…] [option…]\n"
    "  --runs N               sandboxes, one after another (100)\n"
    "  --mask PATH            a masked path; repeat\n"
    "  --read-only PATH       a read-only path; repeat\n"
    "  --command PATH         static program without arguments, inside (/bin/true)\n"
    "  --seccomp FILE         raw BPF program, put on the main process\n"
    "  --overlay paths|launcher   who makes the overlay: A, by paths, or L, by fds\n"
    "  --volatile yes|no      without the sync of the upper's file system at the end (no)\n"
    "  --attach tasks|procs   v1 cgroups: A enters by itself, or L writes A's pid\n"
    "  --pause MS             before each sandbox, not counted (0)\n"
    "  --masks shared|tmpfs   what covers masked directories\n"
    "  --dev tmpfs|shared     a tmpfs of its own, or a read-only bind of a common one\n"
    "  --without A,B…         leave out parts:" FEATURES(
        FEATURE_LIST) "\n"
                      "prints ns per sandbox: {\"samples\":[…]}; with FLOOR_STEPS=1 a table of "
                      "steps before it\n";

static void give_up(void)
{
    fputs(usage, stderr);
    exit(2);
}

/* Two words: which one is it? */
static bool second(const char *value, const char *first_word, const char *second_word)
{
    bool is_second = strcmp(value, second_word) == 0;

    if (!is_second && strcmp(value, first_word) != 0)
        give_up();
    return is_second;
}

static void append(const char **list, unsigned *count, unsigned max, const char *value)
{
    if (*count == max)
        give_up();
    list[(*count)++] = value;
}

static void option(const char *key, char *value)
{
    if (strcmp(key, "--runs") == 0)
        opt.runs = (unsigned)strtoul(value, NULL, 10);
    else if (strcmp(key, "--state") == 0)
        opt.state = value;
    else if (strcmp(key, "--init") == 0)
        opt.init = value;
    else if (strcmp(key, "--command") == 0)
        opt.command = value;
    else if (strcmp(key, "--layer") == 0)
        append(opt.layers, &opt.layer_count, LAYERS_MAX, value);
    else if (strcmp(key, "--mask") == 0)
        append(opt.masked, &opt.masked_count, PATHS_MAX, value);
    else if (strcmp(key, "--read-only") == 0)
        append(opt.read_only, &opt.read_only_count, PATHS_MAX, value);
    else if (strcmp(key, "--seccomp") == 0)
        load_filter(value);
    else if (strcmp(key, "--without") == 0)
        without(value);
    else if (strcmp(key, "--volatile") == 0)
        opt.is_volatile = second(value, "no", "yes");
    else if (strcmp(key, "--attach") == 0)
        opt.attach_self = second(value, "procs", "tasks");
    else if (strcmp(key, "--pause") == 0)
        opt.pause_ms = (unsigned)strtoul(value, NULL, 10);
    else if (strcmp(key, "--masks") == 0)
        opt.mask_shared = second(value, "tmpfs", "shared");
    else if (strcmp(key, "--dev") == 0)
        opt.dev_shared = second(value, "tmpfs", "shared");
    else if (strcmp(key, "--overlay") == 0)
        opt.overlay_by = second(value, "paths", "launcher") ? BY_LAUNCHER : BY_PATHS;
    else
        give_up();
}

static void parse(int argc, char **argv)
{
    for (int i = 0; i < FEAT_MAX; i++)
        opt.on[i] = true;
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc)
            give_up();
        option(argv[i], argv[i + 1]);
    }
    if (opt.state == NULL || opt.init == NULL || opt.layer_count == 0 || opt.runs == 0 ||
        opt.runs > RUNS_MAX)
        give_up();
}

int main(int argc, char **argv)
{
    static int64_t total[RUNS_MAX];

    parse(argc, argv);
    if (getenv("FLOOR_STEPS") != NULL)
        steps_open();
    host_prepare();
    for (unsigned i = 0; i < opt.runs; i++) {
        if (opt.pause_ms > 0)
            (void)usleep(opt.pause_ms * 1000);
        int64_t t = clock_now();
        steps_row(i);
        one_sandbox(i);
        total[i] = clock_now() - t;
    }
    host_remove();
    steps_report();
    printf("{\"samples\":[");
    for (unsigned i = 0; i < opt.runs; i++)
        printf("%s%lld", i > 0 ? "," : "", (long long)total[i]);
    printf("]}\n");
    return 0;
}
