#pragma once

/* Named volumes as JSON, and the right to use them. */

#include <jansson.h>
#include <stdbool.h>

struct http_request;
struct volume_entry;

json_t *volume_encode(const struct volume_entry *v);
/* True if the client policy lets the peer use volumes. */
bool api_volumes_allowed(struct http_request *req);
/* As api_volumes_allowed; false: answered. */
bool api_may_have_volumes(struct http_request *req);
