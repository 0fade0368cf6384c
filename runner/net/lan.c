/*
 * The table of a sandbox in networks with a subnet: four rules, which do not change, and three maps
 * of addresses, which follow the members. Runs in the launcher; called by net.c.
 */
#include "net/lan.h"

#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter_ipv4.h>
#include <string.h>

#include "base/err.h"
#include "net/link.h"
#include "net/nft.h"

#define TABLE "rind-subnets"

enum { SADDR = 12, DADDR = 16 /* in an IPv4 header */ };

enum {
    ADDRESS_TYPE = 7, /* ipv4_addr, for display by nft(8) */
    CHUNK = 64,       /* elements of a message */
};

enum lan_map { TO_PEERS, TO_SELF, FROM_PEERS, LAN_MAPS };

static const char *const map_names[LAN_MAPS] = {
    [TO_PEERS] = "to-peers", [TO_SELF] = "to-self", [FROM_PEERS] = "from-peers"};

static const struct {
    const char *name;
    uint32_t hook;
    int32_t priority;
} chains[] = {
    /* Before the egress table, which leaves the pool's addresses alone. */
    {"output", NF_INET_LOCAL_OUT, NF_IP_PRI_NAT_DST - 1},
    {"postrouting", NF_INET_POST_ROUTING, NF_IP_PRI_NAT_SRC},
    {"prerouting", NF_INET_PRE_ROUTING, NF_IP_PRI_NAT_DST},
    {"input", NF_INET_LOCAL_IN, NF_IP_PRI_NAT_SRC},
};
enum { OUTPUT, POSTROUTING, PREROUTING, INPUT };

/* ---- rules ---- */

struct lan_rule {
    struct nft_expr x[NFT_EXPRS_MAX];
    size_t count;
};

static void rule_put(struct lan_rule *r, struct nft_expr x)
{
    x.reg = NFT_REG32_00;
    r->x[r->count++] = x;
}

static void rule_put_cmp(struct lan_rule *r, uint32_t op, const void *data, uint32_t len)
{
    struct nft_expr x = {.kind = X_CMP, .op = op, .len = len};

    (void)memcpy(x.data, data, len);
    rule_put(r, x);
}

/* key: NFT_META_IIFNAME, NFT_META_OIFNAME. */
static void rule_match_link(struct lan_rule *r, uint32_t key)
{
    static const char name[NFT_IFNAME_LEN] = NET_INSIDE;

    rule_put(r, (struct nft_expr){.kind = X_META, .key = key});
    rule_put_cmp(r, NFT_CMP_EQ, name, sizeof(name));
}

/* Loads the address at the offset of an IPv4 header. */
static void rule_load_address(struct lan_rule *r, uint32_t offset)
{
    static const uint8_t v4 = NFPROTO_IPV4;

    rule_put(r, (struct nft_expr){.kind = X_META, .key = NFT_META_NFPROTO});
    rule_put_cmp(r, NFT_CMP_EQ, &v4, 1);
    rule_put(r, (struct nft_expr){
                    .kind = X_PAYLOAD, .key = NFT_PAYLOAD_NETWORK_HEADER, .op = offset, .len = 4});
}

static void rule_map(struct lan_rule *r, enum lan_map map)
{
    rule_put(r, (struct nft_expr){.kind = X_MAP, .text = map_names[map]});
}

/* key: NFT_NAT_SNAT, NFT_NAT_DNAT. */
static void rule_add_nat(struct nft *n, size_t chain, struct lan_rule *r, uint32_t key)
{
    rule_put(r, (struct nft_expr){.kind = X_NAT4, .key = key});
    r->x[r->count] = (struct nft_expr){.kind = X_END};
    nft_add_rule(n, chains[chain].name, r->x);
    *r = (struct lan_rule){.count = 0};
}

