#pragma once

/*
 * The native API, /v1: one file a resource, each with its table of routes. docs/openapi.json
 * describes all of it, and a test compares the two both ways.
 *
 *     static struct native native;
 *     struct route_set sets[NATIVE_SETS_MAX + 1] = {0};
 *
 *     native_init(&native, &(struct native_config){.supervisor = sup, ...});
 *     native_route_sets(&native, sets);                  adds a {0} behind them
 *     http_server_new(loop, &config, sets, &server, err);
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "api/route.h"

struct client_policy;
struct images;
struct docker;
struct route_set;
struct supervisor;

enum { NATIVE_SETS_MAX = 16, NATIVE_DOCTOR_MAX = 256 << 10 /* bytes of a doctor's report */ };

struct native_config {
    struct supervisor *supervisor;       /* borrowed */
    struct images *images;               /* borrowed; the supervisor's */
    const struct client_policy *clients; /* borrowed: what others than the owner may do */
    bool has_group;
    gid_t group;               /* has_group: whose members may do what `clients` allows */
    uid_t owner;               /* who started rind: may do everything, as root may */
    const char *sidecar_image; /* borrowed; api/docker/sidecar.h: NULL = its own */
    int doctor_fd; /* where doctor_fork's report comes from, or -1; taken by native_init */
};

struct native {
    struct native_config config;
    unsigned watchers;            /* readers of events, logs and directories: maxWatchers */
    struct doctor_reader *doctor; /* doctor.c's own */
    struct docker *docker;        /* owned by docker_init and docker_done; NULL = no façade */
};

int native_init(struct native *n, const struct native_config *config);
/* Before the loop is closed, after the server was. */
void native_done(struct native *n);

/* One set for each table; at most NATIVE_SETS_MAX, and {0} behind them. Returns how many. */
size_t native_route_sets(struct native *n, struct route_set *sets);

/* All tables, ended by NULL: for native_route_sets and the test against docs/openapi.json. */
extern const struct route *const native_tables[];

/* The tables of the resources; each ends with {0}. */
extern const struct route native_sandbox_routes[];  /* sandboxes.c, sandbox-verbs.c */
extern const struct route native_system_routes[];   /* system.c: version, health, doctor, openapi */
extern const struct route native_volume_routes[];   /* volumes.c */
extern const struct route native_network_routes[];  /* networks.c */
extern const struct route native_file_routes[];     /* files.c and file-*.c */
extern const struct route native_event_routes[];    /* events.c */
extern const struct route native_exec_routes[];     /* exec.c */
extern const struct route native_process_routes[];  /* process.c */
extern const struct route native_exposure_routes[]; /* exposures.c */
extern const struct route native_egress_routes[];   /* egress.c */
extern const struct route native_image_routes[];    /* images.c, image-*.c */
extern const struct route native_port_routes[];     /* ports.c */
extern const struct route native_port_http_routes[]; /* port-http.c */

/* docs/openapi.json, carried in the binary. */
const char *native_openapi(size_t *ret_len);
