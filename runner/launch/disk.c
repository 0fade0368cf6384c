/*
 * The disk of a sandbox with a disk limit: sandboxes/<id>/disk, a sparse file with an ext4 in it,
 * attached to a loop device while the sandbox runs. The upper layer and overlay's work directory
 * are on it, so ENOSPC and the limit of inodes come from that file system.
 *
 * No sweep is needed. The loop device is detached with its last user (LO_FLAGS_AUTOCLEAR): the
 * launcher until the file system is mounted, then the mount, which disappears with the sandbox's
 * mount namespace. The device holds the open file description that is flocked. So the image stays
 * locked exactly as long as a device uses it: two mounts of one image would destroy it.
 *
 * Only the launcher (disk-make.c) and the kernel's ext4 write the image. Processes inside see
 * files, never blocks.
 *
 * Runs in the launcher.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/dir.h"
#include "base/err.h"
#include "launch/launcher.h"
#include "launch/sandbox.h"
#include "proto/syscalls.h"

enum {
    /* another process may claim the device between LOOP_CTL_GET_FREE and LOOP_CONFIGURE */
    LOOP_TRIES = 64,
    /* the file system's block size, so that its writes need no read-modify-write */
    LOOP_BLOCK = 4096,
    /* pauses of LOCK_PAUSE: the last user of the image has exited, and the kernel still detaches it
     */
    LOCK_TRIES = 1000,
    LOCK_PAUSE = 2 * 1000 * 1000, /* ns */
    RESERVE_SHARE = 20,           /* the default reserve: this fraction of the file system, */
};
#define RESERVE_MOST (UINT64_C(1) << 30) /* but no more than this */

/* ---- the host's reserve ---- */

static uint64_t reserve_of(const struct launcher *l, const struct statvfs *st)
{
    uint64_t share = (uint64_t)st->f_blocks * st->f_frsize / RESERVE_SHARE;

    if (l->disk_reserve != 0)
        return l->disk_reserve;
    return share < RESERVE_MOST ? share : RESERVE_MOST;
}

uint64_t disk_reserve_bytes(const struct launcher *l)
{
    struct statvfs st;

    return fstatvfs(l->sandboxes_fd, &st) < 0 ? l->disk_reserve : reserve_of(l, &st);
}

int disk_check_reserve(const struct launcher *l, uint64_t bytes, struct err *err)
{
    struct statvfs st;
    uint64_t reserve, free_bytes;

    if (fstatvfs(l->sandboxes_fd, &st) < 0)
        return err_errno(err, -errno, "room for sandboxes");
    reserve = reserve_of(l, &st);
    free_bytes = (uint64_t)st.f_bavail * st.f_frsize;
    if (free_bytes >= reserve && free_bytes - reserve >= bytes)
        return 0;
    return err_set(err, -ENOSPC,
                   "limit diskReserveBytes: %" PRIu64 " bytes are free where sandboxes are kept, "
                   "%" PRIu64 " of them are the host's reserve%s",
                   free_bytes, reserve,
                   bytes > 0 ? ", and the disk could take all of its size" : "");
}

/* ---- making ---- */

int disk_make(int dir_fd, const char *name, uint64_t bytes, bool journal, struct err *err)
{
    auto_close int fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    bytes -= bytes % LOOP_BLOCK;
    if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
        return err_errno(err, -errno, "disk: make its image");
    return disk_format(fd, bytes, journal, err);
}

/* ---- the loop device ---- */

static int loop_attach(int control, int image, struct err *err)
{
    struct loop_config config = {
        .fd = (__u32)image,
        .block_size = LOOP_BLOCK,
        .info = {.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO},
    };

    for (int i = 0; i < LOOP_TRIES; i++) {
        auto_close int fd = FD_NONE;
        char path[32];
        int n = ioctl(control, LOOP_CTL_GET_FREE);

        if (n < 0)
            return err_errno(err, -errno, "disk: a free loop device");
        (void)snprintf(path, sizeof(path), "/dev/loop%d", n);
        fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd < 0)
            return err_errno(err, -errno, "disk: %s", path);
        if (ioctl(fd, LOOP_CONFIGURE, &config) == 0)
            return take_fd(&fd);
        if (errno == EINVAL && (config.info.lo_flags & LO_FLAGS_DIRECT_IO) != 0)
            config.info.lo_flags = LO_FLAGS_AUTOCLEAR; /* the file system below has no direct I/O */
        else if (errno != EBUSY)
            return err_errno(err, -errno, "disk: set %s up", path);
    }
    return err_set(err, -EBUSY, "disk: every free loop device was taken by others");
}

