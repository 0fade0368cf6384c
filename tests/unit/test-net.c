/* The parts of net/ that need no kernel: address pools, resolv.conf, netlink's answers, messages.
 */
#include <errno.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <sys/socket.h>

#include "base/err.h"
#include "net/conn-limit.h"
#include "net/netlink.h"
#include "net/nft.h"
#include "net/pool.h"
#include "net/resolv.h"
#include "net/ruleset-table.h"
#include "net/watch.h"
#include "tap.h"

/* Behind nft.h, which includes netinet/in.h in front of them. */
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>

/* ---- pools ---- */

static void route_to(struct pool_route *r, const char *text)
{
    *r = (struct pool_route){.configured = true};
    CHECK_INT(net_rule_parse(text, false, &r->to, NULL), 0);
}

static int choose(const char *const *pools, int family, const char *const *routes,
                  const char *server, char text[NET_RULE_TEXT_MAX], struct err *err)
{
    struct pool_route list[8];
    struct net_addr host;
    struct pool_taken taken = {.routes = list};
    struct net_rule pool;
    int r;

    for (; routes[taken.route_count] != NULL; taken.route_count++)
        route_to(&list[taken.route_count], routes[taken.route_count]);
    if (server != NULL) {
        CHECK_INT(net_addr_parse(server, &host), 0);
        taken.hosts = &host;
        taken.host_count = 1;
    }
    r = pool_choose(pools, family, &taken, &pool, err);
    if (r == 0)
        net_rule_format(&pool, text);
    return r;
}

