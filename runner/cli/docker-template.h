#pragma once

/*
 * Expands the templates that scripts pass to docker's --format, as far as rind supports them: text,
 * and in braces
 *
 *     .A.B    a member; .    the whole; json X    X as JSON; len X    length; join X "S"
 *     range X … end          once for each element, which is . inside
 *
 * Pure. Unsupported actions are an error that quotes them.
 */

#include <jansson.h>

struct buf;
struct err;

enum { TEMPLATE_DEPTH_MAX = 8, TEMPLATE_OUT_MAX = 16 << 20 };

/*
 * Appends the expanded text to out. A member that is not there is "<no value>". -EINVAL: err quotes
 * the faulty part.
 */
int docker_template(const char *format, json_t *root, struct buf *out, struct err *err);
/* As docker_template, but a member that root itself lacks is -EINVAL; err lists those it has. */
int docker_template_strict(const char *format, json_t *root, struct buf *out, struct err *err);
