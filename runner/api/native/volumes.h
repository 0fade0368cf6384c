#pragma once

/* Named volumes as JSON. */

#include <jansson.h>

struct volume_entry;

json_t *volume_encode(const struct volume_entry *v);
