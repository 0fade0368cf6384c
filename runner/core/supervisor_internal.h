#pragma once

#include "core/policies.h"
#include "core/supervisor.h"
#include "gateway/preview.h"

struct closed_watch;
struct leftover;
struct gateway;
struct images;
struct log_watch;
struct networks;
struct over_watch;
struct sandbox;
struct store;
struct volumes;

enum { SANDBOX_BUCKETS = 1024 }; /* of each index; a power of two */

struct supervisor {
    uv_loop_t *loop; /* borrowed */
    struct launcher_client *launcher;
    struct events *events;
    struct store *store;
    struct log_watch *log_watch;
    struct over_watch *over;     /* owned; NULL until a sandbox has a network */
    struct closed_watch *closed; /* the same */
    struct gateway *gateway;
    struct images *images;
    struct volumes *volumes;       /* owned */
    struct networks *networks;     /* owned */
    struct egress_service *egress; /* owned; NULL until a sandbox needs it */
    struct preview_front front;    /* of the URLs of exposed ports */
    struct ready_policy *policies;
    struct supervisor_limits limits;
    struct sandbox *sandboxes, **sandboxes_end; /* in the order of their making */
    struct sandbox *by_id[SANDBOX_BUCKETS], *by_name[SANDBOX_BUCKETS];
    struct sandbox *sharing;    /* few, or none: what ends is looked for in it */
    struct leftover *leftovers; /* owned */
    unsigned count;
    unsigned spare_sockets; /* that are kept ready, of all sandboxes (net-socket.c) */
    unsigned udp_flows;     /* of all published ports (publish-udp.c), */
    size_t udp_held;        /* the bytes that they hold, */
    bool udp_full;          /* and that there were too many, which is logged once */
    int dir_fd, shim_fd;    /* owned */
    int stage[2];           /* owned; see supervisor_stage */
    const char *tree;       /* borrowed */
    unsigned adopting;      /* answers of LAUNCH_ADOPT that are awaited at the start */
    bool stopping;
    bool ending;     /* supervisor_end_sandboxes has been called: nothing is started again */
    unsigned to_end; /* sandboxes that it waits for */
    void (*on_ended)(void *data);
    void *ended_data;
    void (*on_ready)(void *data); /* when every sandbox has been taken up */
    void (*on_gone)(void *data);  /* the launcher is gone */
    void *data;
};

/* adopt.c: takes up what earlier supervisors have left, then calls on_ready. */
int supervisor_adopt(struct supervisor *sup, struct err *err);
/* One of the answers that `adopting` counts: the last one calls on_ready. */
void supervisor_taken_up(struct supervisor *sup);

/* volumes.c */
int volumes_new(struct supervisor *sup, struct err *err);
/* Takes up those that the launcher has; on_ready waits for that. */
int volumes_load(struct supervisor *sup, struct err *err);
/* Anonymous ones whose sandbox is gone. */
void volumes_remove_orphans(struct supervisor *sup);
void volumes_free(struct volumes *v);
/* Everybody who waits for one to be made or filled is told that the daemon stops. */
void volumes_end_waits(struct volumes *v);
