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
#include "base/clock.h"
#include "base/err.h"
#include "http/reply.h"
#include "images/images.h"
#include "sandbox/sandbox.h"

/* Clients print these, and take an empty text for a fault. rind is written in C, and a build is the
 * same wherever and whenever it is made. */
#define GO_VERSION "none"
#define GIT_COMMIT RIND_VERSION
#define BUILD_TIME "unknown"

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
    details =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "ApiVersion", DOCKER_API_VERSION,
                  "Arch", host_machine(&host), "KernelVersion", host.release, "MinAPIVersion",
                  DOCKER_API_VERSION_MIN, "Os", "linux", "Experimental", "false", "GoVersion",
                  GO_VERSION, "GitCommit", GIT_COMMIT, "BuildTime", BUILD_TIME);
    reply_json(req, 200,
               json_pack("{s:{s:s}, s:[{s:s, s:s, s:o}], s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, "
                         "s:s}",
                         "Platform", "Name", "rind", "Components", "Name", "Engine", "Version",
                         RIND_VERSION, "Details", details, "Version", RIND_VERSION, "ApiVersion",
                         DOCKER_API_VERSION, "MinAPIVersion", DOCKER_API_VERSION_MIN, "Os", "linux",
                         "Arch", host_machine(&host), "KernelVersion", host.release, "GitCommit",
                         GIT_COMMIT, "BuildTime", BUILD_TIME, "GoVersion", GO_VERSION));
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

/* What of a container can be limited: clients warn of what is false or missing. */
static json_t *encode_abilities(struct http_request *req)
{
    static const char *const yes[] = {
        "MemoryLimit",      "CpuCfsPeriod",      "CpuCfsQuota", "PidsLimit", "IPv4Forwarding",
        "BridgeNfIptables", "BridgeNfIp6tables", "SwapLimit",   "CPUShares", "CPUSet"};
    const struct native_config *config = &native_of(req)->config;
    json_t *root = json_pack(
        "{s:s, s:s, s:s, s:s, s:b, s:s, s:s, s:{s:s, s:s}, s:{s:s, s:s}, s:{s:s, s:s}}",
        "CgroupDriver", "cgroupfs", "CgroupVersion", config->cgroup_unified ? "2" : "1",
        "InitBinary", "rind-init", "OSVersion", RIND_VERSION, "OomKillDisable", 0, "DockerRootDir",
        config->state_dir, "IndexServerAddress", "none", "ContainerdCommit", "ID", RIND_VERSION,
        "Expected", RIND_VERSION, "RuncCommit", "ID", RIND_VERSION, "Expected", RIND_VERSION,
        "InitCommit", "ID", RIND_VERSION, "Expected", RIND_VERSION);

    for (size_t i = 0; root != NULL && i < sizeof(yes) / sizeof(yes[0]); i++)
        (void)docker_put(root, yes[i], json_true());
    return root;
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
    root = json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:[[ss]], s:s, s:s, s:s, s:s, s:s, s:s, "
        "s:I, s:I, s:s}",
        "ID", "rind", "Containers", c.all, "ContainersRunning", c.running, "ContainersPaused",
        c.paused, "ContainersStopped", c.all - c.running - c.paused, "Images", (json_int_t)images,
        "Driver", "overlay2", "DriverStatus", "Backing Filesystem", "rind", "Name", host.nodename,
        "ServerVersion", RIND_VERSION, "OperatingSystem", "rind " RIND_VERSION, "OSType", "linux",
        "Architecture", host.machine, "KernelVersion", host.release, "NCPU",
        (json_int_t)sysconf(_SC_NPROCESSORS_ONLN), "MemTotal",
        (json_int_t)memory.totalram * memory.mem_unit, "SystemTime", now);
    if (root == NULL || json_object_update_new(root, encode_abilities(req)) < 0 ||
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
