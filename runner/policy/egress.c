/* Matches destinations against egress rules, with a hash index. Pure functions. */

#include "policy/egress.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "policy/egress-handler.h"

enum {
    WORDS_PER_RULE = 6, /* most slots of one rule: one for each kind */
    SUFFIX = 1,         /* shapes of a slot */
    EXACT,
    ADDRESS4,
    ADDRESS6,
    EVERYTHING,
};

/* A hash table entry for a rule. */
struct egress_slot {
    const struct egress_rule *rule; /* NULL = free */
    uint32_t hash;
    uint16_t port;
    uint8_t kind, shape, prefix;
};

struct egress_rules *egress_new(void)
{
    return calloc(1, sizeof(struct egress_rules));
}

void egress_free(struct egress_rules *e)
{
    if (e == NULL)
        return;
    for (size_t i = 0; i < e->count; i++) {
        free(e->list[i].to);
        free(e->list[i].handler);
    }
    free(e->list);
    free(e->slots);
    free(e);
}

/* ---- names ---- */

int egress_name(const char *text, size_t len, char ret[EGRESS_NAME_MAX + 1])
{
    size_t label = 0;
    bool letters = false;

    if (len > 0 && text[len - 1] == '.')
        len--;
    if (len == 0 || len > EGRESS_NAME_MAX)
        return -EINVAL;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if (c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        if (c == '.') {
            if (label == 0)
                return -EINVAL;
            label = 0;
            ret[i] = c;
            continue;
        }
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_') ||
            ++label > 63)
            return -EINVAL;
        letters = letters || c < '0' || c > '9';
        ret[i] = c;
    }
    ret[len] = '\0';
    /* Refuses "1.2.3.4", and names that some parsers read as an address: "127.1", "2130706433". */
    return label > 0 && letters ? 0 : -EINVAL;
}

static bool glob_match(const char *glob, const char *name)
{
    const char *star = NULL, *again = NULL;

    while (*name != '\0') {
        if (*glob == '*') {
            star = glob++;
            again = name;
        } else if (*glob == *name) {
            glob++;
            name++;
        } else if (star != NULL) {
            glob = star + 1;
            name = ++again;
        } else {
            return false;
        }
    }
    while (*glob == '*')
        glob++;
    return *glob == '\0';
}

/* Parses a name in which '*' stands for any characters, including dots. */
static int parse_glob(const char *text, size_t len, struct egress_rule *r)
{
    char plain[EGRESS_NAME_MAX + 1];

    if (len == 0 || len > EGRESS_NAME_MAX)
        return -EINVAL;
    for (size_t i = 0; i < len; i++)
        plain[i] = text[i] == '*' ? 'x' : text[i];
    if (egress_name(plain, len, plain) < 0)
        return -EINVAL;
    len = strlen(plain);
    for (size_t i = 0; i <= len; i++)
        r->host[i] = i < len && text[i] == '*' ? '*' : plain[i];
    r->by_name = true;
    r->any = strcmp(r->host, "*") == 0;
    return 0;
}

/* ---- parsing a rule ---- */

static const char to_words[] = "must be a host name, which may hold '*', or an address or CIDR, "
                               "and may have a port behind it: "
                               "*.example.com, example.com:443, 10.0.0.0/8, [2001:db8::]/32:8000";

static int parse_port(const char *text, uint16_t *ret)
{
    size_t len = strlen(text);
    unsigned long n;

    if (len == 0 || len > 5 || text[0] == '0' || strspn(text, "0123456789") != len)
        return -EINVAL;
    n = strtoul(text, NULL, 10);
    if (n > 65535)
        return -ERANGE;
    *ret = (uint16_t)n;
    return 0;
}

static int parse_address(const char *text, struct egress_rule *r)
{
    struct net_rule net;
    int n = net_rule_parse(text, false, &net, NULL);

    if (n < 0)
        return n;
    if (net.proto != 0 || net.first != net.last)
        return -EINVAL;
    r->port = net.first;
    net.first = net.last = 0;
    r->net = net;
    return 0;
}

