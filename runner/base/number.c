#include "base/number.h"

#include <errno.h>

int64_t number_take(const char **at, int most)
{
    const char *p = *at;
    int64_t n = 0;

    for (; *p >= '0' && *p <= '9'; p++) {
        if (p - *at >= most)
            return -EINVAL;
        n = n * 10 + (*p - '0');
    }
    if (p == *at)
        return -EINVAL;
    *at = p;
    return n;
}

int64_t number_whole(const char *text, int most)
{
    int64_t n = number_take(&text, most);

    return *text == '\0' ? n : -EINVAL;
}

int64_t number_fraction(const char **at)
{
    const char *p = *at;
    int64_t value = 0;

    if (*p != '.')
        return 0;
    p++;
    if (*p < '0' || *p > '9')
        return -EINVAL;
    for (int64_t unit = 100000000; *p >= '0' && *p <= '9'; p++, unit /= 10)
        value += unit * (*p - '0');
    *at = p;
    return value;
}
