/* The decoder and check behind policy/publish.h. Pure functions. */

#include "policy/publish.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { KERNEL_MIN = 32768, KERNEL_MAX = 60999 /* net.ipv4.ip_local_port_range's default */ };

#define RULE(member) offsetof(struct publish_rule, member)
/* clang-format off */
static const struct jfield rule_fields[] = {
    {.name = "address", .decode = j_string, .off = RULE(address),  .min = 1, .max = ADDRESS_TEXT_MAX - 1, .required = true},
    {.name = "minPort", .decode = j_int64,  .off = RULE(min_port), .min = 1, .max = 65535, .required = true},
    {.name = "maxPort", .decode = j_int64,  .off = RULE(max_port), .min = 1, .max = 65535, .required = true},
    {0},
};
static const struct jarray rules_array = {
    .fields = rule_fields, .size = sizeof(struct publish_rule), .count_off = offsetof(struct publish_rules, count)};
/* clang-format on */

int j_publish_rules(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
                    struct err *err)
{
    struct publish_rules *rules = (struct publish_rules *)(void *)((char *)dst + field->off);
    const struct jfield list = {.name = field->name,
                                .off = offsetof(struct publish_rules, list),
                                .array = &rules_array,
                                .max = PUBLISH_RULES_MAX};
    struct address a;
    int r;

    publish_rules_done(rules);
    r = j_objects(value, &list, rules, path, err);
    for (size_t i = 0; r == 0 && i < rules->count; i++) {
        const struct publish_rule *rule = &rules->list[i];
        struct jpath here = {.up = path, .index = i};

        if (strcmp(rule->address, "*") != 0 && address_parse_host(rule->address, &a) < 0)
            return json_fail(err, -EINVAL, &here, "address: must be an IP address or *");
        if (rule->min_port > rule->max_port)
            return json_fail(err, -EINVAL, &here, "minPort: larger than maxPort");
    }
    return r;
}

int publish_rules_any(struct publish_rules *ret)
{
    struct publish_rule *rule = calloc(1, sizeof(*rule));

    if (rule == NULL || (rule->address = strdup("*")) == NULL) {
        free(rule);
        return -ENOMEM;
    }
    rule->min_port = 1;
    rule->max_port = 65535;
    *ret = (struct publish_rules){.list = rule, .count = 1};
    return 0;
}

void publish_rules_done(struct publish_rules *rules)
{
    for (size_t i = 0; i < rules->count; i++)
        free(rules->list[i].address);
    free(rules->list);
    *rules = (struct publish_rules){.list = NULL};
}

static bool same_host(const char *text, const struct address *a)
{
    struct address rule;

    return strcmp(text, "*") == 0 ||
           (address_parse_host(text, &rule) == 0 && rule.family == a->family &&
            memcmp(rule.bytes, a->bytes, sizeof(rule.bytes)) == 0);
}

bool publish_allowed(const struct publish_rules *rules, const struct address *a)
{
    int64_t least = a->port != 0 ? a->port : KERNEL_MIN, most = a->port != 0 ? a->port : KERNEL_MAX;

    for (size_t i = 0; i < rules->count; i++) {
        const struct publish_rule *rule = &rules->list[i];

        if (rule->min_port <= least && rule->max_port >= most && same_host(rule->address, a))
            return true;
    }
    return false;
}
