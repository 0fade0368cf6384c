#pragma once

/* Shared by request.c and request-resources.c. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "launch/request.h"

struct request_record {
    uint16_t tag, flags;
    uint32_t len;
    const unsigned char *data;
};

/* -EPROTO for a record of another size, -ERANGE for a number out of range. */
int record_get_number(const struct request_record *r, uint64_t min, uint64_t max, uint64_t *ret);
int record_get_limit(const struct request_record *r, uint64_t min, uint64_t max, int64_t *ret);
int record_get_string(const struct request_record *r, size_t max, const char **ret);
/* A number followed by one NUL-terminated string. */
int record_get_number_string(const struct request_record *r, uint64_t *ret_number,
                             const char **ret_text);
/* True for an absolute, plain path that a client may mount at. */
bool launch_target_ok(const char *p);

/* request-resources.c: one decoder per tag. */
typedef int record_fn(const struct request_record *r, struct launch_request *q);
record_fn dec_memory, dec_pids, dec_cpu, dec_shm, dec_disk;
record_fn dec_swap, dec_reservation, dec_shares, dec_cpuset_cpus, dec_cpuset_mems, dec_oom_score;
record_fn dec_sysctl, dec_io_weight, dec_io, dec_net_rate;
record_fn dec_tmpfs, dec_tmpfs_root;
