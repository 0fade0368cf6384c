#pragma once

/* Encode an image for Docker's clients. NULL on OOM. */

#include <jansson.h>
#include <stdbool.h>

struct image;

json_t *docker_image(const struct image *image);
/* Adds what versions before 1.45 said of the container of the build: compose 1 reads the volumes
 * of its configuration. That of the image is shown if it has no other. False on OOM. */
bool docker_image_add_container(json_t *root, const struct image *image);
json_t *docker_image_line(const struct image *image);
json_t *docker_image_history(const struct image *image);
