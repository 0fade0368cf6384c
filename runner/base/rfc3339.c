#include "base/rfc3339.h"

#include <errno.h>
#include <stdbool.h>

#include "base/number.h"

/* So many digits, a number from min to max; `before` stands in front of them unless it is 0. */
static bool field(const char **at, char before, int digits, int min, int max, int *ret)
{
    const char *start = *at;
    int64_t n;

    if (before != '\0' && *start++ != before)
        return false;
    *at = start;
    n = number_take(at, digits);
    if (*at - start != digits || n < min || n > max)
        return false;
    *ret = (int)n;
    return true;
}

/* "Z", "+07:00" or nothing: seconds before UTC. */
static bool zone(const char **at, int *ret)
{
    char sign = **at;
    int hours, minutes;

    *ret = 0;
    if (sign == '\0')
        return true;
    ++*at;
    if (sign == 'Z' || sign == 'z')
        return true;
    if ((sign != '+' && sign != '-') || !field(at, '\0', 2, 0, 23, &hours) ||
        !field(at, ':', 2, 0, 59, &minutes))
        return false;
    *ret = (hours * 60 + minutes) * (sign == '-' ? -60 : 60);
    return true;
}

int rfc3339_parse(const char *text, struct timespec *ret)
{
    struct tm tm = {0};
    int64_t ns = 0;
    int year, month, day, offset = 0;
    time_t seconds;

    if (!field(&text, '\0', 4, 0, 9999, &year) || !field(&text, '-', 2, 1, 12, &month) ||
        !field(&text, '-', 2, 1, 31, &day))
        return -EINVAL;
    tm.tm_year = year - 1900;
    tm.tm_mon = month - 1;
    tm.tm_mday = day;
    if (*text == 'T' || *text == 't' || *text == ' ') {
        text++;
        if (!field(&text, '\0', 2, 0, 23, &tm.tm_hour) ||
            !field(&text, ':', 2, 0, 59, &tm.tm_min) || !field(&text, ':', 2, 0, 60, &tm.tm_sec) ||
            (ns = number_fraction(&text)) < 0)
            return -EINVAL;
    }
    if (!zone(&text, &offset) || *text != '\0')
        return -EINVAL;
    if (tm.tm_sec == 60) /* a leap second is the next minute's first */
        day = 0;
    seconds = timegm(&tm);
    if (day != 0 && tm.tm_mday != day)
        return -EINVAL;
    *ret = (struct timespec){.tv_sec = seconds - offset, .tv_nsec = (long)ns};
    return 0;
}
