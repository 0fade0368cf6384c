#include "net/link.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/ip.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "net/netlink.h"

enum {
    MAC_LEN = 6,
    FLAGS_UP = IFF_UP | IFF_NOARP,
    /* IFF_MULTICAST is cleared: there are no neighbours */
    FLAGS_CHANGED = IFF_UP | IFF_NOARP | IFF_MULTICAST,
    GEN_MODE_NONE = 1, /* IN6_ADDR_GEN_MODE_NONE */
    UNMUTED_MAX = 256, /* links taken down at a time */
    ALIAS_MAX = 255,   /* bytes of an alias, IFALIASZ - 1 */
};

#define CLOSED_ALIAS "closed by rind: "

/* A locally administered address; the slot makes it recognizable in a packet capture. */
static void link_make_mac(uint8_t mac[MAC_LEN], uint32_t slot)
{
    const uint8_t bytes[MAC_LEN] = {0x02, 'r', 'n', 'd', (uint8_t)(slot >> 8), (uint8_t)slot};

    (void)memcpy(mac, bytes, sizeof(bytes));
}

static void link_begin(struct nlreq *q, uint16_t type, uint16_t flags, int index, uint32_t set)
{
    const struct ifinfomsg link = {.ifi_family = AF_UNSPEC,
                                   .ifi_index = index,
                                   .ifi_flags = set,
                                   .ifi_change = set != 0 ? (unsigned)FLAGS_CHANGED : 0};

    nlreq_add(q, type, flags | NLM_F_ACK, &link, sizeof(link));
}

static void veth_put_end(struct nlreq *q, const char *name, const uint8_t mac[MAC_LEN],
                         uint32_t mtu)
{
    nl_put_string(q, IFLA_IFNAME, name);
    nl_put(q, IFLA_ADDRESS, mac, MAC_LEN);
    nl_put_u32(q, IFLA_MTU, mtu);
}

/* Makes both ends at once; the peer is created in its namespace. */
static void veth_put(struct nlreq *q, const struct link_config *c, int ns_fd)
{
    const struct ifinfomsg none = {.ifi_family = AF_UNSPEC};
    struct nlattr *info, *data, *peer;
    uint8_t mac[MAC_LEN];

    link_make_mac(mac, c->setup->slot);
    link_begin(q, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, 0, 0);
    veth_put_end(q, c->setup->link, mac, c->setup->mtu);
    info = nl_nest(q, IFLA_LINKINFO);
    nl_put_string(q, IFLA_INFO_KIND, "veth");
    data = nl_nest(q, IFLA_INFO_DATA);
    peer = nl_nest(q, VETH_INFO_PEER);
    nl_append(q, &none, sizeof(none));
    veth_put_end(q, NET_INSIDE, mac, c->setup->mtu);
    nl_put_u32(q, IFLA_NET_NS_FD, (uint32_t)ns_fd);
    nl_nest_end(q, peer);
    nl_nest_end(q, data);
    nl_nest_end(q, info);
}

/* No automatic addresses; the host's end gets the settings of a router. */
static void link_put_settings(struct nlreq *q, const char *name, bool host, bool forward)
{
    struct nlattr *spec, *family, *conf;

    link_begin(q, RTM_SETLINK, 0, 0, 0);
    nl_put_string(q, IFLA_IFNAME, name);
    spec = nl_nest(q, IFLA_AF_SPEC);
    family = nl_nest(q, AF_INET6);
    nl_put_u8(q, IFLA_INET6_ADDR_GEN_MODE, GEN_MODE_NONE);
    nl_nest_end(q, family);
    if (host) {
        family = nl_nest(q, AF_INET);
        conf = nl_nest(q, IFLA_INET_CONF);
        nl_put_u32(q, IPV4_DEVCONF_FORWARDING, forward);
        nl_put_u32(q, IPV4_DEVCONF_SEND_REDIRECTS, 0);
        nl_put_u32(q, IPV4_DEVCONF_ACCEPT_REDIRECTS, 0);
        nl_put_u32(q, IPV4_DEVCONF_ROUTE_LOCALNET, 0);
        nl_put_u32(q, IPV4_DEVCONF_PROXY_ARP, 0);
        nl_put_u32(q, IPV4_DEVCONF_ACCEPT_SOURCE_ROUTE, 0);
        nl_nest_end(q, conf);
        nl_nest_end(q, family);
    }
    nl_nest_end(q, spec);
}

