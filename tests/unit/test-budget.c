/* Budgets, alone and in buffers. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/budget.h"
#include "base/buf.h"
#include "tap.h"

TEST(small_buffers_cost_nothing)
{
    struct budget b = {.max = 0};

    CHECK_INT(budget_resize(&b, 0, BUDGET_FREE), 0);
    CHECK_INT(budget_resize(&b, BUDGET_FREE, BUDGET_FREE + 1), -EAGAIN);
    CHECK_INT(b.used, 0);
    CHECK_INT(budget_resize(NULL, 0, SIZE_MAX), 0);
}

TEST(a_part_is_charged_to_both)
{
    struct budget whole = {.max = 1000000};
    struct budget part = {.max = 600000, .up = &whole}, other = {.max = 600000, .up = &whole};

    CHECK_INT(budget_resize(&part, 0, 500000), 0);
    CHECK_INT(budget_resize(&part, 0, 200000), -EAGAIN);
    CHECK_INT(budget_resize(&other, 0, 600000), -EAGAIN); /* the whole has no room */
    CHECK_INT(other.used, 0);
    CHECK_INT(budget_resize(&other, 0, 500000), 0);
    CHECK_INT(whole.used, 1000000);
    CHECK_INT(budget_resize(&part, 500000, 100), 0);
    CHECK_INT(part.used, 0);
    CHECK_INT(budget_resize(&other, 500000, 0), 0);
    CHECK_INT(whole.used, 0);
}

TEST(buffers_are_charged_and_given_back)
{
    struct budget b = {.max = 512 << 10};
    static char block[300 << 10];
    struct buf one = {.max = 1 << 20, .budget = &b}, two = one;
    size_t len = 0;

    CHECK_INT(buf_append(&one, block, sizeof(block)), 0);
    CHECK_INT(b.used, one.cap);
    CHECK_INT(buf_append(&two, block, sizeof(block)), -EAGAIN);
    CHECK(two.data == NULL && two.len == 0);
    CHECK_INT(buf_append(&two, block, 1000), 0); /* small ones always find room */
    buf_done(&one);
    CHECK_INT(b.used, 0);
    CHECK_INT(buf_append(&two, block, sizeof(block)), 0);
    CHECK_INT(two.len, sizeof(block) + 1000);
    free(buf_take(&two, &len));
    CHECK_INT(b.used, 0);
    buf_done(&two);
    CHECK_INT(b.used, 0);
}

TAP_MAIN
