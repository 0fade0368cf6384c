/*
 * The static part of the table, as data.
 *
 *   prerouting  -300  a sandbox sends only from its own addresses, and only it sends from them.
 *                     Before connection tracking: a packet dropped here leaves no entry.
 *   input        -10  from a sandbox: allowed ports of its gateway address, and no others
 *   forward      -10  to a sandbox: replies, and members of the same named network.
 *                     From a sandbox: its lists, then the internet if allowed; no packet that
 *                     conntrack cannot classify, as it would not be masqueraded
 *   bound-*       -9  new connections: no more than the sandbox's share of the host's conntrack
 *                     table, and than that of all sandboxes; a refused one leaves no entry
 *   output       -10  to a sandbox: replies only; ports are reached from inside (launch/connect.c)
 *   postrouting  100  masquerades what a sandbox sends elsewhere
 *
 * A connection goes on only if this table has let it begin: the first packet of one that passes
 * gets a label. So one that began while another program had removed the rules has none, and is
 * refused. The label stays with the connection when the table is removed and made again.
 *
 * The priorities come before other programs' filters at 0: their accept does not override these
 * rules, while they still see what is accepted here.
 */
#include "net/ruleset-table.h"

#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter_ipv4.h>
#include <string.h>

#include "base/hash.h"
#include "net/conn-limit.h"
#include "net/ruleset.h"
#include "policy/internet.h"

/* Key types as nft(8) numbers them, for display; a concatenation has six bits for each. */
enum {
    TYPE_INTEGER = 4,
    TYPE_IPV4 = 7,
    TYPE_IPV6 = 8,
    TYPE_PROTO = 12,
    TYPE_PORT = 13,
    TYPE_IFNAME = SET_TYPE_IFNAME,
};
#define TWO(a, b)        ((uint32_t)(a) << 6 | (b))
#define THREE(a, b, c)   (TWO(a, b) << 6 | (c))
#define FOUR(a, b, c, d) (THREE(a, b, c) << 6 | (d))

/* clang-format off */
static const struct nft_set sets[] = {
    {SET_SOURCE4,  TWO(TYPE_IFNAME, TYPE_IPV4), 20, 0, false},
    {SET_SOURCE6,  TWO(TYPE_IFNAME, TYPE_IPV6), 32, 0, false},
    {SET_BOXES4,   TYPE_IPV4, 4, 0, false},
    {SET_BOXES6,   TYPE_IPV6, 16, 0, false},
    {SET_INTERNET, TYPE_IFNAME, 16, 0, true},
    {SET_LISTS,    TYPE_IFNAME, 16, NFT_SET_MAP, true},
    {SET_HOST4,    FOUR(TYPE_IFNAME, TYPE_IPV4, TYPE_PROTO, TYPE_PORT), 28, 0, false},
    {SET_HOST6,    FOUR(TYPE_IFNAME, TYPE_IPV6, TYPE_PROTO, TYPE_PORT), 40, 0, false},
    {SET_DNS4,     THREE(TYPE_IPV4, TYPE_PROTO, TYPE_PORT), 12, 0, false},
    {SET_DNS6,     THREE(TYPE_IPV6, TYPE_PROTO, TYPE_PORT), 24, 0, false},
    {SET_GROUPS,   TYPE_IFNAME, 16, NFT_SET_MAP, true},
    {SET_GUARDED,  TYPE_IFNAME, 16, 0, true},
    {SET_PRIVATE4,   TYPE_IPV4, 4, NFT_SET_INTERVAL, false},
    {SET_PRIVATE6,   TYPE_IPV6, 16, NFT_SET_INTERVAL, false},
}, bound_sets[] = {
    {SET_FLOWS,    TYPE_IFNAME, 16, NFT_SET_EVAL, true},
    {SET_RATES,    TYPE_IFNAME, 16, NFT_SET_EVAL, true},
}, over_sets[] = {
    {SET_TOLD,     TYPE_IFNAME, 16, NFT_SET_EVAL, true},
    {SET_SHARES,   TYPE_INTEGER, 4, NFT_SET_EVAL, true},
};

