#pragma once

/*
 * The elements of a network policy: destinations with ports, and ports of the host, as text and as
 * fixed-size values. Pure. The values are sent to the launcher unchanged, which checks them again
 * (net_rule_ok).
 *
 *   10.1.0.0/16   10.1.2.3:443   2001:db8::/32   [2001:db8::1]:8000-8099/tcp   192.0.2.1:53/udp
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum {
    NET_RULES_MAX = 128, /* allow and deny rules together */
    NET_PORTS_MAX = 32,  /* ports of the host */
    NET_DNS_MAX = 3,     /* limit of resolv.conf(5) */
    NET_RULE_TEXT_MAX = 80,
    NET_PORT_TEXT_MAX = 16,
    NET_ADDR_TEXT_MAX = 46, /* INET6_ADDRSTRLEN */
    NET_TCP = 6,
    NET_UDP = 17,
};

struct net_addr {
    uint8_t bytes[16]; /* network order; IPv4 in the first four, followed by zeros */
    uint8_t family;    /* 4 or 6; 0 = none */
};

struct net_rule {
    uint8_t bytes[16]; /* as net_addr; no bit set after the prefix */
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

/* Exceptions from a network mode. Deny rules override allow rules, which override the mode. */
struct net_access {
    struct net_rule rules[NET_RULES_MAX];
    size_t rule_count;
    struct net_port ports[NET_PORTS_MAX];
    size_t port_count;
};

/*
 * Parse text. -EINVAL, -ERANGE; err describes the accepted forms, and the caller adds the option or
 * JSON path.
 */
int net_addr_parse(const char *text, struct net_addr *ret);
int net_rule_parse(const char *text, bool deny, struct net_rule *ret, struct err *err);
int net_port_parse(const char *text, struct net_port *ret, struct err *err);
/* Parse text and append to a list; -E2BIG when it is full. Duplicates are not added. */
int net_access_add_rule(struct net_access *a, const char *text, bool deny, struct err *err);
int net_access_add_port(struct net_access *a, const char *text, struct err *err);
/* Adds the deny rules of `more`; with with_allow also everything else. -E2BIG. */
int net_access_merge(struct net_access *a, const struct net_access *more, bool with_allow);

/* Format values in the form that the parsers accept. */
void net_addr_format(const struct net_addr *a, char text[NET_ADDR_TEXT_MAX]);
void net_rule_format(const struct net_rule *r, char text[NET_RULE_TEXT_MAX]);
void net_port_format(const struct net_port *p, char text[NET_PORT_TEXT_MAX]);

/* True for values that the parsers could have produced. */
bool net_rule_ok(const struct net_rule *r);
bool net_port_ok(const struct net_port *p);
bool net_addr_ok(const struct net_addr *a);

/* True if every address, port and protocol of `inner` is covered by `outer`. */
bool net_rule_covers(const struct net_rule *outer, const struct net_rule *inner);

/* True if the first `prefix` bits are equal. */
bool net_same_prefix(const uint8_t *a, const uint8_t *b, unsigned prefix);
