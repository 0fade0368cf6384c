/* Destinations and ports as text: what is accepted, what it means, and what is refused in which
 * words. */
#include <errno.h>

#include "base/err.h"
#include "policy/net-rule.h"
#include "tap.h"

static const struct {
    const char *text, *again; /* as it is printed; NULL: refused */
    int code;
} rules[] = {
    {"10.0.0.0/8", "10.0.0.0/8", 0},
    {"0.0.0.0/0", "0.0.0.0/0", 0},
    {"192.0.2.1", "192.0.2.1/32", 0},
    {"192.0.2.1:443", "192.0.2.1/32:443", 0},
    {"192.0.2.1:443/tcp", "192.0.2.1/32:443/tcp", 0},
    {"192.0.2.0/24:1-65535/udp", "192.0.2.0/24:1-65535/udp", 0},
    {"192.0.2.1/udp", "192.0.2.1/32:1-65535/udp", 0},
    {"192.0.2.0/24/tcp", "192.0.2.0/24:1-65535/tcp", 0},
    {"::/0", "[::]/0", 0},
    {"2001:db8::/32", "[2001:db8::]/32", 0},
    {"2001:db8::1", "[2001:db8::1]/128", 0},
    {"[2001:db8::1]", "[2001:db8::1]/128", 0},
    {"[2001:db8::1]:80", "[2001:db8::1]/128:80", 0},
    {"[2001:db8::]/32:80-90/tcp", "[2001:db8::]/32:80-90/tcp", 0},
    {"[2001:db8::/32]:80", "[2001:db8::]/32:80", 0},
    {"2001:db8::1/tcp", "[2001:db8::1]/128:1-65535/tcp", 0},

    {"", NULL, -EINVAL},
    {"x", NULL, -EINVAL},
    {"10.0.0.0/33", NULL, -ERANGE},
    {"10.0.0.0/", NULL, -EINVAL},
    {"10.0.0.0/08", NULL, -EINVAL},
    {"10.0.0.0/-1", NULL, -EINVAL},
    {"10.0.0/8", NULL, -EINVAL},
    {"010.0.0.1", NULL, -EINVAL},
    {"10.0.0.1/8", NULL, -EINVAL},
    {"0x0a000001", NULL, -EINVAL},
    {"2852039166", NULL, -EINVAL},
    {"10.0.0.0/8/sctp", NULL, -EINVAL},
    {"10.0.0.1:0", NULL, -ERANGE},
    {"10.0.0.1:65536", NULL, -ERANGE},
    {"10.0.0.1:90-80", NULL, -ERANGE},
    {"10.0.0.1:80-", NULL, -EINVAL},
    {"10.0.0.1:", NULL, -EINVAL},
    {"10.0.0.1: 80", NULL, -EINVAL},
    {"[10.0.0.1", NULL, -EINVAL},
    {"10.0.0.1]", NULL, -EINVAL},
    {"[2001:db8::1]x", NULL, -EINVAL},
    {"fe80::1%eth0", NULL, -EINVAL},
    {"::/129", NULL, -ERANGE},
    {"::1/64", NULL, -EINVAL},
    {"::ffff:169.254.169.254", NULL, -EINVAL},
    {"::ffff:0:0/96", NULL, -EINVAL},
    {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
     NULL, -EINVAL},
};

TEST(rules_from_text)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        struct err err = ERR_NONE;
        struct net_rule r, back;
        char text[NET_RULE_TEXT_MAX];

        printf("# %s\n", rules[i].text);
        CHECK_INT(net_rule_parse(rules[i].text, false, &r, &err), rules[i].code);
        if (rules[i].again == NULL) {
            CHECK(strlen(err.msg) > 0);
            continue;
        }
        CHECK(net_rule_ok(&r));
        net_rule_format(&r, text);
        CHECK_STR(text, rules[i].again);
        CHECK_INT(net_rule_parse(text, false, &back, NULL), 0);
        CHECK(memcmp(&r, &back, sizeof(r)) == 0);
    }
}

TEST(the_words_of_a_refusal)
{
    struct err err = ERR_NONE;
    struct net_rule r;

    (void)net_rule_parse("10.0.0.1/8", false, &r, &err);
    CHECK_STR(err.msg, "\"10.0.0.1/8\": has bits set behind its prefix length");
    (void)net_rule_parse("::ffff:1.2.3.4", false, &r, &err);
    CHECK_STR(err.msg, "\"::ffff:1.2.3.4\": write an IPv4 address as one");
}