static void link_put_up(struct nlreq *q, const char *name)
{
    link_begin(q, RTM_SETLINK, 0, 0, FLAGS_UP);
    nl_put_string(q, IFLA_IFNAME, name);
}

/* Adds an address of a pair: /31 (RFC 3021) or /127 (RFC 6164), without duplicate address
 * detection. */
static void link_put_address(struct nlreq *q, int index, const struct net_addr *a)
{
    const bool v4 = a->family == 4;
    const struct ifaddrmsg addr = {.ifa_family = v4 ? AF_INET : AF_INET6,
                                   .ifa_prefixlen = v4 ? 31 : 127,
                                   .ifa_flags = v4 ? 0 : IFA_F_NODAD,
                                   .ifa_scope = RT_SCOPE_UNIVERSE,
                                   .ifa_index = (uint32_t)index};

    nlreq_add(q, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &addr, sizeof(addr));
    nl_put(q, IFA_LOCAL, a->bytes, v4 ? 4 : 16);
    if (!v4)
        nl_put(q, IFA_ADDRESS, a->bytes, 16);
}

static void put_default_route(struct nlreq *q, int index, const struct net_addr *gateway)
{
    const bool v4 = gateway->family == 4;
    const struct rtmsg route = {.rtm_family = v4 ? AF_INET : AF_INET6,
                                .rtm_table = RT_TABLE_MAIN,
                                .rtm_protocol = RTPROT_STATIC,
                                .rtm_scope = RT_SCOPE_UNIVERSE,
                                .rtm_type = RTN_UNICAST};

    nlreq_add(q, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &route, sizeof(route));
    nl_put(q, RTA_GATEWAY, gateway->bytes, v4 ? 4 : 16);
    nl_put_u32(q, RTA_OIF, (uint32_t)index);
}

/* ---- indices ---- */

static int on_link_index(const struct nlmsghdr *h, void *data)
{
    const struct ifinfomsg *link = nlmsg_data(h);

    if (h->nlmsg_type != RTM_NEWLINK || !nlmsg_valid_hdr(h, sizeof(*link)))
        return -EBADMSG;
    *(int *)data = link->ifi_index;
    return 0;
}

static void link_put_get(struct nlreq *q, const char *name)
{
    link_begin(q, RTM_GETLINK, 0, 0, 0);
    nl_put_string(q, IFLA_IFNAME, name);
}

int link_index(int sock, const char *name, int *ret, struct err *err)
{
    auto_nlreq struct nlreq q;

    nlreq_init(&q);
    link_put_get(&q, name);
    return nlreq_send(&q, sock, on_link_index, ret, NULL, err);
}

/* ---- the two ends ---- */

static int link_make_both(int sock, int ns_fd, const struct link_config *c, int *ret_index,
                          struct err *err)
{
    auto_nlreq struct nlreq q;

    nlreq_init(&q);
    veth_put(&q, c, ns_fd);
    link_put_settings(&q, c->setup->link, true, c->forward);
    link_put_get(&q, c->setup->link);
    return nlreq_send(&q, sock, on_link_index, ret_index, NULL, err);
}

