#pragma once

/* Translates the body of POST /containers/create into a native spec. Pure. */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/docker/body.h"

struct err;

enum { CREATE_WARNINGS_MAX = 8 };

/* Times of a Healthcheck without a Test; 0 = the image's. */
struct create_health_times {
    int64_t interval_ms, timeout_ms, start_period_ms, start_interval_ms, retries;
};

struct create_body {
    json_t *spec;         /* owned: like POST /v1/sandboxes takes it, without the image's part */
    json_t *kept;         /* owned: shown by inspect, but not part of the spec */
    const char *image;    /* borrowed from the tree; NULL = none */
    json_t *exposed;      /* borrowed: ExposedPorts, or NULL */
    bool publish_all;     /* publish all exposed ports, including the image's */
    json_t *unset;        /* owned array: variables that must not be set; or NULL */
    json_t *entrypoint;   /* owned array, or NULL: not given */
    json_t *cmd;          /* owned array, or NULL */
    bool host_pid;        /* PidMode "host" */
    bool has_network;     /* NetworkMode is not the default */
    const char *joins;    /* borrowed: the container of NetworkMode "container:…"; NULL */
    const char *network;  /* borrowed: the network name of NetworkMode; NULL */
    json_t *links;        /* borrowed: HostConfig.Links, strings; or NULL */
    json_t *volumes_from; /* borrowed: HostConfig.VolumesFrom, strings; or NULL */
    size_t volumes_named; /* of the spec's volumes, those that Binds and Mounts name; the others
                           * are of Volumes */
    json_t *endpoints;    /* borrowed: NetworkingConfig.EndpointsConfig, checked; or NULL */
    const char *policy;   /* borrowed: SecurityOpt "rind-policy=…"; NULL */
    bool adds_net_admin;  /* CapAdd NET_ADMIN: selects another policy, except for a built-in
                           * sidecar */
    bool adds_sys_admin, has_fuse; /* CapAdd SYS_ADMIN, and the device /dev/fuse: the policy fuse */
    const char *wants_ptrace; /* the key that asks for a policy with ptrace; NULL = none does */
    struct create_health_times health; /* for the image's own check, if has_health_times */
    bool has_health_times;
    const char *warnings[CREATE_WARNINGS_MAX];
    unsigned warning_count;
};

/* Decodes root (borrowed, outlives *ret). -EPERM: would weaken the isolation, even for the
 * owner; -EOPNOTSUPP: not supported; -EINVAL. The caller frees *ret by create_body_done, also on
 * failure. */
int create_body_decode(json_t *root, struct create_body *ret, struct err *err);
/* All keys of a create body: Docker's container.Config, HostConfig, NetworkingConfig. */
extern const struct body_field create_body_fields[];
/* For the bodies of other calls: keys that only creation supports are refused by name. */
extern const struct body_elsewhere create_body_elsewhere[];
void create_body_done(struct create_body *b);
/* Checks one network's endpoint (may be NULL), of a creation or of a connect. ret: arrays of
 * strings, borrowed, or NULL. -EOPNOTSUPP: it has settings that cannot be had. */
struct create_endpoint {
    json_t *aliases, *links;
    const char *address; /* borrowed, or NULL: any */
};
int create_endpoint_check(const char *network, json_t *endpoint, struct create_endpoint *ret,
                          struct err *err);

/* The body of POST /containers/{id}/update. */
struct create_update {
    const char *restart; /* borrowed from the tree; NULL = not given */
    int64_t retries;
    json_t *limits; /* owned: what changes of the spec's limits; NULL = nothing */
    json_t *kept;   /* owned: what inspect shows of it beside the spec; NULL = nothing */
};
/* Decodes root (borrowed, outlives *ret). The caller frees limits and kept, also on failure. */
int create_update_decode(json_t *root, struct create_update *ret, struct err *err);
/* Checks CapAdd when the policy's capabilities are known. -EPERM for one that the policy lacks,
 * except NET_ADMIN, which create.c checks. */
int create_check_caps(const struct create_body *b, const char *policy, uint64_t had,
                      struct err *err);
/* Copies what a body's kept part has about name servers to a spec's network. False: out of memory.
 */
bool create_put_dns(json_t *network, const json_t *kept);
/* Rewrites a spec's error in Docker's terms: "volumes[0]…" becomes "HostConfig.Binds:
 * volumes[0]…". */
void create_body_explain(struct err *err);
