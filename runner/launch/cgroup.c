/*
 * Makes, opens and removes the cgroup directories of one sandbox. In the v2 tree, if there is one:
 * `rind/<id>` with `exec` below it for the sandbox's init. In v1: `rind/<id>` in the hierarchies of
 * the controllers that its limits need. Without v2 also in those used to freeze, kill and account.
 *
 * On v1 a sandbox with a memory or CPU limit always has directories in memory, cpu and cpuacct. It
 * also enters `rind/_all` of cpuset, which restricts nothing. The JDK (17, 21) ignores all limits
 * if one of these four is not mounted inside, or if a mount's root and the process's cgroup path
 * differ. Each v1 directory costs 40 us at the start (Linux 6.18) and 20 us at the removal, so no
 * other is made.
 *
 * Runs in the launcher.
 */

#include "launch/cgroup.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/auto.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/file.h"
#include "launch/cgroup-internal.h"

#define ALL_DIR "_all" /* not a valid id: ids have no `_` */

enum {
    /* Bounds the exec cgroups (one per exec) that a sandbox can make, as they take host kernel
     * memory. */
    DESCENDANTS_MAX = 4096,
    /* Since Linux 6.19 a process leaves its cgroup shortly after its parent has reaped it. */
    RMDIR_TRIES = 50,
    RMDIR_PAUSE_NSEC = 200000,
};

static void assert_id(const char *id)
{
    size_t len = strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-");

    assert(len > 0 && len <= CG_ID_MAX && id[len] == '\0');
}

static struct cgroup *cgroup_new(const struct cgroup_host *h)
{
    struct cgroup *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return NULL;
    c->v2 = CG_NOWHERE;
    c->exec_fd = FD_NONE;
    for (int i = 0; i < CG_HIERARCHIES_MAX; i++) {
        c->dir_fd[i] = c->seen_fd[i] = FD_NONE;
        c->version[i] = h->hier[i].version;
    }
    for (int i = 0; i < CG_CONTROLLER_MAX; i++)
        c->home[i] = CG_NOWHERE;
    return c;
}

void cgroup_done_starting(struct cgroup *c)
{
    for (int i = 0; i < CG_HIERARCHIES_MAX; i++)
        if (c->seen_fd[i] >= 0)
            (void)close(take_fd(&c->seen_fd[i]));
}

void cgroup_free(struct cgroup *c)
{
    if (c == NULL)
        return;
    for (int i = 0; i < CG_HIERARCHIES_MAX; i++)
        if (c->dir_fd[i] >= 0)
            (void)close(c->dir_fd[i]);
    if (c->exec_fd >= 0)
        (void)close(c->exec_fd);
    cgroup_done_starting(c);
    free(c);
}

/* Sets the hierarchy of each controller, once the sandbox's directories are open. */
static void cgroup_set_homes(const struct cgroup_host *h, struct cgroup *c)
{
    for (int i = 0; i < CG_CONTROLLER_MAX; i++)
        if (h->home[i] != CG_NOWHERE && c->dir_fd[h->home[i]] >= 0)
            c->home[i] = h->home[i];
    if (h->v2 != CG_NOWHERE && c->dir_fd[h->v2] >= 0)
        c->v2 = h->v2;
}

static int open_dir(int dirfd, const char *name)
{
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

    return fd < 0 ? -errno : fd;
}

static int hierarchy_make_dir(struct cg_hierarchy *hier, const char *id, struct err *err)
{
    int r;

    r = cg_rind_open(hier, true, err);
    if (r < 0)
        return r;
    if (mkdirat(hier->rind_fd, id, 0755) == 0)
        return 0;
    if (errno == ENOENT || errno == ENODEV) {
        /* Another process has removed the empty `rind` directory: make it again, once. */
        cg_rind_forget(hier);
        r = cg_rind_open(hier, true, err);
        if (r < 0)
            return r;
        if (mkdirat(hier->rind_fd, id, 0755) == 0)
            return 0;
    }
    return err_errno(err, -errno, "make %s/rind/%s", hier->path, id);
}

