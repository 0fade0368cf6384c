/* Probes of mounts. All mounts are detached or in a mount namespace of the probe's child. */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/dir.h"
#include "base/file.h"
#include "sys/probe-internal.h"
#include "sys/probe.h"

static int probe_enter_mounts(const struct probe_env *env)
{
    int r = probe_enter(env, CLONE_NEWNS);

    if (r < 0)
        return r;
    return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ? -errno : 0;
}

/* Makes a detached mount of a new instance of `type`: returns an fd, or a negative errno. */
static int mount_detached(const char *type, const char *flag)
{
    auto_close int fs = fsopen(type, FSOPEN_CLOEXEC);
    int fd;

    if (fs < 0)
        return -errno;
    if (flag != NULL && fsconfig(fs, FSCONFIG_SET_FLAG, flag, NULL, 0) < 0)
        return -errno;
    if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    fd = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    return fd < 0 ? -errno : fd;
}

int probe_mount_api(const struct probe_env *env)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    auto_close int fd = FD_NONE;
    int r;

    r = probe_enter_mounts(env);
    if (r < 0)
        return r;
    fd = mount_detached("tmpfs", NULL);
    if (fd < 0)
        return fd;
    return mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0 ? -errno : 0;
}

int probe_fs(const struct probe_env *env)
{
    auto_close int fd = FD_NONE;
    int r;

    /* As in a sandbox: inside a user namespace, whether or not the caller is privileged. */
    r = probe_enter_user(CLONE_NEWNS | CLONE_NEWIPC);
    if (r < 0)
        return r;
    fd = mount_detached(env->text, strcmp(env->text, "devpts") == 0 ? "newinstance" : NULL);
    return fd < 0 ? fd : 0;
}

static int mount_proc(const struct probe_env *env)
{
    auto_close int fd = mount_detached("proc", NULL);

    (void)env;
    return fd < 0 ? fd : 0;
}

int probe_proc(const struct probe_env *env)
{
    int r = probe_enter_user(CLONE_NEWNS | CLONE_NEWPID);

    if (r < 0)
        return r;
    /* unshare puts only children into the new pid namespace. */
    return probe_in_grandchild(mount_proc, env);
}

int probe_sysfs(const struct probe_env *env)
{
    auto_close int fd = FD_NONE;
    int r;

    (void)env;
    r = probe_enter_user(CLONE_NEWNS | CLONE_NEWNET);
    if (r < 0)
        return r;
    fd = mount_detached("sysfs", NULL);
    return fd < 0 ? fd : 0;
}

int probe_fuse(const struct probe_env *env)
{
    auto_close int dev = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    char options[96];
    int r;

    if (dev < 0)
        return -errno;
    r = probe_enter_mounts(env);
    if (r < 0)
        return r;
    /* No server answers this file system; it is aborted when the child exits and closes the device.
     */
    (void)snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", dev);
    return mount("rind-probe", "/", "fuse", MS_NOSUID | MS_NODEV, options) < 0 ? -errno : 0;
}

/* Does not request a free loop device: that may create one, which would remain. */
int probe_disk(const struct probe_env *env)
{
    auto_close int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    auto_close int fs = FD_NONE;
    int r;

    if (control < 0)
        return -errno;
    r = probe_enter_mounts(env);
    if (r < 0)
        return r;
    fs = fsopen("ext4", FSOPEN_CLOEXEC);
    return fs < 0 ? -errno : 0;
}

int probe_xattrs(const struct probe_env *env)
{
    auto_free char *path = NULL;

    if (asprintf(&path, "%s/lower/f", env->dir) < 0) {
        path = NULL;
        return -ENOMEM;
    }
    return setxattr(path, "user.rind", "x", 1, 0) < 0 ||
                   setxattr(path, "trusted.rind", "x", 1, 0) < 0
               ? -errno
               : 0;
}

/* Makes a detached, idmapped clone of the directory: returns an fd, or a negative errno. */
static int mount_idmapped(const char *dir, uint32_t base)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP};
    auto_close int tree = FD_NONE, userns = FD_NONE;

    tree = open_tree(AT_FDCWD, dir, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree < 0)
        return -errno;
    userns = probe_userns(base);
    if (userns < 0)
        return userns;
    attr.userns_fd = (unsigned)userns;
    if (mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
        return -errno;
    return take_fd(&tree);
}

int probe_idmap(const struct probe_env *env)
{
    auto_close int fd = mount_idmapped(env->dir, (uint32_t)env->number);

    return fd < 0 ? fd : 0;
}