TEST(the_first_pool_that_is_free)
{
    static const struct {
        const char *routes[4], *server, *pool4;
    } hosts[] = {
        {{NULL}, NULL, "10.213.0.0/19"},
        {{"0.0.0.0/0", "192.168.1.0/24", NULL}, NULL, "10.213.0.0/19"},
        {{"0.0.0.0/1", "128.0.0.0/1", NULL}, NULL, "10.213.0.0/19"},
        {{"10.0.0.0/8", NULL}, NULL, "172.29.64.0/19"},
        {{"10.213.31.255/32", NULL}, NULL, "172.29.64.0/19"},
        {{"10.213.32.0/19", NULL}, NULL, "10.213.0.0/19"},
        {{NULL}, "10.213.0.53", "172.29.64.0/19"},
        {{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", NULL}, NULL, "100.126.32.0/19"},
    };
    char text[NET_RULE_TEXT_MAX];

    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        CHECK_INT(choose(pool_defaults4, 4, hosts[i].routes, hosts[i].server, text, NULL), 0);
        CHECK_STR(text, hosts[i].pool4);
    }
    CHECK_INT(choose(pool_defaults6, 6, hosts[0].routes, NULL, text, NULL), 0);
    CHECK_STR(text, "[fd72:6e64:9c3a::]/64");
}

TEST(no_pool_is_free)
{
    static const char *const pools[] = {"10.1.0.0/16", "10.2.0.0/16", NULL};
    static const char *const routes[] = {"10.0.0.0/8", NULL};
    char text[NET_RULE_TEXT_MAX];
    struct err err = ERR_NONE;

    CHECK_INT(choose(pools, 4, routes, NULL, text, &err), -ENOSPC);
    CHECK_STR(err.msg, "no address range is free for sandboxes: 10.1.0.0/16 (the host has "
                       "10.0.0.0/8), 10.2.0.0/16 (the host has 10.0.0.0/8); set network.pool4 in "
                       "the configuration");
}

TEST(pools_that_are_none)
{
    struct net_rule r;
    struct err err = ERR_NONE;

    CHECK_INT(pool_parse("10.0.0.0/20", 4, &r, &err), -ERANGE);
    CHECK_STR(err.msg, "\"10.0.0.0/20\": must have room for 8192 addresses: /19 or shorter");
    CHECK_INT(pool_parse("10.0.0.0/8:80", 4, &r, NULL), -EINVAL);
    CHECK_INT(pool_parse("fd00::/64", 4, &r, NULL), -EINVAL);
    CHECK_INT(pool_parse("fd00::/116", 6, &r, NULL), -ERANGE);
    CHECK_INT(pool_parse("fd00::/115", 6, &r, NULL), 0);
}

TEST(addresses_of_slots)
{
    struct net_rule pool;
    struct net_addr a;
    char text[NET_ADDR_TEXT_MAX];

    CHECK_INT(pool_parse("10.213.0.0/19", 4, &pool, NULL), 0);
    a = pool_address(&pool, 0);
    net_addr_format(&a, text);
    CHECK_STR(text, "10.213.0.0");
    a = pool_address(&pool, 2 * POOL_SLOTS - 1);
    net_addr_format(&a, text);
    CHECK_STR(text, "10.213.31.255");
    CHECK_INT(pool_parse("fd00:1::/64", 6, &pool, NULL), 0);
    a = pool_address(&pool, 2 * POOL_SLOTS - 1);
    net_addr_format(&a, text);
    CHECK_STR(text, "fd00:1::1fff");
}

/* ---- resolv.conf ---- */

/* What was asked for stays, what is the host's goes and comes anew. */
TEST(lines_that_were_asked_for)
{
    static const char text[] = "search far.example\nnameserver 192.0.2.1\noptions timeout:9\n";
    static const struct {
        uint8_t own;
        const char *before, *forgotten, *after;
    } rows[] = {
        {0, "search a\noptions b\n", "", "search far.example\noptions timeout:9\n"},
        {NET_OWN_SEARCH, "search a\noptions b\n", "search a\n", "search a\noptions timeout:9\n"},
        {NET_OWN_OPTIONS, "search a\noptions b\n", "options b\n",
         "options b\nsearch far.example\n"},
        {NET_OWN_SEARCH | NET_OWN_OPTIONS, "search a\noptions b\n", "search a\noptions b\n",
         "search a\noptions b\n"},
        {NET_OWN_SEARCH, "options b\n", "", "options timeout:9\n"}, /* none was asked for */
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct net_setup setup = {.own_lines = rows[i].own};

        (void)snprintf(setup.search, sizeof(setup.search), "%s", rows[i].before);
        resolv_forget_lines(&setup);
        CHECK_STR(setup.search, rows[i].forgotten);
        (void)resolv_take(&setup, text, strlen(text));
        CHECK_STR(setup.search, rows[i].after);
    }
}

TEST(name_servers_that_can_be_asked)
{
    static const struct {
        const char *text, *servers, *search;
        bool v6, stub;
    } files[] = {
        {"", "", "", true, false},
        {"nameserver 127.0.0.53\noptions edns0 trust-ad\n", "", "options edns0 trust-ad\n", true,
         true},
        {"nameserver ::1\n", "", "", true, true},
        {"nameserver 1.2.3.4", "1.2.3.4 ", "", false, false},
        {"  nameserver 1.2.3.4\n", "", "", false, false},
        {"nameserver\t1.2.3.4 # why\r\nnameserver 5.6.7.8\r\n", "1.2.3.4 5.6.7.8 ", "", false,
         false},
        {"nameserver 1.1.1.1\nnameserver 2.2.2.2\nnameserver 3.3.3.3\nnameserver 4.4.4.4\n",
         "1.1.1.1 2.2.2.2 3.3.3.3 ", "", false, false},
        {"nameserver 2001:db8::1\nnameserver 9.9.9.9\n", "9.9.9.9 ", "", false, false},
        {"nameserver 2001:db8::1\n", "2001:db8::1 ", "", true, false},
        {"nameserver fe80::1%eth0\nnameserver 0.0.0.0\nnameserver ::\n", "", "", true, false},
        {"search a b\nsearch c\nsearching d\n", "", "search a b\nsearch c\n", true, false},
        {"search a\x1b[31m\n", "", "", true, false},
        {"nameserverx 1.2.3.4\nnameserver x\nnameserver\n\n\n", "", "", true, false},
    };

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        struct net_setup setup = {.route6 = files[i].v6};
        char all[256] = "", text[NET_ADDR_TEXT_MAX];

        printf("# file %zu\n", i);
        CHECK_INT(resolv_take(&setup, files[i].text, strlen(files[i].text)), files[i].stub);
        for (uint32_t k = 0; k < setup.dns_count; k++) {
            net_addr_format(&setup.dns[k], text);
            (void)strcat(strcat(all, text), " ");
        }
        CHECK_STR(all, files[i].servers);
        CHECK_STR(setup.search, files[i].search);
    }
}

