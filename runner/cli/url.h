#pragma once

/* Request targets: path and query put together with everything percent-encoded that is no name. */

#include <stddef.h>

struct buf;

enum { URL_MAX = 16 << 10 /* bytes; as the daemon's own limit */ };

/* Appends text; what is not A-Z a-z 0-9 - . _ ~ becomes %XX, a slash too. -E2BIG, -ENOMEM. */
int url_add(struct buf *b, const char *text);
/*
 * A target from a format whose only directive is %s, each for one text that is encoded:
 * "/v1/sandboxes/%s/files?path=%s". -E2BIG, -ENOMEM.
 */
int url_make(struct buf *b, const char *format, ...);
