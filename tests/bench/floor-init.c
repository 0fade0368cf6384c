/*
 * The floor: A and B, the two processes inside (see floor.c). Static, as rind's init is, and
 * started from a sealed memfd: what the clone of B copies is this small program.
 */

#include <linux/sched.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "floor.h"

/* <sys/mount.h> and <linux/mount.h> cannot be included together with every libc. */
int mount(const char *source, const char *target, const char *type, unsigned long flags,
          const void *data);
int umount2(const char *target, int flags);
enum {
    UMOUNT_DETACH = 2,
    ATTR_KERNEL_FS = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC
};

struct sandbox {
    const struct options *opt;
    int inner[2]; /* A's end, B's end */
    int proc_a;   /* /proc/<A> of the host */
    int pidfd_a, pidfd_b;
};

/* ---- B: the inner PID 1 -----------------------------------------------------------------------
 */

static void put_filter(const struct filter *f)
{
    struct sock_fprog prog = {.len = (unsigned short)f->count,
                              .filter = (struct sock_filter *)(uintptr_t)f->insns};

    if (f->count > 0)
        MUST(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog));
}

/*
 * The second maps are B's to write: the kernel wants a writer in the first user namespace, and A is
 * in the second by now.
 */
static void map_and_join(const struct sandbox *s)
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
    const char *argv[] = {s->opt->command, NULL}, *envp[] = {NULL};

    step_begin();
    tree_put(fs_mount(fs_new("proc"), ATTR_KERNEL_FS), ROOT_FD, "proc");
    step(B_PROC);
    tell(s->inner[1]);
    (void)heed(s->inner[1]);
    step_begin();
    if (s->opt->on[FEAT_LOCK])
        map_and_join(s);
    tell(s->inner[1]);
    (void)heed(s->inner[1]);
    step_begin();
    MUST(syscall(SYS_close_range, 3, ~0U, 0));
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    if (s->opt->on[FEAT_SECCOMP])
        put_filter(&s->opt->policy);
    step(B_FILTER);
    MUST(syscall(SYS_execve, s->opt->command, argv, envp));
    _exit(127);
}

/* ---- A: init ----------------------------------------------------------------------------------
 */

static const char *const counters[] = {
    "max_user_namespaces",   "max_mnt_namespaces",  "max_pid_namespaces",    "max_net_namespaces",
    "max_ipc_namespaces",    "max_uts_namespaces",  "max_cgroup_namespaces", "max_time_namespaces",
    "max_inotify_instances", "max_inotify_watches", "max_fanotify_groups",   "max_fanotify_marks",
};

static void set_counters(void)
{
    int dir = MUST(open("/proc/sys/user", O_PATH | O_DIRECTORY | O_CLOEXEC));

    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
        poke(dir, counters[i], "1000");
    (void)close(dir);
    step(A_COUNTERS);
}

static void lo_up(void)
{
    struct ifreq req = {.ifr_flags = IFF_UP};
    int s = MUST(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));

    (void)memcpy(req.ifr_name, "lo", sizeof("lo"));
    MUST(ioctl(s, SIOCSIFFLAGS, &req));
    (void)close(s);
    step(A_LO);
}

/* They take the lowest free numbers: ROOT_FD and DEV_FD. */
static void receive_fds(void)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * GO_FDS)];
    char byte;
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control,
                       .msg_controllen = sizeof(control)};

    MUST(recvmsg(LAUNCHER_FD, &m, MSG_CMSG_CLOEXEC));
    if (m.msg_controllen < CMSG_LEN(sizeof(int) * GO_FDS) || fcntl(DEV_FD, F_GETFD) < 0)
        die("no descriptors");
    step(A_FDS);
}

static void prepare(const struct options *opt)
{
    MUST(mount(NULL, "/", NULL, 0x4000 /* MS_REC */ | 1 << 18 /* MS_PRIVATE */, NULL));
    if (opt->on[FEAT_CGROUPNS])
        MUST(unshare(CLONE_NEWCGROUP));
    step(A_PRIVATE);
    if (opt->late_namespaces != 0) {
        MUST(unshare((int)opt->late_namespaces));
        step(A_NAMESPACES);
    }
    if (opt->on[FEAT_NET] && opt->on[FEAT_LO])
        lo_up();
    if (opt->on[FEAT_UTS])
        MUST(sethostname("sandbox", 7));
    step(A_HOSTNAME);
    receive_fds();
    /* Over the old root: the one directory that surely exists. */
    MUST(syscall(SYS_move_mount, ROOT_FD, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH));
    MUST(fchdir(ROOT_FD));
    if (opt->on[FEAT_DEV])
        tree_put(DEV_FD, ROOT_FD, "dev");
    step(A_ROOT);
}

static void start_inner(struct sandbox *s)
{
    struct clone_args args = {.flags = CLONE_NEWPID | CLONE_PIDFD,
                              .exit_signal = SIGCHLD,
                              .pidfd = (uintptr_t)&s->pidfd_b};

    s->proc_a = MUST(open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC));
    s->pidfd_a = MUST(syscall(SYS_pidfd_open, getpid(), 0));
    MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s->inner));
    if (MUST(syscall(SYS_clone3, &args, sizeof(args))) == 0)
        inner_main(s);
    step(A_CLONE);
}

