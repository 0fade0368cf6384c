#pragma once

/* Objects that all sandboxes of a daemon share. supervisor.c creates them. */

#include <uv.h>

#include "gateway/preview.h"
#include "sandbox/limits.h"
#include "sandbox/policies.h"
#include "sandbox/services.h"

struct client_policy;
struct disk_watch;
struct net_failsafe;
struct err;
struct orphan;
struct gateway;
struct images;
struct log_watch;
struct networks;
struct egress_service;
struct launcher_client;
struct conn_limit;
struct publish_screen;
struct publish_taker;
struct sandbox;
struct sandbox_part;
struct store;
struct volumes;

enum { SANDBOX_BUCKETS = 1024 }; /* size of each index; a power of two */

struct supervisor {
    uv_loop_t *loop; /* borrowed */
    uid_t owner;     /* of the daemon */
    struct launcher_client *launcher;
    struct events *events;
    struct store *store;
    struct log_watch *log_watch;
    struct conn_limit *over;       /* owned; NULL until a sandbox has a network */
    struct disk_watch *disk_watch; /* owned */
    /* Size limit of the named volume; 0: none. NULL: unknown. */
    uint64_t (*volume_bytes_of)(struct supervisor *sup, const char *name);
    struct net_failsafe *closed; /* owned; NULL until a sandbox has a network */
    struct gateway *gateway;
    struct images *images;
    struct volumes *volumes;             /* owned */
    struct networks *networks;           /* owned */
    struct egress_service *egress;       /* owned; NULL until a sandbox needs it */
    struct preview_front front;          /* where the gateway listens, for preview URLs */
    const struct publish_screen *screen; /* inspects clients of ports; borrowed, or NULL */
    const struct publish_taker *taker;   /* serves clients of ports; borrowed, or NULL */
    const struct sandbox_part *parts;    /* borrowed; NULL = none */
    struct ready_policy *policies;
    const struct client_policy *clients; /* borrowed; NULL: the daemon has no members */
    struct supervisor_limits limits;
    struct sandbox *sandboxes, **sandboxes_end; /* in the order of creation */
    struct sandbox *by_id[SANDBOX_BUCKETS], *by_name[SANDBOX_BUCKETS];
    struct sandbox *sharing; /* sandboxes in another's network: few, so a list suffices */
    struct orphan *orphans;  /* owned */
    unsigned count;
    unsigned spare_sockets; /* ready sockets of all sandboxes (net-socket.c) */
    unsigned udp_flows;     /* flows of all published ports (publish-udp.c) */
    size_t udp_held;        /* bytes queued in these flows */
    bool udp_full;          /* the limit was reached, which is logged once */
    int dir_fd, shim_fd;    /* owned */
    int stage[2];           /* owned; see supervisor_stage */
    const char *tree;       /* borrowed */
    unsigned reattaching;   /* pending reattaches, and one for LAUNCH_LIST */
    bool stopping;
    bool ending;     /* supervisor_end_sandboxes was called: no more starts */
    unsigned to_end; /* sandboxes that it still waits for */
    void (*on_ended)(void *data);
    void *ended_data;
    /* Called when every reattach is complete; supervisor.c then calls on_ready. */
    void (*on_taken_up)(struct supervisor *sup);
    void (*on_ready)(void *data);
    void (*on_gone)(void *data); /* the launcher has exited */
    void *data;
};

/* reattach.c: reattaches to the sandboxes of earlier supervisors, then calls on_taken_up. */
int supervisor_reattach(struct supervisor *sup, struct err *err);
/* Completes one of the steps that `reattaching` counts; the last one calls on_taken_up. */
void supervisor_taken_up(struct supervisor *sup);
