#pragma once

/* Handlers of snapshots.c, for the table in sandboxes.c, and a function of sandboxes.c that they
 * use. */

#include <stdbool.h>

struct attach_options;
struct http_request;
struct spec;

void sandbox_post_snapshot(struct http_request *req);
void sandbox_post_clone(struct http_request *req);

/* Looks up the image of the spec (taken), makes a sandbox, and answers. */
void api_create_sandbox(struct http_request *req, struct spec *spec, bool start,
                        const struct attach_options *attach);
