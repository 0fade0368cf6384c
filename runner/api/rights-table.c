/*
 * The table of rights: which right each route of both APIs needs to the object that it names.
 *
 * The dispatcher's admission (api_admit) and the lookups (api_sandbox, docker_lookup and those of
 * volumes and networks) ask it, and nothing else decides. A route without a row is refused to every
 * client but root and the owner of the daemon, and the daemon does not start with one
 * (rights_new). Runs in the supervisor's loop.
 */
#include "api/rights-table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "http/route.h"

/* clang-format off */
const struct rights_row rights_table[] = {
    /* native */
    {"GET",     "/v1/sandboxes/{id}/egress",                               NEED_OWN},
    {"PUT",     "/v1/sandboxes/{id}/egress",                               NEED_OWN},
    {"DELETE",  "/v1/sandboxes/{id}/egress",                               NEED_OWN},
    {"GET",     "/v1/egress/ca",                                           NEED_NOTHING},
    {"GET",     "/v1/events",                                              NEED_CALLER},
    {"GET",     "/v1/audit",                                               NEED_DAEMON},
    {"POST",    "/v1/sandboxes/{id}/exec",                                 NEED_USE},
    {"GET",     "/v1/sandboxes/{id}/exec",                                 NEED_USE},
    {"GET",     "/v1/sandboxes/{id}/exec/{exec}",                          NEED_USE},
    {"DELETE",  "/v1/sandboxes/{id}/exec/{exec}",                          NEED_USE},
    {"POST",    "/v1/sandboxes/{id}/exec/{exec}/attach",                   NEED_USE},
    {"POST",    "/v1/sandboxes/{id}/exec/{exec}/signal",                   NEED_USE},
    {"POST",    "/v1/sandboxes/{id}/exec/{exec}/resize",                   NEED_USE},
    {"GET",     "/v1/sandboxes/{id}/exposures",                            NEED_USE},
    {"POST",    "/v1/sandboxes/{id}/exposures",                            NEED_USE},
    {"GET",     "/v1/sandboxes/{id}/exposures/{port}",                     NEED_USE},
    {"DELETE",  "/v1/sandboxes/{id}/exposures/{port}",                     NEED_USE},
    {"GET",     "/v1/sandboxes/{id}/files",                                NEED_USE},
    {"PUT",     "/v1/sandboxes/{id}/files",                                NEED_USE},
    {"DELETE",  "/v1/sandboxes/{id}/files",                                NEED_USE},
    {"GET",     "/v1/sandboxes/{id}/files/stat",                           NEED_USE},
    {"GET",     "/v1/sandboxes/{id}/files/exists",                         NEED_USE},
    {"GET",     "/v1/sandboxes/{id}/files/list",                           NEED_USE},
    {"GET",     "/v1/sandboxes/{id}/files/watch",                          NEED_USE},
    {"POST",    "/v1/sandboxes/{id}/files/mkdir",                          NEED_USE},
    {"POST",    "/v1/sandboxes/{id}/files/rename",                         NEED_USE},
    {"POST",    "/v1/sandboxes/{id}/files/move",                           NEED_USE},
    {"POST",    "/v1/sandboxes/{id}/files/copy",                           NEED_USE},
    {"GET",     "/v1/sandboxes/{id}/files/archive",                        NEED_USE},
    {"PUT",     "/v1/sandboxes/{id}/files/archive",                        NEED_USE},
    {"GET",     "/v1/images",                                              NEED_CALLER},
    {"DELETE",  "/v1/images",                                              NEED_CALLER},
    {"GET",     "/v1/images/inspect",                                      NEED_CALLER},
    {"GET",     "/v1/images/history",                                      NEED_CALLER},
    {"POST",    "/v1/images/tag",                                          NEED_CALLER},
    {"POST",    "/v1/images/prune",                                        NEED_CALLER},
    {"POST",    "/v1/images/load",                                         NEED_CALLER},
    {"POST",    "/v1/images/import",                                       NEED_CALLER},
    {"GET",     "/v1/images/save",                                         NEED_CALLER},
    {"GET",     "/v1/images/export",                                       NEED_CALLER},
    {"GET",     "/v1/sandboxes/{id}/export",                               NEED_USE},
    {"GET",     "/v1/sandboxes/{id}/changes",                              NEED_USE},
    {"GET",     "/v1/networks",                                            NEED_CALLER},
    {"POST",    "/v1/networks",                                            NEED_CALLER},
    {"GET",     "/v1/networks/{name}",                                     NEED_SEE},
    {"DELETE",  "/v1/networks/{name}",                                     NEED_OWN},
    {"POST",    "/v1/networks/{name}/connect",                             NEED_CALLER},
    {"POST",    "/v1/networks/{name}/disconnect",                          NEED_CALLER},
    {"GET",     "/v1/sandboxes/{id}/http/{port}/{path*}",                  NEED_USE},
    {"HEAD",    "/v1/sandboxes/{id}/http/{port}/{path*}",                  NEED_USE},
    {"POST",    "/v1/sandboxes/{id}/http/{port}/{path*}",                  NEED_USE},
    {"PUT",     "/v1/sandboxes/{id}/http/{port}/{path*}",                  NEED_USE},
    {"PATCH",   "/v1/sandboxes/{id}/http/{port}/{path*}",                  NEED_USE},
    {"DELETE",  "/v1/sandboxes/{id}/http/{port}/{path*}",                  NEED_USE},
    {"OPTIONS", "/v1/sandboxes/{id}/http/{port}/{path*}",                  NEED_USE},
    {"POST",    "/v1/sandboxes/{id}/ports/{port}/connect",                 NEED_USE},
    {"POST",    "/v1/sandboxes/{id}/processes",                            NEED_USE},
    {"GET",     "/v1/sandboxes/{id}/processes",                            NEED_USE},
    {"DELETE",  "/v1/sandboxes/{id}/processes",                            NEED_USE},
    {"POST",    "/v1/sandboxes/{id}/processes/kill",                       NEED_USE},
    {"GET",     "/v1/sandboxes/{id}/processes/{process}",                  NEED_USE},
    {"DELETE",  "/v1/sandboxes/{id}/processes/{process}",                  NEED_USE},
    {"POST",    "/v1/sandboxes/{id}/processes/{process}/kill",             NEED_USE},
    {"GET",     "/v1/sandboxes/{id}/processes/{process}/logs",             NEED_SEE},
    {"POST",    "/v1/sandboxes/{id}/processes/{process}/wait/exit",        NEED_USE},
    {"POST",    "/v1/sandboxes/{id}/processes/{process}/wait/log",         NEED_USE},
    {"POST",    "/v1/sandboxes/{id}/processes/{process}/wait/port",        NEED_USE},
    {"GET",     "/v1/sandboxes",                                           NEED_CALLER},
    {"POST",    "/v1/sandboxes",                                           NEED_CALLER},
    {"GET",     "/v1/sandboxes/{id}",                                      NEED_SEE},
    {"PATCH",   "/v1/sandboxes/{id}",                                      NEED_OWN},
    {"DELETE",  "/v1/sandboxes/{id}",                                      NEED_OWN},
    {"POST",    "/v1/sandboxes/{id}/rename",                               NEED_OWN},
    {"POST",    "/v1/sandboxes/{id}/start",                                NEED_USE},
    {"POST",    "/v1/sandboxes/{id}/attach",                               NEED_USE},
    {"POST",    "/v1/sandboxes/{id}/stop",                                 NEED_USE},
    {"POST",    "/v1/sandboxes/{id}/restart",                              NEED_USE},
    {"POST",    "/v1/sandboxes/{id}/pause",                                NEED_USE},
    {"POST",    "/v1/sandboxes/{id}/resume",                               NEED_USE},
    {"POST",    "/v1/sandboxes/{id}/signal",                               NEED_USE},
    {"GET",     "/v1/sandboxes/{id}/wait",                                 NEED_SEE},
    {"POST",    "/v1/sandboxes/{id}/snapshot",                             NEED_USE},
    {"POST",    "/v1/sandboxes/{id}/clone",                                NEED_OWN},
    {"GET",     "/v1/sandboxes/{id}/stats",                                NEED_SEE},
    {"GET",     "/v1/version",                                             NEED_NOTHING},
    {"GET",     "/v1/health",                                              NEED_CALLER},
    {"GET",     "/v1/doctor",                                              NEED_CALLER},
    {"GET",     "/v1/openapi.json",                                        NEED_NOTHING},
    {"GET",     "/v1/volumes",                                             NEED_CALLER},
    {"POST",    "/v1/volumes",                                             NEED_CALLER},
    {"POST",    "/v1/volumes/prune",                                       NEED_CALLER},
    {"GET",     "/v1/volumes/{name}",                                      NEED_SEE},
    {"DELETE",  "/v1/volumes/{name}",                                      NEED_OWN},
    /* docker */
    {"POST",    "/commit",                                                 NEED_USE},
    {"GET",     "/containers/json",                                        NEED_CALLER},
    {"POST",    "/containers/create",                                      NEED_CALLER},
    {"POST",    "/containers/prune",                                       NEED_CALLER},
    {"GET",     "/containers/{id}/json",                                   NEED_SEE},
    {"DELETE",  "/containers/{id}",                                        NEED_OWN},
    {"POST",    "/containers/{id}/start",                                  NEED_USE},
    {"POST",    "/containers/{id}/stop",                                   NEED_USE},
    {"POST",    "/containers/{id}/restart",                                NEED_USE},
    {"POST",    "/containers/{id}/kill",                                   NEED_USE},
    {"POST",    "/containers/{id}/pause",                                  NEED_USE},
    {"POST",    "/containers/{id}/unpause",                                NEED_USE},
    {"POST",    "/containers/{id}/rename",                                 NEED_OWN},
    {"POST",    "/containers/{id}/resize",                                 NEED_USE},
    {"POST",    "/containers/{id}/wait",                                   NEED_SEE},
    {"POST",    "/containers/{id}/update",                                 NEED_OWN},
    {"POST",    "/containers/{id}/attach",                                 NEED_USE},
    {"GET",     "/containers/{id}/attach/ws",                              NEED_USE},
    {"GET",     "/containers/{id}/logs",                                   NEED_SEE},
    {"GET",     "/containers/{id}/stats",                                  NEED_SEE},
    {"GET",     "/containers/{id}/top",                                    NEED_USE},
    {"GET",     "/containers/{id}/archive",                                NEED_USE},
    {"HEAD",    "/containers/{id}/archive",                                NEED_USE},
    {"PUT",     "/containers/{id}/archive",                                NEED_USE},
    {"GET",     "/containers/{id}/export",                                 NEED_USE},
    {"GET",     "/containers/{id}/changes",                                NEED_USE},
    {"POST",    "/containers/{id}/exec",                                   NEED_USE},
    {"GET",     "/events",                                                 NEED_CALLER},
    {"POST",    "/exec/{exec}/start",                                      NEED_USE},
    {"POST",    "/exec/{exec}/resize",                                     NEED_USE},
    {"GET",     "/exec/{exec}/json",                                       NEED_USE},
    {"GET",     "/images/json",                                            NEED_CALLER},
    {"POST",    "/images/load",                                            NEED_CALLER},
    {"POST",    "/images/create",                                          NEED_CALLER},
    {"POST",    "/images/prune",                                           NEED_CALLER},
    {"GET",     "/images/get",                                             NEED_CALLER},
    {"GET",     "/images/{name...}/json",                                  NEED_CALLER},
    {"GET",     "/images/{name...}/history",                               NEED_CALLER},
    {"GET",     "/images/{name...}/get",                                   NEED_CALLER},
    {"POST",    "/images/{name...}/tag",                                   NEED_CALLER},
    {"POST",    "/images/{name...}/push",                                  NEED_CALLER},
    {"DELETE",  "/images/{name...}",                                       NEED_CALLER},
    {"GET",     "/networks",                                               NEED_CALLER},
    {"POST",    "/networks/create",                                        NEED_CALLER},
    {"POST",    "/networks/prune",                                         NEED_CALLER},
    {"GET",     "/networks/{name}",                                        NEED_SEE},
    {"DELETE",  "/networks/{name}",                                        NEED_OWN},
    {"POST",    "/networks/{name}/connect",                                NEED_USE},
    {"POST",    "/networks/{name}/disconnect",                             NEED_USE},
    {"GET",     "/_ping",                                                  NEED_NOTHING},
    {"GET",     "/version",                                                NEED_NOTHING},
    {"GET",     "/info",                                                   NEED_CALLER},
    {"POST",    "/auth",                                                   NEED_NOTHING},
    {"GET",     "/system/df",                                              NEED_CALLER},
    {"GET",     "/volumes",                                                NEED_CALLER},
    {"POST",    "/volumes/create",                                         NEED_CALLER},
    {"POST",    "/volumes/prune",                                          NEED_CALLER},
    {"GET",     "/volumes/{name}",                                         NEED_SEE},
    {"DELETE",  "/volumes/{name}",                                         NEED_OWN},
    /* Docker's, of things that do not exist here: the same answer for all */
    {"POST",    "/build",                                                  NEED_NOTHING},
    {"POST",    "/build/prune",                                            NEED_NOTHING},
    {"POST",    "/build/cancel",                                           NEED_NOTHING},
    {"POST",    "/session",                                                NEED_NOTHING},
    {"POST",    "/grpc",                                                   NEED_NOTHING},
    {"GET",     "/images/search",                                          NEED_NOTHING},
    {"GET",     "/containers/{id}/checkpoints",                            NEED_NOTHING},
    {"POST",    "/containers/{id}/checkpoints",                            NEED_NOTHING},
    {"DELETE",  "/containers/{id}/checkpoints/{what}",                     NEED_NOTHING},
    {"GET",     "/distribution/{name...}/json",                            NEED_NOTHING},
    {"PUT",     "/volumes/{name}",                                         NEED_NOTHING},
    {"GET",     "/nodes",                                                  NEED_NOTHING},
    {"POST",    "/nodes/create",                                           NEED_NOTHING},
    {"GET",     "/nodes/{id}",                                             NEED_NOTHING},
    {"GET",     "/nodes/{id}/logs",                                        NEED_NOTHING},
    {"POST",    "/nodes/{id}/update",                                      NEED_NOTHING},
    {"DELETE",  "/nodes/{id}",                                             NEED_NOTHING},
    {"GET",     "/services",                                               NEED_NOTHING},
    {"POST",    "/services/create",                                        NEED_NOTHING},
    {"GET",     "/services/{id}",                                          NEED_NOTHING},
    {"GET",     "/services/{id}/logs",                                     NEED_NOTHING},
    {"POST",    "/services/{id}/update",                                   NEED_NOTHING},
    {"DELETE",  "/services/{id}",                                          NEED_NOTHING},
    {"GET",     "/tasks",                                                  NEED_NOTHING},
    {"POST",    "/tasks/create",                                           NEED_NOTHING},
    {"GET",     "/tasks/{id}",                                             NEED_NOTHING},
    {"GET",     "/tasks/{id}/logs",                                        NEED_NOTHING},
    {"POST",    "/tasks/{id}/update",                                      NEED_NOTHING},
    {"DELETE",  "/tasks/{id}",                                             NEED_NOTHING},
    {"GET",     "/secrets",                                                NEED_NOTHING},
    {"POST",    "/secrets/create",                                         NEED_NOTHING},
    {"GET",     "/secrets/{id}",                                           NEED_NOTHING},
    {"GET",     "/secrets/{id}/logs",                                      NEED_NOTHING},
    {"POST",    "/secrets/{id}/update",                                    NEED_NOTHING},
    {"DELETE",  "/secrets/{id}",                                           NEED_NOTHING},
    {"GET",     "/configs",                                                NEED_NOTHING},
    {"POST",    "/configs/create",                                         NEED_NOTHING},
    {"GET",     "/configs/{id}",                                           NEED_NOTHING},
    {"GET",     "/configs/{id}/logs",                                      NEED_NOTHING},
    {"POST",    "/configs/{id}/update",                                    NEED_NOTHING},
    {"DELETE",  "/configs/{id}",                                           NEED_NOTHING},
    {"GET",     "/swarm",                                                  NEED_NOTHING},
    {"GET",     "/swarm/unlockkey",                                        NEED_NOTHING},
    {"POST",    "/swarm/init",                                             NEED_NOTHING},
    {"POST",    "/swarm/join",                                             NEED_NOTHING},
    {"POST",    "/swarm/leave",                                            NEED_NOTHING},
    {"POST",    "/swarm/unlock",                                           NEED_NOTHING},
    {"POST",    "/swarm/update",                                           NEED_NOTHING},
    {"GET",     "/plugins",                                                NEED_NOTHING},
    {"GET",     "/plugins/privileges",                                     NEED_NOTHING},
    {"POST",    "/plugins/pull",                                           NEED_NOTHING},
    {"POST",    "/plugins/create",                                         NEED_NOTHING},
    {"GET",     "/plugins/{name...}/json",                                 NEED_NOTHING},
    {"POST",    "/plugins/{name...}/enable",                               NEED_NOTHING},
    {"POST",    "/plugins/{name...}/disable",                              NEED_NOTHING},
    {"POST",    "/plugins/{name...}/upgrade",                              NEED_NOTHING},
    {"POST",    "/plugins/{name...}/push",                                 NEED_NOTHING},
    {"POST",    "/plugins/{name...}/set",                                  NEED_NOTHING},
    {"DELETE",  "/plugins/{name...}",                                      NEED_NOTHING},
    {0},
};
/* clang-format on */

