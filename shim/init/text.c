#include <string.h>

#include "init/init.h"

struct text text_begin(char *data, size_t size)
{
    data[0] = '\0';
    return (struct text){.data = data, .size = size};
}

void text_add(struct text *t, const char *s, size_t len)
{
    if (len >= t->size - t->len) {
        t->full = true;
        len = t->size - t->len - 1;
    }
    (void)memcpy(t->data + t->len, s, len);
    t->len += len;
    t->data[t->len] = '\0';
}

void text_add_str(struct text *t, const char *s)
{
    text_add(t, s, strlen(s));
}

void text_add_number(struct text *t, uint32_t n)
{
    char digits[10]; /* digits of UINT32_MAX */
    size_t at = sizeof(digits);

    do
        digits[--at] = (char)('0' + n % 10);
    while ((n /= 10) > 0);
    text_add(t, digits + at, sizeof(digits) - at);
}
