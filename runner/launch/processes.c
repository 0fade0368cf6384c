/*
 * Lists the processes of a sandbox from the host's /proc. No process inside is asked, so none can
 * give false answers. The cost is bounded and it never blocks. Command lines are not read: they are
 * in the process's memory, and a process can make their reader wait forever for a page of its own
 * FUSE file. Runs in the launcher.
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
#include "base/number.h"
#include "launch/cgroup.h"
#include "launch/idrange.h"
#include "launch/launcher.h"
#include "launch/sandbox.h"
#include "proto/syscalls.h"

enum {
    LEAF_DEPTH_MAX = 8,                              /* levels below the users' cgroup */
    PIDS_TEXT_MAX = (LAUNCH_PROCESSES_MAX + 1) * 12, /* bytes of one cgroup.procs */
    STAT_MAX = 4096,                                 /* bytes of /proc/PID/stat */
    PTS_MAJOR = 136,
    FDINFO_MAX = 4096, /* bytes of /proc/self/fdinfo/N */
    NUMBERS_MAX = 33,  /* nesting depth limit of pid namespaces, plus 1 */
    OF_INIT = 1,
    OF_USERS = 2, /* index into the numbers of a process */
};

struct processes_listing {
    const struct launch_sandbox *s;
    struct buf list; /* struct launch_process; parents are host pids until listing_set_parents */
    struct buf host; /* int32_t: the host pid of each */
    int64_t boot_ms; /* boot time of the host, ms since the epoch */
    long ticks;      /* per second */
    long page_bytes;
};

/* ---- pids ---- */

/* Reads the pids of a process in each pid namespace, the launcher's first. Returns their number, 0
 * if the process has been reaped. They come from the pidfd's fdinfo. In the process's status file
 * the list of groups, which can be very long, comes first. */
static int pidfd_read_numbers(int pidfd, int32_t ret[NUMBERS_MAX])
{
    auto_free char *text = NULL;
    auto_close int fd = FD_NONE;
    char path[40];
    const char *at;
    size_t len;
    int n = 0;

    (void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || file_read_fd(fd, FDINFO_MAX, &text, &len, NULL) < 0)
        return 0;
    at = strstr(text, "\nNSpid:");
    for (at = at != NULL ? at + 7 : ""; n < NUMBERS_MAX && *at++ == '\t'; n++) {
        int64_t number = number_take(&at, NUMBER_DIGITS_MAX);

        if (number <= 0 || number > INT32_MAX)
            break;
        ret[n] = (int32_t)number;
    }
    return n;
}

/* ---- one process ---- */

/* Takes the uid from the owner of the /proc/PID directory, which is the effective uid, readable in
 * any case. The status file has it, too, but can be very long because of its groups. */
static int process_read_uid(int proc_fd, const struct launch_sandbox *s, struct launch_process *p)
{
    struct stat st;

    if (fstat(proc_fd, &st) < 0)
        return -errno;
    /* Ids of the range belong to this sandbox alone. Any other means that the pid has been reused.
     */
    if (st.st_uid < s->ids.base || st.st_uid - s->ids.base >= IDRANGE_SIZE)
        return -ESRCH;
    p->uid = st.st_uid - s->ids.base;
    return 0;
}

/* Fields of /proc/PID/stat, numbered as in proc(5). */
enum {
    STAT_STATE = 3,
    STAT_PARENT = 4,
    STAT_TERMINAL = 7,
    STAT_USER = 14,
    STAT_SYSTEM = 15,
    STAT_START = 22,
    STAT_VIRTUAL = 23,
    STAT_RSS = 24, /* pages */
    STAT_FIELDS
};

/* Parses the fields after the name; a field that is negative or no number becomes 0. */
static bool stat_fields(const char *at, int64_t ret[STAT_FIELDS])
{
    for (int i = STAT_STATE; i < STAT_FIELDS; i++) {
        if (*at++ != ' ')
            return false;
        ret[i] = i == STAT_STATE || *at == '-' ? 0 : number_take(&at, NUMBER_DIGITS_MAX);
        if (ret[i] < 0)
            return false;
        at += strcspn(at, " ");
    }
    return true;
}

