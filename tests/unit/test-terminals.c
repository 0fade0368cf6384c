/* How the terminals of the host are shared out among sandboxes. */

#include "launch/sandbox.h"
#include "tap.h"

/* Whatever there is: nobody gets none as long as there are some, and never more is given out than
 * there is. */
TEST(terminals_are_shared_fairly)
{
    for (uint32_t total = 0; total < 20000; total += total < 300 ? 1 : 977) {
        uint32_t left = total, before = TERMINALS_MAX, share, count = 0;

        while ((share = terminals_share(left)) > 0) {
            if (share > left || share > before || share > TERMINALS_MAX)
                tap_fail("of %u: share %u of %u left, after %u", total, share, left, before);
            before = share;
            left -= share;
            count++;
        }
        CHECK_INT(left, 0);
        CHECK(count >= (total < TERMINALS_SINGLES ? total : TERMINALS_SINGLES));
    }
}

/* The host's defaults: what the documentation says. */
TEST(as_documented)
{
    uint32_t left = 2816, count = 0;

    for (; terminals_share(left) > 0; count++) {
        if (count == 0)
            CHECK_INT(terminals_share(left), 57);
        if (count == 32)
            CHECK_INT(terminals_share(left), 20);
        if (count == 100)
            CHECK_INT(terminals_share(left), 2);
        left -= terminals_share(left);
    }
    CHECK_INT(count, 1169);
    CHECK_INT(terminals_share(1000000), TERMINALS_MAX);
}

TAP_MAIN
