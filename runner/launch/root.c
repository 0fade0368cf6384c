/* Makes the root file system and the bind sources as detached mounts. They are made in the host's
 * user namespace, because overlay mounts and id-mapped mounts of host file systems need its
 * privileges. Init attaches them inside. Runs in the launcher; called by launcher.c. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "launch/host-view.h"
#include "launch/sandbox.h"
#include "proto/syscalls.h"

enum { NOBODY = 65534 };

/* Clones as private at once: in a shared peer group, later mounts on the host would propagate into
 * it. */
int mount_clone(int fd, struct mount_attr *attr, const char *what, struct err *err)
{
    auto_close int mnt = FD_NONE;
    int r;

    attr->propagation = MS_PRIVATE;
    mnt = sys_open_tree(fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
    if (mnt < 0)
        return err_errno(err, mnt, "clone the mount of %s", what);
    r = sys_mount_setattr(mnt, "", AT_EMPTY_PATH, attr);
    if (r == -EINVAL && (attr->attr_set & MOUNT_ATTR_IDMAP) != 0)
        return err_set(err, -EOPNOTSUPP,
                       "%s: its file system does not support id-mapped mounts; put it on ext4, "
                       "xfs, btrfs or tmpfs",
                       what);
    if (r < 0)
        return err_errno(err, r, "set attributes of the mount of %s", what);
    return take_fd(&mnt);
}

/* ---- overlay ---- */

/* Device nodes of an image or of the upper layer must not open. The overlay's own mount needs the
 * flag: the flags of the lower layers' mounts have no effect through an overlay. */
enum { ROOT_ATTR = MOUNT_ATTR_NODEV, ROOT_MS = MS_NODEV };

void root_sources_close(struct root_sources *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->lowers[i].fd >= 0)
            (void)close(s->lowers[i].fd);
    s->count = 0;
    for (size_t i = 0; i < s->mount_count; i++)
        (void)close(s->mounts[i]);
    s->mount_count = 0;
    host_layers_close(&s->host);
    if (s->own >= 0)
        (void)close(take_fd(&s->own));
}

int root_sources_give(struct root_sources *s, int ret[ROOT_SOURCES_MAX])
{
    int *const rest[] = {&s->own, &s->host.root, &s->host.skeleton};
    int count = 0;

    while (s->mount_count > 0)
        ret[count++] = s->mounts[--s->mount_count];
    for (size_t i = 0; i < sizeof(rest) / sizeof(rest[0]); i++)
        if (*rest[i] >= 0)
            ret[count++] = take_fd(rest[i]);
    return count;
}

/* Clones the mount that dir_fd is in, with dir_fd as its root; read-only, id-mapped to userns_fd
 * unless that is FD_NONE. Returns its index in s->mounts. */
static int root_add_source(struct root_sources *s, int dir_fd, int userns_fd, const char *what,
                           struct err *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV};
    int fd;

    if (userns_fd >= 0) {
        attr.attr_set |= MOUNT_ATTR_IDMAP;
        attr.userns_fd = (uint64_t)(unsigned)userns_fd;
    }
    assert(s->mount_count < ROOT_MOUNTS_MAX);
    fd = mount_clone(dir_fd, &attr, what, err);
    if (fd < 0)
        return fd;
    s->mounts[s->mount_count] = fd;
    return (int)s->mount_count++;
}

/* Appends a lower layer at the bottom. */
static struct root_lower *root_append_lower(struct root_sources *s, int mount)
{
    struct root_lower *lower = &s->lowers[s->count++];

    assert(s->count <= sizeof(s->lowers) / sizeof(s->lowers[0]));
    *lower = (struct root_lower){.fd = FD_NONE, .mount = (size_t)mount, .path = "."};
    return lower;
}

int root_add_mount(struct root_sources *s, int mount_fd, struct err *err)
{
    struct root_lower *lower;

    assert(s->mount_count < ROOT_MOUNTS_MAX);
    s->mounts[s->mount_count++] = mount_fd;
    lower = root_append_lower(s, (int)s->mount_count - 1);
    lower->fd = fcntl(mount_fd, F_DUPFD_CLOEXEC, 3);
    return lower->fd < 0 ? err_errno(err, -errno, "a layer") : 0;
}

