/* Texts of rules and ports, resolv.conf, and netlink's answers: the first byte chooses. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "net/conn-limit.h"
#include "net/netlink.h"
#include "net/nft.h"
#include "net/pool.h"
#include "net/resolv.h"
#include "net/watch.h"
#include "policy/net-rule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void text_of(const char *text)
{
    char again[NET_RULE_TEXT_MAX];
    struct net_rule rule, back;
    struct net_port port;

    if (net_rule_parse(text, false, &rule, NULL) == 0) {
        if (!net_rule_ok(&rule))
            abort();
        net_rule_format(&rule, again);
        if (net_rule_parse(again, false, &back, NULL) != 0 ||
            memcmp(&rule, &back, sizeof(rule)) != 0)
            abort();
    }
    if (net_port_parse(text, &port, NULL) == 0 && !net_port_ok(&port))
        abort();
}

static int on_key(const uint8_t *key, size_t len, void *data)
{
    return len > NFT_DATA_MAX || (len > 0 && key == NULL) || data != NULL ? -1 : 0;
}

static int on_message(const struct nlmsghdr *h, void *data)
{
    char chain[WATCH_TEXT_MAX] = "";
    struct pool_route r;
    struct conn_limit_event o;

    (void)data;
    if ((watch_is_drop(h, chain) || watch_refuses_all(h, chain)) && chain[0] == '\0')
        abort();
    if (conn_limit_parse(h, &o) && o.from.family != 4 && o.from.family != 6)
        abort();
    if (route_parse(h, &r) == 1 && r.to.prefix > 128)
        abort();
    (void)nft_feed_elements(h, on_key, NULL);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct nl_answers a = {.acks = 0};
    struct net_setup setup = {.route6 = 1};
    char *copy;

    if (size == 0)
        return 0;
    copy = malloc(size); /* aligned as the kernel's answers are, and exactly as long */
    if (copy == NULL)
        return 0;
    (void)memcpy(copy, data + 1, size - 1);
    copy[size - 1] = '\0';
    if (data[0] % 3 == 0)
        text_of(copy);
    else if (data[0] % 3 == 1)
        (void)resolv_take(&setup, copy, size - 1);
    else
        (void)nl_feed(&a, copy, size - 1, on_message, NULL);
    if (strlen(setup.search) >= sizeof(setup.search) || setup.dns_count > NET_DNS_MAX)
        abort();
    free(copy);
    return 0;
}
