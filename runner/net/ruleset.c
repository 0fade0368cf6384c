#include "net/ruleset.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "net/nft.h"
#include "net/ruleset-table.h"

enum {
    TRIES = 16,         /* other processes make or remove the table at the same time */
    ELEMENTS_MAX = 160, /* elements of a sandbox */
    DNS_PORT = 53,
    NAME_MAX_LEN = 24,
    GROUP_SET_ID = 100, /* unique in a transaction; the table has fewer sets */
};

/* An element of a set. */
struct ruleset_entry {
    const char *set;
    struct nft_element e;
    bool shared; /* other sandboxes may have it, too, so it is not removed */
};

struct entries {
    struct ruleset_entry list[ELEMENTS_MAX];
    size_t count;
    char chain[NAME_MAX_LEN]; /* chain of the sandbox's own lists; "" = none */
    /* Each is the name of the chain and of the set of a named network. */
    char groups[NET_MORE_MAX + 1][NAME_MAX_LEN];
    size_t group_count;
    char several[NAME_MAX_LEN]; /* chain that jumps to those of its networks; "" = it has one */
};

/* ---- keys ---- */

static struct nft_element *entries_put(struct entries *all, const char *set)
{
    struct ruleset_entry *e = &all->list[all->count];

    if (all->count + 1 < ELEMENTS_MAX)
        all->count++; /* net_access's limits keep it below that */
    (void)memset(e, 0, sizeof(*e));
    e->set = set;
    return &e->e;
}

/* Appends a part of a key. Each part of a concatenation fills whole 32-bit registers. */
static void element_key_append(struct nft_element *e, const void *data, size_t len)
{
    (void)memcpy(e->key + e->key_len, data, len);
    e->key_len += (uint32_t)(len + 3) & ~3u;
}

static void element_key_link(struct nft_element *e, const struct net_setup *p)
{
    element_key_append(e, p->link, NFT_IFNAME_LEN); /* NUL-padded */
}

static void element_key_addr(struct nft_element *e, const struct net_addr *a)
{
    element_key_append(e, a->bytes, a->family == 4 ? 4 : 16);
}

static void element_key_port(struct nft_element *e, uint8_t proto, uint16_t port)
{
    const uint8_t be[2] = {(uint8_t)(port >> 8), (uint8_t)port};

    element_key_append(e, &proto, sizeof(proto));
    element_key_append(e, be, sizeof(be));
}

/* ---- a sandbox's elements ---- */

static void entries_put_place(struct entries *all, const struct net_setup *p)
{
    struct nft_element *e;

    e = entries_put(all, SET_SOURCE4);
    element_key_link(e, p);
    element_key_addr(e, &p->sandbox4);
    e = entries_put(all, SET_SOURCE6);
    element_key_link(e, p);
    element_key_addr(e, &p->sandbox6);
    element_key_addr(entries_put(all, SET_BOXES4), &p->sandbox4);
    element_key_addr(entries_put(all, SET_BOXES6), &p->sandbox6);
}

static void entries_put_host_port(struct entries *all, const struct net_setup *p,
                                  const struct net_port *port)
{
    struct nft_element *e = entries_put(all, SET_HOST4);

    element_key_link(e, p);
    element_key_addr(e, &p->gateway4);
    element_key_port(e, port->proto, port->port);
    e = entries_put(all, SET_HOST6);
    element_key_link(e, p);
    element_key_addr(e, &p->gateway6);
    element_key_port(e, port->proto, port->port);
}

static void entries_put_dns(struct entries *all, const struct net_addr *server)
{
    static const uint8_t protos[] = {NET_UDP, NET_TCP};

    for (size_t i = 0; i < sizeof(protos); i++) {
        struct nft_element *e = entries_put(all, server->family == 4 ? SET_DNS4 : SET_DNS6);

        all->list[all->count - 1].shared = true;
        element_key_addr(e, server);
        element_key_port(e, protos[i], DNS_PORT);
    }
}

/* A map has one verdict for a link. So a member of several networks has a chain of its own, which
 * jumps to the chain of each. */
