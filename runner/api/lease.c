/*
 * Requests that are being answered with a right to a sandbox. When its shares change, those whose
 * client has lost the right are broken, streams included: their handlers see a client that is gone.
 * Runs in the supervisor's loop; called by the lookups of both APIs and by the route that changes
 * shares.
 */
#include "api/lease.h"

#include <stdio.h>
#include <string.h>

#include "api/common.h"
#include "http/server.h"
#include "sandbox/sandbox.h"

void lease_take(struct http_request *req, const struct sandbox *s, enum right need)
{
    (void)snprintf(req->lease, sizeof(req->lease), "%s", sandbox_id(s));
    req->lease_right = need;
}

static void lease_check(struct http_request *req, void *data)
{
    const struct sandbox *s = data;

    if (strcmp(req->lease, sandbox_id(s)) != 0)
        return;
    if (api_check_sandbox(req, s, (enum right)req->lease_right, NULL) < 0)
        http_break(req);
}

void leases_check(struct http_request *req, struct sandbox *s)
{
    http_each_request(req, lease_check, s);
}
