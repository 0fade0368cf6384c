#include "launch/launcher.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "launch/cgroup.h"
#include "launch/disks.h"
#include "launch/janitor.h"
#include "launch/network.h"
#include "launch/sandbox.h"
#include "proto/plan.h"

enum {
    SPARE_FDS = 25,       /* for all fds that a start holds to its end, and for removing a tree */
    UNDO_TIMEOUT_MS = 10, /* for the processes of a failed start, while other clients wait */
};

/* ---- starting ---- */

enum {
    /* Index in start.fds of the first fd for an operation. */
    FIRST_OP = PLAN_FD_OPS - PLAN_FD,

    /* Root, /dev, /sys, mask, the directory of cgroups, two files of processors; cgroups; files of
     * /etc; volumes and their locks; mounts that the root and the sandbox's tmpfs were made of; the
     * lock of the id range, the hosts file, resolv.conf, a socket. */
    START_FDS_MAX = FIRST_OP + 7 + CGROUP_VIEW_PARTS_MAX + ETC_FILES + 2 * LAUNCH_VOLUMES_MAX +
                    ROOT_SOURCES_MAX + 1 + 1 + 1 + 1 + 1,
};

/* The state of one start, until it has succeeded. */
struct start {
    struct launcher *l;
    struct launch_sandbox *s;       /* owned */
    const struct launch_request *q; /* borrowed */
    struct plan_mounts mounts;
    int fds[START_FDS_MAX]; /* owned from FIRST_OP on; what init gets, at PLAN_FD and up */
    int count;              /* fds in use; the first GO carries init's program separately */
    /* owned; `stages` is closed by this start, `control` becomes the caller's */
    struct boot_ends ends;
    int userns_fd, plan_fd; /* owned */
    /* owned; maps the ids of volumes to the sandbox's; opened for the first volume */
    int volumes_userns;
    struct root_sources sources; /* owned; closed once init has its copies */
    int net_ns;                  /* owned; the net namespace that init joins, or FD_NONE */
    int own;                     /* owned; own_mounts.whole, closed once init has its copy */
    int resolv_fd;               /* owned; its resolv.conf, if it follows the host's */
    struct cgroup_view cgroups;  /* owned until step_own has added its parts */
    bool on_some_cpus;           /* the sandbox is started on `cpus` alone */
    cpu_set_t cpus;
    struct volume_look look; /* the search of volumes for set-id files, which runs meanwhile */
    bool reopened;           /* the files existed before: they stay when the start fails */
};

static int start_add_mount(struct start *st, int fd)
{
    assert(st->count < START_FDS_MAX);
    st->fds[st->count] = fd;
    st->mounts.count++;
    return st->count++ - FIRST_OP;
}

/* Sets the creator of a new sandbox. */
static int step_creator(struct start *st, struct err *err)
{
    if (st->l->clients.len == 0)
        return 0; /* no client: the launcher's own process asks, as the owner */
    return creator_ask(st->q->client_fd, &st->l->clients, st->s->creator, err);
}

/* An existing kept sandbox is started again with its own files, ids and creator; everything else is
 * new. */
static int step_reopen(struct start *st, struct err *err)
{
    auto_free char *owner = NULL;
    int r;

    if (!st->s->kept)
        return 0;
    r = sandbox_dir_open(st->l, st->s, err);
    if (r == -ENOENT)
        return 0;
    /* Even if it cannot be started: its files are not this start's to remove. */
    st->reopened = true;
    if (r == 0)
        r = sandbox_dir_whole(st->s, err);
    if (r == 0)
        r = creator_load(st->s->dir_fd, KEEP_FILE, st->s->creator, err);
    if (r < 0)
        return r;
    owner = sandbox_owner(st->l, st->s->id);
    if (owner == NULL)
        return err_errno(err, -ENOMEM, "start sandbox");
    return idrange_retake(st->l->ids_fd, st->s->ids.base, owner, &st->s->ids, err);
}

