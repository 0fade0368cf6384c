/*
 * The sandbox's small tmpfs. It contains /dev, the files /etc/hosts, /etc/hostname and
 * /etc/resolv.conf, and the mount points of its cgroups. Also its lists of processors, and the
 * empty directory that masks paths of /proc and /sys. Each part becomes a mount of its own; the
 * rest is not attached. Image and upper layer are unchanged, and no name of the host appears in the
 * sandbox's mountinfo.
 *
 * It is one tmpfs, not three, because the kernel has per-superblock lists and walks all of them
 * when a memory cgroup is removed. With a thousand sandboxes this delays starts. Only root inside
 * may write to /dev and these files, so sharing the space is acceptable.
 *
 * Runs in the launcher; called by launcher.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "launch/sandbox.h"
#include "proto/syscalls.h"

/* The parts of the tmpfs. */
enum { OWN_DEV = ETC_FILES, OWN_MASK, OWN_CGROUPS, OWN_CPUS, OWN_CPUINFO, OWN_PARTS };

#define OWN_SIZE   "1344k" /* a MiB for /dev, and room for five files of 64 KiB */
#define OWN_INODES "1040"

static const char *const names[OWN_PARTS] = {
    [ETC_HOSTS] = "hosts", [ETC_HOSTNAME] = "hostname", [ETC_RESOLV] = "resolv.conf",
    [OWN_DEV] = "dev",     [OWN_MASK] = "mask",         [OWN_CGROUPS] = "cgroup",
    [OWN_CPUS] = "cpus",   [OWN_CPUINFO] = "cpuinfo",
};

const char *etc_path(enum etc_file file)
{
    static const char *const paths[ETC_FILES] = {[ETC_HOSTS] = "etc/hosts",
                                                 [ETC_HOSTNAME] = "etc/hostname",
                                                 [ETC_RESOLV] = "etc/resolv.conf"};

    return paths[file];
}

/* Made in the host's user namespace: device nodes on a tmpfs of another one cannot be opened. */
static int own_make_tmpfs(void)
{
    auto_close int fs = sys_fsopen("tmpfs");
    int r = fs < 0 ? fs : 0;

    if (r == 0)
        r = sys_fsconfig(fs, FSCONFIG_SET_STRING, "size", OWN_SIZE, 0);
    if (r == 0)
        r = sys_fsconfig(fs, FSCONFIG_SET_STRING, "nr_inodes", OWN_INODES, 0);
    if (r == 0)
        r = sys_fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0755", 0);
    if (r == 0)
        r = sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
    return r < 0 ? r : sys_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
}

static int write_file(int dir, const char *name, const struct buf *text, uid_t owner)
{
    auto_close int fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    int r;

    if (fd < 0 || fchown(fd, owner, owner) < 0)
        return -errno;
    r = text->len > 0 ? write_all(fd, text->data, text->len) : 0;
    return r < 0 ? r : take_fd(&fd);
}

static int own_make_dir(int dir, const char *name, mode_t mode, uid_t owner)
{
    int fd;

    if (mkdirat(dir, name, mode) < 0)
        return -errno;
    fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -errno;
    if (fchown(fd, owner, owner) < 0) {
        int r = -errno;

        (void)close(fd);
        return r;
    }
    return fd;
}

static int own_make_dirs(int whole, uid_t owner, bool fuse)
{
    auto_close int dev = own_make_dir(whole, names[OWN_DEV], 0755, owner);
    auto_close int mask = dev < 0 ? dev : own_make_dir(whole, names[OWN_MASK], 0555, owner);

    return mask < 0 ? mask : dev_fill(dev, owner, fuse);
}

/* Adds links such as "cpu" to "cpu,cpuacct": programs look for each controller's name. */
static int link_controllers(int dir, const char *name)
{
    char one[CGROUP_VIEW_NAME_MAX];
    size_t len;

    if (strchr(name, ',') == NULL)
        return 0;
    for (const char *at = name; *at != '\0'; at += len + (at[len] == ',')) {
        len = strcspn(at, ",");
        (void)memcpy(one, at, len);
        one[len] = '\0';
        if (symlinkat(name, dir, one) < 0)
            return -errno;
    }
    return 0;
}