TEST(a_long_search_list_is_left_out_whole)
{
    struct net_setup setup = {.dns_count = 0};
    char text[1024] = "search ";

    (void)memset(text + 7, 'a', 900);
    text[907] = '\n';
    (void)resolv_take(&setup, text, 908);
    CHECK_STR(setup.search, "");
}

/* ---- netlink's answers ---- */

struct answer {
    struct nlmsghdr h;
    int error;
    struct nlmsghdr about;
};

static struct answer make_answer(uint32_t seq, int error)
{
    return (struct answer){
        .h = {.nlmsg_len = sizeof(struct answer), .nlmsg_type = NLMSG_ERROR, .nlmsg_seq = seq},
        .error = error};
}

TEST(acknowledgements_and_errors)
{
    struct answer all[3] = {make_answer(1, 0), make_answer(2, -EEXIST), make_answer(3, -ENOENT)};
    struct nl_answers a = {.acks = 0};

    CHECK_INT(nl_feed(&a, all, sizeof(all), NULL, NULL), 0);
    CHECK_INT(a.acks, 3);
    CHECK_INT(a.error, -EEXIST);
    CHECK_INT(a.index, 1);
    CHECK_STR(a.text, "");
}

TEST(answers_that_are_none)
{
    struct answer one = make_answer(1, 0);
    struct nl_answers a = {.acks = 0};

    for (size_t len = 1; len < sizeof(one); len++)
        CHECK_INT(nl_feed(&a, &one, len, NULL, NULL), -EBADMSG);
    one.h.nlmsg_len = 3;
    CHECK_INT(nl_feed(&a, &one, sizeof(one), NULL, NULL), -EBADMSG);
    one.h.nlmsg_len = sizeof(one) + 1;
    CHECK_INT(nl_feed(&a, &one, sizeof(one), NULL, NULL), -EBADMSG);
    one = make_answer(1, 5); /* errors are negative */
    CHECK_INT(nl_feed(&a, &one, sizeof(one), NULL, NULL), -EBADMSG);
    CHECK_INT(nl_feed(&a, NULL, 0, NULL, NULL), 0);
}

TEST(the_kernels_words)
{
    struct {
        struct answer a;
        struct nlattr attr;
        char words[8];
    } m = {.a = make_answer(1, -EINVAL),
           .attr = {.nla_len = sizeof(struct nlattr) + 6, .nla_type = NLMSGERR_ATTR_MSG},
           .words = "wrong"};
    struct nl_answers a = {.acks = 0};

    m.a.h.nlmsg_len = sizeof(m);
    m.a.h.nlmsg_flags = NLM_F_ACK_TLVS;
    CHECK_INT(nl_feed(&a, &m, sizeof(m), NULL, NULL), 0);
    CHECK_STR(a.text, "wrong");
}

/* ---- routes ---- */

static struct nl_msg *make_route(int family, unsigned char len, const void *dst, size_t dst_len,
                                 unsigned flags)
{
    const struct rtmsg m = {.rtm_family = (unsigned char)family,
                            .rtm_dst_len = len,
                            .rtm_type = RTN_UNICAST,
                            .rtm_flags = flags};
    const int oif = 7;
    struct nl_msg *msg = nlmsg_alloc();

    (void)nlmsg_put(msg, 0, 0, RTM_NEWROUTE, 0, 0);
    (void)nlmsg_append(msg, (void *)(uintptr_t)&m, sizeof(m), NLMSG_ALIGNTO);
    (void)nla_put(msg, RTA_DST, (int)dst_len, dst);
    (void)nla_put(msg, RTA_OIF, sizeof(oif), &oif);
    return msg;
}