static int loop_open(int image, struct err *err)
{
    auto_close int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);

    if (control < 0)
        return err_set(err, -EOPNOTSUPP,
                       "disk: this host has no loop devices (CONFIG_BLK_DEV_LOOP, "
                       "/dev/loop-control): a disk limit cannot be kept");
    return loop_attach(control, image, err);
}

/* ---- mounting ---- */

/* Opens and locks the image. After its sandbox has exited, the kernel may hold the lock a little
 * longer. */
static int disk_open_image(int dir_fd, struct err *err)
{
    const struct timespec pause = {.tv_nsec = LOCK_PAUSE};
    auto_close int fd = openat(dir_fd, DISK_FILE, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0)
        return errno == ENOENT ? -ENOENT : err_errno(err, -errno, "disk: its image");
    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return err_errno(err, -errno, "disk: lock its image");
        if (i == LOCK_TRIES)
            return err_set(err, -EBUSY, "disk: its image is still mounted");
        (void)nanosleep(&pause, NULL);
    }
    return take_fd(&fd);
}

static int disk_mount_ext4(int device, struct err *err)
{
    auto_close int fs = sys_fsopen("ext4");
    char source[32];
    int r;

    if (fs < 0)
        return err_errno(err, fs, "disk: ext4");
    (void)snprintf(source, sizeof(source), "/proc/self/fd/%d", device);
    r = sys_fsconfig(fs, FSCONFIG_SET_STRING, "source", source, 0);
    if (r == 0) /* freed blocks are returned to the host */
        r = sys_fsconfig(fs, FSCONFIG_SET_FLAG, "discard", NULL, 0);
    if (r == 0) /* the inode tables are holes and stay so */
        r = sys_fsconfig(fs, FSCONFIG_SET_FLAG, "noinit_itable", NULL, 0);
    if (r == 0)
        r = sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
    if (r == 0)
        r = sys_fsmount(fs, MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID);
    return r < 0 ? err_errno(err, r, "disk: mount its ext4") : r;
}

/* Finds the loop device that uses this image for another mount. While the returned fd is open, the
 * device stays attached. */
static int loop_find(int image, struct err *err)
{
    auto_ptr(dir_close) DIR *d = dir_open(AT_FDCWD, "/sys/block");
    const struct dirent *e;
    struct stat st;
    int found = FD_NONE;

    if (d == NULL || fstat(image, &st) < 0)
        return err_errno(err, -errno, "disk: look for its loop device");
    while (found < 0 && (e = dir_next(d)) != NULL) {
        struct loop_info64 info;
        char path[300];
        auto_close int fd = FD_NONE;

        if (strncmp(e->d_name, "loop", 4) != 0)
            continue;
        (void)snprintf(path, sizeof(path), "/dev/%s", e->d_name);
        fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (fd >= 0 && ioctl(fd, LOOP_GET_STATUS64, &info) == 0 && info.lo_inode == st.st_ino &&
            info.lo_device == st.st_dev)
            found = take_fd(&fd);
    }
    return found >= 0 ? found : err_set(err, -EBUSY, "disk: its image is being let go");
}

