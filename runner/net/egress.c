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

#define TABLE       "rind-egress"
#define NAMES_TABLE "rind-names"

enum { LOOPBACK_INDEX = 1, DNS_PORT = 53, HTTP_PORT = 80, HTTPS_PORT = 443 };

/* A rule under construction. */
struct rule {
    struct nft_expr x[NFT_EXPRS_MAX];
    size_t count;
};

static void rule_put(struct rule *r, struct nft_expr x)
{
    assert(r->count + 1 < NFT_EXPRS_MAX); /* a dropped expression would make the rule match more */
    r->x[r->count++] = x;
}

static void rule_match(struct rule *r, const void *data, uint32_t len)
{
    struct nft_expr x = {.kind = X_CMP, .op = NFT_CMP_EQ, .reg = NFT_REG32_00, .len = len};

    (void)memcpy(x.data, data, len);
    rule_put(r, x);
}

static void rule_match_meta(struct rule *r, uint32_t key, const void *data, uint32_t len)
{
    rule_put(r, (struct nft_expr){.kind = X_META, .key = key, .reg = NFT_REG32_00});
    rule_match(r, data, len);
}

static void rule_match_proto(struct rule *r, uint8_t proto)
{
    rule_match_meta(r, NFT_META_L4PROTO, &proto, 1);
}

static void rule_match_port(struct rule *r, uint16_t port)
{
    const uint8_t be[2] = {(uint8_t)(port >> 8), (uint8_t)port};

    rule_put(r, (struct nft_expr){.kind = X_PAYLOAD,
                                  .key = NFT_PAYLOAD_TRANSPORT_HEADER,
                                  .op = 2,
                                  .len = 2,
                                  .reg = NFT_REG32_00});
    rule_match(r, be, 2);
}

static void rule_match_to(struct rule *r, const uint8_t *bytes, uint8_t family, unsigned prefix)
{
    assert(r->count + NFT_MATCH_TO < NFT_EXPRS_MAX);
    r->count += nft_match_to(r->x + r->count, family, bytes, prefix);
}

static void rule_add(struct nft *n, const char *chain, struct rule *r, struct nft_expr last)
{
    rule_put(r, last);
    r->x[r->count] = (struct nft_expr){.kind = X_END};
    nft_add_rule(n, chain, r->x);
    *r = (struct rule){.count = 0};
}

static const struct nft_expr accept_ = {.kind = X_VERDICT, .key = NF_ACCEPT};
static const struct nft_expr drop = {.kind = X_VERDICT, .key = NF_DROP};
static const struct nft_expr reset = {.kind = X_REJECT, .key = NFT_REJECT_TCP_RST};
static const struct nft_expr prohibited = {
    .kind = X_REJECT, .key = NFT_REJECT_ICMPX_UNREACH, .op = NFT_REJECT_ICMPX_ADMIN_PROHIBITED};

static void rule_redirect(struct nft *n, const char *chain, struct rule *r, uint16_t port)
{
    rule_put(r, (struct nft_expr){.kind = X_PORT, .op = port, .reg = NFT_REG32_00});
    rule_add(n, chain, r, (struct nft_expr){.kind = X_REDIR, .reg = NFT_REG32_00});
}

/* Accepts what both chains leave alone. */
static void table_add_spared(struct nft *n, const char *chain, const struct egress_net *e)
{
    static const uint8_t loop4[4] = {127}, loop6[16] = {[15] = 1};
    const uint32_t mark = EGRESS_MARK;
    struct rule r = {.count = 0};

    rule_match_meta(&r, NFT_META_MARK, &mark, sizeof(mark));
    rule_add(n, chain, &r, accept_);
    rule_match_to(&r, loop4, 4, 8);
    rule_add(n, chain, &r, accept_);
    rule_match_to(&r, loop6, 6, 128);
    rule_add(n, chain, &r, accept_);
    if (!e->link)
        return;
    rule_match_to(&r, e->pool4.bytes, 4, e->pool4.prefix);
    rule_add(n, chain, &r, accept_);
    rule_match_to(&r, e->pool6.bytes, 6, e->pool6.prefix);
    rule_add(n, chain, &r, accept_);
}