static const struct nft_chain chains[] = {
    {CHAIN_REFUSE,  NULL,     0, 0},
    {"internet",    NULL,     0, 0},
    {"prerouting",  "filter", NF_INET_PRE_ROUTING,  NF_IP_PRI_RAW},
    {"input",       "filter", NF_INET_LOCAL_IN,     NF_IP_PRI_FILTER - 10},
    {"forward",     "filter", NF_INET_FORWARD,      NF_IP_PRI_FILTER - 10},
    {"output",      "filter", NF_INET_LOCAL_OUT,    NF_IP_PRI_FILTER - 10},
    {"postrouting", "nat",    NF_INET_POST_ROUTING, NF_IP_PRI_NAT_SRC},
}, over_chains[] = {
    {CHAIN_OVER_FLOWS, NULL, 0, 0},
    {CHAIN_OVER_RATES, NULL, 0, 0},
    {CHAIN_OVER_ALL,   NULL, 0, 0},
    {CHAIN_BOUND_ALL,  NULL, 0, 0},
}, bound_chains[] = {
    {"bound-input",   "filter", NF_INET_LOCAL_IN, NF_IP_PRI_FILTER - 9},
    {"bound-forward", "filter", NF_INET_FORWARD,  NF_IP_PRI_FILTER - 9},
};

#define META(what, to)        {.kind = X_META, .key = (what), .reg = (to)}
#define CMP(how, from, n, ...) {.kind = X_CMP, .op = (how), .reg = (from), .len = (n), .data = __VA_ARGS__}
#define OURS(what, how)       META(what, R(0)), CMP(how, R(0), sizeof(NET_LINK_PREFIX) - 1, NET_LINK_PREFIX)
#define FROM_US  OURS(NFT_META_IIFNAME, NFT_CMP_EQ)
#define TO_US    OURS(NFT_META_OIFNAME, NFT_CMP_EQ)
#define NOT_FROM_US OURS(NFT_META_IIFNAME, NFT_CMP_NEQ)
#define NOT_TO_US OURS(NFT_META_OIFNAME, NFT_CMP_NEQ)
#define V4       META(NFT_META_NFPROTO, R(0)), CMP(NFT_CMP_EQ, R(0), 1, {NFPROTO_IPV4})
#define V6       META(NFT_META_NFPROTO, R(0)), CMP(NFT_CMP_EQ, R(0), 1, {NFPROTO_IPV6})
#define TCP      META(NFT_META_L4PROTO, R(0)), CMP(NFT_CMP_EQ, R(0), 1, {NET_TCP})
#define NET(at, n, to) {.kind = X_PAYLOAD, .key = NFT_PAYLOAD_NETWORK_HEADER, .op = (at), .len = (n), .reg = (to)}
#define SADDR4(to) NET(12, 4, to)
#define DADDR4(to) NET(16, 4, to)
#define SADDR6(to) NET(8, 16, to)
#define DADDR6(to) NET(24, 16, to)
#define DPORT(to) {.kind = X_PAYLOAD, .key = NFT_PAYLOAD_TRANSPORT_HEADER, .op = 2, .len = 2, .reg = (to)}
#define IN(set, from) {.kind = X_LOOKUP, .text = (set), .reg = (from)}
#define PORTS(to) {.kind = X_PAYLOAD, .key = NFT_PAYLOAD_TRANSPORT_HEADER, .op = 0, .len = 4, .reg = (to)}
#define LOG(word) {.kind = X_LOG, .key = CONN_LIMIT_GROUP, .len = CONN_LIMIT_BYTES, .text = (word)}
#define ACCEPT   {.kind = X_VERDICT, .key = NF_ACCEPT}
#define DROP     {.kind = X_VERDICT, .key = NF_DROP}
#define GOTO(c)  {.kind = X_VERDICT, .key = (uint32_t)NFT_GOTO, .text = (c)}
#define JUMP(c)  {.kind = X_VERDICT, .key = (uint32_t)NFT_JUMP, .text = (c)}

/* Bits of struct nf_conn's state in host byte order; only the lowest byte is used. */
#define STATE_BIT(state) (1 << ((state) + 1))
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define WORD(b) {(uint8_t)((b) & 0xff), (uint8_t)((b) >> 8 & 0xff), 0, 0}
#else
#define WORD(b) {0, 0, (uint8_t)((b) >> 8 & 0xff), (uint8_t)((b) & 0xff)}
#endif
#define CT_ANY(what, bits) {.kind = X_CT, .key = (what), .reg = R(0)}, \
                           {.kind = X_MASK, .reg = R(0), .len = 4, .data = WORD(bits)}, \
                           CMP(NFT_CMP_NEQ, R(0), 4, {0})
#define CT_NONE(what, bits) {.kind = X_CT, .key = (what), .reg = R(0)}, \
                           {.kind = X_MASK, .reg = R(0), .len = 4, .data = WORD(bits)}, \
                           CMP(NFT_CMP_EQ, R(0), 4, {0})
