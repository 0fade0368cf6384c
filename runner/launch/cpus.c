/*
 * The processors of a sandbox with a CPU limit. Most programs that ask how many they may use ask
 * sched_getaffinity(2) (nproc, make -j, Go, Node, Python, OpenMP), not the cgroup. So a sandbox
 * limited to 1.5 processors starts on two of them. A process inside may change its affinity and
 * gains nothing: the cgroup keeps the limit.
 *
 * Some programs count /sys/devices/system/cpu/online (glibc's sysconf, so Python's os.cpu_count) or
 * the records of /proc/cpuinfo. They are shown files with these processors alone, which stay
 * correct as long as the sandbox runs. /proc/stat and /proc/meminfo change all the time and stay
 * the host's. A FUSE file system for them costs 0.1 ms at the start and 0.2 to 0.3 ms at the end
 * (Linux 6.18).
 *
 * The choice follows from the number of the id range. Ranges are allocated from a random one on, so
 * sandboxes spread evenly on average, without a record of their processors.
 *
 * Runs in the launcher; called by launcher.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "launch/sandbox.h"

enum {
    WHOLE_MILLIS = 1000,
    CPUINFO_MAX = 8 << 20, /* bytes of the host's /proc/cpuinfo: 1.5 KiB per processor on x86-64 */
};

bool cpus_choose(const cpu_set_t *of, uid_t base, int64_t millis, cpu_set_t *ret)
{
    const int there = CPU_COUNT(of);
    const int64_t want = (millis + WHOLE_MILLIS - 1) / WHOLE_MILLIS;
    int64_t skip, left = want;

    CPU_ZERO(ret);
    if (millis < 0 || want < 1 || want >= there)
        return false;
    skip = (int64_t)(base / IDRANGE_SIZE) * want % there;
    /* Two rounds, because the choice may begin near the end. */
    for (int i = 0; i < 2 * CPU_SETSIZE && left > 0; i++) {
        if (!CPU_ISSET((size_t)(i % CPU_SETSIZE), of) || skip-- > 0)
            continue;
        CPU_SET((size_t)(i % CPU_SETSIZE), ret);
        left--;
    }
    return true;
}

bool cpus_parse(const char *text, cpu_set_t *ret)
{
    CPU_ZERO(ret);
    for (char *end; *text != '\0'; text = end) {
        unsigned long first = strtoul(text, &end, 10), last = first;

        if (end == text)
            return false;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        if (last >= CPU_SETSIZE || last < first || (*end != '\0' && *end != ','))
            return false;
        for (; first <= last; first++)
            CPU_SET(first, ret);
        end += *end == ',';
    }
    return CPU_COUNT(ret) > 0;
}

/* Returns the number after "processor", or -1. A record of /proc/cpuinfo begins with it on all
 * supported architectures. */
static int record_number(const char *record, size_t len)
{
    static const char key[] = "processor";
    const char *at = record + sizeof(key) - 1, *end = record + len;
    int n = 0;

    if (len < sizeof(key) || memcmp(record, key, sizeof(key) - 1) != 0)
        return -1;
    while (at < end && (*at == ' ' || *at == '\t' || *at == ':'))
        at++;
    if (at == end || *at < '0' || *at > '9')
        return -1;
    for (; at < end && *at >= '0' && *at <= '9'; at++)
        n = n < CPU_SETSIZE ? n * 10 + (*at - '0') : CPU_SETSIZE;
    return n;
}

int cpus_info(const char *text, size_t len, const cpu_set_t *set, struct buf *ret)
{
    int found = 0, r = 0;

    for (size_t at = 0; at < len && r == 0;) {
        const char *blank = memmem(text + at, len - at, "\n\n", 2);
        const size_t end = blank != NULL ? (size_t)(blank - text) + 2 : len;
        const int n = record_number(text + at, end - at);

        if (n >= 0 && n < CPU_SETSIZE && CPU_ISSET((size_t)n, set)) {
            r = buf_append(ret, text + at, end - at);
            found++;
        }
        at = end;
    }
    return r < 0 ? r : found == CPU_COUNT(set) ? 0 : -ENODATA;
}

int cpus_list(const cpu_set_t *set, struct buf *ret)
{
    int r = 0;

    for (int i = 0; i < CPU_SETSIZE && r == 0; i++) {
        const int first = i;

        if (!CPU_ISSET((size_t)i, set))
            continue;
        while (i + 1 < CPU_SETSIZE && CPU_ISSET((size_t)i + 1, set))
            i++;
        r = buf_printf(ret, "%s%d", ret->len > 0 ? "," : "", first);
        if (r == 0 && i > first)
            r = buf_printf(ret, "-%d", i);
    }
    return r < 0 ? r : buf_append_str(ret, "\n");
}

bool cpus_info_of_host(struct launcher *l, const cpu_set_t *set, struct buf *ret)
{
    if (l->cpuinfo == NULL && file_read_at(AT_FDCWD, "/proc/cpuinfo", CPUINFO_MAX, &l->cpuinfo,
                                           &l->cpuinfo_len, NULL) < 0)
        return false;
    return cpus_info(l->cpuinfo, l->cpuinfo_len, set, ret) == 0;
}
