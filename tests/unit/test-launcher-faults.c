/*
 * Starts that fail half way: a system call that the kernel refuses, a process killed at a stage of
 * the start, no descriptors, no space. Each says what failed, once, and leaves nothing. Filters
 * that are put on the launcher are inherited by init.
 */

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/mount.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

#include "launch/sandbox.h"
#include "launcher-lab.h"
#include "policy/host-rootfs.h"
#include "proto/syscalls.h"

static struct lab lab = {.sock = FD_NONE};
static struct lab_run run; /* large */

/* ---- one system call answers otherwise ---- */

enum { NO_ARG = 6 };

struct fault {
    long nr;
    unsigned arg; /* only when the low half of this argument is `value`; NO_ARG = always */
    uint32_t value;
    uint32_t action;
    int code;
    const char *text;
};

static const struct fault *fault;

static void install_fault(void)
{
    const bool any = fault->arg == NO_ARG;
    const size_t arg =
        offsetof(struct seccomp_data, args) + sizeof(uint64_t) * (any ? 0 : fault->arg);
    struct sock_filter insns[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)fault->nr, (uint8_t)(any ? 2 : 0), 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)arg),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, fault->value, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, fault->action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog prog = {.len = sizeof(insns) / sizeof(insns[0]), .filter = insns};

    if (sys_seccomp_filter(0, &prog) < 0)
        _exit(99);
}

#define FAIL(e) (SECCOMP_RET_ERRNO | (e))
#define KILL    SECCOMP_RET_KILL_PROCESS

