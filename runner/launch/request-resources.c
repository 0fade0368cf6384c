/* Decodes the records of a request that say what a sandbox may use: limits, and mounts in memory.
 * Pure; called by request.c, in the launcher and in `rind run`. */

#include <errno.h>
#include <string.h>

#include "launch/cgroup.h"
#include "launch/request-internal.h"
#include "policy/plain-path.h"
#include "policy/policy.h"

int dec_memory(const struct request_record *r, struct launch_request *q)
{
    return record_get_limit(r, 1 << 20, INT64_MAX / 2, &q->memory);
}

int dec_pids(const struct request_record *r, struct launch_request *q)
{
    return record_get_limit(r, 1, 1 << 22, &q->pids);
}

int dec_cpu(const struct request_record *r, struct launch_request *q)
{
    return record_get_limit(r, 1, 1 << 20, &q->cpu);
}

int dec_shm(const struct request_record *r, struct launch_request *q)
{
    return record_get_limit(r, 4096, INT64_MAX / 2, &q->shm);
}

int dec_disk(const struct request_record *r, struct launch_request *q)
{
    return record_get_limit(r, LIMIT_DISK_MIN, LIMIT_DISK_MAX, &q->disk);
}

int dec_swap(const struct request_record *r, struct launch_request *q)
{
    return record_get_limit(r, 1 << 20, LAUNCH_SWAP_UNLIMITED, &q->swap);
}

int dec_reservation(const struct request_record *r, struct launch_request *q)
{
    return record_get_limit(r, 1, INT64_MAX / 2, &q->reservation);
}

int dec_shares(const struct request_record *r, struct launch_request *q)
{
    return record_get_limit(r, CGROUP_SHARES_MIN, CGROUP_SHARES_MAX, &q->shares);
}

/* Digits, hyphens and commas; the kernel checks the rest. */
static int record_get_cpuset(const struct request_record *r, const char **ret)
{
    int n = record_get_string(r, CGROUP_CPUSET_MAX, ret);

    return n == 0 && strspn(*ret, "0123456789-,") != strlen(*ret) ? -EINVAL : n;
}

int dec_cpuset_cpus(const struct request_record *r, struct launch_request *q)
{
    return record_get_cpuset(r, &q->cpus);
}

int dec_cpuset_mems(const struct request_record *r, struct launch_request *q)
{
    return record_get_cpuset(r, &q->mems);
}

/* Never below 0, which would protect the sandbox at the expense of the host. */
int dec_oom_score(const struct request_record *r, struct launch_request *q)
{
    return record_get_limit(r, 0, 1000, &q->oom_score);
}

int dec_io_weight(const struct request_record *r, struct launch_request *q)
{
    return record_get_limit(r, CGROUP_IO_WEIGHT_MIN, CGROUP_IO_WEIGHT_MAX, &q->io_weight);
}

int dec_net_rate(const struct request_record *r, struct launch_request *q)
{
    return record_get_limit(r, 1, INT64_MAX / 8, &q->net_rate);
}

/* A disk is named by a plain path below /dev, which the launcher resolves there. */
static bool is_disk_path(const char *path)
{
    return path[0] == '\0' ||
           (strncmp(path, "/dev/", 5) == 0 && path[5] != '\0' && path_is_plain(path));
}

int dec_io(const struct request_record *r, struct launch_request *q)
{
    struct launch_io io = {.path = NULL};
    struct request_record text = *r;
    int n;

    if (r->len <= sizeof(io.rates))
        return -EPROTO;
    (void)memcpy(io.rates, r->data, sizeof(io.rates));
    text.data += sizeof(io.rates);
    text.len = r->len - (uint32_t)sizeof(io.rates);
    if (text.data[text.len - 1] != '\0' || memchr(text.data, '\0', text.len - 1) != NULL)
        return -EPROTO;
    io.path = (const char *)text.data;
    n = text.len - 1 <= LAUNCH_IO_PATH_MAX ? 0 : -E2BIG;
    for (size_t i = 0; n == 0 && i < LAUNCH_IO_RATES; i++)
        if (io.rates[i] > INT64_MAX / 2)
            n = -ERANGE;
    if (n == 0 && !is_disk_path(io.path))
        n = -EINVAL;
    if (n == 0 && q->io_count == LAUNCH_IO_MAX)
        n = -E2BIG;
    if (n == 0)
        q->io[q->io_count++] = io;
    return n;
}

int dec_tmpfs(const struct request_record *r, struct launch_request *q)
{
    struct launch_tmpfs t = {.read_only = (r->flags & LAUNCH_TMPFS_READ_ONLY) != 0,
                             .no_exec = (r->flags & LAUNCH_TMPFS_NO_EXEC) != 0};
    int n = record_get_number_string(r, &t.bytes, &t.target);

    if (n < 0)
        return n;
    if (t.bytes < 4096 || t.bytes > INT64_MAX / 2)
        return -ERANGE;
    if (!launch_target_ok(t.target))
        return -EINVAL;
    if (q->tmpfs_count == LAUNCH_TMPFS_MAX)
        return -E2BIG;
    q->tmpfs[q->tmpfs_count++] = t;
    return 0;
}

int dec_tmpfs_root(const struct request_record *r, struct launch_request *q)
{
    struct launch_tmpfs_root root;

    if (r->len != sizeof(root) || q->tmpfs_count == 0 || q->tmpfs[q->tmpfs_count - 1].has_root)
        return -EPROTO;
    (void)memcpy(&root, r->data, sizeof(root));
    if (root.mode > 07777 || root.uid > 65535 || root.gid > 65535 || root.reserved != 0)
        return -ERANGE;
    q->tmpfs[q->tmpfs_count - 1].has_root = true;
    q->tmpfs[q->tmpfs_count - 1].root = root;
    return 0;
}

int dec_sysctl(const struct request_record *r, struct launch_request *q)
{
    const char *text;
    int n = record_get_string(r, SYSCTL_TEXT_MAX, &text);

    if (n < 0)
        return n;
    if (sysctl_judge(text) == SYSCTL_REFUSED)
        return -EPERM;
    if (q->sysctl_count == SYSCTLS_MAX)
        return -E2BIG;
    q->sysctls[q->sysctl_count++] = text;
    return 0;
}
