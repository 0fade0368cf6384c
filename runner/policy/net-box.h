#pragma once

/*
 * The network of one sandbox as plain data: what it may (asked for, checked) and where it is
 * (derived from its slot by net/, never asked for). The launcher keeps it beside the sandbox's
 * files, so that who comes later can account for it: the size is part of that file's format.
 */

#include "policy/net-rule.h"

enum {
    NET_LINK_MAX = 16, /* bytes of an interface's name, NUL included */
    NET_SEARCH_MAX = 256,
    NET_GROUP_NONE = 0,
};

/* Where it is, for who wants to show it. Family 0: it has none. */
struct net_place {
    struct net_addr gateway4, box4, gateway6, box6;
};

struct net_box {
    /* asked for */
    uint32_t slot;  /* one of its kind on this host */
    uint32_t group; /* the members of a named network reach each other; NET_GROUP_NONE */
    uint8_t internet;
    uint8_t host_dns; /* derived: name servers and search are the host's, and follow it */
    uint8_t admin;    /* who is inside administers its end: any frame may come out of it */
    uint8_t reserved;
    struct net_access access;
    /* asked for, or the host's when none were */
    uint32_t dns_count;
    struct net_addr dns[NET_DNS_MAX];
    char search[NET_SEARCH_MAX]; /* of resolv.conf: further lines, each with its newline */
    /* derived */
    char link[NET_LINK_MAX]; /* the host's end */
    int32_t ifindex;
    uint32_t mtu;
    uint8_t route6; /* has IPv6 at all: where the host has a way out for it */
    struct net_addr gateway4, box4, gateway6, box6;
};