/* clang-format off */
static const struct fault faults[] = {
    {SYS_flock,         NO_ARG, 0, FAIL(ENOLCK), -ENOLCK, "lock id range"},
    {SYS_mkdirat,       NO_ARG, 0, FAIL(EDQUOT), -EDQUOT, "make the directory of sandbox"},
    {SYS_socketpair,    NO_ARG, 0, FAIL(ENFILE), -ENFILE, "control socket: Too many open files in system"},
    {SYS_clone3,        NO_ARG, 0, FAIL(EAGAIN), -EAGAIN, "clone the sandbox's namespaces: Resource temporarily unavailable"},
    {SYS_open_tree,     NO_ARG, 0, FAIL(ENOSYS), -ENOSYS, "clone the mount of "},
    {SYS_mount_setattr, NO_ARG, 0, FAIL(ENOSYS), -ENOSYS, "set attributes of the mount of "},
    {SYS_mount_setattr, NO_ARG, 0, FAIL(EINVAL), -EOPNOTSUPP, "its file system does not support id-mapped mounts"},
    {SYS_fsopen,        NO_ARG, 0, FAIL(ENOSYS), -ENOSYS, "mount the root overlay: Function not implemented"},
    {SYS_fsmount,       NO_ARG, 0, FAIL(EPERM),  -EPERM,  "mount the root overlay: Operation not permitted"},
    {SYS_mknodat,       NO_ARG, 0, FAIL(EPERM),  -EPERM,  "fill /dev: Operation not permitted"},
    {SYS_symlinkat,     NO_ARG, 0, FAIL(ENOSPC), -ENOSPC, "fill /dev: No space left on device"},
    {SYS_memfd_create,  NO_ARG, 0, FAIL(ENOMEM), -ENOMEM, "set-up plan: Cannot allocate memory"},
    {SYS_execveat,      NO_ARG, 0, FAIL(EACCES), -ECHILD, "start sandbox: died during 'read the set-up plan' with exit status 1"},
    {SYS_setgroups,     NO_ARG, 0, FAIL(EPERM),  -ECHILD, "died during 'read the set-up plan' with exit status 1"},
    {SYS_mount,         NO_ARG, 0, FAIL(EPERM),  -EPERM,  "start sandbox: make mounts private: Operation not permitted"},
    {SYS_unshare, 0, CLONE_NEWCGROUP, FAIL(EPERM), -EPERM, "start sandbox: unshare the cgroup namespace: Operation not permitted"},
    {SYS_ioctl,   1, 0x8914 /* SIOCSIFFLAGS */, FAIL(EPERM), -EPERM, "start sandbox: bring the loopback interface up: Operation not permitted"},
    {SYS_sethostname,   NO_ARG, 0, FAIL(EPERM),  -EPERM,  "start sandbox: set the host name: Operation not permitted"},
    {SYS_pidfd_open,    NO_ARG, 0, FAIL(EMFILE), -EMFILE, "start sandbox: clone the inner pid namespace: Too many open files"},
    {SYS_move_mount,    NO_ARG, 0, FAIL(EBUSY),  -EBUSY,  "start sandbox: attach the root: Device or resource busy"},
    {SYS_pivot_root,    NO_ARG, 0, FAIL(EINVAL), -EINVAL, "start sandbox: change the root: Invalid argument"},
    {SYS_umount2,       NO_ARG, 0, FAIL(EBUSY),  -EBUSY,  "start sandbox: change the root: Device or resource busy"},
    {SYS_setns,   1, CLONE_NEWPID, FAIL(EPERM), -EPERM, "start sandbox: enter the inner pid namespace: Operation not permitted"},
    {SYS_setns,   1, CLONE_NEWUSER | CLONE_NEWNS, FAIL(EPERM), -EPERM, "start sandbox: lock the inner process's namespaces: Operation not permitted"},
    {SYS_unshare, 0, CLONE_NEWUSER | CLONE_NEWNS, FAIL(ENOSPC), -ENOSPC, "start sandbox: unshare the locked user and mount namespace: No space left on device"},
    {SYS_seccomp,       NO_ARG, 0, FAIL(EINVAL), -EINVAL, "start sandbox: install the seccomp floor: Invalid argument"},
    {SYS_signalfd4,     NO_ARG, 0, FAIL(ENOMEM), -ENOMEM, "start sandbox: become ready: Cannot allocate memory"},

    /* killed while it is at a stage */
    {SYS_execveat,      NO_ARG, 0, KILL, -ECHILD, "start sandbox: killed by signal 31 during 'read the set-up plan'"},
    {SYS_mount,         NO_ARG, 0, KILL, -ECHILD, "killed by signal 31 during 'make mounts private'"},
    {SYS_unshare, 0, CLONE_NEWCGROUP, KILL, -ECHILD, "killed by signal 31 during 'make mounts private'"},
    {SYS_ioctl,   1, 0x8914, KILL, -ECHILD, "killed by signal 31 during 'make mounts private'"},
    {SYS_sethostname,   NO_ARG, 0, KILL, -ECHILD, "killed by signal 31 during 'make mounts private'"},
    {SYS_pidfd_open,    NO_ARG, 0, KILL, -ECHILD, "killed by signal 31 during 'clone the inner pid namespace'"},
    {SYS_move_mount,    NO_ARG, 0, KILL, -ECHILD, "killed by signal 31 during 'mount'"},
    {SYS_pivot_root,    NO_ARG, 0, KILL, -ECHILD, "killed by signal 31 during 'change the root'"},
    {SYS_setns,   1, CLONE_NEWPID, KILL, -ECHILD, "killed by signal 31 during 'change the root'"},
    {SYS_unshare, 0, CLONE_NEWUSER | CLONE_NEWNS, KILL, -ECHILD, "killed by signal 31 during 'unshare the locked user and mount namespace'"},
    {SYS_seccomp,       NO_ARG, 0, KILL, -ECHILD, "killed by signal 31 during 'make mounts private'"},
    {SYS_signalfd4,     NO_ARG, 0, KILL, -ECHILD, "killed by signal 31 during 'lock the inner process's namespaces'"},
};
/* clang-format on */

