/* The daemon's own resources: version, health, doctor, and the API's description. */

#include <string.h>
#include <sys/utsname.h>

#include "api/common.h"
#include "api/native/doctor-reader.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "http/route.h"
#include "sandbox/sandbox.h"

/* None of these resources takes a query; false: answered. */
static bool takes_no_query(struct http_request *req)
{
    struct err err = ERR_NONE;

    if (http_query(req, NULL, NULL, &err) == 0)
        return true;
    reply_error(req, &err);
    return false;
}

static void get_version(struct http_request *req)
{
    struct utsname host;

    if (!takes_no_query(req))
        return;
    if (uname(&host) < 0)
        (void)memset(&host, 0, sizeof(host));
    reply_json(req, 200,
               json_pack("{s:s, s:s, s:s, s:s}", "version", RIND_VERSION, "apiVersion", "v1",
                         "kernel", host.release, "architecture", host.machine));
}

static void get_health(struct http_request *req)
{
    json_int_t count = 0, running = 0;

    if (!takes_no_query(req))
        return;
    for (struct sandbox *s = sandbox_first(api_supervisor(req)); s != NULL; s = sandbox_next(s)) {
        if (!api_may_see(req, s))
            continue;
        count++;
        running += sandbox_get_state(s) == SANDBOX_RUNNING;
    }
    reply_json(
        req, 200,
        json_pack("{s:s, s:I, s:I}", "status", "ok", "sandboxes", count, "running", running));
}

static void get_doctor(struct http_request *req)
{
    if (takes_no_query(req))
        doctor_reader_answer(native_of(req)->doctor, req);
}

static void get_openapi(struct http_request *req)
{
    const char *text;
    size_t len;

    if (!takes_no_query(req))
        return;
    text = native_openapi(&len);
    http_reply(req, 200, NULL, "application/json", text, len);
}

/* clang-format off */
const struct route native_system_routes[] = {
    {"GET", "/v1/version",      get_version, 0, 0},
    {"GET", "/v1/health",       get_health,  0, 0},
    {"GET", "/v1/doctor",       get_doctor,  0, 0},
    {"GET", "/v1/openapi.json", get_openapi, 0, 0},
    {0},
};
/* clang-format on */
