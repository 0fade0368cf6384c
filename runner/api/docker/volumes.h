#pragma once

/* Named volumes, as shared by the façade's files. */

#include <jansson.h>

#include "volume/volumes.h"

struct http_request;

/* Encodes a volume; NULL on OOM. */
json_t *docker_volume(const struct volume_entry *v);
