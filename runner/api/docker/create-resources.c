/* Translates the resources of POST /containers/create and /containers/{id}/update into the spec's
 * limits. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "api/docker/body.h"
#include "api/docker/common.h"
#include "api/docker/create-body-internal.h"
#include "api/docker/create-body.h"
#include "base/err.h"
#include "spec/spec.h"

enum {
    CPU_PERIOD = 100000, /* microseconds; the kernel's bounds follow */
    CPU_PERIOD_MIN = 1000,
    CPU_PERIOD_MAX = 1000000,
    MILLION = 1000000,
    CPU_SHARES_MIN = 2,
    CPU_SHARES_MAX = 262144,
    BLKIO_MIN = 10,
    BLKIO_MAX = 1000,
    OOM_SCORE_MAX = 1000,
    SWAPPINESS_MAX = 100,
};

/* Where the keys stand: in HostConfig of a creation, at the top of an update. */
struct asked_place {
    const char *prefix;
    bool update;
};

static int asked_check_cpus(const struct create_asked *a, const char *prefix, struct err *err)
{
    if (a->nano_cpus > 0 && a->cpu_quota > 0)
        return err_set(err, -EINVAL, "%sNanoCpus: not together with CpuQuota", prefix);
    if (a->cpu_period != 0 && (a->cpu_period < CPU_PERIOD_MIN || a->cpu_period > CPU_PERIOD_MAX))
        return err_set(err, -EINVAL, "%sCpuPeriod: must be %d to %d (microseconds)", prefix,
                       CPU_PERIOD_MIN, CPU_PERIOD_MAX);
    if (a->cpu_quota > INT64_MAX / 1000)
        return err_set(err, -EINVAL, "%sCpuQuota: is too large", prefix);
    if (a->shares < 0)
        return err_set(err, -EINVAL, "%sCpuShares: must be %d to %d", prefix, CPU_SHARES_MIN,
                       CPU_SHARES_MAX);
    return 0;
}

/* Kernel memory is a part of the memory that Memory limits: only less of it would be a limit. */
static int asked_check_kernel(const struct create_asked *a, int64_t n, const char *key,
                              const char *prefix, struct err *err)
{
    if (n <= 0 || (a->memory > 0 && n >= a->memory))
        return 0;
    return err_set(err, -EOPNOTSUPP,
                   "%s%s: kernel memory counts as memory, and has no limit of its own; use Memory",
                   prefix, key);
}

static int asked_check_memory(const struct create_asked *a, const struct asked_place *at,
                              struct err *err)
{
    int r;

    if (a->swap < -1)
        return err_set(err, -EINVAL, "%sMemorySwap: must be bytes, or -1", at->prefix);
    if (a->swap > 0 && a->memory <= 0 && !at->update)
        return err_set(err, -EINVAL, "%sMemorySwap: only together with Memory", at->prefix);
    if (a->swappiness < -1 || a->swappiness > SWAPPINESS_MAX)
        return err_set(err, -EINVAL, "%sMemorySwappiness: must be 0 to %d", at->prefix,
                       SWAPPINESS_MAX);
    r = asked_check_kernel(a, a->kernel_memory, "KernelMemory", at->prefix, err);
    return r < 0 ? r : asked_check_kernel(a, a->kernel_tcp, "KernelMemoryTCP", at->prefix, err);
}

static int asked_check(const struct create_asked *a, const struct asked_place *at, struct err *err)
{
    int r = asked_check_cpus(a, at->prefix, err);

    if (r == 0)
        r = asked_check_memory(a, at, err);
    if (r < 0)
        return r;
    if (a->blkio_weight != 0 && (a->blkio_weight < BLKIO_MIN || a->blkio_weight > BLKIO_MAX))
        return err_set(err, -EINVAL, "%sBlkioWeight: must be %d to %d", at->prefix, BLKIO_MIN,
                       BLKIO_MAX);
    if (a->oom_score < -OOM_SCORE_MAX || a->oom_score > OOM_SCORE_MAX)
        return err_set(err, -EINVAL, "%sOomScoreAdj: must be 0 to %d", at->prefix, OOM_SCORE_MAX);
    if (a->oom_score < 0)
        return err_set(err, -EPERM,
                       "%sOomScoreAdj: below 0 a container would be protected from the OOM killer "
                       "at the expense of the host",
                       at->prefix);
    return 0;
}

static bool put_positive(json_t *limits, const char *key, int64_t n)
{
    return n <= 0 || docker_put(limits, key, json_integer(n));
}

static bool put_word(json_t *limits, const char *key, const char *text)
{
    return text == NULL || text[0] == '\0' || docker_put(limits, key, json_string(text));
}

/* An update takes a limit away by -1. A creation has none to take away. */
static bool put_removed(json_t *limits, const char *key, int64_t n, const struct asked_place *at)
{
    return n >= 0 || !at->update || docker_put(limits, key, json_null());
}

