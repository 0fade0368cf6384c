/* The floor: A and B, the two processes inside. See floor.c. */

#include <grp.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "floor.h"

/* glibc's <sys/mount.h> and <linux/mount.h> cannot be included together before glibc 2.37. */
int mount(const char *source, const char *target, const char *type, unsigned long flags,
          const void *data);
int umount2(const char *target, int flags);
enum { UMOUNT_DETACH = 2 };

/* ---- B: the inner PID 1 -----------------------------------------------------------------------
 */

struct sandbox {
    int launcher; /* A's end of the socket to L */
    int inner[2]; /* A's end, B's end */
    int root;     /* the overlay, as a mount fd */
    int proc_a;   /* /proc/<A> of the host */
    int pidfd_a, pidfd_b;
};

/* Second maps, by B: it is in the first user namespace, A already in the second. */
static void map_second(const struct sandbox *s)
{
    poke(s->proc_a, "uid_map", "0 0 65536");
    poke(s->proc_a, "gid_map", "0 0 65536");
    step(B_MAPS);
    MUST(setns(s->pidfd_a, CLONE_NEWUSER | CLONE_NEWNS));
    MUST(setresgid(0, 0, 0));
    MUST(setresuid(0, 0, 0));
    step(B_SETNS);
}

__attribute__((noreturn)) static void inner_main(struct sandbox *s)
{
    char *argv[] = {(char *)(uintptr_t)opt.command, NULL}, *envp[] = {NULL};

    step_begin();
    tree_put(fs_mount(fs_new("proc"), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC),
             s->root, "proc");
    step(B_PROC);
    tell(s->inner[1]);
    (void)heed(s->inner[1]);
    step_begin();
    if (opt.on[FEAT_LOCK])
        map_second(s);
    tell(s->inner[1]);
    (void)heed(s->inner[1]);
    step_begin();
    MUST(syscall(SYS_close_range, 3, ~0U, CLOSE_RANGE_CLOEXEC));
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    if (opt.on[FEAT_SECCOMP] && opt.filter.len > 0)
        MUST(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &opt.filter));
    step(B_SECCOMP);
    MUST(execve(opt.command, argv, envp));
    _exit(127);
}

/* ---- A: the later init ------------------------------------------------------------------------
 */

static const char *const counters[] = {
    "max_user_namespaces",   "max_mnt_namespaces",  "max_pid_namespaces",    "max_net_namespaces",
    "max_ipc_namespaces",    "max_uts_namespaces",  "max_cgroup_namespaces", "max_time_namespaces",
    "max_inotify_instances", "max_inotify_watches", "max_fanotify_groups",   "max_fanotify_marks",
};

static void set_counters(void)
{
    int dir = MUST(openat(host.proc, "sys/user", O_PATH | O_DIRECTORY | O_CLOEXEC));

    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
        poke(dir, counters[i], "1000");
    (void)close(dir);
}

static void make_dev(int root)
{
    if (opt.dev_shared) {
        int tree = tree_clone(host.dev, "");
        tree_attr(tree, MOUNT_ATTR_RDONLY, 0);
        tree_put(tree, root, "dev");
        step(A_DEV);
        return;
    }
    int dev = tmpfs_new("65536", "755", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    int keep = MUST(fcntl(dev, F_DUPFD_CLOEXEC, FD_FREE));
    tree_put(dev, root, "dev");
    step(A_DEV);
    make_dev_links(keep);
    for (size_t i = 0; i < NODES; i++) {
        char path[64];
        (void)snprintf(path, sizeof(path), "/dev/%s", nodes[i].name);
        (void)close(MUST(openat(keep, nodes[i].name, O_CREAT | O_WRONLY | O_CLOEXEC, 0666)));
        tree_put(tree_clone(AT_FDCWD, path), keep, nodes[i].name);
    }
    (void)close(keep);
    step(A_NODES);
}

static void make_below_dev(int root)
{
    int fs;

    if (opt.on[FEAT_DEVPTS]) {
        fs = fs_new("devpts");
        fs_set(fs, "ptmxmode", "0666");
        fs_set(fs, "mode", "0620");
        fs_set(fs, "gid", "5");
        tree_put(fs_mount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC), root, "dev/pts");
        step(A_DEVPTS);
    }
    if (opt.on[FEAT_SHM]) {
        tree_put(tmpfs_new("64m", "1777", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC),
                 root, "dev/shm");
        step(A_SHM);
    }
    if (opt.on[FEAT_MQUEUE]) {
        tree_put(
            fs_mount(fs_new("mqueue"), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC),
            root, "dev/mqueue");
        step(A_MQUEUE);
    }
}

