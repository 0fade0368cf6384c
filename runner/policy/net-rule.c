/* Parsing, formatting and checking of network rules. Pure functions. */

#include "policy/net-rule.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"

enum { PORT_MAX = 65535 };

static const char rule_words[] =
    "must be an address or CIDR, and may have a port or ports and a protocol behind it: "
    "10.0.0.0/8, 192.0.2.1:443, [2001:db8::]/32:8000-8099/tcp";

/* ---- tokens ---- */

/* Parses decimal digits, without sign and leading zero. */
static int parse_number(const char *text, size_t len, unsigned max, unsigned *ret)
{
    unsigned n = 0;

    if (len == 0 || len > 5 || (len > 1 && text[0] == '0'))
        return -EINVAL;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -EINVAL;
        n = n * 10 + (unsigned)(text[i] - '0');
    }
    if (n > max)
        return -ERANGE;
    *ret = n;
    return 0;
}

int net_addr_parse(const char *text, struct net_addr *ret)
{
    struct net_addr a = {.family = 4};

    if (inet_pton(AF_INET, text, a.bytes) == 1) {
        *ret = a;
        return 0;
    }
    a.family = 6;
    if (inet_pton(AF_INET6, text, a.bytes) != 1)
        return -EINVAL;
    *ret = a;
    return 0;
}

/* An IPv4-mapped address is sent as IPv4, so an IPv6 rule for it would never match. */
static bool is_mapped(const uint8_t *bytes)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

    return memcmp(bytes, mapped, sizeof(mapped)) == 0;
}

static bool has_bits_after_prefix(const uint8_t *bytes, unsigned size, unsigned prefix)
{
    for (unsigned i = prefix; i < size * 8; i++)
        if ((bytes[i / 8] & (0x80u >> (i % 8))) != 0)
            return true;
    return false;
}

bool net_same_prefix(const uint8_t *a, const uint8_t *b, unsigned prefix)
{
    unsigned whole = prefix / 8, rest = prefix % 8;

    if (memcmp(a, b, whole) != 0)
        return false;
    return rest == 0 || ((a[whole] ^ b[whole]) >> (8 - rest)) == 0;
}

static int parse_protocol(const char *text, uint8_t *ret)
{
    if (strcmp(text, "tcp") == 0)
        *ret = NET_TCP;
    else if (strcmp(text, "udp") == 0)
        *ret = NET_UDP;
    else
        return -EINVAL;
    return 0;
}

static int parse_ports(const char *text, uint16_t *first, uint16_t *last)
{
    const char *dash = strchr(text, '-');
    size_t len = dash != NULL ? (size_t)(dash - text) : strlen(text);
    unsigned a, b;
    int r;

    r = parse_number(text, len, PORT_MAX, &a);
    b = a;
    if (r == 0 && dash != NULL)
        r = parse_number(dash + 1, strlen(dash + 1), PORT_MAX, &b);
    if (r < 0)
        return r;
    if (a == 0 || b < a)
        return -ERANGE;
    *first = (uint16_t)a;
    *last = (uint16_t)b;
    return 0;
}

/* ---- rules ---- */

/* Cuts off the last '/' word if it is a protocol, not a prefix length. */
static int cut_protocol(char *text, struct net_rule *r)
{
    char *slash = strrchr(text, '/');

    if (slash == NULL || (slash[1] >= '0' && slash[1] <= '9'))
        return 0;
    *slash = '\0';
    return parse_protocol(slash + 1, &r->proto);
}

/* Cuts off ":PORT". Without brackets a second colon means IPv6 without a port. */
static int cut_ports(char *text, struct net_rule *r)
{
    char *close = strrchr(text, ']'), *colon;

    if (close == NULL && strchr(text, ':') != strrchr(text, ':'))
        return 0;
    colon = strrchr(close != NULL ? close : text, ':');
    if (colon == NULL)
        return 0;
    *colon = '\0';
    return parse_ports(colon + 1, &r->first, &r->last);
}