/* True if the sandbox may mount. By a mount of its own it could get around a guard (plan-build.c).
 * So it gets no guard for a user's directory, and does not start with root's. */
static bool may_mount(const struct launch_request *q)
{
    return (q->capabilities & UINT64_C(1) << CAP_SYS_ADMIN) != 0;
}

/* True if the sandbox may need a guard; known before its volumes are opened. */
static bool may_be_guarded(const struct launch_request *q)
{
    for (size_t i = 0; i < q->volume_count; i++)
        if (!q->volumes[i].named && !q->volumes[i].read_only)
            return !may_mount(q);
    return false;
}

static int start_take_ids(struct start *st, struct err *err)
{
    struct launcher *l = st->l;

    return may_be_guarded(st->q)
               ? idrange_take_guarded(l->ids_fd, l->avoid, l->avoid_count, &st->s->ids, err)
               : idrange_take(l->ids_fd, l->avoid, l->avoid_count, &st->s->ids, err);
}

static int step_ids(struct start *st, struct err *err)
{
    int r;

    if (st->reopened)
        return 0;
    r = start_take_ids(st, err);
    /* Ranges that the janitor still holds are freed first. */
    return r == -ENOSPC && janitor_flush(st->l) ? start_take_ids(st, err) : r;
}

static int step_dir(struct start *st, struct err *err)
{
    const uint64_t disk = st->q->disk >= 0 ? (uint64_t)st->q->disk : 0;
    auto_free char *owner = NULL;
    int r;

    if (st->reopened)
        return 0;
    r = disk_check_reserve(st->l, disk, err);
    if (r == -ENOSPC && janitor_flush(st->l))
        r = disk_check_reserve(st->l, disk, err);
    if (r == 0)
        r = sandbox_dir_make(st->l, st->s, st->q->disk, err);
    if (r < 0 || !st->s->kept)
        return r;
    owner = sandbox_owner(st->l, st->s->id);
    if (owner == NULL)
        return err_errno(err, -ENOMEM, "start sandbox");
    return idrange_claim(st->l->ids_fd, &st->s->ids, owner, err);
}

/* Removes the network and cgroups of an earlier run that could not be removed when its end was
 * noticed (manage.c). The launcher has the sandbox's lock, so no process of it runs. */
static int start_forget_earlier(const struct start *st, struct err *err)
{
    struct launch_sandbox *old = sandbox_new(st->s->id);

    if (old == NULL)
        return err_errno(err, -ENOMEM, "start sandbox");
    old->dir_fd = fcntl(st->s->dir_fd, F_DUPFD_CLOEXEC, 3);
    network_load(old);
    (void)network_leave(st->l, old, NULL);
    sandbox_free(old);
    return cgroup_remove(st->l->cgroups, st->s->id, err);
}

struct cgroup_limits limits_of_request(const struct launch_request *q)
{
    return (struct cgroup_limits){.memory_bytes = q->memory,
                                  .pids = q->pids,
                                  .cpu_millis = q->cpu,
                                  .swap_bytes = q->swap,
                                  .reservation_bytes = q->reservation,
                                  .cpu_shares = q->shares,
                                  .cpus = q->cpus,
                                  .mems = q->mems};
}

static int step_cgroup(struct start *st, struct err *err)
{
    struct cgroup_limits limits = limits_of_request(st->q);
    struct cgroup_host *host = st->l->cgroups;
    int r = disks_of_request(st->l, st->q, &limits, err);

    if (r < 0)
        return r;
    r = cgroup_create(host, st->s->id, &limits, st->s->ids.base, &st->s->cgroup, err);
    if (r != -EEXIST || !st->reopened)
        return r;
    r = start_forget_earlier(st, err);
    return r < 0 ? r
                 : cgroup_create(host, st->s->id, &limits, st->s->ids.base, &st->s->cgroup, err);
}

static int step_net_choose(struct start *st, struct err *err)
{
    return network_choose(st->l, st->s, st->q, &st->net_ns, err);
}

