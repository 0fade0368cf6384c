#pragma once

/* Builds request targets; path and query parameters are percent-encoded. */

#include <stddef.h>

struct buf;

enum { URL_MAX = 16 << 10 /* bytes; the daemon has the same limit */ };

/* Appends text; bytes other than A-Z a-z 0-9 - . _ ~ become %XX, slashes too. -E2BIG, -ENOMEM. */
int url_add(struct buf *b, const char *text);
/*
 * Builds a target from a format; each %s, the only directive, is replaced by an encoded text:
 * "/v1/sandboxes/%s/files?path=%s". -E2BIG, -ENOMEM.
 */
int url_make(struct buf *b, const char *format, ...);
