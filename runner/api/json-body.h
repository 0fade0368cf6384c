#pragma once

/* A request's buffered body (ROUTE_BODY) as one JSON object, by table (json/decode.h). */

#include <jansson.h>

struct err;
struct http_request;
struct jfield;

/*
 * Decodes into dst; the message has the JSON path. An empty body is {} (so what is required is
 * missed by name). -EMEDIUMTYPE where a Content-Type says that it is not JSON; -EINVAL, -ERANGE,
 * -EFBIG, -ENOMEM. What dst owns is the caller's to free, also on failure.
 */
int json_body(const struct http_request *req, const struct jfield *fields, void *dst,
              struct err *err);
/* The tree itself, for decoders that are not a table (spec). *ret is a new reference. */
int json_body_tree(const struct http_request *req, json_t **ret, struct err *err);
