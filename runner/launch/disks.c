/*
 * Finds disks: the one that holds the state directory, and those that a request names. A path is
 * resolved beneath /dev and is only looked at, never opened for access. Runs in the launcher;
 * called when a sandbox starts, and when its limits change.
 */
#include "launch/disks.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "launch/cgroup.h"
#include "launch/launcher.h"
#include "launch/sandbox.h"
#include "proto/syscalls.h"

_Static_assert((int)LAUNCH_IO_MAX == (int)CGROUP_IO_MAX && (int)LAUNCH_IO_RATES == (int)CG_IO_KINDS,
               "rates of disks");

/* Reads "MAJ:MIN" from a file of sysfs. */
static int read_number(const char *path, unsigned *major_id, unsigned *minor_id)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    char text[32] = "";
    char *end;
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    if (n <= 0)
        return -ENOENT;
    *major_id = (unsigned)strtoul(text, &end, 10);
    if (*end != ':')
        return -EBADMSG;
    *minor_id = (unsigned)strtoul(end + 1, NULL, 10);
    return 0;
}

/* A partition's disk: the directory above it in sysfs. Other numbers stay as they are. */
static void disk_of_partition(struct cgroup_io *io)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/partition", io->major, io->minor);
    if (access(path, F_OK) < 0)
        return;
    (void)snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/../dev", io->major, io->minor);
    (void)read_number(path, &io->major, &io->minor);
}

static int disk_of_state(const struct launcher *l, struct cgroup_io *io, struct err *err)
{
    struct stat st;

    if (fstat(l->sandboxes_fd, &st) < 0)
        return err_errno(err, -errno, "io limit: the state directory");
    if (major(st.st_dev) == 0)
        return err_set(err, -EOPNOTSUPP,
                       "io limit: the file system of the state directory has no disk of its own "
                       "(tmpfs, overlayfs, btrfs, NFS); name a disk: --device-read-bps "
                       "/dev/DISK:RATE");
    io->major = major(st.st_dev);
    io->minor = minor(st.st_dev);
    disk_of_partition(io);
    return 0;
}

static int disk_of_path(const char *path, struct cgroup_io *io, struct err *err)
{
    auto_close int dev = open("/dev", O_PATH | O_DIRECTORY | O_CLOEXEC);
    auto_close int fd = dev < 0 ? FD_NONE
                                : sys_openat2(dev, path + strlen("/dev/"), O_PATH | O_CLOEXEC, 0,
                                              RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
    struct stat st;

    if (dev < 0)
        return err_errno(err, -errno, "io limit: /dev");
    if (fd < 0)
        return err_errno(err, fd, "io limit: device %s", path);
    if (fstat(fd, &st) < 0 || !S_ISBLK(st.st_mode))
        return err_set(err, -ENODEV, "io limit: device %s: is no block device", path);
    io->major = major(st.st_rdev);
    io->minor = minor(st.st_rdev);
    disk_of_partition(io);
    return 0;
}

/* Two names of one disk: the smaller rate of each kind counts. */
static void disks_merge(struct cgroup_limits *limits, const struct cgroup_io *io)
{
    struct cgroup_io *at = limits->io;

    while (at < limits->io + limits->io_count && (at->major != io->major || at->minor != io->minor))
        at++;
    if (at == limits->io + limits->io_count) {
        *at = *io;
        limits->io_count++;
        return;
    }
    for (int k = 0; k < CG_IO_KINDS; k++)
        if (io->rates[k] != 0 && (at->rates[k] == 0 || io->rates[k] < at->rates[k]))
            at->rates[k] = io->rates[k];
}

static bool has_rate(const struct launch_io *io)
{
    bool any = false;

    for (int k = 0; k < LAUNCH_IO_RATES; k++)
        any |= io->rates[k] != 0;
    return any;
}

static int weigher_of_state(const struct launcher *l, int64_t weight, struct cgroup_limits *limits,
                            struct err *err)
{
    struct cgroup_io disk = {.major = 0};
    int r = disk_of_state(l, &disk, weight > 0 ? err : NULL);

    if (r < 0)
        return weight > 0 ? r : 0;
    limits->io_weight = weight;
    limits->io_weigher = cgroup_io_weigher(l->cgroups, disk.major, disk.minor);
    if (weight > 0 && limits->io_weigher == CG_WEIGHER_NONE)
        return err_set(err, -EOPNOTSUPP,
                       "io weight: nothing weighs the accesses to the disk %u:%u: its scheduler is "
                       "not bfq (echo bfq > /sys/dev/block/%u:%u/queue/scheduler), and there is no "
                       "io.cost for it, or no io controller",
                       disk.major, disk.minor, disk.major, disk.minor);
    return 0;
}

int disks_of_request(const struct launcher *l, const struct launch_request *q,
                     struct cgroup_limits *limits, struct err *err)
{
    for (size_t i = 0; i < q->io_count; i++) {
        const struct launch_io *asked = &q->io[i];
        const bool state = asked->path[0] == '\0';
        struct cgroup_io io = {.major = 0};
        int r;

        (void)memcpy(io.rates, asked->rates, sizeof(io.rates));
        r = state ? disk_of_state(l, &io, err) : disk_of_path(asked->path, &io, err);
        /* Without rates it is a change that takes what there was away; there was none. */
        if (r < 0 && state && !has_rate(asked))
            continue;
        if (r < 0)
            return r;
        disks_merge(limits, &io);
    }
    if (q->io_weight == 0 && q->io_count == 0)
        return 0;
    return weigher_of_state(l, q->io_weight, limits, err);
}

bool launcher_weighs_disks(const struct launcher *l)
{
    struct cgroup_limits limits = {.io_count = 0};

    return weigher_of_state(l, 0, &limits, NULL) == 0 && limits.io_weigher != CG_WEIGHER_NONE;
}
