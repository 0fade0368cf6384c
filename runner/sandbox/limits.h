#pragma once

/*
 * All configurable limits of the daemon, in one table. The struct, its defaults, the
 * configuration's keys and docs/configuration.md follow from it (tests/unit/test-limits.c). A
 * request that reaches a limit gets an error whose message begins with "limit KEY: ".
 *
 * Sizes that belong to a format (a path, a frame, an id) are not limits in this sense: they are
 * declared with their format.
 */

#include <stddef.h>
#include <stdint.h>

struct err;

/* clang-format off */
/* field, type, key, default, least, most */
#define SUPERVISOR_LIMITS(X)                                                                                \
    X(sandboxes,          unsigned, "maxSandboxes",            4096,       1,       100000)                 \
    X(sandboxes_per_user, unsigned, "maxSandboxesPerUser",     256,        1,       100000)                 \
    X(processes,          unsigned, "maxProcesses",            256,        1,       256)                    \
    X(execs,              unsigned, "maxExecs",                512,        1,       900)                    \
    X(connections,        unsigned, "maxConnections",          1024,       8,       60000)                  \
    X(connections_user,   unsigned, "maxConnectionsPerUser",   768,        4,       60000)                  \
    X(watchers,           unsigned, "maxWatchers",             256,        1,       10000)                  \
    X(docker_execs,       unsigned, "maxDockerExecs",          4096,       1,       100000)                 \
    X(file_operations,    unsigned, "maxFileOperations",       32,         1,       100)                    \
    X(file_queue,         unsigned, "maxFileQueue",            256,        0,       100000)                 \
    X(gateway_connections, unsigned, "maxGatewayConnections",  16384,      8,       60000)                  \
    X(port_connections,   unsigned, "maxPortConnections",      4096,       1,       60000)                  \
    X(udp_flows,          unsigned, "maxUdpFlows",             16384,      1,       60000)                  \
    X(spare_sockets,      unsigned, "maxSpareSockets",         1024,       0,       60000)                  \
    X(egress_connections, unsigned, "maxEgressConnections",    1024,       1,       60000)                  \
    X(egress_queries,     unsigned, "maxEgressQueriesPerSecond", 200,      1,       100000)                 \
    X(exposures,          unsigned, "maxExposures",            64,         1,       1024)                   \
    X(images,             unsigned, "maxImages",               4096,       1,       100000)                 \
    X(image_loads,        unsigned, "maxImageLoads",           4,          1,       64)                     \
    X(image_layers,       unsigned, "maxImageLayers",          127,        1,       127)                    \
    X(image_files,        unsigned, "maxImageFiles",           4000000,    1,       1000000000)             \
    X(image_bytes,        uint64_t, "maxImageBytes",           64LL << 30, 1 << 20, 1LL << 50)              \
    X(image_worker_bytes, uint64_t, "imageWorkerMemory",       2LL << 30,  64 << 20, 1LL << 50)             \
    X(volumes,            unsigned, "maxVolumes",              4096,       1,       100000)                 \
    X(volumes_per_user,   unsigned, "maxVolumesPerUser",       256,        1,       100000)                 \
    X(volume_makers,      unsigned, "maxVolumeMakers",         128,        1,       128)                    \
    X(volume_make_ms,     unsigned, "volumeMakeTimeoutMs",     60000,      100,     86400000)               \
    X(volume_bytes,       uint64_t, "volumeBytes",             0,          0,       1LL << 42)              \
    X(networks,           unsigned, "maxNetworks",             1024,       1,       100000)                 \
    X(networks_per_user,  unsigned, "maxNetworksPerUser",      64,         1,       100000)                 \
    X(terminals,          unsigned, "maxTerminals",            2816,       1,       1000000)                \
    X(launcher_queue,     unsigned, "maxLauncherQueue",        4096,       1,       100000)                 \
    X(end_ms,             unsigned, "endTimeoutMs",            10000,      100,     600000)                 \
    X(list_entries,       unsigned, "maxListEntries",          1000000,    1,       100000000)              \
    X(headers,            unsigned, "maxHeaders",              128,        16,      10000)                  \
    X(head_bytes,         uint64_t, "maxHeadBytes",           192 << 10,   4096,    1 << 20)                \
    X(url_bytes,          uint64_t, "maxUrlBytes",            128 << 10,   1024,    1 << 20)                \
    X(body_bytes,         uint64_t, "maxBodyBytes",            1 << 20,    1 << 10, 1 << 28)                \
    X(exec_body_bytes,    uint64_t, "maxExecBodyBytes",        6 << 20,    1 << 10, 1 << 28)                \
    X(output_bytes,       uint64_t, "maxOutputBytes",          1 << 20,    1,       1 << 30)                \
    X(queue_bytes,        uint64_t, "maxQueueBytes",           32 << 20,   1 << 20, 1 << 30)                \
    X(buffered_bytes,     uint64_t, "maxBufferedBytes",        256 << 20,  8 << 20, 1LL << 40)              \
    X(disk_reserve,       uint64_t, "diskReserveBytes",        0,          0,       1LL << 50)              \
    X(log_bytes,          uint64_t, "logBytes",                1 << 20,    8192,    1 << 30)                \
    X(audit_bytes,        uint64_t, "auditBytes",              16 << 20,   0,       1LL << 40)              \
    X(idle_ms,            unsigned, "idleTimeoutMs",           75000,      100,     86400000)               \
    X(head_ms,            unsigned, "headTimeoutMs",           30000,      100,     86400000)               \
    X(body_ms,            unsigned, "bodyTimeoutMs",           60000,      100,     86400000)               \
    X(gateway_reply_ms,   unsigned, "gatewayReplyTimeoutMs",   300000,     100,     86400000)               \
    X(egress_handler_ms,  unsigned, "egressHandlerTimeoutMs",  30000,      100,     86400000)               \
    X(gateway_idle_ms,    unsigned, "gatewayIdleTimeoutMs",    3600000,    100,     86400000)               \
    X(write_ms,           unsigned, "writeTimeoutMs",          60000,      100,     86400000)
/* clang-format on */

#define LIMIT_FIELD(field, type, key, def, min, max) type field;
struct supervisor_limits {
    SUPERVISOR_LIMITS(LIMIT_FIELD)
};
#undef LIMIT_FIELD

#define LIMIT_COUNT(field, type, key, def, min, max) +1
enum { LIMITS_COUNT = 0 SUPERVISOR_LIMITS(LIMIT_COUNT) };
#undef LIMIT_COUNT

struct limit_info {
    const char *key; /* in the configuration's "limits", and in messages */
    size_t off, size;
    int64_t def, min, max;
};

extern const struct limit_info limits_table[LIMITS_COUNT];

struct supervisor_limits supervisor_limits_default(void);
int64_t limit_get(const struct supervisor_limits *l, const struct limit_info *info);
/* value lies between info->min and info->max. */
void limit_set(struct supervisor_limits *l, const struct limit_info *info, int64_t value);
