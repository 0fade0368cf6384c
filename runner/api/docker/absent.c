/* Routes of Docker that rind does not support. Each answers 501 with one sentence, never a false
 * success. */
#include <errno.h>
#include <string.h>

#include "api/docker/common.h"
#include "api/docker/docker-routes.h"
#include "http/reply.h"
#include "http/server.h"

#define ABSENT(fn, text)                                                                           \
    static void fn(struct http_request *req)                                                       \
    {                                                                                              \
        reply_errorf(req, -EOPNOTSUPP, text);                                                      \
    }

ABSENT(no_build, "images are not built over this API yet; build elsewhere and load the archive")
ABSENT(no_swarm, "this engine is no part of a swarm, and cannot become one")
ABSENT(no_plugins, "there are no plugins")
ABSENT(no_search, "there is no registry to be searched")
ABSENT(no_websocket, "containers are not attached to by WebSocket; POST .../attach is")
ABSENT(no_session, "there is no build session")
ABSENT(no_registry,
       "there are no registries to be asked; what is in the store is at /images/NAME/json")
ABSENT(no_checkpoints, "there are no checkpoints; a container's files are kept by commit")

/* No build cache is kept, so nothing is pruned. docker system prune calls this. */
static void prune_builds(struct http_request *req)
{
    reply_json(req, 200, json_pack("{s:[], s:i}", "CachesDeleted", "SpaceReclaimed", 0));
}

/* clang-format off */
const struct route docker_absent_routes[] = {
    {"POST",   "/build",                    no_build,     ROUTE_STREAM, 0},
    {"POST",   "/build/prune",              prune_builds, ROUTE_BODY, 0},
    {"POST",   "/build/cancel",             no_build,     ROUTE_BODY, 0},
    {"POST",   "/session",                  no_session,   ROUTE_BODY, 0},
    {"POST",   "/grpc",                     no_session,   ROUTE_BODY, 0},
    {"GET",    "/images/search",            no_search,    0, 0},
    {"GET",    "/containers/{id}/attach/ws", no_websocket, 0, 0},
    {"GET",    "/containers/{id}/checkpoints", no_checkpoints, 0, 0},
    {"POST",   "/containers/{id}/checkpoints", no_checkpoints, ROUTE_BODY, 0},
    {"DELETE", "/containers/{id}/checkpoints/{what}", no_checkpoints, 0, 0},
    {"GET",    "/distribution/{name...}/json", no_registry, 0, 0},
    {"PUT",    "/volumes/{name}",           no_swarm,     ROUTE_BODY, 0},
#define SWARM(of)                                                                                  \
    {"GET",    "/" of,                      no_swarm,     0, 0},                                   \
    {"POST",   "/" of "/create",            no_swarm,     ROUTE_BODY, 0},                          \
    {"GET",    "/" of "/{id}",              no_swarm,     0, 0},                                   \
    {"GET",    "/" of "/{id}/logs",         no_swarm,     0, 0},                                   \
    {"POST",   "/" of "/{id}/update",       no_swarm,     ROUTE_BODY, 0},                          \
    {"DELETE", "/" of "/{id}",              no_swarm,     0, 0}
    SWARM("nodes"),
    SWARM("services"),
    SWARM("tasks"),
    SWARM("secrets"),
    SWARM("configs"),
#undef SWARM
    {"GET",    "/swarm",                    no_swarm,     0, 0},
    {"GET",    "/swarm/unlockkey",          no_swarm,     0, 0},
    {"POST",   "/swarm/{what}",             no_swarm,     ROUTE_BODY, 0},
    {"GET",    "/plugins",                  no_plugins,   0, 0},
    {"GET",    "/plugins/privileges",       no_plugins,   0, 0},
    {"POST",   "/plugins/pull",             no_plugins,   ROUTE_BODY, 0},
    {"POST",   "/plugins/create",           no_plugins,   ROUTE_STREAM, 0},
    {"GET",    "/plugins/{name...}/json",   no_plugins,   0, 0},
    {"POST",   "/plugins/{name...}/enable", no_plugins,   ROUTE_BODY, 0},
    {"POST",   "/plugins/{name...}/disable", no_plugins,  ROUTE_BODY, 0},
    {"POST",   "/plugins/{name...}/upgrade", no_plugins,  ROUTE_BODY, 0},
    {"POST",   "/plugins/{name...}/push",   no_plugins,   ROUTE_BODY, 0},
    {"POST",   "/plugins/{name...}/set",    no_plugins,   ROUTE_BODY, 0},
    {"DELETE", "/plugins/{name...}",        no_plugins,   0, 0},
    {0},
};
/* clang-format on */