static void entries_put_groups(struct entries *all, const struct net_setup *p)
{
    struct nft_element *e;

    if (p->group == NET_GROUP_NONE)
        return;
    (void)snprintf(all->groups[all->group_count++], NAME_MAX_LEN, "net-%08" PRIx64, p->group);
    for (uint32_t i = 0; i < p->more_count && i < NET_MORE_MAX; i++)
        (void)snprintf(all->groups[all->group_count++], NAME_MAX_LEN, "net-%08" PRIx64, p->more[i]);
    if (all->group_count > 1)
        (void)snprintf(all->several, sizeof(all->several), "nets-%u", p->slot);
    e = entries_put(all, SET_GROUPS);
    element_key_link(e, p);
    e->jump = all->several[0] != '\0' ? all->several : all->groups[0];
    for (size_t i = 0; i < all->group_count; i++)
        element_key_link(entries_put(all, all->groups[i]), p);
}

static void entries_put_bounds(struct entries *all, const struct net_setup *p,
                               const struct ruleset_bounds *bounds)
{
    struct nft_element *e = entries_put(all, SET_FLOWS);

    element_key_link(e, p);
    e->count_over = bounds->flows;
    e = entries_put(all, SET_RATES);
    element_key_link(e, p);
    e->rate_over = bounds->per_second;
    e->burst = bounds->burst;
    e = entries_put(all, SET_TOLD);
    element_key_link(e, p);
    e->daily = true;
}

/* Formats the name of the chain of its own lists. */
static void lists_chain_name(const struct net_setup *p, char name[NAME_MAX_LEN])
{
    (void)snprintf(name, NAME_MAX_LEN, "box-%u", p->slot);
}

/* For a removal `bounds` does not matter: only keys are compared. */
static void entries_collect(struct entries *all, const struct net_setup *p,
                            const struct ruleset_bounds *bounds)
{
    all->count = all->group_count = 0;
    all->chain[0] = all->several[0] = '\0';
    entries_put_place(all, p);
    entries_put_bounds(all, p, bounds);
    if (p->internet)
        element_key_link(entries_put(all, SET_INTERNET), p);
    for (size_t i = 0; p->internet && i < p->dns_count && i < NET_DNS_MAX; i++)
        entries_put_dns(all, &p->dns[i]);
    for (size_t i = 0; i < p->access.port_count; i++)
        entries_put_host_port(all, p, &p->access.ports[i]);
    entries_put_groups(all, p);
    if (p->access.rule_count > 0) {
        struct nft_element *e = entries_put(all, SET_LISTS);

        lists_chain_name(p, all->chain);
        element_key_link(e, p);
        e->jump = all->chain;
    }
}

/* ---- the chain of a sandbox's own lists ---- */

static void port_data(struct nft_expr *x, uint32_t op, uint16_t port)
{
    *x = (struct nft_expr){.kind = X_CMP, .op = op, .reg = R(0), .len = 2};
    x->data[0] = (uint8_t)(port >> 8);
    x->data[1] = (uint8_t)port;
}

static size_t match_ports(struct nft_expr *x, const struct net_rule *r, uint8_t proto)
{
    size_t n = 0;

    if (r->first == 0)
        return 0;
    x[n++] = (struct nft_expr){.kind = X_META, .key = NFT_META_L4PROTO, .reg = R(0)};
    x[n] = (struct nft_expr){.kind = X_CMP, .op = NFT_CMP_EQ, .reg = R(0), .len = 1};
    x[n++].data[0] = proto;
    x[n++] = (struct nft_expr){
        .kind = X_PAYLOAD, .key = NFT_PAYLOAD_TRANSPORT_HEADER, .op = 2, .len = 2, .reg = R(0)};
    port_data(&x[n++], NFT_CMP_GTE, r->first);
    port_data(&x[n++], NFT_CMP_LTE, r->last);
    return n;
}

