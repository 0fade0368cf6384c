#include "http/json-body.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/err.h"
#include "http/server.h"
#include "json/decode.h"
#include "json/parse.h"

static int check_type(const struct http_request *req, struct err *err)
{
    static const char json[] = "application/json";
    const char *type = http_header(req, "content-type");
    size_t n = sizeof(json) - 1;

    if (type == NULL || req->body.len == 0)
        return 0;
    if (strncasecmp(type, json, n) == 0 && (type[n] == '\0' || strchr("; \t", type[n]) != NULL))
        return 0;
    return err_set(err, -EMEDIUMTYPE, "the body must be application/json");
}

int json_body_tree(const struct http_request *req, json_t **ret, struct err *err)
{
    int r;

    r = check_type(req, err);
    if (r < 0)
        return r;
    if (req->body.len == 0) {
        *ret = json_object();
        return *ret == NULL ? err_errno(err, -ENOMEM, "a body") : 0;
    }
    r = json_parse(req->body.data, req->body.len, req->body.max, ret, err);
    return r < 0 ? err_wrap(err, r, "body") : 0;
}

int json_body(const struct http_request *req, const struct jfield *fields, void *dst,
              struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    int r;

    r = json_body_tree(req, &root, err);
    if (r < 0)
        return r;
    return json_decode(root, fields, dst, err);
}