/* Like disk_mount for an image that may be mounted already; mounts that file system again then. */
static int disk_peek(int dir_fd, const char *name, struct err *err)
{
    auto_close int image = openat(dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    auto_close int device = FD_NONE;

    if (image < 0)
        return errno == ENOENT ? -ENOENT : err_errno(err, -errno, "disk: its image");
    if (flock(image, LOCK_EX | LOCK_NB) == 0)
        device = loop_open(image, err);
    else
        device = loop_find(image, err);
    /* One device has one superblock, however often it is mounted. */
    return device < 0 ? device : disk_mount_ext4(device, err);
}

int upper_open(const struct launch_sandbox *s, int *ret_disk, struct err *err)
{
    auto_close int disk = disk_peek(s->dir_fd, DISK_FILE, err);
    int fd;

    if (disk < 0 && disk != -ENOENT)
        return disk;
    fd = openat(disk >= 0 ? disk : s->dir_fd, "upper",
                O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, -errno, "the writable layer of sandbox %s", s->id);
    *ret_disk = disk >= 0 ? take_fd(&disk) : FD_NONE;
    return fd;
}

int disk_attach(int dir_fd, const char *name, uid_t owner, struct mount_attr *attr, struct err *err)
{
    const struct timespec pause = {.tv_nsec = LOCK_PAUSE};
    auto_close int mnt = disk_peek(dir_fd, name, err);
    struct stat st;
    int r;

    /* Another process is about to attach the image, or has just detached it. */
    for (int i = 0; mnt == -EBUSY && i < LOCK_TRIES; i++) {
        (void)nanosleep(&pause, NULL);
        mnt = disk_peek(dir_fd, name, err);
    }
    if (mnt < 0)
        return mnt == -ENOENT ? err_errno(err, mnt, "disk: its image") : mnt;
    /* A new file system's root is owned by the host's root, to which no id inside maps. */
    if (fstat(mnt, &st) < 0 ||
        (st.st_uid == 0 && fchownat(mnt, "", owner, owner, AT_EMPTY_PATH) < 0))
        return err_errno(err, -errno, "disk: its root");
    r = sys_mount_setattr(mnt, "", AT_EMPTY_PATH, attr);
    return r < 0 ? err_errno(err, r, "disk: attributes of its mount") : take_fd(&mnt);
}

/* Makes upper and work at the first mount, like sandbox_dir_make. */
static int disk_make_dirs(int mnt, uid_t base)
{
    bool is_new = mkdirat(mnt, "upper", 0755) == 0;

    if (!is_new && errno != EEXIST)
        return -errno;
    if (is_new && (fchmodat(mnt, "upper", 0755, 0) < 0 ||
                   fchownat(mnt, "upper", base, base, AT_SYMLINK_NOFOLLOW) < 0))
        return -errno;
    return mkdirat(mnt, "work", 0700) < 0 && errno != EEXIST ? -errno : 0;
}

int disk_mount(const struct launch_sandbox *s, struct err *err)
{
    auto_close int image = disk_open_image(s->dir_fd, err);
    auto_close int device = FD_NONE;
    auto_close int mnt = FD_NONE;
    int r;

    if (image < 0)
        return image;
    device = loop_open(image, err);
    if (device < 0)
        return device;
    mnt = disk_mount_ext4(device, err);
    if (mnt < 0)
        return mnt;
    r = disk_make_dirs(mnt, s->ids.base);
    return r < 0 ? err_errno(err, r, "disk: make the writable layer") : take_fd(&mnt);
}

/* ---- usage ---- */

/* The usage is read through the root of the running sandbox, which is on the disk. */
static int disk_stat_inside(const struct launch_sandbox *s, struct statvfs *ret)
{
    auto_close int root = FD_NONE;
    char path[64];

    if (s->pidfd < 0)
        return -ESRCH;
    (void)snprintf(path, sizeof(path), "/proc/%d/root", (int)s->pid);
    root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    /* The pid was not reused: the process of the pidfd is alive. */
    if (root < 0 || sys_pidfd_send_signal(s->pidfd, 0) < 0)
        return -ESRCH;
    return fstatvfs(root, ret) < 0 ? -errno : 0;
}

void disk_usage(const struct launch_sandbox *s, struct launch_disk *ret)
{
    struct statvfs fs;
    struct stat st;

    *ret = (struct launch_disk){.limit = 0};
    if (fstatat(s->dir_fd, DISK_FILE, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    ret->limit = (uint64_t)st.st_size;
    ret->allocated = (uint64_t)st.st_blocks * 512;
    if (disk_stat_inside(s, &fs) < 0)
        return;
    ret->size = (uint64_t)fs.f_blocks * fs.f_frsize;
    ret->used = (uint64_t)(fs.f_blocks - fs.f_bfree) * fs.f_frsize;
    ret->inodes = fs.f_files;
    ret->inodes_used = fs.f_files - fs.f_ffree;
}