static void lists_add_rule(struct nft *n, const char *chain, const struct net_rule *r,
                           uint8_t proto)
{
    struct nft_expr x[NFT_EXPRS_MAX] = {{.kind = X_END}};
    size_t count = nft_match_to(x, r->family, r->bytes, r->prefix);

    count += match_ports(x + count, r, proto);
    x[count] =
        r->deny
            ? (struct nft_expr){.kind = X_VERDICT, .key = (uint32_t)NFT_GOTO, .text = CHAIN_REFUSE}
            : (struct nft_expr){.kind = X_VERDICT, .key = NF_ACCEPT};
    nft_add_rule(n, chain, x);
}

/* A port without a protocol is both TCP and UDP. */
static void lists_add_rules(struct nft *n, const char *chain, const struct net_rule *r)
{
    if (r->proto != 0 || r->first == 0) {
        lists_add_rule(n, chain, r, r->proto);
        return;
    }
    lists_add_rule(n, chain, r, NET_TCP);
    lists_add_rule(n, chain, r, NET_UDP);
}

static void lists_add_chain(struct nft *n, const char *chain, const struct net_setup *setup)
{
    const struct net_access *a = &setup->access;

    nft_add_chain(n, &(struct nft_chain){.name = chain});
    for (unsigned deny = 2; deny-- > 0;) /* deny rules first */
        for (size_t i = 0; i < a->rule_count; i++)
            if (a->rules[i].deny == deny)
                lists_add_rules(n, chain, &a->rules[i]);
}

/* Adds a named network, if it is not there: all members reach each other. */
static void ruleset_have_group(struct nft *n, const char *name, uint32_t id)
{
    const struct nft_set set = {
        .name = name, .key_type = SET_TYPE_IFNAME, .key_len = NFT_IFNAME_LEN, .host_order = true};
    const struct nft_expr exprs[] = {
        {.kind = X_META, .key = NFT_META_OIFNAME, .reg = R(0)},
        {.kind = X_LOOKUP, .reg = R(0), .text = name},
        {.kind = X_VERDICT, .key = NF_ACCEPT},
        {.kind = X_END},
    };

    nft_have_set(n, &set, id);
    nft_begin_chain(n, name);
    nft_add_rule(n, name, exprs);
}

static void ruleset_have_groups(struct nft *n, const struct entries *all)
{
    for (size_t i = 0; i < all->group_count; i++)
        ruleset_have_group(n, all->groups[i], GROUP_SET_ID + (uint32_t)i);
}

static void ruleset_put_several(struct nft *n, const struct entries *all)
{
    if (all->several[0] == '\0')
        return;
    nft_begin_chain(n, all->several);
    for (size_t i = 0; i < all->group_count; i++) {
        const struct nft_expr exprs[] = {
            {.kind = X_VERDICT, .key = (uint32_t)NFT_JUMP, .text = all->groups[i]},
            {.kind = X_END},
        };

        nft_add_rule(n, all->several, exprs);
    }
}

/* ---- adding ---- */

/* group: its named networks must be made, too. */
static int ruleset_try_add(int sock, const struct entries *all, const struct net_setup *setup,
                           bool group, struct err *err)
{
    auto_nft struct nft n;

    nft_begin(&n, NET_TABLE, 0);
    if (group)
        ruleset_have_groups(&n, all);
    ruleset_put_several(&n, all);
    if (all->chain[0] != '\0')
        lists_add_chain(&n, all->chain, setup);
    for (size_t i = 0; i < all->count; i++)
        nft_add_elements(&n, all->list[i].set, &all->list[i].e, 1);
    return nft_commit(&n, sock, err);
}

int ruleset_complete(int sock, const struct ruleset_bounds *all, struct err *err)
{
    auto_nft struct nft told, shared;
    int r, more = 0;

    nft_begin(&told, NET_TABLE, 0);
    ruleset_told_part(&told);
    r = nft_commit(&told, sock, err);
    if (r < 0)
        (void)err_wrap(err, r, "connections over a bound are not told of");
    nft_begin(&shared, NET_TABLE, 0);
    if (all->flows == 0)
        return r;
    ruleset_all_part(&shared, all);
    more = nft_commit(&shared, sock, r < 0 ? NULL : err);
    if (more < 0 && r == 0)
        r = err_wrap(err, more, "no bound for the connections of all sandboxes");
    return r;
}

