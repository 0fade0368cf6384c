/* Limits and counters: one table row per {controller, version, file}. On v2 a controller is enabled
 * for rind's children only when a limit needs it. No controller is enabled below a sandbox's own
 * directory, so its processes may be anywhere in it. Runs in the launcher. */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "launch/cgroup-internal.h"

enum { VALUE_MAX = 64, SOCKETS_SHARE = 4 };

/* Formats the file's text for `limit` into buf; false = the file need not be written. */
typedef bool (*format_fn)(char *buf, int64_t limit);

static bool format_number(char *buf, int64_t limit)
{
    (void)snprintf(buf, VALUE_MAX, "%" PRId64, limit);
    return true;
}

/* v1 counts TCP buffers apart from other memory, and only if they have a limit of their own. */
static bool format_sockets(char *buf, int64_t limit)
{
    return format_number(buf, limit / SOCKETS_SHARE);
}

static bool format_zero(char *buf, int64_t limit)
{
    (void)limit;
    (void)memcpy(buf, "0", 2);
    return true;
}

/* CPU time is allotted per period. The kernel's default period is 100 ms, and the smallest quota 1
 * ms, so less than a hundredth of a CPU needs a longer period. */
enum {
    PERIOD_USEC = 100000,
    LONG_PERIOD_USEC = 1000000,
    QUOTA_MIN_USEC = 1000,
    CPU_MILLIS_MAX = 1 << 24, /* 16777 CPUs; keeps the products below small */
};

static int64_t cpu_period(int64_t millis)
{
    return millis * (PERIOD_USEC / 1000) < QUOTA_MIN_USEC ? LONG_PERIOD_USEC : PERIOD_USEC;
}

static bool format_cpu_period(char *buf, int64_t millis)
{
    return cpu_period(millis) != PERIOD_USEC && format_number(buf, cpu_period(millis));
}

static bool format_cpu_quota(char *buf, int64_t millis)
{
    return format_number(buf, millis * (cpu_period(millis) / 1000));
}

static bool format_cpu_max(char *buf, int64_t millis)
{
    int64_t period = cpu_period(millis);

    (void)snprintf(buf, VALUE_MAX, "%" PRId64 " %" PRId64, millis * (period / 1000), period);
    return true;
}

struct limit_file {
    enum cgroup_controller controller;
    int version;
    const char *file;
    format_fn format;
    bool swap; /* missing in kernels without swap accounting */
};

/* In the order of writing: memory before memory+swap (which must not be smaller), the period before
 * the quota. */
/* clang-format off */
static const struct limit_file limit_files[] = {
    { CG_MEMORY, 1, "memory.limit_in_bytes",       format_number,     false },
    { CG_MEMORY, 1, "memory.memsw.limit_in_bytes", format_number,     true  },
    { CG_MEMORY, 1, "memory.kmem.tcp.limit_in_bytes", format_sockets, false },
    { CG_MEMORY, 2, "memory.max",                  format_number,     false },
    { CG_MEMORY, 2, "memory.swap.max",             format_zero,       true  },
    { CG_CPU,    1, "cpu.cfs_period_us",           format_cpu_period, false },
    { CG_CPU,    1, "cpu.cfs_quota_us",            format_cpu_quota,  false },
    { CG_CPU,    2, "cpu.max",                     format_cpu_max,    false },
    { CG_PIDS,   1, "pids.max",                    format_number,     false },
    { CG_PIDS,   2, "pids.max",                    format_number,     false },
};
/* clang-format on */

static int64_t limit_of(const struct cgroup_limits *limits, enum cgroup_controller c)
{
    const int64_t of[CG_CONTROLLER_MAX] = {
        [CG_MEMORY] = limits->memory_bytes,
        [CG_CPU] = limits->cpu_millis,
        [CG_CPUACCT] = -1,
        [CG_PIDS] = limits->pids,
        [CG_FREEZER] = -1,
        [CG_CPUSET] = -1,
    };

    return of[c];
}

uint32_t cg_limits_need(const struct cgroup_limits *limits)
{
    uint32_t need = 0;

    for (unsigned c = 0; c < CG_CONTROLLER_MAX; c++)
        if (limit_of(limits, (enum cgroup_controller)c) >= 0)
            need |= 1U << c;
    return need;
}

int cg_limits_check(const struct cgroup_limits *limits, struct err *err)
{
    if (limits->cpu_millis > CPU_MILLIS_MAX)
        return err_set(err, -ERANGE, "cpu limit: at most %d thousandths of a CPU", CPU_MILLIS_MAX);
    return 0;
}