/*
 * Hands exec/ to the sandbox's init, which runs in it. Moving a process into an exec cgroup needs
 * write access to cgroup.procs of the common ancestor, which is exec/ itself.
 *
 * The sandbox's own directory is not delegated. The sandbox can open it (cgroup-view.c), and must
 * not be able to start a process there, out of reach of freeze and time-out.
 */
static int cgroup_delegate_exec(struct cgroup *c, uid_t uid, struct err *err)
{
    const int dir_fd = c->dir_fd[c->v2];

    if (mkdirat(dir_fd, CGROUP_EXEC, 0755) < 0)
        return err_errno(err, -errno, "make the cgroup " CGROUP_EXEC);
    c->exec_fd = open_dir(dir_fd, CGROUP_EXEC);
    if (c->exec_fd < 0)
        return err_errno(err, c->exec_fd, "the cgroup " CGROUP_EXEC);
    if (fchown(c->exec_fd, uid, (gid_t)-1) < 0 ||
        fchownat(c->exec_fd, "cgroup.procs", uid, (gid_t)-1, AT_SYMLINK_NOFOLLOW) < 0)
        return err_errno(err, -errno, "hand the cgroup " CGROUP_EXEC " to uid %u", (unsigned)uid);
    return 0;
}

/* True if the sandbox is shown its memory or CPU limits. Programs inside then look for more
 * controllers than the limited ones. */
static bool is_seen(uint32_t controllers, uid_t init_uid)
{
    return init_uid != CGROUP_NOBODY && (controllers & (1U << CG_MEMORY | 1U << CG_CPU)) != 0;
}

/* Bit i: programs look for a controller in v1 hierarchy i, whether or not it limits this sandbox.
 */
static uint32_t looked_for_hierarchies(const struct cgroup_host *h)
{
    const uint32_t looked_for = 1U << CG_MEMORY | 1U << CG_CPU | 1U << CG_CPUACCT;
    uint32_t hiers = 0;

    for (int i = 0; i < h->count; i++)
        if (h->hier[i].version == 1 && (h->hier[i].has & looked_for) != 0 &&
            (h->hier[i].has & 1U << CG_CPUSET) == 0)
            hiers |= 1U << i;
    return hiers;
}

/* Bit i: the sandbox needs a directory in hierarchy i. */
static uint32_t needed_hierarchies(const struct cgroup_host *h, uint32_t controllers)
{
    uint32_t hiers = 0;

    if (h->v2 == CG_NOWHERE)
        controllers |= 1U << CG_FREEZER | 1U << CG_CPUACCT;
    else
        hiers |= 1U << h->v2;
    for (unsigned c = 0; c < CG_CONTROLLER_MAX; c++)
        if ((controllers & 1U << c) != 0 && h->home[c] != CG_NOWHERE)
            hiers |= 1U << h->home[c];
    return hiers;
}

/* Makes the directories of `hiers` and opens them into fds. *made is valid after a failure, too: it
 * names the directories to undo. */
static int make_dirs(struct cgroup_host *h, int fds[CG_HIERARCHIES_MAX], const char *id,
                     uint32_t hiers, uint32_t *made, struct err *err)
{
    for (int i = 0; i < h->count; i++) {
        int r;

        if ((hiers & 1U << i) == 0)
            continue;
        r = hierarchy_make_dir(&h->hier[i], id, err);
        if (r < 0)
            return r;
        *made |= 1U << i;
        fds[i] = open_dir(h->hier[i].rind_fd, id);
        if (fds[i] < 0)
            return err_errno(err, fds[i], "%s/rind/%s", h->hier[i].path, id);
    }
    return 0;
}

/* Copies a control file of the cpuset root to `rind` and to a directory below it. Returns 0 or a
 * negative errno. */
