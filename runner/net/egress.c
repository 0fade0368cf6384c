#include "net/egress.h"

#include <assert.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter_ipv4.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "base/err.h"
#include "net/netlink.h"
#include "net/nft.h"
#include "policy/egress-net.h"

#define TABLE "rind-egress"

enum { LOOPBACK_INDEX = 1, DNS_PORT = 53, HTTP_PORT = 80, HTTPS_PORT = 443 };

/* One rule as it grows. */
struct rule {
    struct nft_expr x[NFT_EXPRS_MAX];
    size_t count;
};

static void put(struct rule *r, struct nft_expr x)
{
    assert(r->count + 1 < NFT_EXPRS_MAX); /* what is left out would match more */
    r->x[r->count++] = x;
}

static void match(struct rule *r, const void *data, uint32_t len)
{
    struct nft_expr x = {.kind = X_CMP, .op = NFT_CMP_EQ, .reg = NFT_REG32_00, .len = len};

    (void)memcpy(x.data, data, len);
    put(r, x);
}

static void match_meta(struct rule *r, uint32_t key, const void *data, uint32_t len)
{
    put(r, (struct nft_expr){.kind = X_META, .key = key, .reg = NFT_REG32_00});
    match(r, data, len);
}

static void match_proto(struct rule *r, uint8_t proto)
{
    match_meta(r, NFT_META_L4PROTO, &proto, 1);
}

static void match_port(struct rule *r, uint16_t port)
{
    const uint8_t be[2] = {(uint8_t)(port >> 8), (uint8_t)port};

    put(r, (struct nft_expr){.kind = X_PAYLOAD,
                             .key = NFT_PAYLOAD_TRANSPORT_HEADER,
                             .op = 2,
                             .len = 2,
                             .reg = NFT_REG32_00});
    match(r, be, 2);
}

static void match_to(struct rule *r, const uint8_t *bytes, uint8_t family, unsigned prefix)
{
    assert(r->count + NFT_MATCH_TO < NFT_EXPRS_MAX);
    r->count += nft_match_to(r->x + r->count, family, bytes, prefix);
}

static void add(struct nft *n, const char *chain, struct rule *r, struct nft_expr last)
{
    put(r, last);
    r->x[r->count] = (struct nft_expr){.kind = X_END};
    nft_add_rule(n, chain, r->x);
    *r = (struct rule){.count = 0};
}

static const struct nft_expr accept_ = {.kind = X_VERDICT, .key = NF_ACCEPT};
static const struct nft_expr drop = {.kind = X_VERDICT, .key = NF_DROP};
static const struct nft_expr reset = {.kind = X_REJECT, .key = NFT_REJECT_TCP_RST};
static const struct nft_expr prohibited = {
    .kind = X_REJECT, .key = NFT_REJECT_ICMPX_UNREACH, .op = NFT_REJECT_ICMPX_ADMIN_PROHIBITED};

static void redirect(struct nft *n, const char *chain, struct rule *r, uint16_t port)
{
    put(r, (struct nft_expr){.kind = X_PORT, .op = port, .reg = NFT_REG32_00});
    add(n, chain, r, (struct nft_expr){.kind = X_REDIR, .reg = NFT_REG32_00});
}

/* What both chains leave alone. */
static void add_spared(struct nft *n, const char *chain, const struct egress_net *e)
{
    static const uint8_t loop4[4] = {127}, loop6[16] = {[15] = 1};
    const uint32_t mark = EGRESS_MARK;
    struct rule r = {.count = 0};

    match_meta(&r, NFT_META_MARK, &mark, sizeof(mark));
    add(n, chain, &r, accept_);
    match_to(&r, loop4, 4, 8);
    add(n, chain, &r, accept_);
    match_to(&r, loop6, 6, 128);
    add(n, chain, &r, accept_);
    if (!e->link)
        return;
    match_to(&r, e->pool4.bytes, 4, e->pool4.prefix);
    add(n, chain, &r, accept_);
    match_to(&r, e->pool6.bytes, 6, e->pool6.prefix);
    add(n, chain, &r, accept_);
}

static void add_nat(struct nft *n, const struct egress_net *e)
{
    static const char chain[] = "redirect";
    struct rule r = {.count = 0};

    nft_add_chain(n, &(struct nft_chain){.name = chain,
                                         .type = "nat",
                                         .hook = NF_INET_LOCAL_OUT,
                                         .priority = NF_IP_PRI_NAT_DST});
    if (e->link) {
        match_to(&r, e->gateway4.bytes, 4, 32);
        match_proto(&r, NET_TCP);
        match_port(&r, EGRESS_PROXY_PORT);
        redirect(n, chain, &r, EGRESS_TCP_PORT);
    }
    add_spared(n, chain, e);
    match_proto(&r, NET_UDP);
    match_port(&r, DNS_PORT);
    redirect(n, chain, &r, EGRESS_DNS_PORT);
    match_proto(&r, NET_TCP);
    redirect(n, chain, &r, EGRESS_TCP_PORT);
}