#define REPLIES CT_ANY(NFT_CT_STATE, STATE_BIT(IP_CT_ESTABLISHED) | STATE_BIT(IP_CT_RELATED))
/* An error or reset about a connection, also about a refused one, which has no label. */
#define ERRORS  CT_ANY(NFT_CT_STATE, STATE_BIT(IP_CT_RELATED))
/* A packet of a connection that an earlier packet has begun. */
#define EARLIER CT_ANY(NFT_CT_STATUS, IPS_CONFIRMED)
#define LABEL   {.kind = X_CT, .key = NFT_CT_LABELS, .reg = R(0)}, \
                {.kind = X_MASK, .reg = R(0), .len = LABEL_BYTES, .data = RULESET_LABEL}
#define BEGUN     LABEL, CMP(NFT_CMP_NEQ, R(0), LABEL_BYTES, {0})
#define NOT_BEGUN LABEL, CMP(NFT_CMP_EQ, R(0), LABEL_BYTES, {0})
#define BEGIN   {.kind = X_DATA, .reg = R(0), .len = LABEL_BYTES, .data = RULESET_LABEL}, \
                {.kind = X_CT_SET, .key = NFT_CT_LABELS, .reg = R(0)}
#define NEW     CT_ANY(NFT_CT_STATE, STATE_BIT(IP_CT_NEW))
#define GOES_ON CT_ANY(NFT_CT_STATE, STATE_BIT(IP_CT_ESTABLISHED))
#define UNKNOWN CT_ANY(NFT_CT_STATE, NF_CT_STATE_INVALID_BIT | NF_CT_STATE_UNTRACKED_BIT)
/* An ICMP error about a connection that this very sandbox began. A process with raw sockets can
 * forge errors about any connection, and conntrack takes each for a part of that connection. */
#define BEGUN_BY(origin, set) CT_ANY(NFT_CT_STATE, STATE_BIT(IP_CT_RELATED)), META(NFT_META_IIFNAME, R(0)), \
                           {.kind = X_CT_ORIG, .key = (origin), .reg = R(4)}, IN(set, R(0))
#define OWN_ERROR4 BEGUN_BY(NFT_CT_SRC_IP, SET_SOURCE4)
#define OWN_ERROR6 BEGUN_BY(NFT_CT_SRC_IP6, SET_SOURCE6)