static int cpuset_copy_down(const struct cg_hierarchy *hier, int dir_fd, const char *file)
{
    char text[CG_SMALL_MAX];
    int r = cg_read(hier->root_fd, file, text);

    if (r == 0)
        r = file_poke_at(hier->rind_fd, file, text);
    return r == 0 ? file_poke_at(dir_fd, file, text) : r;
}

int cg_cpuset_prepare(const struct cg_hierarchy *hier, int dir_fd)
{
    int r = cpuset_copy_down(hier, dir_fd, "cpuset.cpus");

    return r == 0 ? cpuset_copy_down(hier, dir_fd, "cpuset.mems") : r;
}

/* Opens the cpuset (v1) directory that all sandboxes share, or returns FD_NONE. The kernel requires
 * cpuset.cpus and cpuset.mems to be written before a process can enter it. If the host refuses,
 * sandboxes start without it, and the JDK sees no limits in them. */
static int cpuset_all(struct cgroup_host *h)
{
    auto_close int fd = FD_NONE;
    struct cg_hierarchy *hier;

    hier = &h->hier[h->home[CG_CPUSET]];
    if ((hier->has & ~(1U << CG_CPUSET)) != 0 || cg_rind_open(hier, true, NULL) < 0)
        return FD_NONE;
    if (mkdirat(hier->rind_fd, ALL_DIR, 0755) < 0 && errno != EEXIST) {
        cg_rind_forget(hier); /* `rind` may have been removed: the next start makes it again */
        return FD_NONE;
    }
    fd = open_dir(hier->rind_fd, ALL_DIR);
    if (fd < 0 || (!hier->all_ready && cg_cpuset_prepare(hier, fd) < 0))
        return FD_NONE;
    hier->all_ready = true;
    return take_fd(&fd);
}

static int make_seen(struct cgroup_host *h, struct cgroup *c, const char *id, uint32_t needed,
                     uint32_t *made, struct err *err)
{
    int r = make_dirs(h, c->seen_fd, id, looked_for_hierarchies(h) & ~needed, made, err);

    if (r == 0 && h->home[CG_CPUSET] != CG_NOWHERE && c->dir_fd[h->home[CG_CPUSET]] < 0)
        c->seen_fd[h->home[CG_CPUSET]] = cpuset_all(h);
    return r;
}

/* v1: a new cpuset takes no process before it has processors and memory nodes. */
static int cgroup_prepare_cpuset(const struct cgroup_host *h, const struct cgroup *c,
                                 struct err *err)
{
    const int home = c->home[CG_CPUSET];
    int r = 0;

    if (home != CG_NOWHERE && c->version[home] == 1)
        r = cg_cpuset_prepare(&h->hier[home], c->dir_fd[home]);
    return r < 0
               ? err_errno(err, r, "cpuset: give %s/rind the host's processors", h->hier[home].path)
               : 0;
}

static int cgroup_fill(struct cgroup_host *h, struct cgroup *c, const char *id, uint32_t need,
                       const struct cgroup_limits *limits, uid_t init_uid, uint32_t *made,
                       struct err *err)
{
    const uint32_t wish = cg_limits_wish(h, limits) & ~need;
    const uint32_t needed = needed_hierarchies(h, need | wish);
    int r;

    r = make_dirs(h, c->dir_fd, id, needed, made, err);
    if (r < 0)
        return r;
    cgroup_set_homes(h, c);
    r = cgroup_prepare_cpuset(h, c, err);
    if (r < 0)
        return r;
    /* cg_enable comes after make_dirs, which opens `rind`. The control files appear in the new
     * directory at this moment. */
    r = cg_enable(h, need, err);
    if (r < 0)
        return r;
    (void)cg_enable(h, wish, NULL);
    r = cg_limits_apply(h, c, limits, false, err);
    if (r == 0 && is_seen(need, init_uid))
        r = make_seen(h, c, id, needed, made, err);
    if (r < 0 || c->v2 == CG_NOWHERE)
        return r;
    r = cg_write_number(c->dir_fd[c->v2], "cgroup.max.descendants",
                        init_uid == CGROUP_NOBODY ? 0 : DESCENDANTS_MAX);
    if (r < 0)
        return err_errno(err, r, "%s/rind/%s/cgroup.max.descendants", h->hier[c->v2].path, id);
    return init_uid == CGROUP_NOBODY ? 0 : cgroup_delegate_exec(c, init_uid, err);
}

