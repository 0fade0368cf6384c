#pragma once

/* Created networks, and the right to have some. */

#include <stdbool.h>

#include "core/networks.h"

struct http_request;

/* True if the client policy lets the peer share networks. */
bool native_networks_allowed(struct http_request *req);
/* As native_networks_allowed; false: answered. */
bool native_may_have_networks(struct http_request *req);
