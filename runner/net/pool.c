#include "net/pool.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/err.h"

/* Rarely used networks, one in each private range: a host that routes all of 10.0.0.0/8 into a
 * tunnel has another one free. The last one is reserved for benchmarks (RFC 2544). */
const char *const pool_defaults4[] = {"10.213.0.0/19",   "172.29.64.0/19", "192.168.192.0/19",
                                      "100.126.32.0/19", "198.18.64.0/19", NULL};
/* Unique local (RFC 4193). */
const char *const pool_defaults6[] = {"fd72:6e64:9c3a::/64", "fd91:d20b:71e4::/64",
                                      "fd4e:80aa:35c6::/64", NULL};

int pool_parse(const char *text, int family, struct net_rule *ret, struct err *err)
{
    struct net_rule r;
    int n = net_rule_parse(text, false, &r, err);

    if (n < 0)
        return n;
    if (r.family != family || r.first != 0 || r.proto != 0)
        return err_set(err, -EINVAL, "\"%s\": must be an IPv%d CIDR", text, family);
    if (r.prefix > (family == 4 ? POOL_PREFIX4 : POOL_PREFIX6))
        return err_set(err, -ERANGE, "\"%s\": must have room for %d addresses: /%d or shorter",
                       text, POOL_SLOTS * 2, family == 4 ? POOL_PREFIX4 : POOL_PREFIX6);
    *ret = r;
    return 0;
}

struct net_addr pool_address(const struct net_rule *pool, uint32_t n)
{
    struct net_addr a = {.family = pool->family};
    size_t last = pool->family == 4 ? 3 : 15;

    (void)memcpy(a.bytes, pool->bytes, sizeof(a.bytes));
    for (size_t i = 0; n != 0; i++, n >>= 8) /* these bits of a pool are zero */
        a.bytes[last - i] |= (uint8_t)n;
    return a;
}

/* ---- routes ---- */

/* Copies the attributes that are used. */
static bool route_take_attrs(const struct nlmsghdr *h, struct pool_route *r)
{
    const struct nlattr *attr;
    size_t len = r->to.family == 4 ? 4 : 16;
    int left;

    nlmsg_for_each_attr(attr, (struct nlmsghdr *)(uintptr_t)h, sizeof(struct rtmsg), left)
    {
        if (nla_type(attr) == RTA_DST) {
            if ((size_t)nla_len(attr) != len)
                return false;
            (void)memcpy(r->to.bytes, nla_data(attr), len);
        } else if (nla_type(attr) == RTA_OIF) {
            if ((size_t)nla_len(attr) != sizeof(r->oif))
                return false;
            (void)memcpy(&r->oif, nla_data(attr), sizeof(r->oif));
        }
    }
    return true;
}

/* Multicast and link-local routes. */
static bool route_is_link_local(const struct net_rule *to)
{
    return to->family == 6 && to->prefix >= 8 &&
           (to->bytes[0] == 0xff || (to->bytes[0] == 0xfe && (to->bytes[1] & 0xc0) == 0x80));
}

int route_parse(const struct nlmsghdr *h, struct pool_route *ret)
{
    struct pool_route r = {.oif = 0};
    struct rtmsg m;

    if (h->nlmsg_type != RTM_NEWROUTE)
        return 0;
    if (!nlmsg_valid_hdr(h, sizeof(m)))
        return -EBADMSG;
    (void)memcpy(&m, nlmsg_data(h), sizeof(m));
    if (m.rtm_family != AF_INET && m.rtm_family != AF_INET6)
        return 0;
    r.to.family = m.rtm_family == AF_INET ? 4 : 6;
    if (m.rtm_dst_len > (r.to.family == 4 ? 32 : 128))
        return -EBADMSG;
    r.to.prefix = m.rtm_dst_len;
    if (!route_take_attrs(h, &r))
        return -EBADMSG;
    r.ours = m.rtm_protocol == ROUTE_PROTOCOL && m.rtm_type == RTN_BLACKHOLE;
    r.configured = (m.rtm_flags & RTM_F_CLONED) == 0 && m.rtm_type != RTN_MULTICAST &&
                   !route_is_link_local(&r.to);
    *ret = r;
    return 1;
}

/* ---- choosing ---- */

bool pool_overlap(const struct net_rule *a, const struct net_rule *b)
{
    return a->family == b->family &&
           net_same_prefix(a->bytes, b->bytes, a->prefix < b->prefix ? a->prefix : b->prefix);
}

/* Finds a route or host that overlaps the pool, as text; false when there is none. */
static bool find_overlap(const struct net_rule *pool, const struct pool_taken *t,
                         char text[NET_RULE_TEXT_MAX])
{
    for (size_t i = 0; i < t->route_count; i++)
        /* Default routes, and the two halves of the address space that VPNs use, do not count. */
        if (t->routes[i].to.prefix > 1 && pool_overlap(pool, &t->routes[i].to)) {
            net_rule_format(&t->routes[i].to, text);
            return true;
        }
    for (size_t i = 0; i < t->host_count; i++) {
        struct net_rule host = {.family = t->hosts[i].family,
                                .prefix = t->hosts[i].family == 4 ? 32 : 128};

        (void)memcpy(host.bytes, t->hosts[i].bytes, sizeof(host.bytes));
        if (pool_overlap(pool, &host)) {
            net_rule_format(&host, text);
            return true;
        }
    }
    return false;
}

int pool_choose(const char *const *pools, int family, const struct pool_taken *taken,
                struct net_rule *ret, struct err *err)
{
    auto_buf struct buf tried = BUF_INIT(ROUTES_TEXT_MAX);

    for (; *pools != NULL; pools++) {
        char text[NET_RULE_TEXT_MAX];
        struct net_rule pool;
        int r = pool_parse(*pools, family, &pool, err);

        if (r < 0)
            return err_wrap(err, r, "network.pool%d", family);
        if (!find_overlap(&pool, taken, text)) {
            *ret = pool;
            return 0;
        }
        (void)buf_printf(&tried, "%s%s (the host has %s)", tried.len > 0 ? ", " : "", *pools,
                         text); /* text that does not fit is left out */
    }
    return err_set(err, -ENOSPC,
                   "no address range is free for sandboxes: %s; set network.pool%d in the "
                   "configuration",
                   tried.len > 0 ? tried.data : "none is configured", family);
}
