/*
 * cgroup leaves in the v2 subtree that the launcher has handed over: "u" holds the main process and
 * a leaf for each exec, and is what pause freezes; "h" holds helpers, which go on working
 * meanwhile.
 *
 * Making and removing a leaf costs as much as the fork into it, so leaves are numbered, not named
 * by their exec, and the last ones wait for the next exec. A leaf changes hands only once its exec
 * is forgotten and nothing lives in it: what an exec has left running keeps its leaf.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "init/table.h"

struct leaf_path {
    char text[32];
};

static enum leaf_kind leaf_kind_of(const struct slot *s)
{
    return (s->flags & IMSG_HELPER) ? LEAF_HELPERS : LEAF_USERS;
}

static struct leaf_path leaf_path(enum leaf_kind kind, uint32_t number)
{
    struct leaf_path p;
    struct text t = text_begin(p.text, sizeof(p.text));

    text_add_str(&t, kind == LEAF_HELPERS ? "h/" : "u/");
    text_add_number(&t, number);
    return p;
}

static int leaf_open(const char *path)
{
    int fd = openat(PLAN_CGROUP_FD, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

void leaf_prepare(const struct init *init)
{
    if ((init->plan.header->flags & PLAN_HAS_CGROUP) == 0)
        return;
    if (mkdirat(PLAN_CGROUP_FD, "u", 0755) < 0 && errno != EEXIST)
        init_fail(INIT_STAGE_CGROUP_NS, 0, errno);
}

static bool leaf_is_empty(int leaf)
{
    static const char empty[] = "populated 0";
    char text[64];
    ssize_t n;
    int fd;

    fd = openat(leaf, "cgroup.events", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return false;
    n = read(fd, text, sizeof(text));
    (void)close(fd);
    return n >= (ssize_t)sizeof(empty) - 1 && memcmp(text, empty, sizeof(empty) - 1) == 0;
}

/* Takes an empty leaf of the pool, or -ENOENT. The leaves that were released last are checked
 * first. */
static int leaf_take_waiting(struct leaf_pool *pool, enum leaf_kind kind, uint32_t *ret_number)
{
    for (unsigned i = 0; i < LEAF_CHECKS_MAX && i < pool->count; i++) {
        uint32_t *at = &pool->numbers[pool->count - 1 - i];
        int fd = leaf_open(leaf_path(kind, *at).text);

        if (fd >= 0 && leaf_is_empty(fd)) {
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
static int leaf_mkdir(const char *path)
{
    if (mkdirat(PLAN_CGROUP_FD, path, 0755) == 0)
        return 0;
    if (errno != ENOENT || mkdirat(PLAN_CGROUP_FD, "h", 0755) < 0 ||
        mkdirat(PLAN_CGROUP_FD, path, 0755) < 0)
        return -errno;
    return 0;
}

int leaf_make(struct table *t, struct slot *s)
{
    enum leaf_kind kind = leaf_kind_of(s);
    struct leaf_path path;
    uint32_t number;
    int fd, r;

    if ((t->init->plan.header->flags & PLAN_HAS_CGROUP) == 0)
        return -ENODEV;
    fd = leaf_take_waiting(&t->leaves[kind], kind, &number);
    if (fd < 0) {
        number = ++t->leaf_last;
        path = leaf_path(kind, number);
        r = leaf_mkdir(path.text);
        if (r < 0)
            return r;
        fd = leaf_open(path.text);
    }
    if (fd >= 0)
        s->leaf = number;
    return fd;
}

int leaf_main(const struct init *init)
{
    return (init->plan.header->flags & PLAN_HAS_CGROUP) == 0 ? -ENODEV : leaf_open("u");
}

int leaf_kill(struct slot *s)
{
    int leaf, fd, r = 0;

    if (s->leaf == 0)
        return -ENODEV;
    s->leaf_killed = true;
    leaf = leaf_open(leaf_path(leaf_kind_of(s), s->leaf).text);
    if (leaf < 0)
        return leaf;
    fd = openat(leaf, "cgroup.kill", O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || write(fd, "1", 1) < 0)
        r = -errno;
    if (fd >= 0)
        (void)close(fd);
    (void)close(leaf);
    return r;
}

void leaf_release(struct table *t, struct slot *s)
{
    struct leaf_pool *pool = &t->leaves[leaf_kind_of(s)];

    /* Not empty when background children of the exec live on: the launcher removes it with the
     * sandbox. */
    /*
     * A leaf that was killed is spent: the kernel (6.18) counts the kills of a cgroup and compares
     * the count of the forking process's cgroup with that of the one forked into, so that whatever
     * is cloned into it later is killed at once.
     */
    if (pool->count < LEAF_WAITING_MAX && !s->leaf_killed)
        pool->numbers[pool->count++] = s->leaf;
    else
        (void)unlinkat(PLAN_CGROUP_FD, leaf_path(leaf_kind_of(s), s->leaf).text, AT_REMOVEDIR);
    s->leaf = 0;
    s->leaf_killed = false;
}
