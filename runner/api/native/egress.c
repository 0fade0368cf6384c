/* Egress rules of sandboxes, and the egress CA's certificate. */
#include "egress/egress.h"

#include <errno.h>
#include <jansson.h>
#include <stddef.h>

#include "api/common.h"
#include "api/native/native.h"
#include "base/err.h"
#include "http/json-body.h"
#include "http/reply.h"
#include "http/route.h"
#include "http/server.h"
#include "json/parse.h"
#include "policy/egress.h"
#include "sandbox/sandbox.h"
#include "sandbox/services.h"
#include "spec/spec.h"

/* Does api_sandbox, and refuses a broken sandbox; NULL: answered. */
static struct sandbox *egress_sandbox(struct http_request *req)
{
    struct sandbox *s = api_sandbox(req);
    struct err err = ERR_NONE;

    if (s == NULL || api_check_intact(s, &err) == 0)
        return s;
    reply_error(req, &err);
    return NULL;
}

static void get_egress(struct http_request *req)
{
    const struct sandbox *s = egress_sandbox(req);

    if (s == NULL)
        return;
    if (sandbox_spec(s)->egress == NULL)
        reply_errorf(req, -ENOENT, "sandbox %s has no egress rules", sandbox_name(s));
    else
        reply_json(req, 200, egress_to_json(sandbox_spec(s)->egress));
}

static void on_egress_put(void *data, int r, const struct err *err)
{
    struct http_request *req = data;
    struct sandbox *s = req->data;

    if (r < 0)
        reply_error(req, err);
    else if (sandbox_spec(s)->egress != NULL)
        reply_json(req, 200, egress_to_json(sandbox_spec(s)->egress));
    else
        reply_empty(req, 204);
    sandbox_unref(s);
}

static void put_egress(struct http_request *req)
{
    struct sandbox *s = egress_sandbox(req);
    auto_ptr(json_decref) json_t *root = NULL;
    struct egress_rules *rules = NULL;
    struct err err = ERR_NONE;
    int r;

    if (s == NULL)
        return;
    r = json_body_tree(req, &root, &err);
    if (r == 0)
        r = egress_from_json(root, NULL, &rules, &err);
    if (r == 0)
        r = api_check_handlers(req, s, rules, &err);
    if (r < 0) {
        egress_free(rules);
        reply_error(req, &err);
        return;
    }
    req->data = s;
    sandbox_ref(s);
    r = egress_put(s, rules, on_egress_put, req, &err);
    if (r != 0)
        on_egress_put(req, r, &err);
}

static void delete_egress(struct http_request *req)
{
    struct sandbox *s = egress_sandbox(req);
    struct err err = ERR_NONE;
    int r;

    if (s == NULL)
        return;
    req->data = s;
    sandbox_ref(s);
    r = egress_put(s, NULL, on_egress_put, req, &err);
    if (r != 0)
        on_egress_put(req, r, &err);
}

static void get_ca(struct http_request *req)
{
    const struct native *n = req->context;
    struct err err = ERR_NONE;
    const char *pem;

    pem = egress_ca(n->config.supervisor, &err);
    if (pem == NULL)
        reply_error(req, &err);
    else
        reply_json(req, 200, json_pack("{s:s}", "certificate", pem));
}

/* clang-format off */
const struct route native_egress_routes[] = {
    {"GET",    "/v1/sandboxes/{id}/egress", get_egress, 0, 0},
    {"PUT",    "/v1/sandboxes/{id}/egress", put_egress, ROUTE_BODY, 0},
    {"DELETE", "/v1/sandboxes/{id}/egress", delete_egress, 0, 0},
    {"GET",    "/v1/egress/ca",             get_ca, 0, 0},
    {0},
};
/* clang-format on */