static int step_clone(struct start *st, struct err *err)
{
    /* A link's peer is made inside the net namespace, so that must exist now. Otherwise init makes
     * it while the launcher goes on with other steps. */
    const struct boot_net net = {.now = (st->q->net_flags & LAUNCH_NET_LINK) != 0,
                                 .admin = (st->q->net_flags & LAUNCH_NET_ADMIN) != 0,
                                 .ns = st->net_ns};

    return boot_clone(st->l, st->s, &net, &st->ends, err);
}

static int step_net_make(struct start *st, struct err *err)
{
    int fd, r = 0;

    if ((st->q->net_flags & LAUNCH_NET_ADMIN) != 0)
        r = boot_await_net(st->s, st->ends.control, err);
    if (r == 0)
        r = network_make(st->l, st->s, st->q, err);
    if (r < 0 || st->net_ns < 0)
        return r;
    fd = sysfs_mount(st->net_ns, err);
    if (fd < 0)
        return fd;
    st->mounts.joined = true;
    st->mounts.sys = start_add_mount(st, fd);
    return 0;
}

/* dir: the directory with the mount points, or FD_NONE if the view is one mount. Takes ownership of
 * it and of the view. */
static void start_add_cgroups(struct start *st, int dir)
{
    struct cgroup_view *view = &st->cgroups;
    struct plan_mounts *m = &st->mounts;

    m->has_cgroups = view->count > 0;
    if (!m->has_cgroups)
        return;
    m->cgroups = start_add_mount(st, view->whole ? view->parts[0].fd : dir);
    for (int i = 0; i < view->count && !view->whole; i++) {
        m->cgroup_parts[i].mount = start_add_mount(st, view->parts[i].fd);
        m->cgroup_parts[i].name = view->parts[i].name;
        m->cgroup_part_count++;
    }
    view->count = 0;
}

static int step_own(struct start *st, struct err *err)
{
    auto_buf struct buf hosts = BUF_INIT(ETC_TEXT_MAX), name = BUF_INIT(ETC_TEXT_MAX),
                        resolv = BUF_INIT(ETC_TEXT_MAX), cpus = BUF_INIT(ETC_TEXT_MAX),
                        cpuinfo = BUF_INIT(ETC_TEXT_MAX);
    struct own_mounts own;
    int r;

    (void)network_hosts(st->l, st->s, &hosts);
    network_resolv(st->s, &resolv);
    r = buf_printf(&name, "%s\n", st->s->hostname);
    if (r == 0 && st->on_some_cpus)
        r = cpus_list(&st->cpus, &cpus);
    if (r < 0)
        return err_errno(err, r, "make the files of /etc and /sys");
    r = cgroup_view_open(st->l->cgroups, st->s->cgroup, &st->cgroups, err);
    if (r < 0)
        return r;

    const struct buf texts[ETC_FILES] = {
        [ETC_HOSTS] = hosts, [ETC_HOSTNAME] = name, [ETC_RESOLV] = resolv};

    /* A running sandbox can be connected to a named network. Its files follow then, but with the
     * policy fuse, where a file that follows is read-only inside. */
    const bool open = st->s->net != NULL && !st->s->fuse;
    const bool grouped = open || network_is_grouped(st->s);
    const bool follows = open || (st->s->net != NULL && st->s->net->host_dns);
    const struct own_wants wants = {
        .owner = st->s->ids.base,
        .fuse = st->s->fuse,
        .read_only = (st->q->flags & LAUNCH_READ_ONLY) != 0,
        .texts = texts,
        .cgroups = st->cgroups.count > 0 ? &st->cgroups : NULL,
        .cpus = st->on_some_cpus ? &cpus : NULL,
        .cpuinfo =
            st->on_some_cpus && cpus_info_of_host(st->l, &st->cpus, &cpuinfo) ? &cpuinfo : NULL};

    r = own_mounts(&wants, &own, grouped ? &st->s->hosts_fd : NULL, follows ? &st->resolv_fd : NULL,
                   err);
    st->own = own.whole;
    if (r < 0)
        return r;
    st->mounts.dev = start_add_mount(st, own.dev);
    st->mounts.mask = start_add_mount(st, own.mask);
    for (int i = 0; i < ETC_FILES; i++)
        st->mounts.etc[i] = start_add_mount(st, own.etc[i]);
    st->mounts.has_etc = true;
    start_add_cgroups(st, own.cgroups);
    st->mounts.has_cpus = own.cpus >= 0;
    if (st->mounts.has_cpus)
        st->mounts.cpus = start_add_mount(st, own.cpus);
    st->mounts.has_cpuinfo = own.cpuinfo >= 0;
    if (st->mounts.has_cpuinfo)
        st->mounts.cpuinfo = start_add_mount(st, own.cpuinfo);
    return 0;
}