TEST(routes_of_the_host)
{
    static const uint8_t net[4] = {10, 1, 0, 0}, multicast[16] = {0xff};
    char text[NET_RULE_TEXT_MAX];
    struct pool_route r;
    struct nl_msg *m;

    m = make_route(AF_INET, 16, net, 4, 0);
    CHECK_INT(route_parse(nlmsg_hdr(m), &r), 1);
    net_rule_format(&r.to, text);
    CHECK_STR(text, "10.1.0.0/16");
    CHECK_INT(r.oif, 7);
    CHECK(r.configured && !r.ours);
    nlmsg_hdr(m)->nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)) - 1;
    CHECK_INT(route_parse(nlmsg_hdr(m), &r), -EBADMSG);
    nlmsg_free(m);

    m = make_route(AF_INET, 16, net, 3, 0); /* an address that is too short */
    CHECK_INT(route_parse(nlmsg_hdr(m), &r), -EBADMSG);
    nlmsg_free(m);
    m = make_route(AF_INET, 33, net, 4, 0);
    CHECK_INT(route_parse(nlmsg_hdr(m), &r), -EBADMSG);
    nlmsg_free(m);
    m = make_route(AF_INET, 32, net, 4, RTM_F_CLONED);
    CHECK_INT(route_parse(nlmsg_hdr(m), &r), 1);
    CHECK(!r.configured);
    nlmsg_free(m);
    m = make_route(AF_INET6, 8, multicast, 16, 0);
    CHECK_INT(route_parse(nlmsg_hdr(m), &r), 1);
    CHECK(!r.configured);
    nlmsg_free(m);
    m = make_route(AF_UNIX, 0, net, 4, 0);
    CHECK_INT(route_parse(nlmsg_hdr(m), &r), 0);
    nlmsg_free(m);
}

/* ---- messages of the firewall ---- */

struct keys {
    unsigned count;
    char text[3][NFT_DATA_MAX];
};

static int on_key(const uint8_t *key, size_t len, void *data)
{
    struct keys *k = data;

    if (k->count < 3)
        (void)memcpy(k->text[k->count], key, len);
    k->count++;
    return 0;
}

TEST(elements_there_and_back)
{
    struct nft_element e[2] = {{.key = "rind-1", .key_len = 16},
                               {.key = "rind-2", .key_len = 16, .jump = "box-2"}};
    struct keys k = {.count = 0};
    struct nft n;

    nft_begin(&n, "rind", 0);
    nft_add_elements(&n, "internet", e, 2);
    CHECK_INT(n.req.failed, 0);
    CHECK_INT(n.req.count, 2);
    /* What is dumped has the form of what is added. */
    CHECK_INT(nft_feed_elements(nlmsg_hdr(n.req.msgs[1]), on_key, &k), 0);
    CHECK_INT(k.count, 2);
    CHECK_STR(k.text[0], "rind-1");
    CHECK_STR(k.text[1], "rind-2");
    nlmsg_hdr(n.req.msgs[1])->nlmsg_len = 18;
    CHECK_INT(nft_feed_elements(nlmsg_hdr(n.req.msgs[1]), on_key, &k), -EBADMSG);
    nft_done(&n);
}

/* What nfnetlink_log sends: prefix and payload, and attributes that nobody asked for. */
static bool over(const char *prefix, const uint8_t *packet, size_t len,
                 struct conn_limit_event *ret)
{
    const struct nfgenmsg g = {.nfgen_family = 0, .version = NFNETLINK_V0};
    auto_nlreq struct nlreq q;

    nlreq_init(&q);
    nlreq_add(&q, NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET, 0, &g, sizeof(g));
    nl_put_u32(&q, NFULA_IFINDEX_INDEV, 7);
    nl_put_string(&q, NFULA_PREFIX, prefix);
    nl_put(&q, NFULA_PAYLOAD, packet, len);
    return conn_limit_parse(nlmsg_hdr(q.msgs[0]), ret);
}

