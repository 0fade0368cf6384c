#include "net/nft.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_tuple_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"

enum {
    RULE_BYTES = 2048,
    ELEMENTS_BYTES = 16 << 10,
    DAY_S = 24 * 60 * 60,
};

/* ---- transactions ---- */

static void nft_add_batch(struct nft *n, uint16_t type, uint32_t genid)
{
    struct nfgenmsg g = {.nfgen_family = NFPROTO_UNSPEC, .version = NFNETLINK_V0};

    g.res_id = (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | NFNL_SUBSYS_NFTABLES >> 8); /* big endian */
    nlreq_add(&n->req, type, 0, &g, sizeof(g));
    if (genid != 0)
        nl_put_be32(&n->req, NFNL_BATCH_GENID, genid);
}

void nft_begin(struct nft *n, const char *table, uint32_t genid)
{
    nlreq_init(&n->req);
    n->table = table;
    n->family = NFPROTO_INET;
    nft_add_batch(n, NFNL_MSG_BATCH_BEGIN, genid);
}

void nft_begin_frames(struct nft *n, const char *table)
{
    nft_begin(n, table, 0);
    n->family = NFPROTO_NETDEV;
}

int nft_commit(struct nft *n, int sock, struct err *err)
{
    int r;

    nft_add_batch(n, NFNL_MSG_BATCH_END, 0);
    r = nlreq_send(&n->req, sock, NULL, NULL, NULL, err);
    return r < 0 ? err_wrap(err, r, "firewall") : 0;
}

void nft_done(struct nft *n)
{
    nlreq_done(&n->req);
}

static void nft_add_sized(struct nlreq *q, uint8_t family, int type, int flags, size_t bytes)
{
    const struct nfgenmsg g = {.nfgen_family = family, .version = NFNETLINK_V0};

    nlreq_add_large(q, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type), (uint16_t)(flags | NLM_F_ACK),
                    &g, sizeof(g), bytes);
}

static void nft_add_message(struct nft *n, int type, int flags)
{
    nft_add_sized(&n->req, n->family, type, flags, NLMSG_BYTES);
}

/* ---- objects ---- */

void nft_add_table(struct nft *n)
{
    nft_add_message(n, NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_EXCL);
    nl_put_string(&n->req, NFTA_TABLE_NAME, n->table);
}

void nft_delete_table(struct nft *n)
{
    nft_add_message(n, NFT_MSG_DELTABLE, 0);
    nl_put_string(&n->req, NFTA_TABLE_NAME, n->table);
}

void nft_add_chain_at(struct nft *n, const struct nft_chain *c, const char *device)
{
    struct nlattr *hook;

    nft_add_message(n, NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_EXCL);
    nl_put_string(&n->req, NFTA_CHAIN_TABLE, n->table);
    nl_put_string(&n->req, NFTA_CHAIN_NAME, c->name);
    if (c->type == NULL)
        return;
    nl_put_string(&n->req, NFTA_CHAIN_TYPE, c->type);
    hook = nl_nest(&n->req, NFTA_CHAIN_HOOK);
    nl_put_be32(&n->req, NFTA_HOOK_HOOKNUM, c->hook);
    nl_put_be32(&n->req, NFTA_HOOK_PRIORITY, (uint32_t)c->priority);
    if (device != NULL)
        nl_put_string(&n->req, NFTA_HOOK_DEV, device);
    nl_nest_end(&n->req, hook);
}

void nft_add_chain(struct nft *n, const struct nft_chain *c)
{
    nft_add_chain_at(n, c, NULL);
}

void nft_begin_chain(struct nft *n, const char *name)
{
    nft_add_message(n, NFT_MSG_NEWCHAIN, NLM_F_CREATE);
    nl_put_string(&n->req, NFTA_CHAIN_TABLE, n->table);
    nl_put_string(&n->req, NFTA_CHAIN_NAME, name);
    nft_add_message(n, NFT_MSG_DELRULE, 0);
    nl_put_string(&n->req, NFTA_RULE_TABLE, n->table);
    nl_put_string(&n->req, NFTA_RULE_CHAIN, name);
}

void nft_delete_chain(struct nft *n, const char *name)
{
    nft_add_message(n, NFT_MSG_DELCHAIN, 0);
    nl_put_string(&n->req, NFTA_CHAIN_TABLE, n->table);
    nl_put_string(&n->req, NFTA_CHAIN_NAME, name);
}