/* Mounts an overlay, and writes to a file of the lower layer, which copies it up. */
static int overlay_use(const char *options)
{
    static const char text[] = "x";
    auto_close int fd = FD_NONE;
    struct stat st;
    int r = 0;

    if (mount("overlay", "merged", "overlay", MS_NOSUID | MS_NODEV, options) < 0)
        return -errno;
    fd = open("merged/f", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, sizeof(text)) < 0)
        r = -errno;
    if (r == 0 && (fstat(fd, &st) < 0 || stat("upper/f", &st) < 0))
        r = -errno;
    if (fd >= 0)
        (void)close(take_fd(&fd));
    (void)umount2("merged", MNT_DETACH);
    return r;
}

int probe_overlay(const struct probe_env *env)
{
    int r = probe_enter_mounts(env);

    if (r < 0)
        return r;
    if (chdir(env->dir) < 0)
        return -errno;
    return overlay_use("lowerdir=lower,upperdir=upper,workdir=work");
}

int probe_overlay_idmap(const struct probe_env *env)
{
    auto_close int fd = FD_NONE;
    int r = probe_enter_mounts(env);

    if (r < 0)
        return r;
    if (chdir(env->dir) < 0)
        return -errno;
    fd = mount_idmapped("lower", (uint32_t)env->number);
    if (fd < 0)
        return fd;
    if (move_mount(fd, "", AT_FDCWD, "mapped", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    return overlay_use("lowerdir=mapped,upperdir=upper,workdir=work");
}

int probe_overlay_user(const struct probe_env *env)
{
    int r = probe_enter_user(CLONE_NEWNS);

    if (r < 0)
        return r;
    if (chdir(env->dir) < 0)
        return -errno;
    return overlay_use("lowerdir=lower,upperdir=upper,workdir=work,userxattr");
}

/* The scratch directory. Its name contains its maker's pid, to tell stale ones from those in use.
 */

#define SCRATCH_PREFIX ".rind-probe-"
enum { SCRATCH_DEPTH_MAX = 6 }; /* deeper than overlayfs's own directories in work/ */

static void scratch_remove_tree(int at, const char *name, int depth)
{
    auto_ptr(dir_close) DIR *d = NULL;
    const struct dirent *e;

    if (unlinkat(at, name, 0) == 0 || unlinkat(at, name, AT_REMOVEDIR) == 0)
        return;
    if (depth >= SCRATCH_DEPTH_MAX)
        return;
    d = dir_open(at, name);
    if (d == NULL)
        return;
    while ((e = dir_next(d)) != NULL)
        scratch_remove_tree(dirfd(d), e->d_name, depth + 1);
    (void)unlinkat(at, name, AT_REMOVEDIR);
}

void probe_scratch_remove(const char *path)
{
    if (path != NULL)
        scratch_remove_tree(AT_FDCWD, path, 0);
}

/* Only directories of this user: in a directory such as /tmp any user can make such a name. */
static bool scratch_is_stale(int dirfd, const char *name)
{
    char *end;
    long pid = strtol(name + strlen(SCRATCH_PREFIX), &end, 10);
    struct stat st;

    if (pid <= 0 || *end != '\0' || (kill((pid_t)pid, 0) == 0 || errno != ESRCH))
        return false;
    return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) &&
           st.st_uid == geteuid();
}

static void scratch_sweep(const char *dir)
{
    auto_ptr(dir_close) DIR *d = dir_take(open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const struct dirent *e;

    while (d != NULL && (e = dir_next(d)) != NULL)
        if (strncmp(e->d_name, SCRATCH_PREFIX, strlen(SCRATCH_PREFIX)) == 0 &&
            scratch_is_stale(dirfd(d), e->d_name))
            scratch_remove_tree(dirfd(d), e->d_name, 0);
}

static int scratch_fill(const char *path)
{
    static const char *const dirs[] = {"lower", "upper", "work", "merged", "mapped"};
    auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    auto_close int file = FD_NONE;

    if (fd < 0)
        return -errno;
    for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
        if (mkdirat(fd, dirs[i], 0700) < 0)
            return -errno;
    file = openat(fd, "lower/f", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return file < 0 ? -errno : 0;
}

char *probe_scratch_make(const char *dir, int *ret_errno)
{
    auto_free char *path = NULL;
    int r;

    scratch_sweep(dir);
    if (asprintf(&path, "%s/" SCRATCH_PREFIX "%d", dir, (int)getpid()) < 0) {
        path = NULL;
        *ret_errno = -ENOMEM;
        return NULL;
    }
    if (mkdir(path, 0700) < 0) {
        *ret_errno = -errno;
        return NULL;
    }
    r = scratch_fill(path);
    if (r < 0) {
        probe_scratch_remove(path);
        *ret_errno = r;
        return NULL;
    }
    return take(path);
}
