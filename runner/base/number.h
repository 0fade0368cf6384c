#pragma once

/* Decimal numbers in text that others have written: digits alone, no sign, no white space. */

#include <stdint.h>

enum { NUMBER_DIGITS_MAX = 18 }; /* what fits int64_t whatever the digits are */

/* The number that the digits at *at make, which is moved behind them. -EINVAL, and nothing moved:
 * there are none, or more than `most` (1 to NUMBER_DIGITS_MAX). */
int64_t number_take(const char **at, int most);
/* As number_take, and the text ends there. -EINVAL */
int64_t number_whole(const char *text, int most);
/* The fraction that may stand at *at (".5"), in billionths; *at moves behind it. 0: there is none.
 * Digits behind the ninth are dropped. -EINVAL, and nothing moved: a point without digits. */
int64_t number_fraction(const char **at);
