/*
 * The IPv4 addresses of a sandbox's link in networks with a subnet, and its default route, brought
 * in line with what is wanted, whatever an earlier launcher was doing when it ended. No process
 * inside can change them: the namespace belongs to the outer user namespace. Runs in the launcher;
 * called by net.c.
 */
#include <errno.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "net/link.h"
#include "net/netlink.h"

enum {
    LOOPBACK = 1,                   /* its index in each namespace */
    FOUND_MAX = 4 * NET_GROUPS_MAX, /* addresses on both devices */
    WANTED_MAX = NET_GROUPS_MAX + 1,
    POOL_PREFIX = 31, /* of a pair of addresses */
};

struct link_address {
    int index; /* of the device */
    uint8_t bytes[4], prefix;
};

struct link_addresses {
    struct link_address list[FOUND_MAX];
    size_t count;
};

static bool address_equal(const struct link_address *a, const struct link_address *b)
{
    return a->index == b->index && a->prefix == b->prefix && memcmp(a->bytes, b->bytes, 4) == 0;
}

static bool addresses_have(const struct link_addresses *all, const struct link_address *a)
{
    for (size_t i = 0; i < all->count; i++)
        if (address_equal(&all->list[i], a))
            return true;
    return false;
}

/* ---- what is there ---- */

static int on_address(const struct nlmsghdr *h, void *data)
{
    struct link_addresses *all = data;
    const struct nlattr *local;
    struct ifaddrmsg m;

    if (h->nlmsg_type != RTM_NEWADDR)
        return 0;
    if (!nlmsg_valid_hdr(h, sizeof(m)))
        return -EBADMSG;
    (void)memcpy(&m, nlmsg_data(h), sizeof(m));
    local = nlmsg_find_attr((struct nlmsghdr *)(uintptr_t)h, sizeof(m), IFA_LOCAL);
    if (m.ifa_family != AF_INET || local == NULL || nla_len(local) != 4)
        return 0;
    if (all->count == FOUND_MAX)
        return -E2BIG;
    all->list[all->count] =
        (struct link_address){.index = (int)m.ifa_index, .prefix = m.ifa_prefixlen};
    (void)memcpy(all->list[all->count++].bytes, nla_data(local), 4);
    return 0;
}

static int addresses_find(int inside, struct link_addresses *ret, struct err *err)
{
    const struct ifaddrmsg any = {.ifa_family = AF_INET};
    auto_nlreq struct nlreq q;

    ret->count = 0;
    nlreq_init(&q);
    nlreq_add(&q, RTM_GETADDR, NLM_F_DUMP, &any, sizeof(any));
    return nlreq_send(&q, inside, on_address, ret, NULL, err);
}

static int on_link_index(const struct nlmsghdr *h, void *data)
{
    struct ifinfomsg link;

    if (h->nlmsg_type != RTM_NEWLINK || !nlmsg_valid_hdr(h, sizeof(link)))
        return -EBADMSG;
    (void)memcpy(&link, nlmsg_data(h), sizeof(link));
    *(int *)data = link.ifi_index;
    return 0;
}

static int link_find_index(int inside, int *ret, struct err *err)
{
    const struct ifinfomsg any = {.ifi_family = AF_UNSPEC};
    auto_nlreq struct nlreq q;

    *ret = 0;
    nlreq_init(&q);
    nlreq_add(&q, RTM_GETLINK, NLM_F_ACK, &any, sizeof(any));
    nl_put_string(&q, IFLA_IFNAME, NET_INSIDE);
    return nlreq_send(&q, inside, on_link_index, ret, NULL, err);
}

/* ---- what is wanted ---- */

static void addresses_put(struct link_addresses *all, int index, const uint8_t bytes[4],
                          uint8_t prefix)
{
    struct link_address *a = &all->list[all->count++];

    *a = (struct link_address){.index = index, .prefix = prefix};
    (void)memcpy(a->bytes, bytes, 4);
}

