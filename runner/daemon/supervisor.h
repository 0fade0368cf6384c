#pragma once

/*
 * The composition root of a daemon. Creates the objects that all sandboxes share, gives their code
 * the table of parts, and reattaches to the sandboxes of an earlier supervisor.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "gateway/preview.h"
#include "sandbox/limits.h"
#include "sandbox/services.h"

struct client_policy;
struct err;
struct events;
struct gateway;
struct images;
struct supervisor;

struct proxy_config;
struct ready_policy;
struct supervisor_config {
    uv_loop_t *loop;                     /* borrowed */
    int launcher;                        /* SEQPACKET socket to the launcher; taken */
    int dir_fd, shim_fd;                 /* taken */
    const char *tree;                    /* borrowed; see supervisor_tree */
    struct ready_policy *policies;       /* taken */
    const struct client_policy *clients; /* borrowed; bounds what members have; NULL = none */
    struct supervisor_limits limits;
    uid_t owner;                      /* of the daemon: the maker of what it makes is not limited */
    const struct proxy_config *proxy; /* the gateway's; borrowed; NULL = the defaults */
    struct preview_front front;       /* where the gateway listens */
    void (*on_ready)(void *data);     /* every reattach is complete */
    void (*on_gone)(void *data);      /* the launcher has exited: no request can succeed */
    void *data;
};
/* Creates a supervisor and begins to reattach. on_ready follows from the loop. */
int supervisor_new(const struct supervisor_config *config, struct supervisor **ret,
                   struct err *err);
/*
 * Stops every sandbox, with its own stop signal and timeout, for a daemon that ends with its
 * sandboxes. No stop counts as a client's, so restart policies apply under the next supervisor.
 * True: on_ended is called from the loop. False: no sandbox runs, or a reattach is still pending.
 */
bool supervisor_end_sandboxes(struct supervisor *s, void (*on_ended)(void *data), void *data);
/* Fails requests that wait for a volume, because the daemon stops and a disk may never answer. */
void supervisor_end_waits(struct supervisor *s);
/*
 * Closes every handle; sandboxes run on. The caller runs the loop until the handles are closed, and
 * then calls supervisor_free.
 */
void supervisor_close(struct supervisor *s);
void supervisor_free(struct supervisor *s);
