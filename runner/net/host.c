/* What networks need from the host, and change on it: the uplink, forwarding of replies, and routes
 * that catch late packets. Runs in the launcher; called by net.c and restore.c. */
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "net/forward.h"
#include "net/net-internal.h"
#include "net/netlink.h"
#include "net/ruleset.h"
#include "net/watch.h"

/* ---- the uplink ---- */

static int on_route_reply(const struct nlmsghdr *h, void *data)
{
    struct pool_route route;
    int r = route_parse(h, &route);

    if (r > 0)
        *(int *)data = route.oif;
    return r < 0 ? r : 0;
}

static int on_link_reply(const struct nlmsghdr *h, void *data)
{
    struct uplink *u = data;
    const struct nlattr *mtu, *name;

    if (!nlmsg_valid_hdr(h, sizeof(struct ifinfomsg)))
        return -EBADMSG;
    mtu = nlmsg_find_attr((struct nlmsghdr *)(uintptr_t)h, sizeof(struct ifinfomsg), IFLA_MTU);
    name = nlmsg_find_attr((struct nlmsghdr *)(uintptr_t)h, sizeof(struct ifinfomsg), IFLA_IFNAME);
    if (mtu != NULL && nla_len(mtu) == sizeof(u->mtu))
        (void)memcpy(&u->mtu, nla_data(mtu), sizeof(u->mtu));
    if (name != NULL)
        (void)snprintf(u->name, sizeof(u->name), "%.*s", nla_len(name),
                       (const char *)nla_data(name));
    return 0;
}

int host_find_uplink(const struct net *n, const struct net_addr *to, struct uplink *ret)
{
    const bool v4 = to->family == 4;
    const struct rtmsg m = {.rtm_family = (unsigned char)(v4 ? AF_INET : AF_INET6),
                            .rtm_dst_len = v4 ? 32 : 128};
    const struct ifinfomsg link = {.ifi_family = AF_UNSPEC};
    struct uplink u = {.mtu = HOST_MTU};
    auto_nlreq struct nlreq q;
    struct ifinfomsg get = link;
    int r;

    nlreq_init(&q);
    nlreq_add(&q, RTM_GETROUTE, NLM_F_ACK, &m, sizeof(m));
    nl_put(&q, RTA_DST, to->bytes, v4 ? 4 : 16);
    r = nlreq_send(&q, n->route, on_route_reply, &u.index, NULL, NULL);
    nlreq_done(&q);
    nlreq_init(&q);
    if (r < 0 || u.index <= 1) /* loopback: an address of the host itself */
        return -ENOENT;
    get.ifi_index = u.index;
    nlreq_add(&q, RTM_GETLINK, NLM_F_ACK, &get, sizeof(get));
    r = nlreq_send(&q, n->route, on_link_reply, &u, NULL, NULL);
    if (r < 0)
        return r;
    *ret = u;
    return 0;
}

const struct net_addr host_somewhere4 = {.family = 4, .bytes = {1, 1, 1, 1}};
const struct net_addr host_somewhere6 = {.family = 6, .bytes = {0x26, 0x06, 0x47}};

void host_watch_uplink(struct net *n, int ifindex)
{
    if (n->uplink == ifindex)
        return;
    n->uplink = ifindex;
    if (n->watch_link >= 0)
        (void)watch_choose_link(n->watch_link, ifindex);
}

/* ---- forwarding ---- */

static void host_report_forwarding(const struct net *n, const char *name, int family, bool on)
{
    if (n->config.forwards != NULL)
        n->config.forwards(n->config.forwards_data, name, family, on);
}

/* Enables forwarding for an interface if it is off, as replies arrive there. Before it is switched
 * on, the interface is marked and guarded, so that a crash at any moment is safe. */
static int interface_forward_on(struct net *n, const char *name, int family, struct err *err)
{
    int now = forward_get(name, family), r;

    if (now == 1)
        return 0;
    r = forward_mark(n->route, name, family, true, err);
    if (r < 0)
        return r;
    r = ruleset_guard(n->nft, name, err);
    if (r == 0)
        r = forward_set(name, family, true, err);
    if (r < 0)
        (void)forward_mark(n->route, name, family, false, NULL);
    else
        host_report_forwarding(n, name, family, true);
    return r;
}

int host_forward_to(struct net *n, const struct net_addr *to, struct err *err)
{
    struct uplink up;

    if (host_find_uplink(n, to, &up) < 0)
        return 0; /* no route now: the sandbox gets an error itself */
    return interface_forward_on(n, up.name, to->family, err);
}

int host_forward(struct net *n, const struct net_setup *setup, struct err *err)
{
    int r = 0;

    if (setup->internet)
        r = host_forward_to(n, &host_somewhere4, err);
    if (r == 0 && setup->internet && setup->route6)
        r = host_forward_to(n, &host_somewhere6, err);
    for (size_t i = 0; r == 0 && i < setup->access.rule_count; i++) {
        const struct net_rule *rule = &setup->access.rules[i];
        struct net_addr to = {.family = rule->family};

        (void)memcpy(to.bytes, rule->bytes, sizeof(to.bytes));
        if (rule->deny || (rule->family == 6 && !setup->route6))
            continue;
        if (rule->prefix == 0)
            to = rule->family == 4 ? host_somewhere4 : host_somewhere6;
        r = host_forward_to(n, &to, err);
    }
    for (size_t i = 0; r == 0 && setup->internet && i < setup->dns_count; i++)
        r = host_forward_to(n, &setup->dns[i], err);
    return r;
}

