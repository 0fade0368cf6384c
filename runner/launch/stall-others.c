/*
 * The supervisor sleeps for the lock of a pipe whose sandbox has been ended: one of its processes
 * has given the pipe to another sandbox's, over a socket in a volume or a network of both. Who
 * holds a lock the kernel does not tell, and who sleeps with it may have closed its descriptor
 * meanwhile. But it sleeps in one of few calls, and lets go when it is paused: so all sandboxes
 * that have somebody in such a call are paused until the supervisor goes on. Nobody is ended for
 * it, as any program may be in such a call. (Who waits with the lock for a FUSE server of its own
 * may be in any call, and is not paused; such waits are ended, one sandbox's after the other's,
 * until the supervisor goes on.)
 *
 * To ask about a process can mean to wait for it (an exec of a file that does not come), so this is
 * done by a process of its own, and the asking has a time limit.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/log.h"
#include "launch/launcher.h"
#include "launch/sandbox.h"
#include "launch/stall.h"
#include "proto/syscalls.h"

enum {
    ASK_S = 10, /* sandboxes may have thousands of threads each */
    SYSCALL_TEXT_MAX = 192,
    SOON_MS = 30, /* that the supervisor may take to go on */
    LATE_MS = 300,
    END_LOOK_MS = 1000,
    END_LOOKS = 3,        /* that find it waiting */
    SEEK_MOST_MS = 15000, /* that its end is waited for: the asking, and what follows */
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

