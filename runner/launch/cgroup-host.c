/*
 * Finds the host's cgroup hierarchies. Mounts are taken from mountinfo, wherever they are. A
 * hierarchy is identified by its device number, so a v1 hierarchy mounted twice (cpu and
 * cpu,cpuacct) counts once. The opened mount point must be on that device, so that a mount on top
 * of it is not mistaken for it.
 *
 * Everything is relative to the mount. Inside a container the mount shows only a part of the
 * hierarchy (a root other than "/", or a cgroup namespace). The top of that part counts as the
 * root. So /proc/self/cgroup is not needed.
 *
 * Runs in the launcher and in `rind doctor`.
 */

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "launch/cgroup-internal.h"
#include "sys/mountinfo.h"

#define RIND_DIR "rind"

static const char *const controller_names[] = {
    [CG_MEMORY] = "memory",   [CG_CPU] = "cpu",       [CG_CPUACCT] = "cpuacct", [CG_PIDS] = "pids",
    [CG_FREEZER] = "freezer", [CG_CPUSET] = "cpuset", [CG_IO] = "io",
};
static_assert(sizeof(controller_names) / sizeof(controller_names[0]) == CG_CONTROLLER_MAX,
              "one name a controller");

/* The controllers of v2 that cgroup.controllers must list. The functions of v1's cpuacct and
 * freezer (cpu.stat, cgroup.freeze) exist in every v2 directory. */
static const uint32_t v2_listed =
    1U << CG_MEMORY | 1U << CG_CPU | 1U << CG_PIDS | 1U << CG_IO | 1U << CG_CPUSET;
static const uint32_t v2_always = 1U << CG_CPUACCT | 1U << CG_FREEZER;

/* A mount found in mountinfo, before it is opened. */
struct candidate {
    char *path; /* owned */
    int version;
    dev_t dev;
    bool whole; /* the mount shows the hierarchy's root */
    uint32_t has;
};

struct candidates {
    struct candidate v[CG_HIERARCHIES_MAX];
    int count;
    uint32_t read_only;
    bool read_only_v2;
};

const char *cgroup_controller_name(enum cgroup_controller c)
{
    assert((unsigned)c < CG_CONTROLLER_MAX);
    return controller_names[c];
}

const char *cg_name(int version, enum cgroup_controller c)
{
    return version == 1 && c == CG_IO ? "blkio" : cgroup_controller_name(c);
}

static uint32_t named_controllers(int version, const char *options)
{
    uint32_t has = 0;

    for (unsigned i = 0; i < CG_CONTROLLER_MAX; i++)
        if (mountinfo_has_option(options, cg_name(version, (enum cgroup_controller)i)))
            has |= 1U << i;
    return has;
}

/* Returns the cgroup version of a mount, or 0 if it is unusable: another file system, a named v1
 * hierarchy, "noprefix" file names, or a detached mount ("//deleted"). */
static int useful_version(const struct mountinfo_entry *e, uint32_t *ret_has)
{
    *ret_has = 0;
    if (strcmp(e->fstype, "cgroup2") == 0)
        return 2;
    if (strcmp(e->fstype, "cgroup") != 0 || mountinfo_has_option(e->super_options, "noprefix"))
        return 0;
    *ret_has = named_controllers(1, e->super_options);
    return *ret_has != 0 ? 1 : 0;
}

static struct candidate *same_hierarchy(struct candidates *all, int version, dev_t dev)
{
    for (int i = 0; i < all->count; i++) {
        struct candidate *c = &all->v[i];

        /* A kernel has one v2 hierarchy, though each cgroup namespace mounts it with another device
         * number. */
        if (c->version == version && (version == 2 || c->dev == dev))
            return c;
    }
    return NULL;
}

/* The first mount of a hierarchy is used, unless a later one shows the whole hierarchy. */
static int candidates_consider(struct candidates *all, const struct mountinfo_entry *e)
{
    dev_t dev = makedev(e->major, e->minor);
    bool whole = strcmp(e->root, "/") == 0;
    struct candidate *c;
    uint32_t has;
    int version;
    char *path;

    version = useful_version(e, &has);
    if (version == 0)
        return 0;
    if (mountinfo_has_option(e->options, "ro") || mountinfo_has_option(e->super_options, "ro")) {
        all->read_only |= version == 2 ? v2_listed | v2_always : has;
        all->read_only_v2 = all->read_only_v2 || version == 2;
        return 0;
    }
    c = same_hierarchy(all, version, dev);
    if (c != NULL && (c->whole || !whole))
        return 0;
    if (c == NULL && all->count == CG_HIERARCHIES_MAX)
        return 0; /* more mounts than there are controllers: these are repetitions */

    path = strdup(e->mount_point);
    if (path == NULL)
        return -ENOMEM;
    if (c == NULL)
        c = &all->v[all->count++];
    free(c->path);
    *c = (struct candidate){
        .path = path, .version = version, .dev = dev, .whole = whole, .has = has};
    return 0;
}

