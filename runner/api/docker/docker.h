#pragma once

/*
 * The façade: the part of Docker's Engine API that its clients use, as a translation onto core/.
 * docs/docker-api.md says what is answered and how it is meant; there is no second engine here.
 *
 * Its routes stand behind the native ones on the same socket, with Docker's version prefix
 * (/v1.41/…) and without. Who may do what is decided by the same client policy, on what a request
 * comes to: a spec.
 */

#include <stddef.h>

struct docker;
struct native;
struct route;
struct route_set;

enum { DOCKER_SETS_MAX = 12 };

/* native: borrowed; becomes the handlers' context, and knows the façade from then on. -ENOMEM. */
int docker_init(struct native *native);
/* Every sandbox of earlier supervisors has been taken up: takes up the sidecars. */
void docker_ready(struct native *native);
/* Before native_done. */
void docker_done(struct native *native);

/* One set for each table, and {0} behind them. Returns how many. */
size_t docker_route_sets(struct native *native, struct route_set *sets);

/* All tables, ended by NULL. */
extern const struct route *const docker_tables[];
