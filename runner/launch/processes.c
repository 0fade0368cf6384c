/*
 * What runs in a sandbox, as the host's kernel has it; nothing inside is asked, and so nobody there
 * can lie. It costs what it reads and never waits: command lines are left alone, because they lie
 * in the memory of the processes, and a process can make its reader wait for a page of that for
 * ever (a file of a FUSE file system of its own, mapped).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/file.h"
#include "launch/cgroup.h"
#include "launch/idrange.h"
#include "launch/launcher.h"
#include "launch/sandbox.h"

enum {
    LEAF_DEPTH_MAX = 8,                              /* levels below the users' cgroup */
    PIDS_TEXT_MAX = (LAUNCH_PROCESSES_MAX + 1) * 12, /* bytes of one cgroup.procs */
    STAT_MAX = 4096,                                 /* bytes of /proc/PID/stat */
    PTS_MAJOR = 136,
};

struct listing {
    const struct sandbox *s;
    struct buf list; /* of struct launch_process */
    int64_t boot_ms; /* when the host started, since the epoch */
    long ticks;      /* a second */
};

/* ---- one process ---- */

/* The directory belongs to its effective uid, whatever else of it may be read. Its status file says
 * so, too, but behind it come as many groups as a process likes to have. */
static int read_uid(int proc_fd, const struct sandbox *s, struct launch_process *p)
{
    struct stat st;

    if (fstat(proc_fd, &st) < 0)
        return -errno;
    /* The ids of its range are nobody else's: another's means that the number has been given to
     * another process meanwhile. */
    if (st.st_uid < s->ids.base || st.st_uid - s->ids.base >= IDRANGE_SIZE)
        return -ESRCH;
    p->uid = st.st_uid - s->ids.base;
    return 0;
}

static int read_stat(int proc_fd, const struct listing *l, struct launch_process *p)
{
    auto_free char *text = NULL;
    auto_close int fd = openat(proc_fd, "stat", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    unsigned long long user, system, start;
    char *name, *end;
    size_t len;
    int tty;

    if (fd < 0)
        return -errno;
    if (file_read_fd(fd, STAT_MAX, &text, &len, NULL) < 0)
        return -ESRCH;
    name = strchr(text, '(');
    end = strrchr(text, ')'); /* a name may hold some; the kernel's own last one ends it */
    if (name == NULL || end == NULL ||
        sscanf(end + 1,
               " %*c %d %*d %*d %d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %*d %*d %llu",
               &p->parent, &tty, &user, &system, &start) != 5)
        return -ESRCH;
    *end = '\0';
    (void)snprintf(p->name, sizeof(p->name), "%s", name + 1);
    p->terminal = ((tty >> 8) & 0xfff) == PTS_MAJOR ? (tty & 0xff) | ((tty >> 12) & 0xfff00) : -1;
    p->cpu_ms = (int64_t)((user + system) * 1000 / (unsigned long long)l->ticks);
    p->started_ms = l->boot_ms + (int64_t)(start * 1000 / (unsigned long long)l->ticks);
    return 0;
}

/* One that has ended meanwhile is none. */
static int add_process(struct listing *l, long pid)
{
    struct launch_process p = {.pid = (int32_t)pid};
    auto_close int fd = FD_NONE;
    char path[32];

    (void)snprintf(path, sizeof(path), "/proc/%ld", pid);
    fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    /* What is read beneath it is this process's, or cannot be read. */
    if (fd < 0 || read_uid(fd, l->s, &p) < 0 || read_stat(fd, l, &p) < 0)
        return 0;
    return buf_append(&l->list, &p, sizeof(p));
}

/* ---- all of them ---- */

static int add_leaf(struct listing *l, int dir_fd)
{
    auto_free char *text = NULL;
    auto_close int fd = openat(dir_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    size_t len;
    int r;

    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    r = file_read_fd(fd, PIDS_TEXT_MAX, &text, &len, NULL);
    if (r < 0)
        return r == -EFBIG ? -E2BIG : r == -ENODEV ? 0 : r;
    for (char *at = text, *end; r == 0 && (end = strchr(at, '\n')) != NULL; at = end + 1) {
        long pid = strtol(at, NULL, 10);

        if (pid > 0) /* 0: one that our pid namespace does not see */
            r = add_process(l, pid);
    }
    return r;
}

static int add_tree(struct listing *l, int dir_fd, int depth)
{
    auto_ptr(dir_close) DIR *d = NULL;
    const struct dirent *e;
    int r = add_leaf(l, dir_fd);

    if (r < 0 || depth == 0)
        return r;
    d = dir_open(dir_fd, ".");
    if (d == NULL)
        return errno == ENOENT ? 0 : -errno;
    while (r == 0 && (e = dir_next(d)) != NULL) {
        auto_close int child = FD_NONE;

        if (e->d_type != DT_DIR)
            continue;
        child = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (child >= 0) /* gone in between: nobody was in it */
            r = add_tree(l, child, depth - 1);
    }
    return r;
}

static int64_t booted_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_BOOTTIME, &t);
    return clock_wall_ms() - ((int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000);
}

int launcher_processes(struct launcher *l, const char *id, struct err *err)
{
    struct sandbox *s = *launcher_find(l, id);
    struct listing list = {.s = s,
                           .list = BUF_INIT(LAUNCH_PROCESSES_MAX * sizeof(struct launch_process)),
                           .boot_ms = booted_ms(),
                           .ticks = sysconf(_SC_CLK_TCK)};
    auto_close int users = FD_NONE;
    int r = 0;

    if (s == NULL)
        return err_set(err, -ENOENT, "no sandbox %s", id);
    if (cgroup_exec_fd(s->cgroup) < 0)
        return err_set(
            err, -EOPNOTSUPP,
            "processes: this host has no cgroup v2 tree to find a sandbox's by; mount -t "
            "cgroup2 cgroup2 /sys/fs/cgroup/unified");
    /* init and what helps it are not in it (cgroup_freeze). */
    users = openat(cgroup_exec_fd(s->cgroup), "u", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (users >= 0)
        r = add_tree(&list, users, LEAF_DEPTH_MAX);
    if (r == 0)
        r = memfd_sealed("rind-processes", list.list.data != NULL ? list.list.data : "",
                         list.list.len);
    buf_done(&list.list);
    if (r == -E2BIG)
        return err_set(err, r, "processes: there are more than %d; ps inside shows them",
                       LAUNCH_PROCESSES_MAX);
    return r < 0 ? err_errno(err, r, "list the processes") : r;
}
