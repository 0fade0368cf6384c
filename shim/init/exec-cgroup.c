/*
 * The exec cgroups, in the v2 subtree that the launcher has delegated. "u" holds the main process
 * and a cgroup for each exec; a pause freezes it. "h" holds helpers, which run on meanwhile.
 *
 * Creating and removing a cgroup costs as much as the fork into it. So exec cgroups are numbered,
 * not named by their exec, and the last ones stay for the next exec. An exec cgroup is used again
 * only when init has forgotten its exec and no process is in it. Processes that an exec has left
 * running keep its cgroup.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "init/exec-table.h"

struct exec_cgroup_path {
    char text[32];
};

static enum exec_cgroup_kind exec_cgroup_kind_of(const struct slot *s)
{
    return (s->flags & IMSG_HELPER) ? EXEC_CGROUP_HELPERS : EXEC_CGROUP_USERS;
}

static struct exec_cgroup_path exec_cgroup_path(enum exec_cgroup_kind kind, uint32_t number)
{
    struct exec_cgroup_path p;
    struct text t = text_begin(p.text, sizeof(p.text));

    text_add_str(&t, kind == EXEC_CGROUP_HELPERS ? "h/" : "u/");
    text_add_number(&t, number);
    return p;
}

static int exec_cgroup_open(const char *path)
{
    int fd = openat(PLAN_CGROUP_FD, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

void exec_cgroup_prepare(const struct init *init)
{
    if ((init->plan.header->flags & PLAN_HAS_CGROUP) == 0)
        return;
    if (mkdirat(PLAN_CGROUP_FD, "u", 0755) < 0 && errno != EEXIST)
        init_fail(INIT_STAGE_CGROUP_NS, 0, errno);
}

static bool exec_cgroup_is_empty(int exec_cgroup)
{
    static const char empty[] = "populated 0";
    char text[64];
    ssize_t n;
    int fd;

    fd = openat(exec_cgroup, "cgroup.events", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return false;
    n = read(fd, text, sizeof(text));
    (void)close(fd);
    return n >= (ssize_t)sizeof(empty) - 1 && memcmp(text, empty, sizeof(empty) - 1) == 0;
}

/*
 * Takes an empty exec cgroup of the pool, or returns -ENOENT. The ones that were released last are
 * checked first.
 */
static int exec_cgroup_take_waiting(struct exec_cgroup_pool *pool, enum exec_cgroup_kind kind,
                                    uint32_t *ret_number)
{
    for (unsigned i = 0; i < LEAF_CHECKS_MAX && i < pool->count; i++) {
        uint32_t *at = &pool->numbers[pool->count - 1 - i];
        int fd = exec_cgroup_open(exec_cgroup_path(kind, *at).text);

        if (fd >= 0 && exec_cgroup_is_empty(fd)) {
            *ret_number = *at;
            *at = pool->numbers[--pool->count];
            return fd;
        }
        if (fd >= 0)
            (void)close(fd);
    }
    return -ENOENT;
}

/* "h" is made for the first helper: most sandboxes have none. */
static int exec_cgroup_mkdir(const char *path)
{
    if (mkdirat(PLAN_CGROUP_FD, path, 0755) == 0)
        return 0;
    if (errno != ENOENT || mkdirat(PLAN_CGROUP_FD, "h", 0755) < 0 ||
        mkdirat(PLAN_CGROUP_FD, path, 0755) < 0)
        return -errno;
    return 0;
}

int exec_cgroup_make(struct table *t, struct slot *s)
{
    enum exec_cgroup_kind kind = exec_cgroup_kind_of(s);
    struct exec_cgroup_path path;
    uint32_t number;
    int fd, r;

    if ((t->init->plan.header->flags & PLAN_HAS_CGROUP) == 0)
        return -ENODEV;
    fd = exec_cgroup_take_waiting(&t->exec_cgroups[kind], kind, &number);
    if (fd < 0) {
        number = ++t->exec_cgroup_last;
        path = exec_cgroup_path(kind, number);
        r = exec_cgroup_mkdir(path.text);
        if (r < 0)
            return r;
        fd = exec_cgroup_open(path.text);
    }
    if (fd >= 0)
        s->exec_cgroup = number;
    return fd;
}

int exec_cgroup_main(const struct init *init)
{
    return (init->plan.header->flags & PLAN_HAS_CGROUP) == 0 ? -ENODEV : exec_cgroup_open("u");
}

int exec_cgroup_kill(struct slot *s)
{
    int exec_cgroup, fd, r = 0;

    if (s->exec_cgroup == 0)
        return -ENODEV;
    s->exec_cgroup_killed = true;
    exec_cgroup = exec_cgroup_open(exec_cgroup_path(exec_cgroup_kind_of(s), s->exec_cgroup).text);
    if (exec_cgroup < 0)
        return exec_cgroup;
    fd = openat(exec_cgroup, "cgroup.kill", O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || write(fd, "1", 1) < 0)
        r = -errno;
    if (fd >= 0)
        (void)close(fd);
    (void)close(exec_cgroup);
    return r;
}

void exec_cgroup_release(struct table *t, struct slot *s)
{
    struct exec_cgroup_pool *pool = &t->exec_cgroups[exec_cgroup_kind_of(s)];

    /*
     * An exec cgroup that was killed is not used again. The kernel (6.18) counts the kills of a
     * cgroup, and compares the counts of the forking process's cgroup and of the target. So each
     * process that is cloned into this one later would be killed at once.
     *
     * rmdir fails while background children of the exec run; the launcher then removes the cgroup
     * with the sandbox.
     */
    if (pool->count < EXEC_CGROUP_WAITING_MAX && !s->exec_cgroup_killed)
        pool->numbers[pool->count++] = s->exec_cgroup;
    else
        (void)unlinkat(PLAN_CGROUP_FD,
                       exec_cgroup_path(exec_cgroup_kind_of(s), s->exec_cgroup).text, AT_REMOVEDIR);
    s->exec_cgroup = 0;
    s->exec_cgroup_killed = false;
}
