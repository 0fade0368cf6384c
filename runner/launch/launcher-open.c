/* Opens and frees a launcher and its sandboxes' records (launcher.h). Runs in the launcher, called
 * by serve.c of the daemon, and in `rind run` without a daemon. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "launch/cgroup.h"
#include "launch/janitor.h"
#include "launch/launcher.h"
#include "launch/network.h"
#include "launch/sandbox.h"

enum { SUBID_MAX = 1 << 20 /* bytes of /etc/subuid */ };

/* Makes missing directories above a directory of rind. Errors show when that one is made. */
static void launcher_make_parents(const char *path)
{
    char part[PATH_MAX];
    size_t len = strlen(path);

    if (len >= sizeof(part))
        return;
    for (size_t i = 1; i < len; i++)
        if (path[i] == '/') {
            (void)memcpy(part, path, i);
            part[i] = '\0';
            (void)mkdir(part, 0700);
        }
}

/* Opens a directory of rind, and makes it (0700) if missing. Refuses one that another user could
 * have made. */
static int open_own_dir(int at, const char *path, struct err *err)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (at == AT_FDCWD ? 0 : O_NOFOLLOW);
    auto_close int fd = FD_NONE;
    struct stat st;

    fd = openat(at, path, flags);
    if (fd < 0 && errno == ENOENT) {
        if (at == AT_FDCWD)
            launcher_make_parents(path);
        if (mkdirat(at, path, 0700) < 0 && errno != EEXIST)
            return err_errno(err, -errno, "make directory %s", path);
        fd = openat(at, path, flags);
    }
    if (fd < 0)
        return err_errno(err, -errno, "open directory %s", path);
    if (fstat(fd, &st) < 0)
        return err_errno(err, -errno, "%s", path);
    if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return err_set(err, -EPERM,
                       "directory %s: must be owned by uid %u and not writable by others", path,
                       geteuid());
    return take_fd(&fd);
}

static int launcher_read_subids(struct launcher *l, struct err *err)
{
    static const char *const files[] = {"/etc/subuid", "/etc/subgid"};
    auto_buf struct buf all = BUF_INIT(2UL * SUBID_MAX);

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        auto_free char *text = NULL;
        size_t len;
        int r;

        r = file_read_at(AT_FDCWD, files[i], SUBID_MAX, &text, &len, err);
        if (r == -ENOENT)
            continue;
        if (r < 0)
            return r;
        if (buf_append(&all, text, len) < 0 || buf_append(&all, "\n", 1) < 0)
            return err_errno(err, -ENOMEM, "read %s", files[i]);
    }
    if (all.len == 0)
        return 0;
    int r = idrange_parse_subids(all.data, all.len, &l->avoid, &l->avoid_count);
    return r < 0 ? err_errno(err, r, "read /etc/subuid and /etc/subgid") : 0;
}

static struct launcher *launcher_alloc(void)
{
    struct launcher *l = calloc(1, sizeof(*l));

    if (l != NULL)
        l->state_fd = l->layers_fd = l->image_layers_fd = l->sandboxes_fd = l->volumes_fd =
            l->ids_fd = l->init_exe = l->worker_exe = l->null_fd = l->skeleton = l->fusectl =
                l->janitor = l->net_turned = FD_NONE;
    for (size_t i = 0; l != NULL && i < BOOT_SLOTS; i++)
        l->boot_slots[i] = FD_NONE;
    if (l != NULL)
        l->children.owner = l;
    return l;
}

DEFINE_AUTO(struct launcher, launcher_free);

static int open_dirs(struct launcher *l, const struct launcher_config *config, struct err *err)
{
    l->state_fd = open_own_dir(AT_FDCWD, config->state_dir, err);
    if (l->state_fd < 0)
        return l->state_fd;
    l->layers_fd = open_own_dir(l->state_fd, "layers", err);
    if (l->layers_fd < 0)
        return l->layers_fd;
    l->sandboxes_fd = open_own_dir(l->state_fd, "sandboxes", err);
    if (l->sandboxes_fd < 0)
        return l->sandboxes_fd;
    sandbox_dirs_spread(l->sandboxes_fd);
    l->image_layers_fd = open_own_dir(l->state_fd, "image-layers", err);
    if (l->image_layers_fd < 0)
        return l->image_layers_fd;
    sandbox_dirs_spread(l->image_layers_fd);
    l->volumes_fd = open_own_dir(l->state_fd, "volumes", err);
    if (l->volumes_fd < 0)
        return l->volumes_fd;
    l->ids_fd = open_own_dir(AT_FDCWD, config->ids_dir, err);
    return l->ids_fd < 0 ? l->ids_fd : 0;
}

