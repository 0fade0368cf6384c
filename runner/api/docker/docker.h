#pragma once

/* The façade: the part of Docker's Engine API that its clients use, translated to core/.
 * docs/docker-api.md describes the supported calls.
 *
 * Its routes follow the native ones on the same socket, with Docker's version prefix (/v1.41/…)
 * or without. The client policy decides about the translated request, a spec, as for the native
 * API.
 *
 * Runs in the supervisor's loop thread. */

#include <stddef.h>

struct docker;
struct native;
struct route;
struct route_set;

enum { DOCKER_SETS_MAX = 12 };

/* Makes the façade's state in native (borrowed), which becomes the handlers' context. -ENOMEM. */
int docker_init(struct native *native);
/* Resumes the sidecars. Called when all sandboxes of earlier supervisors are reattached. */
void docker_ready(struct native *native);
/* Frees the state; called before native_done. */
void docker_done(struct native *native);

/* Writes one set per table, and {0} behind them. Returns their number. */
size_t docker_route_sets(struct native *native, struct route_set *sets);

/* All tables, ended by NULL. */
extern const struct route *const docker_tables[];
