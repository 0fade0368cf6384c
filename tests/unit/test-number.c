/* Decimal numbers of outside text: what is taken, where it ends, and what is none. */

#include <errno.h>

#include "base/number.h"
#include "tap.h"

TEST(numbers_are_taken)
{
    static const struct {
        const char *text;
        int most;
        int64_t want;
        size_t behind;
    } rows[] = {{"0", 1, 0, 1},
                {"7:", 1, 7, 1},
                {"007", 3, 7, 3},
                {"65535/tcp", 5, 65535, 5},
                {"999999999999999999", NUMBER_DIGITS_MAX, INT64_C(999999999999999999), 18},
                {"9999999999999999999", NUMBER_DIGITS_MAX, -EINVAL, 0},
                {"123", 2, -EINVAL, 0},
                {"", 5, -EINVAL, 0},
                {" 1", 5, -EINVAL, 0},
                {"+1", 5, -EINVAL, 0},
                {"-1", 5, -EINVAL, 0},
                {"x", 5, -EINVAL, 0}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *at = rows[i].text;

        CHECK_INT(number_take(&at, rows[i].most), rows[i].want);
        CHECK_INT(at - rows[i].text, rows[i].behind);
    }
}

TEST(fractions_are_taken)
{
    /* clang-format off */
    static const struct { const char *text; int64_t want; int behind; } rows[] = {
        {".5", 500000000, 2}, {".000000001Z", 1, 10}, {".1234567899", 123456789, 11}, {".0", 0, 2},
        {"", 0, 0}, {"5", 0, 0}, {"Z", 0, 0}, {".", -EINVAL, 0}, {".x", -EINVAL, 0}, {".-1", -EINVAL, 0}};
    /* clang-format on */

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *at = rows[i].text;

        CHECK_INT(number_fraction(&at), rows[i].want);
        CHECK_INT(at - rows[i].text, rows[i].behind);
    }
}

TEST(whole_numbers_are_bounded)
{
    CHECK_INT(number_whole("8080", 5), 8080);
    CHECK_INT(number_whole("8080 ", 5), -EINVAL);
    CHECK_INT(number_whole("80.5", 5), -EINVAL);
    CHECK_INT(number_whole("123456", 5), -EINVAL);
    CHECK_INT(number_whole("", 5), -EINVAL);
}

TAP_MAIN