static bool put_cpus(json_t *limits, const struct create_asked *a, const struct asked_place *at)
{
    int64_t period = a->cpu_period > 0 ? a->cpu_period : CPU_PERIOD, millis = -1;

    if (a->nano_cpus > 0)
        millis = a->nano_cpus / MILLION;
    else if (a->cpu_quota > 0)
        millis = a->cpu_quota * 1000 / period;
    return millis >= 0 ? docker_put(limits, "cpus", json_real((double)millis / 1000.0))
                       : put_removed(limits, "cpus", a->cpu_quota, at);
}

static bool put_shares(json_t *limits, int64_t shares)
{
    if (shares > 0 && shares < CPU_SHARES_MIN)
        shares = CPU_SHARES_MIN; /* as Docker does */
    return put_positive(limits, "cpuShares", shares > CPU_SHARES_MAX ? CPU_SHARES_MAX : shares);
}

static const char *const rate_keys[IO_KIND_MAX] = {[IO_READ_BPS] = "BlkioDeviceReadBps",
                                                   [IO_WRITE_BPS] = "BlkioDeviceWriteBps",
                                                   [IO_READ_IOPS] = "BlkioDeviceReadIOps",
                                                   [IO_WRITE_IOPS] = "BlkioDeviceWriteIOps"};

/* One key's list: [{"Path": "/dev/sda", "Rate": 1048576}]. A rate of 0 is none. */
static int put_device_rates(json_t *devices, json_t *list, enum io_kind kind, const char *prefix,
                            struct err *err)
{
    json_t *element;
    size_t i;

    if (list != NULL && !json_is_array(list))
        return err_set(err, -EINVAL, "%s%s: must be an array", prefix, rate_keys[kind]);
    json_array_foreach(list, i, element) {
        const char *path = json_string_value(json_object_get(element, "Path"));
        const json_t *rate = json_object_get(element, "Rate");

        if (path == NULL || !json_is_integer(rate) || json_integer_value(rate) < 0 ||
            json_object_size(element) != 2)
            return err_set(err, -EINVAL, "%s%s[%zu]: must be {\"Path\": DISK, \"Rate\": NUMBER}",
                           prefix, rate_keys[kind], i);
        if (json_integer_value(rate) > 0 &&
            json_array_append_new(devices, json_sprintf("%s:%s=%" JSON_INTEGER_FORMAT, path,
                                                        spec_io_kind_name(kind),
                                                        json_integer_value(rate))) < 0)
            return create_no_memory(err);
    }
    return 0;
}

static int asked_put_devices(const struct create_asked *a, json_t *limits, const char *prefix,
                             struct err *err)
{
    json_t *devices = json_array();
    int r = devices != NULL ? 0 : create_no_memory(err);

    for (int i = 0; r == 0 && i < IO_KIND_MAX; i++)
        r = put_device_rates(devices, a->blkio_rates[i], (enum io_kind)i, prefix, err);
    if (r == 0 && json_array_size(devices) > 0 && json_object_set(limits, "ioDevices", devices) < 0)
        r = create_no_memory(err);
    json_decref(devices);
    return r;
}

/* Makes the spec's limits from what is asked. NULL: out of memory. */
static json_t *asked_to_limits(const struct create_asked *a, const struct asked_place *at)
{
    json_t *limits = json_object();
    bool ok = limits != NULL;

    ok = ok && put_positive(limits, "memory", a->memory);
    ok = ok && put_positive(limits, "pids", a->pids);
    ok = ok && put_removed(limits, "pids", a->pids, at);
    ok = ok && put_positive(limits, "shmSize", a->shm);
    ok = ok && put_cpus(limits, a, at);
    ok = ok && put_positive(limits, "memorySwap", a->swap);
    if (a->swap == -1 && (a->memory > 0 || at->update))
        ok = ok && docker_put(limits, "memorySwap", json_integer(-1));
    ok = ok && put_positive(limits, "memoryReservation", a->reservation);
    ok = ok && put_shares(limits, a->shares);
    ok = ok && put_word(limits, "cpusetCpus", a->cpus);
    ok = ok && put_word(limits, "cpusetMems", a->mems);
    ok = ok && put_positive(limits, "oomScoreAdj", a->oom_score);
    ok = ok && put_positive(limits, "ioWeight", a->blkio_weight);
    if (!ok) {
        json_decref(limits);
        return NULL;
    }
    return limits;
}

