#pragma once

/* Encode an image for Docker's clients. NULL on OOM. */

#include <jansson.h>

struct image;

json_t *docker_image(const struct image *image);
json_t *docker_image_line(const struct image *image);
json_t *docker_image_history(const struct image *image);
