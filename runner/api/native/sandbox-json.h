#pragma once

/* A sandbox's JSON in the API. */

#include <jansson.h>
#include <stdbool.h>

struct http_request;
struct sandbox;

/* Returns a new reference; NULL on OOM. whole: with its spec (inspect), else an entry of a list. */
json_t *sandbox_encode(const struct sandbox *s, bool whole);
/* The same for the peer: without environment and egress rules if it may only see the sandbox. */
json_t *sandbox_encode_for(struct http_request *req, const struct sandbox *s, bool whole);
