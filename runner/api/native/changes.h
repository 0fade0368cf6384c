#pragma once

/* Sends a sandbox's changed files as a JSON array, while they are being found. */

#include <jansson.h>

#include "images/changes.h"

struct http_request;
struct sandbox;

struct changes_form {
    const char *head, *tail; /* around the list */
    /* Returns a new reference; NULL on OOM. */
    json_t *(*encode)(enum change_kind kind, const char *path);
};

/* Answers the request; form is static. Does not block. */
void native_changes(struct http_request *req, struct sandbox *s, const struct changes_form *form);

/* GET /v1/sandboxes/{id}/changes */
void sandbox_get_changes(struct http_request *req);