int ruleset_add(int sock, const struct net_setup *setup, const struct ruleset_bounds *bounds,
                struct err *err)
{
    struct entries all;
    bool group = false;
    int r = -EAGAIN;

    entries_collect(&all, setup, bounds);
    for (int i = 0; i < TRIES; i++) {
        r = ruleset_try_add(sock, &all, setup, group, err);
        if (r == -EINTR || r == -EAGAIN)
            continue;
        if (r == -ENOENT && !group && all.group_count > 0)
            group = true;
        else if (r == -EEXIST || r == -EBUSY)
            (void)ruleset_remove(sock, setup, NULL); /* left by the slot's previous sandbox */
        else
            break;
    }
    return r;
}

int ruleset_add_dns(int sock, const struct net_setup *setup, struct err *err)
{
    struct entries all = {.count = 0};
    auto_nft struct nft n;

    for (size_t i = 0; i < setup->dns_count && i < NET_DNS_MAX; i++)
        entries_put_dns(&all, &setup->dns[i]);
    nft_begin(&n, NET_TABLE, 0);
    for (size_t i = 0; i < all.count; i++)
        nft_add_elements(&n, all.list[i].set, &all.list[i].e, 1);
    return nft_commit(&n, sock, err);
}

/* ---- removing ---- */

static void element_delete(struct nft *n, const struct ruleset_entry *e)
{
    struct nft_element key = e->e;

    key.jump = NULL;
    key.count_over = key.rate_over = 0;
    key.daily = false;
    nft_delete_element(n, e->set, &key);
}

static int ruleset_remove_at_once(int sock, const struct entries *all, struct err *err)
{
    auto_nft struct nft n;

    nft_begin(&n, NET_TABLE, 0);
    for (size_t i = 0; i < all->count; i++)
        if (!all->list[i].shared)
            element_delete(&n, &all->list[i]);
    if (all->chain[0] != '\0')
        nft_delete_chain(&n, all->chain);
    if (all->several[0] != '\0')
        nft_delete_chain(&n, all->several);
    return nft_commit(&n, sock, err);
}

/* Every element has a transaction of its own, so that a missing one does not block the others. */
static int ruleset_remove_each(int sock, const struct entries *all, struct err *err)
{
    int first = 0;

    for (size_t i = 0; i <= all->count + 1; i++) {
        auto_nft struct nft n;
        int r;

        nft_begin(&n, NET_TABLE, 0);
        if (i == all->count && all->chain[0] != '\0')
            nft_delete_chain(&n, all->chain);
        else if (i > all->count && all->several[0] != '\0')
            nft_delete_chain(&n, all->several);
        else if (i < all->count && !all->list[i].shared)
            element_delete(&n, &all->list[i]);
        r = nft_commit(&n, sock, err);
        if (r < 0 && r != -ENOENT && first == 0)
            first = r;
    }
    return first;
}

/* The kernel refuses this while the network has members. */
static void ruleset_remove_group(int sock, const char *name)
{
    auto_nft struct nft n;

    nft_begin(&n, NET_TABLE, 0);
    nft_delete_chain(&n, name);
    nft_delete_set(&n, name);
    (void)nft_commit(&n, sock, NULL);
}

int ruleset_remove(int sock, const struct net_setup *setup, struct err *err)
{
    const struct ruleset_bounds any = {.flows = 0};
    struct entries all;
    int r;

    entries_collect(&all, setup, &any);
    r = ruleset_remove_at_once(sock, &all, NULL);
    if (r < 0)
        r = ruleset_remove_each(sock, &all, err);
    for (size_t i = 0; r == 0 && i < all.group_count; i++)
        ruleset_remove_group(sock, all.groups[i]);
    return r;
}

/* ---- changing ---- */