static int parse_to(const char *text, struct egress_rule *r)
{
    const char *colon = strrchr(text, ':');
    size_t len = colon != NULL ? (size_t)(colon - text) : strlen(text);
    int n = parse_address(text, r);

    if (n == 0)
        return 0;
    /* Digits and dots alone are no name, so this was meant as an address. */
    if (strpbrk(text, "[]/") != NULL || strchr(text, ':') != colon)
        return n;
    n = colon != NULL ? parse_port(colon + 1, &r->port) : 0;
    return n < 0 ? n : parse_glob(text, len, r);
}

static void default_port(struct egress_rule *r)
{
    if (r->port == 0 && r->protocols == EGRESS_HTTP)
        r->port = 80;
    if (r->port == 0 && r->protocols == EGRESS_HTTPS)
        r->port = 443;
}

int egress_add(struct egress_rules *e, const char *to, unsigned protocols,
               enum egress_action action, const char *handler, struct err *err)
{
    struct egress_rule r = {.action = action, .protocols = protocols}, *more;
    int n;

    if (e->count >= EGRESS_RULES_MAX)
        return err_set(err, -ERANGE, "more than %d rules", EGRESS_RULES_MAX);
    n = parse_to(to, &r);
    if (n < 0)
        return err_set(err, n, "\"%.80s\": %s", to, to_words);
    if (handler != NULL && !egress_handler_ok(handler))
        return err_set(err, -EINVAL, "\"%.80s\": %s", handler, egress_handler_words);
    default_port(&r);
    more = reallocarray(e->list, e->count + 1, sizeof(*more));
    if (more == NULL)
        return err_errno(err, -ENOMEM, "egress");
    e->list = more;
    r.to = strdup(to);
    r.handler = handler != NULL ? strdup(handler) : NULL;
    if (r.to == NULL || (handler != NULL && r.handler == NULL)) {
        free(r.to);
        free(r.handler);
        return err_errno(err, -ENOMEM, "egress");
    }
    e->list[e->count++] = r;
    return 0;
}

/* ---- index ---- */

static uint32_t hash_of(const struct egress_slot *key, const void *data, size_t len)
{
    const uint8_t head[] = {key->kind, key->shape, key->prefix, (uint8_t)key->port,
                            (uint8_t)(key->port >> 8)};

    return hash_bytes(hash_bytes(HASH_BEGIN, head, sizeof(head)), data, len);
}

/* The key of a rule: its name, the part after its "*", or its address. */
static const void *data_of(const struct egress_rule *r, unsigned shape, size_t *ret_len)
{
    const char *text = shape == SUFFIX ? r->host + 1 : r->host;

    if (shape == EVERYTHING) {
        *ret_len = 0;
        return "";
    }
    if (shape == ADDRESS4 || shape == ADDRESS6) {
        *ret_len = sizeof(r->net.bytes);
        return r->net.bytes;
    }
    *ret_len = strlen(text);
    return text;
}

static struct egress_slot *find_slot(const struct egress_rules *e, const struct egress_slot *key,
                                     const void *data, size_t len)
{
    size_t mask = e->slot_count - 1, at = key->hash & mask;

    for (;; at = (at + 1) & mask) {
        struct egress_slot *s = &e->slots[at];
        const void *have;
        size_t have_len;

        if (s->rule == NULL)
            return s;
        if (s->hash != key->hash || s->kind != key->kind || s->shape != key->shape ||
            s->port != key->port || s->prefix != key->prefix)
            continue;
        have = data_of(s->rule, s->shape, &have_len);
        if (have_len == len && memcmp(have, data, len) == 0)
            return s;
    }
}

static unsigned shape_of(const struct egress_rule *r)
{
    if (!r->by_name)
        return r->net.family == 4 ? ADDRESS4 : ADDRESS6;
    if (r->any)
        return EVERYTHING;
    if (strchr(r->host, '*') == NULL)
        return EXACT;
    /* "*.example.com": looked up by removing labels from the left. */
    return r->host[0] == '*' && r->host[1] == '.' && strchr(r->host + 1, '*') == NULL ? SUFFIX : 0;
}