static void candidates_done(struct candidates *all)
{
    for (int i = 0; i < all->count; i++)
        free(all->v[i].path);
}

static int find_candidates(char *text, size_t len, struct candidates *all, struct err *err)
{
    struct mountinfo_entry e;
    struct mountinfo m;
    int r;

    mountinfo_init(&m, text, len);
    while ((r = mountinfo_next(&m, &e)) != 0) {
        if (r < 0)
            continue; /* not a line that a kernel writes; a start must not depend on it */
        r = candidates_consider(all, &e);
        if (r < 0)
            return err_errno(err, r, "mountinfo, line %u", m.line);
    }
    return 0;
}

static uint32_t v2_controllers(int root_fd)
{
    char text[CG_SMALL_MAX];

    if (cg_read(root_fd, "cgroup.controllers", text) < 0)
        return v2_always;
    for (char *p = text; *p != '\0'; p++)
        if (*p == ' ' || *p == '\n')
            *p = ',';
    return (named_controllers(2, text) & v2_listed) | v2_always;
}

/* Asks the kernel what the mount point is: mountinfo can be out of date, and contains text from
 * users' file systems. */
static bool is_cgroup_mount(int fd, const struct candidate *c)
{
    struct statfs fs;
    struct stat st;

    if (fstat(fd, &st) < 0 || st.st_dev != c->dev || fstatfs(fd, &fs) < 0)
        return false;
    return fs.f_type == (c->version == 2 ? CGROUP2_SUPER_MAGIC : CGROUP_SUPER_MAGIC);
}

/* A mount point that cannot be opened, or is no longer what mountinfo says, is left out. */
static void open_hierarchy(struct cgroup_host *h, struct candidate *c)
{
    struct cg_hierarchy *hier = &h->hier[h->count];
    auto_close int fd = FD_NONE;

    fd = open(c->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || !is_cgroup_mount(fd, c))
        return;
    hier->path = take(c->path);
    hier->version = c->version;
    hier->has = c->version == 2 ? v2_controllers(fd) : c->has;
    hier->rind_fd = FD_NONE;
    hier->root_fd = take_fd(&fd);
    if (c->version == 2)
        h->v2 = h->count;
    h->count++;
}

/* A controller is in v1 or in v2, never both. What every v2 directory can do is done in v2. */
static void choose_homes(struct cgroup_host *h)
{
    for (unsigned c = 0; c < CG_CONTROLLER_MAX; c++) {
        h->home[c] = CG_NOWHERE;
        for (int i = 0; i < h->count; i++) {
            if ((h->hier[i].has & 1U << c) == 0)
                continue;
            if (h->home[c] == CG_NOWHERE || h->hier[i].version == 2)
                h->home[c] = i;
        }
    }
}

int cg_host_from_mountinfo(char *text, size_t len, struct cgroup_host **ret, struct err *err)
{
    auto_ptr(cgroup_host_free) struct cgroup_host *h = NULL;
    struct candidates all = {0};
    int r;

    h = calloc(1, sizeof(*h));
    if (h == NULL)
        return err_errno(err, -ENOMEM, "cgroups");
    h->v2 = CG_NOWHERE;

    r = find_candidates(text, len, &all, err);
    for (int i = 0; r == 0 && i < all.count; i++)
        open_hierarchy(h, &all.v[i]);
    h->read_only = all.read_only;
    h->read_only_v2 = all.read_only_v2;
    candidates_done(&all);
    if (r < 0)
        return r;
    choose_homes(h);
    *ret = take(h);
    return 0;
}

int cgroup_host_open(struct cgroup_host **ret, struct err *err)
{
    auto_close int fd = FD_NONE;
    auto_free char *text = NULL;
    size_t len;
    int r;

    fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, -errno, "/proc/self/mountinfo");
    r = file_read_fd(fd, MOUNTINFO_TEXT_MAX, &text, &len, err);
    if (r < 0)
        return err_wrap(err, r, "/proc/self/mountinfo");
    return cg_host_from_mountinfo(text, len, ret, err);
}