/* What inspect shows as it was asked, and the spec has not, or has as something else. */
static bool asked_keep(const struct create_asked *a, json_t *kept)
{
    const struct {
        const char *key;
        int64_t n;
    } rows[] = {{"CpuQuota", a->cpu_quota},          {"CpuPeriod", a->cpu_period},
                {"MemorySwappiness", a->swappiness}, {"BlkioWeight", a->blkio_weight},
                {"KernelMemory", a->kernel_memory},  {"KernelMemoryTCP", a->kernel_tcp}};
    bool ok = true;

    for (size_t i = 0; ok && i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].n != 0)
            ok = docker_put(kept, rows[i].key, json_integer(rows[i].n));
    for (size_t i = 0; ok && i < IO_KIND_MAX; i++)
        if (a->blkio_rates[i] != NULL)
            ok = docker_put(kept, rate_keys[i], json_incref(a->blkio_rates[i]));
    if (ok && a->blkio_devices != NULL)
        ok = docker_put(kept, "BlkioWeightDevice", json_incref(a->blkio_devices));
    return ok;
}

int create_finish_limits(struct making *m, struct err *err)
{
    static const struct asked_place at = {.prefix = "HostConfig."};
    const struct create_asked *a = &m->asked;
    json_t *limits, *kept;
    int r = asked_check(a, &at, err);

    if (r < 0)
        return r;
    if (a->blkio_devices != NULL)
        m->out->warnings[m->out->warning_count++] =
            "HostConfig.BlkioWeightDevice: has no effect, only the disk where containers are kept "
            "has weights";
    kept = json_object();
    if (kept == NULL || !asked_keep(a, kept)) {
        json_decref(kept);
        return create_no_memory(err);
    }
    if (!docker_put(m->out->kept, "asked", kept))
        return create_no_memory(err);
    limits = asked_to_limits(a, &at);
    if (limits != NULL && m->disk != NULL && !docker_put(limits, "disk", json_string(m->disk))) {
        json_decref(limits);
        limits = NULL;
    }
    if (limits == NULL)
        return create_no_memory(err);
    r = asked_put_devices(a, limits, at.prefix, err);
    if (r < 0) {
        json_decref(limits);
        return r;
    }
    return create_put(m, "limits", limits, err);
}

/* ---- update ---- */

struct update_body {
    struct create_asked asked;
    const char *restart;
    int64_t retries;
};

#define UPDATE(member) .off = offsetof(struct update_body, member)

static const struct body_field update_restart_fields[] = {
    {.name = "Name", .take = b_string, UPDATE(restart)},
    {.name = "MaximumRetryCount", .take = b_number, UPDATE(retries)},
    {0},
};

/* clang-format off */
static const struct body_field update_fields[] = {
    {.name = "RestartPolicy",     .take = b_object, .fields = update_restart_fields},
    {.name = "Memory",            .take = b_number, UPDATE(asked.memory)},
    {.name = "MemorySwap",        .take = b_number, UPDATE(asked.swap)},
    {.name = "MemoryReservation", .take = b_number, UPDATE(asked.reservation)},
    {.name = "MemorySwappiness",  .take = b_number, UPDATE(asked.swappiness)},
    {.name = "KernelMemory",      .take = b_number, UPDATE(asked.kernel_memory)},
    {.name = "KernelMemoryTCP",   .take = b_number, UPDATE(asked.kernel_tcp)},
    {.name = "NanoCpus",          .take = b_number, UPDATE(asked.nano_cpus)},
    {.name = "CpuQuota",          .take = b_number, UPDATE(asked.cpu_quota)},
    {.name = "CpuPeriod",         .take = b_number, UPDATE(asked.cpu_period)},
    {.name = "CpuShares",         .take = b_number, UPDATE(asked.shares)},
    {.name = "CpusetCpus",        .take = b_string, UPDATE(asked.cpus)},
    {.name = "CpusetMems",        .take = b_string, UPDATE(asked.mems)},
    {.name = "PidsLimit",         .take = b_number, UPDATE(asked.pids)},
    {.name = "BlkioWeight",       .take = b_number, UPDATE(asked.blkio_weight)},
    {.name = "BlkioWeightDevice", .take = b_value,  UPDATE(asked.blkio_devices)},
    NOT_HERE("CpuRealtimePeriod"),
    NOT_HERE("CpuRealtimeRuntime"),
    {0},
};
/* clang-format on */

int create_update_decode(json_t *root, struct create_update *ret, struct err *err)
{
    static const struct asked_place at = {.prefix = "", .update = true};
    struct update_body b = {.restart = NULL};
    int r;

    *ret = (struct create_update){.restart = NULL};
    r = body_decode_whole(root, update_fields, create_body_elsewhere, &b, err);
    if (r == 0)
        r = asked_check(&b.asked, &at, err);
    if (r < 0)
        return r;
    ret->restart = b.restart;
    ret->retries = b.retries;
    ret->limits = asked_to_limits(&b.asked, &at);
    ret->kept = json_object();
    if (ret->limits == NULL || ret->kept == NULL || !asked_keep(&b.asked, ret->kept))
        return create_no_memory(err);
    return 0;
}
