/* The maps of a sandbox's user namespace, and user namespaces that exist only to carry the id map
 * of a mount. Runs in the launcher; called by the steps that mount with an id map. */
#include <assert.h>
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

/* One line of a map: `count` ids starting at `from` are mapped to those starting at `to`. */
struct extent {
    uint32_t from, to, count;
};

enum { EXTENTS_MAX = 3, EXTENT_TEXT = 36 /* three numbers of ten digits, with separators */ };

/* The lines of a uid or gid map. They must not overlap, neither in `from` nor in `to`. */
struct map {
    struct extent extents[EXTENTS_MAX];
    size_t count;
};

/* An empty range is left out: the kernel refuses it. */
static void map_add(struct map *m, uint32_t from, uint32_t to, uint32_t count)
{
    assert(m->count < EXTENTS_MAX);
    if (count > 0)
        m->extents[m->count++] = (struct extent){from, to, count};
}

/* The kernel accepts a map only in a single write. */
static int map_write(pid_t pid, const char *file, const struct map *m)
{
    char text[EXTENTS_MAX * EXTENT_TEXT];
    size_t len = 0;

    for (size_t i = 0; i < m->count; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%u %u %u\n", m->extents[i].from,
                                m->extents[i].to, m->extents[i].count);
    return write_map(pid, file, text);
}

/* Waits to be killed. It runs in the launcher's memory: it makes system calls only, and all signals
 * are blocked, so that it changes nothing, not even errno. */
static int holder_main(void *arg)
{
    const pid_t launcher = (pid_t)(intptr_t)arg;

    /* The child must not outlive a launcher that is killed at this moment. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && getppid() == launcher)
        for (;;)
            (void)pause();
    _exit(1);
}

/* Clones a process into a new user namespace. It shares the launcher's memory, because copying the
 * page tables would take longer than all the rest. Returns its pid or a negative errno. */
static pid_t holder_start(char stack[HOLDER_STACK])
{
    sigset_t all, old;
    pid_t pid;

    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &old);
    pid = clone(holder_main, stack + HOLDER_STACK, CLONE_NEWUSER | CLONE_VM | SIGCHLD,
                (void *)(intptr_t)getpid());
    pid = pid < 0 ? -errno : pid;
    (void)sigprocmask(SIG_SETMASK, &old, NULL);
    return pid;
}

static int userns_make(const struct map *uids, const struct map *gids, struct err *err)
{
    _Alignas(16) char stack[HOLDER_STACK];
    char path[64];
    int fd, r;
    pid_t child;

    child = holder_start(stack);
    if (child < 0)
        return err_errno(err, child, "clone a user namespace for a mount");
    r = map_write(child, "uid_map", uids);
    if (r == 0)
        r = map_write(child, "gid_map", gids);
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

/* Maps all ids below the pool to themselves, except one. */
static struct map map_owner(uint32_t host_id, uint32_t to)
{
    const uint32_t below = host_id < IDRANGE_FIRST ? host_id : IDRANGE_FIRST;
    struct map m = {.count = 0};

    map_add(&m, host_id, to, 1);
    map_add(&m, 0, 0, below);
    if (host_id < IDRANGE_FIRST)
        map_add(&m, host_id + 1, host_id + 1, IDRANGE_FIRST - host_id - 1);
    return m;
}

int idmap_owner(uid_t host_uid, uid_t to_uid, gid_t host_gid, gid_t to_gid, struct err *err)
{
    const struct map uids = map_owner(host_uid, to_uid), gids = map_owner(host_gid, to_gid);

    return userns_make(&uids, &gids, err);
}

int idmap_range(uid_t from, uid_t to, struct err *err)
{
    struct map m = {.count = 0};

    map_add(&m, from, to, IDRANGE_SIZE);
    return userns_make(&m, &m, err);
}

int idmap_layers(uid_t to, struct err *err)
{
    struct map m = {.count = 0};

    map_add(&m, 0, 0, 1);
    map_add(&m, IDRANGE_LAYERS, to, IDRANGE_SIZE);
    return userns_make(&m, &m, err);
}