int cg_require(const struct cgroup_host *h, uint32_t need, struct err *err)
{
    for (unsigned i = 0; i < CG_CONTROLLER_MAX; i++) {
        const char *name = cgroup_controller_name((enum cgroup_controller)i);

        if ((need & 1U << i) == 0 || h->home[i] != CG_NOWHERE)
            continue;
        if ((h->read_only & 1U << i) != 0)
            return err_set(err, -EOPNOTSUPP,
                           "%s limit: the cgroup hierarchy with the %s controller is mounted "
                           "read-only; mount it read-write (a container around rind needs "
                           "a writable /sys/fs/cgroup)",
                           name, name);
        if (h->count == 0)
            return err_set(err, -EOPNOTSUPP,
                           "%s limit: no cgroup hierarchy is mounted; mount -t cgroup2 cgroup2 "
                           "/sys/fs/cgroup",
                           name);
        if (cgroup_host_mode(h) == CG_MODE_V2)
            return err_set(err, -EOPNOTSUPP,
                           "%s limit: the kernel offers no %s controller in %s/cgroup.controllers; "
                           "boot without cgroup_disable=%s, with a kernel that has it",
                           name, name, h->hier[h->v2].path, name);
        return err_set(err, -EOPNOTSUPP,
                       "%s limit: no mounted cgroup hierarchy has the %s controller; mount -t "
                       "cgroup -o %s %s /sys/fs/cgroup/%s",
                       name, name, name, name, name);
    }
    return 0;
}

static int error_root_has_processes(const struct cg_hierarchy *hier, const char *words,
                                    struct err *err)
{
    const char *path = hier->path;

    return err_set(err, -EOPNOTSUPP,
                   "%s holds processes, so its limits cannot be handed on (%s); move them: "
                   "mkdir %s/init && xargs -n1 <%s/cgroup.procs >%s/init/cgroup.procs",
                   path, words, path, path, path);
}

/* Only the real root (which has no cgroup.type) may have processes and enable controllers. In a
 * container's root the kernel refuses +memory. But it accepts +cpu and +pids by making the root
 * threaded, and no process can be started below it any more. So check first. */
static int hierarchy_check_root(const struct cg_hierarchy *hier, const char *words, struct err *err)
{
    char text[CG_SMALL_MAX];

    if (cg_read(hier->root_fd, "cgroup.type", text) < 0)
        return 0;
    if (cg_read(hier->root_fd, "cgroup.procs", text) < 0 || text[0] == '\0')
        return 0;
    return error_root_has_processes(hier, words, err);
}

static int hierarchy_enable(const struct cg_hierarchy *hier, int dirfd, const char *words,
                            struct err *err)
{
    int r = file_poke_at(dirfd, "cgroup.subtree_control", words);

    if (r == -EBUSY && dirfd == hier->root_fd)
        return error_root_has_processes(hier, words, err);
    if (r < 0)
        return err_errno(err, r, "write %s to cgroup.subtree_control in %s%s", words, hier->path,
                         dirfd == hier->root_fd ? "" : "/rind");
    return 0;
}

int cg_enable(struct cgroup_host *h, uint32_t need, struct err *err)
{
    char words[VALUE_MAX] = "";
    struct cg_hierarchy *hier;
    size_t len = 0;
    int r;

    if (h->v2 == CG_NOWHERE)
        return 0;
    hier = &h->hier[h->v2];
    for (unsigned c = 0; c < CG_CONTROLLER_MAX; c++) {
        if ((need & ~hier->enabled & 1U << c) == 0 || h->home[c] != h->v2)
            continue;
        len += (size_t)snprintf(words + len, sizeof(words) - len, "%s+%s", len > 0 ? " " : "",
                                cgroup_controller_name((enum cgroup_controller)c));
    }
    if (len == 0)
        return 0;
    r = hierarchy_check_root(hier, words, err);
    if (r == 0)
        r = hierarchy_enable(hier, hier->root_fd, words, err);
    if (r == 0)
        r = hierarchy_enable(hier, hier->rind_fd, words, err);
    if (r < 0)
        return r;
    hier->enabled |= need;
    return 0;
}

static bool host_has_swap(void)
{
    struct sysinfo info;

    return sysinfo(&info) < 0 || info.totalswap > 0;
}

static int limit_apply(const struct cgroup_host *h, int dirfd, const struct limit_file *f,
                       int64_t limit, struct err *err)
{
    const char *name = cgroup_controller_name(f->controller);
    char value[VALUE_MAX];
    int r;

    if (!f->format(value, limit))
        return 0;
    r = file_poke_at(dirfd, f->file, value);
    if (r == -ENOENT && f->swap && !host_has_swap())
        return 0;
    if (r == -ENOENT && f->swap)
        return err_set(err, -EOPNOTSUPP,
                       "%s limit: the kernel does not count swap (no %s), and this host has swap; "
                       "boot with swapaccount=1, or swapoff -a",
                       name, f->file);
    if (r == -ENOENT)
        return err_set(err, -EOPNOTSUPP, "%s limit: this kernel has no %s in %s", name, f->file,
                       h->hier[h->home[f->controller]].path);
    if (r < 0)
        return err_errno(err, r, "%s limit: write %s to %s in %s/rind", name, value, f->file,
                         h->hier[h->home[f->controller]].path);
    return 0;
}

