#pragma once

/* The environment of a spec: "K=V" strings, each name once, in the order of first mention. */

#include <stddef.h>

struct err;
struct spec;

/* Sets name (of name_len bytes) to value, in place when it is there. -E2BIG past SPEC_ARGS_MAX,
 * SPEC_STRING_MAX, SPEC_STRINGS_MAX. */
int env_put(struct spec *s, const char *name, size_t name_len, const char *value, struct err *err);
