/* Routes of Docker that rind does not support. Each answers 501 with one sentence, never a false
 * success. What a Docker without swarm and plugins has answers for, is answered as there: clients
 * such as `docker inspect` tell by status and words that they should look elsewhere. */
#include <errno.h>
#include <string.h>

#include "api/docker/common.h"
#include "api/docker/docker-routes.h"
#include "http/reply.h"
#include "http/server.h"

#define ANSWER(fn, code, text)                                                                     \
    static void fn(struct http_request *req)                                                       \
    {                                                                                              \
        reply_errorf(req, code, text);                                                             \
    }
#define ABSENT(fn, text) ANSWER(fn, -EOPNOTSUPP, text)

ABSENT(no_build, "images are not built over this API yet; build elsewhere and load the archive")
ABSENT(no_swarm, "this engine is no part of a swarm, and cannot become one")
ANSWER(no_manager, -ESHUTDOWN,
       "This node is not a swarm manager. Use \"docker swarm init\" or \"docker swarm join\" to "
       "connect this node to swarm and try again.")
ANSWER(no_member, -ESHUTDOWN, "This node is not part of a swarm")
ABSENT(no_plugins, "there are no plugins, and none can be installed")
ABSENT(no_search,
       "there is no registry to be searched; images are loaded (docker load), and docker images "
       "lists those that are there")
ABSENT(no_session, "there is no build session")
ABSENT(no_registry,
       "there are no registries to be asked; what is in the store is at /images/NAME/json")
ABSENT(no_checkpoints, "there are no checkpoints; a container's files are kept by commit")

static void get_plugins(struct http_request *req)
{
    reply_json(req, 200, json_array());
}

static void no_plugin(struct http_request *req)
{
    reply_errorf(req, -ENOENT, "plugin \"%.128s\" not found", http_param(req, "name"));
}

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
    {"GET",    "/containers/{id}/checkpoints", no_checkpoints, 0, 0},
    {"POST",   "/containers/{id}/checkpoints", no_checkpoints, ROUTE_BODY, 0},
    {"DELETE", "/containers/{id}/checkpoints/{what}", no_checkpoints, 0, 0},
    {"GET",    "/distribution/{name...}/json", no_registry, 0, 0},
    {"PUT",    "/volumes/{name}",           no_manager,     ROUTE_BODY, 0},
#define SWARM(of)                                                                                  \
    {"GET",    "/" of,                      no_manager,     0, 0},                                   \
    {"POST",   "/" of "/create",            no_manager,     ROUTE_BODY, 0},                          \
    {"GET",    "/" of "/{id}",              no_manager,     0, 0},                                   \
    {"GET",    "/" of "/{id}/logs",         no_manager,     0, 0},                                   \
    {"POST",   "/" of "/{id}/update",       no_manager,     ROUTE_BODY, 0},                          \
    {"DELETE", "/" of "/{id}",              no_manager,     0, 0}
    SWARM("nodes"),
    SWARM("services"),
    SWARM("tasks"),
    SWARM("secrets"),
    SWARM("configs"),
#undef SWARM
    {"GET",    "/swarm",                    no_manager,     0, 0},
    {"GET",    "/swarm/unlockkey",          no_manager,     0, 0},
    {"POST",   "/swarm/init",               no_swarm,     ROUTE_BODY, 0},
    {"POST",   "/swarm/join",               no_swarm,     ROUTE_BODY, 0},
    {"POST",   "/swarm/leave",              no_member,    ROUTE_BODY, 0},
    {"POST",   "/swarm/unlock",             no_member,    ROUTE_BODY, 0},
    {"POST",   "/swarm/update",             no_manager,   ROUTE_BODY, 0},
    {"GET",    "/plugins",                  get_plugins,  0, 0},
    {"GET",    "/plugins/privileges",       no_plugins,   0, 0},
    {"POST",   "/plugins/pull",             no_plugins,   ROUTE_BODY, 0},
    {"POST",   "/plugins/create",           no_plugins,   ROUTE_STREAM, 0},
    {"GET",    "/plugins/{name...}/json",   no_plugin,   0, 0},
    {"POST",   "/plugins/{name...}/enable", no_plugin,   ROUTE_BODY, 0},
    {"POST",   "/plugins/{name...}/disable", no_plugin,  ROUTE_BODY, 0},
    {"POST",   "/plugins/{name...}/upgrade", no_plugin,  ROUTE_BODY, 0},
    {"POST",   "/plugins/{name...}/push",   no_plugin,   ROUTE_BODY, 0},
    {"POST",   "/plugins/{name...}/set",    no_plugin,   ROUTE_BODY, 0},
    {"DELETE", "/plugins/{name...}",        no_plugin,   0, 0},
    {0},
};
/* clang-format on */
