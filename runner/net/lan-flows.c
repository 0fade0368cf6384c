/*
 * Flows of a sandbox in networks with a subnet that began before its table changed: which of them
 * are translated as the table would now, and the end of the others. Runs in the launcher; called by
 * net.c and lan.c.
 */
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <string.h>

#include "base/err.h"
#include "net/lan.h"
#include "net/netlink.h"

enum {
    SEEN_MAX = 16384, /* flows: a sandbox that has more must not hold up the launcher */
    ENDED_MAX = 256,  /* at a time */
    TUPLE_BYTES = 96, /* of an attribute that identifies a flow */
};

/* ---- what the table does ---- */

static bool setup_has_dns(const struct net_setup *s, const uint8_t address[4])
{
    for (size_t i = 0; i < s->dns_count && i < NET_DNS_MAX; i++)
        if (s->dns[i].family == 4 && memcmp(s->dns[i].bytes, address, 4) == 0)
            return true;
    return false;
}

const struct net_lan *lan_of_peer(const struct lan_view *v, const struct net_lan_peer *p)
{
    for (size_t i = 0; i < NET_GROUPS_MAX; i++) {
        const struct net_lan *lan = &v->setup->lan[i];

        if (lan->prefix != 0 && net_same_prefix(lan->address, p->lan, lan->prefix))
            return lan;
    }
    return NULL;
}

bool lan_gateway_counts(const struct lan_view *v, const struct net_lan *lan)
{
    return !setup_has_dns(v->setup, lan->gateway);
}

const struct net_lan_peer *lan_to_peer(const struct lan_view *v, const uint8_t lan[4])
{
    for (size_t i = 0; i < v->count; i++)
        if (memcmp(v->peers[i].lan, lan, 4) == 0)
            return lan_of_peer(v, &v->peers[i]) == NULL || setup_has_dns(v->setup, lan)
                       ? NULL
                       : &v->peers[i];
    return NULL;
}

const struct net_lan_peer *lan_from_peer(const struct lan_view *v, const uint8_t pool[4])
{
    for (size_t i = 0; i < v->count; i++)
        if (memcmp(v->peers[i].pool, pool, 4) == 0 && lan_of_peer(v, &v->peers[i]) != NULL)
            return &v->peers[i];
    return NULL;
}

/* Returns the address that packets to `to` are sent to. */
static const uint8_t *view_translate(const struct lan_view *v, const uint8_t to[4])
{
    const struct net_lan_peer *p = lan_to_peer(v, to);

    for (size_t i = 0; i < NET_GROUPS_MAX; i++) {
        const struct net_lan *lan = &v->setup->lan[i];

        if (lan->prefix != 0 && memcmp(lan->gateway, to, 4) == 0 && lan_gateway_counts(v, lan))
            return v->setup->gateway4.bytes;
    }
    return p != NULL ? p->pool : to;
}

static bool address_equal(const uint8_t a[4], const uint8_t b[4])
{
    return memcmp(a, b, 4) == 0;
}

/* One that another sandbox began. What the table had left alone goes on without it. */
static bool flow_in_is_stale(const struct lan_view *v, const struct lan_flow *f)
{
    const struct net_lan_peer *p = lan_from_peer(v, f->from);

    if (address_equal(f->reply_from, f->to) && address_equal(f->reply_to, f->from))
        return false;
    return p == NULL || !address_equal(f->reply_from, lan_of_peer(v, p)->address) ||
           !address_equal(f->reply_to, p->lan);
}

bool lan_flow_is_stale(const struct lan_view *v, const struct lan_flow *f)
{
    static const uint8_t loopback[4] = {127};

    /* The resolver of egress rules, or of names, has taken over the latter. */
    if (f->proto == NET_TCP || net_same_prefix(f->to, loopback, 8) ||
        net_same_prefix(f->reply_from, loopback, 8))
        return false;
    if (address_equal(f->to, v->setup->sandbox4.bytes))
        return flow_in_is_stale(v, f);
    return !address_equal(f->reply_from, view_translate(v, f->to));
}

/* ---- conntrack ---- */

static const struct nlattr *nested_find(const struct nlattr *nest, int attr)
{
    return nest != NULL ? nla_find(nla_data(nest), nla_len(nest), attr) : NULL;
}

static bool attr_copy(const struct nlattr *a, void *ret, size_t len)
{
    if (a == NULL || nla_len(a) != (int)len)
        return false;
    (void)memcpy(ret, nla_data(a), len);
    return true;
}

