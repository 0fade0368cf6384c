#pragma once

/* What a sandbox has changed of its files, as a JSON array that is sent while it is found out. */

#include <jansson.h>

#include "core/changes.h"

struct http_request;
struct sandbox;

struct changes_form {
    const char *head, *tail; /* around the list */
    /* A new reference; NULL on OOM. */
    json_t *(*encode)(enum change_kind kind, const char *path);
};

/* Answers; form is static. */
void native_changes(struct http_request *req, struct sandbox *s, const struct changes_form *form);

/* GET /v1/sandboxes/{id}/changes */
void sandbox_get_changes(struct http_request *req);
