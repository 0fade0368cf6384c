#pragma once

/* Handlers of snapshots.c, for the table of sandboxes.c; and what they need of that one. */

#include <stdbool.h>

struct attach_options;
struct http_request;
struct spec;

void sandbox_post_snapshot(struct http_request *req);
void sandbox_post_clone(struct http_request *req);

/* Makes a sandbox of the spec (taken), whose image is looked up, and answers. */
void native_create_sandbox(struct http_request *req, struct spec *spec, bool start,
                           const struct attach_options *attach);
