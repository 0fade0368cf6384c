#pragma once

/* Handlers of the routes below /containers (containers.c has the table), and what a container looks
 * like. */

#include <jansson.h>
#include <stdbool.h>

#include "api/route.h"

struct sandbox;

http_handler_fn docker_post_create;
http_handler_fn docker_post_start, docker_post_stop, docker_post_restart, docker_post_kill,
    docker_post_pause, docker_post_unpause, docker_post_rename, docker_post_resize,
    docker_post_wait, docker_post_update, docker_get_stats, docker_get_top;
http_handler_fn docker_get_logs, docker_post_attach;
http_handler_fn docker_get_archive, docker_head_archive, docker_put_archive, docker_get_export,
    docker_get_changes;

/* As inspect shows it, and as a line of a list; NULL on OOM. */
json_t *docker_container(const struct sandbox *s);
json_t *docker_container_line(const struct sandbox *s);
/* The image as it was named when the container was made. */
const char *docker_image_name(const struct sandbox *s, json_t *kept);
