/*
 * The files of /etc that are mounted over an image's, as this kernel makes them and as one before
 * Linux 6.15 does, which clones no part of a mount that is attached nowhere: the first open_tree is
 * answered EINVAL (by a seccomp notification), the others go on.
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

/* 0, or where it went wrong. */
static int make_and_look(void)
{
    struct buf bufs[ETC_FILES];
    int fds[ETC_FILES], dir = FD_NONE, hosts = FD_NONE, wrong = 0;
    struct stat before, after;
    struct err err = ERR_NONE;

    for (int i = 0; i < ETC_FILES; i++) {
        bufs[i] = (struct buf)BUF_INIT(ETC_TEXT_MAX);
        if (buf_append_str(&bufs[i], texts[i]) < 0)
            return 1;
    }
    if (stat("/proc/self/ns/mnt", &before) < 0)
        return 2;
    if (etc_mounts(OWNER, bufs, fds, &dir, &hosts, NULL, &err) < 0) {
        printf("# %s\n", err.msg);
        return 3;
    }
    for (int i = 0; i < ETC_FILES && wrong == 0; i++)
        if (!file_is(fds[i], texts[i]))
            wrong = 10 + i;
    /* Whoever writes it writes what is mounted. */
    if (wrong == 0 &&
        (pwrite(hosts, "x", 1, 0) != 1 || !file_is(fds[ETC_HOSTS], "x27.0.0.1\tlocalhost\n")))
        wrong = 20;
    /* The launcher is where it was. */
    if (wrong == 0 && (stat("/proc/self/ns/mnt", &after) < 0 || after.st_ino != before.st_ino))
        wrong = 21;
    for (int i = 0; i < ETC_FILES; i++) {
        (void)close(fds[i]);
        buf_done(&bufs[i]);
    }
    (void)close(dir);
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
        /* One that fails, and one for each file where the mount is attached. */
        CHECK_INT(ours >= 0 ? answer(ours) : 0, 1 + ETC_FILES);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
    (void)close(ready[0]);
    (void)close(ready[1]);
}

TAP_MAIN
