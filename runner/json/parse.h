#pragma once

/*
 * JSON text from outside into a jansson tree, under bounds of our own: size, nesting, no key twice,
 * no NUL. What jansson accepts beyond that (depth 2048) is refused here.
 */

#include <jansson.h>
#include <stddef.h>

#include "base/auto.h"

struct err;

enum {
    JSON_DEPTH_MAX = 32, /* nested arrays and objects; what walks a tree may therefore recurse */
};

DEFINE_AUTO(json_t, json_decref);

/*
 * Parses one JSON object of at most max bytes. -EFBIG too long, -EINVAL anything else that is wrong
 * ("line 3, column 7: ..."). *ret is a new reference.
 */
int json_parse(const char *text, size_t len, size_t max, json_t **ret, struct err *err);
