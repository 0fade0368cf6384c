/* Percent-encoding of request targets. */

#include "cli/url.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "base/buf.h"

static bool is_plain(unsigned char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("-._~", c) != NULL);
}

int url_add(struct buf *b, const char *text)
{
    static const char digits[] = "0123456789ABCDEF";
    int r = 0;

    for (; r == 0 && *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        const char coded[] = {'%', digits[c >> 4], digits[c & 15]};

        r = is_plain(c) ? buf_append(b, text, 1) : buf_append(b, coded, sizeof(coded));
    }
    return r;
}

int url_make(struct buf *b, const char *format, ...)
{
    va_list ap;
    int r = 0;

    va_start(ap, format);
    while (r == 0 && *format != '\0') {
        const char *next = strstr(format, "%s");
        size_t len = next != NULL ? (size_t)(next - format) : strlen(format);

        r = buf_append(b, format, len);
        format += len;
        if (r == 0 && next != NULL) {
            r = url_add(b, va_arg(ap, const char *));
            format += 2;
        }
    }
    va_end(ap);
    return r;
}