/* Makes the mount points of the sandbox's cgroups. */
static int own_make_cgroups(int whole, uid_t owner, const struct cgroup_view *view)
{
    auto_close int dir = FD_NONE;
    int r = 0;

    if (view == NULL || view->whole)
        return 0;
    dir = own_make_dir(whole, names[OWN_CGROUPS], 0755, owner);
    for (int i = 0; i < view->count && dir >= 0 && r == 0; i++) {
        const int point = own_make_dir(dir, view->parts[i].name, 0555, owner);

        r = point < 0 ? point : link_controllers(dir, view->parts[i].name);
        if (point >= 0)
            (void)close(point);
    }
    return dir < 0 ? dir : r;
}

/* hosts and resolv: set if these files are to stay open. */
static int own_make_files(int whole, uid_t owner, const struct buf texts[ETC_FILES], int *hosts,
                          int *resolv)
{
    int *const keep[ETC_FILES] = {[ETC_HOSTS] = hosts, [ETC_RESOLV] = resolv};
    int r = 0;

    for (int i = 0; r >= 0 && i < ETC_FILES; i++) {
        r = write_file(whole, names[i], &texts[i], owner);
        if (r >= 0 && keep[i] != NULL)
            *keep[i] = r;
        else if (r >= 0)
            (void)close(r);
    }
    return r < 0 ? r : 0;
}

static int own_make_cpus(int whole, const struct own_wants *w)
{
    const struct buf *const texts[] = {w->cpus, w->cpuinfo};
    const int parts[] = {OWN_CPUS, OWN_CPUINFO};

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        int fd;

        if (texts[i] == NULL)
            continue;
        fd = write_file(whole, names[parts[i]], texts[i], w->owner);
        if (fd < 0)
            return fd;
        (void)close(fd);
    }
    return 0;
}

static int own_fill(int whole, const struct own_wants *w, int *hosts, int *resolv, struct err *err)
{
    int r = own_make_dirs(whole, w->owner, w->fuse);

    if (r < 0)
        return err_errno(err, r, "fill /dev");
    r = own_make_files(whole, w->owner, w->texts, hosts, resolv);
    if (r < 0)
        return err_errno(err, r, "make the files of /etc");
    r = own_make_cgroups(whole, w->owner, w->cgroups);
    if (r == 0)
        r = own_make_cpus(whole, w);
    return r < 0 ? err_errno(err, r, "make what /sys shows of the sandbox's limits") : 0;
}

/* ---- splitting it ---- */

static bool is_wanted(const struct own_wants *w, int part)
{
    if (part == OWN_CGROUPS)
        return w->cgroups != NULL && !w->cgroups->whole;
    if (part == OWN_CPUINFO)
        return w->cpuinfo != NULL;
    return part != OWN_CPUS || w->cpus != NULL;
}