static int step_maps(struct start *st, struct err *err)
{
    char path[64];
    int r;

    r = idmap_write(st->s->pid, st->s->ids.base, err);
    if (r < 0)
        return r;
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)st->s->pid);
    st->userns_fd = open(path, O_RDONLY | O_CLOEXEC);
    if (st->userns_fd >= 0)
        return 0;
    if (errno == EACCES)
        return err_set(err, -EACCES,
                       "open the user namespace of a sandbox: Permission denied; rind needs "
                       "CAP_SYS_PTRACE, which what it runs in has taken from it (docker run "
                       "--cap-add SYS_PTRACE gives it)");
    return err_errno(err, -errno, "open the user namespace");
}

/*
 * Only the host's root may raise a hard limit, so init's limits are raised here, from outside. The
 * exec's child then sets the policy's values, which only lowers them.
 *
 * The launcher's own limits stay: the next sandbox must not inherit what this policy allows. On
 * EPERM the lower limit stays, which is stricter than the policy, not weaker.
 */
static int step_rlimits(struct start *st, struct err *err)
{
    for (size_t i = 0; i < st->q->rlimit_count; i++) {
        const struct launch_rlimit *want = &st->q->rlimits[i];
        const __rlimit_resource_t resource = (__rlimit_resource_t)want->resource;
        struct rlimit now;
        int r;

        r = prlimit(st->s->pid, resource, NULL, &now);
        if (r == 0 && now.rlim_max < want->hard) {
            now.rlim_max = want->hard;
            r = prlimit(st->s->pid, resource, &now, NULL);
        }
        if (r < 0 && errno != EPERM)
            return err_errno(err, -errno, "raise resource limit %d", (int)resource);
    }
    return 0;
}

/* The OOM killer may kill processes inside: they must not inherit a protection of the launcher. */
static int step_oom(struct start *st, struct err *err)
{
    char path[64], score[24];
    int r;

    (void)snprintf(score, sizeof(score), "%lld", (long long)st->q->oom_score);

    (void)snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)st->s->pid);
    r = file_poke_at(AT_FDCWD, path, score);
    return r < 0 ? err_errno(err, r, "reset oom_score_adj") : 0;
}

/* The process is in its cgroups afterwards, and waits for boot_go. */
static int step_await(struct start *st, struct err *err)
{
    return boot_await(st->l, st->s, st->ends.control, err);
}

/* For programs that count the processors they may use; the cgroup is what limits. So a failure here
 * does not fail the start. It comes after the cgroups are entered, because entering a cpuset resets
 * the affinity. */
static int step_cpus(struct start *st, struct err *err)
{
    cpu_set_t ours, own;
    bool some;

    (void)err;
    if (sched_getaffinity(0, sizeof(ours), &ours) < 0)
        return 0;
    some = st->q->cpus != NULL && cpus_parse(st->q->cpus, &own);
    if (some)
        CPU_AND(&ours, &ours, &own);
    if (!cpus_choose(&ours, st->s->ids.base, st->q->cpu, &st->cpus)) {
        if (!some)
            return 0;
        st->cpus = ours;
    }
    st->on_some_cpus = sched_setaffinity(st->s->pid, sizeof(st->cpus), &st->cpus) == 0;
    return 0;
}

