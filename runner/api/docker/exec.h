#pragma once

/* Docker's execs: created first, started later, and inspectable after their end. Runs in the
 * supervisor's loop thread. */

#include <jansson.h>

#include "http/route.h"

struct docker;
struct native;
struct sandbox;

struct docker_execs;

/* native is borrowed. NULL on OOM. */
struct docker_execs *docker_execs_new(struct native *native);
/* Ends running execs and frees all. NULL is allowed. */
void docker_execs_free(struct docker_execs *x);
/* Drops the idle records of a removed container. */
void docker_execs_drop(struct docker_execs *x, const char *sandbox_id);
/* Adds ExecIDs to the description of a container. */
void docker_exec_list(struct docker *d, const struct sandbox *s, json_t *container);

http_handler_fn docker_post_exec;
extern const struct route docker_exec_routes[];