static void lan_put_rules(struct nft *n, const struct net_setup *setup)
{
    struct nft_expr own = {.kind = X_ADDR, .len = 4};
    struct lan_rule r = {.count = 0};

    rule_load_address(&r, DADDR);
    rule_map(&r, TO_PEERS);
    rule_add_nat(n, OUTPUT, &r, NFT_NAT_DNAT);

    (void)memcpy(own.data, setup->sandbox4.bytes, 4);
    rule_match_link(&r, NFT_META_OIFNAME);
    rule_load_address(&r, SADDR);
    rule_put_cmp(&r, NFT_CMP_NEQ, setup->sandbox4.bytes, 4);
    rule_put(&r, own);
    rule_add_nat(n, POSTROUTING, &r, NFT_NAT_SNAT);

    rule_match_link(&r, NFT_META_IIFNAME);
    rule_load_address(&r, SADDR);
    rule_map(&r, TO_SELF);
    rule_add_nat(n, PREROUTING, &r, NFT_NAT_DNAT);

    rule_match_link(&r, NFT_META_IIFNAME);
    rule_load_address(&r, SADDR);
    rule_map(&r, FROM_PEERS);
    rule_add_nat(n, INPUT, &r, NFT_NAT_SNAT);
}

static void lan_put_table(struct nft *n, const struct net_setup *setup)
{
    nft_add_table(n);
    for (uint32_t i = 0; i < LAN_MAPS; i++)
        nft_add_map(n, map_names[i], ADDRESS_TYPE, 4, i + 1);
    for (size_t i = 0; i < sizeof(chains) / sizeof(chains[0]); i++)
        nft_add_chain(n, &(struct nft_chain){.name = chains[i].name,
                                             .type = "nat",
                                             .hook = chains[i].hook,
                                             .priority = chains[i].priority});
    lan_put_rules(n, setup);
}

/* ---- maps ---- */

struct map_chunk {
    struct nft *nft;
    enum lan_map map;
    struct nft_element list[CHUNK];
    size_t count;
};

static void chunk_flush(struct map_chunk *c)
{
    if (c->count > 0)
        nft_add_elements(c->nft, map_names[c->map], c->list, c->count);
    c->count = 0;
}

static void chunk_put(struct map_chunk *c, const uint8_t key[4], const uint8_t data[4])
{
    struct nft_element *e;

    if (c->count == CHUNK)
        chunk_flush(c);
    e = &c->list[c->count++];
    *e = (struct nft_element){.key_len = 4, .data_len = 4};
    (void)memcpy(e->key, key, 4);
    (void)memcpy(e->data, data, 4);
}

static void lan_put_map(struct nft *n, const struct lan_view *v, enum lan_map map)
{
    struct map_chunk c = {.nft = n, .map = map};

    nft_empty_set(n, map_names[map]);
    for (size_t i = 0; map == TO_PEERS && i < NET_GROUPS_MAX; i++) {
        const struct net_lan *lan = &v->setup->lan[i];

        if (lan->prefix != 0 && lan_gateway_counts(v, lan))
            chunk_put(&c, lan->gateway, v->setup->gateway4.bytes);
    }
    for (size_t i = 0; i < v->count; i++) {
        const struct net_lan_peer *p = &v->peers[i];
        const struct net_lan *lan = lan_of_peer(v, p);

        if (lan == NULL)
            continue;
        if (map == TO_PEERS && lan_to_peer(v, p->lan) == p)
            chunk_put(&c, p->lan, p->pool);
        else if (map == TO_SELF && lan_from_peer(v, p->pool) == p)
            chunk_put(&c, p->pool, lan->address);
        else if (map == FROM_PEERS && lan_from_peer(v, p->pool) == p)
            chunk_put(&c, p->pool, p->lan);
    }
    chunk_flush(&c);
}

static int lan_try_make(int nft, const struct lan_view *v, bool again, struct err *err)
{
    auto_nft struct nft n;

    nft_begin(&n, TABLE, 0);
    if (!again)
        lan_put_table(&n, v->setup);
    for (unsigned i = 0; i < LAN_MAPS; i++)
        lan_put_map(&n, v, (enum lan_map)i);
    return nft_commit(&n, nft, err);
}

static int lan_remove(int nft, struct err *err)
{
    auto_nft struct nft n;
    int r;

    nft_begin(&n, TABLE, 0);
    nft_delete_table(&n);
    r = nft_commit(&n, nft, err);
    return r == -ENOENT ? 0 : r;
}

int lan_make(int nft, const struct lan_view *v, struct err *err)
{
    int r;

    if (!net_setup_has_lan(v->setup))
        return lan_remove(nft, err);
    r = lan_try_make(nft, v, true, err);
    if (r == -ENOENT)
        r = lan_try_make(nft, v, false, err);
    if (r == -ENOENT)
        return err_set(err, -EOPNOTSUPP,
                       "subnet: this kernel's nftables cannot translate addresses (NFT_NAT)");
    return r < 0 ? err_wrap(err, r, "subnet") : 0;
}
