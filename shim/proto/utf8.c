#include "proto/utf8.h"

#include <stdint.h>
#include <string.h>

/* The bytes that may follow a lead byte. Only the second byte has special ranges: they exclude
 * overlong forms (after E0, F0), surrogates (after ED) and code points above U+10FFFF (after F4).
 */
struct lead {
    uint8_t first, last; /* lead bytes */
    uint8_t low, high;   /* range of the second byte */
    uint8_t more;        /* bytes that follow the lead */
};

/* clang-format off */
static const struct lead leads[] = {
    { 0xc2, 0xdf, 0x80, 0xbf, 1 },
    { 0xe0, 0xe0, 0xa0, 0xbf, 2 },
    { 0xe1, 0xec, 0x80, 0xbf, 2 },
    { 0xed, 0xed, 0x80, 0x9f, 2 },
    { 0xee, 0xef, 0x80, 0xbf, 2 },
    { 0xf0, 0xf0, 0x90, 0xbf, 3 },
    { 0xf1, 0xf3, 0x80, 0xbf, 3 },
    { 0xf4, 0xf4, 0x80, 0x8f, 3 },
};
/* clang-format on */

static const struct lead *lead_find(uint8_t byte)
{
    for (size_t i = 0; i < sizeof(leads) / sizeof(leads[0]); i++)
        if (byte >= leads[i].first && byte <= leads[i].last)
            return &leads[i];
    return NULL;
}

/* Returns the length of the ASCII run at p. Compares eight bytes at a time, as nearly every name is
 * ASCII. */
static size_t ascii_run(const uint8_t *p, size_t len)
{
    size_t n = 0;

    for (uint64_t word; n + sizeof(word) <= len; n += sizeof(word)) {
        memcpy(&word, p + n, sizeof(word));
        if ((word & UINT64_C(0x8080808080808080)) != 0)
            break;
    }
    while (n < len && p[n] < 0x80)
        n++;
    return n;
}

/* Returns the length of the multi-byte character at p, 0 when it is invalid. */
static size_t char_length(const uint8_t *p, size_t len)
{
    const struct lead *lead = lead_find(p[0]);

    if (lead == NULL || len <= lead->more || p[1] < lead->low || p[1] > lead->high)
        return 0;
    for (size_t i = 2; i <= lead->more; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    return (size_t)lead->more + 1;
}

bool utf8_valid(const void *data, size_t len)
{
    const uint8_t *p = data;

    for (size_t n; len > 0; p += n, len -= n) {
        n = ascii_run(p, len);
        if (n > 0)
            continue;
        n = char_length(p, len);
        if (n == 0)
            return false;
    }
    return true;
}