struct bound_route {
    const struct route *route;
    enum need need;
};

struct rights {
    struct bound_route *list; /* owned; sorted by address */
    size_t count;
};

static const struct rights_row *row_of(const struct route *route)
{
    for (const struct rights_row *row = rights_table; row->method != NULL; row++)
        if (strcmp(row->pattern, route->pattern) == 0 && strcmp(row->method, route->method) == 0)
            return row;
    return NULL;
}

static int by_route(const void *a, const void *b)
{
    const struct route *x = ((const struct bound_route *)a)->route;
    const struct route *y = ((const struct bound_route *)b)->route;

    return x < y ? -1 : x > y;
}

void rights_free(struct rights *r)
{
    if (r == NULL)
        return;
    free(r->list);
    free(r);
}

static int rights_bind(struct rights *r, const struct route *route, struct err *err)
{
    const struct rights_row *row = row_of(route);
    struct bound_route *more;

    if (row == NULL)
        return err_set(err, -EINVAL, "route %s %s: has no row in the table of rights",
                       route->method, route->pattern);
    more = reallocarray(r->list, r->count + 1, sizeof(*more));
    if (more == NULL)
        return err_errno(err, -ENOMEM, "table of rights");
    r->list = more;
    more[r->count++] = (struct bound_route){.route = route, .need = row->need};
    return 0;
}