static const struct nlattr *flow_find_attr(const struct nlmsghdr *h, int attr)
{
    return nlmsg_find_attr((struct nlmsghdr *)(uintptr_t)h, sizeof(struct nfgenmsg), attr);
}

static bool tuple_parse(const struct nlattr *tuple, uint8_t from[4], uint8_t to[4], uint8_t *proto)
{
    const struct nlattr *ip = nested_find(tuple, CTA_TUPLE_IP);

    return attr_copy(nested_find(ip, CTA_IP_V4_SRC), from, 4) &&
           attr_copy(nested_find(ip, CTA_IP_V4_DST), to, 4) &&
           attr_copy(nested_find(nested_find(tuple, CTA_TUPLE_PROTO), CTA_PROTO_NUM), proto, 1);
}

int lan_flow_parse(const struct nlmsghdr *h, struct lan_flow *ret)
{
    struct lan_flow f;
    uint8_t proto;

    if (h->nlmsg_type != (NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_NEW) ||
        !nlmsg_valid_hdr(h, sizeof(struct nfgenmsg)) ||
        !tuple_parse(flow_find_attr(h, CTA_TUPLE_ORIG), f.from, f.to, &f.proto) ||
        !tuple_parse(flow_find_attr(h, CTA_TUPLE_REPLY), f.reply_from, f.reply_to, &proto))
        return 0;
    *ret = f;
    return 1;
}

/* A flow to be ended, by what the kernel has named it. */
struct stale_flow {
    uint8_t tuple[TUPLE_BYTES];
    size_t len;
    uint8_t id[4];
    bool has_id;
};

struct stale_flows {
    const struct lan_view *view;
    unsigned seen, count;
    struct stale_flow list[ENDED_MAX];
};

static int on_flow(const struct nlmsghdr *h, void *data)
{
    struct stale_flows *all = data;
    const struct nlattr *tuple;
    struct stale_flow *one;
    struct lan_flow f;

    if (++all->seen > SEEN_MAX || all->count == ENDED_MAX)
        return -ECANCELED;
    if (lan_flow_parse(h, &f) == 0 || !lan_flow_is_stale(all->view, &f))
        return 0;
    tuple = flow_find_attr(h, CTA_TUPLE_ORIG);
    if (nla_len(tuple) > TUPLE_BYTES)
        return 0;
    one = &all->list[all->count++];
    one->len = (size_t)nla_len(tuple);
    (void)memcpy(one->tuple, nla_data(tuple), one->len);
    one->has_id = attr_copy(flow_find_attr(h, CTA_ID), one->id, sizeof(one->id));
    return 0;
}

static int flows_end(int sock, const struct stale_flows *all, struct err *err)
{
    const struct nfgenmsg g = {.nfgen_family = AF_INET, .version = NFNETLINK_V0};
    auto_nlreq struct nlreq q;
    int r;

    nlreq_init(&q);
    for (unsigned i = 0; i < all->count; i++) {
        const struct stale_flow *one = &all->list[i];

        nlreq_add(&q, NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_DELETE, NLM_F_ACK, &g, sizeof(g));
        nl_put(&q, CTA_TUPLE_ORIG | NLA_F_NESTED, one->tuple, one->len);
        if (one->has_id)
            nl_put(&q, CTA_ID, one->id, sizeof(one->id));
    }
    r = q.count > 0 ? nlreq_send(&q, sock, NULL, NULL, NULL, err) : 0;
    return r == -ENOENT ? 0 : r; /* it has ended meanwhile */
}

int lan_flows_renew(int dump, int nft, const struct lan_view *v, struct err *err)
{
    const struct nfgenmsg g = {.nfgen_family = AF_INET, .version = NFNETLINK_V0};
    struct stale_flows all;
    auto_nlreq struct nlreq q;
    int r;

    all.view = v;
    all.seen = all.count = 0;
    nlreq_init(&q);
    nlreq_add(&q, NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET, NLM_F_DUMP, &g, sizeof(g));
    r = nlreq_send(&q, dump, on_flow, &all, NULL, err);
    if (r == 0 || r == -ECANCELED)
        r = flows_end(nft, &all, err);
    /* EINVAL, EOPNOTSUPP: the kernel has no ctnetlink; flows end when they are idle. */
    return r == -EINVAL || r == -EOPNOTSUPP ? 0 : r < 0 ? err_wrap(err, r, "subnet: flows") : 0;
}