/*
 * Gives the child a core scheduling cookie, which all that it forks inherit: two processes run on
 * the two threads of a core at once only if they have the same one. ENODEV: no core has two threads
 * in use, so there is nothing to keep apart.
 */
static int step_cores(struct start *st, struct err *err)
{
    enum { SCHED_CORE = 62, SCHED_CORE_CREATE = 1, ONE_THREAD = 0 }; /* linux/prctl.h, 5.14 */

    if ((st->q->flags & LAUNCH_CORE_SCHED) == 0 ||
        prctl(SCHED_CORE, SCHED_CORE_CREATE, st->s->pid, ONE_THREAD, 0) == 0 || errno == ENODEV)
        return 0;
    if (errno == EINVAL)
        return err_set(err, -EOPNOTSUPP,
                       "coreScheduling: this kernel has no core scheduling (CONFIG_SCHED_CORE)");
    return err_errno(err, -errno, "coreScheduling");
}

/* Init starts and makes its namespaces while the launcher mounts its root. */
static int step_execute(struct start *st, struct err *err)
{
    return boot_go(st->ends.control, &st->l->init_exe, 1, err);
}

static int step_root(struct start *st, struct err *err)
{
    int fd = root_mount(st->l, st->s, st->q, st->userns_fd, &st->sources, err);

    if (fd < 0)
        return fd;
    st->mounts.root = start_add_mount(st, fd);
    return 0;
}

/* The volume's lock is passed to init as an fd that no operation uses. */
static int start_mount_named(struct start *st, const struct launch_volume *v, struct err *err)
{
    int lock = FD_NONE, fd;

    if (st->volumes_userns < 0)
        st->volumes_userns = idmap_range(IDRANGE_LAYERS, st->s->ids.base, err);
    if (st->volumes_userns < 0)
        return st->volumes_userns;
    fd = named_volume_mount(st->l, st->s, v, st->volumes_userns, &lock, err);
    if (fd >= 0)
        (void)start_add_mount(st, lock);
    return fd;
}

static int step_volumes(struct start *st, struct err *err)
{
    uint32_t uid = 0, gid = 0;

    if (st->q->volume_count > 0 && st->q->user != NULL) {
        int r =
            volume_user(st->s, st->fds[FIRST_OP + st->mounts.root], st->q->user, &uid, &gid, err);

        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < st->q->volume_count; i++) {
        struct launch_volume v = st->q->volumes[i];
        struct volume_kind kind = {.is_dir = v.named}; /* named volumes are directories */
        int fd;

        if (st->q->user != NULL) {
            v.uid = uid;
            v.gid = gid;
        }
        fd = v.named ? start_mount_named(st, &v, err) : volume_mount(st->l, st->s, &v, &kind, err);
        if (fd < 0)
            return fd;
        st->mounts.volumes[i] = start_add_mount(st, fd);
        st->mounts.volume_is_dir[i] = kind.is_dir;
        st->mounts.volume_guarded[i] = kind.guarded && (!may_mount(st->q) || kind.of_root);
        if (kind.of_root)
            volume_look_add(&st->look, fd, v.source, st->s->ids.base + v.uid);
    }
    return volume_look_start(st->l, &st->look, err);
}

/* The last step before init may run, because the search runs beside the other steps. */
static int step_look(struct start *st, struct err *err)
{
    return volume_look_finish(st->l, st->s->creator, &st->look, err);
}