struct marked {
    struct {
        char name[NET_LINK_MAX];
        int family;
    } list[2 * UPLINKS_MAX];
    unsigned count;
};

static void on_forward_mark(const char *name, int family, void *data)
{
    struct marked *m = data;

    if (m->count == sizeof(m->list) / sizeof(m->list[0]))
        return;
    (void)snprintf(m->list[m->count].name, NET_LINK_MAX, "%s", name);
    m->list[m->count++].family = family;
}

/* Finds the interfaces whose forwarding any rind process has switched on. */
static struct marked find_marked(const struct net *n)
{
    struct marked m = {.count = 0};

    (void)forward_each_mark(n->route, on_forward_mark, &m, NULL);
    return m;
}

static void marked_switch_off(const struct net *n, const struct marked *m)
{
    for (unsigned i = 0; i < m->count; i++) {
        const char *name = m->list[i].name;
        const int family = m->list[i].family;

        /* The switch for all interfaces covers this one, too. */
        if (!forward_all(family) && forward_get(name, family) == 1 &&
            forward_set(name, family, false, NULL) == 0)
            host_report_forwarding(n, name, family, false);
    }
}

void host_forward_off(const struct net *n)
{
    const struct marked m = find_marked(n);

    marked_switch_off(n, &m);
    for (unsigned i = 0; i < m.count; i++)
        (void)forward_mark(n->route, m.list[i].name, m.list[i].family, false, NULL);
}

/* The marks stay: they tell what to switch on again. */
void host_forward_pause(const struct net *n)
{
    const struct marked m = find_marked(n);

    marked_switch_off(n, &m);
}

int host_forward_resume(const struct net *n, struct err *err)
{
    const struct marked m = find_marked(n);
    int first = 0;

    for (unsigned i = 0; i < m.count; i++) {
        const char *name = m.list[i].name;
        const int family = m.list[i].family;
        /* the guard may be missing while the mark exists */
        int r = ruleset_guard(n->nft, name, err);

        if (r == 0 && forward_get(name, family) == 0) {
            r = forward_set(name, family, true, err);
            if (r == 0)
                host_report_forwarding(n, name, family, true);
        }
        if (r < 0 && first == 0)
            first = r;
    }
    return first;
}

int host_is_guarded(const struct net *n)
{
    const struct marked m = find_marked(n);
    int r = 1;

    for (unsigned i = 0; r == 1 && i < m.count; i++)
        r = ruleset_has_guard(n->nft, m.list[i].name, NULL);
    return r;
}

unsigned host_guarded(const struct net *n, char names[2 * UPLINKS_MAX][NET_LINK_MAX])
{
    const struct marked m = find_marked(n);

    for (unsigned i = 0; i < m.count; i++)
        (void)memcpy(names[i], m.list[i].name, NET_LINK_MAX);
    return m.count;
}

/* ---- black holes ---- */

/* Adds or removes a blackhole route for a pool. A late packet to an ended sandbox, such as a reply,
 * finds no link any more. It is dropped here instead of leaving by the host's default route. */
static int route_set_blackhole(const struct net *n, uint16_t type, uint16_t flags,
                               const struct net_rule *pool)
{
    const bool v4 = pool->family == 4;
    const struct rtmsg m = {.rtm_family = (unsigned char)(v4 ? AF_INET : AF_INET6),
                            .rtm_dst_len = pool->prefix,
                            .rtm_table = RT_TABLE_MAIN,
                            .rtm_protocol = ROUTE_PROTOCOL,
                            .rtm_scope = RT_SCOPE_UNIVERSE,
                            .rtm_type = RTN_BLACKHOLE};
    auto_nlreq struct nlreq q;
    int r;

    nlreq_init(&q);
    nlreq_add(&q, type, flags | NLM_F_ACK, &m, sizeof(m));
    nl_put(&q, RTA_DST, pool->bytes, v4 ? 4 : 16);
    r = nlreq_send(&q, n->route, NULL, NULL, NULL, NULL);
    return r == -EEXIST || r == -ESRCH ? 0 : r;
}

int host_make_holes(struct net *n, const struct net_setup *setup, struct err *err)
{
    int r = route_set_blackhole(n, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &n->pool4);

    if (r == 0 && setup->route6)
        r = route_set_blackhole(n, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &n->pool6);
    return r < 0 ? err_errno(err, r, "network: black hole for ended sandboxes") : 0;
}

struct holes {
    struct net_rule list[POOLS_MAX];
    unsigned count;
};

static int on_blackhole_route(const struct nlmsghdr *h, void *data)
{
    struct holes *holes = data;
    struct pool_route route;
    int r = route_parse(h, &route);

    if (r > 0 && route.ours && holes->count < POOLS_MAX)
        holes->list[holes->count++] = route.to;
    return r < 0 ? r : 0;
}

void host_fill_holes(const struct net *n)
{
    struct holes holes = {.count = 0};

    for (int family = 4; family <= 6; family += 2) {
        const struct rtmsg m = {.rtm_family = (unsigned char)(family == 4 ? AF_INET : AF_INET6)};
        auto_nlreq struct nlreq q;

        nlreq_init(&q);
        nlreq_add(&q, RTM_GETROUTE, NLM_F_DUMP, &m, sizeof(m));
        (void)nlreq_send(&q, n->route, on_blackhole_route, &holes, NULL, NULL);
    }
    for (unsigned i = 0; i < holes.count; i++)
        (void)route_set_blackhole(n, RTM_DELROUTE, 0, &holes.list[i]);
}
