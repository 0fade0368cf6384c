#include "api/docker/create-body.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/docker/body.h"
#include "api/docker/common.h"
#include "api/docker/create-body-internal.h"
#include "base/auto.h"
#include "base/err.h"
#include "spec/spec.h"

#define BODY(member) .off = offsetof(struct making, member)

int create_no_memory(struct err *err)
{
    return err_errno(err, -ENOMEM, "a request");
}

int create_put(struct making *m, const char *key, json_t *value, struct err *err)
{
    return docker_put(m->out->spec, key, value) ? 0 : create_no_memory(err);
}

static json_t *spec_array(struct making *m, const char *key)
{
    json_t *list = json_object_get(m->out->spec, key);

    if (list == NULL && docker_put(m->out->spec, key, json_array()))
        list = json_object_get(m->out->spec, key);
    return list;
}

int create_push(struct making *m, const char *key, json_t *value, struct err *err)
{
    json_t *list = spec_array(m, key);

    if (list == NULL) {
        json_decref(value);
        return create_no_memory(err);
    }
    return json_array_append_new(list, value) < 0 ? create_no_memory(err) : 0;
}

/* ---- strings and lists ---- */

int create_check_strings(json_t *value, const char *path, struct err *err)
{
    json_t *element;
    size_t i;

    if (!json_is_array(value))
        return body_fail(err, -EINVAL, path, "must be an array of strings");
    json_array_foreach(value, i, element)
        if (!json_is_string(element))
            return body_fail(err, -EINVAL, path, "must be an array of strings");
    return 0;
}

/* Docker accepts a command as a list or as one string. */
static int words_take(json_t *value, json_t **ret, const char *path, struct err *err)
{
    if (json_is_string(value)) {
        *ret = json_pack("[O]", value);
    } else {
        int r = create_check_strings(value, path, err);

        if (r < 0)
            return r;
        *ret = json_incref(value);
    }
    return *ret != NULL ? 0 : create_no_memory(err);
}

static int t_cmd(json_t *value, const struct body_field *field, void *dst, const char *path,
                 struct err *err)
{
    (void)field;
    return words_take(value, &((struct making *)dst)->out->cmd, path, err);
}

/* [""] removes the image's entrypoint. */
static int t_entrypoint(json_t *value, const struct body_field *field, void *dst, const char *path,
                        struct err *err)
{
    struct create_body *out = ((struct making *)dst)->out;
    int r = words_take(value, &out->entrypoint, path, err);

    (void)field;
    if (r == 0 && json_array_size(out->entrypoint) == 1 &&
        json_string_length(json_array_get(out->entrypoint, 0)) == 0) {
        json_decref(out->entrypoint);
        out->entrypoint = json_array();
    }
    return r;
}

/* A name without value removes the variable, like in Docker. create.c handles the image's
 * variables. */
static int t_env(json_t *value, const struct body_field *field, void *dst, const char *path,
                 struct err *err)
{
    struct create_body *out = ((struct making *)dst)->out;
    json_t *element, *env = json_array();
    size_t i;
    int r = create_check_strings(value, path, err);

    (void)field;
    out->unset = json_array();
    for (i = 0; r == 0 && i < json_array_size(value); i++) {
        bool has_value;

        element = json_array_get(value, i);
        has_value = strchr(json_string_value(element), '=') != NULL;
        if (strcspn(json_string_value(element), "=") == 0)
            r = body_fail(err, -EINVAL, path, "invalid environment variable: %.64s",
                          json_string_value(element));
        else if (json_array_append(has_value ? env : out->unset, element) < 0)
            r = create_no_memory(err);
    }
    if (r == 0)
        return create_put(dst, "env", env, err);
    json_decref(env);
    return r;
}

static int t_labels(json_t *value, const struct body_field *field, void *dst, const char *path,
                    struct err *err)
{
    (void)field;
    if (!json_is_object(value))
        return body_fail(err, -EINVAL, path, "must be an object of strings");
    if (json_object_get(value, DOCKER_LABEL) != NULL)
        return body_fail(err, -EINVAL, path, "\"%s\" is rind's own", DOCKER_LABEL);
    return create_put(dst, "labels", json_copy(value), err);
}

