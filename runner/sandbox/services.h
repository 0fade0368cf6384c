#pragma once

/* What the sandboxes of a supervisor share. */

#include <stdbool.h>
#include <uv.h>

#include "sandbox/limits.h"

struct events;
struct gateway;
struct images;
struct policy;
struct supervisor;

uv_loop_t *supervisor_loop(struct supervisor *s);
struct events *supervisor_events(struct supervisor *s);
struct gateway *supervisor_gateway(struct supervisor *s);
struct images *supervisor_images(struct supervisor *s);
const struct supervisor_limits *supervisor_limits(const struct supervisor *s);
/* The policy that is asked for by this name; borrowed. NULL: there is none. */
const struct policy *supervisor_policy(const struct supervisor *s, const char *name);
/* Sealed memfd of sandbox-shim, to be executed in a sandbox. Borrowed. */
int supervisor_shim(const struct supervisor *s);
/* The two ends of a pipe of the supervisor's, or -1, through which output goes from its socket to a
 * client without a copy. It is empty between two calls of the loop: its user leaves it so, if need
 * be with another pipe in its place. Borrowed. */
int *supervisor_stage(struct supervisor *s);

/* The supervisor's own tree by name, as this process sees it: "" once that is its root. */
const char *supervisor_tree(const struct supervisor *s);
