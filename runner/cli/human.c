#include "cli/human.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/rfc3339.h"

const char *human_bytes(uint64_t n, char buf[HUMAN_MAX])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    uint64_t rest = 0;

    while (n >= 1024) {
        rest = n % 1024;
        n /= 1024;
        unit++;
    }
    if (unit == 0 || n >= 100)
        (void)snprintf(buf, HUMAN_MAX, "%" PRIu64 " %s", n, units[unit]);
    else
        (void)snprintf(buf, HUMAN_MAX, "%" PRIu64 ".%" PRIu64 " %s", n, rest * 10 / 1024,
                       units[unit]);
    return buf;
}

const char *human_seconds(int64_t seconds, char buf[HUMAN_MAX])
{
    static const struct {
        int64_t seconds;
        const char *name;
    } units[] = {{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}};
    size_t i = 0;

    if (seconds < 0)
        seconds = 0;
    while (units[i].seconds > 1 && seconds < units[i].seconds)
        i++;
    (void)snprintf(buf, HUMAN_MAX, "%" PRId64 " %s", seconds / units[i].seconds, units[i].name);
    return buf;
}

int64_t human_parse_time(const char *time)
{
    struct timespec t;

    if (time == NULL || rfc3339_parse(time, &t) < 0)
        return -1;
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

const char *human_ago(const char *time, int64_t now_ms, char buf[HUMAN_MAX])
{
    int64_t then = human_parse_time(time);

    if (then < 0) {
        (void)snprintf(buf, HUMAN_MAX, "-");
        return buf;
    }
    return human_seconds((now_ms - then) / 1000, buf);
}