/*
 * Puts one tree on many places: the first gets it, the others a clone. A detached tree that is
 * closed without having been put anywhere costs an RCU grace period, so none is left over.
 */
struct stamp {
    int tree; /* -1 before the first use */
    bool used;
};

static void stamp_put(struct stamp *s, int at)
{
    int tree = s->used ? tree_clone(s->tree, "") : MUST(fcntl(s->tree, F_DUPFD_CLOEXEC, FD_FREE));

    s->used = true;
    tree_put_on(tree, at);
}

static int null_read_only(void)
{
    int tree = tree_clone(AT_FDCWD, "/dev/null");

    tree_attr(tree, MOUNT_ATTR_RDONLY, 0);
    return tree;
}

/* One masked path; what this kernel does not have needs no mask. */
static void mask(int root, const char *path, struct stamp *null, struct stamp *empty)
{
    int at = open_beneath(root, path + 1);
    struct stat st;

    if (at < 0)
        return;
    MUST(fstat(at, &st));
    bool dir = S_ISDIR(st.st_mode);
    struct stamp fresh = {.tree = -1}, *s = !dir ? null : opt.mask_shared ? empty : &fresh;
    if (s->tree < 0)
        s->tree = !dir ? null_read_only()
                       : tmpfs_new("4096", "755",
                                   MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    stamp_put(s, at);
    if (s == &fresh)
        (void)close(fresh.tree);
}

static void mask_all(int root)
{
    struct stamp null = {.tree = -1}, empty = {.tree = -1};

    for (unsigned i = 0; i < opt.masked_count; i++)
        mask(root, opt.masked[i], &null, &empty);
    if (null.tree >= 0)
        (void)close(null.tree);
    if (empty.tree >= 0)
        (void)close(empty.tree);
    step(A_MASKS);
}

static void read_only(int root, const char *path)
{
    int at = open_beneath(root, path + 1), tree;

    if (at < 0)
        return;
    tree = tree_clone(at, "");
    tree_attr(tree, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
              0);
    tree_put_on(tree, at);
}

static void lo_up(void)
{
    struct ifreq req = {.ifr_flags = IFF_UP};
    int s = MUST(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));

    memcpy(req.ifr_name, "lo", sizeof("lo"));
    MUST(ioctl(s, SIOCSIFFLAGS, &req));
    (void)close(s);
}

/*
 * The way that works on every kernel since 5.15: lowers attached to names in the sandbox's
 * directory, which is A's working directory, and short relative names.
 */
static int overlay_from_paths(const int *lowers)
{
    char lowerdir[LAYERS_MAX * 4 + 1] = "";
    int fs;

    for (unsigned i = 0; i < opt.layer_count; i++) {
        char name[LAYER_NAME];
        layer_name(name, i);
        MUST(syscall(SYS_move_mount, lowers[i], "", AT_FDCWD, name, MOVE_MOUNT_F_EMPTY_PATH));
        (void)snprintf(lowerdir + strlen(lowerdir), sizeof(lowerdir) - strlen(lowerdir), "%s%s",
                       i > 0 ? ":" : "", name);
    }
    step(A_ATTACH);
    fs = fs_new("overlay");
    fs_set(fs, "lowerdir", lowerdir);
    fs_set(fs, "upperdir", "upper");
    fs_set(fs, "workdir", "work");
    /* Without it each mount in a user namespace tries trusted.* first, and logs four lines. */
    MUST(syscall(SYS_fsconfig, fs, FSCONFIG_SET_FLAG, "userxattr", NULL, 0));
    if (opt.is_volatile)
        MUST(syscall(SYS_fsconfig, fs, FSCONFIG_SET_FLAG, "volatile", NULL, 0));
    return fs_mount(fs, MOUNT_ATTR_NODEV);
}

/* The root, attached over A's old root and A's working directory. */
static int make_root(int launcher)
{
    int fds[LAYERS_MAX], root;
    unsigned count = opt.overlay_by == BY_LAUNCHER ? 1 : opt.layer_count;

    receive_fds(launcher, fds, count);
    step(A_FDS);
    root = fds[0];
    if (opt.overlay_by == BY_PATHS) {
        root = overlay_from_paths(fds);
        for (unsigned i = 0; i < count; i++)
            (void)close(fds[i]);
    }
    MUST(syscall(SYS_move_mount, root, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH));
    MUST(fchdir(root));
    step(A_OVERLAY);
    return root;
}

static void become_root(void)
{
    MUST(setgroups(0, NULL));
    MUST(setresgid(0, 0, 0));
    MUST(setresuid(0, 0, 0));
    MUST(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)); /* B opens our uid_map; nobody hostile is here yet */
}

