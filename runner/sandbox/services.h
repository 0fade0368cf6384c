#pragma once

/* Accessors for objects that all sandboxes of a supervisor share. */

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
/* Returns the policy of this name, borrowed; NULL: there is none. */
const struct policy *supervisor_policy(const struct supervisor *s, const char *name);
/* Returns the sealed memfd of sandbox-shim, borrowed. The program is executed in sandboxes. */
int supervisor_shim(const struct supervisor *s);
/*
 * Returns the two ends of a pipe of the supervisor, or -1; borrowed. Output is spliced through it
 * from an exec's socket to a client. The pipe is empty between two callbacks of the loop: a user
 * that cannot empty it replaces it.
 */
int *supervisor_stage(struct supervisor *s);

/*
 * Returns the path of the supervisor's directory as this process sees it: "" once it is the root.
 */
const char *supervisor_tree(const struct supervisor *s);
