/*
 * /etc/hosts, /etc/hostname and /etc/resolv.conf of a sandbox: files of a small file system in
 * memory, each of which becomes a mount of its own over the image's. Neither image nor upper layer
 * is touched, and no name of the host's shows in the sandbox's list of mounts.
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

static const char *const names[ETC_FILES] = {
    [ETC_HOSTS] = "hosts", [ETC_HOSTNAME] = "hostname", [ETC_RESOLV] = "resolv.conf"};

const char *etc_path(enum etc_file file)
{
    static const char *const paths[ETC_FILES] = {[ETC_HOSTS] = "etc/hosts",
                                                 [ETC_HOSTNAME] = "etc/hostname",
                                                 [ETC_RESOLV] = "etc/resolv.conf"};

    return paths[file];
}

static int make_tmpfs(void)
{
    auto_close int fs = sys_fsopen("tmpfs");
    int r = fs < 0 ? fs : 0;

    if (r == 0)
        r = sys_fsconfig(fs, FSCONFIG_SET_STRING, "size", "256k", 0);
    if (r == 0)
        r = sys_fsconfig(fs, FSCONFIG_SET_STRING, "nr_inodes", "8", 0);
    if (r == 0)
        r = sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
    return r < 0 ? r : sys_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
}

static int write_file(int dir, const char *name, const struct buf *text, uid_t owner)
{
    auto_close int fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    int r;

    if (fd < 0 || fchown(fd, owner, owner) < 0 || fchmod(fd, 0644) < 0)
        return -errno;
    r = text->len > 0 ? write_all(fd, text->data, text->len) : 0;
    return r < 0 ? r : take_fd(&fd);
}

/* Linux 6.15 clones parts of a mount that is attached nowhere. */
static int clone_all(int dir, int fds[ETC_FILES])
{
    for (int i = 0; i < ETC_FILES; i++) {
        fds[i] = sys_open_tree(dir, names[i], OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        if (fds[i] < 0)
            return fds[i];
    }
    return 0;
}

/* Older ones want it attached: in a mount namespace of its own, which is left again. */
static int clone_staged(int dir, int fds[ETC_FILES])
{
    auto_close int home = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    auto_close int cwd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r;

    if (home < 0 || cwd < 0 || unshare(CLONE_NEWNS) < 0)
        return -errno;
    r = mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ? -errno : 0;
    if (r == 0)
        r = sys_move_mount(dir, "", AT_FDCWD, "/tmp", MOVE_MOUNT_F_EMPTY_PATH);
    if (r == 0)
        r = clone_all(dir, fds);
    /* Every path would mean something else from here on: no start is worth that. */
    if (setns(home, CLONE_NEWNS) < 0 || fchdir(cwd) < 0)
        abort();
    return r;
}

static void close_all(int fds[ETC_FILES])
{
    for (int i = 0; i < ETC_FILES; i++)
        if (fds[i] >= 0)
            (void)close(take_fd(&fds[i]));
}

int etc_mounts(uid_t owner, const struct buf texts[ETC_FILES], int ret[ETC_FILES], int *ret_dir,
               int *ret_hosts_fd, int *ret_resolv_fd, struct err *err)
{
    const int dir = make_tmpfs();
    auto_close int hosts = FD_NONE, resolv = FD_NONE;
    int r = dir;

    *ret_dir = dir;

    for (int i = 0; i < ETC_FILES; i++)
        ret[i] = FD_NONE;
    for (int i = 0; r >= 0 && i < ETC_FILES; i++) {
        r = write_file(dir, names[i], &texts[i], owner);
        if (r >= 0 && i == ETC_HOSTS && ret_hosts_fd != NULL)
            hosts = r;
        else if (r >= 0 && i == ETC_RESOLV && ret_resolv_fd != NULL)
            resolv = r;
        else if (r >= 0)
            (void)close(r);
    }
    if (r < 0)
        return err_errno(err, r, "make the files of /etc");
    r = clone_all(dir, ret);
    if (r == -EINVAL) {
        close_all(ret);
        r = clone_staged(dir, ret);
    }
    if (r < 0) {
        close_all(ret);
        return err_errno(err, r, "mount the files of /etc");
    }
    if (ret_hosts_fd != NULL)
        *ret_hosts_fd = take_fd(&hosts);
    if (ret_resolv_fd != NULL)
        *ret_resolv_fd = take_fd(&resolv);
    return 0;
}

int sysfs_mount(int pidfd, struct err *err)
{
    auto_close int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    auto_close int fs = FD_NONE;
    int fd;

    if (home < 0 || setns(pidfd, CLONE_NEWNET) < 0)
        return err_errno(err, -errno, "enter the network to join");
    fs = sys_fsopen("sysfs");
    fd = fs < 0 ? fs : sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
    if (fd == 0)
        fd = sys_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC |
                                 MOUNT_ATTR_RDONLY);
    if (setns(home, CLONE_NEWNET) < 0)
        abort(); /* in a sandbox's network: nothing that follows would be right */
    return fd < 0 ? err_errno(err, fd, "mount /sys of the network to join") : fd;
}
