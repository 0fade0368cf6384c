#pragma once

/* Returns true for strict UTF-8: no overlong forms, no surrogates (D800 to DFFF), nothing above
 * U+10FFFF. NUL bytes are allowed. */

#include <stdbool.h>
#include <stddef.h>

bool utf8_valid(const void *data, size_t len);
