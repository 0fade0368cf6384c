/*
 * Connections of sandboxes in the host's table of connections (conntrack): found by a dump, removed
 * one by one. Needed after another program has removed the firewall rules. What began meanwhile is
 * refused by the rules (ruleset-table.c), but would stay in the way of a new attempt from the same
 * port, which has no address of the host yet. Runs in the launcher; called by restore.c.
 */
#include "net/cut.h"

#include <errno.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/err.h"
#include "net/netlink.h"
#include "net/ruleset.h"
#include "policy/net-rule.h"

/* After netlink.h, which includes netinet/in.h before them. */
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>

enum {
    TUPLE_MAX = 160,     /* bytes of CTA_TUPLE_ORIG */
    FOUND_MAX = 1 << 16, /* connections in one round */
    ROUNDS_MAX = 8,
    BATCH_MAX = 256, /* removed by one datagram */
};

struct connection {
    uint8_t family; /* AF_INET, AF_INET6 */
    uint8_t zone[2], id[4];
    bool has_zone, has_id;
    uint16_t tuple_len;
    uint8_t tuple[TUPLE_MAX];
};

struct cut {
    bool (*ours)(void *data, const struct net_addr *a);
    void *data;
    bool all;
    struct connection *list; /* owned */
    size_t count, cap;
};

static struct nlattr *attr_in(const struct nlattr *a, int type)
{
    return a == NULL ? NULL : nla_find(nla_data(a), nla_len(a), type);
}

static bool cut_is_ours(const struct cut *c, const struct nlattr *ip, int type, uint8_t family)
{
    const struct nlattr *a = attr_in(ip, type);
    struct net_addr addr = {.family = family};

    if (a == NULL || nla_len(a) != (family == 4 ? 4 : 16))
        return false;
    (void)memcpy(addr.bytes, nla_data(a), (size_t)nla_len(a));
    return c->ours(c->data, &addr);
}

static bool cut_concerns(const struct cut *c, const struct nlattr *tuple)
{
    const struct nlattr *ip = attr_in(tuple, CTA_TUPLE_IP);

    return cut_is_ours(c, ip, CTA_IP_V4_SRC, 4) || cut_is_ours(c, ip, CTA_IP_V4_DST, 4) ||
           cut_is_ours(c, ip, CTA_IP_V6_SRC, 6) || cut_is_ours(c, ip, CTA_IP_V6_DST, 6);
}

static bool is_labelled(const struct nlattr *labels)
{
    return labels != NULL && nla_len(labels) > RULESET_LABEL_BYTE &&
           (((const uint8_t *)nla_data(labels))[RULESET_LABEL_BYTE] & RULESET_LABEL_BIT) != 0;
}

static int cut_remember(struct cut *c, const struct nlattr *tuple, const struct nlattr *zone,
                        const struct nlattr *id, uint8_t family)
{
    struct connection *to;

    if (nla_len(tuple) > TUPLE_MAX || c->count == FOUND_MAX)
        return 0; /* the next round finds what is left */
    if (c->count == c->cap) {
        const size_t cap = c->cap == 0 ? 256 : 2 * c->cap;
        struct connection *more = reallocarray(c->list, cap, sizeof(*more));

        if (more == NULL)
            return -ENOMEM;
        c->list = more;
        c->cap = cap;
    }
    to = &c->list[c->count++];
    *to = (struct connection){.family = family, .tuple_len = (uint16_t)nla_len(tuple)};
    (void)memcpy(to->tuple, nla_data(tuple), to->tuple_len);
    to->has_zone = zone != NULL && nla_len(zone) == sizeof(to->zone);
    if (to->has_zone)
        (void)memcpy(to->zone, nla_data(zone), sizeof(to->zone));
    to->has_id = id != NULL && nla_len(id) == sizeof(to->id);
    if (to->has_id)
        (void)memcpy(to->id, nla_data(id), sizeof(to->id));
    return 0;
}

static int on_connection(const struct nlmsghdr *h, void *data)
{
    struct nlmsghdr *m = (struct nlmsghdr *)(uintptr_t)h;
    struct cut *c = data;
    struct nfgenmsg g;
    const struct nlattr *tuple;

    if (!nlmsg_valid_hdr(h, sizeof(g)))
        return -EBADMSG;
    (void)memcpy(&g, nlmsg_data(h), sizeof(g));
    tuple = nlmsg_find_attr(m, sizeof(g), CTA_TUPLE_ORIG);
    if (tuple == NULL ||
        (!cut_concerns(c, tuple) &&
         !cut_concerns(c, nlmsg_find_attr(m, sizeof(g), CTA_TUPLE_REPLY))) ||
        (!c->all && is_labelled(nlmsg_find_attr(m, sizeof(g), CTA_LABELS))))
        return 0;
    return cut_remember(c, tuple, nlmsg_find_attr(m, sizeof(g), CTA_ZONE),
                        nlmsg_find_attr(m, sizeof(g), CTA_ID), g.nfgen_family);
}

static int cut_find(struct cut *c, int sock, struct err *err)
{
    const struct nfgenmsg g = {.nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0};
    auto_nlreq struct nlreq q;

    c->count = 0;
    nlreq_init(&q);
    nlreq_add(&q, NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET, NLM_F_DUMP, &g, sizeof(g));
    return nlreq_send(&q, sock, on_connection, c, NULL, err);
}

/* One that has ended by itself meanwhile is no error. */
static int cut_remove(const struct connection *list, size_t count, int sock, struct err *err)
{
    auto_nlreq struct nlreq q;
    int r;

    nlreq_init(&q);
    for (size_t i = 0; i < count; i++) {
        const struct nfgenmsg g = {.nfgen_family = list[i].family, .version = NFNETLINK_V0};

        nlreq_add(&q, NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_DELETE, NLM_F_ACK, &g, sizeof(g));
        nl_put(&q, CTA_TUPLE_ORIG | NLA_F_NESTED, list[i].tuple, list[i].tuple_len);
        if (list[i].has_zone)
            nl_put(&q, CTA_ZONE, list[i].zone, sizeof(list[i].zone));
        if (list[i].has_id)
            nl_put(&q, CTA_ID, list[i].id, sizeof(list[i].id));
    }
    r = nlreq_send(&q, sock, NULL, NULL, NULL, err);
    return r == -ENOENT ? 0 : r;
}

int connections_cut(int sock, bool (*ours)(void *data, const struct net_addr *a), void *data,
                    bool all, struct err *err)
{
    struct cut c = {.ours = ours, .data = data, .all = all};
    int total = 0, r = 0;

    for (int round = 0; r == 0 && round < ROUNDS_MAX; round++) {
        r = cut_find(&c, sock, err);
        if (r < 0 || c.count == 0)
            break;
        for (size_t i = 0; r == 0 && i < c.count; i += BATCH_MAX)
            r = cut_remove(c.list + i, c.count - i < BATCH_MAX ? c.count - i : BATCH_MAX, sock,
                           err);
        total += (int)c.count;
    }
    free(c.list);
    return r < 0 ? err_wrap(err, r, "end connections") : total;
}