/* Removes the brackets of "[ADDR]/N", "[ADDR/N]". */
static int cut_brackets(char **text)
{
    char *close = strchr(*text, ']');

    if ((*text)[0] != '[')
        return close != NULL ? -EINVAL : 0;
    if (close == NULL || (close[1] != '\0' && close[1] != '/'))
        return -EINVAL;
    (void)memmove(close, close + 1, strlen(close + 1) + 1);
    (*text)++;
    return 0;
}

static int parse_network(char *text, struct net_rule *r)
{
    char *slash = strchr(text, '/');
    struct net_addr a;
    unsigned prefix = 0, bits;
    int n;

    if (slash != NULL)
        *slash = '\0';
    n = net_addr_parse(text, &a);
    if (n < 0)
        return n;
    bits = a.family == 4 ? 32 : 128;
    prefix = bits;
    if (slash != NULL)
        n = parse_number(slash + 1, strlen(slash + 1), bits, &prefix);
    if (n < 0)
        return n;
    (void)memcpy(r->bytes, a.bytes, sizeof(r->bytes));
    r->family = a.family;
    r->prefix = (uint8_t)prefix;
    return 0;
}

static int parse_rule(char *text, struct net_rule *r)
{
    int n;

    n = cut_protocol(text, r);
    if (n == 0)
        n = cut_ports(text, r);
    if (n == 0)
        n = cut_brackets(&text);
    return n < 0 ? n : parse_network(text, r);
}

int net_rule_parse(const char *text, bool deny, struct net_rule *ret, struct err *err)
{
    struct net_rule r = {.deny = deny};
    char copy[NET_RULE_TEXT_MAX];
    size_t len = strlen(text);
    int n;

    if (len >= sizeof(copy))
        return err_set(err, -EINVAL, "\"%.64s\": %s", text, rule_words);
    (void)memcpy(copy, text, len + 1);
    n = parse_rule(copy, &r);
    if (n < 0)
        return err_set(err, n, "\"%s\": %s", text, rule_words);
    if (r.family == 6 && is_mapped(r.bytes))
        return err_set(err, -EINVAL, "\"%s\": write an IPv4 address as one", text);
    if (has_bits_after_prefix(r.bytes, r.family == 4 ? 4 : 16, r.prefix))
        return err_set(err, -EINVAL, "\"%s\": has bits set behind its prefix length", text);
    if (r.proto != 0 && r.first == 0) {
        r.first = 1; /* a protocol without ports means all its ports */
        r.last = PORT_MAX;
    }
    *ret = r;
    return 0;
}

int net_port_parse(const char *text, struct net_port *ret, struct err *err)
{
    const char *slash = strchr(text, '/');
    size_t len = slash != NULL ? (size_t)(slash - text) : strlen(text);
    struct net_port p = {.proto = NET_TCP};
    unsigned n = 0;
    int r;

    r = parse_number(text, len, PORT_MAX, &n);
    if (r == 0 && n == 0)
        r = -ERANGE;
    if (r == 0 && slash != NULL)
        r = parse_protocol(slash + 1, &p.proto);
    if (r < 0)
        return err_set(err, r, "\"%.32s\": must be a port, 1 to 65535, or PORT/tcp or PORT/udp",
                       text);
    p.port = (uint16_t)n;
    *ret = p;
    return 0;
}

/* ---- lists ---- */

static int put_rule(struct net_access *a, const struct net_rule *r)
{
    for (size_t i = 0; i < a->rule_count; i++)
        if (memcmp(&a->rules[i], r, sizeof(*r)) == 0)
            return 0;
    if (a->rule_count == NET_RULES_MAX)
        return -E2BIG;
    a->rules[a->rule_count++] = *r;
    return 0;
}

static int put_port(struct net_access *a, const struct net_port *p)
{
    for (size_t i = 0; i < a->port_count; i++)
        if (memcmp(&a->ports[i], p, sizeof(*p)) == 0)
            return 0;
    if (a->port_count == NET_PORTS_MAX)
        return -E2BIG;
    a->ports[a->port_count++] = *p;
    return 0;
}