static void table_add_nat(struct nft *n, const struct egress_net *e)
{
    static const char chain[] = "redirect";
    static const uint8_t names[4] = NAMES_BYTES;
    struct rule r = {.count = 0};

    nft_add_chain(n, &(struct nft_chain){.name = chain,
                                         .type = "nat",
                                         .hook = NF_INET_LOCAL_OUT,
                                         .priority = NF_IP_PRI_NAT_DST});
    if (e->link) {
        rule_match_to(&r, e->gateway4.bytes, 4, 32);
        rule_match_proto(&r, NET_TCP);
        rule_match_port(&r, EGRESS_PROXY_PORT);
        rule_redirect(n, chain, &r, EGRESS_TCP_PORT);
    }
    /* The name server of named networks is the resolver of the rules. */
    rule_match_to(&r, names, 4, 32);
    rule_match_proto(&r, NET_UDP);
    rule_match_port(&r, DNS_PORT);
    rule_redirect(n, chain, &r, EGRESS_DNS_PORT);
    rule_match_to(&r, names, 4, 32);
    rule_match_proto(&r, NET_TCP);
    rule_match_port(&r, DNS_PORT);
    rule_redirect(n, chain, &r, EGRESS_TCP_PORT);
    table_add_spared(n, chain, e);
    rule_match_proto(&r, NET_UDP);
    rule_match_port(&r, DNS_PORT);
    rule_redirect(n, chain, &r, EGRESS_DNS_PORT);
    rule_match_proto(&r, NET_TCP);
    rule_redirect(n, chain, &r, EGRESS_TCP_PORT);
}

static void table_add_filter(struct nft *n, const struct egress_net *e)
{
    static const uint16_t kept[] = {HTTP_PORT, HTTPS_PORT, DNS_PORT};
    static const uint8_t left[] = {NET_UDP, IPPROTO_ICMP, IPPROTO_ICMPV6};
    static const char chain[] = "filter";
    const bool open = e->table == EGRESS_TABLE_OPEN;
    struct rule r = {.count = 0};

    /* After nat: redirected packets go to loopback here. */
    nft_add_chain(n, &(struct nft_chain){.name = chain,
                                         .type = "filter",
                                         .hook = NF_INET_LOCAL_OUT,
                                         .priority = NF_IP_PRI_FILTER});
    table_add_spared(n, chain, e);
    /* Resets connections that are older than the table, and packets that conntrack calls invalid.
     */
    rule_match_proto(&r, NET_TCP);
    rule_add(n, chain, &r, reset);
    /* HTTP/3 would bypass the rules for HTTPS; clients fall back to TCP. DNS queries were
     * redirected, unless conntrack knows their flow from before. */
    for (size_t i = 0; open && i < sizeof(kept) / sizeof(kept[0]); i++) {
        rule_match_proto(&r, NET_UDP);
        rule_match_port(&r, kept[i]);
        rule_add(n, chain, &r, prohibited);
    }
    for (size_t i = 0; open && i < sizeof(left) / sizeof(left[0]); i++) {
        rule_match_proto(&r, left[i]);
        rule_add(n, chain, &r, accept_);
    }
    rule_add(n, chain, &r, drop);
}

static int table_try_make(int nft, const struct egress_net *e, bool again, struct err *err)
{
    auto_nft struct nft n;

    nft_begin(&n, TABLE, 0);
    if (again)
        nft_delete_table(&n);
    nft_add_table(&n);
    table_add_nat(&n, e);
    table_add_filter(&n, e);
    return nft_commit(&n, nft, err);
}

/* Adds or removes a default route to loopback. Without a route, connect() would fail before it
 * reaches the table. */
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

static int table_remove(int route, int nft, const struct egress_net *e, struct err *err)
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
        return table_remove(route, nft, e, err);
    r = table_try_make(nft, e, true, err);
    if (r == -ENOENT)
        r = table_try_make(nft, e, false, err);
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

/* ---- names of members ---- */

static int names_try_make(int nft, bool again, struct err *err)
{
    static const char chain[] = "redirect";
    static const uint8_t names[4] = NAMES_BYTES, protos[] = {NET_UDP, NET_TCP};
    struct rule r = {.count = 0};
    auto_nft struct nft n;

    nft_begin(&n, NAMES_TABLE, 0);
    if (again)
        nft_delete_table(&n);
    nft_add_table(&n);
    /* After the egress table, whose redirection counts where there is one. */
    nft_add_chain(&n, &(struct nft_chain){.name = chain,
                                          .type = "nat",
                                          .hook = NF_INET_LOCAL_OUT,
                                          .priority = NF_IP_PRI_NAT_DST + 1});
    for (size_t i = 0; i < sizeof(protos); i++) {
        rule_match_to(&r, names, 4, 32);
        rule_match_proto(&r, protos[i]);
        rule_match_port(&r, DNS_PORT);
        rule_redirect(&n, chain, &r, NAMES_PORT);
    }
    return nft_commit(&n, nft, err);
}

int egress_make_names(int nft, struct err *err)
{
    int r = names_try_make(nft, true, err);

    if (r == -ENOENT)
        r = names_try_make(nft, false, err);
    if (r == -ENOENT)
        return err_set(err, -EOPNOTSUPP, "names: this kernel's nftables cannot redirect");
    return r < 0 ? err_wrap(err, r, "names") : 0;
}