/* Init also keeps the files of /etc that may be rewritten, so that a later launcher finds them. */
static int start_lease_files(struct start *st, struct err *err)
{
    int hosts = 0, resolv = 0, fd;

    if (st->s->hosts_fd >= 0) {
        fd = fcntl(st->s->hosts_fd, F_DUPFD_CLOEXEC, 3);
        if (fd < 0)
            return err_errno(err, -errno, "hosts file");
        hosts = PLAN_FD_OPS + start_add_mount(st, fd);
    }
    if (st->s->hosts_fd >= 0 && !network_is_grouped(st->s))
        (void)close(take_fd(&st->s->hosts_fd)); /* init has it, should it be needed */
    if (st->resolv_fd >= 0)
        resolv = PLAN_FD_OPS + start_add_mount(st, take_fd(&st->resolv_fd));
    return hosts != 0 || resolv != 0 ? network_lease(st->s, hosts, resolv, err) : 0;
}

static void start_discard_sources(struct start *st)
{
    int given[ROOT_SOURCES_MAX], count = root_sources_give(&st->sources, given);

    st->mounts.discards = st->count - FIRST_OP;
    for (int i = 0; i < count; i++)
        (void)start_add_mount(st, given[i]);
    if (st->own >= 0)
        (void)start_add_mount(st, take_fd(&st->own));
    st->mounts.discard_count = st->count - FIRST_OP - st->mounts.discards;
}

static int step_plan(struct start *st, struct err *err)
{
    /* The lock of the id range is passed to init as an fd that no operation uses: while it is open,
     * the range stays taken. */
    int ids_lock = fcntl(st->s->ids.lock_fd, F_DUPFD_CLOEXEC, 3);
    bool has_cgroup = cgroup_exec_fd(st->s->cgroup) >= 0;
    int r;

    if (ids_lock < 0)
        return err_errno(err, -errno, "id range lock");
    (void)start_add_mount(st, ids_lock);
    start_discard_sources(st);
    r = start_lease_files(st, err);
    if (r < 0)
        return r;
    if (st->s->kept) {
        int fd = sandbox_socket_bind(st->s, err);

        if (fd < 0)
            return fd;
        (void)start_add_mount(st, fd); /* must be the last one: PLAN_LISTEN */
    }
    st->plan_fd = plan_build(st->q, &st->mounts, has_cgroup, err);
    if (st->plan_fd < 0)
        return st->plan_fd;
    st->fds[0] = st->plan_fd;
    st->fds[1] = st->s->lock_fd;
    st->fds[2] = has_cgroup ? cgroup_exec_fd(st->s->cgroup) : st->l->null_fd;
    return 0;
}

/* Closes what init was not given. */
static void start_close_sources(struct start *st)
{
    root_sources_close(&st->sources);
    if (st->own >= 0)
        (void)close(take_fd(&st->own));
    if (st->resolv_fd >= 0)
        (void)close(take_fd(&st->resolv_fd));
}

static int step_go(struct start *st, struct err *err)
{
    int r;

    r = boot_go(st->ends.control, st->fds, st->count, err);
    start_close_sources(st);
    return r < 0 ? r : boot_follow(st->s, &st->ends, st->plan_fd, err);
}

/* Reserves enough fds to undo the start: EMFILE must occur here, before anything is made. */
static int step_room(struct start *st, struct err *err)
{
    int fds[SPARE_FDS], count = 0, r = 0;

    while (r == 0 && count < SPARE_FDS) {
        fds[count] = fcntl(st->l->null_fd, F_DUPFD_CLOEXEC, 3);
        if (fds[count] < 0)
            r = err_errno(err, -errno, "start sandbox (raise the limit of open files)");
        else
            count++;
    }
    while (count > 0)
        (void)close(fds[--count]);
    return r;
}

static int step_terminals(struct start *st, struct err *err)
{
    int r = terminals_take(st->l, st->s, err);

    st->mounts.terminals = st->s->terminals;
    return r;
}

static int (*const start_steps[])(struct start *, struct err *) = {
    step_room,     step_terminals,  step_creator, step_reopen,  step_ids,  step_dir,
    step_cgroup,   step_net_choose, step_clone,   step_rlimits, step_maps, step_oom,
    step_await,    step_cpus,       step_cores,   step_execute, step_root, step_volumes,
    step_net_make, step_own,        step_plan,    step_look,    step_go,
};

