/* Subnets of named networks: what is accepted, which addresses are chosen, and which flows a
 * changed table would translate in another way. */
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <string.h>

#include "base/err.h"
#include "net/lan.h"
#include "net/netlink.h"
#include "policy/net-lan.h"
#include "tap.h"

static int parse(const char *subnet, const char *gateway, const char *range)
{
    struct net_lan_ask a;
    int r = net_lan_parse(subnet, gateway, range, &a, NULL);

    return r == 0 && !net_lan_ask_ok(&a) ? -EBADMSG : r;
}

TEST(what_is_a_subnet)
{
    CHECK_INT(parse("172.28.0.0/16", NULL, NULL), 0);
    CHECK_INT(parse("10.0.0.0/8", "10.255.255.254", "10.3.0.0/16"), 0);
    CHECK_INT(parse("192.168.3.4/30", NULL, "192.168.3.4/32"), 0);
    CHECK_INT(parse("100.64.0.0/10", NULL, NULL), 0);
    CHECK_INT(parse("172.100.0.0/16", NULL, NULL), 0);
    CHECK_INT(parse("0.0.0.0/8", NULL, NULL), -EPERM);
    CHECK_INT(parse("127.0.0.0/8", NULL, NULL), -EPERM);
    CHECK_INT(parse("127.5.0.0/16", NULL, NULL), -EPERM);
    CHECK_INT(parse("169.254.0.0/16", NULL, NULL), -EPERM);
    CHECK_INT(parse("169.254.169.0/24", NULL, NULL), -EPERM);
    CHECK_INT(parse("169.0.0.0/8", NULL, NULL), -EPERM);
    CHECK_INT(parse("224.0.0.0/24", NULL, NULL), -EPERM);
    CHECK_INT(parse("239.1.0.0/16", NULL, NULL), -EPERM);
    CHECK_INT(parse("240.0.0.0/8", NULL, NULL), -EPERM);
    CHECK_INT(parse("255.255.255.0/24", NULL, NULL), -EPERM);
    CHECK_INT(parse("10.0.0.0/31", NULL, NULL), -EINVAL);
    CHECK_INT(parse("10.0.0.0/32", NULL, NULL), -EINVAL);
    CHECK_INT(parse("10.0.0.0/33", NULL, NULL), -EINVAL);
    CHECK_INT(parse("0.0.0.0/0", NULL, NULL), -EINVAL);
    CHECK_INT(parse("10.0.0.0/7", NULL, NULL), -EINVAL);
    CHECK_INT(parse("10.0.0.1", NULL, NULL), -EINVAL);
    CHECK_INT(parse("10.0.0.0/24:80", NULL, NULL), -EINVAL);
    CHECK_INT(parse("10.0.0.0/24/tcp", NULL, NULL), -EINVAL);
    CHECK_INT(parse("fd00::/64", NULL, NULL), -EINVAL);
    CHECK_INT(parse("::ffff:10.0.0.0/120", NULL, NULL), -EINVAL);
    CHECK_INT(parse("", NULL, NULL), -EINVAL);
    CHECK_INT(parse("10.0.0.0/24", "10.0.0.0", NULL), -EINVAL);
    CHECK_INT(parse("10.0.0.0/24", "10.0.0.255", NULL), -EINVAL);
    CHECK_INT(parse("10.0.0.0/24", "10.0.1.1", NULL), -EINVAL);
    CHECK_INT(parse("10.0.0.0/24", "::1", NULL), -EINVAL);
    CHECK_INT(parse("10.0.0.0/24", NULL, "10.0.0.0/23"), -EINVAL);
    CHECK_INT(parse("10.0.0.0/24", NULL, "10.0.1.0/25"), -EINVAL);
}

/* What a request may hold is checked by the launcher again, whatever the supervisor has sent. */
TEST(requests_of_a_hostile_supervisor)
{
    struct net_lan_ask good, a;

    CHECK_INT(net_lan_parse("10.1.0.0/16", NULL, NULL, &good, NULL), 0);
    CHECK(net_lan_ask_ok(&good));
#define BAD(change)                                                                                \
    do {                                                                                           \
        a = good;                                                                                  \
        change;                                                                                    \
        CHECK(!net_lan_ask_ok(&a));                                                                \
    } while (0)
    BAD(a.prefix = 0);
    BAD(a.prefix = 7);
    BAD(a.prefix = 31);
    BAD(a.prefix = 33);
    BAD(a.range_prefix = 15);
    BAD(a.range_prefix = 33);
    BAD(a.range[1] = 2);
    BAD(a.range[3] = 1);
    BAD(a.subnet[3] = 1);
    BAD(a.subnet[0] = a.gateway[0] = a.range[0] = 127);
    BAD(a.gateway[1] = 2);
    BAD(a.fixed = 2);
    BAD(a.fixed = 1); /* 0.0.0.0 */
    BAD((a.fixed = 1, memcpy(a.address, a.gateway, 4)));
    BAD(a.kept_count = NET_LAN_KEPT_MAX + 1);
    BAD(a.kept_count = 255);
    BAD(a.kept_count = 1); /* 0.0.0.0 */
#undef BAD
}

