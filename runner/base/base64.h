#pragma once

/* Base64 of RFC 4648, section 4: with padding, without line ends. Strict in both directions. */

#include <stddef.h>

/* Characters that len bytes become, without the NUL. */
size_t base64_encoded_size(size_t len);
/* dst: base64_encoded_size(len) + 1 bytes; NUL-terminated. Returns the characters. */
size_t base64_encode(char *dst, const void *src, size_t len);
/* dst: at least len / 4 * 3 bytes; may be src. -EILSEQ: no base64, or bits that should be zero. */
int base64_decode(void *dst, const char *src, size_t len, size_t *ret_len);
