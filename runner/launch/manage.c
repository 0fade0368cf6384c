/* Kept sandboxes after their start: stop, freeze, and reattach after the launcher has died. Runs in
 * the launcher. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/file.h"
#include "launch/cgroup.h"
#include "launch/disks.h"
#include "launch/janitor.h"
#include "launch/launcher.h"
#include "launch/network.h"
#include "launch/sandbox.h"

enum { LIST_MAX = 1 << 20 }; /* bytes of the list of ids */

char *sandbox_owner(const struct launcher *l, const char *id)
{
    char *text = NULL;

    return asprintf(&text, "%s\n%s\n", l->state_dir, id) < 0 ? NULL : text;
}

int sandbox_take_ids(struct launcher *l, struct launch_sandbox *s, struct err *err)
{
    auto_free char *owner = NULL;

    if (s->ids.lock_fd >= 0)
        return 0;
    owner = sandbox_owner(l, s->id);
    if (owner == NULL)
        return err_errno(err, -ENOMEM, "sandbox %s", s->id);
    return idrange_retake(l->ids_fd, s->ids.base, owner, &s->ids, err);
}

int launcher_stop(struct launcher *l, const char *id, int *ret_pidfd, struct err *err)
{
    struct launch_sandbox *s = launcher_find(l, id);
    auto_free char *owner = sandbox_owner(l, id);
    int fd, r;

    if (s == NULL)
        return err_set(err, -ENOENT, "no sandbox %s", id);
    if (!s->kept)
        return err_set(err, -EINVAL, "sandbox %s is not a kept one", id);
    if (!sandbox_ended(s))
        return cgroup_explain(s->cgroup, -EBUSY, err);
    if (owner == NULL)
        return err_errno(err, -ENOMEM, "stop sandbox");
    r = cgroup_remove(l->cgroups, id, err);
    if (r == 0)
        r = network_leave(l, s, err);
    if (r == 0)
        r = sandbox_take_ids(l, s, err);
    fd = r == 0 ? janitor_stop_sandbox(l, s) : FD_NONE;
    if (fd == -EAGAIN)
        r = idrange_reserve(l->ids_fd, &s->ids, owner, err);
    if (r < 0)
        return r;
    *ret_pidfd = fd >= 0 ? fd : FD_NONE;
    launcher_drop(l, s);
    sandbox_free(s);
    return 0;
}

int launcher_freeze(struct launcher *l, const char *id, bool freeze, struct err *err)
{
    struct launch_sandbox *s = launcher_find(l, id);

    if (s == NULL)
        return err_set(err, -ENOENT, "no sandbox %s", id);
    return cgroup_freeze(s->cgroup, freeze, err);
}

int launcher_limits(struct launcher *l, const struct launch_request *q, struct err *err)
{
    struct cgroup_limits limits = limits_of_request(q);
    struct launch_sandbox *s = launcher_find(l, q->id);
    int r;

    if (s == NULL || s->cgroup == NULL || sandbox_ended(s))
        return err_set(err, -ENOENT, "sandbox %s does not run", q->id);
    r = disks_of_request(l, q, &limits, err);
    return r < 0 ? r : cgroup_update(l->cgroups, s->cgroup, q->id, &limits, err);
}

int launcher_stats(struct launcher *l, const char *id, struct launch_reply *ret, struct err *err)
{
    struct launch_sandbox *s = launcher_find(l, id);
    struct cgroup_stats stats;
    int r;

    if (s == NULL)
        return err_set(err, -ENOENT, "no sandbox %s", id);
    r = cgroup_stats(s->cgroup, &stats, err);
    if (r < 0)
        return r;
    ret->memory_bytes = stats.memory_bytes;
    ret->memory_peak_bytes = stats.memory_peak_bytes;
    ret->cpu_usec = stats.cpu_usec;
    ret->pids = stats.pids;
    disk_usage(s, &ret->disk);
    return 0;
}

/* Cleans up after a sandbox when its init has exited. -EAGAIN: some of its processes still exit,
 * and err says which. */
static int sandbox_recover(struct launcher *l, struct launch_sandbox *s, const char *owner,
                           struct err *err)
{
    if (sandbox_end_orphans(l, s, err) == -EAGAIN)
        return -EAGAIN;
    network_load(s);
    (void)network_leave(l, s, NULL);
    (void)cgroup_remove(l->cgroups, s->id, NULL);
    if (idrange_retake(l->ids_fd, s->ids.base, owner, &s->ids, NULL) == 0)
        (void)idrange_reserve(l->ids_fd, &s->ids, owner, NULL);
    return 0;
}

/* Init's socket does not listen. -ESRCH when its lock is free, so init has exited; -EAGAIN when it
 * is not free yet. Processes that init leaves behind are killed here first; -EINPROGRESS: they have
 * not ended yet. */
static int sandbox_not_listening(struct launcher *l, struct launch_sandbox *s, struct err *err)
{
    auto_free char *owner = sandbox_owner(l, s->id);
    int r = sandbox_dir_lock(s);

    if (r == -EWOULDBLOCK)
        return err_set(err, -EAGAIN, "sandbox %s: its init does not listen", s->id);
    if (r < 0)
        return err_errno(err, r, "lock of sandbox %s", s->id);
    if (owner == NULL)
        return err_errno(err, -ENOMEM, "sandbox %s", s->id);
    r = sandbox_recover(l, s, owner, err);
    sandbox_dir_unlock(s); /* the next start must be able to take it */
    if (r == -EAGAIN && err != NULL)
        err->code = -EINPROGRESS;
    if (r < 0)
        return r == -EAGAIN ? -EINPROGRESS : r;
    return err_set(err, -ESRCH, "sandbox %s is stopped", s->id);
}