static void addresses_want(struct link_addresses *ret, const struct net_setup *setup, int link)
{
    _Static_assert(WANTED_MAX <= FOUND_MAX, "they have room");
    ret->count = 0;
    for (size_t i = 0; i < NET_GROUPS_MAX; i++)
        if (setup->lan[i].prefix != 0)
            addresses_put(ret, link, setup->lan[i].address, setup->lan[i].prefix);
    if (ret->count > 0)
        addresses_put(ret, LOOPBACK, setup->sandbox4.bytes, 32);
    else
        addresses_put(ret, link, setup->sandbox4.bytes, POOL_PREFIX);
}

static const uint8_t *setup_router(const struct net_setup *setup)
{
    for (size_t i = 0; i < NET_GROUPS_MAX; i++)
        if (setup->lan[i].prefix != 0)
            return setup->lan[i].gateway;
    return setup->gateway4.bytes;
}

/* ---- changes ---- */

/* type: RTM_NEWADDR or RTM_DELADDR. */
static int address_set(int inside, uint16_t type, const struct link_address *a, struct err *err)
{
    const struct ifaddrmsg m = {.ifa_family = AF_INET,
                                .ifa_prefixlen = a->prefix,
                                .ifa_scope =
                                    a->index == LOOPBACK ? RT_SCOPE_HOST : RT_SCOPE_UNIVERSE,
                                .ifa_index = (uint32_t)a->index};
    auto_nlreq struct nlreq q;

    nlreq_init(&q);
    nlreq_add(&q, type, type == RTM_NEWADDR ? NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK : NLM_F_ACK, &m,
              sizeof(m));
    nl_put(&q, IFA_LOCAL, a->bytes, sizeof(a->bytes));
    return nlreq_send(&q, inside, NULL, NULL, NULL, err);
}

static int route_set_default(int inside, int link, const uint8_t router[4], struct err *err)
{
    const struct rtmsg route = {.rtm_family = AF_INET,
                                .rtm_table = RT_TABLE_MAIN,
                                .rtm_protocol = RTPROT_STATIC,
                                .rtm_scope = RT_SCOPE_UNIVERSE,
                                .rtm_type = RTN_UNICAST};
    auto_nlreq struct nlreq q;

    nlreq_init(&q);
    nlreq_add(&q, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK, &route, sizeof(route));
    nl_put(&q, RTA_GATEWAY, router, 4);
    nl_put_u32(&q, RTA_OIF, (uint32_t)link);
    return nlreq_send(&q, inside, NULL, NULL, NULL, err);
}

/* Only the pool's address is rind's on the loopback device. */
static bool address_is_ours(const struct link_address *a, const struct net_setup *setup, int link)
{
    return a->index == link || (a->index == LOOPBACK && a->prefix == 32 &&
                                memcmp(a->bytes, setup->sandbox4.bytes, 4) == 0);
}

/* First what is added, so that the pool's address, which sockets may have, is always there. */
int link_set_lans(int inside, const struct net_setup *setup, struct err *err)
{
    struct link_addresses have, want;
    int link = 0, r;

    r = link_find_index(inside, &link, err);
    if (r == 0)
        r = addresses_find(inside, &have, err);
    if (r < 0)
        return err_wrap(err, r, "addresses of " NET_INSIDE " in the sandbox");
    addresses_want(&want, setup, link);
    for (size_t i = 0; r == 0 && i < want.count; i++)
        if (!addresses_have(&have, &want.list[i]))
            r = address_set(inside, RTM_NEWADDR, &want.list[i], err);
    if (r == 0)
        r = route_set_default(inside, link, setup_router(setup), err);
    for (size_t i = 0; r == 0 && i < have.count; i++)
        if (address_is_ours(&have.list[i], setup, link) && !addresses_have(&want, &have.list[i]))
            r = address_set(inside, RTM_DELADDR, &have.list[i], err);
    return r < 0 ? err_wrap(err, r, "addresses of " NET_INSIDE " in the sandbox") : 0;
}
