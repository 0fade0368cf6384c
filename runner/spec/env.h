#pragma once

/* The environment of a spec: "K=V" strings with unique names, in the order of first mention. */

#include <stddef.h>

struct err;
struct spec;

/*
 * Sets name (name_len bytes) to value; an existing entry is replaced in place. -E2BIG: exceeds
 * SPEC_ARGS_MAX, SPEC_STRING_MAX or SPEC_STRINGS_MAX.
 */
int env_put(struct spec *s, const char *name, size_t name_len, const char *value, struct err *err);
/* Takes a variable away; one that is not there is no error. -ENOMEM. */
int env_drop(struct spec *s, const char *name, size_t name_len, struct err *err);
