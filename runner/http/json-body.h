#pragma once

/* Decodes a buffered request body (ROUTE_BODY), one JSON object, by table (json/decode.h). */

#include <jansson.h>

struct err;
struct http_request;
struct jfield;

/* Decodes the body into dst; err names the JSON path. An empty body counts as {}, so missing
 * keys are reported by name. -EMEDIUMTYPE: Content-Type is not JSON; -EINVAL, -ERANGE, -EFBIG,
 * -ENOMEM. The caller frees what dst owns, also on failure. */
int json_body(const struct http_request *req, const struct jfield *fields, void *dst,
              struct err *err);
/* Parses the body into a tree, for decoders without table (spec). *ret is a new reference.
 * Errors as json_body. */
int json_body_tree(const struct http_request *req, json_t **ret, struct err *err);
