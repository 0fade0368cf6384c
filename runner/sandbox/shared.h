#pragma once

/* What the sandboxes of a daemon share; supervisor.c makes it. */

#include <uv.h>

#include "gateway/preview.h"
#include "sandbox/limits.h"
#include "sandbox/policies.h"
#include "sandbox/services.h"

struct net_failsafe;
struct err;
struct leftover;
struct gateway;
struct images;
struct log_watch;
struct networks;
struct egress_service;
struct launcher_client;
struct conn_limit;
struct publish_screen;
struct sandbox;
struct sandbox_part;
struct store;
struct volumes;

enum { SANDBOX_BUCKETS = 1024 }; /* of each index; a power of two */

struct supervisor {
    uv_loop_t *loop; /* borrowed */
    struct launcher_client *launcher;
    struct events *events;
    struct store *store;
    struct log_watch *log_watch;
    struct conn_limit *over;     /* owned; NULL until a sandbox has a network */
    struct net_failsafe *closed; /* the same */
    struct gateway *gateway;
    struct images *images;
    struct volumes *volumes;             /* owned */
    struct networks *networks;           /* owned */
    struct egress_service *egress;       /* owned; NULL until a sandbox needs it */
    struct preview_front front;          /* of the URLs of exposed ports */
    const struct publish_screen *screen; /* of clients of published ports; borrowed, or NULL */
    const struct sandbox_part *parts;    /* borrowed; NULL = none */
    struct ready_policy *policies;
    struct supervisor_limits limits;
    struct sandbox *sandboxes, **sandboxes_end; /* in the order of their making */
    struct sandbox *by_id[SANDBOX_BUCKETS], *by_name[SANDBOX_BUCKETS];
    struct sandbox *sharing;  /* few, or none: what ends is looked for in it */
    struct leftover *orphans; /* owned */
    unsigned count;
    unsigned spare_sockets; /* that are kept ready, of all sandboxes (net-socket.c) */
    unsigned udp_flows;     /* of all published ports (publish-udp.c), */
    size_t udp_held;        /* the bytes that they hold, */
    bool udp_full;          /* and that there were too many, which is logged once */
    int dir_fd, shim_fd;    /* owned */
    int stage[2];           /* owned; see supervisor_stage */
    const char *tree;       /* borrowed */
    unsigned reattaching;   /* answers of LAUNCH_REATTACH that are awaited at the start */
    bool stopping;
    bool ending;     /* supervisor_end_sandboxes has been called: nothing is started again */
    unsigned to_end; /* sandboxes that it waits for */
    void (*on_ended)(void *data);
    void *ended_data;
    /* Every sandbox has been taken up: supervisor.c tells on_ready. */
    void (*on_taken_up)(struct supervisor *sup);
    void (*on_ready)(void *data);
    void (*on_gone)(void *data); /* the launcher is gone */
    void *data;
};

/* reattach.c: takes up what earlier supervisors have left, then calls on_taken_up. */
int supervisor_reattach(struct supervisor *sup, struct err *err);
/* One of the answers that `adopting` counts: the last one calls on_taken_up. */
void supervisor_taken_up(struct supervisor *sup);