static void add_filter(struct nft *n, const struct egress_net *e)
{
    static const uint16_t kept[] = {HTTP_PORT, HTTPS_PORT, DNS_PORT};
    static const uint8_t left[] = {NET_UDP, IPPROTO_ICMP, IPPROTO_ICMPV6};
    static const char chain[] = "filter";
    const bool open = e->table == EGRESS_TABLE_OPEN;
    struct rule r = {.count = 0};

    /* Behind nat: what was redirected goes to loopback here. */
    nft_add_chain(n, &(struct nft_chain){.name = chain,
                                         .type = "filter",
                                         .hook = NF_INET_LOCAL_OUT,
                                         .priority = NF_IP_PRI_FILTER});
    add_spared(n, chain, e);
    /* Connections that were there before the table, and what conntrack takes for nothing. */
    match_proto(&r, NET_TCP);
    add(n, chain, &r, reset);
    /* HTTP/3 would go past the rules for HTTPS; clients fall back to TCP. Questions for names were
     * redirected, unless conntrack knows their flow from elsewhere. */
    for (size_t i = 0; open && i < sizeof(kept) / sizeof(kept[0]); i++) {
        match_proto(&r, NET_UDP);
        match_port(&r, kept[i]);
        add(n, chain, &r, prohibited);
    }
    for (size_t i = 0; open && i < sizeof(left) / sizeof(left[0]); i++) {
        match_proto(&r, left[i]);
        add(n, chain, &r, accept_);
    }
    add(n, chain, &r, drop);
}

static int try_make(int nft, const struct egress_net *e, bool again, struct err *err)
{
    auto_nft struct nft n;

    nft_begin(&n, TABLE, 0);
    if (again)
        nft_delete_table(&n);
    nft_add_table(&n);
    add_nat(&n, e);
    add_filter(&n, e);
    return nft_commit(&n, nft, err);
}

/* So that a connect() gets as far as the table: without a way out there would be no route. */
static int route_to_loopback(int route, int family, bool add, struct err *err)
{
    static const uint8_t source4[4] = {127, 0, 0, 1};
    const struct rtmsg m = {.rtm_family = (unsigned char)(family == 4 ? AF_INET : AF_INET6),
                            .rtm_table = RT_TABLE_MAIN,
                            .rtm_protocol = RTPROT_STATIC,
                            .rtm_scope = family == 4 ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE,
                            .rtm_type = RTN_UNICAST};
    auto_nlreq struct nlreq q;
    int r;

    nlreq_init(&q);
    nlreq_add(&q, add ? RTM_NEWROUTE : RTM_DELROUTE,
              add ? NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK : NLM_F_ACK, &m, sizeof(m));
    nl_put_u32(&q, RTA_OIF, LOOPBACK_INDEX);
    if (family == 4)
        nl_put(&q, RTA_PREFSRC, source4, sizeof(source4));
    r = nlreq_send(&q, route, NULL, NULL, NULL, NULL);
    return r < 0 ? err_errno(err, r, "egress: route of IPv%d to loopback", family) : 0;
}

static int remove_table(int route, int nft, const struct egress_net *e, struct err *err)
{
    auto_nft struct nft n;
    int r;

    nft_begin(&n, TABLE, 0);
    nft_delete_table(&n);
    r = nft_commit(&n, nft, err);
    if (r < 0 && r != -ENOENT)
        return err_wrap(err, r, "egress");
    for (int family = 4; !e->link && family <= 6; family += 2) {
        r = route_to_loopback(route, family, false, err);
        if (r < 0 && r != -ESRCH && r != -EAFNOSUPPORT && r != -EOPNOTSUPP)
            return r;
    }
    return 0;
}

int egress_make(int route, int nft, const struct egress_net *e, struct err *err)
{
    int r;

    if (e->table == EGRESS_TABLE_NONE)
        return remove_table(route, nft, e, err);
    r = try_make(nft, e, true, err);
    if (r == -ENOENT)
        r = try_make(nft, e, false, err);
    if (r == -ENOENT)
        return err_set(err, -EOPNOTSUPP,
                       "egress: this kernel's nftables cannot redirect (NFT_NAT, NFT_REDIR, "
                       "NFT_REJECT_INET, NF_CONNTRACK)");
    if (r == 0 && !e->link)
        r = route_to_loopback(route, 4, true, err);
    if (r == 0 && !e->link)
        (void)route_to_loopback(route, 6, true, NULL); /* a host without IPv6 has none inside */
    return r < 0 ? err_wrap(err, r, "egress") : 0;
}
