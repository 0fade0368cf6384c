/* Limits and counters: one table row per {controller, version, file}. On v2 a controller is enabled
 * for rind's children only when a limit needs it. No controller is enabled below a sandbox's own
 * directory, so its processes may be anywhere in it. Runs in the launcher. */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "launch/cgroup-internal.h"

enum { VALUE_MAX = CGROUP_CPUSET_MAX + 1, SOCKETS_SHARE = 4 };

/* What a format function needs. update: a value of an earlier limit may be in the file. */
struct limit_text {
    const struct cgroup_limits *limits;
    bool update;
};

/* Formats the file's text into buf; false = the file need not be written. */
typedef bool (*format_fn)(char *buf, const struct limit_text *t);

static bool put_number(char *buf, int64_t n)
{
    (void)snprintf(buf, VALUE_MAX, "%" PRId64, n);
    return true;
}

static bool put_text(char *buf, const char *text)
{
    if (text == NULL)
        return false;
    (void)snprintf(buf, VALUE_MAX, "%s", text);
    return true;
}

static bool format_memory(char *buf, const struct limit_text *t)
{
    return t->limits->memory_bytes >= 0 && put_number(buf, t->limits->memory_bytes);
}

/* v1 limits memory and swap together. */
static bool format_memsw(char *buf, const struct limit_text *t)
{
    const struct cgroup_limits *l = t->limits;

    if (l->memory_bytes < 0)
        return false;
    if (l->swap_bytes == CGROUP_SWAP_UNLIMITED)
        return put_number(buf, -1);
    return put_number(buf, l->swap_bytes > 0 ? l->swap_bytes : l->memory_bytes);
}

/* v2 limits swap alone. */
static bool format_swap(char *buf, const struct limit_text *t)
{
    const struct cgroup_limits *l = t->limits;

    if (l->memory_bytes < 0)
        return false;
    if (l->swap_bytes == CGROUP_SWAP_UNLIMITED)
        return put_text(buf, "max");
    return put_number(buf, l->swap_bytes > l->memory_bytes ? l->swap_bytes - l->memory_bytes : 0);
}

/* v1 counts TCP buffers apart from other memory, and only if they have a limit of their own. */
static bool format_sockets(char *buf, const struct limit_text *t)
{
    return t->limits->memory_bytes >= 0 && put_number(buf, t->limits->memory_bytes / SOCKETS_SHARE);
}

static bool format_reservation(char *buf, const struct limit_text *t)
{
    return t->limits->reservation_bytes > 0 && put_number(buf, t->limits->reservation_bytes);
}

static bool format_pids(char *buf, const struct limit_text *t)
{
    return t->limits->pids >= 0 && put_number(buf, t->limits->pids);
}

static bool format_shares(char *buf, const struct limit_text *t)
{
    return t->limits->cpu_shares > 0 && put_number(buf, t->limits->cpu_shares);
}

/* Maps 2..262144 to 1..10000, linearly, as other container runtimes do. */
static bool format_weight(char *buf, const struct limit_text *t)
{
    enum { WEIGHT_MAX = 10000 };
    const int64_t shares = t->limits->cpu_shares - CGROUP_SHARES_MIN;

    return t->limits->cpu_shares > 0 &&
           put_number(buf, 1 + shares * (WEIGHT_MAX - 1) / (CGROUP_SHARES_MAX - CGROUP_SHARES_MIN));
}

static bool format_cpus(char *buf, const struct limit_text *t)
{
    return put_text(buf, t->limits->cpus);
}