static void ask_start(struct lab_answer *a)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);

    honest_begin(&b, lab.id, lab.layers, 0);
    lab_ask(&lab, &b, a);
}

TEST(each_refused_call_and_each_death)
{
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        fault = &faults[i];
        lab.inside = install_fault;
        lab_start(&lab);
        for (int round = 0; round < 2; round++) {
            struct lab_answer a;

            ask_start(&a);
            if (a.reply.code != fault->code || strstr(a.reply.message, fault->text) == NULL)
                tap_fail("row %zu: %d \"%s\", want %d \"%s\"", i, a.reply.code, a.reply.message,
                         fault->code, fault->text);
            if (a.reply.code == 0)
                lab_finish(&lab, &a);
            lab_answer_done(&a);
            if (round == 0) {
                lab.fds = (int)lab_open_fds(&lab);
                lab.mounts = lab_mount_count(&lab);
            }
        }
        /* Without locks no range can be given back; the next launcher's sweep does it. */
        if (fault->nr != SYS_flock)
            lab_check(&lab);
        CHECK_INT(lab_end(&lab), 0);
    }
    lab.inside = NULL;
}

/* ---- the fallback for kernels before 6.13 ---- */

TEST(overlay_by_names)
{
    static const struct fault no_fd = {SYS_fsconfig, 1, FSCONFIG_SET_FD, FAIL(EINVAL), 0, ""};
    struct lab_answer a;

    fault = &no_fd;
    lab.inside = install_fault;
    lab_start(&lab);
    for (int round = 0; round < 3; round++) {
        char sh[] = "sh", c[] = "-c", name[64], theirs[64], ours[64];
        char script[] = "cat /proc/self/mountinfo; echo kept >/new; cat /new; ls /bin | head -1";
        char *const argv[] = {sh, c, script, NULL};
        struct stat here, there;
        ssize_t n, m;

        ask_start(&a);
        if (a.reply.code != 0) {
            tap_fail("%s", a.reply.message);
            lab_answer_done(&a);
            break;
        }
        lab_run(a.fds[1], FD_NONE, "", argv, false, &run);
        CHECK(strstr(run.output, " / / rw,nodev") != NULL);
        CHECK(strstr(run.output, "kept\n") != NULL);
        CHECK(strstr(run.output, lab.top) == NULL);
        /* The launcher is back where it was. */
        (void)snprintf(name, sizeof(name), "/proc/%d/ns/mnt", (int)lab.pid);
        n = readlink(name, theirs, sizeof(theirs));
        m = readlink("/proc/self/ns/mnt", ours, sizeof(ours));
        CHECK(n > 0 && n == m && memcmp(theirs, ours, (size_t)n) == 0);
        (void)snprintf(name, sizeof(name), "/proc/%d/cwd", (int)lab.pid);
        CHECK(stat(name, &there) == 0 && stat(".", &here) == 0 && there.st_ino == here.st_ino);
        lab_finish(&lab, &a);
        lab_answer_done(&a);
        if (round == 0) {
            lab.fds = (int)lab_open_fds(&lab);
            lab.mounts = lab_mount_count(&lab);
        }
    }
    lab_check(&lab);
    CHECK_INT(lab_end(&lab), 0);
    lab.inside = NULL;
}