static int sandbox_reattach(struct launcher *l, struct launch_sandbox *s, struct launch_result *ret,
                            bool *ret_frozen, struct err *err)
{
    auto_close int control = FD_NONE;
    auto_close int pidfd = FD_NONE;
    int r;

    r = sandbox_dir_peek(l, s, err);
    if (r < 0)
        return r;
    control = sandbox_socket_connect(s, err);
    if (control == -ECONNREFUSED || control == -ENOENT)
        return sandbox_not_listening(l, s, err);
    if (control < 0)
        return control;
    if (s->ids.base == 0) /* the owner of these processes' ids is unknown */
        return sandbox_dir_whole(s, err);
    s->pidfd = sandbox_socket_peer(control, &s->pid, err);
    if (s->pidfd < 0)
        return s->pidfd;
    r = cgroup_open(l->cgroups, s->id, &s->cgroup, err);
    if (r < 0)
        return r;
    r = cgroup_frozen(s->cgroup);
    if (r < 0)
        return err_errno(err, r, "sandbox %s: whether it is paused", s->id);
    *ret_frozen = r > 0;
    (void)snprintf(s->net_owner, sizeof(s->net_owner), "%s", s->id);
    network_load(s);
    terminals_find(s);
    pidfd = fcntl(s->pidfd, F_DUPFD_CLOEXEC, 3);
    if (pidfd < 0)
        return err_errno(err, -errno, "sandbox %s", s->id);
    *ret = (struct launch_result){.pidfd = take_fd(&pidfd),
                                  .control = take_fd(&control),
                                  .pid = s->pid,
                                  .base = s->ids.base,
                                  .net = network_place(s)};
    (void)memcpy(ret->net_owner, s->net_owner, sizeof(ret->net_owner));
    return 0;
}

int launcher_reattach(struct launcher *l, const char *id, struct launch_result *ret,
                      bool *ret_frozen, struct err *err)
{
    struct launch_sandbox *s;
    int r;

    if (launcher_find(l, id) != NULL)
        return err_set(err, -EEXIST, "sandbox %s has its supervisor", id);
    s = sandbox_new(id);
    if (s == NULL)
        return err_errno(err, -ENOMEM, "sandbox %s", id);
    s->fuse = true; /* assumed, because it is not recorded */
    r = sandbox_reattach(l, s, ret, ret_frozen, err);
    if (r < 0) {
        sandbox_free(s);
        return r;
    }
    launcher_add(l, s);
    network_survivor_drop(l, id);
    network_reopen_hosts(l, s);
    return 0;
}

static bool is_kept(void *data, const char *id)
{
    const struct launcher *l = data;
    char keep[LAUNCH_ID_MAX + 8];

    if (!launch_id_ok(id))
        return false;
    (void)snprintf(keep, sizeof(keep), "%.63s/" KEEP_FILE, id);
    return faccessat(l->sandboxes_fd, keep, F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

/* Calls fn for each kept sandbox on disk. */
static int kept_each(struct launcher *l, int (*fn)(struct launcher *, const char *id, void *data),
                     void *data, struct err *err)
{
    auto_ptr(dir_close) DIR *d = dir_open(l->sandboxes_fd, ".");
    const struct dirent *e;
    int r = 0;

    if (d == NULL)
        return err_errno(err, -errno, "read the sandboxes");
    while (r == 0 && (e = dir_next(d)) != NULL)
        if (launch_id_ok(e->d_name) && is_kept(l, e->d_name))
            r = fn(l, e->d_name, data);
    return r;
}

static int kept_list_one(struct launcher *l, const char *id, void *data)
{
    (void)l;
    return buf_append(data, id, strlen(id) + 1);
}

int launcher_list(struct launcher *l, struct err *err)
{
    auto_buf struct buf list = BUF_INIT(LIST_MAX);
    int r;

    r = kept_each(l, kept_list_one, &list, err);
    if (r < 0)
        return err_errno(err, r, "list the sandboxes");
    r = memfd_sealed("rind-list", list.data != NULL ? list.data : "", list.len);
    return r < 0 ? err_errno(err, r, "list the sandboxes") : r;
}

/* A running sandbox holds its lock. If its directory cannot be opened, it is treated as running. */
static int kept_find_survivor(struct launcher *l, const char *id, void *data)
{
    struct launch_sandbox *s = sandbox_new(id);
    int r = 0;

    (void)data;
    if (s == NULL)
        return -ENOMEM;
    if (sandbox_dir_open(l, s, NULL) < 0 && s->dir_fd >= 0)
        r = network_survivor_add(l, s);
    sandbox_free(s);
    return r;
}

static int kept_recover_one(struct launcher *l, const char *id, void *data)
{
    struct launch_sandbox *s = sandbox_new(id);
    auto_free char *owner = sandbox_owner(l, id);

    (void)data;
    if (s == NULL || owner == NULL) {
        sandbox_free(s);
        return -ENOMEM;
    }
    /* The supervisor reports a sandbox that cannot be opened. */
    if (sandbox_dir_open(l, s, NULL) == 0)
        (void)sandbox_recover(l, s, owner, NULL);
    sandbox_free(s);
    return 0;
}

int launcher_find_survivors(struct launcher *l, struct err *err)
{
    int r = kept_each(l, kept_find_survivor, NULL, err);

    if (r < 0)
        return err_errno(err, r, "find the sandboxes that live");
    network_survivor_added(l);
    return 0;
}

int launcher_recover(struct launcher *l, struct err *err)
{
    int r = kept_each(l, kept_recover_one, NULL, err);

    if (r == 0)
        r = idrange_sweep(l->ids_fd, l->state_dir, is_kept, l, err);
    return r < 0 ? err_errno(err, r, "take up the sandboxes") : 0;
}
