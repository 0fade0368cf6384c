#pragma once

/* Base64 of RFC 4648, section 4: with padding, without line ends. Strict in both directions. */

#include <stddef.h>

/* Returns the number of characters for len bytes, without the NUL. */
size_t base64_encoded_size(size_t len);
/* dst: base64_encoded_size(len) + 1 bytes; NUL-terminated. Returns the number of characters. */
size_t base64_encode(char *dst, const void *src, size_t len);
/* dst: at least len / 4 * 3 bytes; may equal src. -EILSEQ: not base64, or unused bits are not
 * zero. */
int base64_decode(void *dst, const char *src, size_t len, size_t *ret_len);