/* The same with the root file system `host`: two overlays, the lower one as nobody. */
TEST(host_by_names)
{
    static const struct fault no_fd = {SYS_fsconfig, 1, FSCONFIG_SET_FD, FAIL(EINVAL), 0, ""};
    static char usr[] = "/usr", bin[] = "/bin", lib[] = "/lib", lib64[] = "/lib64", shared[128];
    char *trees[] = {usr, bin, lib, lib64, shared, NULL}, *none[] = {NULL};
    const struct host_rootfs host = {.trees = trees, .hidden = none, .files = none};
    static const struct fault *const kinds[] = {NULL, &no_fd};
    char closed[160];
    int fd;

    (void)snprintf(shared, sizeof(shared), "%s/shared", lab.top);
    (void)snprintf(closed, sizeof(closed), "%s/closed", shared);
    if (mkdir(shared, 0755) < 0)
        lab_die("mkdir");
    fd = open(closed, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK_INT(write(fd, "secret\n", 7), 7);
    (void)close(fd);
    lab.host = &host;
    for (size_t i = 0; i < 2; i++) {
        char sh[] = "sh", c[] = "-c", script[400];
        char *const argv[] = {sh, c, script, NULL};
        auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
        struct lab_answer a;

        (void)snprintf(script, sizeof(script),
                       "echo kept >/usr/new; cat /usr/new; cat %s; echo $?; ls -d /etc/passwd "
                       "/etc/shadow; grep ' / / ' /proc/self/mountinfo",
                       closed);
        fault = kinds[i];
        lab.inside = fault != NULL ? install_fault : NULL;
        lab_start(&lab);
        honest_begin(&b, lab.id, lab.layers + 1, WITHOUT_FLAGS);
        launch_put_number(&b, TAG_FLAGS, LAUNCH_ATTACHED | LAUNCH_HOST_ROOT);
        lab_ask(&lab, &b, &a);
        if (a.reply.code != 0)
            tap_fail("%zu: %s", i, a.reply.message);
        else
            lab_run(a.fds[1], FD_NONE, "", argv, false, &run);
        if (strncmp(run.output, "kept\n", 5) != 0 || strstr(run.output, "secret") != NULL ||
            strstr(run.output, "\n1\n/etc/passwd\n") == NULL ||
            strstr(run.output, " / / rw,nosuid,nodev") == NULL)
            tap_fail("%zu: %s", i, run.output);
        if (a.reply.code == 0)
            lab_finish(&lab, &a);
        lab_answer_done(&a);
        lab.fds = (int)lab_open_fds(&lab);
        lab.mounts = lab_mount_count(&lab);
        lab_check(&lab);
        CHECK_INT(lab_end(&lab), 0);
    }
    lab.inside = NULL;
    lab.host = NULL;
}

/* A launcher that has none, a request for two roots, and a /usr of its own. */
TEST(host_refused)
{
    static char usr[] = "/usr", dir[] = "/usr/lib/python3";
    char *trees[] = {usr, NULL}, *none[] = {NULL};
    const struct host_rootfs host = {.trees = trees, .hidden = none, .files = none};
    /* clang-format off */
    static const struct { bool has, mounted, both; int code; const char *text; } rows[] = {
        {false, false, false, -EPERM,  "this launcher shows nothing of the host"},
        {true,  true,  false, -EXDEV,  "root file system host: '/usr' is a mount of its own"},
        {true,  false, true,  -EINVAL, "both a root directory and the host's"},
    };
    /* clang-format on */

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
        struct lab_answer a;

        if (rows[i].mounted && mount(usr, usr, NULL, MS_BIND, NULL) < 0)
            lab_die("mount");
        lab.host = rows[i].has ? &host : NULL;
        lab_start(&lab);
        honest_begin(&b, lab.id, lab.layers + 1, WITHOUT_FLAGS);
        launch_put_number(&b, TAG_FLAGS, LAUNCH_ATTACHED | LAUNCH_HOST_ROOT);
        if (rows[i].both)
            launch_put_string(&b, TAG_ROOT_DIR, dir);
        lab_ask(&lab, &b, &a);
        CHECK_INT(a.reply.code, rows[i].code);
        if (strstr(a.reply.message, rows[i].text) == NULL)
            tap_fail("row %zu: %s", i, a.reply.message);
        lab_answer_done(&a);
        lab.fds = (int)lab_open_fds(&lab);
        lab.mounts = lab_mount_count(&lab);
        lab_check(&lab);
        CHECK_INT(lab_end(&lab), 0);
        if (rows[i].mounted)
            CHECK_INT(umount2(usr, MNT_DETACH), 0);
    }
    lab.host = NULL;
}