TEST(who_is_over)
{
    static const uint8_t v4[20] = {0x45, [12] = 10, 213, 0, 1, 8, 8, 8, 8},
                         v6[40] = {0x60, [8] = 0xfd, 0x72, [23] = 1}, junk[40] = {0x50};
    struct conn_limit_event o;

    CHECK(over(CONN_LIMIT_FLOWS, v4, sizeof(v4), &o));
    CHECK_INT(o.bound, CONN_LIMIT_BOUND_FLOWS);
    CHECK_INT(o.from.family, 4);
    CHECK(memcmp(o.from.bytes, v4 + 12, 4) == 0);
    CHECK(over(CONN_LIMIT_RATES, v6, sizeof(v6), &o));
    CHECK_INT(o.bound, CONN_LIMIT_BOUND_RATES);
    CHECK_INT(o.from.family, 6);
    CHECK(memcmp(o.from.bytes, v6 + 8, 16) == 0);
    CHECK(over(CONN_LIMIT_ALL, v4, sizeof(v4), &o));
    CHECK_INT(o.bound, CONN_LIMIT_BOUND_ALL);
    CHECK(!over("flow", v4, sizeof(v4), &o));
    CHECK(!over("", v4, sizeof(v4), &o));
    CHECK(!over(CONN_LIMIT_FLOWS, v4, 15, &o));
    CHECK(!over(CONN_LIMIT_FLOWS, v4, 0, &o));
    CHECK(!over(CONN_LIMIT_FLOWS, v6, 23, &o));
    CHECK(!over(CONN_LIMIT_FLOWS, junk, sizeof(junk), &o));
}

TEST(what_others_do)
{
    static const struct nft_chain foreign = {"FORWARD", "filter", 2 /* NF_INET_FORWARD */, 0};
    char text[WATCH_TEXT_MAX] = "";
    struct nft n;

    nft_begin(&n, "rind", 0);
    nft_delete_table(&n);
    nft_add_table(&n);
    CHECK(watch_is_doubt(nlmsg_hdr(n.req.msgs[1]), "rind", 0));
    CHECK(!watch_is_doubt(nlmsg_hdr(n.req.msgs[1]), "rin", 0));
    CHECK(!watch_is_doubt(nlmsg_hdr(n.req.msgs[1]), "rind2", 0));
    nft_done(&n);

    nft_begin(&n, "filter", 0);
    nft_add_chain(&n, &foreign);
    CHECK(!watch_is_drop(nlmsg_hdr(n.req.msgs[1]), text)); /* accepts by default */
    nl_put_be32(&n.req, NFTA_CHAIN_POLICY, 0);             /* NF_DROP */
    CHECK(watch_is_drop(nlmsg_hdr(n.req.msgs[1]), text));
    CHECK_STR(text, "inet filter FORWARD");
    nft_done(&n);
}

/* What takes something away that closes something; but not what we do ourselves, nor what only lets
 * less through. */
TEST(what_opens_the_table)
{
    static const struct nft_element e = {.key_len = 16};
    static const struct {
        const char *set;
        bool doubt;
    } sets[] = {{"private4", true},  {"private6", true}, {"lists", true},   {"guarded", true},
                {"internet", false}, {"dns4", false},    {"source4", false}};
    enum { OTHER = 7, OWN = 8 };
    struct nft n;

    nft_begin(&n, "rind", 0);
    nft_delete_table(&n);
    nft_add_table(&n);
    nft_delete_chain(&n, "forward");
    nft_delete_set(&n, "lists");
    for (unsigned i = 1; i <= 4; i++) {
        nlmsg_hdr(n.req.msgs[i])->nlmsg_pid = OTHER;
        CHECK(watch_is_doubt(nlmsg_hdr(n.req.msgs[i]), "rind", OWN));
        CHECK(!watch_is_doubt(nlmsg_hdr(n.req.msgs[i]), "filter", OWN));
        nlmsg_hdr(n.req.msgs[i])->nlmsg_pid = OWN;
        CHECK_INT(watch_is_doubt(nlmsg_hdr(n.req.msgs[i]), "rind", OWN), i == 1);
    }
    nft_done(&n);
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
        nft_begin(&n, "rind", 0);
        nft_delete_element(&n, sets[i].set, &e);
        CHECK_INT(watch_is_doubt(nlmsg_hdr(n.req.msgs[1]), "rind", OWN), sets[i].doubt);
        CHECK(!watch_is_doubt(nlmsg_hdr(n.req.msgs[1]), "rin", OWN));
        nft_done(&n);
        nft_begin(&n, "rind", 0);
        nft_add_elements(&n, sets[i].set, &e, 1);
        CHECK(!watch_is_doubt(nlmsg_hdr(n.req.msgs[1]), "rind", OWN));
        nft_done(&n);
    }
}