int launcher_open(const struct launcher_config *config, struct launcher **ret, struct err *err)
{
    auto_ptr(launcher_free) struct launcher *l = launcher_alloc();
    int r;

    if (l == NULL)
        return err_errno(err, -ENOMEM, "launcher");
    l->bind_prefixes = config->bind_prefixes;
    l->net = config->net;
    l->publish = config->publish;
    l->host = config->host;
    l->certificate = config->certificate;
    l->key = config->key;
    l->disk_reserve = config->disk_reserve;
    l->volume_make_ms = config->volume_make_ms;
    l->volume_makers = config->volume_makers > 0 && config->volume_makers < LAUNCH_MAKERS_MAX
                           ? config->volume_makers
                           : LAUNCH_MAKERS_MAX;
    l->state_dir = strdup(config->state_dir);
    if (l->state_dir == NULL)
        return err_errno(err, -ENOMEM, "launcher");
    terminals_open(l, config->terminals);
    r = open_dirs(l, config, err);
    if (r == 0)
        r = launcher_read_subids(l, err);
    if (r == 0)
        r = cgroup_host_open(&l->cgroups, err);
    if (r < 0)
        return r;

    l->init_exe = memfd_program("rind-init", config->init_image, config->init_size);
    if (l->init_exe < 0)
        return err_errno(err, l->init_exe, "load init");
    if (fchmod(l->init_exe, 0555) < 0)
        return err_errno(err, -errno, "load init");
    if (config->worker_image != NULL) {
        l->worker_exe = memfd_program("rind-rootfs", config->worker_image, config->worker_size);
        if (l->worker_exe < 0 || fchmod(l->worker_exe, 0555) < 0)
            return err_errno(err, l->worker_exe < 0 ? l->worker_exe : -errno, "load rind-rootfs");
    }
    l->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (l->null_fd < 0)
        return err_errno(err, -errno, "/dev/null");
    r = boot_open(l, err);
    if (r < 0)
        return r;
    *ret = take(l);
    return 0;
}

struct launch_sandbox *sandbox_new(const char *id)
{
    struct launch_sandbox *s = calloc(1, sizeof(*s));

    if (s == NULL || (s->creator = calloc(1, sizeof(*s->creator))) == NULL) {
        free(s);
        return NULL;
    }
    s->dir_fd = s->lock_fd = s->pidfd = s->ids.lock_fd = s->hosts_fd = s->root_fd = s->barrier_fd =
        FD_NONE;
    (void)snprintf(s->id, sizeof(s->id), "%s", id);
    return s;
}

void sandbox_free(struct launch_sandbox *s)
{
    if (s == NULL)
        return;
    if (s->dir_fd >= 0)
        (void)close(s->dir_fd);
    if (s->lock_fd >= 0)
        (void)close(s->lock_fd);
    if (s->pidfd >= 0)
        (void)close(s->pidfd);
    free(s->more_aliases);
    if (s->hosts_fd >= 0)
        (void)close(s->hosts_fd);
    if (s->root_fd >= 0)
        (void)close(s->root_fd);
    if (s->barrier_fd >= 0)
        (void)close(s->barrier_fd);
    idrange_done(&s->ids);
    cgroup_free(s->cgroup);
    free(s->creator);
    free(s->hosts);
    free(s->domain);
    free(s->net);
    free(s);
}

void launcher_free(struct launcher *l)
{
    if (l == NULL)
        return;
    while (l->sandboxes != NULL) {
        struct launch_sandbox *s = l->sandboxes;

        launcher_drop(l, s);
        sandbox_free(s);
    }
    works_free(l);
    janitor_end(l);

    const int fds[] = {l->state_fd, l->layers_fd,    l->image_layers_fd, l->volumes_fd,
                       l->ids_fd,   l->sandboxes_fd, l->init_exe,        l->worker_exe,
                       l->null_fd,  l->skeleton,     l->fusectl,         l->net_turned};

    /* the fillers are killed with the launcher; the next launcher fills the volumes again */
    for (size_t i = 0; i < l->fill_count; i++) {
        (void)close(l->fills[i].dir_fd);
        (void)close(l->fills[i].lock_fd);
        if (l->fills[i].source_fd >= 0)
            (void)close(l->fills[i].source_fd);
    }

    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            (void)close(fds[i]);
    for (size_t i = 0; i < BOOT_SLOTS; i++)
        if (l->boot_slots[i] >= 0)
            (void)close(l->boot_slots[i]);
    cgroup_host_free(l->cgroups);
    network_survivors_free(l);
    free(l->avoid);
    free(l->cpuinfo);
    free(l->state_dir);
    free(l);
}

int launcher_serve_clients_of(struct launcher *l, int listen_fd, struct err *err)
{
    return creator_socket_of(listen_fd, &l->clients, err);
}

bool launcher_cgroup_unified(const struct launcher *l)
{
    return cgroup_host_mode(l->cgroups) == CG_MODE_V2;
}

int launcher_state_fd(const struct launcher *l)
{
    return l->state_fd;
}
