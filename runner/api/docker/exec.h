#pragma once

/* Execs as Docker has them: made first, started later, and to be looked at after their end. */

#include <jansson.h>

#include "api/route.h"

struct docker;
struct native;
struct sandbox;

struct docker_execs;

/* NULL on OOM. native: borrowed. */
struct docker_execs *docker_execs_new(struct native *native);
/* Ends those that still run. NULL is fine. */
void docker_execs_free(struct docker_execs *x);
/* A container is gone, and its execs with it. */
void docker_execs_drop(struct docker_execs *x, const char *sandbox_id);
/* ExecIDs of a container that is shown. */
void docker_exec_list(struct docker *d, const struct sandbox *s, json_t *container);

http_handler_fn docker_post_exec;
extern const struct route docker_exec_routes[];
