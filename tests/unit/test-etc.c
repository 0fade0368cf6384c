/*
 * What a sandbox has of its own: /dev, what masks, and the files of /etc that are mounted over an
 * image's, as this kernel makes them and as one before Linux 6.15 does, which clones no part of a
 * mount that is attached nowhere: the first open_tree is answered EINVAL (by a seccomp
 * notification), the others go on.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "launch/sandbox.h"
#include "proto/syscalls.h"
#include "tap.h"

enum { OWNER = 4711, DEADLINE_MS = 20000 };

static const char *const texts[ETC_FILES] = {"127.0.0.1\tlocalhost\n", "box\n",
                                             "nameserver 9.9.9.9\n"};

/* Room for /dev and for five files, and no more; devices open in the one mount alone, and nothing
 * can be made in the other. */
static int look_at_dirs(const struct own_mounts *own)
{
    struct statvfs dev, mask, file;
    struct stat st;
    int null;

    if (fstatvfs(own->dev, &dev) < 0 || fstatvfs(own->mask, &mask) < 0 ||
        fstatvfs(own->etc[ETC_HOSTS], &file) < 0)
        return 30;
    if (dev.f_blocks * dev.f_frsize > 1344 << 10 || dev.f_files > 1040)
        return 31;
    if ((dev.f_flag & (ST_NOSUID | ST_NODEV | ST_NOEXEC | ST_RDONLY)) != (ST_NOSUID | ST_NOEXEC) ||
        (file.f_flag & (ST_NOSUID | ST_NODEV | ST_NOEXEC | ST_RDONLY)) !=
            (ST_NOSUID | ST_NODEV | ST_NOEXEC) ||
        (mask.f_flag & (ST_NOSUID | ST_NODEV | ST_NOEXEC | ST_RDONLY)) !=
            (ST_NOSUID | ST_NODEV | ST_NOEXEC | ST_RDONLY))
        return 32;
    null = openat(own->dev, "null", O_RDWR | O_CLOEXEC);
    if (null < 0 || write(null, "x", 1) != 1)
        return 33;
    (void)close(null);
    if (fstatat(own->dev, "fuse", &st, 0) == 0 || fstat(own->dev, &st) < 0 || st.st_uid != OWNER ||
        (st.st_mode & 07777) != 0755)
        return 34;
    if (mkdirat(own->mask, "x", 0755) == 0 || errno != EROFS || fstat(own->mask, &st) < 0 ||
        st.st_uid != OWNER || (st.st_mode & 07777) != 0555)
        return 35;
    /* A part, and not the whole: what lies beside it is not above it. */
    return faccessat(own->dev, "../hosts", F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
                   faccessat(own->mask, "../dev", F_OK, AT_SYMLINK_NOFOLLOW) == 0
               ? 36
               : 0;
}

static bool file_is(int fd, const char *want)
{
    char path[32], got[128] = "";
    auto_close int file = FD_NONE;
    struct stat st;

    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    file = open(path, O_RDONLY | O_CLOEXEC);
    return file >= 0 && read(file, got, sizeof(got) - 1) >= 0 && strcmp(got, want) == 0 &&
           fstat(file, &st) == 0 && st.st_uid == OWNER && (st.st_mode & 07777) == 0644;
}

/* Mount points and links for hierarchies, and the list of processors. */
static int look_at_limits(const struct own_mounts *own)
{
    char target[64] = "";
    struct stat st;

    if (own->cgroups < 0 || own->cpus < 0 || own->cpuinfo >= 0)
        return 40;
    if (fstatat(own->cgroups, "memory", &st, 0) < 0 || !S_ISDIR(st.st_mode) ||
        fstatat(own->cgroups, "cpu,cpuacct", &st, 0) < 0 || !S_ISDIR(st.st_mode))
        return 41;
    if (readlinkat(own->cgroups, "cpu", target, sizeof(target) - 1) < 0 ||
        strcmp(target, "cpu,cpuacct") != 0 || fstatat(own->cgroups, "cpuacct", &st, 0) < 0)
        return 42;
    if (mkdirat(own->cgroups, "x", 0755) == 0 || errno != EROFS)
        return 43;
    return file_is(own->cpus, "0-1\n") ? 0 : 44;
}

/* 0, or where it went wrong. */
static int make_and_look(void)
{
    struct buf bufs[ETC_FILES];
    struct cgroup_view view = {.count = 2,
                               .parts = {{FD_NONE, "cpu,cpuacct"}, {FD_NONE, "memory"}}};
    struct buf cpus = BUF_INIT(64);
    const struct own_wants wants = {.owner = OWNER, .texts = bufs, .cgroups = &view, .cpus = &cpus};
    struct own_mounts own = {.whole = FD_NONE};
    int hosts = FD_NONE, wrong = 0;
    struct stat before, after;
    struct err err = ERR_NONE;

    for (int i = 0; i < ETC_FILES; i++) {
        bufs[i] = (struct buf)BUF_INIT(ETC_TEXT_MAX);
        if (buf_append_str(&bufs[i], texts[i]) < 0)
            return 1;
    }
    if (buf_append_str(&cpus, "0-1\n") < 0 || stat("/proc/self/ns/mnt", &before) < 0)
        return 2;
    if (own_mounts(&wants, &own, &hosts, NULL, &err) < 0) {
        printf("# %s\n", err.msg);
        return 3;
    }
    for (int i = 0; i < ETC_FILES && wrong == 0; i++)
        if (!file_is(own.etc[i], texts[i]))
            wrong = 10 + i;
    /* Whoever writes it writes what is mounted. */
    if (wrong == 0 &&
        (pwrite(hosts, "x", 1, 0) != 1 || !file_is(own.etc[ETC_HOSTS], "x27.0.0.1\tlocalhost\n")))
        wrong = 20;
    /* The launcher is where it was. */
    if (wrong == 0 && (stat("/proc/self/ns/mnt", &after) < 0 || after.st_ino != before.st_ino))
        wrong = 21;
    if (wrong == 0)
        wrong = look_at_dirs(&own);
    if (wrong == 0)
        wrong = look_at_limits(&own);
    for (int i = 0; i < ETC_FILES; i++) {
        (void)close(own.etc[i]);
        buf_done(&bufs[i]);
    }
    buf_done(&cpus);
    (void)close(own.cgroups);
    (void)close(own.cpus);
    (void)close(own.dev);
    (void)close(own.mask);
    (void)close(own.whole);
    (void)close(hosts);
    return wrong;
}

/* ---- an older kernel ---- */

static int refuse_open_tree(void)
{
    struct sock_filter insns[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_open_tree, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog prog = {.len = sizeof(insns) / sizeof(insns[0]), .filter = insns};

    return sys_seccomp_filter(SECCOMP_FILTER_FLAG_NEW_LISTENER, &prog);
}

/* Refuses the first; how many there were, until the process ends. */
static int answer(int listener)
{
    struct seccomp_notif_resp resp;
    struct seccomp_notif req;
    int count = 0;

    for (;;) {
        struct pollfd p = {.fd = listener, .events = POLLIN};

        if (poll(&p, 1, DEADLINE_MS) <= 0 || (p.revents & POLLIN) == 0)
            return count;
        (void)memset(&req, 0, sizeof(req));
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &req) < 0)
            return count;
        resp = (struct seccomp_notif_resp){.id = req.id};
        if (count++ == 0)
            resp.error = -EINVAL;
        else
            resp.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        (void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &resp);
    }
}