static const uint8_t host_order[] = {
    0, 4, 1, 0, 0, 0}; /* NFTNL_UDATA_SET_KEYBYTEORDER, its length, BYTEORDER_HOST_ENDIAN */

static void nft_put_set(struct nft *n, const struct nft_set *s, uint32_t id, int flags)
{
    nft_add_message(n, NFT_MSG_NEWSET, NLM_F_CREATE | flags);
    nl_put_string(&n->req, NFTA_SET_TABLE, n->table);
    nl_put_string(&n->req, NFTA_SET_NAME, s->name);
    nl_put_be32(&n->req, NFTA_SET_FLAGS, s->flags);
    nl_put_be32(&n->req, NFTA_SET_KEY_TYPE, s->key_type);
    nl_put_be32(&n->req, NFTA_SET_KEY_LEN, s->key_len);
    nl_put_be32(&n->req, NFTA_SET_ID, id);
    if ((s->flags & NFT_SET_MAP) != 0)
        nl_put_be32(&n->req, NFTA_SET_DATA_TYPE, NFT_DATA_VERDICT);
    /* Ignored by the kernel: tells nft(8) that the key is one word in host byte order. */
    if (s->host_order)
        nl_put(&n->req, NFTA_SET_USERDATA, host_order, sizeof(host_order));
}

void nft_add_set(struct nft *n, const struct nft_set *s, uint32_t id)
{
    nft_put_set(n, s, id, NLM_F_EXCL);
}

void nft_add_map(struct nft *n, const char *name, uint32_t type, uint32_t len, uint32_t id)
{
    const struct nft_set set = {.name = name, .key_type = type, .key_len = len};

    nft_put_set(n, &set, id, NLM_F_EXCL);
    nl_put_be32(&n->req, NFTA_SET_FLAGS, NFT_SET_MAP); /* the last one counts */
    nl_put_be32(&n->req, NFTA_SET_DATA_TYPE, type);
    nl_put_be32(&n->req, NFTA_SET_DATA_LEN, len);
}

void nft_have_set(struct nft *n, const struct nft_set *s, uint32_t id)
{
    nft_put_set(n, s, id, 0);
}

void nft_delete_set(struct nft *n, const char *name)
{
    nft_add_message(n, NFT_MSG_DELSET, 0);
    nl_put_string(&n->req, NFTA_SET_TABLE, n->table);
    nl_put_string(&n->req, NFTA_SET_NAME, name);
}

/* ---- rules ---- */

static void nft_put_data(struct nlreq *q, int attr, const void *data, size_t len)
{
    struct nlattr *nest = nl_nest(q, attr);

    nl_put(q, NFTA_DATA_VALUE, data, len);
    nl_nest_end(q, nest);
}

static void nft_put_verdict(struct nlreq *q, int attr, uint32_t code, const char *chain)
{
    struct nlattr *data = nl_nest(q, attr), *verdict = nl_nest(q, NFTA_DATA_VERDICT);

    nl_put_be32(q, NFTA_VERDICT_CODE, code);
    if (chain != NULL)
        nl_put_string(q, NFTA_VERDICT_CHAIN, chain);
    nl_nest_end(q, verdict);
    nl_nest_end(q, data);
}

static void expr_put_meta(struct nlreq *q, const struct nft_expr *x)
{
    nl_put_be32(q, NFTA_META_KEY, x->key);
    nl_put_be32(q, NFTA_META_DREG, x->reg);
}

static void expr_put_payload(struct nlreq *q, const struct nft_expr *x)
{
    nl_put_be32(q, NFTA_PAYLOAD_BASE, x->key);
    nl_put_be32(q, NFTA_PAYLOAD_OFFSET, x->op);
    nl_put_be32(q, NFTA_PAYLOAD_LEN, x->len);
    nl_put_be32(q, NFTA_PAYLOAD_DREG, x->reg);
}

static void expr_put_mask(struct nlreq *q, const struct nft_expr *x)
{
    const uint8_t zero[NFT_IFNAME_LEN] = {0};

    nl_put_be32(q, NFTA_BITWISE_SREG, x->reg);
    nl_put_be32(q, NFTA_BITWISE_DREG, x->reg);
    nl_put_be32(q, NFTA_BITWISE_LEN, x->len);
    nft_put_data(q, NFTA_BITWISE_MASK, x->data, x->len);
    nft_put_data(q, NFTA_BITWISE_XOR, zero, x->len);
}

