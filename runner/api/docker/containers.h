#pragma once

/* Handlers of the routes below /containers (the table is in containers.c), and a container's
 * encoders. */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "http/route.h"

struct sandbox;
struct spec;

http_handler_fn docker_post_create;
http_handler_fn docker_post_start, docker_post_stop, docker_post_restart, docker_post_kill,
    docker_post_pause, docker_post_unpause, docker_post_rename, docker_post_resize,
    docker_post_wait, docker_post_update, docker_get_stats, docker_get_top;
http_handler_fn docker_get_logs, docker_post_attach, docker_get_attach_ws;
http_handler_fn docker_get_archive, docker_head_archive, docker_put_archive, docker_get_export,
    docker_get_changes;

/* Encode a container for inspect, and as an entry of a list; NULL on OOM. */
json_t *docker_container(const struct sandbox *s);
json_t *docker_container_line(const struct sandbox *s);
/* Returns how many of argv are the entry point's; 0: none is known. */
size_t docker_entry_count(const struct spec *spec, json_t *kept);
/* Returns "none", "starting", "healthy" or "unhealthy". */
const char *docker_health(const struct sandbox *s);
/* Returns the image's name as given at creation. */
const char *docker_image_name(const struct sandbox *s, json_t *kept);
