#pragma once

/* Named volumes as JSON, and who may have some. */

#include <jansson.h>
#include <stdbool.h>

struct http_request;
struct volume_entry;

json_t *volume_encode(const struct volume_entry *v);
/* Whether the client policy lets the peer use volumes at all. */
bool native_volumes_allowed(struct http_request *req);
/* native_admit, and the same; else it has been answered. */
bool native_may_have_volumes(struct http_request *req);
