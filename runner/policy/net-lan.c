#include "policy/net-lan.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

static uint32_t bytes_number(const uint8_t b[4])
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static void number_bytes(uint32_t n, uint8_t ret[4])
{
    ret[0] = (uint8_t)(n >> 24);
    ret[1] = (uint8_t)(n >> 16);
    ret[2] = (uint8_t)(n >> 8);
    ret[3] = (uint8_t)n;
}

static uint32_t prefix_size(unsigned prefix)
{
    return prefix == 0 ? 0 : UINT32_C(1) << (32 - prefix);
}

struct net_addr net_lan_addr(const uint8_t bytes[4])
{
    struct net_addr a = {.family = 4};

    (void)memcpy(a.bytes, bytes, 4);
    return a;
}

void net_lan_format(const uint8_t bytes[4], unsigned prefix, char text[NET_RULE_TEXT_MAX])
{
    (void)snprintf(text, NET_RULE_TEXT_MAX, "%u.%u.%u.%u/%u", bytes[0], bytes[1], bytes[2],
                   bytes[3], prefix);
}

bool net_lan_overlap(const uint8_t *a, unsigned a_prefix, const uint8_t *b, unsigned b_prefix)
{
    return net_same_prefix(a, b, a_prefix < b_prefix ? a_prefix : b_prefix);
}

bool net_lan_is_of(const struct net_lan *lan, const struct net_lan_ask *subnet)
{
    return lan->prefix != 0 && lan->prefix == subnet->prefix &&
           net_same_prefix(lan->address, subnet->subnet, subnet->prefix);
}

/* Addresses that no host has: "this network", loopback, multicast, reserved ones, the broadcast
 * address. And those of the link: a member at 169.254.169.254 would be asked for credentials. */
static bool subnet_is_special(const uint8_t *bytes, unsigned prefix)
{
    static const struct {
        uint8_t bytes[4], prefix;
    } ranges[] = {{{0}, 8}, {{127}, 8}, {{169, 254}, 16}, {{224}, 3}};

    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
        if (net_lan_overlap(bytes, prefix, ranges[i].bytes, ranges[i].prefix))
            return true;
    return false;
}

/* No bit is set after the prefix. */
static bool prefix_is_clean(const uint8_t *bytes, unsigned prefix)
{
    return (bytes_number(bytes) & (prefix_size(prefix) - 1)) == 0;
}

/* Neither the subnet's own number nor its broadcast address. */
static bool subnet_has_host(const struct net_lan_ask *a, const uint8_t address[4])
{
    const uint32_t n = bytes_number(address), first = bytes_number(a->subnet);

    return net_same_prefix(address, a->subnet, a->prefix) && n != first &&
           n != first + prefix_size(a->prefix) - 1;
}

static bool subnet_keeps(const struct net_lan_ask *a, const uint8_t address[4])
{
    for (size_t i = 0; i < a->kept_count && i < NET_LAN_KEPT_MAX; i++)
        if (memcmp(a->kept[i], address, 4) == 0)
            return true;
    return false;
}

bool net_lan_ask_ok(const struct net_lan_ask *a)
{
    for (size_t i = 0; i < a->kept_count; i++)
        if (a->kept_count > NET_LAN_KEPT_MAX || !subnet_has_host(a, a->kept[i]))
            return false;
    return a->prefix >= NET_LAN_PREFIX_MIN && a->prefix <= NET_LAN_PREFIX_MAX &&
           a->range_prefix >= a->prefix && a->range_prefix <= 32 && a->fixed <= 1 &&
           !subnet_is_special(a->subnet, a->prefix) && prefix_is_clean(a->subnet, a->prefix) &&
           net_same_prefix(a->range, a->subnet, a->prefix) &&
           prefix_is_clean(a->range, a->range_prefix) && subnet_has_host(a, a->gateway) &&
           (!a->fixed || (subnet_has_host(a, a->address) &&
                          memcmp(a->address, a->gateway, 4) != 0 && !subnet_keeps(a, a->address)));
}

static int subnet_parse(const char *what, const char *text, uint8_t ret[4], uint8_t *ret_prefix,
                        struct err *err)
{
    struct net_rule rule;

    if (strchr(text, '/') == NULL || net_rule_parse(text, false, &rule, NULL) < 0 ||
        rule.family != 4 || rule.first != 0 || rule.proto != 0)
        return err_set(err, -EINVAL, "invalid %s %.64s: must be an IPv4 CIDR, such as %s", what,
                       text, "172.28.0.0/16");
    (void)memcpy(ret, rule.bytes, 4);
    *ret_prefix = rule.prefix;
    return 0;
}

int net_lan_parse(const char *subnet, const char *gateway, const char *range,
                  struct net_lan_ask *ret, struct err *err)
{
    struct net_lan_ask a = {.index = 0};
    struct net_addr gw;
    int r = subnet_parse("subnet", subnet, a.subnet, &a.prefix, err);

