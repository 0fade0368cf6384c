/* Ports exposed by preview URLs. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "api/common.h"
#include "api/native/port-number.h"
#include "base/number.h"
#include "http/json-body.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "http/server.h"
#include "json/decode.h"
#include "ports/exposure.h"
#include "sandbox/sandbox.h"

int port_number(const char *text, unsigned min, uint16_t *ret, struct err *err)
{
    int64_t value = number_whole(text, 5);

    if (value < (int64_t)min || value > 65535 || text[0] == '0')
        return err_set(err, -EINVAL, "port: must be a number from %u to 65535", min);
    *ret = (uint16_t)value;
    return 0;
}

/* ---- encoding ---- */

static json_t *encode_exposure(const struct sandbox *s, const struct exposure *e,
                               const struct preview_host *host, struct err *err)
{
    char url[PREVIEW_URL_MAX];
    json_t *root;

    if (exposure_url(s, e, host, url, err) < 0)
        return NULL;
    root = json_pack("{s:i, s:s, s:s, s:s?, s:b}", "port", (int)e->port, "url", url, "token",
                     e->token, "name", e->name, "served", (int)exposure_is_served(s));
    if (root == NULL)
        (void)err_errno(err, -ENOMEM, "exposure");
    return root;
}

static void reply_exposure(struct http_request *req, int status, const struct sandbox *s,
                           const struct exposure *e)
{
    struct err err = ERR_NONE;
    json_t *root = encode_exposure(s, e, NULL, &err);

    if (root == NULL)
        reply_error(req, &err);
    else
        reply_json(req, status, root);
}

/* ---- exposing ---- */

struct expose_json {
    int64_t port;
    char *hostname, *token, *name; /* owned */
};

#define OFF(member) .off = offsetof(struct expose_json, member)
/* clang-format off */
static const struct jfield expose_fields[] = {
    {.name = "port",     .decode = j_int64,  OFF(port), .min = PREVIEW_PORT_MIN, .max = PREVIEW_PORT_MAX, .required = true},
    {.name = "hostname", .decode = j_string, OFF(hostname), .min = 1, .max = PREVIEW_HOST_MAX + 6, .nullable = true},
    {.name = "token",    .decode = j_string, OFF(token), .min = 1, .max = PREVIEW_TOKEN_MAX, .nullable = true},
    {.name = "name",     .decode = j_string, OFF(name), .min = 1, .max = EXPOSURE_NAME_MAX, .nullable = true},
    {0},
};
/* clang-format on */

static void post_exposure(struct http_request *req)
{
    struct sandbox *s = api_sandbox(req);
    const struct exposure *e = NULL;
    struct expose_json body = {.port = 0};
    struct exposure_request request;
    struct err err = ERR_NONE;
    bool made = false;
    int r;

    if (s == NULL)
        return;
    r = json_body(req, expose_fields, &body, &err);
    request = (struct exposure_request){.port = (unsigned)body.port,
                                        .hostname = body.hostname,
                                        .token = body.token,
                                        .name = body.name};
    if (r == 0)
        (void)exposure_put(s, &request, &e, &made, &err); /* e tells whether it succeeded */
    free(body.hostname);
    free(body.token);
    free(body.name);
    if (e == NULL)
        reply_error(req, &err);
    else
        reply_exposure(req, made ? 201 : 200, s, e);
}

/* ---- list, show, remove ---- */

struct native_exposures_list_query {
    const char *hostname;
};

static const struct query_field list_fields[] = {
    {.name = "hostname",
     .type = QUERY_STRING,
     .off = offsetof(struct native_exposures_list_query, hostname),
     .min = 1,
     .max = PREVIEW_HOST_MAX + 6},
    {0},
};

static json_t *encode_list(const struct sandbox *s, const struct preview_host *host,
                           struct err *err)
{
    json_t *list = json_array();

    for (const struct exposure *e = exposure_first(s); list != NULL && e != NULL; e = e->next) {
        json_t *one = encode_exposure(s, e, host, err);

        if (one == NULL || json_array_append_new(list, one) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return json_pack("{s:o}", "exposures", list);
}

static void list_exposures(struct http_request *req)
{
    struct sandbox *s = api_sandbox(req);
    struct native_exposures_list_query query = {.hostname = NULL};
    struct preview_host host;
    struct err err = ERR_NONE;
    json_t *root;
    int r;

    if (s == NULL)
        return;
    r = http_query(req, list_fields, &query, &err);
    if (r == 0 && query.hostname != NULL)
        r = preview_host_parse(query.hostname, &host, &err);
    root = r == 0 ? encode_list(s, query.hostname != NULL ? &host : NULL, &err) : NULL;
    if (root != NULL || (r == 0 && err.code == 0))
        reply_json(req, 200, root);
    else
        reply_error(req, &err);
}

/* Returns the sandbox and the port named by the path; NULL: answered. */
static struct sandbox *exposure_requested(struct http_request *req, uint16_t *ret_port)
{
    struct sandbox *s = api_sandbox(req);
    struct err err = ERR_NONE;

    if (s == NULL || port_number(http_param(req, "port"), PREVIEW_PORT_MIN, ret_port, &err) == 0)
        return s;
    reply_error(req, &err);
    return NULL;
}

static void get_exposure(struct http_request *req)
{
    uint16_t port;
    struct sandbox *s = exposure_requested(req, &port);
    const struct exposure *e;

    if (s == NULL)
        return;
    e = exposure_find(s, port);
    if (e == NULL)
        reply_errorf(req, -ENOENT, "port %u of sandbox %s is not exposed", port, sandbox_name(s));
    else
        reply_exposure(req, 200, s, e);
}

static void delete_exposure(struct http_request *req)
{
    uint16_t port;
    struct sandbox *s = exposure_requested(req, &port);
    struct err err = ERR_NONE;

    if (s == NULL)
        return;
    if (exposure_remove(s, port, &err) < 0)
        reply_error(req, &err);
    else
        reply_empty(req, 204);
}

/* clang-format off */
const struct route native_exposure_routes[] = {
    {"GET",    "/v1/sandboxes/{id}/exposures",        list_exposures, 0, 0},
    {"POST",   "/v1/sandboxes/{id}/exposures",        post_exposure, ROUTE_BODY, 0},
    {"GET",    "/v1/sandboxes/{id}/exposures/{port}", get_exposure, 0, 0},
    {"DELETE", "/v1/sandboxes/{id}/exposures/{port}", delete_exposure, 0, 0},
    {0},
};
/* clang-format on */
