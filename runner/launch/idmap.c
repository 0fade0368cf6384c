#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "launch/sandbox.h"
#include "proto/syscalls.h"

static int write_map(pid_t pid, const char *file, const char *map)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    return file_poke_at(AT_FDCWD, path, map);
}

int idmap_write(pid_t pid, uid_t base, struct err *err)
{
    char map[64];
    int r;

    (void)snprintf(map, sizeof(map), "0 %u %d", base, IDRANGE_SIZE);
    r = write_map(pid, "uid_map", map);
    if (r == 0)
        r = write_map(pid, "gid_map", map);
    return r < 0 ? err_errno(err, r, "write id maps") : 0;
}

enum { HOLDER_STACK = 16 << 10 };

/* What a user namespace is to map, beside what it maps it to. */
struct map {
    uid_t uid, to_uid;
    gid_t gid, to_gid;
    unsigned count;
    bool root; /* and 0 to itself */
};

static int write_maps(pid_t pid, const struct map *m)
{
    const char *root = m->root ? "0 0 1\n" : "";
    char map[64];
    int r;

    (void)snprintf(map, sizeof(map), "%s%u %u %u", root, m->uid, m->to_uid, m->count);
    r = write_map(pid, "uid_map", map);
    if (r < 0)
        return r;
    (void)snprintf(map, sizeof(map), "%s%u %u %u", root, m->gid, m->to_gid, m->count);
    return write_map(pid, "gid_map", map);
}

/* Waits to be killed. In the launcher's memory: system calls only, and no signal comes (all are
 * blocked), so that nothing of the launcher's is written to, errno included. */
static int hold(void *arg)
{
    const pid_t launcher = (pid_t)(intptr_t)arg;

    /* Whoever kills the launcher now must not leave us behind. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && getppid() == launcher)
        for (;;)
            (void)pause();
    _exit(1);
}

/* A process that is in a new user namespace and shares our memory: a copy of it, which takes longer
 * than all the rest, would never be used. Its pid, or a negative errno. */
static pid_t holder_start(char stack[HOLDER_STACK])
{
    sigset_t all, old;
    pid_t pid;

    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &old);
    pid = clone(hold, stack + HOLDER_STACK, CLONE_NEWUSER | CLONE_VM | SIGCHLD,
                (void *)(intptr_t)getpid());
    pid = pid < 0 ? -errno : pid;
    (void)sigprocmask(SIG_SETMASK, &old, NULL);
    return pid;
}

static int namespace_with(const struct map *m, struct err *err)
{
    _Alignas(16) char stack[HOLDER_STACK];
    char path[64];
    int fd, r;
    pid_t child;

    child = holder_start(stack);
    if (child < 0)
        return err_errno(err, child, "clone a user namespace for a mount");
    r = write_maps(child, m);
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)child);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (r == 0 && fd < 0)
        r = -errno;
    (void)kill(child, SIGKILL);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    if (r < 0) {
        if (fd >= 0)
            (void)close(fd);
        return err_errno(err, r, "map the owners of a mount");
    }
    return fd;
}

int idmap_single(uid_t host_uid, uid_t to_uid, gid_t host_gid, gid_t to_gid, struct err *err)
{
    const struct map m = {
        .uid = host_uid, .to_uid = to_uid, .gid = host_gid, .to_gid = to_gid, .count = 1};

    return namespace_with(&m, err);
}

int idmap_range(uid_t from, uid_t to, struct err *err)
{
    const struct map m = {
        .uid = from, .to_uid = to, .gid = from, .to_gid = to, .count = IDRANGE_SIZE};

    return namespace_with(&m, err);
}

int idmap_layers(uid_t to, struct err *err)
{
    const struct map m = {.uid = IDRANGE_LAYERS,
                          .to_uid = to,
                          .gid = IDRANGE_LAYERS,
                          .to_gid = to,
                          .count = IDRANGE_SIZE,
                          .root = true};

    return namespace_with(&m, err);
}