/* Adds a lower layer that is a directory of its own, id-mapped. */
static int root_add_lower(struct root_sources *s, int dir_fd, int userns_fd, const char *what,
                          struct err *err)
{
    int mount = root_add_source(s, dir_fd, userns_fd, what, err);
    struct root_lower *lower;

    if (mount < 0)
        return mount;
    lower = root_append_lower(s, mount);
    lower->fd = fcntl(s->mounts[mount], F_DUPFD_CLOEXEC, 3);
    return lower->fd < 0 ? err_errno(err, -errno, "%s", what) : 0;
}

int root_add_image_layers(struct launcher *l, const struct launch_request *q, int userns_fd,
                          struct root_sources *s, struct err *err)
{
    int mount;

    if (q->image_layer_count == 0)
        return 0;
    mount = root_add_source(s, l->image_layers_fd, userns_fd, "the layers of images", err);
    if (mount < 0)
        return mount;
    for (size_t i = 0; i < q->image_layer_count; i++) {
        struct root_lower *lower = root_append_lower(s, mount);

        lower->fd = layer_open_at(s->mounts[mount], q->image_layers[i], lower->path, err);
        if (lower->fd < 0)
            return lower->fd;
    }
    return 0;
}

static int root_add_shipped_layers(struct launcher *l, const struct launch_request *q,
                                   int userns_fd, struct root_sources *s, struct err *err)
{
    int mount;

    if (q->layer_count == 0)
        return 0;
    mount = root_add_source(s, l->layers_fd, userns_fd, "the layers", err);
    if (mount < 0)
        return mount;
    for (size_t i = 0; i < q->layer_count; i++) {
        struct root_lower *lower = root_append_lower(s, mount);

        if ((size_t)snprintf(lower->path, sizeof(lower->path), "%s", q->layers[i]) >=
            sizeof(lower->path))
            return err_set(err, -ENAMETOOLONG, "layer %s", q->layers[i]);
        lower->fd = sys_openat2(s->mounts[mount], lower->path, O_PATH | O_DIRECTORY, 0, OPEN_PLAIN);
        if (lower->fd < 0)
            return err_errno(err, lower->fd, "layer %s", q->layers[i]);
    }
    return 0;
}

int root_add_layers(struct launcher *l, const struct launch_request *q, uid_t base, int userns_fd,
                    struct root_sources *s, struct err *err)
{
    /* Image files have the ids IDRANGE_LAYERS on disk, and the map translates those to the
     * sandbox's. */
    auto_close int layers = q->image_layer_count > 0 ? idmap_layers(base, err) : FD_NONE;
    int r;

    if (q->image_layer_count > 0 && layers < 0)
        return layers;
    r = root_add_image_layers(l, q, layers, s, err);
    return r < 0 ? r : root_add_shipped_layers(l, q, userns_fd, s, err);
}

/* Makes the skeleton for one sandbox: a clone of the shared one, id-mapped to the sandbox's ids. A
 * skeleton contains copies of files: a thousand would be 200 MiB. Linux before 6.15 cannot clone a
 * detached mount, and before 6.3 it cannot id-map a tmpfs; then each start makes its own. */
static int skeleton_open(struct launcher *l, int root, uid_t base, struct mount_attr *attr,
                         struct err *err)
{
    const uint64_t stamp = host_skeleton_stamp(l->host, root);
    int fd;

    if (l->skeleton < 0 || l->skeleton_stamp != stamp) {
        fd = host_skeleton_make(l->host, root, 0, err);
        if (fd < 0)
            return fd;
        if (l->skeleton >= 0)
            (void)close(l->skeleton);
        l->skeleton = fd;
        l->skeleton_stamp = stamp;
    }
    fd = mount_clone(l->skeleton, attr, "", NULL);
    return fd >= 0 ? fd : host_skeleton_make(l->host, root, base, err);
}

/* Every user of the host may read what is shown, so no owner is checked. But as for a root
 * directory, the client must be known. */
