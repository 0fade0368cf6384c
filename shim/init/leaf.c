/*
 * cgroup leaves in the v2 subtree that the launcher has handed over: "u" holds the main process and
 * a leaf for each exec, and is what pause freezes; "h" holds helpers, which go on working
 * meanwhile.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "init/table.h"

struct leaf_path {
    char text[32];
};

static struct leaf_path leaf_path(const struct slot *s)
{
    struct leaf_path p;

    (void)snprintf(p.text, sizeof(p.text), "%s/%llu", (s->flags & IMSG_HELPER) ? "h" : "u",
                   (unsigned long long)s->id);
    return p;
}

static int open_leaf(const char *path)
{
    int fd = openat(PLAN_CGROUP_FD, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

void leaf_prepare(const struct init *init)
{
    if ((init->plan.header->flags & PLAN_HAS_CGROUP) == 0)
        return;
    if ((mkdirat(PLAN_CGROUP_FD, "u", 0755) < 0 && errno != EEXIST) ||
        (mkdirat(PLAN_CGROUP_FD, "h", 0755) < 0 && errno != EEXIST))
        init_fail(INIT_STAGE_CGROUP_NS, 0, errno);
}

int leaf_make(const struct init *init, const struct slot *s)
{
    struct leaf_path path = leaf_path(s);

    if ((init->plan.header->flags & PLAN_HAS_CGROUP) == 0)
        return -ENODEV;
    /* One of this name is left when background children of an earlier exec live on in it: ids are
     * not used twice while their leaf exists. */
    if (mkdirat(PLAN_CGROUP_FD, path.text, 0755) < 0)
        return -errno;
    return open_leaf(path.text);
}

int leaf_main(const struct init *init)
{
    return (init->plan.header->flags & PLAN_HAS_CGROUP) == 0 ? -ENODEV : open_leaf("u");
}

int leaf_kill(const struct slot *s)
{
    struct leaf_path path = leaf_path(s);
    int leaf, fd, r = 0;

    if (!s->has_leaf)
        return -ENODEV;
    leaf = open_leaf(path.text);
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

void leaf_remove(const struct slot *s)
{
    struct leaf_path path = leaf_path(s);

    /* Not empty when background children of the exec live on: the launcher removes it with the
     * sandbox. */
    (void)unlinkat(PLAN_CGROUP_FD, path.text, AT_REMOVEDIR);
}
