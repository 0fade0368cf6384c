#pragma once

/* Networks that somebody has made, and who may have some. */

#include <stdbool.h>

#include "core/networks.h"

struct http_request;

struct network_maker native_network_maker(struct http_request *req);
/* Whether the client policy lets the peer share networks. */
bool native_networks_allowed(struct http_request *req);
/* native_admit, and the same; else it has been
 * answered. */
bool native_may_have_networks(struct http_request *req);