static const struct ruleset_rule {
    const char *chain;
    struct nft_expr exprs[NFT_EXPRS_MAX];
} rules[] = {
    {CHAIN_REFUSE, {TCP, {.kind = X_REJECT, .key = NFT_REJECT_TCP_RST}}},
    {CHAIN_REFUSE, {{.kind = X_REJECT, .key = NFT_REJECT_ICMPX_UNREACH, .op = NFT_REJECT_ICMPX_ADMIN_PROHIBITED}}},

    /* The host's own name servers may have private addresses: only DNS is allowed there. */
    {"internet", {V4, DADDR4(R(0)), META(NFT_META_L4PROTO, R(1)), DPORT(R(2)), IN(SET_DNS4, R(0)), ACCEPT}},
    {"internet", {V6, DADDR6(R(0)), META(NFT_META_L4PROTO, R(4)), DPORT(R(5)), IN(SET_DNS6, R(0)), ACCEPT}},
    {"internet", {V4, DADDR4(R(0)), IN(SET_PRIVATE4, R(0)), GOTO(CHAIN_REFUSE)}},
    {"internet", {V6, DADDR6(R(0)), IN(SET_PRIVATE6, R(0)), GOTO(CHAIN_REFUSE)}},
    {"internet", {ACCEPT}},

    {"prerouting", {FROM_US, V4, META(NFT_META_IIFNAME, R(0)), SADDR4(R(4)), IN(SET_SOURCE4, R(0)), ACCEPT}},
    {"prerouting", {FROM_US, V6, META(NFT_META_IIFNAME, R(0)), SADDR6(R(4)), IN(SET_SOURCE6, R(0)), ACCEPT}},
    {"prerouting", {FROM_US, DROP}},
    {"prerouting", {V4, SADDR4(R(0)), IN(SET_BOXES4, R(0)), DROP}},
    {"prerouting", {V6, SADDR6(R(0)), IN(SET_BOXES6, R(0)), DROP}},

    {"input", {FROM_US, GOES_ON, BEGUN, ACCEPT}},
    {"input", {FROM_US, V4, OWN_ERROR4, BEGUN, ACCEPT}},
    {"input", {FROM_US, V6, OWN_ERROR6, BEGUN, ACCEPT}},
    {"input", {FROM_US, EARLIER, NOT_BEGUN, GOTO(CHAIN_REFUSE)}},
    {"input", {FROM_US, V4, META(NFT_META_IIFNAME, R(0)), DADDR4(R(4)), META(NFT_META_L4PROTO, R(5)), DPORT(R(6)), IN(SET_HOST4, R(0)), ACCEPT}},
    {"input", {FROM_US, V6, META(NFT_META_IIFNAME, R(0)), DADDR6(R(4)), META(NFT_META_L4PROTO, R(8)), DPORT(R(9)), IN(SET_HOST6, R(0)), ACCEPT}},
    {"input", {FROM_US, GOTO(CHAIN_REFUSE)}},

    {"forward", {NOT_FROM_US, TO_US, REPLIES, BEGUN, ACCEPT}},
    {"forward", {TO_US, META(NFT_META_IIFNAME, R(0)), {.kind = X_VMAP, .text = SET_GROUPS, .reg = R(0)}}},
    {"forward", {FROM_US, TO_US, GOTO(CHAIN_REFUSE)}},
    {"forward", {TO_US, DROP}},
    {"forward", {FROM_US, GOES_ON, BEGUN, ACCEPT}},
    {"forward", {FROM_US, V4, OWN_ERROR4, BEGUN, ACCEPT}},
    {"forward", {FROM_US, V6, OWN_ERROR6, BEGUN, ACCEPT}},
    {"forward", {FROM_US, UNKNOWN, DROP}},
    {"forward", {FROM_US, EARLIER, NOT_BEGUN, GOTO(CHAIN_REFUSE)}},
    {"forward", {FROM_US, META(NFT_META_IIFNAME, R(0)), {.kind = X_VMAP, .text = SET_LISTS, .reg = R(0)}}},
    {"forward", {FROM_US, META(NFT_META_IIFNAME, R(0)), IN(SET_INTERNET, R(0)), JUMP("internet")}},
    {"forward", {FROM_US, GOTO(CHAIN_REFUSE)}},
    {"forward", {META(NFT_META_IIFNAME, R(0)), IN(SET_GUARDED, R(0)), NEW, CT_NONE(NFT_CT_STATUS, IPS_DST_NAT), DROP}},

    {"output", {TO_US, GOES_ON, BEGUN, ACCEPT}},
    {"output", {TO_US, ERRORS, ACCEPT}},
    {"output", {TO_US, DROP}},

    {"postrouting", {V4, SADDR4(R(0)), IN(SET_BOXES4, R(0)), NOT_TO_US, {.kind = X_MASQ}}},
    {"postrouting", {V6, SADDR6(R(0)), IN(SET_BOXES6, R(0)), NOT_TO_US, {.kind = X_MASQ}}},
}, bound_rules[] = {
    /* The rate comes first: what it refuses is not counted. */
    {"bound-input",   {NEW, META(NFT_META_IIFNAME, R(0)), IN(SET_RATES, R(0)), GOTO(CHAIN_OVER_RATES)}},
    {"bound-input",   {NEW, META(NFT_META_IIFNAME, R(0)), IN(SET_FLOWS, R(0)), GOTO(CHAIN_OVER_FLOWS)}},
    {"bound-input",   {FROM_US, NEW, JUMP(CHAIN_BOUND_ALL)}},
    {"bound-input",   {FROM_US, NEW, BEGIN}},
    {"bound-forward", {NEW, META(NFT_META_IIFNAME, R(0)), IN(SET_RATES, R(0)), GOTO(CHAIN_OVER_RATES)}},
    {"bound-forward", {NEW, META(NFT_META_IIFNAME, R(0)), IN(SET_FLOWS, R(0)), GOTO(CHAIN_OVER_FLOWS)}},
    {"bound-forward", {FROM_US, NEW, JUMP(CHAIN_BOUND_ALL)}},
    {"bound-forward", {FROM_US, NEW, BEGIN}},
}, told_rules[] = {
    /* Only the first packet of a day is reported. */
    {CHAIN_OVER_RATES, {META(NFT_META_IIFNAME, R(0)), IN(SET_TOLD, R(0)), LOG(CONN_LIMIT_RATES)}},
    {CHAIN_OVER_FLOWS, {META(NFT_META_IIFNAME, R(0)), IN(SET_TOLD, R(0)), LOG(CONN_LIMIT_FLOWS)}},
    {CHAIN_OVER_ALL,   {META(NFT_META_IIFNAME, R(0)), IN(SET_TOLD, R(0)), LOG(CONN_LIMIT_ALL)}},
}, over_rules[] = {
    {CHAIN_OVER_RATES, {GOTO(CHAIN_REFUSE)}},
    {CHAIN_OVER_FLOWS, {GOTO(CHAIN_REFUSE)}},
    {CHAIN_OVER_ALL,   {GOTO(CHAIN_REFUSE)}},
};
/* clang-format on */

