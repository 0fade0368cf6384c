#include "base/base64.h"

#include <errno.h>
#include <stdint.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t base64_encoded_size(size_t len)
{
    return (len + 2) / 3 * 4;
}

size_t base64_encode(char *dst, const void *src, size_t len)
{
    const unsigned char *s = src;
    char *d = dst;

    for (; len >= 3; len -= 3, s += 3) {
        uint32_t v = (uint32_t)s[0] << 16 | (uint32_t)s[1] << 8 | s[2];

        *d++ = alphabet[v >> 18];
        *d++ = alphabet[v >> 12 & 63];
        *d++ = alphabet[v >> 6 & 63];
        *d++ = alphabet[v & 63];
    }
    if (len > 0) {
        uint32_t v = (uint32_t)s[0] << 16 | (len == 2 ? (uint32_t)s[1] << 8 : 0);

        *d++ = alphabet[v >> 18];
        *d++ = alphabet[v >> 12 & 63];
        *d++ = '=';
        if (len == 2)
            d[-1] = alphabet[v >> 6 & 63];
        *d++ = '=';
    }
    *d = '\0';
    return (size_t)(d - dst);
}

static int base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decodes four characters, the last `pad` of them padding, to 3 - pad bytes. */
static int base64_decode_group(unsigned char *d, const char *s, size_t pad)
{
    uint32_t v = 0;

    for (size_t i = 0; i < 4; i++) {
        int n = i < 4 - pad ? base64_digit(s[i]) : 0;

        if (n < 0)
            return -EILSEQ;
        v = v << 6 | (uint32_t)n;
    }
    if ((v & ((1U << 8 * pad) - 1)) != 0)
        return -EILSEQ;
    for (size_t i = 0; i < 3 - pad; i++)
        d[i] = (unsigned char)(v >> (16 - 8 * i));
    return 0;
}

int base64_decode(void *dst, const char *src, size_t len, size_t *ret_len)
{
    unsigned char *d = dst;
    size_t pad = 0;

    if (len % 4 != 0)
        return -EILSEQ;
    while (pad < 2 && pad < len && src[len - 1 - pad] == '=')
        pad++;
    for (size_t i = 0; i < len; i += 4) {
        int r = base64_decode_group(d + i / 4 * 3, src + i, i + 4 == len ? pad : 0);

        if (r < 0)
            return r;
    }
    *ret_len = len / 4 * 3 - pad;
    return 0;
}