static void expr_put_cmp(struct nlreq *q, const struct nft_expr *x)
{
    nl_put_be32(q, NFTA_CMP_SREG, x->reg);
    nl_put_be32(q, NFTA_CMP_OP, x->op);
    nft_put_data(q, NFTA_CMP_DATA, x->data, x->len);
}

static void expr_put_lookup(struct nlreq *q, const struct nft_expr *x)
{
    nl_put_string(q, NFTA_LOOKUP_SET, x->text);
    nl_put_be32(q, NFTA_LOOKUP_SREG, x->reg);
    if (x->kind == X_LOOKUP)
        nl_put_be32(q, NFTA_LOOKUP_FLAGS, x->op);
    else
        nl_put_be32(q, NFTA_LOOKUP_DREG, x->kind == X_MAP ? x->reg : NFT_REG_VERDICT);
}

static void expr_put_ct(struct nlreq *q, const struct nft_expr *x)
{
    nl_put_be32(q, NFTA_CT_KEY, x->key);
    nl_put_be32(q, NFTA_CT_DREG, x->reg);
    if (x->kind == X_CT_ORIG)
        nl_put_u8(q, NFTA_CT_DIRECTION, IP_CT_DIR_ORIGINAL);
}

static void expr_put_ct_set(struct nlreq *q, const struct nft_expr *x)
{
    nl_put_be32(q, NFTA_CT_KEY, x->key);
    nl_put_be32(q, NFTA_CT_SREG, x->reg);
}

static void expr_put_data(struct nlreq *q, const struct nft_expr *x)
{
    nl_put_be32(q, NFTA_IMMEDIATE_DREG, x->reg);
    nft_put_data(q, NFTA_IMMEDIATE_DATA, x->data, x->len);
}