int net_access_add_rule(struct net_access *a, const char *text, bool deny, struct err *err)
{
    struct net_rule rule;
    int r = net_rule_parse(text, deny, &rule, err);

    if (r < 0)
        return r;
    r = put_rule(a, &rule);
    return r < 0 ? err_set(err, r, "\"%s\": more than %d rules", text, NET_RULES_MAX) : 0;
}

int net_access_add_port(struct net_access *a, const char *text, struct err *err)
{
    struct net_port port;
    int r = net_port_parse(text, &port, err);

    if (r < 0)
        return r;
    r = put_port(a, &port);
    return r < 0 ? err_set(err, r, "\"%s\": more than %d ports", text, NET_PORTS_MAX) : 0;
}

int net_access_merge(struct net_access *a, const struct net_access *more, bool with_allow)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < more->rule_count; i++)
        if (with_allow || more->rules[i].deny != 0)
            r = put_rule(a, &more->rules[i]);
    for (size_t i = 0; r == 0 && with_allow && i < more->port_count; i++)
        r = put_port(a, &more->ports[i]);
    return r;
}

/* ---- formatting ---- */

void net_addr_format(const struct net_addr *a, char text[NET_ADDR_TEXT_MAX])
{
    if (inet_ntop(a->family == 4 ? AF_INET : AF_INET6, a->bytes, text, NET_ADDR_TEXT_MAX) == NULL)
        text[0] = '\0';
}

static const char *protocol_name(uint8_t proto)
{
    return proto == NET_TCP ? "/tcp" : proto == NET_UDP ? "/udp" : "";
}

void net_rule_format(const struct net_rule *r, char text[NET_RULE_TEXT_MAX])
{
    struct net_addr a = {.family = r->family};
    char addr[NET_ADDR_TEXT_MAX], range[16] = "";

    (void)memcpy(a.bytes, r->bytes, sizeof(a.bytes));
    net_addr_format(&a, addr);
    if (r->first == r->last && r->first != 0)
        (void)snprintf(range, sizeof(range), ":%u", r->first);
    else if (r->first != 0)
        (void)snprintf(range, sizeof(range), ":%u-%u", r->first, r->last);
    (void)snprintf(text, NET_RULE_TEXT_MAX, r->family == 6 ? "[%s]/%u%s%s" : "%s/%u%s%s", addr,
                   r->prefix, range, protocol_name(r->proto));
}

void net_port_format(const struct net_port *p, char text[NET_PORT_TEXT_MAX])
{
    (void)snprintf(text, NET_PORT_TEXT_MAX, "%u%s", p->port, protocol_name(p->proto));
}

/* ---- checks ---- */

static bool proto_ok(uint8_t proto)
{
    return proto == NET_TCP || proto == NET_UDP;
}

bool net_addr_ok(const struct net_addr *a)
{
    static const uint8_t zero[12];

    if (a->family == 4)
        return memcmp(a->bytes + 4, zero, sizeof(zero)) == 0;
    return a->family == 6 && !is_mapped(a->bytes);
}

bool net_rule_ok(const struct net_rule *r)
{
    struct net_addr a = {.family = r->family};
    unsigned bits = r->family == 4 ? 32 : 128;

    (void)memcpy(a.bytes, r->bytes, sizeof(a.bytes));
    if (!net_addr_ok(&a) || r->prefix > bits ||
        has_bits_after_prefix(r->bytes, bits / 8, r->prefix))
        return false;
    if ((r->proto != 0 && !proto_ok(r->proto)) || r->deny > 1)
        return false;
    if (r->first == 0)
        return r->last == 0 && r->proto == 0;
    return r->first <= r->last;
}

bool net_port_ok(const struct net_port *p)
{
    return p->port != 0 && proto_ok(p->proto) && p->reserved == 0;
}

bool net_rule_covers(const struct net_rule *outer, const struct net_rule *inner)
{
    if (outer->family != inner->family || outer->prefix > inner->prefix ||
        !net_same_prefix(outer->bytes, inner->bytes, outer->prefix))
        return false;
    if (outer->proto != 0 && outer->proto != inner->proto)
        return false;
    return outer->first == 0 ||
           (inner->first != 0 && outer->first <= inner->first && inner->last <= outer->last);
}