static int root_gather_host(struct launcher *l, const struct launch_sandbox *setup, int userns_fd,
                            struct root_sources *s, struct err *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV |
                                          MOUNT_ATTR_NOSUID,
                              .userns_fd = (uint64_t)(unsigned)userns_fd};
    auto_close int root = FD_NONE;

    if (l->host == NULL || setup->creator->kind == CREATOR_NONE)
        return err_set(err, -EPERM, "root file system host: %s",
                       l->host == NULL ? "this launcher shows nothing of the host"
                                       : "the request names no client for whom it is to be shown");
    root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return err_errno(err, -errno, "root file system host");
    s->host.root = mount_clone(root, &attr, "/", err);
    if (s->host.root < 0)
        return err_wrap(err, s->host.root, "root file system host");
    s->nosuid = true;
    s->host.skeleton = skeleton_open(l, root, setup->ids.base, &attr, err);
    return s->host.skeleton < 0 ? s->host.skeleton : 0;
}

static int root_gather_lowers(struct launcher *l, const struct launch_sandbox *setup,
                              const struct launch_request *q, int userns_fd, struct root_sources *s,
                              struct err *err)
{
    const struct creator *creator = setup->creator;
    int r;

    if (q->root_dir != NULL) {
        struct stat st;
        bool read_only;
        auto_close int dir = source_open(l, creator, q->root_dir, 0, &st, &read_only, err);

        if (dir < 0)
            return err_wrap(err, dir, "root file system");
        if (!S_ISDIR(st.st_mode))
            return err_set(err, -ENOTDIR, "root file system '%s' is not a directory", q->root_dir);
        /* The image's ids are all mapped, so root inside reads all of its files, whatever their
         * modes. So a client may not use a directory of a third user. */
        if (creator->kind == CREATOR_CLIENT && st.st_uid != 0 && st.st_uid != creator->uid)
            return err_set(err, -EPERM, "root file system '%s' is another user's", q->root_dir);
        r = root_add_lower(s, dir, userns_fd, q->root_dir, err);
        if (r < 0)
            return r;
    }
    return root_add_layers(l, q, setup->ids.base, userns_fd, s, err);
}

/* Linux 6.13 and later: every layer by fd, without attaching any mount. Older kernels return
 * -EINVAL; those before 6.5, whose overlayfs takes no fds at all, return -EOPNOTSUPP. */