/* Removes what this failed start has made. An id that existed before stays as it is. */
static void cgroup_undo_create(struct cgroup_host *h, const char *id, struct cgroup *c,
                               uint32_t made)
{
    for (int i = 0; i < h->count; i++) {
        if ((made & 1U << i) == 0)
            continue;
        if (c->dir_fd[i] >= 0 && i == h->v2)
            (void)unlinkat(c->dir_fd[i], CGROUP_EXEC, AT_REMOVEDIR);
        (void)unlinkat(h->hier[i].rind_fd, id, AT_REMOVEDIR);
    }
}

int cgroup_create(struct cgroup_host *h, const char *id, const struct cgroup_limits *limits,
                  uid_t init_uid, struct cgroup **ret, struct err *err)
{
    auto_ptr(cgroup_free) struct cgroup *c = NULL;
    uint32_t need, made = 0;
    mode_t mask;
    int r;

    assert_id(id);
    r = cg_limits_check(limits, err);
    if (r < 0)
        return r;
    need = cg_limits_need(limits);
    r = cg_require(h, need, err);
    if (r < 0)
        return r;
    c = cgroup_new(h);
    if (c == NULL)
        return err_errno(err, -ENOMEM, "cgroup");

    /* the sandbox must be able to read them, whatever umask rind was started with */
    mask = umask(022);
    r = cgroup_fill(h, c, id, need, limits, init_uid, &made, err);
    (void)umask(mask);
    if (r < 0) {
        cgroup_undo_create(h, id, c, made);
        return r;
    }
    *ret = take(c);
    return 0;
}

/* True if the hierarchy may have a directory of a sandbox. */
static bool has_a_job(const struct cgroup_host *h, int hierarchy)
{
    for (int i = 0; i < CG_CONTROLLER_MAX; i++)
        if (h->home[i] == hierarchy)
            return true;
    return false;
}

/* Returns 1 when opened, 0 when there is none, or a negative errno. */
static int open_existing(struct cg_hierarchy *hier, const char *id, int *ret, struct err *err)
{
    int r;

    r = cg_rind_open(hier, false, err);
    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return r;
    r = open_dir(hier->rind_fd, id);
    if (r == -ENOENT || r == -ENODEV)
        return 0;
    if (r < 0)
        return err_errno(err, r, "%s/rind/%s", hier->path, id);
    *ret = r;
    return 1;
}

int cgroup_open(struct cgroup_host *h, const char *id, struct cgroup **ret, struct err *err)
{
    auto_ptr(cgroup_free) struct cgroup *c = NULL;
    int found = 0, r;

    assert_id(id);
    c = cgroup_new(h);
    if (c == NULL)
        return err_errno(err, -ENOMEM, "cgroup");
    for (int i = 0; i < h->count; i++) {
        if (!has_a_job(h, i))
            continue;
        r = open_existing(&h->hier[i], id, &c->dir_fd[i], err);
        if (r < 0)
            return r;
        found += r;
    }
    if (found == 0)
        return err_set(err, -ENOENT, "no cgroup of '%s'", id);

    cgroup_set_homes(h, c);
    if (c->v2 != CG_NOWHERE) {
        r = open_dir(c->dir_fd[c->v2], CGROUP_EXEC);
        /* A start that died half way has no exec/; its cgroup can still be killed and removed. */
        if (r < 0 && r != -ENOENT)
            return err_errno(err, r, "the cgroup " CGROUP_EXEC " of '%s'", id);
        c->exec_fd = r < 0 ? FD_NONE : r;
    }
    *ret = take(c);
    return 0;
}

/* ---- changes while it runs ---- */

