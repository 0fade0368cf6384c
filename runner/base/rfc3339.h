#pragma once

/* Times as text: "2006-01-02T15:04:05.999999999+07:00" (RFC 3339). */

#include <time.h>

/* The time that the text is, of the years 0 to 9999. Its end may be missing: without a zone it is
 * UTC, without a time midnight. Digits behind the ninth of a second are dropped. -EINVAL: it is no
 * time, as the 30th of February is none. */
int rfc3339_parse(const char *text, struct timespec *ret);