/* Linux 6.15 and later clone parts of a detached mount. */
static int own_clone_parts(int whole, const struct own_wants *w, int parts[OWN_PARTS])
{
    for (int i = 0; i < OWN_PARTS; i++) {
        if (!is_wanted(w, i))
            continue;
        parts[i] = sys_open_tree(whole, names[i], OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        if (parts[i] < 0)
            return parts[i];
    }
    return 0;
}

/* Older kernels need the mount attached: it is attached in a temporary mount namespace. */
static int own_clone_parts_staged(int whole, const struct own_wants *w, int parts[OWN_PARTS])
{
    auto_close int home = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    auto_close int cwd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r;

    if (home < 0 || cwd < 0 || unshare(CLONE_NEWNS) < 0)
        return -errno;
    r = mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ? -errno : 0;
    if (r == 0)
        r = sys_move_mount(whole, "", AT_FDCWD, "/tmp", MOVE_MOUNT_F_EMPTY_PATH);
    if (r == 0)
        r = own_clone_parts(whole, w, parts);
    /* Every path would be resolved in the wrong namespace from here on. */
    if (setns(home, CLONE_NEWNS) < 0 || fchdir(cwd) < 0)
        abort();
    return r;
}

static void own_close_parts(int parts[OWN_PARTS])
{
    for (int i = 0; i < OWN_PARTS; i++)
        if (parts[i] >= 0)
            (void)close(take_fd(&parts[i]));
}

static int own_split(int whole, const struct own_wants *w, int parts[OWN_PARTS])
{
    static const int read_only[] = {OWN_MASK, OWN_CGROUPS, OWN_CPUS, OWN_CPUINFO};
    struct mount_attr devices = {.attr_clr = MOUNT_ATTR_NODEV};
    struct mount_attr closed = {.attr_set = MOUNT_ATTR_RDONLY};
    int r = own_clone_parts(whole, w, parts);

    if (r == -EINVAL) {
        own_close_parts(parts);
        r = own_clone_parts_staged(whole, w, parts);
    }
    if (r == 0)
        r = sys_mount_setattr(parts[OWN_DEV], "", AT_EMPTY_PATH, &devices);
    for (size_t i = 0; r == 0 && i < sizeof(read_only) / sizeof(read_only[0]); i++)
        if (parts[read_only[i]] >= 0)
            r = sys_mount_setattr(parts[read_only[i]], "", AT_EMPTY_PATH, &closed);
    return r;
}

/*
 * Makes the sandbox's mounts of files in /etc read-only: all of them with a read-only root, which
 * they cover. The launcher still writes through its own fds.
 *
 * With FUSE also each file that the launcher writes. Otherwise a process inside could sleep while
 * it holds the inode lock: it writes from a page that its FUSE server does not deliver. The
 * launcher's next write would wait for that lock. On a read-only mount no process inside takes it.
 */
static int own_set_etc_read_only(const struct own_wants *w, const bool written[ETC_FILES],
                                 const int parts[ETC_FILES])
{
    struct mount_attr closed = {.attr_set = MOUNT_ATTR_RDONLY};
    int r = 0;

    for (int i = 0; i < ETC_FILES && r == 0; i++)
        if (w->read_only || (w->fuse && written[i]))
            r = sys_mount_setattr(parts[i], "", AT_EMPTY_PATH, &closed);
    return r;
}

int own_mounts(const struct own_wants *w, struct own_mounts *ret, int *ret_hosts_fd,
               int *ret_resolv_fd, struct err *err)
{
    const bool written[ETC_FILES] = {
        [ETC_HOSTS] = ret_hosts_fd != NULL, [ETC_RESOLV] = ret_resolv_fd != NULL};
    auto_close int hosts = FD_NONE, resolv = FD_NONE;
    int parts[OWN_PARTS], r;
    mode_t mask;

    for (int i = 0; i < OWN_PARTS; i++)
        parts[i] = FD_NONE;
    ret->whole = FD_NONE;
    r = own_make_tmpfs();
    if (r < 0)
        return err_errno(err, r, "make a file system for /dev and /etc");
    ret->whole = r;
    mask = umask(0);
    r = own_fill(ret->whole, w, ret_hosts_fd != NULL ? &hosts : NULL,
                 ret_resolv_fd != NULL ? &resolv : NULL, err);
    (void)umask(mask);
    if (r < 0)
        return r;
    r = own_split(ret->whole, w, parts);
    if (r == 0)
        r = own_set_etc_read_only(w, written, parts);
    if (r < 0) {
        own_close_parts(parts);
        return err_errno(err, r, "mount /dev, the files of /etc and what /sys shows of limits");
    }
    ret->dev = parts[OWN_DEV];
    ret->mask = parts[OWN_MASK];
    ret->cgroups = parts[OWN_CGROUPS];
    ret->cpus = parts[OWN_CPUS];
    ret->cpuinfo = parts[OWN_CPUINFO];
    (void)memcpy(ret->etc, parts, sizeof(ret->etc)); /* ETC_FILES is the beginning of the parts */
    if (ret_hosts_fd != NULL)
        *ret_hosts_fd = take_fd(&hosts);
    if (ret_resolv_fd != NULL)
        *ret_resolv_fd = take_fd(&resolv);
    return 0;
}

int sysfs_mount(int ns, struct err *err)
{
    auto_close int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    auto_close int fs = FD_NONE;
    int fd;

    if (home < 0 || setns(ns, CLONE_NEWNET) < 0)
        return err_errno(err, -errno, "enter the network to join");
    fs = sys_fsopen("sysfs");
    fd = fs < 0 ? fs : sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
    if (fd == 0)
        fd = sys_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC |
                                 MOUNT_ATTR_RDONLY);
    if (setns(home, CLONE_NEWNET) < 0)
        abort(); /* the launcher would stay in the sandbox's net namespace */
    return fd < 0 ? err_errno(err, fd, "mount /sys of the network to join") : fd;
}
