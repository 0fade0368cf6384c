/* When the host's disk is looked at, and what may still be written. */

#include "sandbox/disk-watch.h"
#include "tap.h"

#define MIB UINT64_C(1048576)
#define GIB (UINT64_C(1024) * MIB)

TEST(it_looks_more_often_the_less_there_is)
{
    CHECK_INT(disk_watch_wait_ms(1000 * GIB, GIB), 10000);
    CHECK_INT(disk_watch_wait_ms(GIB, GIB), 200);
    CHECK_INT(disk_watch_wait_ms(0, GIB), 200);
    CHECK(disk_watch_wait_ms(5 * GIB, GIB) > 1000 && disk_watch_wait_ms(5 * GIB, GIB) < 1200);
}

TEST(what_may_be_written_below_the_reserve)
{
    CHECK_INT(disk_watch_allowance(GIB), MIB);
    CHECK_INT(disk_watch_allowance(100 * GIB), MIB);
    CHECK_INT(disk_watch_allowance(128 * MIB), MIB / 8);
    CHECK_INT(disk_watch_allowance(MIB), MIB / 16);
}

TEST(a_low_ends_above_the_mark)
{
    CHECK(!disk_watch_is_over(GIB - 1, GIB));
    CHECK(!disk_watch_is_over(GIB, GIB));
    CHECK(!disk_watch_is_over(GIB + GIB / 8 - 1, GIB));
    CHECK(disk_watch_is_over(GIB + GIB / 8, GIB));
}

TAP_MAIN
