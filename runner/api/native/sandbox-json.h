#pragma once

/* A sandbox as the API shows it. */

#include <jansson.h>
#include <stdbool.h>

struct sandbox;

/* A new reference; NULL on OOM. whole: with its spec (as inspect), else as a line of a list. */
json_t *sandbox_encode(const struct sandbox *s, bool whole);
