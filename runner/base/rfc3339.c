#include "base/rfc3339.h"

#include <errno.h>
#include <stdbool.h>

#include "base/number.h"

/* Parses `digits` digits with a value from min to max, preceded by `before` unless it is 0. */
static bool time_field(const char **at, char before, int digits, int min, int max, int *ret)
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

/* Parses "Z", "+07:00" or nothing to seconds east of UTC. */
static bool time_zone(const char **at, int *ret)
{
    char sign = **at;
    int hours, minutes;

    *ret = 0;
    if (sign == '\0')
        return true;
    ++*at;
    if (sign == 'Z' || sign == 'z')
        return true;
    if ((sign != '+' && sign != '-') || !time_field(at, '\0', 2, 0, 23, &hours) ||
        !time_field(at, ':', 2, 0, 59, &minutes))
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

    if (!time_field(&text, '\0', 4, 0, 9999, &year) || !time_field(&text, '-', 2, 1, 12, &month) ||
        !time_field(&text, '-', 2, 1, 31, &day))
        return -EINVAL;
    tm.tm_year = year - 1900;
    tm.tm_mon = month - 1;
    tm.tm_mday = day;
    if (*text == 'T' || *text == 't' || *text == ' ') {
        text++;
        if (!time_field(&text, '\0', 2, 0, 23, &tm.tm_hour) ||
            !time_field(&text, ':', 2, 0, 59, &tm.tm_min) ||
            !time_field(&text, ':', 2, 0, 60, &tm.tm_sec) || (ns = number_fraction(&text)) < 0)
            return -EINVAL;
    }
    if (!time_zone(&text, &offset) || *text != '\0')
        return -EINVAL;
    if (tm.tm_sec == 60) /* a leap second becomes the first second of the next minute */
        day = 0;
    seconds = timegm(&tm);
    if (day != 0 && tm.tm_mday != day)
        return -EINVAL;
    *ret = (struct timespec){.tv_sec = seconds - offset, .tv_nsec = (long)ns};
    return 0;
}