static int t_image(json_t *value, const struct body_field *field, void *dst, const char *path,
                   struct err *err)
{
    (void)field;
    if (!json_is_string(value))
        return body_fail(err, -EINVAL, path, "must be a string");
    ((struct making *)dst)->out->image = json_string_value(value);
    return 0;
}

static int t_stop_timeout(json_t *value, const struct body_field *field, void *dst,
                          const char *path, struct err *err)
{
    struct making *m = dst;
    int r = b_number(value, field, dst, path, err);

    m->has_stop_timeout = true;
    if (r == 0 && m->stop_timeout < -1)
        r = body_fail(err, -EINVAL, path, "must be seconds, or -1");
    if (r == 0 && m->stop_timeout > SPEC_TIME_MAX_MS / 1000)
        r = body_fail(err, -EINVAL, path, "must be at most %" PRId64 " seconds",
                      (int64_t)(SPEC_TIME_MAX_MS / 1000));
    return r;
}

/* ---- limits ---- */

struct ulimit {
    const char *name;
    int64_t soft, hard;
};

static const struct body_field ulimit_fields[] = {
    {.name = "Name", .take = b_string, .off = offsetof(struct ulimit, name)},
    {.name = "Soft", .take = b_number, .off = offsetof(struct ulimit, soft)},
    {.name = "Hard", .take = b_number, .off = offsetof(struct ulimit, hard)},
    {0},
};

static int t_ulimits(json_t *value, const struct body_field *field, void *dst, const char *path,
                     struct err *err)
{
    json_t *element;
    size_t i;

