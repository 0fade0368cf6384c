#pragma once

/* The composition root of a daemon: makes what all sandboxes share, gives their code the table of
 * parts, and takes up what an earlier supervisor has left. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "gateway/preview.h"
#include "sandbox/limits.h"
#include "sandbox/services.h"

struct err;
struct events;
struct gateway;
struct images;
struct supervisor;

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
/* Answers requests that wait for a volume, which a disk may never give: the daemon stops. */
void supervisor_end_waits(struct supervisor *s);
/* Lets go of everything; sandboxes go on. The loop has to run until its handles are closed, then
 * supervisor_free. */
void supervisor_close(struct supervisor *s);
void supervisor_free(struct supervisor *s);