TEST(ports_from_text)
{
    static const struct {
        const char *text, *again;
        int code;
    } ports[] = {
        {"1", "1/tcp", 0},        {"65535/udp", "65535/udp", 0}, {"80/tcp", "80/tcp", 0},
        {"0", NULL, -ERANGE},     {"65536", NULL, -ERANGE},      {"", NULL, -EINVAL},
        {"-1", NULL, -EINVAL},    {"80/", NULL, -EINVAL},        {"80/icmp", NULL, -EINVAL},
        {"80-90", NULL, -EINVAL}, {"0080", NULL, -EINVAL},       {"99999999999", NULL, -EINVAL},
    };

    for (size_t i = 0; i < sizeof(ports) / sizeof(ports[0]); i++) {
        struct net_port p;
        char text[NET_PORT_TEXT_MAX];

        printf("# %s\n", ports[i].text);
        CHECK_INT(net_port_parse(ports[i].text, &p, NULL), ports[i].code);
        if (ports[i].again == NULL)
            continue;
        CHECK(net_port_ok(&p));
        net_port_format(&p, text);
        CHECK_STR(text, ports[i].again);
    }
}

TEST(what_no_parser_made_is_refused)
{
    struct net_rule good, r;

    CHECK_INT(net_rule_parse("10.0.0.0/8:80/tcp", true, &good, NULL), 0);
    CHECK(net_rule_ok(&good));
    r = good, r.family = 5;
    CHECK(!net_rule_ok(&r));
    r = good, r.prefix = 33;
    CHECK(!net_rule_ok(&r));
    r = good, r.bytes[3] = 1;
    CHECK(!net_rule_ok(&r));
    r = good, r.bytes[9] = 1;
    CHECK(!net_rule_ok(&r));
    r = good, r.proto = 1;
    CHECK(!net_rule_ok(&r));
    r = good, r.deny = 2;
    CHECK(!net_rule_ok(&r));
    r = good, r.first = 0;
    CHECK(!net_rule_ok(&r));
    r = good, r.last = 79;
    CHECK(!net_rule_ok(&r));
    CHECK(!net_port_ok(&(struct net_port){.port = 0, .proto = NET_TCP}));
    CHECK(!net_port_ok(&(struct net_port){.port = 1, .proto = 1}));
    CHECK(!net_port_ok(&(struct net_port){.port = 1, .proto = NET_UDP, .reserved = 1}));
}

TEST(lists_are_bounded_and_hold_nothing_twice)
{
    struct net_access a = {.rule_count = 0}, b = {.rule_count = 0};
    char text[32];

    for (int i = 0; i < NET_RULES_MAX; i++) {
        (void)snprintf(text, sizeof(text), "10.0.%d.%d", i / 256, i % 256);
        CHECK_INT(net_access_add_rule(&a, text, false, NULL), 0);
    }
    CHECK_INT(net_access_add_rule(&a, "10.0.0.1", false, NULL), 0);
    CHECK_INT(a.rule_count, NET_RULES_MAX);
    CHECK_INT(net_access_add_rule(&a, "10.0.0.1", true, NULL), -E2BIG);
    for (int i = 1; i <= NET_PORTS_MAX; i++) {
        (void)snprintf(text, sizeof(text), "%d", i);
        CHECK_INT(net_access_add_port(&a, text, NULL), 0);
    }
    CHECK_INT(net_access_add_port(&a, "80/udp", NULL), -E2BIG);

    CHECK_INT(net_access_add_rule(&b, "1.2.3.4", true, NULL), 0);
    CHECK_INT(net_access_add_rule(&b, "1.2.3.5", false, NULL), 0);
    a.rule_count = a.port_count = 0;
    CHECK_INT(net_access_merge(&a, &b, false), 0);
    CHECK_INT(a.rule_count, 1);
    CHECK_INT(a.rules[0].deny, 1);
    CHECK_INT(net_access_merge(&a, &b, true), 0);
    CHECK_INT(a.rule_count, 2);
}

TEST(a_rule_covers_its_addresses)
{
    static const struct {
        const char *outer, *inner;
        bool covers;
    } pairs[] = {
        {"10.0.0.0/8", "10.1.2.3", true},
        {"10.0.0.0/8", "10.1.0.0/16:80/tcp", true},
        {"10.0.0.0/8", "11.0.0.0/8", false},
        {"10.1.0.0/16", "10.0.0.0/8", false},
        {"0.0.0.0/0", "10.0.0.0/8", true},
        {"0.0.0.0/0", "::/0", false},
        {"10.0.0.0/8:80", "10.0.0.0/8", false},
        {"10.0.0.0/8:80-90", "10.0.0.1:85/udp", true},
        {"10.0.0.0/8:80/tcp", "10.0.0.1:80", false},
        {"10.0.0.0/8:80-90", "10.0.0.1:85-91", false},
        {"fd00::/8", "fdff::1", true},
        {"10.128.0.0/9", "10.127.0.0/16", false},
    };

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        struct net_rule outer, inner;

        printf("# %s in %s\n", pairs[i].inner, pairs[i].outer);
        CHECK_INT(net_rule_parse(pairs[i].outer, false, &outer, NULL), 0);
        CHECK_INT(net_rule_parse(pairs[i].inner, false, &inner, NULL), 0);
        CHECK_INT(net_rule_covers(&outer, &inner), pairs[i].covers);
    }
}

TAP_MAIN
