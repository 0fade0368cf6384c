/* Times as text: forms that are one, the instants they are, and what is none. */

#include <errno.h>
#include <stdint.h>

#include "base/rfc3339.h"
#include "tap.h"

TEST(times_are_parsed_and_printed)
{
    static const struct {
        const char *text;
        int64_t seconds;
        long ns;
    } rows[] = {{"1970-01-01T00:00:00Z", 0, 0},
                {"1970-01-01T00:00:00.5Z", 0, 500000000},
                {"1970-01-01T00:00:00.123456789999Z", 0, 123456789},
                {"1970-01-01 00:00:00z", 0, 0},
                {"1970-01-01t01:00:00+01:00", 0, 0},
                {"1969-12-31T23:30:00-00:30", 0, 0},
                {"1970-01-01", 0, 0},
                {"1970-01-01T00:00:01", 1, 0},
                {"2024-02-29T12:00:00Z", 1709208000, 0},
                {"2016-12-31T23:59:60Z", 1483228800, 0},
                {"0001-01-01T00:00:00Z", -62135596800, 0},
                {"9999-12-31T23:59:59Z", 253402300799, 0}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct timespec t = {0};

        CHECK_INT(rfc3339_parse(rows[i].text, &t), 0);
        CHECK_INT(t.tv_sec, rows[i].seconds);
        CHECK_INT(t.tv_nsec, rows[i].ns);
    }
}

TEST(no_times)
{
    static const char *const rows[] = {"",
                                       "now",
                                       "1970",
                                       "1970-1-1",
                                       " 1970-01-01",
                                       "+970-01-01",
                                       "1970-13-01",
                                       "1970-00-01",
                                       "2023-02-29",
                                       "1970-01-01T",
                                       "1970-01-01T24:00:00Z",
                                       "1970-01-01T00:60:00Z",
                                       "1970-01-01T00:00:61Z",
                                       "1970-01-01T00:00Z",
                                       "1970-01-01T00:00:00.Z",
                                       "1970-01-01T00:00:00+1:00",
                                       "1970-01-01T00:00:00+ 1:-2",
                                       "1970-01-01T00:00:00+0100",
                                       "1970-01-01T00:00:00+24:00",
                                       "1970-01-01T00:00:00Zx",
                                       "10000-01-01T00:00:00Z"};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct timespec t = {.tv_sec = 7};

        CHECK_INT(rfc3339_parse(rows[i], &t), -EINVAL);
        CHECK_INT(t.tv_sec, 7);
    }
}

TAP_MAIN
