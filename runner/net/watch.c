#include "net/watch.h"

#include <errno.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/err.h"
#include "net/nft.h"
#include "net/pool.h"
#include "net/ruleset.h"

/* Behind nft.h, which includes netinet/in.h in front of them. */
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/rtnetlink.h>

enum { TYPE_MASK = 0xff };

static const struct nlattr *find(const struct nlmsghdr *h, int attr)
{
    return nlmsg_find_attr((struct nlmsghdr *)(uintptr_t)h, sizeof(struct nfgenmsg), attr);
}

/* The kernel ends its strings with a NUL. */
static bool text_is(const struct nlattr *a, const char *text)
{
    size_t len = strlen(text) + 1;

    return a != NULL && (size_t)nla_len(a) == len && memcmp(nla_data(a), text, len) == 0;
}

static bool is_nft(const struct nlmsghdr *h, int type)
{
    return nlmsg_valid_hdr(h, sizeof(struct nfgenmsg)) &&
           h->nlmsg_type >> 8 == NFNL_SUBSYS_NFTABLES && (h->nlmsg_type & TYPE_MASK) == type;
}

bool watch_is_deletion(const struct nlmsghdr *h, const char *table)
{
    return is_nft(h, NFT_MSG_DELTABLE) && text_is(find(h, NFTA_TABLE_NAME), table);
}

static int open_groups(int protocol, const int *groups, size_t count)
{
    const struct sockaddr_nl any = {.nl_family = AF_NETLINK};
    auto_close int fd = nl_open(protocol);

    if (fd < 0)
        return fd;
    /* A name of its own: without one it looks like the sender of the kernel's messages, who does
     * not get them. */
    if (bind(fd, (const struct sockaddr *)&any, sizeof(any)) < 0)
        return -errno;
    for (size_t i = 0; i < count; i++)
        if (setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &groups[i], sizeof(groups[i])) < 0)
            return -errno;
    return take_fd(&fd);
}

int watch_open(void)
{
    static const int groups[] = {NFNLGRP_NFTABLES};

    return open_groups(NETLINK_NETFILTER, groups, 1);
}

int watch_open_routes(void)
{
    static const int groups[] = {RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE};

    return open_groups(NETLINK_ROUTE, groups, 2);
}

static int on_event(const struct nlmsghdr *h, void *data)
{
    if (watch_is_deletion(h, NET_TABLE))
        *(bool *)data = true;
    return 0;
}

/* Whether something was lost, or cannot be read: who knows what has happened. */
static bool read_events(int fd, nl_message_fn *fn, void *data)
{
    _Alignas(struct nlmsghdr) char events[NLREPLY_BYTES];
    struct nl_answers unused = {.acks = 0};
    bool lost = false;

    for (;;) {
        ssize_t n = recv(fd, events, sizeof(events), MSG_DONTWAIT);

        if (n < 0 && errno == ENOBUFS)
            lost = true;
        else if (n <= 0)
            return lost;
        else if (nl_feed(&unused, events, (size_t)n, fn, data) < 0)
            lost = true;
    }
}

bool watch_read(int fd)
{
    bool gone = false;

    return read_events(fd, on_event, &gone) || gone;
}

/* ---- routes ---- */

struct routes_seen {
    bool moved;
    void (*on_route)(void *data, const struct route *route);
    void *data;
};

bool watch_is_default_route(const struct nlmsghdr *h)
{
    struct rtmsg m;

    if ((h->nlmsg_type != RTM_NEWROUTE && h->nlmsg_type != RTM_DELROUTE) ||
        !nlmsg_valid_hdr(h, sizeof(m)))
        return false;
    (void)memcpy(&m, nlmsg_data(h), sizeof(m));
    return m.rtm_dst_len == 0 && m.rtm_type != RTN_MULTICAST && (m.rtm_flags & RTM_F_CLONED) == 0;
}

static int on_route_event(const struct nlmsghdr *h, void *data)
{
    struct routes_seen *seen = data;
    struct route route;

    if (watch_is_default_route(h))
        seen->moved = true;
    else if (route_parse(h, &route) == 1)
        seen->on_route(seen->data, &route);
    return 0;
}

bool watch_read_routes(int fd, void (*on_route)(void *data, const struct route *route), void *data)
{
    struct routes_seen seen = {.on_route = on_route, .data = data};

    return read_events(fd, on_route_event, &seen) || seen.moved;
}

/* ---- chains of others ---- */

static uint32_t be32(const struct nlattr *a)
{
    const uint8_t *b = nla_data(a);

    return nla_len(a) != 4
               ? UINT32_MAX
               : (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static const char *family_name(uint8_t family)
{
    return family == NFPROTO_IPV4 ? "ip" : family == NFPROTO_IPV6 ? "ip6" : "inet";
}

bool watch_is_drop(const struct nlmsghdr *h, char text[WATCH_TEXT_MAX])
{
    const struct nlattr *hook, *number, *policy, *table, *name;
    struct nfgenmsg g;

    if (!is_nft(h, NFT_MSG_NEWCHAIN))
        return false;
    (void)memcpy(&g, nlmsg_data(h), sizeof(g));
    hook = find(h, NFTA_CHAIN_HOOK);
    policy = find(h, NFTA_CHAIN_POLICY);
    table = find(h, NFTA_CHAIN_TABLE);
    name = find(h, NFTA_CHAIN_NAME);
    if (hook == NULL || policy == NULL || table == NULL || name == NULL ||
        text_is(table, NET_TABLE))
        return false;
    if (g.nfgen_family != NFPROTO_IPV4 && g.nfgen_family != NFPROTO_INET)
        return false;
    number = nla_find(nla_data(hook), nla_len(hook), NFTA_HOOK_HOOKNUM);
    if (number == NULL || be32(number) != NF_INET_FORWARD || be32(policy) != NF_DROP)
        return false;
    (void)snprintf(text, WATCH_TEXT_MAX, "%s %.*s %.*s", family_name(g.nfgen_family),
                   nla_len(table), (const char *)nla_data(table), nla_len(name),
                   (const char *)nla_data(name));
    return true;
}

static int on_chain(const struct nlmsghdr *h, void *data)
{
    char *text = data;

    if (text[0] == '\0')
        (void)watch_is_drop(h, text);
    return 0;
}

int watch_foreign_drop(int sock, char text[WATCH_TEXT_MAX], struct err *err)
{
    const struct nfgenmsg g = {.nfgen_family = NFPROTO_UNSPEC, .version = NFNETLINK_V0};
    auto_nlreq struct nlreq q;
    int r;

    text[0] = '\0';
    nlreq_init(&q);
    nlreq_add(&q, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETCHAIN, NLM_F_DUMP, &g, sizeof(g));
    r = nlreq_send(&q, sock, on_chain, text, NULL, err);
    return r < 0 ? r : text[0] != '\0';
}