static int set_up_host(int sock, const struct link_config *c, int index, struct err *err)
{
    auto_nlreq struct nlreq q;

    nlreq_init(&q);
    link_put_up(&q, c->setup->link);
    link_put_address(&q, index, &c->setup->gateway4);
    /* Each IPv6 route of the host slows down the next link's set-up: the kernel walks all of them.
     */
    if (c->setup->route6)
        link_put_address(&q, index, &c->setup->gateway6);
    return nlreq_send(&q, sock, NULL, NULL, NULL, err);
}

static int set_up_inside(int inside, const struct link_config *c, struct err *err)
{
    auto_nlreq struct nlreq q;
    int index = 0, r;

    nlreq_init(&q);
    link_put_settings(&q, NET_INSIDE, false, false);
    link_put_up(&q, NET_INSIDE);
    link_put_get(&q, NET_INSIDE);
    r = nlreq_send(&q, inside, on_link_index, &index, NULL, err);
    if (r < 0)
        return r;
    nlreq_done(&q);
    nlreq_init(&q);
    link_put_address(&q, index, &c->setup->sandbox4);
    put_default_route(&q, index, &c->setup->gateway4);
    if (c->setup->route6) {
        link_put_address(&q, index, &c->setup->sandbox6);
        put_default_route(&q, index, &c->setup->gateway6);
    }
    return nlreq_send(&q, inside, NULL, NULL, NULL, err);
}

/* type: RTM_GETLINK or RTM_DELLINK. -ENODEV: there is no such link. */
static int link_request_by_name(int sock, uint16_t type, const char *name, struct err *err)
{
    auto_nlreq struct nlreq q;

    nlreq_init(&q);
    link_begin(&q, type, 0, 0, 0);
    nl_put_string(&q, IFLA_IFNAME, name);
    return nlreq_send(&q, sock, NULL, NULL, NULL, err);
}

/* Deletes a link that the kernel has not removed yet although its sandbox has ended; takes some 20
 * ms. Returns 0 also when there is none. */
static int delete_link(int sock, const char *name, struct err *err)
{
    int r = link_request_by_name(sock, RTM_DELLINK, name, err);

    return r == -ENODEV ? 0 : r;
}

void link_name(uint32_t slot, char name[static NET_LINK_MAX])
{
    (void)snprintf(name, NET_LINK_MAX, NET_LINK_PREFIX "%u", slot);
}

bool link_lingers(uint32_t slot)
{
    auto_close int sock = nl_open(NETLINK_ROUTE);
    char name[NET_LINK_MAX];

    link_name(slot, name);
    return sock >= 0 && link_request_by_name(sock, RTM_GETLINK, name, NULL) == 0;
}

int link_erase(uint32_t slot, struct err *err)
{
    auto_close int sock = nl_open(NETLINK_ROUTE);
    char name[NET_LINK_MAX];
    int r = sock;

    link_name(slot, name);
    if (r >= 0)
        r = delete_link(sock, name, err);
    return r < 0 ? err_wrap(err, r, "remove link %s", name) : 0;
}

int link_add(int sock, int inside, int ns_fd, const struct link_config *c, int *ret_index,
             struct err *err)
{
    int index = 0, r;

    r = link_make_both(sock, ns_fd, c, &index, err);
    if (r == -EEXIST) {
        /* The link of the slot's previous sandbox, which has ended: the slot would not be free
         * otherwise. */
        r = delete_link(sock, c->setup->link, err);
        if (r == 0)
            r = link_make_both(sock, ns_fd, c, &index, err);
    }
    if (r < 0)
        return err_wrap(err, r, "make link %s", c->setup->link);
    r = set_up_host(sock, c, index, err);
    if (r < 0)
        return err_wrap(err, r, "set up link %s", c->setup->link);
    r = set_up_inside(inside, c, err);
    if (r < 0)
        return err_wrap(err, r, "set up " NET_INSIDE " in the sandbox");
    *ret_index = index;
    return 0;
}

/* ---- closed and open ---- */