static int overlay_by_fd(struct root_sources *s)
{
    auto_close int view = s->host.root >= 0 ? host_view_by_fd(&s->host) : FD_NONE;
    auto_close int upper = FD_NONE;
    auto_close int work = FD_NONE;
    auto_close int fs = FD_NONE;
    int r = 0;

    if (s->host.root >= 0 && view < 0)
        return view;
    if (s->own >= 0) {
        upper = openat(s->own, "upper", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        work = openat(s->own, "work", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (upper < 0 || work < 0)
            return -errno;
    }
    fs = sys_fsopen("overlay");
    if (fs < 0)
        return fs;
    if (view >= 0)
        r = sys_fsconfig(fs, FSCONFIG_SET_FD, "lowerdir+", NULL, view);
    for (size_t i = 0; r == 0 && i < s->count; i++)
        r = sys_fsconfig(fs, FSCONFIG_SET_FD, "lowerdir+", NULL, s->lowers[i].fd);
    if (r == 0 && upper >= 0)
        r = sys_fsconfig(fs, FSCONFIG_SET_FD, "upperdir", NULL, upper);
    if (r == 0 && work >= 0)
        r = sys_fsconfig(fs, FSCONFIG_SET_FD, "workdir", NULL, work);
    /* Layers are hostile: no redirects, and no metadata-only copies whose data is elsewhere. */
    if (r == 0)
        r = sys_fsconfig(fs, FSCONFIG_SET_STRING, "redirect_dir", "nofollow", 0);
    if (r == 0)
        r = sys_fsconfig(fs, FSCONFIG_SET_STRING, "metacopy", "off", 0);
    if (r == 0 && s->is_volatile)
        r = sys_fsconfig(fs, FSCONFIG_SET_FLAG, "volatile", NULL, 0);
    if (r == 0)
        r = sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
    return r < 0 ? r : sys_fsmount(fs, ROOT_ATTR | (s->nosuid ? MOUNT_ATTR_NOSUID : 0));
}

/* Older kernels take layers only as paths of attached mounts, and mount(2) takes one page of
 * options. So the mounts are attached as "m0", "m1" and so on, in a small tmpfs of a temporary
 * mount namespace. Links "0", "1" and so on lead to the layers in them. */
static int root_stage_lowers(const struct root_sources *s)
{
    char name[24], target[LAUNCH_LAYER_PATH_MAX + 24];

    for (size_t i = 0; i < s->mount_count; i++) {
        int r;

        (void)snprintf(name, sizeof(name), "m%zu", i);
        if (mkdir(name, 0700) < 0)
            return -errno;
        r = sys_move_mount(s->mounts[i], "", AT_FDCWD, name, MOVE_MOUNT_F_EMPTY_PATH);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < s->count; i++) {
        (void)snprintf(name, sizeof(name), "%zu", i);
        (void)snprintf(target, sizeof(target), "m%zu/%s", s->lowers[i].mount, s->lowers[i].path);
        if (symlink(target, name) < 0)
            return -errno;
    }
    return 0;
}

static int overlay_staged_here(struct root_sources *s)
{
    char options[4096];
    size_t len;
    int r;

    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("rind", "/tmp", "tmpfs", 0, "size=1m") < 0 || chdir("/tmp") < 0 ||
        mkdir("m", 0700) < 0 || mkdir("d", 0700) < 0)
        return -errno;
    len =
        (size_t)snprintf(options, sizeof(options), "redirect_dir=nofollow,metacopy=off,lowerdir=");
    if (s->host.root >= 0) {
        r = host_view_staged(&s->host, "h");
        if (r < 0)
            return r;
        len += (size_t)snprintf(options + len, sizeof(options) - len, "h/" HOST_VIEW "%s",
                                s->count > 0 ? ":" : "");
    }
    r = root_stage_lowers(s);
    if (r < 0)
        return r;
    for (size_t i = 0; i < s->count; i++)
        len += (size_t)snprintf(options + len, sizeof(options) - len, "%s%zu", i > 0 ? ":" : "", i);
    if (s->own >= 0) { /* upper and work are on one mount, as overlayfs requires */
        r = sys_move_mount(s->own, "", AT_FDCWD, "d", MOVE_MOUNT_F_EMPTY_PATH);
        if (r < 0)
            return r;
        (void)snprintf(options + len, sizeof(options) - len, ",upperdir=d/upper,workdir=d/work%s",
                       s->is_volatile ? ",volatile" : "");
    }
    if (mount("overlay", "m", "overlay", ROOT_MS | (s->nosuid ? MS_NOSUID : 0), options) < 0)
        return -errno;
    return sys_open_tree(AT_FDCWD, "m", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
}

/* Mounts in a temporary mount namespace. All mounts of s were detached before the unshare: any
 * other mount would stay attached in the namespace where it was opened. */
static int overlay_staged(struct root_sources *s)
{
    auto_close int home = FD_NONE;
    auto_close int cwd = FD_NONE;
    int fd;

    home = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    cwd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (home < 0 || cwd < 0 || unshare(CLONE_NEWNS) < 0)
        return -errno;
    fd = overlay_staged_here(s);
    /* Every path would be resolved in the wrong namespace from here on. */
    if (setns(home, CLONE_NEWNS) < 0 || fchdir(cwd) < 0)
        abort();
    return fd;
}

static int overlay_mount(struct root_sources *s, const char *what, struct err *err)
{
    int fd = overlay_by_fd(s);

    if (fd == -EINVAL || fd == -EOPNOTSUPP)
        fd = overlay_staged(s);
    return fd < 0 ? err_errno(err, fd, "mount %s", what) : fd;
}

int root_mount_lowers(struct root_sources *s, struct err *err)
{
    return overlay_mount(s, "the layers as an overlay", err);
}

int root_mount(struct launcher *l, const struct launch_sandbox *s, const struct launch_request *q,
               int userns_fd, struct root_sources *sources, struct err *err)
{
    struct mount_attr plain = {.attr_set = 0};
    int r;

    sources->is_volatile = !s->kept;
    r = (q->flags & LAUNCH_HOST_ROOT) != 0 ? root_gather_host(l, s, userns_fd, sources, err) : 0;
    if (r == 0)
        r = root_gather_lowers(l, s, q, userns_fd, sources, err);
    if (r < 0)
        return r;
    /* A mount of its own, because overlayfs shows its layers' paths in /proc/self/mountinfo: on
     * this mount they are /upper and /work, wherever the state directory is. Private, because init
     * attaches mounts to it (PLAN_OP_DISCARD), which must not propagate to the host. */
    r = disk_mount(s, err);
    if (r < 0 && r != -ENOENT)
        return r;
    sources->own = r >= 0 ? r : mount_clone(s->dir_fd, &plain, "the writable layer", err);
    if (sources->own < 0)
        return sources->own;
    return overlay_mount(sources, "the root overlay", err);
}

/* Returns the only layer as a mount of its own. Cloning a subdirectory of a detached mount needs
 * Linux 6.15. On older kernels a shipped layer is below, so there are two. */
static int root_clone_only_lower(struct root_sources *s, struct err *err)
{
    struct root_lower *only = &s->lowers[0];
    int fd;

    if (strcmp(only->path, ".") == 0)
        return take_fd(&only->fd);
    fd = sys_open_tree(only->fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
    return fd < 0 ? err_errno(err, fd, "clone the mount of a layer") : fd;
}

int root_mount_read_only(struct launcher *l, const struct creator *creator,
                         const struct launch_request *q, int userns_fd,
                         const struct launch_sandbox *upper, struct err *err)
{
    struct root_sources sources
        __attribute__((cleanup(root_sources_close))) = {.host = HOST_LAYERS_NONE, .own = FD_NONE};
    const struct launch_sandbox of_volumes = {.creator = (struct creator *)(uintptr_t)creator,
                                              .ids.base = IDRANGE_LAYERS};
    int r = 0;

    if (upper != NULL) {
        auto_close int disk = FD_NONE;
        auto_close int dir = upper_open(upper, &disk, err);
        auto_close int userns = dir < 0 ? dir : idmap_range(upper->ids.base, IDRANGE_LAYERS, err);

        r = userns < 0 ? userns : root_add_lower(&sources, dir, userns, "the writable layer", err);
    }
    if (r == 0)
        r = root_gather_lowers(l, &of_volumes, q, userns_fd, &sources, err);
    if (r < 0)
        return r;
    if (sources.count == 1) /* an overlay needs two layers */
        return root_clone_only_lower(&sources, err);
    return overlay_mount(&sources, "the image", err);
}

/* ---- volumes ---- */

/*
 * The host uid and gid whose files in a source belong to the sandbox's user. For the daemon's owner
 * they are the source's owner and group, root included. The mount is nosuid and nodev, and a
 * writable one is guarded (volume-look.c, floor.c), so that no root-owned file in it leads to root
 * on the host. For a client they are the client's own: inside, the client can act as no other user.
 * Files of other users stay theirs: the sandbox has the permissions of "other", and no capability
 * over them.
 */
struct mapped {
    uid_t uid;
    gid_t gid;
};

/* A client's mount never maps the host's root: root's files in it show uid 65534. */
static uint32_t client_map_id(uint32_t host_id)
{
    return host_id == 0 ? NOBODY : host_id;
}

static struct mapped creator_mapped(const struct creator *c, const struct stat *st)
{
    if (c->kind == CREATOR_OWNER)
        return (struct mapped){st->st_uid, st->st_gid};
    if (c->kind == CREATOR_NONE) /* source_open opens nothing for it */
        return (struct mapped){NOBODY, NOBODY};
    return (struct mapped){client_map_id(c->uid),
                           client_map_id(creator_in_group(c, st->st_gid) ? st->st_gid : c->gid)};
}

static bool fd_path(int fd, char path[PATH_MAX])
{
    char link[64];
    ssize_t n;

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, PATH_MAX - 1);
    path[n < 0 ? 0 : n] = '\0';
    return n > 0 && n < PATH_MAX - 1;
}

/* Classifies by the kernel's own paths of both, so that different spellings of a path are equal. */
static enum path_kind source_kind(const struct launcher *l, int source)
{
    char path[PATH_MAX], state[PATH_MAX];

    return fd_path(source, path) && fd_path(l->state_fd, state) ? path_kind(path, state)
                                                                : PATH_SYSTEM;
}

/*
 * Removes from *who owners that the sandbox's user must not become in this source. Root: in system
 * directories, in directories shared by many users, and in sticky world-writable ones, whose owner
 * may remove others' files. Any id of rind's own pool: everywhere. -EPERM: the source cannot be
 * shared writable.
 */
static int source_limit_mapped(const struct launcher *l, const struct launch_volume *v, int source,
                               const struct stat *st, struct mapped *who, struct err *err)
{
    const enum path_kind kind = source_kind(l, source);
    const bool of_pool = st->st_uid >= IDRANGE_FIRST || st->st_gid >= IDRANGE_FIRST;
    const bool sticky = (st->st_mode & (S_ISVTX | S_IWOTH)) == (S_ISVTX | S_IWOTH);

    if (kind == PATH_STATE || of_pool) {
        if (!v->read_only)
            return err_set(err, -EPERM,
                           "volume '%s' is of rind's own state or of another sandbox: it can be "
                           "shown read-only (:ro), as nobody's; for files that stay use a named "
                           "volume",
                           v->source);
        *who = (struct mapped){NOBODY, NOBODY};
    } else if (kind == PATH_SYSTEM && who->uid == 0 && !v->read_only && S_ISDIR(st->st_mode)) {
        return err_set(err, -EPERM,
                       "volume '%s' is a directory of the system's or holds rind's own state, and "
                       "root owns it: it can be shown read-only (:ro), as nobody's; for files of "
                       "your own take one below /srv, /opt or /home",
                       v->source);
    } else if (kind != PATH_ANY || sticky) {
        *who = (struct mapped){client_map_id(who->uid), client_map_id(who->gid)};
    }
    return 0;
}

int volume_mount(struct launcher *l, const struct launch_sandbox *s, const struct launch_volume *v,
                 struct volume_kind *ret, struct err *err)
{
    auto_close int source = FD_NONE;
    auto_close int userns = FD_NONE;
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
    struct mapped who;
    struct stat st;
    bool read_only;
    int fd, r;

    source = source_open(l, s->creator, v->source,
                         (v->read_only ? 0U : SOURCE_WRITE) | (v->make ? SOURCE_MAKE : 0U), &st,
                         &read_only, err);
    if (source < 0)
        return err_wrap(err, source, "volume");
    read_only = v->read_only || read_only;
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
        return err_set(err, -EINVAL, "volume '%s' is neither a directory nor a file", v->source);
    if (s->creator->kind == CREATOR_CLIENT && !v->read_only &&
        (st.st_uid != s->creator->uid || !creator_in_group(s->creator, st.st_gid)))
        return err_set(err, -EPERM,
                       "volume '%s' is not yours, or of a group that you are not in: it can be "
                       "shown read-only",
                       v->source);

    who = creator_mapped(s->creator, &st);
    r = source_limit_mapped(l, v, source, &st, &who, err);
    if (r < 0)
        return r;
    userns = idmap_owner(who.uid, s->ids.base + v->uid, who.gid, s->ids.base + v->gid, err);
    if (userns < 0)
        return userns;
    attr.userns_fd = (uint64_t)(unsigned)userns;
    if (read_only)
        attr.attr_set |= MOUNT_ATTR_RDONLY;
    ret->is_dir = S_ISDIR(st.st_mode);
    ret->guarded = !read_only;
    ret->of_root = !read_only && (who.uid == 0 || who.gid == 0);
    fd = mount_clone(source, &attr, v->source, err);
    return fd < 0 ? err_wrap(err, fd, "volume") : fd;
}
