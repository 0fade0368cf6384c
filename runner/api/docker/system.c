/* The engine's description: /_ping, /version, /info, /auth. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include "api/docker/common.h"
#include "api/docker/docker-routes.h"
#include "api/native/images.h"
#include "api/reply.h"
#include "base/clock.h"
#include "base/err.h"
#include "images/images.h"
#include "sandbox/sandbox.h"

static const struct http_header ping_headers[] = {
    {"Api-Version", DOCKER_API_VERSION},
    {"Docker-Experimental", "false"},
    {"Ostype", "linux"},
    {"Builder-Version", "1"},
    {"Swarm", "inactive"},
    {"Cache-Control", "no-cache, no-store, must-revalidate"},
    {"Pragma", "no-cache"},
    {NULL, NULL}};

static void get_ping(struct http_request *req)
{
    http_reply(req, 200, ping_headers, "text/plain; charset=utf-8", "OK", 2);
}

static const char *host_machine(const struct utsname *host)
{
    if (strcmp(host->machine, "x86_64") == 0)
        return "amd64";
    return strcmp(host->machine, "aarch64") == 0 ? "arm64" : host->machine;
}

static void host_facts(struct utsname *host)
{
    if (uname(host) < 0)
        (void)memset(host, 0, sizeof(*host));
}

static void get_version(struct http_request *req)
{
    struct utsname host;
    json_t *details;

    host_facts(&host);
    details = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "ApiVersion", DOCKER_API_VERSION, "Arch",
                        host_machine(&host), "KernelVersion", host.release, "MinAPIVersion",
                        DOCKER_API_VERSION_MIN, "Os", "linux", "Experimental", "false");
    reply_json(req, 200,
               json_pack("{s:{s:s}, s:[{s:s, s:s, s:o}], s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}",
                         "Platform", "Name", "rind", "Components", "Name", "Engine", "Version",
                         RIND_VERSION, "Details", details, "Version", RIND_VERSION, "ApiVersion",
                         DOCKER_API_VERSION, "MinAPIVersion", DOCKER_API_VERSION_MIN, "Os", "linux",
                         "Arch", host_machine(&host), "KernelVersion", host.release, "GitCommit",
                         "", "BuildTime", ""));
}

struct counts {
    json_int_t all, running, paused;
};

static struct counts count_containers(struct http_request *req)
{
    struct counts c = {0};

    for (struct sandbox *s = sandbox_first(api_supervisor(req)); s != NULL; s = sandbox_next(s)) {
        if (!api_may_see(req, s))
            continue;
        c.all++;
        c.running += strcmp(docker_status(s), "running") == 0;
        c.paused += strcmp(docker_status(s), "paused") == 0;
    }
    return c;
}

/* Encodes what clients use or display; other facts of the host are not disclosed. */
static json_t *encode_info(struct http_request *req, size_t images)
{
    struct utsname host;
    struct sysinfo memory;
    char now[DOCKER_TIME_MAX];
    struct counts c = count_containers(req);
    json_t *root;

    host_facts(&host);
    if (sysinfo(&memory) < 0)
        (void)memset(&memory, 0, sizeof(memory));
    docker_time_text(clock_wall_us() * 1000, now);
    root =
        json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:[[ss]], s:s, s:s, s:s, s:s, s:s, s:s, "
                  "s:I, s:I, s:s}",
                  "ID", "rind", "Containers", c.all, "ContainersRunning", c.running,
                  "ContainersPaused", c.paused, "ContainersStopped", c.all - c.running - c.paused,
                  "Images", (json_int_t)images, "Driver", "overlay2", "DriverStatus", "Backing",
                  "rind", "Name", host.nodename, "ServerVersion", RIND_VERSION, "OperatingSystem",
                  "rind " RIND_VERSION, "OSType", "linux", "Architecture", host.machine,
                  "KernelVersion", host.release, "NCPU", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN),
                  "MemTotal", (json_int_t)memory.totalram * memory.mem_unit, "SystemTime", now);
    if (root == NULL ||
        json_object_update_new(
            root,
            json_pack("{s:[s], s:{s:{s:s}}, s:s, s:{s:s}, s:{s:[s], s:[s], s:[], s:[s]}, s:s, "
                      "s:[], s:[], s:b, s:b, s:b}",
                      "SecurityOptions", "name=seccomp,profile=builtin", "Runtimes", "rind", "path",
                      "rind", "DefaultRuntime", "rind", "Swarm", "LocalNodeState", "inactive",
                      "Plugins", "Volume", "local", "Network", "bridge", "Authorization", "Log",
                      "json-file", "LoggingDriver", "json-file", "Labels", "Warnings",
                      "LiveRestoreEnabled", 1, "ExperimentalBuild", 0, "Debug", 0)) < 0) {
        json_decref(root);
        return NULL;
    }
    return root;
}

static void on_info_images(void *data, int r, struct image **list, size_t images,
                           const struct err *err)
{
    struct http_request *req = data;

    if (r < 0) {
        reply_error(req, err);
        return;
    }
    image_list_free(list, images);
    reply_json(req, 200, encode_info(req, images));
}

static void get_info(struct http_request *req)
{
    struct err err = ERR_NONE;

    if (images_list(native_images(req), IMAGE_VIEW(req), on_info_images, req, &err) < 0)
        reply_error(req, &err);
}

/* No registry is used, so there is no login; credentials are not stored. */
static void post_auth(struct http_request *req)
{
    reply_errorf(req, -EOPNOTSUPP, "there are no registries yet: images are loaded (docker load)");
}

/* Not part of docker_system_routes: clients of any version learn here which one to use. */
const struct route docker_ping_routes[] = {{"GET", "/_ping", get_ping, 0, 0}, {0}};

/* clang-format off */
const struct route docker_system_routes[] = {
    {"GET",  "/version", get_version, 0, 0},
    {"GET",  "/info",    get_info,    0, 0},
    {"POST", "/auth",    post_auth,   ROUTE_BODY, 0},
    {0},
};
/* clang-format on */