static bool format_mems(char *buf, const struct limit_text *t)
{
    return put_text(buf, t->limits->mems);
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

static bool format_cpu_period(char *buf, const struct limit_text *t)
{
    const int64_t millis = t->limits->cpu_millis;

    return millis >= 0 && (t->update || cpu_period(millis) != PERIOD_USEC) &&
           put_number(buf, cpu_period(millis));
}

static bool format_cpu_quota(char *buf, const struct limit_text *t)
{
    const int64_t millis = t->limits->cpu_millis;

    if (millis < 0)
        return t->update && put_number(buf, -1);
    return put_number(buf, millis * (cpu_period(millis) / 1000));
}

static bool format_cpu_max(char *buf, const struct limit_text *t)
{
    const int64_t millis = t->limits->cpu_millis;
    int64_t period = cpu_period(millis);

    if (millis < 0)
        return t->update && put_text(buf, "max");
    (void)snprintf(buf, VALUE_MAX, "%" PRId64 " %" PRId64, millis * (period / 1000), period);
    return true;
}

enum limit_kind {
    LIMIT_HARD,
    LIMIT_SWAP, /* missing in kernels without swap accounting */
    LIMIT_WISH, /* a kernel that cannot follow it is no error */
};

struct limit_file {
    enum cgroup_controller controller;
    int version;
    const char *file;
    format_fn format;
    enum limit_kind kind;
};

/* In the order of writing: memory before memory+swap (which must not be smaller), the period before
 * the quota. */
/* clang-format off */
static const struct limit_file limit_files[] = {
    { CG_MEMORY, 1, "memory.limit_in_bytes",       format_memory,     LIMIT_HARD },
    { CG_MEMORY, 1, "memory.memsw.limit_in_bytes", format_memsw,      LIMIT_SWAP },
    { CG_MEMORY, 1, "memory.kmem.tcp.limit_in_bytes", format_sockets, LIMIT_HARD },
    { CG_MEMORY, 1, "memory.soft_limit_in_bytes",  format_reservation, LIMIT_WISH },
    { CG_MEMORY, 2, "memory.max",                  format_memory,     LIMIT_HARD },
    { CG_MEMORY, 2, "memory.swap.max",             format_swap,       LIMIT_SWAP },
    { CG_MEMORY, 2, "memory.low",                  format_reservation, LIMIT_WISH },
    { CG_CPU,    1, "cpu.cfs_period_us",           format_cpu_period, LIMIT_HARD },
    { CG_CPU,    1, "cpu.cfs_quota_us",            format_cpu_quota,  LIMIT_HARD },
    { CG_CPU,    1, "cpu.shares",                  format_shares,     LIMIT_WISH },
    { CG_CPU,    2, "cpu.max",                     format_cpu_max,    LIMIT_HARD },
    { CG_CPU,    2, "cpu.weight",                  format_weight,     LIMIT_WISH },
    { CG_PIDS,   1, "pids.max",                    format_pids,       LIMIT_HARD },
    { CG_PIDS,   2, "pids.max",                    format_pids,       LIMIT_HARD },
    { CG_CPUSET, 1, "cpuset.cpus",                 format_cpus,       LIMIT_HARD },
    { CG_CPUSET, 1, "cpuset.mems",                 format_mems,       LIMIT_HARD },
    { CG_CPUSET, 2, "cpuset.cpus",                 format_cpus,       LIMIT_HARD },
    { CG_CPUSET, 2, "cpuset.mems",                 format_mems,       LIMIT_HARD },
};
/* clang-format on */

uint32_t cg_limits_need(const struct cgroup_limits *limits)
{
    uint32_t need = 0;

    if (limits->memory_bytes >= 0)
        need |= 1U << CG_MEMORY;
    if (limits->cpu_millis >= 0)
        need |= 1U << CG_CPU;
    if (limits->pids >= 0)
        need |= 1U << CG_PIDS;
    if (limits->cpus != NULL || limits->mems != NULL)
        need |= 1U << CG_CPUSET;
    if (cg_io_needed(limits))
        need |= 1U << CG_IO;
    return need;
}

uint32_t cg_limits_wish(const struct cgroup_host *h, const struct cgroup_limits *limits)
{
    uint32_t wish = 0;

    if (limits->reservation_bytes > 0 && h->home[CG_MEMORY] != CG_NOWHERE)
        wish |= 1U << CG_MEMORY;
    if (limits->cpu_shares > 0 && h->home[CG_CPU] != CG_NOWHERE)
        wish |= 1U << CG_CPU;
    /* v2 counts what is written back where memory is counted (cgroup-io.c). */
    if (cg_io_needed(limits) && h->v2 != CG_NOWHERE && h->home[CG_IO] == h->v2 &&
        h->home[CG_MEMORY] == h->v2)
        wish |= 1U << CG_MEMORY;
    return wish;
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
        const char *name =
            cg_name(cgroup_host_mode(h) == CG_MODE_V2 ? 2 : 1, (enum cgroup_controller)i);

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
                       const struct limit_text *text, struct err *err)
{
    const char *name = cgroup_controller_name(f->controller);
    char value[VALUE_MAX];
    int r;

    if (!f->format(value, text))
        return 0;
    r = file_poke_at(dirfd, f->file, value);
    if (r < 0 && f->kind == LIMIT_WISH)
        return 0;
    if (r == -ENOENT && f->kind == LIMIT_SWAP && !host_has_swap())
        return 0;
    if (r == -ENOENT && f->kind == LIMIT_SWAP)
        return err_set(err, -EOPNOTSUPP,
                       "%s limit: the kernel does not count swap (no %s), and this host has swap; "
                       "boot with swapaccount=1, or swapoff -a",
                       name, f->file);
    if (r == -ENOENT)
        return err_set(err, -EOPNOTSUPP, "%s limit: this kernel has no %s in %s", name, f->file,
                       h->hier[h->home[f->controller]].path);
    if (r < 0 && f->controller == CG_CPUSET)
        return err_set(err, -EINVAL, "%s: \"%s\": this host has not got all of them", f->file,
                       value);
    if (r < 0)
        return err_errno(err, r, "%s limit: write %s to %s in %s/rind", name, value, f->file,
                         h->hier[h->home[f->controller]].path);
    return 0;
}

/* v1 refuses a memory limit above the one of memory and swap together, so a limit that grows past
 * it is written after it. Never loosens what is in force: both values are the new ones. */
static void memory_make_room(const struct cgroup *c, const struct limit_text *t)
{
    static const char file[] = "memory.memsw.limit_in_bytes";
    const int home = c->home[CG_MEMORY];
    char now[CG_SMALL_MAX], value[VALUE_MAX];

    if (home == CG_NOWHERE || c->version[home] != 1 || !format_memsw(value, t))
        return;
    if (cg_read(c->dir_fd[home], file, now) == 0 &&
        strtoll(now, NULL, 10) < t->limits->memory_bytes)
        (void)file_poke_at(c->dir_fd[home], file, value);
}

int cg_limits_apply(const struct cgroup_host *h, const struct cgroup *c,
                    const struct cgroup_limits *limits, bool update, struct err *err)
{
    const struct limit_text text = {.limits = limits, .update = update};

    if (update)
        memory_make_room(c, &text);
    for (size_t i = 0; i < sizeof(limit_files) / sizeof(limit_files[0]); i++) {
        const struct limit_file *f = &limit_files[i];
        int home = c->home[f->controller];
        int r;

        if (home == CG_NOWHERE || c->version[home] != f->version)
            continue;
        r = limit_apply(h, c->dir_fd[home], f, &text, err);
        /* v2: a controller that no limit needs is not enabled, so its files are not there. */
        if (r == -EOPNOTSUPP && update && f->version == 2 &&
            (cg_limits_need(limits) & 1U << f->controller) == 0)
            r = 0;
        if (r < 0)
            return r;
    }
    return cg_io_apply(h, c, limits, update, err);
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

    (void)put_number(text, value);
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