static pid_t start_inner(struct sandbox *s)
{
    struct clone_args args = {.flags = CLONE_NEWPID | CLONE_PIDFD,
                              .exit_signal = SIGCHLD,
                              .pidfd = (uintptr_t)&s->pidfd_b};

    s->proc_a = MUST(openat(host.proc, "self", O_PATH | O_DIRECTORY | O_CLOEXEC));
    s->pidfd_a = MUST(syscall(SYS_pidfd_open, getpid(), 0));
    MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s->inner));
    pid_t pid = MUST(syscall(SYS_clone3, &args, sizeof(args)));
    if (pid == 0)
        inner_main(s);
    step(A_CLONE);
    return pid;
}

static void make_tree(struct sandbox *s)
{
    if (opt.on[FEAT_SYSFS]) {
        tree_put(fs_mount(fs_new("sysfs"), MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
                                               MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC),
                 s->root, "sys");
        step(A_SYSFS);
    }
    if (opt.on[FEAT_DEV]) {
        make_dev(s->root);
        make_below_dev(s->root);
    }
    if (opt.on[FEAT_UTS])
        MUST(sethostname("sandbox", 7));
    for (int i = 0; i < RLIM_NLIMITS; i++) {
        struct rlimit r;
        MUST(getrlimit((__rlimit_resource_t)i, &r));
        MUST(setrlimit((__rlimit_resource_t)i, &r));
    }
    step(A_HOSTNAME);
    if (opt.on[FEAT_NET] && opt.on[FEAT_LO]) {
        lo_up();
        step(A_LO);
    }
    (void)heed(s->inner[0]);
    step(A_WAIT_PROC);
    if (opt.on[FEAT_MASKS]) {
        mask_all(s->root);
        for (unsigned i = 0; i < opt.read_only_count; i++)
            read_only(s->root, opt.read_only[i]);
        step(A_READ_ONLY);
    }
}

static void enter_root(struct sandbox *s)
{
    MUST(setns(s->pidfd_b, CLONE_NEWPID));
    step(A_SETNS);
    MUST(syscall(SYS_pivot_root, ".", "."));
    step(A_PIVOT);
    MUST(umount2(".", UMOUNT_DETACH));
    MUST(chdir("/"));
    step(A_UMOUNT);
    if (opt.on[FEAT_LOCK]) {
        MUST(unshare(CLONE_NEWUSER | CLONE_NEWNS));
        step(A_UNSHARE);
    }
    tell(s->inner[0]);
    (void)heed(s->inner[0]);
    if (opt.on[FEAT_LOCK]) {
        MUST(setresgid(0, 0, 0));
        MUST(setresuid(0, 0, 0));
    }
    step(A_JOIN);
}

/*
 * By the process itself and through `tasks`: the kernel then moves one thread without the lock that
 * stops every fork on the host, whose writer waits for a whole RCU grace period (10 ms and more)
 * when nobody has written to it lately.
 */
static void enter_cgroups(const int *tasks)
{
    for (int i = 0; i < CG_V1_MAX; i++)
        if (tasks[i] >= 0 && write(tasks[i], "0", 1) != 1)
            die("tasks");
    step(A_ATTACH_CG);
}

void outer_main(int launcher, const int *tasks)
{
    struct sandbox s = {.launcher = launcher};
    char *argv[] = {(char *)(uintptr_t) "init", NULL}, *envp[] = {NULL};

    step_begin();
    (void)heed(launcher);
    step(A_START);
    if (opt.attach_self)
        enter_cgroups(tasks);
    become_root();
    if (opt.on[FEAT_CGROUPNS])
        MUST(unshare(CLONE_NEWCGROUP));
    step(A_IDS);
    if (opt.on[FEAT_COUNTERS]) {
        set_counters();
        step(A_COUNTERS);
    }
    MUST(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
    step(A_PRIVATE);
    s.root = make_root(launcher);
    (void)start_inner(&s);
    make_tree(&s);
    enter_root(&s);
    /* Both above the fixed numbers first, so that neither dup2 overwrites the other. */
    launcher = MUST(fcntl(launcher, F_DUPFD, 64));
    int inner = MUST(fcntl(s.inner[0], F_DUPFD, 64)), init = MUST(fcntl(host.init, F_DUPFD, 64));
    MUST(dup2(launcher, LAUNCHER_FD));
    MUST(dup2(inner, INNER_FD));
    MUST(fcntl(init, F_SETFD, FD_CLOEXEC));
    MUST(syscall(SYS_close_range, FD_FREE, ~0U, CLOSE_RANGE_CLOEXEC));
    MUST(syscall(SYS_execveat, init, "", argv, envp, AT_EMPTY_PATH));
    _exit(127);
}
