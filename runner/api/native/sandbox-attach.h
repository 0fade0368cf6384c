#pragma once

/* Attaching to main processes, for sandboxes.c and sandbox-verbs.c. */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "http/route.h"

struct err;
struct http_request;
struct sandbox;
struct caller;
struct spec;

struct attach_options {
    bool own;           /* the sandbox is removed if its client leaves without DETACH */
    int64_t rows, cols; /* of its terminal; 0 = the default */
    bool given;         /* any of them was given */
};

/* Removes the keys of struct attach_options from root and decodes them. -EINVAL, -ERANGE. */
int attach_options_take(json_t *root, struct attach_options *ret, struct err *err);

/* POST /v1/sandboxes/{id}/attach */
http_handler_fn sandbox_post_attach;
/* Starts s for a request with an upgrade, and takes over the request. */
void attach_start(struct http_request *req, struct sandbox *s);
/* Makes and starts a sandbox of spec (taken if 0 is returned) for a request with an upgrade. 0,
 * or 1: the request was answered; a negative errno: it was not. */
int attach_create(struct http_request *req, struct spec *spec, const struct caller *creator,
                  const struct attach_options *o, struct err *err);
