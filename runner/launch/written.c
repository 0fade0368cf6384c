/*
 * Counts the bytes that the processes of a sandbox have caused to be written to file systems on
 * disks, as the kernel accounts them (/proc/PID/io). A process's figure includes that of the
 * children it has reaped, and init reaps all others, so the sum grows and loses nothing but what
 * unreaped zombies had. No process inside is asked. Bounded; runs in the launcher, and is asked for
 * only while the host's disk is nearly full.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/file.h"
#include "launch/cgroup.h"
#include "launch/launcher.h"
#include "launch/sandbox.h"

enum {
    DEPTH_MAX = 8, /* levels below the users' cgroup */
    PROCESSES_MAX = 8192,
    PROCS_TEXT_MAX = (PROCESSES_MAX + 1) * 12, /* bytes of one cgroup.procs */
    IO_TEXT_MAX = 512,
};

struct written {
    uint64_t bytes;
    unsigned processes;
};

/* A process that has ended adds nothing: its parent has its figure. */
static void written_add_process(struct written *w, long pid)
{
    static const char key[] = "\nwrite_bytes: ";
    char path[40], text[IO_TEXT_MAX];
    auto_close int fd = FD_NONE;
    const char *at;
    ssize_t n;

    (void)snprintf(path, sizeof(path), "/proc/%ld/io", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (n <= 0)
        return;
    text[n] = '\0';
    at = strstr(text, key);
    if (at != NULL)
        w->bytes += strtoull(at + sizeof(key) - 1, NULL, 10);
}

static int written_add_cgroup(struct written *w, int dir_fd)
{
    auto_free char *text = NULL;
    auto_close int fd = openat(dir_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    size_t len;
    int r;

    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    r = file_read_fd(fd, PROCS_TEXT_MAX, &text, &len, NULL);
    if (r < 0)
        return r == -EFBIG ? -E2BIG : r == -ENODEV ? 0 : r;
    for (char *at = text, *end; (end = strchr(at, '\n')) != NULL; at = end + 1) {
        const long pid = strtol(at, NULL, 10);

        if (++w->processes > PROCESSES_MAX)
            return -E2BIG;
        if (pid > 0) /* 0: not visible in the launcher's pid namespace */
            written_add_process(w, pid);
    }
    return 0;
}

static int written_add_tree(struct written *w, int dir_fd, int depth)
{
    auto_ptr(dir_close) DIR *d = NULL;
    const struct dirent *e;
    int r = written_add_cgroup(w, dir_fd);

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
            r = written_add_tree(w, child, depth - 1);
    }
    return r;
}

int launcher_written(struct launcher *l, const char *id, uint64_t *ret, struct err *err)
{
    const struct launch_sandbox *s = launcher_find(l, id);
    auto_close int users = FD_NONE;
    struct written w = {.bytes = 0};
    int r;

    if (s == NULL || s->cgroup == NULL || s->pidfd < 0)
        return err_set(err, -ENOENT, "no sandbox %s", id);
    written_add_process(&w, (long)s->pid);
    r = users = cgroup_users_fd(s->cgroup);
    if (r >= 0)
        r = written_add_tree(&w, users, DEPTH_MAX);
    if (r == -E2BIG)
        w.bytes = UINT64_MAX; /* too many to ask: it counts as one that writes */
    else if (r < 0 && r != -ENOENT)
        return err_errno(err, r, "what sandbox %s has written", id);
    *ret = w.bytes;
    return 0;
}
