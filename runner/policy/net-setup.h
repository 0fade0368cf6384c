#pragma once

/*
 * The network of one sandbox as plain data: requested settings (checked), and addresses that net/
 * derives from the slot. The launcher stores it beside the sandbox's files, for later launchers;
 * the struct's size is part of the file format.
 */

#include <stdbool.h>

#include "policy/net-lan.h"
#include "policy/net-rule.h"

enum {
    NET_LINK_MAX = 16, /* bytes of an interface's name, NUL included */
    NET_SEARCH_MAX = 256,
    NET_GROUP_NONE = 0,
    NET_MORE_MAX = 7, /* named networks beside the first one */
    NET_GROUPS_MAX = NET_MORE_MAX + 1,
};

/* Addresses of a sandbox's network, for display. Family 0: none. */
struct net_place {
    struct net_addr gateway4, sandbox4, gateway6, sandbox6;
    struct net_lan lan[NET_GROUPS_MAX]; /* in its networks with a subnet, in no order */
};

/* Lines of resolv.conf that were asked for: those of the host do not replace them. */
enum net_own_lines { NET_OWN_SEARCH = 1 << 0, NET_OWN_OPTIONS = 1 << 1 };

struct net_setup {
    /* ---- requested ---- */
    uint32_t slot;     /* unique on this host */
    uint32_t group_v1; /* as `group`, in records of earlier launchers */
    uint8_t internet;
    uint8_t host_dns; /* derived: DNS settings are the host's, and updated with them */
    uint8_t admin;    /* the sandbox may configure its interface, so it can send arbitrary frames */
    uint8_t own_lines; /* enum net_own_lines */
    struct net_access access;
    /* ---- requested, or the host's by default ---- */
    uint32_t dns_count;
    struct net_addr dns[NET_DNS_MAX];
    char search[NET_SEARCH_MAX]; /* further lines of resolv.conf, each with its newline */
    /* ---- derived ---- */
    char link[NET_LINK_MAX]; /* name of the host's end */
    int32_t ifindex;
    uint32_t mtu;
    uint8_t route6; /* has IPv6, if the host has a route for it */
    struct net_addr gateway4, sandbox4, gateway6, sandbox6;
    /* ---- requested; behind the others, because earlier launchers wrote the struct without ---- */
    uint32_t more_count;
    uint32_t more_v1[NET_MORE_MAX]; /* as `more`, in records of earlier launchers */
    uint64_t group;              /* members of a named network reach each other; NET_GROUP_NONE */
    uint64_t more[NET_MORE_MAX]; /* groups beside `group`; none twice */
    /* ---- derived; likewise ---- */
    struct net_lan lan[NET_GROUPS_MAX]; /* its addresses in `group`, and in each of `more` */
};

/* What is set inside a member of networks with a subnet. */
enum net_lan_step {
    NET_LAN_FRESH, /* all of it, before any process runs there */
    NET_LAN_OWN,   /* all of it, in place of what is there */
    NET_LAN_PEERS, /* its table alone: other members have changed */
};

/* True if the sandbox is a member of this named network. */
static inline bool net_setup_in_group(const struct net_setup *s, uint64_t group)
{
    if (group == NET_GROUP_NONE)
        return false;
    for (uint32_t i = 0; i < s->more_count; i++)
        if (s->more[i] == group)
            return true;
    return s->group == group;
}

static inline uint32_t net_setup_group_count(const struct net_setup *s)
{
    return s->group == NET_GROUP_NONE ? 0 : s->more_count + 1;
}

/* Group number i, in the order of `lan`. */
static inline uint64_t net_setup_group(const struct net_setup *s, uint32_t i)
{
    return i == 0 ? s->group : s->more[i - 1];
}

static inline bool net_setup_has_lan(const struct net_setup *s)
{
    for (uint32_t i = 0; i < NET_GROUPS_MAX; i++)
        if (s->lan[i].prefix != 0)
            return true;
    return false;
}

/* Its address in a group; NULL: that has no subnet, or it is not in it. */
static inline const struct net_lan *net_setup_lan(const struct net_setup *s, uint64_t group)
{
    for (uint32_t i = 0; i < net_setup_group_count(s); i++)
        if (net_setup_group(s, i) == group)
            return s->lan[i].prefix != 0 ? &s->lan[i] : NULL;
    return NULL;
}

/* The address by which `reader`, which may be s itself, knows the sandbox: that in the first
 * network of both which has a subnet, or the one that rind has given. */
static inline struct net_addr net_setup_address(const struct net_setup *s,
                                                const struct net_setup *reader)
{
    for (uint32_t i = 0; i < net_setup_group_count(reader); i++) {
        const struct net_lan *lan = net_setup_lan(s, net_setup_group(reader, i));

        if (lan != NULL)
            return net_lan_addr(lan->address);
    }
    return s->sandbox4;
}
