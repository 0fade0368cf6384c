#pragma once

/* Parses foreign JSON text into a jansson tree within bounds of its own: size, nesting (jansson
 * allows 2048), no repeated key, no NUL. Pure. */

#include <jansson.h>
#include <stddef.h>

#include "base/auto.h"

struct err;

enum {
    JSON_DEPTH_MAX = 32, /* nested arrays and objects; so walking a tree may recurse */
};

DEFINE_AUTO(json_t, json_decref);

/* Parses one JSON object of at most max bytes. -EFBIG: too long; -EINVAL: malformed ("line 3,
 * column 7: ..."). *ret is a new reference. */
int json_parse(const char *text, size_t len, size_t max, json_t **ret, struct err *err);