static void start_close(struct start *st)
{
    boot_clear(st->l);
    volume_look_close(st->l, &st->look);
    start_close_sources(st);
    cgroup_view_close(&st->cgroups);
    for (int i = FIRST_OP; i < st->count; i++)
        (void)close(st->fds[i]);
    if (st->userns_fd >= 0)
        (void)close(st->userns_fd);
    if (st->volumes_userns >= 0)
        (void)close(st->volumes_userns);
    if (st->plan_fd >= 0)
        (void)close(st->plan_fd);
    if (st->net_ns >= 0)
        (void)close(st->net_ns);
    if (st->ends.stages >= 0)
        (void)close(st->ends.stages);
}

/* Without `cgroups` the sandbox's cgroups stay: they belong to another state directory or process.
 */
static int sandbox_remove_traces(struct launcher *l, struct launch_sandbox *s, bool cgroups,
                                 struct err *err)
{
    int r = 0;

    if (s->kept && s->dir_fd >= 0)
        r = sandbox_dir_forget(s, err);
    /* Without a listening socket no other client waits for the launcher, so it removes the files
     * itself. */
    if (r == 0 && l->clients.len > 0 && janitor_remove_sandbox(l, s, cgroups))
        return 0;
    if (r == 0 && cgroups)
        r = cgroup_remove(l->cgroups, s->id, err);
    if (r == 0 && s->dir_fd >= 0)
        r = sandbox_dir_remove(l, s->id, err);
    if (r < 0)
        return r;
    /* A remaining file has ids of the range: then the range must not be reused. */
    if (s->ids.lock_fd >= 0)
        idrange_give_back(l->ids_fd, &s->ids);
    return 0;
}

/* Takes st->s. A sandbox that is slow to exit stays registered as a killed one. The client of the
 * start waits for its end, and then stops or releases it as any other. */
static void start_undo_later(struct start *st)
{
    st->s->failed = true;
    launcher_add(st->l, take(st->s));
}

static void start_undo(struct start *st)
{
    struct launch_sandbox *s = st->s;
    const bool alone = st->l->clients.len == 0; /* no other client waits */

    if (sandbox_end(st->l, s, alone ? SANDBOX_END_MS : UNDO_TIMEOUT_MS, NULL) < 0) {
        start_undo_later(st);
        return;
    }
    (void)network_leave(st->l, s, NULL);
    if (!st->reopened)
        (void)sandbox_remove_traces(st->l, s, s->cgroup != NULL, NULL);
    else if (s->cgroup != NULL)
        (void)cgroup_remove(st->l->cgroups, s->id, NULL);
    sandbox_free(take(st->s));
}

int launcher_start(struct launcher *l, const struct launch_request *q, struct launch_result *ret,
                   struct err *err)
{
    struct start st = {.l = l,
                       .q = q,
                       .count = FIRST_OP,
                       .ends = {.control = FD_NONE, .stages = FD_NONE},
                       .userns_fd = FD_NONE,
                       .plan_fd = FD_NONE,
                       .volumes_userns = FD_NONE,
                       .net_ns = FD_NONE,
                       .own = FD_NONE,
                       .resolv_fd = FD_NONE,
                       .look = {.answer = FD_NONE},
                       .sources = {.host = HOST_LAYERS_NONE, .own = FD_NONE}};
    int r = 0, pidfd;

    if (launcher_find(l, q->id) != NULL)
        return err_set(err, -EEXIST, "sandbox %s exists", q->id);
    if ((q->flags & LAUNCH_FUSE) != 0) {
        r = fuse_open(l, err);
        if (r < 0)
            return r;
    }
    child_table_reap(&l->children); /* a filled volume is marked as such by that */
    st.s = sandbox_new(q->id);
    if (st.s == NULL)
        return err_errno(err, -ENOMEM, "start sandbox");
    st.s->kept = (q->flags & LAUNCH_KEEP) != 0;
    st.s->fuse = (q->flags & LAUNCH_FUSE) != 0;

