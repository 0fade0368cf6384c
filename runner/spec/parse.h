#pragma once

/* Texts of options into numbers and paths: the parts of spec.c that know nothing of a spec. Each
 * refusal quotes the text and says what is accepted. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"

struct err;

enum { QUOTE_MAX = 128 }; /* bytes of an outside text that a message repeats */

/* Letters, digits, "_.-", which it does not begin with; 1 to max bytes. */
bool parse_is_name(const char *text, size_t max);

/* "128m", "1g", "65536": binary multiples b k m g t, also as kb or kib, any case. */
int parse_bytes(const char *what, const char *text, int64_t min, int64_t max, int64_t *ret,
                struct err *err);

/* A plain decimal number. */
int parse_number(const char *what, const char *text, int64_t min, int64_t max, int64_t *ret,
                 struct err *err);

/* Digits with at most three behind a point: "1.5" is 1500. -EINVAL, -ERANGE; no message. */
int parse_millis(const char *text, size_t len, int64_t *ret);

/* "90", "1.5s", "2m", "500ms", "1h" in milliseconds. */
int parse_duration(const char *what, const char *text, int64_t *ret, struct err *err);

/* "nofile=1024[:2048]", -1 or "unlimited" for no limit. */
int parse_ulimit(const char *text, struct rlimit_value *ret, struct err *err);

/* An absolute path inside a sandbox, without "..", "." or doubled slashes in the result. Caller
 * frees. */
int parse_inside_path(const char *what, const char *text, char **ret, struct err *err);

/* A host path, absolute or relative to the working directory, made absolute. ".." is accepted only
 * at the front of a relative one: the kernel's working directory holds no links, so it can be cut
 * there, and nowhere else. Caller frees. */
int parse_host_path(const char *what, const char *text, char **ret, struct err *err);
