#pragma once

/* Requests that are being answered with a right to a sandbox. */

#include "sandbox/rights.h"

struct http_request;
struct sandbox;

/* Notes that req is answered because its client has this right to s. */
void lease_take(struct http_request *req, const struct sandbox *s, enum right need);
/* Breaks the requests of the server of req whose clients have lost the right to s. Connections that
 * were given away (to ports) are no requests any more, and stay. */
void leases_check(struct http_request *req, struct sandbox *s);
