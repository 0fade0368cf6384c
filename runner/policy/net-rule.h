#pragma once

/*
 * What a network policy is made of: destinations with ports, and ports of the host, as text and as
 * fixed-size values. Pure. The values cross to the launcher as they are, which checks them again
 * (net_rule_ok): both sides know only this one form.
 *
 *   10.1.0.0/16   10.1.2.3:443   2001:db8::/32   [2001:db8::1]:8000-8099/tcp   192.0.2.1:53/udp
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum {
    NET_RULES_MAX = 128, /* allow and deny together */
    NET_PORTS_MAX = 32,  /* of the host */
    NET_DNS_MAX = 3,     /* what resolv.conf(5) knows */
    NET_RULE_TEXT_MAX = 80,
    NET_PORT_TEXT_MAX = 16,
    NET_ADDR_TEXT_MAX = 46, /* INET6_ADDRSTRLEN */
    NET_TCP = 6,
    NET_UDP = 17,
};

struct net_addr {
    uint8_t bytes[16]; /* network order; IPv4 in the first four, zeros behind */
    uint8_t family;    /* 4 or 6; 0 = none */
};

struct net_rule {
    uint8_t bytes[16]; /* as net_addr; no bit set behind the prefix */
    uint8_t family;
    uint8_t prefix;
    uint8_t proto;        /* NET_TCP, NET_UDP; 0 = any */
    uint8_t deny;         /* 0 or 1 */
    uint16_t first, last; /* ports, host order; 0, 0 = any */
};
_Static_assert(sizeof(struct net_rule) == 24, "net_rule is a wire format");

struct net_port {
    uint16_t port; /* host order, at least 1 */
    uint8_t proto; /* NET_TCP or NET_UDP */
    uint8_t reserved;
};
_Static_assert(sizeof(struct net_port) == 4, "net_port is a wire format");

/* What is allowed and denied beyond a mode: deny goes before allow, allow before the mode. */
struct net_access {
    struct net_rule rules[NET_RULES_MAX];
    size_t rule_count;
    struct net_port ports[NET_PORTS_MAX];
    size_t port_count;
};

/* Text into values; -EINVAL, -ERANGE with a message that says what is accepted, without a prefix:
 * the caller names the option or the JSON path. */
int net_addr_parse(const char *text, struct net_addr *ret);
int net_rule_parse(const char *text, bool deny, struct net_rule *ret, struct err *err);
int net_port_parse(const char *text, struct net_port *ret, struct err *err);
/* The same into a list; -E2BIG when it is full. What is there already is not added again. */
int net_access_add_rule(struct net_access *a, const char *text, bool deny, struct err *err);
int net_access_add_port(struct net_access *a, const char *text, struct err *err);
/* Adds what `more` denies, and with with_allow all else that is in it. -E2BIG. */
int net_access_merge(struct net_access *a, const struct net_access *more, bool with_allow);

/* And back: what the parser above takes. */
void net_addr_format(const struct net_addr *a, char text[NET_ADDR_TEXT_MAX]);
void net_rule_format(const struct net_rule *r, char text[NET_RULE_TEXT_MAX]);
void net_port_format(const struct net_port *p, char text[NET_PORT_TEXT_MAX]);

/* Whether values from elsewhere are what the parsers could have made. */
bool net_rule_ok(const struct net_rule *r);
bool net_port_ok(const struct net_port *p);
bool net_addr_ok(const struct net_addr *a);

/* Whether every address of `inner` is one of `outer`, with a port and protocol that it has, too. */
bool net_rule_covers(const struct net_rule *outer, const struct net_rule *inner);

/* Whether the first `prefix` bits of both are the same. */
bool net_same_prefix(const uint8_t *a, const uint8_t *b, unsigned prefix);