static void mark_suspects(const struct launcher *l)
{
    auto_ptr(dir_close) DIR *proc = dir_open(AT_FDCWD, "/proc");
    const struct dirent *e;

    while (proc != NULL && (e = dir_next(proc)) != NULL) {
        auto_close int fd = FD_NONE;
        struct sandbox *s;

        if (e->d_name[0] < '1' || e->d_name[0] > '9')
            continue;
        fd = openat(dirfd(proc), e->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
        s = fd < 0 ? NULL : owner_of(l, fd);
        if (s != NULL && !s->suspect && s->blamed_pid != s->pid)
            s->suspect = any_moves_bytes(fd);
    }
}

/* ---- the supervisor ---- */

/* One that was killed, and closes its descriptors: whether it waits for a lock there. The first
 * thread of a process may be over before the others. */
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

/* The call that it is in. ending: the pid of one that was killed, which is in none; else 0. */
struct wait {
    pid_t ending;
    uint32_t seq;
};

static bool waits(const struct launcher *l, pid_t ending, struct wait *ret)
{
    *ret = (struct wait){.ending = ending};
    return ending != 0 ? any_sleeps(ending) : stall_waits(l, &ret->seq);
}

static bool is_over(const struct launcher *l, const struct wait *w, int within_ms)
{
    const int64_t end = clock_mono_ms() + within_ms;

    for (;;) {
        if (w->ending != 0 ? !any_sleeps(w->ending) : stall_is_over(l, w->seq))
            return true;
        if (clock_mono_ms() >= end)
            return false;
        (void)poll(NULL, 0, 1);
    }
}

/* ---- who holds it ---- */

/* One that is paused already sleeps in no call. */
static void pause_box(struct sandbox *s)
{
    if (s->cgroup == NULL || cgroup_frozen(s->cgroup) != 0)
        return; /* and whoever pauses it now waits for us (manage.c) */
    (void)cgroup_freeze(s->cgroup, true, NULL); /* who has not followed yet will */
    s->shaken = true;
}

static void resume_box(struct sandbox *s)
{
    if (s->shaken)
        (void)cgroup_freeze(s->cgroup, false, NULL);
    s->shaken = false;
}

/* Whether the supervisor goes on. */
static bool shake_suspects(struct launcher *l, const struct wait *w)
{
    bool over = false;

    for (struct sandbox *s = l->sandboxes; s != NULL && !over; s = s->all.next)
        if (s->suspect) {
            pause_box(s);
            over = is_over(l, w, 0);
        }
    over = over || is_over(l, w, LATE_MS);
    for (struct sandbox *s = l->sandboxes; s != NULL; s = s->all.next)
        resume_box(s);
    return over;
}

void stall_shake(struct launcher *l, struct sandbox *s)
{
    struct wait w;

    if (!waits(l, 0, &w))
        return;
    pause_box(s);
    if (!is_over(l, &w, LATE_MS) && s->fuse)
        fuse_abort(l, s->ids.base);
    resume_box(s);
}

static void end_fuse_waits(struct launcher *l, pid_t ending)
{
    struct wait w;

    for (const struct sandbox *s = l->sandboxes; s != NULL && waits(l, ending, &w);
         s = s->all.next) {
        if (!s->fuse)
            continue;
        log_warn("launch", "sandbox=%s: what waits for its FUSE servers is ended", s->id);
        fuse_abort(l, s->ids.base);
        if (is_over(l, &w, SOON_MS))
            return;
    }
}

static _Noreturn void seek(struct launcher *l, pid_t ending, const char *name)
{
    struct wait w;

    (void)signal(SIGTERM, SIG_IGN); /* nobody is to stay paused */
    (void)signal(SIGINT, SIG_IGN);  /* ^C is for all of a terminal's */
    (void)signal(SIGQUIT, SIG_IGN); /* and so is this */
    (void)signal(SIGALRM, SIG_DFL);
    (void)prctl(PR_SET_NAME, "rind-stall");
    (void)alarm(ASK_S);
    mark_suspects(l);
    (void)alarm(0);
    if (waits(l, ending, &w)) {
        log_warn("launch",
                 "%s: rind waits for the lock of a pipe; sandboxes that may hold it are paused for "
                 "a moment",
                 name);
        if (!shake_suspects(l, &w))
            end_fuse_waits(l, ending);
    }
    _exit(0);
}

/* One at a time: one's paused ones are not the other's. */
static pid_t seeker;

bool stall_seeks(struct launcher *l)
{
    child_table_reap(&l->children); /* whoever has ended is not in the list any more */
    for (size_t i = 0; i < l->children.count; i++)
        if (l->children.children[i].pid == seeker)
            return true;
    return false;
}

/* It was killed: whom it had paused goes on. Until now nobody else has paused any (manage.c). */
void stall_reaped(struct launcher *l, pid_t pid, int status)
{
    if (pid != seeker)
        return;
    seeker = -1;
    for (struct sandbox *s = l->sandboxes; s != NULL && WIFSIGNALED(status); s = s->all.next) {
        s->shaken = s->was_running && s->cgroup != NULL;
        resume_box(s);
    }
}

static void on_seeker_exit(void *owner, const struct child_process *c, int status)
{
    stall_reaped(owner, c->pid, status);
}

static void free_lock(struct launcher *l, pid_t ending, const char *name)
{
    pid_t pid = -1;

    if (stall_seeks(l))
        return;
    for (struct sandbox *s = l->sandboxes; s != NULL; s = s->all.next)
        s->was_running = s->cgroup != NULL && cgroup_frozen(s->cgroup) == 0;
    if (child_table_has_room(&l->children))
        pid = fork();
    if (pid == 0)
        seek(l, ending, name);
    seeker = pid;
    if (pid > 0)
        child_table_add(&l->children, pid, NULL, on_seeker_exit);
    else
        log_warn("launch", "%s: cannot look for who has the lock of its pipe", name);
}

void stall_free_lock(struct launcher *l, const char *name)
{
    free_lock(l, 0, name);
}

void stall_wait_end(struct launcher *l, pid_t supervisor)
{
    auto_close int pidfd = sys_pidfd_open(supervisor);
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    int looks = 0, r;
    int64_t end;

    while (pidfd >= 0 && (r = poll(&p, 1, END_LOOK_MS)) <= 0) {
        if (r < 0) /* a signal, which is passed on */
            continue;
        looks = any_sleeps(supervisor) ? looks + 1 : 0;
        if (looks < END_LOOKS)
            continue;
        looks = 0;
        free_lock(l, supervisor, "an end of the supervisor that does not come");
    }
    /* The next daemon must find none paused. */
    end = clock_mono_ms() + SEEK_MOST_MS;
    while (stall_seeks(l) && clock_mono_ms() < end)
        (void)poll(NULL, 0, 1);
}