static void mount_system(const struct options *opt)
{
    int fs;

    if (opt->on[FEAT_SYSFS]) {
        tree_put(fs_mount(fs_new("sysfs"), ATTR_KERNEL_FS | MOUNT_ATTR_RDONLY), ROOT_FD, "sys");
        step(A_SYSFS);
    }
    if (opt->on[FEAT_DEV] && opt->on[FEAT_DEVPTS]) {
        fs = fs_new("devpts");
        fs_set(fs, "ptmxmode", "0666");
        fs_set(fs, "mode", "0620");
        fs_set(fs, "gid", "5");
        tree_put(fs_mount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC), ROOT_FD, "dev/pts");
        step(A_DEVPTS);
    }
    if (opt->on[FEAT_DEV] && opt->on[FEAT_SHM]) {
        tree_put(tmpfs_new("64m", "1777", ATTR_KERNEL_FS), ROOT_FD, "dev/shm");
        step(A_SHM);
    }
    if (opt->on[FEAT_DEV] && opt->on[FEAT_MQUEUE]) {
        tree_put(fs_mount(fs_new("mqueue"), ATTR_KERNEL_FS), ROOT_FD, "dev/mqueue");
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

/* What this kernel does not have needs no mask. */
static void mask(const char *path, struct stamp *null, struct stamp *empty)
{
    int at = open_beneath(ROOT_FD, path + 1);
    struct stat st;

    if (at < 0)
        return;
    MUST(fstat(at, &st));
    struct stamp *s = S_ISDIR(st.st_mode) ? empty : null;
    if (s->tree < 0)
        s->tree = s == null ? null_read_only()
                            : tmpfs_new("4096", "555", ATTR_KERNEL_FS | MOUNT_ATTR_RDONLY);
    stamp_put(s, at);
}

static void mask_all(const struct options *opt)
{
    struct stamp null = {.tree = -1}, empty = {.tree = -1};

    for (unsigned i = 0; i < opt->masked_count; i++)
        mask(opt->masked[i], &null, &empty);
    if (null.tree >= 0)
        (void)close(null.tree);
    if (empty.tree >= 0)
        (void)close(empty.tree);
    step(A_MASKS);
}

static void read_only_all(const struct options *opt)
{
    for (unsigned i = 0; i < opt->read_only_count; i++) {
        int at = open_beneath(ROOT_FD, opt->read_only[i] + 1), tree;

        if (at < 0)
            continue;
        tree = tree_clone(at, "");
        tree_attr(tree, MOUNT_ATTR_RDONLY | ATTR_KERNEL_FS, 0);
        tree_put_on(tree, at);
    }
    step(A_READ_ONLY);
}

static void enter_root(const struct sandbox *s)
{
    MUST(syscall(SYS_pivot_root, ".", "."));
    step(A_PIVOT);
    MUST(umount2(".", UMOUNT_DETACH));
    MUST(chdir("/"));
    step(A_UMOUNT);
    MUST(setns(s->pidfd_b, CLONE_NEWPID)); /* each later fork is born inside */
    step(A_SETNS);
    if (s->opt->on[FEAT_LOCK]) {
        MUST(unshare(CLONE_NEWUSER | CLONE_NEWNS));
        step(A_UNSHARE);
    }
    tell(s->inner[0]);
    (void)heed(s->inner[0]);
    if (s->opt->on[FEAT_LOCK]) {
        MUST(setresgid(0, 0, 0));
        MUST(setresuid(0, 0, 0));
    }
    step(A_JOIN);
}

/* READY; the order to start the main process; its end. */
static int serve(const struct sandbox *s)
{
    unsigned char result;
    int status;

    tell(LAUNCHER_FD);
    (void)heed(LAUNCHER_FD);
    tell(s->inner[0]);
    MUST(wait(&status));
    result = (unsigned char)(WIFEXITED(status) ? WEXITSTATUS(status) : 255);
    return write(LAUNCHER_FD, &result, 1) == 1 ? 0 : 1;
}

int main(void)
{
    struct sandbox s = {.pidfd_b = -1};

    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, SHARED_FD, 0);
    if (shared == MAP_FAILED)
        die("mmap");
    s.opt = &shared->opt;
    step_begin();
    if (shared->clock_on)
        shared->rows[shared->row][A_EXEC] = clock_now() - shared->exec_at;
    prepare(s.opt);
    start_inner(&s);
    mount_system(s.opt);
    if (s.opt->on[FEAT_COUNTERS])
        set_counters();
    (void)heed(s.inner[0]);
    step(A_WAIT_PROC);
    if (s.opt->on[FEAT_MASKS]) {
        mask_all(s.opt);
        read_only_all(s.opt);
    }
    enter_root(&s);
    MUST(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));
    put_filter(&s.opt->init);
    step(A_FILTER);
    return serve(&s);
}
