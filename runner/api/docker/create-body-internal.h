#pragma once

/* Shared by the façade's create-*.c. */

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/docker/body.h"
#include "api/docker/create-body.h"
#include "spec/spec.h"

struct err;

/* Resources, as a body of create or of update has them; 0 and NULL = not asked. */
struct create_asked {
    int64_t memory, swap, reservation, swappiness, kernel_memory, kernel_tcp;
    int64_t nano_cpus, cpu_quota, cpu_period, shares, pids, shm, oom_score, blkio_weight;
    const char *cpus, *mems;          /* borrowed */
    json_t *blkio_devices;            /* borrowed */
    json_t *blkio_rates[IO_KIND_MAX]; /* borrowed: BlkioDeviceReadBps and its like, or NULL */
};

/* Filled by the rows' functions, and completed by create_finish_*. */
struct making {
    struct create_body *out;
    const char *hostname, *domainname, *user, *working_dir, *stop_signal, *network, *pid_mode;
    const char *restart, *ipc, *cgroupns;
    json_t *volumes, *port_bindings;
    struct create_asked asked;
    const char *disk; /* borrowed: StorageOpt's size, or NULL */
    int64_t stop_timeout, retries;
    bool tty, stdin, stdin_once, attach_in, attach_out, attach_err, network_disabled, read_only,
        auto_remove, init, publish_all, has_stop_timeout;
};

#define NOT_HERE(key)                                                                              \
    {                                                                                              \
        .name = (key), .code = -EOPNOTSUPP, .why = "is not supported"                              \
    }

int create_no_memory(struct err *err);
/* Sets a key of the native spec. Takes value; -ENOMEM. */
int create_put(struct making *m, const char *key, json_t *value, struct err *err);
/* Appends to an array of the native spec. Takes value; -ENOMEM. */
int create_push(struct making *m, const char *key, json_t *value, struct err *err);
/* -EINVAL if value is not an array of strings. */
int create_check_strings(json_t *value, const char *path, struct err *err);

/* create-caps.c, create-mounts.c: called after the whole body was read. */
int create_finish_caps(struct making *m, struct err *err);
int create_finish_volumes(struct making *m, struct err *err);
/* True for two spellings of one absolute path. */
bool create_same_path(const char *a, const char *b);

/* create-resources.c */
int create_finish_limits(struct making *m, struct err *err);

/* create-tmpfs.c: TmpfsOptions of a mount; 0 and NULL are the defaults. */
struct create_tmpfs {
    int64_t bytes, mode;
    json_t *options; /* borrowed: an array of words and of pairs, or NULL */
};
int create_add_tmpfs(struct making *m, const char *target, bool read_only,
                     const struct create_tmpfs *asked, const char *path, struct err *err);
/* Gives each tmpfs without a size one that follows from the memory limit. */
int create_finish_tmpfs(struct making *m, struct err *err);

/* Functions of table rows, in create-mounts.c, create-tmpfs.c, create-ports.c,
 * create-health.c and create-caps.c. */
body_fn t_cap_add, t_cap_drop, t_security, t_devices, t_sysctls;
body_fn t_binds, t_volumes, t_volumes_from, t_mounts, t_tmpfs;
body_fn t_bindings, t_exposed;
body_fn t_health;