static void link_put_alias(struct nlreq *q, const char *name, const char *alias)
{
    link_begin(q, RTM_SETLINK, 0, 0, 0);
    nl_put_string(q, IFLA_IFNAME, name);
    nl_put(q, IFLA_IFALIAS, alias, strlen(alias));
}

/* The alias is set by a second message. In the same message the kernel would set it before the
 * flags, and a failed allocation would leave the link up. */
int link_close(int sock, const char *name, const char *why, struct err *err)
{
    const struct ifinfomsg down = {.ifi_family = AF_UNSPEC, .ifi_change = IFF_UP};
    char alias[ALIAS_MAX + 1];
    auto_nlreq struct nlreq q;
    unsigned index = 0;
    int r;

    (void)snprintf(alias, sizeof(alias), CLOSED_ALIAS "%s", why);
    nlreq_init(&q);
    nlreq_add(&q, RTM_SETLINK, NLM_F_ACK, &down, sizeof(down));
    nl_put_string(&q, IFLA_IFNAME, name);
    link_put_alias(&q, name, alias);
    r = nlreq_send(&q, sock, NULL, NULL, &index, err);
    if (r == -ENODEV || (r < 0 && index == 1))
        return 0; /* there is no link; or it is down, and only the alias failed */
    return r < 0 ? err_wrap(err, r, "take link %s down", name) : 0;
}

static bool alias_is_ours(const struct nlmsghdr *h)
{
    const struct nlattr *alias =
        nlmsg_find_attr((struct nlmsghdr *)(uintptr_t)h, sizeof(struct ifinfomsg), IFLA_IFALIAS);
    const size_t len = sizeof(CLOSED_ALIAS) - 1;

    return alias != NULL && nla_len(alias) >= (int)len &&
           memcmp(nla_data(alias), CLOSED_ALIAS, len) == 0;
}

static int on_alias(const struct nlmsghdr *h, void *data)
{
    if (!nlmsg_valid_hdr(h, sizeof(struct ifinfomsg)))
        return -EBADMSG;
    *(bool *)data = alias_is_ours(h);
    return 0;
}

int link_is_closed(int sock, const char *name, struct err *err)
{
    auto_nlreq struct nlreq q;
    bool closed = false;
    int r;

    nlreq_init(&q);
    link_put_get(&q, name);
    r = nlreq_send(&q, sock, on_alias, &closed, NULL, err);
    return r == -ENODEV ? 0 : r < 0 ? r : closed;
}

/* IPv4 addresses survive a link's going down. The alias is cleared last: after a failure before
 * that, the link still counts as closed. */
int link_open(int sock, const struct net_setup *setup, struct err *err)
{
    auto_nlreq struct nlreq q;
    int r;

    nlreq_init(&q);
    link_put_up(&q, setup->link);
    if (setup->route6)
        link_put_address(&q, setup->ifindex, &setup->gateway6);
    link_put_alias(&q, setup->link, "");
    r = nlreq_send(&q, sock, NULL, NULL, NULL, err);
    if (r == -ENODEV || r == -EEXIST)
        return 0; /* the sandbox has ended or has removed the link; or the link is up already */
    return r < 0 ? err_wrap(err, r, "link %s", setup->link) : 0;
}

struct closed_links {
    int count;
    char name[NET_LINK_MAX];
};

static int on_closed_link(const struct nlmsghdr *h, void *data)
{
    struct closed_links *all = data;
    const struct nlattr *name;

    if (!nlmsg_valid_hdr(h, sizeof(struct ifinfomsg)))
        return -EBADMSG;
    name = nlmsg_find_attr((struct nlmsghdr *)(uintptr_t)h, sizeof(struct ifinfomsg), IFLA_IFNAME);
    if (name != NULL && alias_is_ours(h) && all->count++ == 0)
        (void)snprintf(all->name, sizeof(all->name), "%.*s", nla_len(name),
                       (const char *)nla_data(name));
    return 0;
}

