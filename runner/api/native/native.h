#pragma once

/* The native API, /v1: one file per resource, with its route table. docs/openapi.json describes
 * all of it; a test compares the two.
 *
 *     static struct native native;
 *     struct route_set sets[NATIVE_SETS_MAX + 1] = {0};
 *
 *     native_init(&native, &(struct native_config){.supervisor = sup, ...});
 *     native_route_sets(&native, sets);                  adds a {0} behind them
 *     http_server_new(loop, &config, sets, &server, err);
 *
 * Runs in the supervisor's loop thread. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "http/route.h"

struct audit_log;
struct client_policy;
struct err;
struct images;
struct docker;
struct rights;
struct route_set;
struct supervisor;

enum {
    NATIVE_SETS_MAX = 16,
    NATIVE_DOCTOR_MAX = 256 << 10 /* NATIVE_DOCTOR_MAX: bytes of a
                                   * doctor's report */
};

struct native_config {
    struct supervisor *supervisor;       /* borrowed */
    struct images *images;               /* borrowed; owned by the supervisor */
    const struct client_policy *clients; /* borrowed: rights of clients other than the owner */
    bool has_group;
    gid_t group;               /* if has_group: its members have the rights of `clients` */
    uid_t owner;               /* the user who started rind: has all rights, like root */
    const char *sidecar_image; /* borrowed; api/docker/sidecar.h: NULL = the default */
    const char *reaper_image;  /* borrowed; api/docker/reaper.h: NULL = the default */
    const char *state_dir;     /* borrowed; of the daemon, for display */
    bool cgroup_unified;       /* all controllers are in cgroup v2 */
    bool io_weighs;            /* weights of accesses to the disk have an effect */
    int doctor_fd;             /* read end of doctor_fork's report, or -1; taken by native_init */
};

struct native {
    struct native_config config;
    unsigned watchers;            /* readers of events, logs and directories: maxWatchers */
    struct doctor_reader *doctor; /* owned by system.c */
    struct rights *rights;        /* owned; api/rights-table.h; NULL: only the owner is served */
    struct audit_log *audit;      /* owned; set by native_open_audit; NULL = none is kept */
    struct docker *docker;        /* owned by docker_init and docker_done; NULL = no façade */
};

int native_init(struct native *n, const struct native_config *config);
/* Opens the audit record in dir_fd (borrowed), unless limits.auditBytes is 0. Blocks on disk. */
int native_open_audit(struct native *n, int dir_fd, struct err *err);
/* Looks up the right that each route of both APIs needs. -EINVAL: one has no row. */
int native_bind_rights(struct native *n, const struct route_set *sets, struct err *err);
/* Called after the server was closed, before the loop is. */
void native_done(struct native *n);

/* Fills one set per table, at most NATIVE_SETS_MAX, and {0} behind them. Returns their number. */
size_t native_route_sets(struct native *n, struct route_set *sets);

/* All tables, ended by NULL; also for the test against docs/openapi.json. */
extern const struct route *const native_tables[];

/* The resources' tables; each ends with {0}. */
extern const struct route native_sandbox_routes[];  /* sandboxes.c, sandbox-verbs.c */
extern const struct route native_system_routes[];   /* system.c: version, health, doctor, openapi */
extern const struct route native_volume_routes[];   /* volumes.c */
extern const struct route native_network_routes[];  /* networks.c */
extern const struct route native_file_routes[];     /* files.c and file-*.c */
extern const struct route native_event_routes[];    /* events.c */
extern const struct route native_audit_routes[];    /* audit.c */
extern const struct route native_exec_routes[];     /* exec.c */
extern const struct route native_process_routes[];  /* process.c */
extern const struct route native_exposure_routes[]; /* exposures.c */
extern const struct route native_egress_routes[];   /* egress.c */
extern const struct route native_image_routes[];    /* images.c, image-*.c */
extern const struct route native_port_routes[];     /* ports.c */
extern const struct route native_port_http_routes[]; /* port-http.c */

/* Returns docs/openapi.json, which is embedded in the binary. */
const char *native_openapi(size_t *ret_len);