/* The elements that a change of networks concerns. */
static bool entries_is_of_networks(const struct entries *all, const struct ruleset_entry *e)
{
    if (strcmp(e->set, SET_GROUPS) == 0 || strcmp(e->set, SET_INTERNET) == 0)
        return true;
    for (size_t i = 0; i < all->group_count; i++)
        if (strcmp(e->set, all->groups[i]) == 0)
            return true;
    return false;
}

static bool entries_has(const struct entries *all, const struct ruleset_entry *e)
{
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->list[i].set, e->set) == 0 && all->list[i].e.key_len == e->e.key_len &&
            memcmp(all->list[i].e.key, e->e.key, e->e.key_len) == 0 &&
            strcmp(all->list[i].e.jump != NULL ? all->list[i].e.jump : "",
                   e->e.jump != NULL ? e->e.jump : "") == 0)
            return true;
    return false;
}

static int ruleset_change_at_once(int sock, const struct entries *was, const struct entries *now,
                                  struct err *err)
{
    auto_nft struct nft n;

    nft_begin(&n, NET_TABLE, 0);
    ruleset_have_groups(&n, now);
    ruleset_put_several(&n, now);
    for (size_t i = 0; i < was->count; i++)
        if (entries_is_of_networks(was, &was->list[i]) && !entries_has(now, &was->list[i]))
            element_delete(&n, &was->list[i]);
    if (was->several[0] != '\0' && now->several[0] == '\0')
        nft_delete_chain(&n, was->several);
    for (size_t i = 0; i < now->count; i++)
        if ((entries_is_of_networks(now, &now->list[i]) && !entries_has(was, &now->list[i])) ||
            now->list[i].shared)
            nft_add_elements(&n, now->list[i].set, &now->list[i].e, 1);
    return nft_commit(&n, sock, err);
}

int ruleset_change(int sock, const struct net_setup *was, const struct net_setup *now,
                   const struct ruleset_bounds *bounds, struct err *err)
{
    struct entries old, all;
    int r = -EAGAIN;

    entries_collect(&old, was, bounds);
    entries_collect(&all, now, bounds);
    for (int i = 0; i < TRIES && (r == -EAGAIN || r == -EINTR); i++)
        r = ruleset_change_at_once(sock, &old, &all, err);
    if (r < 0) {
        /* Another program has taken elements away. In between the link is in no set. */
        r = ruleset_remove(sock, was, err);
        if (r == 0 || r == -ENOENT)
            r = ruleset_add(sock, now, bounds, err);
    }
    for (size_t i = 0; r == 0 && i < old.group_count; i++)
        ruleset_remove_group(sock, old.groups[i]); /* those that have no member any more */
    return r;
}

/* The number of rules that lists_add_chain makes. */
static int lists_length(const struct net_setup *setup)
{
    const struct net_access *a = &setup->access;
    int n = 0;

    for (size_t i = 0; i < a->rule_count; i++)
        n += a->rules[i].proto != 0 || a->rules[i].first == 0 ? 1 : 2;
    return n;
}

/* Elements that are not checked here can only be missing in a way that allows less. */
int ruleset_has(int sock, const struct net_setup *setup, struct err *err)
{
    const int wanted = lists_length(setup);
    struct nft_element e = {.key_len = 0}, list = {.key_len = 0};
    char chain[NAME_MAX_LEN];
    int r;

    element_key_addr(&e, &setup->sandbox4);
    r = nft_has_element(sock, NET_TABLE, SET_BOXES4, &e, err);
    if (r != 1 || wanted == 0)
        return r;
    element_key_link(&list, setup);
    r = nft_has_element(sock, NET_TABLE, SET_LISTS, &list, err);
    if (r != 1)
        return r;
    lists_chain_name(setup, chain);
    r = nft_count_rules(sock, NFPROTO_INET, NET_TABLE, chain, err);
    return r < 0 ? r : r == wanted;
}

static int on_first_element(const uint8_t *key, size_t len, void *data)
{
    (void)key;
    (void)len;
    *(bool *)data = true;
    return -EEXIST;
}

int ruleset_used(int sock, struct err *err)
{
    bool used = false;
    int r = nft_each_element(sock, NET_TABLE, SET_BOXES4, on_first_element, &used, err);

    return used ? 1 : r == -ENOENT ? 0 : r;
}

