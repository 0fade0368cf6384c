#pragma once

/* Complete replies in the API's formats. Each function ends the request, unless it says
 * otherwise.
 *
 * Errors have one format: {"error":{"code":"ENOENT","message":"…","step":"…","errno":2}}. step
 * appears only if a start failed at a known step, errno only if the code is a kernel errno
 * (always, for struct err). A route set may have a format of its own (route_set.failure), which
 * these functions then use. */

#include <jansson.h>
#include <stdbool.h>

struct err;
struct http_request;

/* Sends JSON; takes the reference. NULL means that an encoder ran out of memory: 503. */
void reply_json(struct http_request *req, int status, json_t *root);
/* Writes one object of a stream of JSON texts (after http_start), with its line end in the same
 * HTTP chunk: docker-py and others take a chunk for a complete text. Takes the reference; does
 * not end the request. False: root is NULL, or out of memory. */
bool reply_json_line(struct http_request *req, json_t *root, const char *line_end);
/* Sends a reply without body: 204, 304, 202... */
void reply_empty(struct http_request *req, int status);

/* Sends err with the status of its code; logged once (5xx as warning, others at debug). */
void reply_error(struct http_request *req, const struct err *err);
void reply_error_step(struct http_request *req, const struct err *err, const char *step);
/* Returns the error object for a JSON stream that has begun and must end with its failure. NULL:
 * out of memory. */
json_t *reply_encode_error(const struct err *err);
/* Like reply_error, with a negative errno and a text. */
void reply_errorf(struct http_request *req, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Sends an error with an explicit status; the default of route_set.failure. allow: the Allow
 * header, or NULL. */
void reply_failure(struct http_request *req, int status, const char *code, const char *message,
                   const char *allow);
