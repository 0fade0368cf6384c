#pragma once

/*
 * The subnet of a named network, and a member's address in it. Pure.
 *
 * These addresses exist only inside the members: a table in each member's net namespace translates
 * between them and the addresses that rind has given (net/lan.h). The host knows nothing of them,
 * so a subnet catches no traffic but that of the network's own members.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/net-rule.h"

struct err;

enum {
    NET_LAN_PREFIX_MIN = 8,
    NET_LAN_PREFIX_MAX = 30,
    NET_LAN_MEMBERS_MAX = 128, /* running members of a network with a subnet */
    NET_LAN_KEPT_MAX = 16,     /* auxiliary addresses of a subnet */
    NET_POOL_PREFIX4 = 19,     /* that part of rind's pool which sandboxes have addresses of */
};

/* What a member gets. */
struct net_lan {
    uint8_t prefix; /* of the subnet; 0: the network has none */
    uint8_t reserved[3];
    uint8_t address[4], gateway[4];
};

/* A network's subnet, and which address in it is asked for. Sent to the launcher unchanged, which
 * checks it again (net_lan_ask_ok). */
struct net_lan_ask {
    uint8_t index;        /* of the network, in the request's order */
    uint8_t prefix;       /* 0: the network has no subnet */
    uint8_t range_prefix; /* of the part that automatic addresses are from */
    uint8_t fixed;        /* 0 or 1: `address` is asked for */
    uint8_t subnet[4], range[4], gateway[4], address[4];
    uint8_t kept_count, reserved[3];
    uint8_t kept[NET_LAN_KEPT_MAX][4]; /* addresses that no member gets */
};
_Static_assert(sizeof(struct net_lan_ask) == 88, "net_lan_ask is a wire format");

/* Another member: its address in the network, and the one that rind has given. */
struct net_lan_peer {
    uint8_t lan[4], pool[4];
};

/* What a member's address must not be. */
struct net_lan_taken {
    const uint8_t (*members)[4]; /* addresses of other members */
    size_t count;
    const uint8_t *pool;        /* an address of rind's pool; NULL: unknown */
    const struct net_addr *dns; /* its name servers */
    size_t dns_count;
};

/* Parses the subnet of a network. gateway, range: NULL for the first address, and for the whole
 * subnet. The messages are Docker's. -EINVAL; -EPERM: the subnet has addresses that are no host's,
 * or those of the link (169.254.0.0/16), where programs look for cloud metadata. */
int net_lan_parse(const char *subnet, const char *gateway, const char *range,
                  struct net_lan_ask *ret, struct err *err);
/* Keeps an address from all members. -EINVAL: it is not in the subnet; -E2BIG. */
int net_lan_keep(struct net_lan_ask *a, const char *text, struct err *err);
bool net_lan_ask_ok(const struct net_lan_ask *a);
/* True if a member may have the address. -EINVAL: it is outside of the subnet, or is no member's.
 */
int net_lan_check_address(const struct net_lan_ask *a, const uint8_t address[4], struct err *err);
bool net_lan_overlap(const uint8_t *a, unsigned a_prefix, const uint8_t *b, unsigned b_prefix);
/* Chooses an address that is not taken. -EADDRINUSE: the one asked for is; -ENOSPC. */
int net_lan_choose(const struct net_lan_ask *a, const struct net_lan_taken *taken, uint8_t ret[4],
                   struct err *err);

/* Formats "172.28.0.0/16". */
void net_lan_format(const uint8_t bytes[4], unsigned prefix, char text[NET_RULE_TEXT_MAX]);
struct net_addr net_lan_addr(const uint8_t bytes[4]);
/* True if the member's address is in this subnet. */
bool net_lan_is_of(const struct net_lan *lan, const struct net_lan_ask *subnet);
