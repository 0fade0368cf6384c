/*
 * The ranges behind policy/internet.h. Read by net/ for the rules of sandboxes, and by
 * rind-registry for its own connections.
 */
#include "policy/internet.h"

#include <assert.h>
#include <string.h>

/* clang-format off */
static const struct internet_range not4[] = {
    {{0}, {1}, false},                              /* 0.0.0.0/8 */
    {{10}, {11}, false},                            /* 10.0.0.0/8 */
    {{100, 64}, {100, 128}, false},                 /* 100.64.0.0/10: carriers; metadata of some clouds */
    {{127}, {128}, false},                          /* 127.0.0.0/8 */
    {{168, 63, 129, 16}, {168, 63, 129, 17}, false}, /* a cloud's own services on a public address */
    {{169, 254}, {169, 255}, false},                /* 169.254.0.0/16: link-local, metadata */
    {{172, 16}, {172, 32}, false},                  /* 172.16.0.0/12 */
    {{192, 0, 0}, {192, 0, 1}, false},              /* 192.0.0.0/24 */
    {{192, 0, 2}, {192, 0, 3}, false},              /* 192.0.2.0/24: documentation */
    {{192, 88, 99}, {192, 88, 100}, false},         /* 192.88.99.0/24: 6to4 relays */
    {{192, 168}, {192, 169}, false},                /* 192.168.0.0/16 */
    {{198, 18}, {198, 20}, false},                  /* 198.18.0.0/15: benchmarks */
    {{198, 51, 100}, {198, 51, 101}, false},        /* 198.51.100.0/24: documentation */
    {{203, 0, 113}, {203, 0, 114}, false},          /* 203.0.113.0/24: documentation */
    {{224}, {0}, true},                             /* 224.0.0.0/4: multicast; 240.0.0.0/4, broadcast */
}, not6[] = {
    /* Only 2000::/3 is the internet. So ::1, IPv4 in IPv6 (::ffff:0:0/96, NAT64's 64:ff9b::/96),
     * unique local, link-local and multicast addresses are excluded. */
    {{0}, {0x20}, false},
    /* 2001::/23: Teredo and others, which contain IPv4 addresses */
    {{0x20, 0x01}, {0x20, 0x01, 0x02}, false},
    {{0x20, 0x01, 0x0d, 0xb8}, {0x20, 0x01, 0x0d, 0xb9}, false}, /* 2001:db8::/32: documentation */
    {{0x20, 0x02}, {0x20, 0x03}, false}, /* 2002::/16: 6to4, which contains IPv4 addresses */
    {{0x3f, 0xff}, {0x3f, 0xff, 0x10}, false},      /* 3fff::/20: documentation */
    {{0x40}, {0}, true},
};
/* clang-format on */

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
static_assert(COUNT(not4) <= INTERNET_RANGES_MAX && COUNT(not6) <= INTERNET_RANGES_MAX, "fits");

const struct internet_range *internet_not4(size_t *ret_count)
{
    *ret_count = COUNT(not4);
    return not4;
}

const struct internet_range *internet_not6(size_t *ret_count)
{
    *ret_count = COUNT(not6);
    return not6;
}

bool internet_has(int family, const uint8_t *address)
{
    const size_t len = family == 4 ? 4 : 16, count = family == 4 ? COUNT(not4) : COUNT(not6);
    const struct internet_range *ranges = family == 4 ? not4 : not6;

    if (family != 4 && family != 6)
        return false;
    for (size_t i = 0; i < count; i++)
        if (memcmp(address, ranges[i].first, len) >= 0 &&
            (ranges[i].open || memcmp(address, ranges[i].behind, len) < 0))
            return false;
    return true;
}
