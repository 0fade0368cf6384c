#pragma once

/*
 * Whole replies in the API's shapes. Each function ends the request.
 *
 * Errors have one shape: {"error":{"code":"ENOENT","message":"…","step":"…","errno":2}}; step only
 * where a start says at which one it failed, errno only where the code is the kernel's number of it
 * (always, for struct err). A route set may have a shape of its own (route_set.failure): then
 * errors of these functions have it, too.
 */

#include <jansson.h>
#include <stdbool.h>

struct err;
struct http_request;

/* JSON; the reference is taken. NULL is an encoder that had no memory: 503. */
void reply_json(struct http_request *req, int status, json_t *root);
/*
 * One object of a stream of JSON texts (http_start has been called), with its line end in the same
 * HTTP chunk: docker-py and others take a chunk for a whole text. The reference is taken. Whether
 * it was written; false for a NULL root and without memory.
 */
bool reply_json_line(struct http_request *req, json_t *root, const char *line_end);
/* No body: 204, 304, 202... */
void reply_empty(struct http_request *req, int status);

/* What struct err says, with the status of its code; logged once (5xx as warnings, the others at
 * debug). */
void reply_error(struct http_request *req, const struct err *err);
void reply_error_step(struct http_request *req, const struct err *err, const char *step);
/* The same object, for who has begun an answer of JSON already and ends it with why it breaks off.
 * NULL: no memory. */
json_t *reply_encode_error(const struct err *err);
/* As reply_error, from a negative errno and text. */
void reply_errorf(struct http_request *req, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* An error with a status of its own: route_set.failure's default. allow: the Allow header, or NULL.
 */
void reply_failure(struct http_request *req, int status, const char *code, const char *message,
                   const char *allow);