    if (r < 0)
        return r;
    if (a.prefix < NET_LAN_PREFIX_MIN || a.prefix > NET_LAN_PREFIX_MAX)
        return err_set(err, -EINVAL, "invalid subnet %.64s: must be a /%d to a /%d", subnet,
                       NET_LAN_PREFIX_MIN, NET_LAN_PREFIX_MAX);
    if (subnet_is_special(a.subnet, a.prefix))
        return err_set(err, -EPERM,
                       "invalid subnet %.64s: 0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16 and "
                       "224.0.0.0/3 have no addresses for members",
                       subnet);
    (void)memcpy(a.range, a.subnet, sizeof(a.range));
    a.range_prefix = a.prefix;
    if (range != NULL) {
        r = subnet_parse("ip-range", range, a.range, &a.range_prefix, err);
        if (r < 0)
            return r;
        if (a.range_prefix < a.prefix || !net_same_prefix(a.range, a.subnet, a.prefix))
            return err_set(err, -EINVAL, "invalid ip-range %.64s: parent subnet is %.64s", range,
                           subnet);
    }
    number_bytes(bytes_number(a.range) + (a.range_prefix < 31), a.gateway);
    if (!subnet_has_host(&a, a.gateway))
        number_bytes(bytes_number(a.subnet) + 1, a.gateway);
    if (gateway != NULL) {
        if (net_addr_parse(gateway, &gw) < 0 || gw.family != 4)
            return err_set(err, -EINVAL, "invalid gateway %.64s: must be an IPv4 address", gateway);
        (void)memcpy(a.gateway, gw.bytes, sizeof(a.gateway));
        if (!subnet_has_host(&a, a.gateway))
            return err_set(err, -EINVAL, "invalid gateway %.64s: parent subnet is %.64s", gateway,
                           subnet);
    }
    *ret = a;
    return 0;
}

int net_lan_keep(struct net_lan_ask *a, const char *text, struct err *err)
{
    struct net_addr addr;

    if (net_addr_parse(text, &addr) < 0 || addr.family != 4)
        return err_set(err, -EINVAL, "invalid auxiliary address %.64s: must be an IPv4 address",
                       text);
    if (!subnet_has_host(a, addr.bytes))
        return err_set(err, -EINVAL, "no matching subnet for aux-address %.64s", text);
    if (a->kept_count == NET_LAN_KEPT_MAX)
        return err_set(err, -E2BIG, "a subnet has at most %d auxiliary addresses",
                       NET_LAN_KEPT_MAX);
    (void)memcpy(a->kept[a->kept_count++], addr.bytes, 4);
    return 0;
}

int net_lan_check_address(const struct net_lan_ask *a, const uint8_t address[4], struct err *err)
{
    char text[NET_ADDR_TEXT_MAX];
    const struct net_addr addr = net_lan_addr(address);

    net_addr_format(&addr, text);
    if (a->prefix == 0)
        return err_set(err, -EINVAL,
                       "invalid IP address %s: user specified IP address is supported only when "
                       "connecting to networks with user configured subnets",
                       text);
    if (!subnet_has_host(a, address))
        return err_set(err, -EINVAL,
                       "invalid IP address %s: no configured subnet contains IP address %s", text,
                       text);
    if (memcmp(address, a->gateway, 4) == 0)
        return err_set(err, -EINVAL, "invalid IP address %s: Address already in use (the gateway)",
                       text);
    if (subnet_keeps(a, address))
        return err_set(err, -EINVAL,
                       "invalid IP address %s: Address already in use (an auxiliary address)",
                       text);
    return 0;
}

/* Returns what has the address, for a message; NULL: it is free. */
static const char *address_taken(const struct net_lan_taken *t, const uint8_t address[4])
{
    if (t->pool != NULL && net_same_prefix(t->pool, address, NET_POOL_PREFIX4))
        return "it is one of rind's own (network.pool4)";
    for (size_t i = 0; i < t->dns_count; i++)
        if (t->dns[i].family == 4 && memcmp(t->dns[i].bytes, address, 4) == 0)
            return "it is that of a name server of the sandbox";
    for (size_t i = 0; i < t->count; i++)
        if (memcmp(t->members[i], address, 4) == 0)
            return "another member has it";
    return NULL;
}

int net_lan_choose(const struct net_lan_ask *a, const struct net_lan_taken *taken, uint8_t ret[4],
                   struct err *err)
{
    const uint32_t first = bytes_number(a->range), size = prefix_size(a->range_prefix);
    /* Each step is over an address that something has, or one of three that are no member's. */
    const uint32_t most = (uint32_t)taken->count + (uint32_t)taken->dns_count + NET_LAN_KEPT_MAX +
                          3 + prefix_size(NET_POOL_PREFIX4);
    const char *why;
    uint8_t one[4];

    if (a->fixed) {
        why = address_taken(taken, a->address);
        if (why != NULL)
            return err_set(err, -EADDRINUSE, "Address already in use: %u.%u.%u.%u (%s)",
                           a->address[0], a->address[1], a->address[2], a->address[3], why);
        (void)memcpy(ret, a->address, 4);
        return 0;
    }
    for (uint32_t i = 0; i < size && i <= most; i++) {
        number_bytes(first + i, one);
        if (!subnet_has_host(a, one) || memcmp(one, a->gateway, 4) == 0 || subnet_keeps(a, one) ||
            address_taken(taken, one) != NULL)
            continue;
        (void)memcpy(ret, one, 4);
        return 0;
    }
    return err_set(err, -ENOSPC, "no available IPv4 addresses on this network's address pools");
}
