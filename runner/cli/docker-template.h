#pragma once

/*
 * What scripts write behind docker's --format, as far as they do: text, and in braces
 *
 *     .A.B    a member; .    the whole; json X    X as JSON; len X    how many; join X "S"
 *     range X … end          once for each element, which is . within it
 *
 * Pure. Anything else is an error that quotes it.
 */

#include <jansson.h>

struct buf;
struct err;

enum { TEMPLATE_DEPTH_MAX = 8, TEMPLATE_OUT_MAX = 16 << 20 };

/* Appends to out. -EINVAL. */
int docker_template(const char *format, json_t *root, struct buf *out, struct err *err);
