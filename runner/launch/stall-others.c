/*
 * The supervisor sleeps for the lock of a pipe whose sandbox has been ended: one of its processes
 * has given the pipe to another sandbox's, over a socket in a volume or a network of both. Who
 * holds a lock the kernel does not tell, and who sleeps with it may have closed its descriptor
 * meanwhile. But it sleeps in one of few calls, in which hardly anybody else sleeps for long. (Who
 * waits there for a FUSE server of its own may be in any call; such waits are ended without their
 * sandboxes.)
 *
 * To ask about a process can mean to wait for it (an exec of a file that does not come), so this is
 * done by a process of its own, with a time limit.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/log.h"
#include "launch/launcher.h"
#include "launch/sandbox.h"
#include "launch/stall.h"
#include "proto/syscalls.h"

enum {
    SEEK_S = 10, /* sandboxes may have thousands of threads each */
    SYSCALL_TEXT_MAX = 192,
    END_LOOK_MS = 1000,
    END_LOOKS = 3, /* that find it waiting */
};

/* A file says "NUMBER ARGUMENTS…", or "running". */
static bool moves_bytes(int task_fd)
{
    static const long calls[] = {
        SYS_splice, SYS_tee, SYS_vmsplice, SYS_sendfile,
#ifdef __x86_64__
        313,        315,     316,          187,
        239, /* the same by i386's numbers, which nobody sleeps in by ours */
#endif
    };
    auto_close int fd = openat(task_fd, "syscall", O_RDONLY | O_CLOEXEC);
    char text[SYSCALL_TEXT_MAX], *end;
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    long call;

    if (n <= 0)
        return false;
    text[n] = '\0';
    call = strtol(text, &end, 10);
    for (size_t i = 0; end != text && i < sizeof(calls) / sizeof(calls[0]); i++)
        if (call == calls[i])
            return true;
    return false;
}

static bool any_moves_bytes(int pid_fd)
{
    auto_ptr(dir_close) DIR *tasks = dir_open(pid_fd, "task");
    const struct dirent *e;

    while (tasks != NULL && (e = dir_next(tasks)) != NULL) {
        auto_close int task = openat(dirfd(tasks), e->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC);

        if (task >= 0 && moves_bytes(task))
            return true;
    }
    return false;
}

/* Whose process this is, by the ids that are its alone; NULL: no sandbox's. */
static struct sandbox *owner_of(const struct launcher *l, int pid_fd)
{
    struct sandbox *s = l->sandboxes;
    struct stat st;

    if (fstat(pid_fd, &st) < 0)
        return NULL;
    while (s != NULL && (st.st_uid < s->ids.base || st.st_uid - s->ids.base >= IDRANGE_SIZE))
        s = s->all.next;
    return s;
}

static unsigned end_those(struct launcher *l)
{
    auto_ptr(dir_close) DIR *proc = dir_open(AT_FDCWD, "/proc");
    const struct dirent *e;
    unsigned count = 0;

    while (proc != NULL && (e = dir_next(proc)) != NULL) {
        auto_close int fd = FD_NONE;
        struct sandbox *s;

        if (e->d_name[0] < '1' || e->d_name[0] > '9')
            continue;
        fd = openat(dirfd(proc), e->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
        s = fd < 0 ? NULL : owner_of(l, fd);
        if (s == NULL || s->blamed_pid == s->pid || !any_moves_bytes(fd))
            continue;
        s->blamed_pid = s->pid;
        if (launcher_end(l, s->id, NULL) < 0)
            continue;
        count++;
        log_warn("launch",
                 "sandbox=%s is ended: it seems to hold the lock of a pipe for which the daemon "
                 "waits",
                 s->id);
    }
    return count;
}

static _Noreturn void seek(struct launcher *l, const char *name)
{
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGINT, SIG_IGN); /* ^C is for all of a terminal's */
    (void)signal(SIGALRM, SIG_DFL);
    (void)prctl(PR_SET_NAME, "rind-stall");
    (void)alarm(SEEK_S);
    if (end_those(l) == 0) {
        log_warn("launch",
                 "%s: the daemon waits for the lock of its pipe, and nobody else seems to hold it; "
                 "what waits for FUSE servers is ended",
                 name);
        for (const struct sandbox *s = l->sandboxes; s != NULL; s = s->all.next)
            fuse_abort(l, s->ids.base);
    }
    _exit(0);
}

void stall_end_others(struct launcher *l, const char *name)
{
    static pid_t seeker; /* one at a time: it ends those that it finds as it goes */
    pid_t pid = -1;

    if (removal_has_room(l)) { /* whoever has ended is not in the list any more */
        for (size_t i = 0; i < l->removal_count; i++)
            if (l->removals[i].pid == seeker)
                return;
        pid = fork();
    }
    if (pid == 0)
        seek(l, name);
    seeker = pid;
    if (pid > 0)
        removal_keep(l, pid, NULL);
    else
        log_warn("launch", "%s: cannot look for who has the lock of its pipe", name);
}

static bool any_sleeps(pid_t pid)
{
    auto_ptr(dir_close) DIR *tasks = NULL;
    const struct dirent *e;
    char path[32];

    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    tasks = dir_open(AT_FDCWD, path);
    while (tasks != NULL && (e = dir_next(tasks)) != NULL) {
        auto_close int task = openat(dirfd(tasks), e->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
        auto_close int stat =
            task < 0 ? FD_NONE : openat(task, "stat", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

        if (stat >= 0 && stall_sleeps(stat))
            return true;
    }
    return false;
}

void stall_wait_end(struct launcher *l, pid_t supervisor)
{
    auto_close int pidfd = sys_pidfd_open(supervisor);
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    int looks = 0, r;

    while (pidfd >= 0 && (r = poll(&p, 1, END_LOOK_MS)) <= 0) {
        if (r < 0) /* a signal, which is passed on */
            continue;
        looks = any_sleeps(supervisor) ? looks + 1 : 0;
        if (looks < END_LOOKS)
            continue;
        looks = 0;
        stall_end_others(l, "an end of the supervisor that does not come");
    }
}
