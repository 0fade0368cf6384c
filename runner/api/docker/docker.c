#include "api/docker/docker.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "api/audit.h"
#include "api/common.h"
#include "api/docker/common.h"
#include "api/docker/docker-routes.h"
#include "api/docker/exec.h"
#include "api/docker/reaper.h"
#include "api/docker/sidecar.h"
#include "api/docker/state.h"
#include "api/native/native.h"
#include "base/auto.h"
#include "http/server.h"
#include "sandbox/services.h"

const struct route *const docker_tables[] = {
    docker_container_routes, docker_exec_routes,    docker_event_routes,  docker_ping_routes,
    docker_system_routes,    docker_network_routes, docker_image_routes,  docker_volume_routes,
    docker_usage_routes,     docker_commit_routes,  docker_absent_routes, NULL,
};
_Static_assert(sizeof(docker_tables) / sizeof(docker_tables[0]) - 1 <= DOCKER_SETS_MAX,
               "each table has a set");

static void on_core_event(struct events_reader *r, const struct event *e)
{
    struct docker *d = (struct docker *)(void *)r;

    docker_reapers_event(d->reapers, e);
    if (strcmp(e->type, "destroy") == 0)
        docker_execs_drop(d->execs, e->sandbox);
}

int docker_init(struct native *native)
{
    struct docker *d = calloc(1, sizeof(*d));

    if (d == NULL)
        return -ENOMEM;
    d->execs = docker_execs_new(native);
    d->reapers = docker_reapers_new(native);
    if (d->execs == NULL || d->reapers == NULL) {
        docker_execs_free(d->execs);
        docker_reapers_free(d->reapers);
        free(d);
        return -ENOMEM;
    }
    d->native = native;
    d->reader.on_event = on_core_event;
    (void)events_subscribe(supervisor_events(native->config.supervisor), &d->reader, 0);
    native->docker = d;
    return 0;
}

void docker_ready(struct native *native)
{
    docker_sidecar_resume(native);
    docker_reapers_resume(native->docker->reapers);
}

void docker_done(struct native *native)
{
    struct docker *d = take(native->docker);

    if (d == NULL)
        return;
    events_unsubscribe(&d->reader);
    docker_reapers_free(d->reapers);
    docker_execs_free(d->execs);
    free(d);
}

/* Sends {"message":"…"}, the format of Docker's errors. */
static void docker_failure(struct http_request *req, int status, const char *code,
                           const char *message, const char *allow)
{
    const struct http_header headers[] = {{"Allow", allow}, {NULL, NULL}};
    json_t *root = json_pack("{s:s}", "message", message);
    auto_free char *text = NULL;

    (void)code;
    if (root == NULL) /* message is not UTF-8 */
        root = json_pack("{s:s}", "message", "the request holds text that is not UTF-8");
    text = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    http_reply(req, text != NULL ? status : 503, allow != NULL ? headers : NULL, "application/json",
               text != NULL ? text : "{}", text != NULL ? strlen(text) : 2);
}

size_t docker_route_sets(struct native *native, struct route_set *sets)
{
    size_t count = 0;

    for (; docker_tables[count] != NULL; count++)
        sets[count] = (struct route_set){
            .routes = docker_tables[count],
            .context = native,
            .admit = docker_tables[count] == docker_ping_routes ? api_admit : docker_admit,
            .version_prefix = true,
            .replied = audit_replied,
            .failure = docker_failure};
    sets[count] = (struct route_set){0};
    return count;
}