static void expr_put_verdict(struct nlreq *q, const struct nft_expr *x)
{
    nl_put_be32(q, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
    nft_put_verdict(q, NFTA_IMMEDIATE_DATA, x->key, x->text);
}

static void expr_put_masq(struct nlreq *q, const struct nft_expr *x)
{
    (void)q;
    (void)x;
}

static void expr_put_reject(struct nlreq *q, const struct nft_expr *x)
{
    nl_put_be32(q, NFTA_REJECT_TYPE, x->key);
    nl_put_u8(q, NFTA_REJECT_ICMP_CODE, (uint8_t)x->op);
}

static void expr_put_port(struct nlreq *q, const struct nft_expr *x)
{
    const uint8_t be[2] = {(uint8_t)(x->op >> 8), (uint8_t)x->op};

    nl_put_be32(q, NFTA_IMMEDIATE_DREG, x->reg);
    nft_put_data(q, NFTA_IMMEDIATE_DATA, be, sizeof(be));
}

static void expr_put_addr(struct nlreq *q, const struct nft_expr *x)
{
    nl_put_be32(q, NFTA_IMMEDIATE_DREG, x->reg);
    nft_put_data(q, NFTA_IMMEDIATE_DATA, x->data, x->len);
}

static void expr_put_nat4(struct nlreq *q, const struct nft_expr *x)
{
    nl_put_be32(q, NFTA_NAT_TYPE, x->key);
    nl_put_be32(q, NFTA_NAT_FAMILY, NFPROTO_IPV4);
    nl_put_be32(q, NFTA_NAT_REG_ADDR_MIN, x->reg);
}

static void expr_put_redir(struct nlreq *q, const struct nft_expr *x)
{
    nl_put_be32(q, NFTA_REDIR_REG_PROTO_MIN, x->reg);
}

static void nft_put_be16(struct nlreq *q, int attr, uint32_t value)
{
    const uint8_t be[2] = {(uint8_t)(value >> 8), (uint8_t)value};

    nl_put(q, attr, be, sizeof(be));
}

static void nft_put_be64(struct nlreq *q, int attr, uint32_t value)
{
    const uint32_t be[2] = {0, htonl(value)};

    nl_put(q, attr, be, sizeof(be));
}

static void expr_put_log(struct nlreq *q, const struct nft_expr *x)
{
    nft_put_be16(q, NFTA_LOG_GROUP, x->key);
    nl_put_be32(q, NFTA_LOG_SNAPLEN, x->len);
    nft_put_be16(q, NFTA_LOG_QTHRESHOLD, 1); /* reported at once */
    nl_put_string(q, NFTA_LOG_PREFIX, x->text);
}

/* Without a seed the kernel chooses a random one. */
static void expr_put_hash(struct nlreq *q, const struct nft_expr *x)
{
    nl_put_be32(q, NFTA_HASH_SREG, x->op);
    nl_put_be32(q, NFTA_HASH_DREG, x->reg);
    nl_put_be32(q, NFTA_HASH_LEN, x->len);
    nl_put_be32(q, NFTA_HASH_MODULUS, x->key);
    nl_put_be32(q, NFTA_HASH_TYPE, NFT_HASH_JENKINS);
}

static void nft_put_limit(struct nlreq *q, uint32_t rate, uint32_t seconds, uint32_t burst,
                          uint32_t flags)
{
    nft_put_be64(q, NFTA_LIMIT_RATE, rate);
    nft_put_be64(q, NFTA_LIMIT_UNIT, seconds);
    nl_put_be32(q, NFTA_LIMIT_BURST, burst);
    nl_put_be32(q, NFTA_LIMIT_TYPE, NFT_LIMIT_PKTS);
    nl_put_be32(q, NFTA_LIMIT_FLAGS, flags);
}

static void expr_put_limit(struct nlreq *q, const struct nft_expr *x)
{
    nft_put_limit(q, x->key, 1, x->op, NFT_LIMIT_F_INV);
}

static const struct {
    const char *name;
    void (*put)(struct nlreq *q, const struct nft_expr *x);
} kinds[] = {
    [X_META] = {"meta", expr_put_meta},
    [X_PAYLOAD] = {"payload", expr_put_payload},
    [X_MASK] = {"bitwise", expr_put_mask},
    [X_CMP] = {"cmp", expr_put_cmp},
    [X_LOOKUP] = {"lookup", expr_put_lookup},
    [X_VMAP] = {"lookup", expr_put_lookup},
    [X_MAP] = {"lookup", expr_put_lookup},
    [X_CT] = {"ct", expr_put_ct},
    [X_CT_ORIG] = {"ct", expr_put_ct},
    [X_CT_SET] = {"ct", expr_put_ct_set},
    [X_DATA] = {"immediate", expr_put_data},
    [X_MASQ] = {"masq", expr_put_masq},
    [X_VERDICT] = {"immediate", expr_put_verdict},
    [X_REJECT] = {"reject", expr_put_reject},
    [X_PORT] = {"immediate", expr_put_port},
    [X_ADDR] = {"immediate", expr_put_addr},
    [X_NAT4] = {"nat", expr_put_nat4},
    [X_REDIR] = {"redir", expr_put_redir},
    [X_LOG] = {"log", expr_put_log},
    [X_HASH] = {"hash", expr_put_hash},
    [X_LIMIT] = {"limit", expr_put_limit},
};

static void nft_put_rule(struct nft *n, const char *chain, const struct nft_expr *exprs, int flags)
{
    struct nlattr *list;

    nft_add_sized(&n->req, n->family, NFT_MSG_NEWRULE, NLM_F_CREATE | flags, RULE_BYTES);
    nl_put_string(&n->req, NFTA_RULE_TABLE, n->table);
    nl_put_string(&n->req, NFTA_RULE_CHAIN, chain);
    list = nl_nest(&n->req, NFTA_RULE_EXPRESSIONS);
    for (const struct nft_expr *x = exprs; x->kind != X_END; x++) {
        struct nlattr *element = nl_nest(&n->req, NFTA_LIST_ELEM), *data;

        nl_put_string(&n->req, NFTA_EXPR_NAME, kinds[x->kind].name);
        data = nl_nest(&n->req, NFTA_EXPR_DATA);
        kinds[x->kind].put(&n->req, x);
        nl_nest_end(&n->req, data);
        nl_nest_end(&n->req, element);
    }
    nl_nest_end(&n->req, list);
}

void nft_add_rule(struct nft *n, const char *chain, const struct nft_expr *exprs)
{
    nft_put_rule(n, chain, exprs, NLM_F_APPEND);
}

void nft_insert_rule(struct nft *n, const char *chain, const struct nft_expr *exprs)
{
    nft_put_rule(n, chain, exprs, 0);
}

size_t nft_match_to(struct nft_expr *x, uint8_t family, const uint8_t *bytes, unsigned prefix)
{
    const bool v4 = family == 4;
    const uint32_t len = v4 ? 4 : 16;
    size_t n = 0;

    x[n++] = (struct nft_expr){.kind = X_META, .key = NFT_META_NFPROTO, .reg = NFT_REG32_00};
    x[n] = (struct nft_expr){.kind = X_CMP, .op = NFT_CMP_EQ, .reg = NFT_REG32_00, .len = 1};
    x[n++].data[0] = v4 ? NFPROTO_IPV4 : NFPROTO_IPV6;
    if (prefix == 0)
        return n;
    x[n++] = (struct nft_expr){.kind = X_PAYLOAD,
                               .key = NFT_PAYLOAD_NETWORK_HEADER,
                               .op = v4 ? 16 : 24,
                               .len = len,
                               .reg = NFT_REG32_00};
    x[n] = (struct nft_expr){.kind = X_MASK, .reg = NFT_REG32_00, .len = len};
    for (unsigned i = 0; i < prefix; i++)
        x[n].data[i / 8] |= (uint8_t)(0x80u >> (i % 8));
    n++;
    x[n] = (struct nft_expr){.kind = X_CMP, .op = NFT_CMP_EQ, .reg = NFT_REG32_00, .len = len};
    (void)memcpy(x[n++].data, bytes, len);
    return n;
}

/* ---- elements ---- */

/* Matches above this number of connections; the kernel drops ended ones from the count. */
static void element_put_count(struct nlreq *q, const struct nft_element *e)
{
    struct nlattr *expr = nl_nest(q, NFTA_SET_ELEM_EXPR), *data;

    nl_put_string(q, NFTA_EXPR_NAME, "connlimit");
    data = nl_nest(q, NFTA_EXPR_DATA);
    nl_put_be32(q, NFTA_CONNLIMIT_COUNT, e->count_over);
    nl_put_be32(q, NFTA_CONNLIMIT_FLAGS, NFT_CONNLIMIT_F_INV);
    nl_nest_end(q, data);
    nl_nest_end(q, expr);
}

static void element_put_rate(struct nlreq *q, const struct nft_element *e)
{
    struct nlattr *expr = nl_nest(q, NFTA_SET_ELEM_EXPR), *data;

    nl_put_string(q, NFTA_EXPR_NAME, "limit");
    data = nl_nest(q, NFTA_EXPR_DATA);
    if (e->daily)
        nft_put_limit(q, 1, DAY_S, 1, 0);
    else
        nft_put_limit(q, e->rate_over, 1, e->burst, NFT_LIMIT_F_INV);
    nl_nest_end(q, data);
    nl_nest_end(q, expr);
}

static void nft_put_element(struct nlreq *q, const struct nft_element *e)
{
    struct nlattr *element = nl_nest(q, NFTA_LIST_ELEM);

    nft_put_data(q, NFTA_SET_ELEM_KEY, e->key, e->key_len);
    if (e->end)
        nl_put_be32(q, NFTA_SET_ELEM_FLAGS, NFT_SET_ELEM_INTERVAL_END);
    if (e->jump != NULL)
        nft_put_verdict(q, NFTA_SET_ELEM_DATA, (uint32_t)NFT_JUMP, e->jump);
    if (e->data_len > 0)
        nft_put_data(q, NFTA_SET_ELEM_DATA, e->data, e->data_len);
    if (e->count_over > 0)
        element_put_count(q, e);
    else if (e->rate_over > 0 || e->daily)
        element_put_rate(q, e);
    nl_nest_end(q, element);
}

static void nft_put_elements(struct nft *n, const char *set, const struct nft_element *e,
                             size_t count)
{
    struct nlattr *list;

    nl_put_string(&n->req, NFTA_SET_ELEM_LIST_TABLE, n->table);
    nl_put_string(&n->req, NFTA_SET_ELEM_LIST_SET, set);
    list = nl_nest(&n->req, NFTA_SET_ELEM_LIST_ELEMENTS);
    for (size_t i = 0; i < count; i++)
        nft_put_element(&n->req, &e[i]);
    nl_nest_end(&n->req, list);
}

void nft_add_elements(struct nft *n, const char *set, const struct nft_element *e, size_t count)
{
    nft_add_sized(&n->req, n->family, NFT_MSG_NEWSETELEM, NLM_F_CREATE,
                  count > 1 ? ELEMENTS_BYTES : NLMSG_BYTES);
    nft_put_elements(n, set, e, count);
}

void nft_empty_set(struct nft *n, const char *set)
{
    nft_add_message(n, NFT_MSG_DELSETELEM, 0);
    nl_put_string(&n->req, NFTA_SET_ELEM_LIST_TABLE, n->table);
    nl_put_string(&n->req, NFTA_SET_ELEM_LIST_SET, set);
}

void nft_delete_element(struct nft *n, const char *set, const struct nft_element *e)
{
    nft_add_message(n, NFT_MSG_DELSETELEM, 0);
    nft_put_elements(n, set, e, 1);
}

/* ---- queries ---- */

static int on_generation(const struct nlmsghdr *h, void *data)
{
    const struct nlattr *id =
        nlmsg_find_attr((struct nlmsghdr *)(uintptr_t)h, sizeof(struct nfgenmsg), NFTA_GEN_ID);
    uint32_t *ret = data;
    uint8_t be[4];

    if (id == NULL || nla_len(id) != sizeof(be))
        return -EBADMSG;
    (void)memcpy(be, nla_data(id), sizeof(be));
    *ret = (uint32_t)be[0] << 24 | (uint32_t)be[1] << 16 | (uint32_t)be[2] << 8 | be[3];
    return 0;
}

int nft_generation(int sock, uint32_t *ret, struct err *err)
{
    auto_nlreq struct nlreq q;
    int r;

    nlreq_init(&q);
    nft_add_sized(&q, NFPROTO_INET, NFT_MSG_GETGEN, 0, NLMSG_BYTES);
    *ret = 0;
    r = nlreq_send(&q, sock, on_generation, ret, NULL, err);
    return r < 0 ? err_wrap(err, r, "firewall: generation") : 0;
}

int nft_has_element(int sock, const char *table, const char *set, const struct nft_element *e,
                    struct err *err)
{
    auto_nft struct nft n = {.table = table, .family = NFPROTO_INET};
    int r;

    nlreq_init(&n.req);
    nft_add_sized(&n.req, n.family, NFT_MSG_GETSETELEM, 0, NLMSG_BYTES);
    nft_put_elements(&n, set, e, 1);
    r = nlreq_send(&n.req, sock, NULL, NULL, NULL, err);
    if (r == -ENOENT)
        return 0;
    return r < 0 ? err_wrap(err, r, "firewall: element") : 1;
}

struct rules_seen {
    int count;
    uint32_t hash;
};

/* Returns a number of eight bytes, or 0 if there is none. */
static uint64_t message_number(const struct nlmsghdr *h, int attr)
{
    const struct nlattr *a =
        nlmsg_find_attr((struct nlmsghdr *)(uintptr_t)h, sizeof(struct nfgenmsg), attr);
    uint8_t be[8];
    uint64_t n = 0;

    if (a == NULL || nla_len(a) != sizeof(be))
        return 0;
    (void)memcpy(be, nla_data(a), sizeof(be));
    for (size_t i = 0; i < sizeof(be); i++)
        n = n << 8 | be[i];
    return n;
}

static int on_rule_seen(const struct nlmsghdr *h, void *data)
{
    const struct nlattr *exprs = nlmsg_find_attr((struct nlmsghdr *)(uintptr_t)h,
                                                 sizeof(struct nfgenmsg), NFTA_RULE_EXPRESSIONS);
    struct rules_seen *seen = data;

    seen->count++;
    if (exprs != NULL)
        seen->hash = hash_bytes(seen->hash, nla_data(exprs), (size_t)nla_len(exprs));
    return 0;
}

int nft_count_rules(int sock, uint8_t family, const char *table, const char *chain, struct err *err)
{
    uint32_t unused = HASH_BEGIN;

    return nft_hash_rules(sock, family, table, chain, &unused, err);
}

int nft_hash_rules(int sock, uint8_t family, const char *table, const char *chain, uint32_t *hash,
                   struct err *err)
{
    const struct nfgenmsg g = {.nfgen_family = family, .version = NFNETLINK_V0};
    struct rules_seen seen = {.hash = *hash};
    auto_nlreq struct nlreq q;
    int r;

    nlreq_init(&q);
    nlreq_add(&q, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETRULE, NLM_F_DUMP, &g, sizeof(g));
    nl_put_string(&q, NFTA_RULE_TABLE, table);
    nl_put_string(&q, NFTA_RULE_CHAIN, chain);
    r = nlreq_send(&q, sock, on_rule_seen, &seen, NULL, err);
    if (r < 0)
        return err_wrap(err, r, "firewall: rules");
    *hash = seen.hash;
    return seen.count;
}

static int on_table_flags(const struct nlmsghdr *h, void *data)
{
    const struct nlattr *flags =
        nlmsg_find_attr((struct nlmsghdr *)(uintptr_t)h, sizeof(struct nfgenmsg), NFTA_TABLE_FLAGS);
    uint8_t be[4] = {0};

    if (flags != NULL && nla_len(flags) == sizeof(be))
        (void)memcpy(be, nla_data(flags), sizeof(be));
    *(uint32_t *)data =
        (uint32_t)be[0] << 24 | (uint32_t)be[1] << 16 | (uint32_t)be[2] << 8 | be[3];
    return 0;
}

int nft_table_flags(int sock, const char *table, uint32_t *ret, struct err *err)
{
    auto_nlreq struct nlreq q;
    int r;

    nlreq_init(&q);
    *ret = 0;
    nft_add_sized(&q, NFPROTO_INET, NFT_MSG_GETTABLE, 0, NLMSG_BYTES);
    nl_put_string(&q, NFTA_TABLE_NAME, table);
    r = nlreq_send(&q, sock, on_table_flags, ret, NULL, err);
    return r < 0 ? err_wrap(err, r, "firewall: table %s", table) : 0;
}

static int on_table_handle(const struct nlmsghdr *h, void *data)
{
    *(uint64_t *)data = message_number(h, NFTA_TABLE_HANDLE);
    return 0;
}

int nft_table_handle(int sock, const char *table, uint64_t *ret, struct err *err)
{
    auto_nlreq struct nlreq q;
    int r;

    nlreq_init(&q);
    *ret = 0;
    nft_add_sized(&q, NFPROTO_INET, NFT_MSG_GETTABLE, 0, NLMSG_BYTES);
    nl_put_string(&q, NFTA_TABLE_NAME, table);
    r = nlreq_send(&q, sock, on_table_handle, ret, NULL, err);
    return r < 0 ? err_wrap(err, r, "firewall: table %s", table) : 0;
}

/* Passes the key of one element to fn; -EBADMSG if it has none. */
static int feed_element(const struct nlattr *element, nft_key_fn *fn, void *data)
{
    const struct nlattr *key, *value;

    key = nla_find(nla_data(element), nla_len(element), NFTA_SET_ELEM_KEY);
    value = key == NULL ? NULL : nla_find(nla_data(key), nla_len(key), NFTA_DATA_VALUE);
    if (value == NULL || nla_len(value) > NFT_DATA_MAX)
        return -EBADMSG;
    return fn(nla_data(value), (size_t)nla_len(value), data);
}

int nft_feed_elements(const struct nlmsghdr *h, nft_key_fn *fn, void *data)
{
    const struct nlattr *list, *element;
    int left, r = 0;

    if (!nlmsg_valid_hdr(h, sizeof(struct nfgenmsg)))
        return -EBADMSG;
    list = nlmsg_find_attr((struct nlmsghdr *)(uintptr_t)h, sizeof(struct nfgenmsg),
                           NFTA_SET_ELEM_LIST_ELEMENTS);
    if (list == NULL)
        return 0; /* an empty set */
    nla_for_each_nested(element, list, left)
    {
        r = feed_element(element, fn, data);
        if (r < 0)
            break;
    }
    return r;
}

struct each {
    nft_key_fn *fn;
    void *data;
};

static int on_elements(const struct nlmsghdr *h, void *data)
{
    const struct each *e = data;

    return nft_feed_elements(h, e->fn, e->data);
}

int nft_each_element(int sock, const char *table, const char *set, nft_key_fn *fn, void *data,
                     struct err *err)
{
    struct each each = {.fn = fn, .data = data};
    auto_nlreq struct nlreq q;
    const struct nfgenmsg g = {.nfgen_family = NFPROTO_INET, .version = NFNETLINK_V0};

    nlreq_init(&q);
    nlreq_add(&q, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETSETELEM, NLM_F_DUMP, &g, sizeof(g));
    nl_put_string(&q, NFTA_SET_ELEM_LIST_TABLE, table);
    nl_put_string(&q, NFTA_SET_ELEM_LIST_SET, set);
    return nlreq_send(&q, sock, on_elements, &each, NULL, err);
}
