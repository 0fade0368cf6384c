#pragma once

/* What the files of the façade share of named volumes. */

#include <jansson.h>

#include "core/volumes.h"

struct http_request;

/* For whom the request asks. */
struct volume_creator docker_volume_creator(struct http_request *req);
/* As it is shown; NULL on OOM. */
json_t *docker_volume(const struct volume_entry *v);
