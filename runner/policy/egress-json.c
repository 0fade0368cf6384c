/* Decodes and encodes egress rules as JSON. Pure. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/strtab.h"
#include "json/decode.h"
#include "policy/egress-handler.h"
#include "policy/egress.h"

struct rule_json {
    char *to, *handler; /* owned */
    int protocol, action;
};

struct rules_json {
    int initial;
    bool trust;
    struct rule_json *rules; /* owned */
    size_t count;
};

enum { WORD_NONE = 0, WORD_ALLOW, WORD_DENY };

static const struct strtab protocol_names[] = {
    {"any", EGRESS_PROTOCOLS},
    {"http", EGRESS_HTTP},
    {"https", EGRESS_HTTPS},
    {"tcp", EGRESS_TCP},
    {NULL, 0},
};
static const struct strtab action_names[] = {{"allow", WORD_ALLOW}, {"deny", WORD_DENY}, {NULL, 0}};

#define RULE(member)  .off = offsetof(struct rule_json, member)
#define RULES(member) .off = offsetof(struct rules_json, member)
/* clang-format off */
static const struct jfield rule_fields[] = {
    {.name = "to",       .decode = j_string, RULE(to), .min = 1, .max = EGRESS_TO_MAX, .required = true},
    {.name = "protocol", .decode = j_enum,   RULE(protocol), .names = protocol_names, .nullable = true},
    {.name = "action",   .decode = j_enum,   RULE(action), .names = action_names, .nullable = true},
    {.name = "handler",  .decode = j_string, RULE(handler), .min = 1, .max = 256, .nullable = true},
    {0},
};
static const struct jarray rule_array = {
    .fields = rule_fields, .size = sizeof(struct rule_json), .count_off = offsetof(struct rules_json, count)};
static const struct jfield rules_fields[] = {
    {.name = "default", .decode = j_enum,    RULES(initial), .names = action_names, .nullable = true},
    {.name = "trust",   .decode = j_bool,    RULES(trust), .nullable = true},
    {.name = "rules",   .decode = j_objects, RULES(rules), .max = EGRESS_RULES_MAX, .array = &rule_array, .nullable = true},
    {0},
};
/* clang-format on */

static int add_rule(struct egress_rules *e, const struct rule_json *j, const struct jpath *path,
                    struct err *err)
{
    const struct jpath to = {.up = path, .key = "to"}, handler = {.up = path, .key = "handler"};
    unsigned protocols = j->protocol != 0 ? (unsigned)j->protocol : EGRESS_PROTOCOLS;
    enum egress_action action = j->action == WORD_ALLOW ? EGRESS_ALLOW : EGRESS_DENY;
    struct err why = ERR_NONE;
    int r;

    if ((j->action != WORD_NONE) == (j->handler != NULL))
        return json_fail(err, -EINVAL, path, "must have either \"action\" or \"handler\"");
    if (j->handler != NULL && !egress_handler_ok(j->handler))
        return json_fail(err, -EINVAL, &handler, "%s", egress_handler_words);
    if (j->handler != NULL)
        action = EGRESS_HANDLE;
    r = egress_add(e, j->to, protocols, action, j->handler, &why);
    return r < 0 ? json_fail(err, r, &to, "%s", why.msg) : 0;
}

static int add_rules(struct egress_rules *e, const struct rules_json *j, const struct jpath *path,
                     struct err *err)
{
    const struct jpath rules = {.up = path, .key = "rules"};
    struct err why = ERR_NONE;
    int r = 0;

    e->open = j->initial == WORD_ALLOW;
    e->trust = j->trust;
    for (size_t i = 0; r == 0 && i < j->count; i++) {
        const struct jpath at = {.up = &rules, .index = i};

        r = add_rule(e, &j->rules[i], &at, err);
    }
    if (r < 0)
        return r;
    r = egress_index(e, &why);
    return r < 0 ? json_fail(err, r, &rules, "%s", why.msg) : 0;
}

int egress_from_json(json_t *value, const struct jpath *path, struct egress_rules **ret,
                     struct err *err)
{
    auto_ptr(egress_free) struct egress_rules *e = egress_new();
    struct rules_json j = {.initial = WORD_NONE};
    int r;

    if (e == NULL)
        return json_fail(err, -ENOMEM, path, "out of memory");
    r = json_is_object(value) ? json_decode_at(value, rules_fields, &j, path, err)
                              : json_fail(err, -EINVAL, path, "must be an object");
    if (r == 0)
        r = add_rules(e, &j, path, err);
    for (size_t i = 0; i < j.count; i++) {
        free(j.rules[i].to);
        free(j.rules[i].handler);
    }
    free(j.rules);
    if (r < 0)
        return r;
    *ret = take(e);
    return 0;
}

static json_t *rule_to_json(const struct egress_rule *r)
{
    json_t *o = json_pack("{s:s}", "to", r->to);

    if (r->protocols != EGRESS_PROTOCOLS)
        (void)json_object_set_new(o, "protocol",
                                  json_string(strtab_name(protocol_names, (int)r->protocols)));
    if (r->action == EGRESS_HANDLE)
        (void)json_object_set_new(o, "handler", json_string(r->handler));
    else
        (void)json_object_set_new(o, "action",
                                  json_string(r->action == EGRESS_ALLOW ? "allow" : "deny"));
    return o;
}

json_t *egress_to_json(const struct egress_rules *e)
{
    json_t *list = json_array();

    for (size_t i = 0; list != NULL && i < e->count; i++)
        (void)json_array_append_new(list, rule_to_json(&e->list[i]));
    return json_pack("{s:s, s:b, s:o}", "default", e->open ? "allow" : "deny", "trust",
                     (int)e->trust, "rules", list);
}