static int choose(const struct net_lan_ask *a, const uint8_t (*members)[4], size_t count,
                  uint8_t ret[4], struct err *err)
{
    const struct net_lan_taken taken = {.members = members, .count = count};

    return net_lan_choose(a, &taken, ret, err);
}

TEST(the_first_free_address_is_chosen)
{
    uint8_t taken[8][4], got[4];
    struct net_lan_ask a;
    struct err err;

    CHECK_INT(net_lan_parse("10.0.0.0/29", NULL, NULL, &a, &err), 0);
    for (uint8_t i = 0; i < 5; i++) {
        CHECK_INT(choose(&a, (const uint8_t(*)[4])taken, i, got, &err), 0);
        CHECK_INT(got[3], i + 2);
        (void)memcpy(taken[i], got, 4);
    }
    CHECK_INT(choose(&a, (const uint8_t(*)[4])taken, 5, got, &err), -ENOSPC);
    a.fixed = 1;
    (void)memcpy(a.address, taken[2], 4);
    CHECK_INT(choose(&a, (const uint8_t(*)[4])taken, 5, got, &err), -EADDRINUSE);
    CHECK_STR(err.msg, "Address already in use: 10.0.0.4 (another member has it)");
    CHECK_INT(choose(&a, (const uint8_t(*)[4])taken, 2, got, &err), 0);
    CHECK_INT(net_lan_check_address(&a, (const uint8_t[4]){10, 0, 0, 8}, &err), -EINVAL);
    CHECK_INT(net_lan_check_address(&a, (const uint8_t[4]){10, 0, 0, 7}, &err), -EINVAL);
    CHECK_INT(net_lan_check_address(&a, (const uint8_t[4]){10, 0, 0, 0}, &err), -EINVAL);
    CHECK_INT(net_lan_check_address(&a, a.gateway, &err), -EINVAL);
    a.address[3] = 7;
    CHECK(!net_lan_ask_ok(&a));
    a.address[3] = 3;
    a.prefix = 0;
    CHECK(!net_lan_ask_ok(&a));
}

TEST(auxiliary_addresses_are_nobodys)
{
    struct net_lan_ask a;
    struct err err;
    uint8_t got[4];

    CHECK_INT(net_lan_parse("10.0.0.0/24", NULL, NULL, &a, &err), 0);
    CHECK_INT(net_lan_keep(&a, "10.0.0.2", &err), 0);
    CHECK_INT(net_lan_keep(&a, "10.0.0.3", &err), 0);
    CHECK(net_lan_ask_ok(&a));
    CHECK_INT(choose(&a, NULL, 0, got, &err), 0);
    CHECK_INT(got[3], 4);
    CHECK_INT(net_lan_check_address(&a, (const uint8_t[4]){10, 0, 0, 3}, &err), -EINVAL);
    CHECK_INT(net_lan_keep(&a, "10.0.1.3", &err), -EINVAL);
    CHECK_INT(net_lan_keep(&a, "10.0.0.255", &err), -EINVAL);
    CHECK_INT(net_lan_keep(&a, "::1", &err), -EINVAL);
    for (unsigned i = a.kept_count; i < NET_LAN_KEPT_MAX; i++)
        CHECK_INT(net_lan_keep(&a, "10.0.0.9", &err), 0);
    CHECK_INT(net_lan_keep(&a, "10.0.0.10", &err), -E2BIG);
    CHECK(net_lan_ask_ok(&a));
    a.fixed = 1;
    (void)memcpy(a.address, (const uint8_t[4]){10, 0, 0, 9}, 4);
    CHECK(!net_lan_ask_ok(&a));
}

