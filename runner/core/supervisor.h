#pragma once

/* What all sandboxes share. */

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct err;
struct events;
struct launcher_client;
struct supervisor;

/* Limits: each has a name in the configuration, a default, and -EAGAIN ("limit NAME: …") when it is
 * hit. */
struct supervisor_limits {
    unsigned sandboxes;    /* maxSandboxes, 4096 */
    unsigned processes;    /* maxProcesses a sandbox, 256 */
    unsigned execs;        /* maxExecs a sandbox, 512 */
    unsigned connections;  /* maxConnections, 1024 */
    unsigned watchers;     /* maxWatchers, 256 */
    uint64_t output_bytes; /* maxOutputBytes of a buffered exec, each stream, 1 MiB */
    uint64_t body_bytes;   /* maxBodyBytes of a JSON body, 1 MiB */
    uint64_t log_bytes;    /* logBytes kept a stream, 1 MiB */
};

uv_loop_t *supervisor_loop(struct supervisor *s);
struct events *supervisor_events(struct supervisor *s);
struct launcher_client *supervisor_launcher(struct supervisor *s);
const struct supervisor_limits *supervisor_limits(const struct supervisor *s);
/* O_DIRECTORY fd of the supervisor's own tree. Borrowed. */
int supervisor_dir(const struct supervisor *s);
/* Sealed memfd of sandbox-shim, to be executed in a sandbox. Borrowed. */
int supervisor_shim(const struct supervisor *s);
