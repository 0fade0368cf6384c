#pragma once

/* Values of headers that registries send. Hostile text. Pure. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Content-Range of a 206: "bytes FIRST-LAST/TOTAL". *ret_total: -1 for "*". False: none of these.
 */
bool header_content_range(const char *text, int64_t *ret_first, int64_t *ret_last,
                          int64_t *ret_total);
/* Retry-After: seconds, or an HTTP date, of which now (seconds since the epoch) is subtracted.
 * Returns seconds from now on, at least 0, or -EINVAL. */
int64_t header_retry_after(const char *text, int64_t now);
/* Finds the target of the link with rel="next" in a Link header (RFC 8288). False: there is none,
 * or it is longer than size - 1. */
bool header_link_next(const char *text, char *ret, size_t size);
/* Copies the media type without parameters, in lower case. "" if it is longer than size - 1. */
void header_media_type(const char *text, char *ret, size_t size);