int link_count_closed(int sock, char name[static NET_LINK_MAX], struct err *err)
{
    const struct ifinfomsg any = {.ifi_family = AF_UNSPEC};
    struct closed_links all = {.count = 0};
    auto_nlreq struct nlreq q;
    int r;

    nlreq_init(&q);
    nlreq_add(&q, RTM_GETLINK, NLM_F_DUMP, &any, sizeof(any));
    r = nlreq_send(&q, sock, on_closed_link, &all, NULL, err);
    (void)snprintf(name, NET_LINK_MAX, "%s", all.name);
    return r < 0 ? r : all.count;
}

/* ---- taking links down ---- */

struct unmuted {
    int index[UNMUTED_MAX];
    unsigned count;
};

static int on_unmuted(const struct nlmsghdr *h, void *data)
{
    struct unmuted *all = data;
    const struct nlattr *name;
    struct ifinfomsg link;

    if (!nlmsg_valid_hdr(h, sizeof(link)))
        return -EBADMSG;
    (void)memcpy(&link, nlmsg_data(h), sizeof(link));
    name = nlmsg_find_attr((struct nlmsghdr *)(uintptr_t)h, sizeof(link), IFLA_IFNAME);
    if ((link.ifi_flags & IFF_UP) != 0 && name != NULL &&
        nla_len(name) >= (int)sizeof(NET_LINK_PREFIX) &&
        memcmp(nla_data(name), NET_LINK_PREFIX, sizeof(NET_LINK_PREFIX) - 1) == 0 &&
        all->count < UNMUTED_MAX)
        all->index[all->count++] = link.ifi_index;
    return 0;
}

static int link_take_down(int sock, int index)
{
    const struct ifinfomsg down = {
        .ifi_family = AF_UNSPEC, .ifi_index = index, .ifi_change = IFF_UP};
    auto_nlreq struct nlreq q;
    int r;

    nlreq_init(&q);
    nlreq_add(&q, RTM_SETLINK, NLM_F_ACK, &down, sizeof(down));
    r = nlreq_send(&q, sock, NULL, NULL, NULL, NULL);
    return r == -ENODEV ? 0 : r; /* the kernel has removed it meanwhile */
}

int link_down_all(int sock, struct err *err)
{
    const struct ifinfomsg any = {.ifi_family = AF_UNSPEC};
    struct unmuted all;
    int r;

    do {
        auto_nlreq struct nlreq q;

        all.count = 0;
        nlreq_init(&q);
        nlreq_add(&q, RTM_GETLINK, NLM_F_DUMP, &any, sizeof(any));
        r = nlreq_send(&q, sock, on_unmuted, &all, NULL, err);
        for (unsigned i = 0; r == 0 && i < all.count; i++)
            r = link_take_down(sock, all.index[i]);
    } while (r == 0 && all.count == UNMUTED_MAX);
    return r;
}

int link_set_mtu(int sock, const char *name, uint32_t mtu, struct err *err)
{
    auto_nlreq struct nlreq q;
    int r;

    nlreq_init(&q);
    link_begin(&q, RTM_SETLINK, 0, 0, 0);
    nl_put_string(&q, IFLA_IFNAME, name);
    nl_put_u32(&q, IFLA_MTU, mtu);
    r = nlreq_send(&q, sock, NULL, NULL, NULL, err);
    return r < 0 ? err_wrap(err, r, "MTU of %s", name) : 0;
}

int link_ignore_ra(const char *name, struct err *err)
{
    static const char *const switches[] = {"accept_ra", "accept_redirects"};

    for (size_t i = 0; i < sizeof(switches) / sizeof(switches[0]); i++) {
        char path[128];
        int r;

        (void)snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/%s", name, switches[i]);
        r = file_poke_at(AT_FDCWD, path, "0");
        if (r < 0 && r != -ENOENT) /* a host without IPv6 has no such switch */
            return err_errno(err, r, "link %s: %s", name, switches[i]);
    }
    return 0;
}