/* ---- resources ---- */

static unsigned spare_fds;

static void limit_fds(void)
{
    const size_t open_now = lab_entries("/proc/self/fd") - 1;
    struct rlimit limit = {.rlim_cur = open_now + spare_fds, .rlim_max = open_now + spare_fds};

    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        _exit(99);
}

TEST(few_descriptors)
{
    unsigned worked = 0;

    lab.inside = limit_fds;
    for (spare_fds = 1; spare_fds < 40; spare_fds++) {
        struct lab_answer a;

        lab_start(&lab);
        ask_start(&a);
        /* Without one for the request itself it sees none. */
        if (a.reply.code < 0 && a.reply.message[0] == '\0')
            tap_fail("%u: %d without a word", spare_fds, a.reply.code);
        worked += a.reply.code == 0;
        if (a.reply.code == 0)
            lab_finish(&lab, &a);
        lab_answer_done(&a);
        CHECK_INT(lab_end(&lab), 0);
        lab_check_clean(&lab);
    }
    CHECK(worked > 0);
    lab.inside = NULL;
}

/* Who made it cannot be read: the start fails, and the files that somebody wants back are there. */
TEST(a_kept_sandbox_whose_maker_cannot_be_read)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    char path[300], left[64] = "";
    char sh[] = "sh", c[] = "-c", script[] = "echo precious >/file";
    char *const argv[] = {sh, c, script, NULL};
    struct lab_answer a;
    int fd;

    lab_start(&lab);
    honest_begin(&b, lab.id, lab.layers, WITHOUT_FLAGS);
    launch_put_number(&b, TAG_FLAGS, LAUNCH_KEEP);
    lab_ask(&lab, &b, &a);
    CHECK_INT(a.reply.code, 0);
    lab_run(a.fds[1], FD_NONE, "", argv, false, &run);
    lab_answer_done(&a);
    lab_kill(&lab);
    lab_stop(&lab);
    lab.fds = (int)lab_open_fds(&lab);
    lab.mounts = lab_mount_count(&lab);

    (void)snprintf(path, sizeof(path), "%s/sandboxes/%s/" KEEP_FILE, lab.state, lab.id);
    fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    CHECK_INT(write(fd, "clie", 4), 4);
    (void)close(fd);
    honest_begin(&b, lab.id, lab.layers, WITHOUT_FLAGS);
    launch_put_number(&b, TAG_FLAGS, LAUNCH_KEEP);
    lab_ask(&lab, &b, &a);
    CHECK_INT(a.reply.code, -EUCLEAN);
    lab_answer_done(&a);

    (void)snprintf(path, sizeof(path), "%s/sandboxes/%s/upper/file", lab.state, lab.id);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK_INT(read(fd, left, sizeof(left) - 1), 9);
    CHECK_STR(left, "precious\n");
    (void)close(fd);
    LAB_VERB(&lab, LAUNCH_RELEASE, lab.id, 0, "");
    lab_check(&lab);
    CHECK_INT(lab_end(&lab), 0);
}

/* The state directory on a file system of its own, in our own mount namespace. */
static void own_state(const char *options)
{
    if (mount("rind-test", lab.state, "tmpfs", 0, options) < 0)
        lab_die("mount");
    lab_layers(&lab);
}

