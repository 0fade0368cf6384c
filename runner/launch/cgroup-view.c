/*
 * What a sandbox sees at /sys/fs/cgroup: its own cgroups, read-only, as clones of the host's mounts
 * that begin at the sandbox's directories. A clone makes no file system of its own, and mountinfo
 * shows its root relative to the reader's cgroup namespace, so no name of the host's shows.
 *
 * On a pure v2 host that is one mount. With v1 it is a directory with one mount for each hierarchy
 * that the sandbox is in, named by its controllers, as programs expect it.
 *
 * Runs in the launcher.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/err.h"
#include "launch/cgroup_internal.h"
#include "launch/sandbox.h"

void cgroup_view_close(struct cgroup_view *view)
{
    while (view->count > 0)
        (void)close(view->parts[--view->count].fd);
}

/* "cpu,cpuacct", in the kernel's order, which is that of the enum but for memory and pids. */
static void name_of(const struct cg_hierarchy *hier, char name[CGROUP_VIEW_NAME_MAX])
{
    static const enum cgroup_controller order[] = {CG_CPUSET, CG_CPU,     CG_CPUACCT,
                                                   CG_MEMORY, CG_FREEZER, CG_PIDS};
    size_t len = 0;

    if (hier->version == 2) {
        (void)memcpy(name, CGROUP_UNIFIED, sizeof(CGROUP_UNIFIED));
        return;
    }
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
        if ((hier->has & 1U << order[i]) != 0)
            len += (size_t)snprintf(name + len, CGROUP_VIEW_NAME_MAX - len, "%s%s",
                                    len > 0 ? "," : "", cgroup_controller_name(order[i]));
}

static int part_add(struct cgroup_view *view, const struct cg_hierarchy *hier, int dir_fd,
                    struct err *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                          MOUNT_ATTR_NOEXEC};
    struct cgroup_view_part *part = &view->parts[view->count];
    int fd = mount_clone(dir_fd, &attr, "the sandbox's cgroup", err);

    if (fd < 0)
        return fd;
    part->fd = fd;
    name_of(hier, part->name);
    view->count++;
    return 0;
}

int cgroup_view_open(struct cgroup_host *h, const struct cgroup *c, struct cgroup_view *ret,
                     struct err *err)
{
    *ret = (struct cgroup_view){.whole = cgroup_host_mode(h) == CG_MODE_V2};
    for (int i = 0; i < h->count; i++) {
        const int dir_fd = c->dir_fd[i] >= 0 ? c->dir_fd[i] : c->seen_fd[i];
        int r;

        if (dir_fd < 0)
            continue;
        r = part_add(ret, &h->hier[i], dir_fd, err);
        if (r < 0) {
            cgroup_view_close(ret);
            return r;
        }
    }
    return 0;
}