int ruleset_remove_empty(int sock, struct err *err)
{
    int r = -EAGAIN;

    /* -ERESTART if another process has changed the ruleset since the check. */
    for (int i = 0; i < TRIES && (r == -ERESTART || r == -EAGAIN || r == -EINTR); i++) {
        auto_nft struct nft n = {.table = NULL};
        uint32_t genid = 0;

        nlreq_init(&n.req);
        r = nft_generation(sock, &genid, err);
        if (r < 0)
            return r;
        r = ruleset_used(sock, err);
        if (r > 0)
            return 0;
        if (r < 0)
            continue;
        nft_begin(&n, NET_TABLE, genid);
        nft_delete_table(&n);
        r = nft_commit(&n, sock, err);
    }
    return r < 0 && r != -ENOENT ? r : 1;
}

/* ---- guards ---- */

static void guard_element(struct nft_element *e, const char *ifname)
{
    (void)memset(e, 0, sizeof(*e));
    e->key_len = NFT_IFNAME_LEN;
    (void)strncpy((char *)e->key, ifname, NFT_IFNAME_LEN - 1);
}

int ruleset_guard(int sock, const char *ifname, struct err *err)
{
    struct nft_element e;
    auto_nft struct nft n;

    guard_element(&e, ifname);
    nft_begin(&n, NET_TABLE, 0);
    nft_add_elements(&n, SET_GUARDED, &e, 1);
    return nft_commit(&n, sock, err);
}

int ruleset_has_guard(int sock, const char *ifname, struct err *err)
{
    struct nft_element e;

    guard_element(&e, ifname);
    return nft_has_element(sock, NET_TABLE, SET_GUARDED, &e, err);
}

/* ---- the table ---- */

int ruleset_state(int sock, struct ruleset_print *print, struct err *err)
{
    /* OWNED (NFT_TABLE_F_OWNER, missing in older headers): only its owner can change the table. A
     * dormant table has no effect. */
    enum { OWNED = 2 };
    struct ruleset_print now = {.table = 0};
    uint32_t flags = 0;
    int r = nft_table_flags(sock, NET_TABLE, &flags, err);

    if (r == -ENOENT)
        return RULESET_MISSING;
    if (r < 0)
        return r;
    if ((flags & (NFT_TABLE_F_DORMANT | OWNED)) != 0)
        return RULESET_DAMAGED;
    r = nft_table_handle(sock, NET_TABLE, &now.table, err);
    if (r == 0)
        r = ruleset_table_is_whole(sock, &now.rules, err);
    if (r == -ENOENT)
        return RULESET_MISSING;
    if (r == 1 && print->table == now.table && print->rules != now.rules)
        r = 0;
    if (r == 1)
        *print = now;
    return r < 0 ? r : r == 1 ? RULESET_WHOLE : RULESET_DAMAGED;
}

static int ruleset_try_make(int sock, bool again, char (*guards)[NFT_IFNAME_LEN], size_t count,
                            struct err *err)
{
    auto_nft struct nft n;

    nft_begin(&n, NET_TABLE, 0);
    if (again)
        nft_delete_table(&n);
    ruleset_table(&n);
    for (size_t i = 0; i < count; i++) {
        struct nft_element e;

        guard_element(&e, guards[i]);
        nft_add_elements(&n, SET_GUARDED, &e, 1);
    }
    return nft_commit(&n, sock, err);
}

int ruleset_make(int sock, char (*guards)[NFT_IFNAME_LEN], size_t count, struct err *err)
{
    bool again = false;
    int r = -EAGAIN;

    for (int i = 0; i < TRIES; i++) {
        r = ruleset_try_make(sock, again, guards, count, err);
        if (r == -EOPNOTSUPP && ruleset_has_labels())
            ruleset_without_labels();
        else if (again ? r == -ENOENT : r == -EEXIST)
            again = !again;
        else if (r != -EINTR && r != -EAGAIN)
            break;
    }
    return r;
}