/* Opens the directories that a changed limit needs, and makes those that are missing. Bit i of
 * *ret_new: hierarchy i has one now, and the processes have to be moved into it. */
static int update_open_dirs(struct cgroup_host *h, struct cgroup *c, const char *id, uint32_t hiers,
                            uint32_t *ret_new, struct err *err)
{
    uint32_t made = 0;

    for (int i = 0; i < h->count; i++) {
        int r;

        if ((hiers & 1U << i) == 0 || c->dir_fd[i] >= 0)
            continue;
        r = open_existing(&h->hier[i], id, &c->dir_fd[i], err);
        if (r == 0)
            r = make_dirs(h, c->dir_fd, id, 1U << i, &made, err);
        if (r < 0)
            return r;
        *ret_new |= 1U << i;
    }
    return 0;
}

/* The v1 directory that has all processes of the sandbox, before new ones are opened. */
static int update_find_source(const struct cgroup *c)
{
    for (int i = 0; i < CG_HIERARCHIES_MAX; i++)
        if (c->dir_fd[i] >= 0 && c->version[i] == 1)
            return c->dir_fd[i];
    return FD_NONE;
}

int cgroup_update(struct cgroup_host *h, struct cgroup *c, const char *id,
                  const struct cgroup_limits *limits, struct err *err)
{
    const uint32_t need = cg_limits_need(limits);
    const int source_fd = update_find_source(c);
    uint32_t wish, hiers, new = 0;
    int r;

    assert_id(id);
    r = cg_limits_check(limits, err);
    if (r == 0)
        r = cg_require(h, need, err);
    if (r < 0)
        return r;
    wish = cg_limits_wish(h, limits) & ~need;
    hiers = needed_hierarchies(h, need | wish);
    r = update_open_dirs(h, c, id, hiers, &new, err);
    if (r < 0)
        return r;
    cgroup_set_homes(h, c);
    if ((need & 1U << CG_CPUSET) != 0 && (new & 1U << h->home[CG_CPUSET]) != 0) {
        r = cgroup_prepare_cpuset(h, c, err);
        if (r < 0)
            return r;
    }
    r = cg_enable(h, need, err);
    if (r < 0)
        return r;
    (void)cg_enable(h, wish, NULL);
    r = cg_limits_apply(h, c, limits, true, err);
    for (int i = 0; r == 0 && i < h->count; i++)
        if ((new & 1U << i) != 0)
            r = cg_move_processes(source_fd, c->dir_fd[i], err);
    return r;
}

int cgroup_v2_fd(const struct cgroup *c)
{
    return c->v2 == CG_NOWHERE ? FD_NONE : c->dir_fd[c->v2];
}

int cgroup_exec_fd(const struct cgroup *c)
{
    return c->exec_fd;
}

int cgroup_open_tasks(const struct cgroup *c, int fds[CGROUP_TASKS_MAX], int *ret_count,
                      struct err *err)
{
    int count = 0;

    for (int i = 0; i < CG_HIERARCHIES_MAX; i++) {
        const int dir_fd = c->dir_fd[i] >= 0 ? c->dir_fd[i] : c->seen_fd[i];
        int fd;

        if (dir_fd < 0 || i == c->v2)
            continue;
        fd = openat(dir_fd, "tasks", O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0) {
            int r = err_errno(err, -errno, "open the tasks of a v1 cgroup");

            while (count > 0)
                (void)close(fds[--count]);
            return r;
        }
        fds[count++] = fd;
    }
    *ret_count = count;
    return 0;
}

int cgroup_enter(const int *tasks, int count)
{
    for (int i = 0; i < count; i++)
        if (write(tasks[i], "0", 1) != 1)
            return -errno;
    return 0;
}

/* True if rmdir's EBUSY is due only to processes that have exited already. */
static bool is_empty_of_processes(int dirfd, const char *name)
{
    auto_close int fd = FD_NONE;
    char text[CG_SMALL_MAX];

    fd = open_dir(dirfd, name);
    return fd >= 0 && cg_read(fd, "cgroup.procs", text) == 0 && text[0] == '\0';
}