enum { LISTS_MAX = 64 }; /* lists of the connections of all sandboxes */

static bool labels = true; /* false: this kernel has none */

bool ruleset_has_labels(void)
{
    return labels;
}

void ruleset_without_labels(void)
{
    labels = false;
}

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void set_add_ranges(struct nft *n, const char *set, const struct internet_range *ranges,
                           size_t count, uint32_t len)
{
    struct nft_element e[2 * INTERNET_RANGES_MAX];
    size_t used = 0;

    (void)memset(e, 0, sizeof(e));
    for (size_t i = 0; i < count; i++) {
        (void)memcpy(e[used].key, ranges[i].first, len);
        e[used++].key_len = len;
        if (ranges[i].open)
            continue;
        (void)memcpy(e[used].key, ranges[i].behind, len);
        e[used].key_len = len;
        e[used++].end = true;
    }
    nft_add_elements(n, set, e, used);
}

/* True for a rule that is left out where the kernel has no labels: it gives them, or refuses what
 * has none. */
static bool rule_needs_labels(const struct ruleset_rule *rule)
{
    for (const struct nft_expr *e = rule->exprs; e->kind != X_END; e++)
        if (e->kind == X_CT_SET ||
            (e->kind == X_CT && e->key == NFT_CT_LABELS && e[LABEL_EXPRS - 1].op == NFT_CMP_EQ))
            return true;
    return false;
}

/* Adds a rule; without the comparisons of labels where there are none. */
static void table_add_rule(struct nft *n, const struct ruleset_rule *rule)
{
    struct nft_expr x[NFT_EXPRS_MAX];
    size_t count = 0;

    if (labels) {
        nft_add_rule(n, rule->chain, rule->exprs);
        return;
    }
    if (rule_needs_labels(rule))
        return;
    for (const struct nft_expr *e = rule->exprs; e->kind != X_END; e++)
        if (e->kind == X_CT && e->key == NFT_CT_LABELS)
            e += LABEL_EXPRS - 1;
        else
            x[count++] = *e;
    x[count] = (struct nft_expr){.kind = X_END};
    nft_add_rule(n, rule->chain, x);
}

void ruleset_told_part(struct nft *n)
{
    for (size_t i = 0; i < COUNT(told_rules); i++)
        nft_insert_rule(n, told_rules[i].chain, told_rules[i].exprs);
}

/* Adds the chains for refused connections, before table_add_bounds, whose rules jump to them. */
static void table_add_over(struct nft *n)
{
    for (size_t i = 0; i < COUNT(over_sets); i++)
        nft_add_set(n, &over_sets[i], (uint32_t)(COUNT(sets) + COUNT(bound_sets) + i) + 1);
    for (size_t i = 0; i < COUNT(over_chains); i++)
        nft_add_chain(n, &over_chains[i]);
    for (size_t i = 0; i < COUNT(over_rules); i++)
        nft_add_rule(n, over_rules[i].chain, over_rules[i].exprs);
}

/* The kernel walks a list to find a connection that it counts. So there are several lists, and an
 * unpredictable hash assigns connections to them. */
