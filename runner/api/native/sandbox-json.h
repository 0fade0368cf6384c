#pragma once

/* A sandbox's JSON in the API. */

#include <jansson.h>
#include <stdbool.h>

struct sandbox;

/* Returns a new reference; NULL on OOM. whole: with its spec (inspect), else an entry of a list. */
json_t *sandbox_encode(const struct sandbox *s, bool whole);