static void put_slot(struct egress_rules *e, const struct egress_rule *r, unsigned kind,
                     uint16_t port)
{
    struct egress_slot key = {.rule = r, .port = port, .kind = (uint8_t)kind}, *s;
    const void *data;
    size_t len;

    key.shape = (uint8_t)shape_of(r);
    key.prefix = r->by_name ? 0 : r->net.prefix;
    data = data_of(r, key.shape, &len);
    key.hash = hash_of(&key, data, len);
    s = find_slot(e, &key, data, len);
    if (s->rule == NULL)
        *s = key; /* else an earlier rule has the key, and wins */
}

/* True if the rule denies a name altogether. */
static bool denies_all(const struct egress_rule *r)
{
    return r->action == EGRESS_DENY && r->protocols == EGRESS_PROTOCOLS && r->port == 0;
}

bool egress_is_web(const struct egress_rules *e, uint16_t port)
{
    for (size_t i = 0; i < e->web_port_count && i < EGRESS_WEB_PORTS_MAX; i++)
        if (e->web_ports[i] == port)
            return true;
    return e->web_port_count > EGRESS_WEB_PORTS_MAX;
}

static void note_port(struct egress_rules *e, const struct egress_rule *r)
{
    if ((r->protocols & EGRESS_TCP) != 0 || egress_is_web(e, r->port))
        return;
    if (e->web_port_count < EGRESS_WEB_PORTS_MAX)
        e->web_ports[e->web_port_count] = r->port;
    e->web_port_count++;
}

static void index_rule(struct egress_rules *e, const struct egress_rule *r)
{
    for (unsigned kind = EGRESS_HTTP; kind <= EGRESS_TCP; kind <<= 1)
        if ((r->protocols & kind) != 0)
            put_slot(e, r, kind, r->port);
    if (r->action == EGRESS_HANDLE)
        put_slot(e, r, EGRESS_NAME_HANDLED, 0);
    else if (r->action == EGRESS_ALLOW)
        put_slot(e, r, EGRESS_NAME_ALLOWED, 0);
    else if (denies_all(r))
        put_slot(e, r, EGRESS_NAME_DENIED, 0);
    if (r->by_name)
        return;
    e->by_address = e->by_address || r->action != EGRESS_DENY;
    if (r->net.family == 4)
        e->prefixes4 |= UINT64_C(1) << r->net.prefix;
    else
        e->prefixes6[r->net.prefix / 64] |= UINT64_C(1) << (r->net.prefix % 64);
}

int egress_index(struct egress_rules *e, struct err *err)
{
    size_t size = 16;

    while (size < e->count * WORDS_PER_RULE * 2)
        size *= 2;
    free(e->slots);
    e->slots = calloc(size, sizeof(*e->slots));
    if (e->slots == NULL)
        return err_errno(err, -ENOMEM, "egress");
    e->slot_count = size;
    e->glob_count = e->web_port_count = 0;
    for (size_t i = 0; i < e->count; i++) {
        const struct egress_rule *r = &e->list[i];

        note_port(e, r);
        if (r->by_name && shape_of(r) == 0) {
            if (e->glob_count == EGRESS_GLOBS_MAX)
                return err_set(err, -ERANGE,
                               "\"%.80s\": more than %d names with '*' elsewhere than in \"*.\" at "
                               "their beginning",
                               r->to, EGRESS_GLOBS_MAX);
            e->globs[e->glob_count++] = i;
        } else {
            index_rule(e, r);
        }
    }
    return 0;
}

/* ---- matching ---- */

const struct egress_rule *egress_first(const struct egress_rule *a, const struct egress_rule *b)
{
    if (a == NULL || b == NULL)
        return a != NULL ? a : b;
    return a < b ? a : b; /* both point into the same array */
}

static const struct egress_rule *lookup_rule(const struct egress_rules *e, struct egress_slot key,
                                             const void *data, size_t len)
{
    key.hash = hash_of(&key, data, len);
    return find_slot(e, &key, data, len)->rule;
}

/* Looks up rules for the port, and rules for any port. */
static const struct egress_rule *lookup_both(const struct egress_rules *e, struct egress_slot key,
                                             uint16_t port, const void *data, size_t len)
{
    const struct egress_rule *r = lookup_rule(e, key, data, len);

    if (port == 0)
        return r;
    key.port = port;
    return egress_first(r, lookup_rule(e, key, data, len));
}