    (void)field;
    if (!json_is_array(value))
        return body_fail(err, -EINVAL, path, "must be an array");
    json_array_foreach(value, i, element) {
        struct ulimit u = {0};
        int r = body_decode(element, ulimit_fields, &u, path, err);

        if (r == 0 && u.name == NULL)
            r = body_fail(err, -EINVAL, path, "Name is missing");
        if (r == 0)
            r = create_push(dst, "ulimits",
                            json_pack("{s:s, s:I, s:I}", "name", u.name, "soft", (json_int_t)u.soft,
                                      "hard", (json_int_t)u.hard),
                            err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- keys with few allowed values ---- */

/* Accepts one of a list of words, all of which mean what rind does anyway. */
static int word_only(json_t *value, const char *const *words, const char *path, int code,
                     const char *why, struct err *err)
{
    if (!json_is_string(value))
        return body_fail(err, -EINVAL, path, "must be a string");
    for (; *words != NULL; words++)
        if (strcmp(json_string_value(value), *words) == 0)
            return 0;
    return body_fail(err, code, path, "\"%.64s\": %s", json_string_value(value), why);
}

#define WORDS(fn, code, why, ...)                                                                  \
    static int fn(json_t *value, const struct body_field *field, void *dst, const char *path,      \
                  struct err *err)                                                                 \
    {                                                                                              \
        static const char *const words[] = {__VA_ARGS__, NULL};                                    \
                                                                                                   \
        (void)field;                                                                               \
        (void)dst;                                                                                 \
        return word_only(value, words, path, code, why, err);                                      \
    }

WORDS(t_ipc, -EPERM, "a container has an ipc namespace of its own", "private", "shareable")
WORDS(t_cgroupns, -EPERM, "a container has a cgroup namespace of its own", "private")
WORDS(t_isolation, -EOPNOTSUPP, "there is one isolation", "default")
WORDS(t_runtime, -EOPNOTSUPP, "there is one runtime", "rind", "runc", "io.containerd.runc.v2")
WORDS(t_driver, -EOPNOTSUPP, "there is one volume driver", "local")

struct log_config {
    const char *type;
};

static int t_log_type(json_t *value, const struct body_field *field, void *dst, const char *path,
                      struct err *err)
{
    /* the drivers of Docker that send logs elsewhere, or to the host's */
    static const char *const absent[] = {"awslogs",  "etwlogs", "fluentd", "gcplogs", "gelf",
                                         "journald", "splunk",  "syslog",  NULL};
    const char *type = json_string_value(value);

    (void)field;
    if (type == NULL)
        return body_fail(err, -EINVAL, path, "must be a string");
    if (strcmp(type, "json-file") == 0 || strcmp(type, "local") == 0)
        return 0;
    if (strcmp(type, "none") == 0)
        return create_put(dst, "discardOutput", json_true(), err);
    for (size_t i = 0; absent[i] != NULL; i++)
        if (strcmp(type, absent[i]) == 0)
            return body_fail(err, -EOPNOTSUPP, path, "\"%s\": logs are kept by rind itself", type);
    return body_fail(err, -EINVAL, path, "logger: no log driver named '%.64s' is registered", type);
}

static const struct body_field log_fields[] = {
    {.name = "Type", .take = t_log_type},
    {.name = "Config", .take = b_ignore}, /* max-size, max-file: a log is bounded by
                                           * limits.logBytes */
    {0},
};

/* The size of the container's own layer, such as "10G". */
static const struct body_field storage_fields[] = {
    {.name = "size", .take = b_string, BODY(disk)},
    {0},
};

static const struct body_field restart_fields[] = {
    {.name = "Name", .take = b_string, BODY(restart)},
    {.name = "MaximumRetryCount", .take = b_number, BODY(retries)},
    {0},
};

/* A container always has its own pid namespace. Only containers of workerd that use a sidecar's
 * network may ask for "host", which for them means the same. create.c decides when the network
 * is known. */
static int t_pid(json_t *value, const struct body_field *field, void *dst, const char *path,
                 struct err *err)
{
    struct making *m = dst;

    (void)field;
    if (!json_is_string(value))
        return body_fail(err, -EINVAL, path, "must be a string");
    if (strcmp(json_string_value(value), "host") != 0)
        return body_fail(err, -EPERM, path, "\"%.64s\": a container has a pid namespace of its own",
                         json_string_value(value));
    m->out->host_pid = true;
    return 0;
}

/* An empty list removes the masks; null keeps them. */
static int refuse_paths(const json_t *host, const char *key, struct err *err)
{
    const json_t *value = json_object_get(host, key);

    if (value == NULL || json_is_null(value))
        return 0;
    return err_set(err, -EPERM, "HostConfig.%s: what is masked is a policy's", key);
}

/* making_finish_hosts decides by the network whether the spec gets them. */
static int t_extra_hosts(json_t *value, const struct body_field *field, void *dst, const char *path,
                         struct err *err)
{
    int r = create_check_strings(value, path, err);

    (void)field;
    if (r < 0)
        return r;
    return docker_put(((struct making *)dst)->out->kept, "extraHosts", json_incref(value))
               ? 0
               : create_no_memory(err);
}

static int t_group_add(json_t *value, const struct body_field *field, void *dst, const char *path,
                       struct err *err)
{
    int r = create_check_strings(value, path, err);

    (void)field;
    return r < 0 ? r : create_put(dst, "groups", json_incref(value), err);
}

/* Keys of HostConfig, of what inspect shows, and of the native spec's network. */
static const struct {
    const char *docker, *kept;
} dns_lists[] = {{"Dns", "dns"}, {"DnsSearch", "dnsSearch"}, {"DnsOptions", "dnsOptions"}};

/* The spec gets them with its network (create_put_dns). */
static int t_dns(json_t *value, const struct body_field *field, void *dst, const char *path,
                 struct err *err)
{
    struct making *m = dst;
    int r = create_check_strings(value, path, err);

    for (size_t i = 0; r == 0 && i < sizeof(dns_lists) / sizeof(dns_lists[0]); i++)
        if (strcmp(dns_lists[i].docker, field->name) == 0 &&
            !docker_put(m->out->kept, dns_lists[i].kept, json_incref(value)))
            r = create_no_memory(err);
    return r;
}

bool create_put_dns(json_t *network, const json_t *kept)
{
    bool ok = true;

    for (size_t i = 0; ok && i < sizeof(dns_lists) / sizeof(dns_lists[0]); i++) {
        json_t *list = json_object_get(kept, dns_lists[i].kept);

        ok = list == NULL || json_object_set(network, dns_lists[i].kept, list) == 0;
    }
    return ok;
}

/* "NAME", "NAME:ALIAS", or as inspect shows it, "/NAME:/OWN/ALIAS". */
static int t_links(json_t *value, const struct body_field *field, void *dst, const char *path,
                   struct err *err)
{
    struct create_body *out = ((struct making *)dst)->out;

    (void)field;
    if (create_check_strings(value, path, err) < 0)
        return err->code;
    out->links = value;
    return docker_put(out->kept, "links", json_incref(value)) ? 0 : create_no_memory(err);
}

/* The members of EndpointsConfig are checked by create_endpoint_check. */
static int t_endpoints(json_t *value, const struct body_field *field, void *dst, const char *path,
                       struct err *err)
{
    struct create_body *out = ((struct making *)dst)->out;
    const char *name;
    struct create_endpoint parts;
    json_t *endpoint;
    int r = 0;

    (void)field;
    if (!json_is_object(value) || json_object_size(value) > 1 + SPEC_NETS_MORE_MAX + 1)
        return body_fail(err, -EINVAL, path, "must be an object of at most %d networks",
                         1 + SPEC_NETS_MORE_MAX);
    json_object_foreach(value, name, endpoint) {
        r = create_endpoint_check(name, endpoint, &parts, err);
        if (r < 0)
            return r;
    }
    out->endpoints = value;
    return 0;
}

static const struct body_field networking_fields[] = {
    {.name = "EndpointsConfig", .take = t_endpoints, .always = true},
    {0},
};

/* ---- tables ---- */

#define REFUSED(key, text)                                                                         \
    {                                                                                              \
        .name = (key), .code = -EPERM, .why = (text)                                               \
    }
#define OWN_NAMESPACE "a container has a namespace of its own"
#define NO_DEVICES    "no devices of the host are given to containers"

/* clang-format off */
static const struct body_field host_fields[] = {
    {.name = "Binds",          .take = t_binds},
    {.name = "Mounts",         .take = t_mounts},
    {.name = "VolumesFrom",    .take = t_volumes_from},
    {.name = "Tmpfs",          .take = t_tmpfs, .always = true},
    {.name = "PortBindings",   .take = t_bindings, .always = true, .loose = true},
    {.name = "PublishAllPorts",.take = b_bool,   BODY(publish_all), .loose = true},
    {.name = "NetworkMode",    .take = b_string, BODY(network)},
    {.name = "RestartPolicy",  .take = b_object, .fields = restart_fields, .loose = true},
    {.name = "AutoRemove",     .take = b_bool,   BODY(auto_remove), .loose = true},
    {.name = "ReadonlyRootfs", .take = b_bool,   BODY(read_only)},
    {.name = "Init",           .take = b_bool,   BODY(init), .loose = true},
    {.name = "Memory",         .take = b_number, BODY(asked.memory)},
    {.name = "MemorySwap",     .take = b_number, BODY(asked.swap)},
    {.name = "NanoCpus",       .take = b_number, BODY(asked.nano_cpus)},
    {.name = "CpuQuota",       .take = b_number, BODY(asked.cpu_quota)},
    {.name = "CpuPeriod",      .take = b_number, BODY(asked.cpu_period)},
    {.name = "PidsLimit",      .take = b_number, BODY(asked.pids)},
    {.name = "ShmSize",        .take = b_number, BODY(asked.shm)},
    {.name = "Ulimits",        .take = t_ulimits},
    {.name = "Dns",            .take = t_dns, .loose = true},
    {.name = "DnsOptions",     .take = t_dns, .loose = true},
    {.name = "DnsSearch",      .take = t_dns, .loose = true},
    {.name = "ExtraHosts",     .take = t_extra_hosts},
    {.name = "GroupAdd",       .take = t_group_add},
    {.name = "CapAdd",         .take = t_cap_add},
    {.name = "CapDrop",        .take = t_cap_drop},
    {.name = "SecurityOpt",    .take = t_security},
    {.name = "Devices",        .take = t_devices},
    {.name = "Sysctls",        .take = t_sysctls, .always = true},
    {.name = "LogConfig",      .take = b_object, .fields = log_fields, .loose = true},
    {.name = "PidMode",        .take = t_pid},
    {.name = "IpcMode",        .take = t_ipc},
    {.name = "CgroupnsMode",   .take = t_cgroupns},
    {.name = "Isolation",      .take = t_isolation},
    {.name = "Runtime",        .take = t_runtime},
    {.name = "VolumeDriver",   .take = t_driver},
    {.name = "ConsoleSize",    .take = b_ignore, .loose = true}, /* the client resizes the
                                                                  * console later */
    {.name = "ContainerIDFile", .take = b_ignore, .loose = true}, /* a file of the client */
    {.name = "MemoryReservation", .take = b_number, BODY(asked.reservation)},
    {.name = "MemorySwappiness", .take = b_number, BODY(asked.swappiness)},
    {.name = "KernelMemory",   .take = b_number, BODY(asked.kernel_memory)},
    {.name = "KernelMemoryTCP", .take = b_number, BODY(asked.kernel_tcp)},
    {.name = "CpuShares",      .take = b_number, BODY(asked.shares)},
    {.name = "CpusetCpus",     .take = b_string, BODY(asked.cpus)},
    {.name = "CpusetMems",     .take = b_string, BODY(asked.mems)},
    {.name = "BlkioWeight",    .take = b_number, BODY(asked.blkio_weight)},
    {.name = "BlkioWeightDevice", .take = b_value, BODY(asked.blkio_devices)},
    {.name = "BlkioDeviceReadBps",   .take = b_value, BODY(asked.blkio_rates[IO_READ_BPS])},
    {.name = "BlkioDeviceWriteBps",  .take = b_value, BODY(asked.blkio_rates[IO_WRITE_BPS])},
    {.name = "BlkioDeviceReadIOps",  .take = b_value, BODY(asked.blkio_rates[IO_READ_IOPS])},
    {.name = "BlkioDeviceWriteIOps", .take = b_value, BODY(asked.blkio_rates[IO_WRITE_IOPS])},
    {.name = "OomScoreAdj",    .take = b_number, BODY(asked.oom_score)},
    {.name = "MaskedPaths",    .take = b_ignore}, /* see refuse_paths */
    {.name = "ReadonlyPaths",  .take = b_ignore},
    REFUSED("Privileged",        "there are no privileged containers; ask for what it is needed "
                                 "for: CapAdd NET_ADMIN (its own network), CapAdd SYS_ADMIN with "
                                 "the device /dev/fuse (mounts), or SecurityOpt rind-policy=NAME "
                                 "(a policy of the daemon's owner)"),
    REFUSED("UsernsMode",        OWN_NAMESPACE),
    REFUSED("UTSMode",           OWN_NAMESPACE),
    REFUSED("Cgroup",            "a container is in no other's cgroup"),
    REFUSED("CgroupParent",      "where a container's cgroup lies is rind's affair"),
    REFUSED("DeviceRequests",    NO_DEVICES),
    REFUSED("DeviceCgroupRules", NO_DEVICES),
    REFUSED("OomKillDisable",    "no container outlives the memory that it may use"),
    NOT_HERE("CpuRealtimePeriod"),
    NOT_HERE("CpuRealtimeRuntime"),
    NOT_HERE("CpuCount"),
    NOT_HERE("CpuPercent"),
    NOT_HERE("IOMaximumIOps"),
    NOT_HERE("IOMaximumBandwidth"),
    NOT_HERE("MaximumIOps"),
    NOT_HERE("MaximumIOBps"),
    {.name = "Links",          .take = t_links},
    {.name = "StorageOpt",     .take = b_object, .fields = storage_fields},
    {.name = "Annotations",    .code = -EOPNOTSUPP, .why = "is not supported", .loose = true},
    {0},
};

const struct body_field create_body_fields[] = {
    {.name = "Image",        .take = t_image},
    {.name = "Cmd",          .take = t_cmd},
    {.name = "Entrypoint",   .take = t_entrypoint},
    {.name = "Env",          .take = t_env},
    {.name = "Labels",       .take = t_labels, .always = true},
    {.name = "Hostname",     .take = b_string, BODY(hostname)},
    {.name = "Domainname",   .take = b_string, BODY(domainname)},
    {.name = "User",         .take = b_string, BODY(user)},
    {.name = "WorkingDir",   .take = b_string, BODY(working_dir)},
    {.name = "StopSignal",   .take = b_string, BODY(stop_signal)},
    {.name = "StopTimeout",  .take = t_stop_timeout, BODY(stop_timeout), .always = true},
    {.name = "Tty",          .take = b_bool, BODY(tty)},
    {.name = "OpenStdin",    .take = b_bool, BODY(stdin)},
    {.name = "StdinOnce",    .take = b_bool, BODY(stdin_once)},
    {.name = "AttachStdin",  .take = b_bool, BODY(attach_in)},
    {.name = "AttachStdout", .take = b_bool, BODY(attach_out)},
    {.name = "AttachStderr", .take = b_bool, BODY(attach_err)},
    {.name = "NetworkDisabled", .take = b_bool, BODY(network_disabled)},
    {.name = "ExposedPorts", .take = t_exposed, .always = true},
    {.name = "Volumes",      .take = t_volumes, .always = true},
    {.name = "Healthcheck",  .take = t_health},
    {.name = "HostConfig",   .take = b_object, .fields = host_fields},
    {.name = "NetworkingConfig", .take = b_object, .fields = networking_fields},
    {.name = "ArgsEscaped",  .take = b_ignore}, /* Windows only */
    {.name = "Shell",        .take = b_ignore}, /* for builds only */
    NOT_HERE("MacAddress"),
    NOT_HERE("OnBuild"),
    {.name = "Runtime",      .take = t_runtime}, /* docker-py sends it here and in HostConfig */
    {0},
};

/* Old versions of Docker accepted HostConfig's fields at the top level, and this earlier name of
 * one. */
static const struct body_field old_fields[] = {
    {.name = "Cpuset"}, /* renamed to CpusetCpus */
    {0},
};

static const struct body_field object_fields[] = {
    {.name = "HostConfig"},
    {.name = "NetworkingConfig"},
    {0},
};

static const struct body_elsewhere misplaced[] = {
    {host_fields,       -EINVAL, "is a part of HostConfig: it is taken there"},
    {networking_fields, -EINVAL, "is a part of NetworkingConfig: it is taken there"},
    {old_fields,        -EINVAL, "is not taken here: use HostConfig"},
    {0},
};

/* Fields of a container's configuration that must not be dropped silently, either: they reduce
 * rights or cut the network. */
static const struct body_field process_fields[] = {
    {.name = "User"},
    {0},
};

static const struct body_field isolating_fields[] = {
    {.name = "NetworkDisabled"},
    {0},
};

#define OF_CREATION "is taken when a container is created (HostConfig), and not here"
const struct body_elsewhere create_body_elsewhere[] = {
    {host_fields,       -EINVAL, OF_CREATION},
    {networking_fields, -EINVAL, OF_CREATION},
    {old_fields,        -EINVAL, OF_CREATION},
    {object_fields,     -EINVAL, OF_CREATION},
    {process_fields,    -EINVAL, "is taken when a container or an exec is created, and not here"},
    {isolating_fields,  -EINVAL, "is taken when a container is created, and not here"},
    {0},
};
/* clang-format on */

/* ---- completion ---- */

static int making_finish_network(struct making *m, struct err *err)
{
    static const char container[] = "container:";
    const char *mode = m->network_disabled ? "none" : m->network;
    json_t *network;

    if (mode == NULL || strcmp(mode, "default") == 0 || strcmp(mode, "bridge") == 0) {
        network = json_pack("{s:s}", "mode", "internet");
    } else if (strcmp(mode, "none") == 0) {
        network = json_pack("{s:s}", "mode", "none");
        m->out->has_network = true;
    } else if (strcmp(mode, "host") == 0) {
        return err_set(err, -EPERM, "HostConfig.NetworkMode: no container has the host's network");
    } else if (strncmp(mode, container, sizeof(container) - 1) == 0) {
        m->out->joins = mode + sizeof(container) - 1;
        return 0; /* an id; create.c looks it up */
    } else {
        m->out->network = mode;
        m->out->has_network = true;
        return 0; /* create.c looks it up */
    }
    if (network != NULL && strcmp(mode != NULL ? mode : "", "none") != 0 &&
        !create_put_dns(network, m->out->kept)) {
        json_decref(network);
        network = NULL;
    }
    return network != NULL ? create_put(m, "network", network, err) : create_no_memory(err);
}

/* Entries of /etc/hosts. A container in another's network shares the other's file; Docker
 * refuses this, too. */
static int making_finish_hosts(struct making *m, struct err *err)
{
    json_t *hosts = json_object_get(m->out->kept, "extraHosts");

    if (hosts == NULL)
        return 0;
    if (m->out->joins != NULL)
        return err_set(err, -EINVAL,
                       "HostConfig.ExtraHosts: a container in the network of another has the "
                       "other's /etc/hosts");
    return create_put(m, "extraHosts", json_incref(hosts), err);
}

static int making_finish_restart(struct making *m, struct err *err)
{
    json_t *restart;

    if (m->restart == NULL || strcmp(m->restart, "no") == 0)
        return 0;
    if (m->auto_remove)
        return err_set(err, -EINVAL,
                       "HostConfig.RestartPolicy: can't create 'AutoRemove' container with restart "
                       "policy");
    restart = json_pack("{s:s}", "policy", m->restart);
    if (restart != NULL && m->retries > 0 &&
        !docker_put(restart, "maxRetries", json_integer(m->retries))) {
        json_decref(restart);
        restart = NULL;
    }
    return restart != NULL ? create_put(m, "restart", restart, err) : create_no_memory(err);
}

static int making_finish_words(struct making *m, struct err *err)
{
    const struct {
        const char *key, *value;
    } rows[] = {{"hostname", m->hostname},
                {"domainname", m->domainname},
                {"user", m->user},
                {"cwd", m->working_dir},
                {"stopSignal", m->stop_signal}};
    int r = 0;

    for (size_t i = 0; r == 0 && i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].value != NULL)
            r = create_put(m, rows[i].key, json_string(rows[i].value), err);
    /* -1 waits for ever in Docker, and for a year here. */
    if (r == 0 && m->has_stop_timeout)
        r = create_put(
            m, "stopTimeoutMs",
            json_integer(m->stop_timeout >= 0 ? m->stop_timeout * 1000 : SPEC_TIME_MAX_MS), err);
    return r;
}

static int making_finish_flags(struct making *m, struct err *err)
{
    json_t *kept = m->out->kept;

    if (json_object_update_new(
            m->out->spec, json_pack("{s:b, s:b, s:b, s:b, s:b, s:b}", "tty", (int)m->tty, "stdin",
                                    (int)m->stdin, "readOnly", (int)m->read_only, "autoRemove",
                                    (int)m->auto_remove, "init", (int)m->init, "console", 1)) < 0 ||
        json_object_update_new(kept, json_pack("{s:b, s:b, s:b, s:b, s:b}", "stdinOnce",
                                               (int)m->stdin_once, "attachStdin", (int)m->attach_in,
                                               "attachStdout", (int)m->attach_out, "attachStderr",
                                               (int)m->attach_err, "publishAll",
                                               (int)m->publish_all)) < 0)
        return create_no_memory(err);
    if (m->network != NULL && !docker_put(kept, "networkMode", json_string(m->network)))
        return create_no_memory(err);
    if (m->out->exposed != NULL && !docker_put(kept, "exposed", json_incref(m->out->exposed)))
        return create_no_memory(err);
    return 0;
}

int create_body_decode(json_t *root, struct create_body *ret, struct err *err)
{
    struct making m = {.out = ret};
    const json_t *host;
    int r;

    *ret = (struct create_body){.spec = json_object(), .kept = json_object()};
    if (ret->spec == NULL || ret->kept == NULL)
        return create_no_memory(err);
    r = body_decode_whole(root, create_body_fields, misplaced, &m, err);
    host = json_object_get(root, "HostConfig"); /* respelt by body_decode_whole */
    if (r == 0)
        r = refuse_paths(host, "MaskedPaths", err);
    if (r == 0)
        r = refuse_paths(host, "ReadonlyPaths", err);
    if (r == 0)
        r = create_finish_limits(&m, err);
    if (r == 0)
        r = making_finish_network(&m, err);
    if (r == 0)
        r = making_finish_hosts(&m, err);
    if (r == 0)
        r = making_finish_restart(&m, err);
    if (r == 0)
        r = making_finish_words(&m, err);
    if (r == 0)
        r = making_finish_flags(&m, err);
    if (r == 0)
        r = create_finish_caps(&m, err);
    if (r == 0)
        r = create_finish_volumes(&m, err);
    if (r == 0)
        r = create_finish_tmpfs(&m, err);
    ret->publish_all = m.publish_all;
    return r;
}

void create_body_done(struct create_body *b)
{
    json_decref(b->spec);
    json_decref(b->kept);
    json_decref(b->unset);
    json_decref(b->entrypoint);
    json_decref(b->cmd);
}

void create_body_explain(struct err *err)
{
    static const struct {
        const char *spec, *docker;
    } rows[] = {{"volumes", "HostConfig.Binds"},
                {"volume", "HostConfig.Binds"},
                {"network.dns", "HostConfig.Dns"},
                {"network.dnsSearch", "HostConfig.DnsSearch"},
                {"network.dnsOptions", "HostConfig.DnsOptions"},
                {"network", "HostConfig.NetworkMode"},
                {"ports", "HostConfig.PortBindings"},
                {"limits.memory", "HostConfig.Memory"},
                {"limits.pids", "HostConfig.PidsLimit"},
                {"limits.cpus", "HostConfig.NanoCpus"},
                {"limits.shmSize", "HostConfig.ShmSize"},
                {"limits.memorySwap", "HostConfig.MemorySwap"},
                {"limits.memoryReservation", "HostConfig.MemoryReservation"},
                {"limits.cpuShares", "HostConfig.CpuShares"},
                {"limits.cpusetCpus", "HostConfig.CpusetCpus"},
                {"limits.cpusetMems", "HostConfig.CpusetMems"},
                {"cpuset.cpus", "HostConfig.CpusetCpus"},
                {"cpuset.mems", "HostConfig.CpusetMems"},
                {"sysctls", "HostConfig.Sysctls"},
                {"limits.disk", "HostConfig.StorageOpt"},
                {"limits.oomScoreAdj", "HostConfig.OomScoreAdj"},
                {"limits.ioDevices", "HostConfig.BlkioDevice"},
                {"limits.ioWeight", "HostConfig.BlkioWeight"},
                {"io weight", "HostConfig.BlkioWeight"},
                {"ulimits", "HostConfig.Ulimits"},
                {"restart", "HostConfig.RestartPolicy"},
                {"extraHosts", "HostConfig.ExtraHosts"},
                {"healthcheck", "Healthcheck"},
                {"tmpfs", "HostConfig.Tmpfs"},
                {"policy", "HostConfig.SecurityOpt"},
                {"user", "User"},
                {"groups", "HostConfig.GroupAdd"},
                {"cwd", "WorkingDir"},
                {"env", "Env"},
                {"labels", "Labels"},
                {"hostname", "Hostname"},
                {"domainname", "Domainname"},
                {"stopSignal", "StopSignal"},
                {"entrypoint", "Entrypoint"},
                {"command", "Cmd"}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t n = strlen(rows[i].spec);

        if (strncmp(err->msg, rows[i].spec, n) == 0 && strchr(":[.", err->msg[n]) != NULL &&
            err->msg[n] != '\0') {
            (void)err_wrap(err, err->code, "%s", rows[i].docker);
            return;
        }
    }
}