/* A subnet that begins with rind's pool: its addresses are skipped, all 8192. */
TEST(own_addresses_are_not_given)
{
    static const uint8_t pool[4] = {10, 213, 0, 9};
    static const struct net_addr dns[] = {{.family = 4, .bytes = {10, 213, 32, 1}}};
    const struct net_lan_taken taken = {.pool = pool, .dns = dns, .dns_count = 1};
    struct net_lan_ask a;
    struct err err;
    uint8_t got[4];

    CHECK_INT(net_lan_parse("10.213.0.0/16", "10.213.255.1", NULL, &a, &err), 0);
    CHECK_INT(net_lan_choose(&a, &taken, got, &err), 0);
    CHECK(memcmp(got, (const uint8_t[4]){10, 213, 32, 0}, 4) == 0);
    a.fixed = 1;
    (void)memcpy(a.address, (const uint8_t[4]){10, 213, 31, 255}, 4);
    CHECK_INT(net_lan_choose(&a, &taken, got, &err), -EADDRINUSE);
    (void)memcpy(a.address, dns[0].bytes, 4);
    CHECK_INT(net_lan_choose(&a, &taken, got, &err), -EADDRINUSE);
    (void)memcpy(a.address, (const uint8_t[4]){10, 213, 32, 2}, 4);
    CHECK_INT(net_lan_choose(&a, &taken, got, &err), 0);
    CHECK_INT(net_lan_parse("10.213.0.0/24", NULL, NULL, &a, &err), 0);
    CHECK_INT(net_lan_choose(&a, &taken, got, &err), -ENOSPC);
}

/* ---- flows ---- */

static const struct net_setup setup = {
    .gateway4 = {.family = 4, .bytes = {10, 213, 0, 2}},
    .sandbox4 = {.family = 4, .bytes = {10, 213, 0, 3}},
    .dns_count = 1,
    .dns = {{.family = 4, .bytes = {172, 28, 0, 53}}},
    .lan = {{.prefix = 16, .address = {172, 28, 0, 10}, .gateway = {172, 28, 0, 1}},
            {.prefix = 24, .address = {10, 9, 0, 10}, .gateway = {10, 9, 0, 1}}},
};
static const struct net_lan_peer peers[] = {
    {.lan = {172, 28, 0, 11}, .pool = {10, 213, 0, 5}},
    {.lan = {172, 28, 0, 53}, .pool = {10, 213, 0, 7}}, /* as a name server */
    {.lan = {10, 9, 0, 11}, .pool = {10, 213, 0, 5}},   /* the first one again, elsewhere */
    {.lan = {10, 8, 0, 11}, .pool = {10, 213, 0, 9}},   /* of none of its networks */
};
static const struct lan_view view = {.setup = &setup, .peers = peers, .count = 4};

TEST(the_first_network_of_both_counts)
{
    CHECK(lan_to_peer(&view, peers[0].lan) == &peers[0]);
    CHECK(lan_to_peer(&view, peers[1].lan) == NULL);
    CHECK(lan_to_peer(&view, peers[2].lan) == &peers[2]);
    CHECK(lan_to_peer(&view, peers[3].lan) == NULL);
    CHECK(lan_from_peer(&view, peers[2].pool) == &peers[0]);
    CHECK(lan_from_peer(&view, peers[3].pool) == NULL);
    CHECK(lan_of_peer(&view, &peers[2]) == &setup.lan[1]);
    CHECK(lan_gateway_counts(&view, &setup.lan[0]));
}