TEST(the_whole_table_fits)
{
    struct nft n;

    nft_begin(&n, "rind", 0);
    ruleset_table(&n);
    CHECK_INT(n.req.failed, 0);
    CHECK(n.req.count > 40);
    nft_done(&n);
}

TEST(what_does_not_fit_is_told)
{
    const struct rtmsg m = {.rtm_family = AF_INET};
    char big[2 * NLMSG_BYTES] = "";
    struct err err = ERR_NONE;
    struct nlreq q;

    nlreq_init(&q);
    nlreq_add(&q, RTM_NEWROUTE, 0, &m, sizeof(m));
    nl_put(&q, RTA_DST, big, sizeof(big));
    CHECK_INT(nlreq_send(&q, -1, NULL, NULL, NULL, &err), -E2BIG);
    nlreq_done(&q);
    nlreq_init(&q);
    for (unsigned i = 0; i < NLREQ_MAX + 1; i++)
        nlreq_add(&q, RTM_NEWROUTE, 0, &m, sizeof(m));
    CHECK_INT(q.failed, -E2BIG);
    nlreq_done(&q);
}

/* What ends a chain for all: bare, counted, or logged; not what has a condition, and not what lets
 * pass. */
TEST(rules_that_refuse_all)
{
    static const struct {
        struct nft_expr exprs[4];
        bool want;
    } rows[] = {
        {{{.kind = X_REJECT, .key = NFT_REJECT_TCP_RST}, {.kind = X_END}}, true},
        {{{.kind = X_VERDICT, .key = 0 /* NF_DROP */}, {.kind = X_END}}, true},
        {{{.kind = X_LOG, .key = 1, .len = 64, .text = "x"},
          {.kind = X_VERDICT, .key = 0},
          {.kind = X_END}},
         true},
        {{{.kind = X_VERDICT, .key = 1 /* NF_ACCEPT */}, {.kind = X_END}}, false},
        {{{.kind = X_VERDICT, .key = (uint32_t)NFT_GOTO, .text = "other"}, {.kind = X_END}}, false},
        {{{.kind = X_META, .key = NFT_META_IIFNAME, .reg = R(0)},
          {.kind = X_CMP, .op = NFT_CMP_EQ, .reg = R(0), .len = 4, .data = "eth0"},
          {.kind = X_REJECT, .key = NFT_REJECT_TCP_RST},
          {.kind = X_END}},
         false},
        {{{.kind = X_LIMIT, .key = 10, .op = 10}, {.kind = X_VERDICT, .key = 0}, {.kind = X_END}},
         false},
        {{{.kind = X_END}}, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[WATCH_TEXT_MAX] = "";
        struct nft n;

        nft_begin(&n, "firewalld", 0);
        nft_add_rule(&n, "filter_FORWARD", rows[i].exprs);
        CHECK_INT(n.req.failed, 0);
        if (watch_refuses_all(nlmsg_hdr(n.req.msgs[1]), text) != rows[i].want)
            tap_fail("row %zu", i);
        CHECK_STR(text, rows[i].want ? "inet firewalld filter_FORWARD" : "");
        CHECK(!watch_refuses_all(nlmsg_hdr(n.req.msgs[0]), text));
        nlmsg_hdr(n.req.msgs[1])->nlmsg_len = 30; /* cut off: no attribute is whole */
        CHECK(!watch_refuses_all(nlmsg_hdr(n.req.msgs[1]), text));
        nft_done(&n);
    }
}

TAP_MAIN
