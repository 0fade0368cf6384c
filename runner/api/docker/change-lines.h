#pragma once

/* The `changes` of a commit or an import: each value is a text as of a Dockerfile, whose lines are
 * instructions. Pure. */

#include <stddef.h>

enum { CHANGE_LINES_MAX = 256 };

/* Splits the texts into one instruction each: a line end ends one, a backslash in front of it goes
 * on in the next line; empty lines and comments are left out. *ret is NULL-terminated; the caller
 * frees it by json_strings_free, also on failure. -ENOMEM; -E2BIG: too many. */
int change_lines(const char *const *texts, size_t count, char ***ret);
