#pragma once

/* Created networks, and the right to have some. */

#include <stdbool.h>

#include "ports/networks.h"

struct http_request;

/* True if the client policy lets the peer share networks. */
bool api_networks_allowed(struct http_request *req);
/* As api_networks_allowed; false: answered. */
bool api_may_have_networks(struct http_request *req);