void cgroup_host_free(struct cgroup_host *h)
{
    if (h == NULL)
        return;
    for (int i = 0; i < h->count; i++) {
        free(h->hier[i].path);
        (void)close(h->hier[i].root_fd);
        cg_rind_forget(&h->hier[i]);
    }
    free(h);
}

enum cgroup_mode cgroup_host_mode(const struct cgroup_host *h)
{
    if (h->count == 0)
        return CG_MODE_NONE;
    if (h->v2 == CG_NOWHERE)
        return CG_MODE_V1;
    return h->count == 1 ? CG_MODE_V2 : CG_MODE_HYBRID;
}

int cgroup_host_controller(const struct cgroup_host *h, enum cgroup_controller c)
{
    assert((unsigned)c < CG_CONTROLLER_MAX);
    return h->home[c] == CG_NOWHERE ? 0 : h->hier[h->home[c]].version;
}

bool cgroup_host_read_only(const struct cgroup_host *h)
{
    return h->read_only != 0;
}

bool cgroup_host_read_only_v2(const struct cgroup_host *h)
{
    return h->v2 == CG_NOWHERE && h->read_only_v2;
}

bool cgroup_host_controller_read_only(const struct cgroup_host *h, enum cgroup_controller c)
{
    assert((unsigned)c < CG_CONTROLLER_MAX);
    return h->home[c] == CG_NOWHERE && (h->read_only & 1U << c) != 0;
}

/* Makes the probe directory below `rind` if that exists, as sandboxes' directories are: `rind` may
 * belong to another user. */
int cgroup_host_try(const struct cgroup_host *h, enum cgroup_controller c, struct err *err)
{
    const struct cg_hierarchy *hier;
    char name[sizeof(RIND_DIR "/probe-") + 12];
    struct stat st;

    assert((unsigned)c < CG_CONTROLLER_MAX && h->home[c] != CG_NOWHERE);
    hier = &h->hier[h->home[c]];
    if (fstatat(hier->root_fd, RIND_DIR, &st, AT_SYMLINK_NOFOLLOW) < 0)
        (void)snprintf(name, sizeof(name), RIND_DIR "-probe-%d", (int)getpid());
    else
        (void)snprintf(name, sizeof(name), RIND_DIR "/probe-%d", (int)getpid());
    if (mkdirat(hier->root_fd, name, 0755) < 0 && errno != EEXIST)
        return err_errno(err, -errno, "uid %u cannot make cgroups in %s", (unsigned)geteuid(),
                         hier->path);
    if (unlinkat(hier->root_fd, name, AT_REMOVEDIR) < 0)
        return err_errno(err, -errno, "cannot remove %s/%s", hier->path, name);
    return 0;
}

void cg_rind_forget(struct cg_hierarchy *hier)
{
    if (hier->rind_fd >= 0)
        (void)close(take_fd(&hier->rind_fd));
    hier->enabled = 0;
    hier->all_ready = false;
}

int cg_rind_open(struct cg_hierarchy *hier, bool make, struct err *err)
{
    auto_close int fd = FD_NONE;
    struct stat root, st;
    int r;

    if (hier->rind_fd >= 0)
        return 0;
    if (make && mkdirat(hier->root_fd, RIND_DIR, 0755) < 0 && errno != EEXIST)
        return err_errno(err, -errno, "make %s/" RIND_DIR, hier->path);
    fd = openat(hier->root_fd, RIND_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT && !make)
        return -ENOENT;
    if (fd < 0)
        return err_errno(err, -errno, "%s/" RIND_DIR, hier->path);
    if (fstat(fd, &st) < 0 || fstat(hier->root_fd, &root) < 0)
        return err_errno(err, -errno, "%s/" RIND_DIR, hier->path);
    if (st.st_dev != root.st_dev)
        return err_set(err, -EPERM, "%s/" RIND_DIR ": something else is mounted there", hier->path);
    /* The owner of `rind` could move processes and change limits below it. */
    if (st.st_uid != geteuid())
        return err_set(err, -EPERM, "%s/" RIND_DIR ": belongs to uid %u, not to rind", hier->path,
                       (unsigned)st.st_uid);
    /* cgroup.max.depth is set once for all sandboxes; a descendant's depth counts from here. */
    if (make && hier->version == 2) {
        r = cg_write_number(fd, "cgroup.max.depth", CG_DEPTH_MAX + 1);
        if (r < 0)
            return err_errno(err, r, "%s/" RIND_DIR "/cgroup.max.depth", hier->path);
    }
    hier->rind_fd = take_fd(&fd);
    return 0;
}