int rights_new(const struct route_set *sets, struct rights **ret, struct err *err)
{
    struct rights *rights = calloc(1, sizeof(*rights));
    int r = rights == NULL ? err_errno(err, -ENOMEM, "table of rights") : 0;

    for (; r == 0 && sets->routes != NULL; sets++)
        for (const struct route *route = sets->routes; r == 0 && route->method != NULL; route++)
            r = rights_bind(rights, route, err);
    if (r < 0) {
        rights_free(rights);
        return r;
    }
    if (rights->count > 0)
        qsort(rights->list, rights->count, sizeof(rights->list[0]), by_route);
    *ret = rights;
    return 0;
}

enum need rights_need(const struct rights *rights, const struct route *route)
{
    const struct bound_route key = {.route = route};
    const struct bound_route *found = NULL;

    if (rights != NULL && rights->count > 0)
        found = bsearch(&key, rights->list, rights->count, sizeof(rights->list[0]), by_route);
    return found != NULL ? found->need : NEED_DAEMON;
}

enum right need_right(enum need need)
{
    switch (need) {
    case NEED_SEE:
        return RIGHT_SEE;
    case NEED_USE:
        return RIGHT_USE;
    case NEED_DAEMON:
    case NEED_NOTHING:
    case NEED_CALLER:
    case NEED_OWN:
    default:
        return RIGHT_OWN;
    }
}