TEST(files_that_are_mounted)
{
    int status = -1;
    pid_t pid;

    if (geteuid() != 0)
        SKIP("needs root");
    pid = fork();
    if (pid == 0)
        _exit(make_and_look());
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
}

TEST(files_on_a_kernel_before_6_15)
{
    int status = -1, ready[2], listener;
    pid_t pid;
    char c = 0;

    if (geteuid() != 0)
        SKIP("needs root");
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ready), 0);
    pid = fork();
    if (pid == 0) {
        int fd = refuse_open_tree();

        /* The number is all that our parent needs: it takes the descriptor itself. */
        if (fd < 0 || write(ready[1], &fd, sizeof(fd)) != sizeof(fd) || read(ready[1], &c, 1) != 1)
            _exit(90);
        (void)close(fd); /* so that our end is the listener's */
        _exit(make_and_look());
    }
    CHECK_INT(read(ready[0], &listener, sizeof(listener)), sizeof(listener));
    {
        auto_close int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
        auto_close int ours = sys_pidfd_getfd(pidfd, listener);

        CHECK(ours >= 0);
        CHECK_INT(write(ready[0], "g", 1), 1);
        /* One that fails, and one for each part where the mount is attached. */
        CHECK_INT(ours >= 0 ? answer(ours) : 0, 1 + ETC_FILES + 4);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
    (void)close(ready[0]);
    (void)close(ready[1]);
}

TAP_MAIN
