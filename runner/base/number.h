#pragma once

/* Parses decimal numbers in foreign text: only digits, no sign, no white space. Pure. */

#include <stdint.h>

enum { NUMBER_DIGITS_MAX = 18 }; /* so many digits always fit int64_t */

/* Parses the digits at *at and moves *at behind them. -EINVAL without moving: no digits, or more
 * than `most` (1 to NUMBER_DIGITS_MAX). */
int64_t number_take(const char **at, int most);
/* Like number_take, and the text must end there. -EINVAL. */
int64_t number_whole(const char *text, int most);
/* Parses an optional fraction at *at (".5") to billionths and moves *at behind it. 0: none.
 * Digits after the ninth are dropped. -EINVAL without moving: a point without digits. */
int64_t number_fraction(const char **at);