void ruleset_all_part(struct nft *n, const struct ruleset_bounds *all)
{
    enum { IN_ONE = 256 };
    const uint32_t lists = all->flows / IN_ONE < 1           ? 1
                           : all->flows / IN_ONE > LISTS_MAX ? LISTS_MAX
                                                             : all->flows / IN_ONE;
    const struct nft_expr
        rate[] = {{.kind = X_LIMIT, .key = all->per_second, .op = all->burst},
                  GOTO(CHAIN_OVER_ALL),
                  {.kind = X_END}},
        flows4[] = {V4,
                    NET(12, 8, R(0)), /* both addresses */
                    PORTS(R(2)),
                    {.kind = X_HASH, .op = R(0), .len = 12, .key = lists, .reg = R(0)},
                    IN(SET_SHARES, R(0)),
                    GOTO(CHAIN_OVER_ALL),
                    {.kind = X_END}},
        flows6[] = {V6,
                    NET(8, 32, R(0)),
                    PORTS(R(8)),
                    {.kind = X_HASH, .op = R(0), .len = 36, .key = lists, .reg = R(0)},
                    IN(SET_SHARES, R(0)),
                    GOTO(CHAIN_OVER_ALL),
                    {.kind = X_END}};
    struct nft_element e[LISTS_MAX];

    (void)memset(e, 0, sizeof(e));
    for (uint32_t i = 0; i < lists; i++) {
        (void)memcpy(e[i].key, &i, sizeof(i));
        e[i].key_len = sizeof(i);
        e[i].count_over = all->flows / lists;
    }
    nft_add_elements(n, SET_SHARES, e, lists);
    nft_add_rule(n, CHAIN_BOUND_ALL, rate);
    nft_add_rule(n, CHAIN_BOUND_ALL, flows4);
    nft_add_rule(n, CHAIN_BOUND_ALL, flows6);
}

static void table_add_bounds(struct nft *n)
{
    for (size_t i = 0; i < COUNT(bound_sets); i++)
        nft_add_set(n, &bound_sets[i], (uint32_t)(COUNT(sets) + i) + 1);
    for (size_t i = 0; i < COUNT(bound_chains); i++)
        nft_add_chain(n, &bound_chains[i]);
    for (size_t i = 0; i < COUNT(bound_rules); i++)
        table_add_rule(n, &bound_rules[i]);
}

void ruleset_table(struct nft *n)
{
    const struct internet_range *ranges;
    size_t count;

    nft_add_table(n);
    for (size_t i = 0; i < COUNT(sets); i++)
        nft_add_set(n, &sets[i], (uint32_t)i + 1);
    ranges = internet_not4(&count);
    set_add_ranges(n, SET_PRIVATE4, ranges, count, 4);
    ranges = internet_not6(&count);
    set_add_ranges(n, SET_PRIVATE6, ranges, count, 16);
    for (size_t i = 0; i < COUNT(chains); i++)
        nft_add_chain(n, &chains[i]);
    for (size_t i = 0; i < COUNT(rules); i++)
        table_add_rule(n, &rules[i]);
    table_add_over(n);
    table_add_bounds(n);
}

/* ---- is it complete? ---- */

/* Counts the rules of each chain, which are consecutive in the list, and hashes them.
 * more: so many may have been added (ruleset_told_part); a rule of another program is one too many.
 */
static int check_rules(int sock, const struct ruleset_rule *list, size_t count, int more,
                       uint32_t *hash, struct err *err)
{
    int r = 1;

    for (size_t i = 0, next; r == 1 && i < count; i = next) {
        int wanted = 0;

        for (next = i; next < count && strcmp(list[next].chain, list[i].chain) == 0; next++)
            wanted += labels || !rule_needs_labels(&list[next]);
        r = nft_hash_rules(sock, NFPROTO_INET, NET_TABLE, list[i].chain, hash, err);
        r = r < 0 ? r : r >= wanted && r <= wanted + more;
    }
    return r;
}

static int count_key(const uint8_t *key, size_t len, void *data)
{
    (void)key;
    (void)len;
    (*(size_t *)data)++;
    return 0;
}

static int check_ranges(int sock, const char *set, const struct internet_range *ranges,
                        size_t count, struct err *err)
{
    size_t wanted = 0, found = 0;
    int r;

    for (size_t i = 0; i < count; i++)
        wanted += ranges[i].open ? 1 : 2;
    r = nft_each_element(sock, NET_TABLE, set, count_key, &found, err);
    return r < 0 && r != -ENOENT ? r : found >= wanted;
}

int ruleset_table_is_whole(int sock, uint32_t *ret_hash, struct err *err)
{
    size_t count4, count6;
    const struct internet_range *not4 = internet_not4(&count4), *not6 = internet_not6(&count6);
    uint32_t unused = HASH_BEGIN;
    int r;

    *ret_hash = HASH_BEGIN;
    r = check_rules(sock, rules, COUNT(rules), 0, ret_hash, err);
    if (r == 1)
        r = check_rules(sock, bound_rules, COUNT(bound_rules), 0, ret_hash, err);
    if (r == 1)
        r = check_rules(sock, over_rules, COUNT(over_rules), 1, &unused, err);
    if (r == 1)
        r = check_ranges(sock, SET_PRIVATE4, not4, count4, err);
    if (r == 1)
        r = check_ranges(sock, SET_PRIVATE6, not6, count6, err);
    return r;
}
