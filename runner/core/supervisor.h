#pragma once

/* What all sandboxes share. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "core/limits.h"
#include "gateway/preview.h"

struct err;
struct events;
struct gateway;
struct images;
struct supervisor;

uv_loop_t *supervisor_loop(struct supervisor *s);
struct events *supervisor_events(struct supervisor *s);
struct gateway *supervisor_gateway(struct supervisor *s);
struct images *supervisor_images(struct supervisor *s);
const struct supervisor_limits *supervisor_limits(const struct supervisor *s);
struct policy;
/* The policy that is asked for by this name; borrowed. NULL: there is none. */
const struct policy *supervisor_policy(const struct supervisor *s, const char *name);
/* Sealed memfd of sandbox-shim, to be executed in a sandbox. Borrowed. */
int supervisor_shim(const struct supervisor *s);
/* The two ends of a pipe, or -1, through which what a process says is moved, out of its reach:
 * empty between two calls of the loop, and whoever uses it leaves it so, if need be with another
 * pipe in its place. Borrowed. */
int *supervisor_stage(struct supervisor *s);

/* The supervisor's own tree by name, as this process sees it: "" once that is its root. */
const char *supervisor_tree(const struct supervisor *s);

struct proxy_config;
struct ready_policy;
struct supervisor_config {
    uv_loop_t *loop;               /* borrowed */
    int launcher;                  /* SEQPACKET to the launcher; taken */
    int dir_fd, shim_fd;           /* taken */
    const char *tree;              /* borrowed; see supervisor_tree */
    struct ready_policy *policies; /* taken */
    struct supervisor_limits limits;
    const struct proxy_config *proxy; /* of the gateway; borrowed; NULL = the defaults */
    struct preview_front front;       /* where the gateway listens */
    void (*on_ready)(void *data);     /* every sandbox of earlier supervisors has been taken up */
    void (*on_gone)(void *data);      /* the launcher is gone: nothing can be done any more */
    void *data;
};
/* Makes it and begins to take up what is there. */
int supervisor_new(const struct supervisor_config *config, struct supervisor **ret,
                   struct err *err);
/*
 * Stops every sandbox, each with its own signal and time, for a daemon that ends with them. None of
 * them counts as stopped by a client: restart policies start them again with the next supervisor.
 * True: on_ended follows from the loop. False: nothing runs, or not everything is taken up yet.
 */
bool supervisor_end_sandboxes(struct supervisor *s, void (*on_ended)(void *data), void *data);
/* Whoever waits for a volume, which a disk may never give, is told now that the daemon stops. */
void supervisor_end_waits(struct supervisor *s);
/* Lets go of everything; sandboxes go on. The loop has to run until its handles are closed, then
 * supervisor_free. */
void supervisor_close(struct supervisor *s);
void supervisor_free(struct supervisor *s);
