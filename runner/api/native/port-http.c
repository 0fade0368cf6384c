/* HTTP to a sandbox's port by the API: the proxy takes over the connection for this request. So
 * bodies are streamed, and upgrades are possible. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/common.h"
#include "api/native/port-number.h"
#include "base/buf.h"
#include "http/reply.h"
#include "http/server.h"
#include "ports/gateway.h"
#include "sandbox/sandbox.h"
#include "sandbox/services.h"

enum { EARLY_MAX = 256 << 10 /* bytes: a head and what was read ahead */ };

static void port_http(struct http_request *req)
{
    struct sandbox *s = api_sandbox(req);
    struct gateway *g = supervisor_gateway(api_supervisor(req));
    auto_buf struct buf early = BUF_INIT(EARLY_MAX);
    const char *path = http_param(req, "path");
    struct err err = ERR_NONE;
    uint16_t port;
    int fd, r;

    if (s == NULL)
        return;
    r = port_number(http_param(req, "port"), 1, &port, &err);
    if (r == 0)
        r = gateway_room(g, api_is_owner(req), &err);
    if (r < 0) {
        reply_error(req, &err);
        return;
    }
    fd = http_detach(req, *path != '\0' ? path : "/", &early);
    if (fd < 0) {
        reply_errorf(req, fd, "the request is too long");
        return;
    }
    /* Out of memory: the connection is closed. */
    if (gateway_take(g, s, port, fd, early.data, early.len, &err) < 0)
        (void)close(fd);
}

#define PORT "/v1/sandboxes/{id}/http/{port}/{path*}"
/* clang-format off */
const struct route native_port_http_routes[] = {
    {"GET",     PORT, port_http, ROUTE_STREAM, 0},
    {"HEAD",    PORT, port_http, ROUTE_STREAM, 0},
    {"POST",    PORT, port_http, ROUTE_STREAM, 0},
    {"PUT",     PORT, port_http, ROUTE_STREAM, 0},
    {"PATCH",   PORT, port_http, ROUTE_STREAM, 0},
    {"DELETE",  PORT, port_http, ROUTE_STREAM, 0},
    {"OPTIONS", PORT, port_http, ROUTE_STREAM, 0},
    {0},
};
/* clang-format on */