int cg_limits_apply(const struct cgroup_host *h, const struct cgroup *c,
                    const struct cgroup_limits *limits, struct err *err)
{
    for (size_t i = 0; i < sizeof(limit_files) / sizeof(limit_files[0]); i++) {
        const struct limit_file *f = &limit_files[i];
        int64_t limit = limit_of(limits, f->controller);
        int home = c->home[f->controller];
        int r;

        if (limit < 0 || home == CG_NOWHERE || c->version[home] != f->version)
            continue;
        r = limit_apply(h, c->dir_fd[home], f, limit, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int cg_read(int dirfd, const char *file, char *buf)
{
    auto_close int fd = FD_NONE;
    ssize_t n;

    fd = openat(dirfd, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -errno;
    n = read(fd, buf, CG_SMALL_MAX - 1);
    if (n < 0)
        return -errno;
    buf[n] = '\0';
    return 0;
}

int cg_write_number(int dirfd, const char *file, int64_t value)
{
    char text[VALUE_MAX];

    (void)format_number(text, value);
    return file_poke_at(dirfd, file, text);
}

void cgroup_weigh(const struct cgroup *c, unsigned weight)
{
    if (c->v2 != CG_NOWHERE)
        (void)cg_write_number(c->dir_fd[c->v2], "cpu.weight", weight);
}

void cgroup_hurry(const struct cgroup *c)
{
    int home = c->home[CG_CPU];

    if (home != CG_NOWHERE && c->version[home] == 2)
        (void)file_poke_at(c->dir_fd[home], "cpu.max", "max");
    else if (home != CG_NOWHERE)
        (void)cg_write_number(c->dir_fd[home], "cpu.cfs_quota_us", -1);
}

static int parse_u64(const char *s, uint64_t *ret)
{
    char *end;

    if (*s < '0' || *s > '9')
        return -EINVAL;
    errno = 0;
    *ret = strtoull(s, &end, 10);
    return errno != 0 || (*end != '\n' && *end != '\0') ? -EINVAL : 0;
}

int cg_keyed(const char *text, const char *key, uint64_t *ret)
{
    size_t len = strlen(key);

    for (const char *line = text; *line != '\0'; line++) {
        if (strncmp(line, key, len) == 0 && line[len] == ' ')
            return parse_u64(line + len + 1, ret);
        line = strchr(line, '\n');
        if (line == NULL)
            break;
    }
    return -ENOENT;
}

/* A counter: a file with one number, or the line `key` of a file. */
struct figure {
    enum cgroup_controller controller;
    int version;
    const char *file, *key;
    uint64_t divisor;
    size_t offset; /* in struct cgroup_stats */
};

/* clang-format off */
#define AT(member) offsetof(struct cgroup_stats, member)
static const struct figure figures[] = {
    { CG_MEMORY,  1, "memory.usage_in_bytes",     NULL,         1,    AT(memory_bytes) },
    { CG_MEMORY,  1, "memory.max_usage_in_bytes", NULL,         1,    AT(memory_peak_bytes) },
    { CG_MEMORY,  2, "memory.current",            NULL,         1,    AT(memory_bytes) },
    { CG_MEMORY,  2, "memory.peak",               NULL,         1,    AT(memory_peak_bytes) },
    { CG_CPUACCT, 1, "cpuacct.usage",             NULL,         1000, AT(cpu_usec) },
    { CG_CPUACCT, 2, "cpu.stat",                  "usage_usec", 1,    AT(cpu_usec) },
    { CG_PIDS,    1, "pids.current",              NULL,         1,    AT(pids) },
    { CG_PIDS,    2, "pids.current",              NULL,         1,    AT(pids) },
};
/* clang-format on */

static int read_figure(int dirfd, const char *file, const char *key, uint64_t *ret)
{
    char text[CG_SMALL_MAX];
    int r;

    r = cg_read(dirfd, file, text);
    if (r < 0)
        return r;
    return key != NULL ? cg_keyed(text, key, ret) : parse_u64(text, ret);
}

int cgroup_stats(const struct cgroup *c, struct cgroup_stats *ret, struct err *err)
{
    struct cgroup_stats stats = {0};

    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
        const struct figure *f = &figures[i];
        uint64_t value = 0;
        int home = c->home[f->controller];
        int r;

        if (home == CG_NOWHERE || c->version[home] != f->version)
            continue;
        r = read_figure(c->dir_fd[home], f->file, f->key, &value);
        if (r == -ENOENT && f->version == 2)
            r = 0; /* the controller is not enabled without a limit; memory.peak needs Linux 5.19 */
        if (r < 0)
            return err_errno(err, r, "read %s", f->file);
        value /= f->divisor;
        (void)memcpy((char *)&stats + f->offset, &value, sizeof(value));
    }
    *ret = stats;
    return 0;
}

int cgroup_oom_kills(const struct cgroup *c, uint64_t *ret)
{
    static const char *const files[] = {[1] = "memory.oom_control", [2] = "memory.events"};
    int home = c->home[CG_MEMORY];
    uint64_t kills = 0;
    int r;

    if (home != CG_NOWHERE) {
        r = read_figure(c->dir_fd[home], files[c->version[home]], "oom_kill", &kills);
        if (r < 0 && !(r == -ENOENT && c->version[home] == 2))
            return r;
    }
    *ret = kills;
    return 0;
}