static int process_read_stat(int proc_fd, const struct processes_listing *l,
                             struct launch_process *p)
{
    auto_free char *text = NULL;
    auto_close int fd = openat(proc_fd, "stat", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    int64_t f[STAT_FIELDS], tty;
    char *name, *end;
    size_t len;

    if (fd < 0)
        return -errno;
    if (file_read_fd(fd, STAT_MAX, &text, &len, NULL) < 0)
        return -ESRCH;
    name = strchr(text, '(');
    end = strrchr(text, ')'); /* the name may contain ')'; the last one ends it */
    if (name == NULL || end == NULL || !stat_fields(end + 1, f) || f[STAT_PARENT] > INT32_MAX)
        return -ESRCH;
    p->parent = (int32_t)f[STAT_PARENT];
    p->state = end[2];
    p->virtual_bytes = (uint64_t)f[STAT_VIRTUAL];
    p->rss_bytes = (uint64_t)f[STAT_RSS] * (uint64_t)l->page_bytes;
    tty = f[STAT_TERMINAL];
    *end = '\0';
    (void)snprintf(p->name, sizeof(p->name), "%s", name + 1);
    p->terminal =
        ((tty >> 8) & 0xfff) == PTS_MAJOR ? (int32_t)((tty & 0xff) | ((tty >> 12) & 0xfff00)) : -1;
    p->cpu_ms = (f[STAT_USER] + f[STAT_SYSTEM]) * 1000 / l->ticks;
    p->started_ms = l->boot_ms + f[STAT_START] * 1000 / l->ticks;
    return 0;
}

/* A process that has exited meanwhile is skipped. */
static int listing_add_process(struct processes_listing *l, long pid)
{
    auto_close int pidfd = sys_pidfd_open((pid_t)pid), fd = FD_NONE;
    const int32_t host = (int32_t)pid;
    int32_t numbers[NUMBERS_MAX];
    struct launch_process p = {.pid = 0};
    char path[32];
    int r;

    (void)snprintf(path, sizeof(path), "/proc/%ld", pid);
    fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    /* Files below this fd belong to this process, or cannot be read. */
    if (pidfd < 0 || fd < 0 || process_read_uid(fd, l->s, &p) < 0 ||
        process_read_stat(fd, l, &p) < 0)
        return 0;
    /* The process still exists, so its pid was not reused. Init itself is not one of the users'. */
    if (pidfd_read_numbers(pidfd, numbers) <= OF_USERS)
        return 0;
    p.pid = numbers[OF_INIT];
    r = buf_append(&l->host, &host, sizeof(host));
    return r < 0 ? r : buf_append(&l->list, &p, sizeof(p));
}

/* Translates parents from host pids to pids in init's namespace. */
static void listing_set_parents(struct processes_listing *l)
{
    struct launch_process *list = (struct launch_process *)(void *)l->list.data;
    const int32_t *host = (const int32_t *)(const void *)l->host.data;
    size_t count = l->list.len / sizeof(*list);
    int32_t init[NUMBERS_MAX] = {0};

    (void)pidfd_read_numbers(l->s->pidfd, init);
    for (size_t i = 0; i < count; i++) {
        int32_t parent = list[i].parent;

        list[i].parent = parent == init[0] ? 1 : 0;
        for (size_t k = 0; k < count; k++)
            if (host[k] == parent)
                list[i].parent = list[k].pid;
    }
}

/* ---- all processes ---- */

static int listing_add_cgroup(struct processes_listing *l, int dir_fd)
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

        if (pid > 0) /* 0: not visible in the launcher's pid namespace */
            r = listing_add_process(l, pid);
    }
    return r;
}

static int listing_add_tree(struct processes_listing *l, int dir_fd, int depth)
{
    auto_ptr(dir_close) DIR *d = NULL;
    const struct dirent *e;
    int r = listing_add_cgroup(l, dir_fd);

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
        if (child >= 0) /* the cgroup was removed meanwhile, so it was empty */
            r = listing_add_tree(l, child, depth - 1);
    }
    return r;
}

static int64_t host_boot_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_BOOTTIME, &t);
    return clock_wall_ms() - ((int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000);
}

int launcher_processes(struct launcher *l, const char *id, struct err *err)
{
    struct launch_sandbox *s = launcher_find(l, id);
    struct processes_listing list = {
        .s = s,
        .list = BUF_INIT(LAUNCH_PROCESSES_MAX * sizeof(struct launch_process)),
        .host = BUF_INIT(LAUNCH_PROCESSES_MAX * sizeof(int32_t)),
        .boot_ms = host_boot_ms(),
        .ticks = sysconf(_SC_CLK_TCK),
        .page_bytes = sysconf(_SC_PAGESIZE)};
    auto_close int users = FD_NONE;
    int r;

    if (s == NULL)
        return err_set(err, -ENOENT, "no sandbox %s", id);
    r = users = cgroup_users_fd(s->cgroup);
    if (r == -EOPNOTSUPP)
        return err_set(
            err, r,
            "processes: this host has no cgroup to find a sandbox's by; mount -t cgroup2 "
            "cgroup2 /sys/fs/cgroup/unified");
    r = users >= 0 ? listing_add_tree(&list, users, LEAF_DEPTH_MAX) : r == -ENOENT ? 0 : r;
    if (r == 0) {
        listing_set_parents(&list);
        r = memfd_sealed("rind-processes", list.list.data != NULL ? list.list.data : "",
                         list.list.len);
    }
    buf_done(&list.host);
    buf_done(&list.list);
    if (r == -E2BIG)
        return err_set(err, r, "processes: there are more than %d; ps inside shows them",
                       LAUNCH_PROCESSES_MAX);
    return r < 0 ? err_errno(err, r, "list the processes") : r;
}