TEST(flows_that_the_table_would_change)
{
    static const struct {
        const char *what;
        bool stale;
        struct lan_flow f;
    } rows[] = {
        /* clang-format off */
        {"to a member", false, {NET_UDP, {172, 28, 0, 10}, {172, 28, 0, 11}, {10, 213, 0, 5}, {10, 213, 0, 3}}},
        {"to the one before", true, {NET_UDP, {172, 28, 0, 10}, {172, 28, 0, 11}, {10, 213, 0, 99}, {10, 213, 0, 3}}},
        {"by TCP", false, {NET_TCP, {172, 28, 0, 10}, {172, 28, 0, 11}, {10, 213, 0, 99}, {10, 213, 0, 3}}},
        {"from before it came", true, {NET_UDP, {172, 28, 0, 10}, {172, 28, 0, 11}, {172, 28, 0, 11}, {10, 213, 0, 3}}},
        {"to one that has left", true, {NET_UDP, {172, 28, 0, 10}, {172, 28, 0, 12}, {10, 213, 0, 5}, {10, 213, 0, 3}}},
        {"to a free address", false, {NET_UDP, {172, 28, 0, 10}, {172, 28, 0, 12}, {172, 28, 0, 12}, {10, 213, 0, 3}}},
        {"to the gateway", false, {NET_UDP, {172, 28, 0, 10}, {172, 28, 0, 1}, {10, 213, 0, 2}, {10, 213, 0, 3}}},
        {"to a name server", false, {NET_UDP, {172, 28, 0, 10}, {172, 28, 0, 53}, {172, 28, 0, 53}, {10, 213, 0, 3}}},
        {"to the internet", false, {NET_UDP, {172, 28, 0, 10}, {8, 8, 8, 8}, {8, 8, 8, 8}, {10, 213, 0, 3}}},
        {"for the resolver", false, {NET_UDP, {172, 28, 0, 10}, {8, 8, 8, 8}, {127, 0, 0, 1}, {172, 28, 0, 10}}},
        {"for the names", false, {NET_UDP, {127, 0, 0, 1}, {127, 0, 0, 11}, {127, 0, 0, 1}, {127, 0, 0, 1}}},
        {"from a member", false, {NET_UDP, {10, 213, 0, 5}, {10, 213, 0, 3}, {172, 28, 0, 10}, {172, 28, 0, 11}}},
        {"from a member as another", true, {NET_UDP, {10, 213, 0, 5}, {10, 213, 0, 3}, {172, 28, 0, 10}, {172, 28, 0, 12}}},
        {"from a member, plain", false, {NET_UDP, {10, 213, 0, 5}, {10, 213, 0, 3}, {10, 213, 0, 3}, {10, 213, 0, 5}}},
        {"from a former one", true, {NET_UDP, {10, 213, 0, 99}, {10, 213, 0, 3}, {172, 28, 0, 10}, {172, 28, 0, 12}}},
        {"of ICMP", true, {1, {172, 28, 0, 10}, {172, 28, 0, 12}, {10, 213, 0, 5}, {10, 213, 0, 3}}},
        /* clang-format on */
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        CHECK_STR(lan_flow_is_stale(&view, &rows[i].f) == rows[i].stale ? "" : rows[i].what, "");
}

static void put_tuple(struct nl_msg *m, int attr, const uint8_t from[4], const uint8_t to[4])
{
    struct nlattr *tuple = nla_nest_start(m, attr), *part = nla_nest_start(m, CTA_TUPLE_IP);
    const uint8_t proto = NET_UDP;

    (void)nla_put(m, CTA_IP_V4_SRC, 4, from);
    (void)nla_put(m, CTA_IP_V4_DST, 4, to);
    (void)nla_nest_end(m, part);
    part = nla_nest_start(m, CTA_TUPLE_PROTO);
    (void)nla_put(m, CTA_PROTO_NUM, 1, &proto);
    (void)nla_nest_end(m, part);
    (void)nla_nest_end(m, tuple);
}

TEST(messages_of_conntrack_are_parsed)
{
    const struct nfgenmsg g = {.nfgen_family = AF_INET};
    struct nl_msg *m = nlmsg_alloc();
    struct nlmsghdr *h = nlmsg_put(m, 0, 0, NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_NEW, 0, 0);
    struct lan_flow f = {.proto = 0};

    (void)memcpy(nlmsg_reserve(m, sizeof(g), NLMSG_ALIGNTO), &g, sizeof(g));
    CHECK_INT(lan_flow_parse(nlmsg_hdr(m), &f), 0);
    put_tuple(m, CTA_TUPLE_ORIG, peers[0].lan, peers[1].lan);
    CHECK_INT(lan_flow_parse(nlmsg_hdr(m), &f), 0); /* of one direction alone */
    put_tuple(m, CTA_TUPLE_REPLY, peers[2].lan, peers[3].lan);
    CHECK_INT(lan_flow_parse(nlmsg_hdr(m), &f), 1);
    CHECK_INT(f.proto, NET_UDP);
    CHECK(memcmp(f.from, peers[0].lan, 4) == 0 && memcmp(f.to, peers[1].lan, 4) == 0);
    CHECK(memcmp(f.reply_from, peers[2].lan, 4) == 0 && memcmp(f.reply_to, peers[3].lan, 4) == 0);
    h = nlmsg_hdr(m);
    h->nlmsg_type = NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_DELETE;
    CHECK_INT(lan_flow_parse(h, &f), 0);
    h->nlmsg_type = NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_NEW;
    h->nlmsg_len = NLMSG_HDRLEN;
    CHECK_INT(lan_flow_parse(h, &f), 0); /* truncated */
    nlmsg_free(m);
}

TAP_MAIN