    for (size_t i = 0; r == 0 && i < sizeof(start_steps) / sizeof(start_steps[0]); i++)
        r = start_steps[i](&st, err);
    pidfd = r == 0 ? fcntl(st.s->pidfd, F_DUPFD_CLOEXEC, 3) : FD_NONE;
    if (r == 0 && pidfd < 0)
        r = err_errno(err, -errno, "start sandbox");
    start_close(&st);
    if (r < 0) {
        if (st.ends.control >= 0)
            (void)close(st.ends.control);
        start_undo(&st);
        return r;
    }
    cgroup_done_starting(st.s->cgroup);
    launcher_add(l, st.s);
    network_tell_all(l, st.s->net);
    if (strcmp(st.s->net_owner, st.s->id) == 0)
        network_lan_tell(l, st.s->net);
    *ret = (struct launch_result){.pidfd = pidfd,
                                  .control = st.ends.control,
                                  .pid = st.s->pid,
                                  .base = st.s->ids.base,
                                  .net = network_place(st.s)};
    (void)memcpy(ret->net_owner, st.s->net_owner, sizeof(ret->net_owner));
    return 0;
}

/* A network is named and addressed by its owner's id range, so the owner stays while other
 * sandboxes are in it. */
static int sandbox_check_members(struct launcher *l, const struct launch_sandbox *s,
                                 struct err *err)
{
    const struct launch_sandbox *peer;
    const char *id;

    if (strcmp(s->net_owner, s->id) != 0)
        return 0;
    peer = network_peer(l, s);
    id = peer != NULL ? peer->id : network_survivor(l, s);
    return id == NULL
               ? 0
               : err_set(err, -EBUSY, "sandbox %s is in the network of sandbox %s", id, s->id);
}

/* A stopped kept sandbox is not registered: its state is only on disk. */
static int sandbox_release_stopped(struct launcher *l, const char *id, struct err *err)
{
    struct launch_sandbox *s = sandbox_new(id);
    auto_free char *owner = sandbox_owner(l, id);
    int r;

    if (s == NULL || owner == NULL) {
        sandbox_free(s);
        return err_errno(err, -ENOMEM, "remove sandbox");
    }
    r = sandbox_dir_open(l, s, err);
    if (r == 0)
        network_load(s);
    if (r == 0)
        r = sandbox_check_members(l, s, err);
    if (r == 0)
        r = sandbox_end_orphans(l, s, err);
    if (r == 0 && s->ids.base != 0)
        r = idrange_retake(l->ids_fd, s->ids.base, owner, &s->ids, err);
    if (r == 0)
        r = network_leave(l, s, err);
    if (r == 0)
        r = sandbox_remove_traces(l, s, true, err);
    sandbox_free(s);
    return r;
}

int launcher_release(struct launcher *l, const char *id, struct err *err)
{
    struct launch_sandbox *s = launcher_find(l, id);
    int r;

    if (s == NULL)
        return sandbox_release_stopped(l, id, err);
    if (!sandbox_ended(s))
        return err_set(err, -EBUSY, "sandbox %s is running", id);
    r = sandbox_check_members(l, s, err);
    if (r == 0)
        r = sandbox_take_ids(l, s, err);
    if (r == 0)
        r = network_leave(l, s, err);
    if (r == 0)
        r = sandbox_remove_traces(l, s, true, err);
    if (r < 0)
        return r;
    launcher_drop(l, s);
    sandbox_free(s);
    return 0;
}

unsigned long launcher_oom_kills(const struct launcher *l, const char *id)
{
    const struct launch_sandbox *s = launcher_find(l, id);
    uint64_t n = 0;

    return s != NULL && s->cgroup != NULL && cgroup_oom_kills(s->cgroup, &n) == 0 ? n : 0;
}