/* rmdir of one directory without children. A missing one is fine; -EBUSY while a process is in it.
 */
static int remove_leaf(int dirfd, const char *name)
{
    const struct timespec pause = {.tv_nsec = RMDIR_PAUSE_NSEC};

    for (int i = 0; i < RMDIR_TRIES; i++) {
        if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0 || errno == ENOENT || errno == ENODEV)
            return 0;
        if (errno != EBUSY)
            return -errno;
        if (!is_empty_of_processes(dirfd, name))
            return -EBUSY;
        (void)nanosleep(&pause, NULL);
    }
    return -EBUSY;
}

static int remove_tree(int dirfd, const char *name, int depth);

static int remove_children(int at, const char *name, int depth)
{
    auto_ptr(dir_close) DIR *d = dir_open(at, name);
    const struct dirent *e;
    int r = 0;

    if (d == NULL)
        return errno == ENOENT || errno == ENODEV ? 0 : -errno;
    while (r == 0 && (e = dir_next(d)) != NULL)
        if (e->d_type == DT_DIR)
            r = remove_tree(dirfd(d), e->d_name, depth - 1);
    return r;
}

/* Removes children first. Init names the directories below exec/, but cgroup.max.depth limits their
 * depth to CG_DEPTH_MAX. */
static int remove_tree(int dirfd, const char *name, int depth)
{
    int r;

    if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0 || errno == ENOENT || errno == ENODEV)
        return 0;
    if (errno != EBUSY && errno != ENOTEMPTY)
        return -errno;
    if (depth == 0)
        return -ELOOP;
    r = remove_children(dirfd, name, depth);
    return r < 0 ? r : remove_leaf(dirfd, name);
}

/* Removes the directories that init makes in each sandbox without walking the tree. cgroupfs has no
 * symbolic links. */
static void remove_usual(int rind_fd, const char *id)
{
    static const char *const dirs[] = {CGROUP_EXEC "/u", CGROUP_EXEC "/h", CGROUP_EXEC};
    char path[CG_ID_MAX + sizeof("/" CGROUP_EXEC "/u")];

    for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", id, dirs[i]);
        (void)unlinkat(rind_fd, path, AT_REMOVEDIR);
    }
}

int cgroup_remove(struct cgroup_host *h, const char *id, struct err *err)
{
    int first = 0;

    assert_id(id);
    /* A failure in one hierarchy does not keep the others from being removed. */
    for (int i = 0; i < h->count; i++) {
        struct cg_hierarchy *hier = &h->hier[i];
        int r;

        r = cg_rind_open(hier, false, err);
        if (r == 0) {
            if (i == h->v2)
                remove_usual(hier->rind_fd, id);
            r = remove_tree(hier->rind_fd, id, CG_DEPTH_MAX + 1);
            if (r < 0 && first == 0)
                (void)err_errno(err, r, "remove %s/rind/%s", hier->path, id);
        }
        if (r < 0 && r != -ENOENT && first == 0)
            first = r;
    }
    return first;
}

static void sweep_hierarchy(struct cg_hierarchy *hier, const char *prefix)
{
    auto_ptr(dir_close) DIR *d = NULL;
    const struct dirent *e;

    if (cg_rind_open(hier, false, NULL) == 0)
        d = dir_open(hier->rind_fd, ".");
    while (d != NULL && (e = dir_next(d)) != NULL)
        if (e->d_type == DT_DIR && strncmp(e->d_name, prefix, strlen(prefix)) == 0)
            (void)unlinkat(hier->rind_fd, e->d_name, AT_REMOVEDIR); /* EBUSY: a process is in it */
}

void cgroup_sweep(struct cgroup_host *h, const char *prefix)
{
    for (int i = 0; i < h->count; i++)
        sweep_hierarchy(&h->hier[i], prefix);
}
