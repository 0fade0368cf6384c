#pragma once

/* Parses times such as "2006-01-02T15:04:05.999999999+07:00" (RFC 3339). Pure. */

#include <time.h>

/* Parses a time of the years 0 to 9999. Missing parts at the end default: UTC, midnight. Digits
 * after the ninth of a second are dropped. -EINVAL: not a time, or an impossible date such as
 * February 30. */
int rfc3339_parse(const char *text, struct timespec *ret);
