/*
 * What a sandbox sees at /sys/fs/cgroup: read-only clones of the host's cgroup mounts, rooted at
 * the sandbox's own directories. A clone makes no new superblock. Mountinfo shows its root relative
 * to the reader's cgroup namespace, so no name of the host is visible.
 *
 * A pure v2 host needs one mount. With v1 the view is a directory with one mount per hierarchy that
 * the sandbox is in, named by its controllers, as programs expect it.
 *
 * Runs in the launcher; called by launcher.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/err.h"
#include "launch/cgroup-internal.h"
#include "launch/sandbox.h"

void cgroup_view_close(struct cgroup_view *view)
{
    while (view->count > 0)
        (void)close(view->parts[--view->count].fd);
}

/* Builds a name such as "cpu,cpuacct" in the kernel's order of controllers. That order is the
 * enum's, except for memory and pids. */
static void hierarchy_name(const struct cg_hierarchy *hier, char name[CGROUP_VIEW_NAME_MAX])
{
    static const enum cgroup_controller order[] = {CG_CPUSET, CG_CPU,     CG_CPUACCT, CG_IO,
                                                   CG_MEMORY, CG_FREEZER, CG_PIDS};
    size_t len = 0;

    if (hier->version == 2) {
        (void)memcpy(name, CGROUP_UNIFIED, sizeof(CGROUP_UNIFIED));
        return;
    }
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
        if ((hier->has & 1U << order[i]) != 0)
            len += (size_t)snprintf(name + len, CGROUP_VIEW_NAME_MAX - len, "%s%s",
                                    len > 0 ? "," : "", cg_name(1, order[i]));
}

static int view_add_part(struct cgroup_view *view, const struct cg_hierarchy *hier, int dir_fd,
                         struct err *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                          MOUNT_ATTR_NOEXEC};
    struct cgroup_view_part *part = &view->parts[view->count];
    int fd = mount_clone(dir_fd, &attr, "the sandbox's cgroup", err);

    if (fd < 0)
        return fd;
    part->fd = fd;
    hierarchy_name(hier, part->name);
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
        r = view_add_part(ret, &h->hier[i], dir_fd, err);
        if (r < 0) {
            cgroup_view_close(ret);
            return r;
        }
    }
    return 0;
}