static bool glob_is_for(const struct egress_rule *r, unsigned kind, uint16_t port)
{
    switch (kind) {
    case EGRESS_NAME_HANDLED:
        return r->action == EGRESS_HANDLE;
    case EGRESS_NAME_ALLOWED:
        return r->action == EGRESS_ALLOW;
    case EGRESS_NAME_DENIED:
        return denies_all(r);
    default:
        return (r->protocols & kind) != 0 && (r->port == 0 || r->port == port);
    }
}

static const struct egress_rule *match_name(const struct egress_rules *e, unsigned kind,
                                            const char *name, uint16_t port)
{
    struct egress_slot key = {.kind = (uint8_t)kind, .shape = EXACT};
    const struct egress_rule *best = lookup_both(e, key, port, name, strlen(name));

    key.shape = SUFFIX;
    for (const char *dot = strchr(name, '.'); dot != NULL; dot = strchr(dot + 1, '.'))
        best = egress_first(best, lookup_both(e, key, port, dot, strlen(dot)));
    for (size_t i = 0; i < e->glob_count; i++) {
        const struct egress_rule *r = &e->list[e->globs[i]];

        if (best != NULL && best < r)
            break;
        if (glob_is_for(r, kind, port) && glob_match(r->host, name))
            best = r;
    }
    return best;
}

static void mask_bytes(uint8_t bytes[16], unsigned prefix)
{
    for (unsigned i = prefix / 8; i < 16; i++) {
        unsigned keep = i == prefix / 8 ? prefix % 8 : 0;

        bytes[i] &= (uint8_t)(0xff00u >> keep);
    }
}

static bool prefix_in_use(const struct egress_rules *e, int family, unsigned prefix)
{
    uint64_t bits = family == 4 ? e->prefixes4 : e->prefixes6[prefix / 64];

    return (bits >> (prefix % 64) & 1) != 0;
}

static const struct egress_rule *match_address(const struct egress_rules *e, unsigned kind,
                                               const struct net_addr *a, uint16_t port)
{
    struct egress_slot key = {.kind = (uint8_t)kind, .shape = a->family == 4 ? ADDRESS4 : ADDRESS6};
    const unsigned bits = a->family == 4 ? 32 : 128;
    const struct egress_rule *best = NULL;
    uint8_t bytes[16];

    (void)memcpy(bytes, a->bytes, sizeof(bytes));
    for (unsigned prefix = bits + 1; prefix-- > 0;) {
        if (!prefix_in_use(e, a->family, prefix))
            continue;
        mask_bytes(bytes, prefix);
        key.prefix = (uint8_t)prefix;
        best = egress_first(best, lookup_both(e, key, port, bytes, sizeof(bytes)));
    }
    return best;
}

const struct egress_rule *egress_match(const struct egress_rules *e, enum egress_kind kind,
                                       const char *name, const struct net_addr *address,
                                       uint16_t port)
{
    const struct egress_slot any = {.kind = (uint8_t)kind, .shape = EVERYTHING};
    const struct egress_rule *best;

    if (e->slot_count == 0)
        return NULL;
    best = lookup_both(e, any, port, "", 0);
    if (name != NULL)
        best = egress_first(best, match_name(e, kind, name, port));
    if (address != NULL && address->family != 0)
        best = egress_first(best, match_address(e, kind, address, port));
    return best;
}

enum egress_answer egress_answer(const struct egress_rules *e, const char *name)
{
    const struct egress_rule *handled = egress_match(e, EGRESS_NAME_HANDLED, name, NULL, 0);
    const struct egress_rule *allowed = egress_match(e, EGRESS_NAME_ALLOWED, name, NULL, 0);
    const struct egress_rule *denied = egress_match(e, EGRESS_NAME_DENIED, name, NULL, 0);
    const struct egress_rule *some = egress_first(handled, allowed);

    if (denied != NULL && egress_first(denied, some) == denied)
        return EGRESS_ANSWER_NO;
    if (handled != NULL)
        return EGRESS_ANSWER_STAND;
    return some != NULL || e->open || e->by_address ? EGRESS_ANSWER_ASK : EGRESS_ANSWER_NO;
}