TEST(no_space)
{
    unsigned worked = 0, failed = 0;
    struct statvfs now;

    own_state("size=64m,mode=0700");
    lab_start(&lab); /* makes its directories */
    CHECK_INT(lab_end(&lab), 0);
    CHECK_INT(statvfs(lab.state, &now), 0);
    for (unsigned long spare = 0; spare < 12; spare++) {
        struct lab_answer a;
        char options[64];

        (void)snprintf(options, sizeof(options), "nr_inodes=%lu",
                       (unsigned long)(now.f_files - now.f_ffree) + spare);
        if (mount(NULL, lab.state, NULL, MS_REMOUNT, options) < 0)
            lab_die("remount");
        lab_start(&lab);
        ask_start(&a);
        failed += a.reply.code < 0;
        if (a.reply.code < 0 && (a.reply.code != -ENOSPC || a.reply.message[0] == '\0'))
            tap_fail("%lu inodes: %d \"%s\"", spare, a.reply.code, a.reply.message);
        worked += a.reply.code == 0;
        if (a.reply.code == 0)
            lab_finish(&lab, &a);
        lab_answer_done(&a);
        CHECK_INT(lab_end(&lab), 0);
        lab_check_clean(&lab);
    }
    CHECK(worked > 0);
    CHECK(failed > 0);
    CHECK_INT(umount2(lab.state, MNT_DETACH), 0);
}

TEST(read_only_state)
{
    struct lab_answer a;

    own_state("size=64m,mode=0700");
    lab_start(&lab);
    CHECK_INT(lab_end(&lab), 0);
    if (mount(NULL, lab.state, NULL, MS_REMOUNT | MS_RDONLY, "size=64m,mode=0700") < 0)
        lab_die("remount");
    lab_start(&lab);
    ask_start(&a);
    CHECK_INT(a.reply.code, -EROFS);
    if (strstr(a.reply.message, "make the directory of sandbox") == NULL)
        tap_fail("%s", a.reply.message);
    lab_answer_done(&a);
    CHECK_INT(lab_end(&lab), 0);
    lab_check_clean(&lab);
    CHECK_INT(umount2(lab.state, MNT_DETACH), 0);
}

/* Directories that somebody else could have put there, or can write to. */
TEST(directories_that_are_not_ours)
{
    static const char *const names[] = {"", "/layers", "/sandboxes"};

    for (size_t i = 0; i < 2 * sizeof(names) / sizeof(names[0]); i++) {
        struct launcher_config config = {.state_dir = lab.state,
                                         .ids_dir = lab.ids,
                                         .bind_prefixes = lab.prefixes,
                                         .init_image = embed_init().data,
                                         .init_size = embed_init().len};
        struct launcher *l = NULL;
        struct err err = ERR_NONE;
        char path[128];

        (void)snprintf(path, sizeof(path), "%s%s", lab.state, names[i / 2]);
        if (i % 2 == 0 ? chown(path, 1, 1) < 0 : chmod(path, 0777) < 0)
            lab_die(path);
        CHECK_INT(launcher_open(&config, &l, &err), -EPERM);
        CHECK(strstr(err.msg, "must be owned by uid 0 and not writable by others") != NULL);
        launcher_free(l);
        if (chown(path, 0, 0) < 0 || chmod(path, 0700) < 0)
            lab_die(path);
    }
}

TEST(directories_are_made_with_their_parents)
{
    struct launcher_config config = {.bind_prefixes = lab.prefixes,
                                     .init_image = embed_init().data,
                                     .init_size = embed_init().len};
    struct launcher *l = NULL;
    struct err err = ERR_NONE;
    char state[160], ids[160];
    struct stat st;

    (void)snprintf(state, sizeof(state), "%s/new/deep/state", lab.top);
    (void)snprintf(ids, sizeof(ids), "%s/new/other/ids", lab.top);
    config.state_dir = state;
    config.ids_dir = ids;
    if (launcher_open(&config, &l, &err) < 0)
        tap_fail("%s", err.msg);
    launcher_free(l);
    CHECK(stat(ids, &st) == 0 && (st.st_mode & 07777) == 0700);
}

int main(void)
{
    int r;

    if (geteuid() != 0) {
        printf("ok 1 - faults # SKIP needs root\n1..1\n");
        return 0;
    }
    lab_dirs(&lab);
    lab_layers(&lab);
    r = tap_run();
    lab_remove(&lab);
    return r;
}
