#pragma once

/*
 * Parsers of option texts: numbers, names and paths, independent of struct spec. Errors quote the
 * text and say what is accepted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"

struct err;

enum { QUOTE_MAX = 128 }; /* bytes of a foreign text quoted in a message */

/* True for 1 to max letters, digits, "_.-", beginning with a letter or digit. */
bool parse_is_name(const char *text, size_t max);

/*
 * Parses a size with binary units: "128m", "1g", "65536"; b k m g t, also kb or kib, in any case.
 */
int parse_bytes(const char *what, const char *text, int64_t min, int64_t max, int64_t *ret,
                struct err *err);

/* Parses a plain decimal number. */
int parse_number(const char *what, const char *text, int64_t min, int64_t max, int64_t *ret,
                 struct err *err);

/* Parses digits with at most three decimals: "1.5" is 1500. -EINVAL, -ERANGE; sets no message. */
int parse_millis(const char *text, size_t len, int64_t *ret);

/* Parses a duration to milliseconds: "90", "1.5s", "2m", "500ms", "1h". */
int parse_duration(const char *what, const char *text, int64_t *ret, struct err *err);

/* Parses "nofile=1024[:2048]"; -1 or "unlimited" for no limit. */
int parse_ulimit(const char *text, struct rlimit_value *ret, struct err *err);

/*
 * Parses an absolute path inside a sandbox; ".." is refused, "." and double slashes are removed.
 * Caller frees.
 */
int parse_inside_path(const char *what, const char *text, char **ret, struct err *err);

/*
 * Parses a host path, absolute or relative to the working directory, and makes it absolute. ".." is
 * accepted only at the start of a relative path: the working directory from the kernel holds no
 * symbolic links, so it can be resolved as text there. Caller frees.
 */
int parse_host_path(const char *what, const char *text, char **ret, struct err *err);
