/*
 * Rates and weight of accesses to disks. A rate is of a whole disk: the kernel knows none of a
 * partition. On v2 writes to files count when they are written back, if the memory controller is on
 * as well, so a write rate needs it. On v1 only direct writes and reads count: the kernel writes
 * back for the root cgroup. Runs in the launcher.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "launch/cgroup-internal.h"

enum { LINE_MAX_BYTES = 192 };

bool cg_io_needed(const struct cgroup_limits *limits)
{
    if (limits->io_weight > 0)
        return true;
    for (int i = 0; i < limits->io_count; i++)
        for (int k = 0; k < CG_IO_KINDS; k++)
            if (limits->io[i].rates[k] != 0)
                return true;
    return false;
}

static int io_poke(const struct cgroup_host *h, const struct cgroup *c, const char *file,
                   const char *value, struct err *err)
{
    const int home = c->home[CG_IO];
    const int r = file_poke_at(c->dir_fd[home], file, value);

    if (r == -ENODEV)
        return err_set(err, -EOPNOTSUPP,
                       "io limit: %s: \"%s\" is no whole disk that the kernel can throttle", file,
                       value);
    if (r == -ENOENT)
        return err_set(err, -EOPNOTSUPP, "io limit: this kernel has no %s in %s", file,
                       h->hier[home].path);
    return r < 0 ? err_errno(err, r, "io limit: write \"%s\" to %s in %s/rind", value, file,
                             h->hier[home].path)
                 : 0;
}

static int io_apply_v1(const struct cgroup_host *h, const struct cgroup *c,
                       const struct cgroup_io *io, bool update, struct err *err)
{
    static const char *const files[CG_IO_KINDS] = {
        [CG_IO_READ_BPS] = "blkio.throttle.read_bps_device",
        [CG_IO_WRITE_BPS] = "blkio.throttle.write_bps_device",
        [CG_IO_READ_IOPS] = "blkio.throttle.read_iops_device",
        [CG_IO_WRITE_IOPS] = "blkio.throttle.write_iops_device"};
    int r = 0;

    for (int k = 0; r == 0 && k < CG_IO_KINDS; k++) {
        char line[LINE_MAX_BYTES];

        if (io->rates[k] == 0 && !update)
            continue;
        (void)snprintf(line, sizeof(line), "%u:%u %" PRIu64, io->major, io->minor, io->rates[k]);
        r = io_poke(h, c, files[k], line, err);
    }
    return r;
}

static int io_apply_v2(const struct cgroup_host *h, const struct cgroup *c,
                       const struct cgroup_io *io, struct err *err)
{
    static const char *const keys[CG_IO_KINDS] = {[CG_IO_READ_BPS] = "rbps",
                                                  [CG_IO_WRITE_BPS] = "wbps",
                                                  [CG_IO_READ_IOPS] = "riops",
                                                  [CG_IO_WRITE_IOPS] = "wiops"};
    char line[LINE_MAX_BYTES];
    int len = snprintf(line, sizeof(line), "%u:%u", io->major, io->minor);

    for (int k = 0; k < CG_IO_KINDS; k++)
        len += io->rates[k] == 0
                   ? snprintf(line + len, sizeof(line) - (size_t)len, " %s=max", keys[k])
                   : snprintf(line + len, sizeof(line) - (size_t)len, " %s=%" PRIu64, keys[k],
                              io->rates[k]);
    return io_poke(h, c, "io.max", line, err);
}

/* io.weight has 1 to 10000 where bfq's files have 1 to 1000; 100 is the usual one of both. */
static int io_apply_weight(const struct cgroup_host *h, const struct cgroup *c,
                           const struct cgroup_limits *limits, struct err *err)
{
    const bool v2 = c->version[c->home[CG_IO]] == 2;
    const char *file = !v2                                     ? "blkio.bfq.weight"
                       : limits->io_weigher == CG_WEIGHER_COST ? "io.weight"
                                                               : "io.bfq.weight";
    const int64_t weight = limits->io_weight > 0 ? limits->io_weight : CGROUP_IO_WEIGHT;
    char line[LINE_MAX_BYTES];

    (void)snprintf(line, sizeof(line), "%" PRId64, weight);
    return io_poke(h, c, file, line, err);
}

int cg_io_apply(const struct cgroup_host *h, const struct cgroup *c,
                const struct cgroup_limits *limits, bool update, struct err *err)
{
    const int home = c->home[CG_IO];
    /* v2: the sandbox has a directory whether or not the controller is on for it. */
    const bool needed = cg_io_needed(limits);
    int r = 0;

    if (home == CG_NOWHERE || (!needed && !update))
        return 0;
    for (int i = 0; r == 0 && i < limits->io_count; i++)
        r = c->version[home] == 1 ? io_apply_v1(h, c, &limits->io[i], update, err)
                                  : io_apply_v2(h, c, &limits->io[i], err);
    if (r == 0 && (limits->io_weight > 0 || (update && limits->io_weigher != CG_WEIGHER_NONE)))
        r = io_apply_weight(h, c, limits, err);
    /* Nothing is asked, and so the controller may never have been enabled. */
    return r == -EOPNOTSUPP && !needed ? 0 : r;
}

/* True if the file of a disk in sysfs has this word. */
static bool queue_has(unsigned major, unsigned minor, const char *file, const char *word)
{
    char path[96], text[CG_SMALL_MAX];

    (void)snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/queue/%s", major, minor, file);
    return cg_read(AT_FDCWD, path, text) == 0 && strstr(text, word) != NULL;
}

/* io.cost.qos of the root: "MAJ:MIN enable=1 ctrl=…", a line for each disk. */
static bool cost_is_on(const struct cgroup_host *h, unsigned major, unsigned minor)
{
    char text[CG_SMALL_MAX], key[32];
    const char *line;

    if (h->v2 == CG_NOWHERE || cg_read(h->hier[h->v2].root_fd, "io.cost.qos", text) < 0)
        return false;
    (void)snprintf(key, sizeof(key), "%u:%u enable=1", major, minor);
    line = strstr(text, key);
    return line != NULL && (line == text || line[-1] == '\n');
}

enum cgroup_io_weigher cgroup_io_weigher(const struct cgroup_host *h, unsigned major,
                                         unsigned minor)
{
    const int home = h->home[CG_IO];

    if (home == CG_NOWHERE)
        return CG_WEIGHER_NONE;
    if (queue_has(major, minor, "scheduler", "[bfq]"))
        return CG_WEIGHER_BFQ;
    return home == h->v2 && cost_is_on(h, major, minor) ? CG_WEIGHER_COST : CG_WEIGHER_NONE;
}
