#include "ports/networks.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "json/parse.h"
#include "launch/volume.h"
#include "net/pool.h"
#include "policy/net-lan.h"
#include "sandbox/events.h"
#include "sandbox/member-usage.h"
#include "sandbox/rights.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/services.h"
#include "sandbox/shared.h"
#include "sandbox/store.h"
#include "spec/spec.h"
#include "volume/volumes-internal.h"

struct network_entry {
    struct networks *networks;
    struct network_entry *next;
    char name[SPEC_NETWORK_MAX + 1];
    struct volume_record record; /* creation time, creator, labels */
    bool internal;
    struct net_lan_ask subnet; /* prefix 0: none */
    json_t *kept;              /* owned: its auxiliary addresses, {name: address}; or NULL */
};

struct networks {
    struct supervisor *sup; /* borrowed */
    struct network_entry *first, **last;
    unsigned count;
};

static void entry_free(struct network_entry *e)
{
    volume_record_done(&e->record);
    json_decref(e->kept);
    free(e);
}

static void networks_append(struct networks *n, struct network_entry *e)
{
    e->networks = n;
    *n->last = e;
    n->last = &e->next;
    n->count++;
}

/* ---- files: {"internal": …, "record": {…}, "subnet": …, "gateway": …, "ipRange": …, "kept": {…}}
 */

static int subnet_encode(json_t *root, const struct network_entry *e)
{
    const struct net_lan_ask *a = &e->subnet;
    const struct net_addr gateway = net_lan_addr(a->gateway);
    char subnet[NET_RULE_TEXT_MAX], range[NET_RULE_TEXT_MAX], text[NET_ADDR_TEXT_MAX];

    net_lan_format(a->subnet, a->prefix, subnet);
    net_lan_format(a->range, a->range_prefix, range);
    net_addr_format(&gateway, text);
    return json_object_set_new(root, "subnet", json_string(subnet)) < 0 ||
                   json_object_set_new(root, "gateway", json_string(text)) < 0 ||
                   json_object_set_new(root, "ipRange", json_string(range)) < 0 ||
                   (e->kept != NULL && json_object_set(root, "kept", e->kept) < 0)
               ? -ENOMEM
               : 0;
}

static int network_save(const struct network_entry *e, struct err *err)
{
    auto_buf struct buf text = BUF_INIT(LAUNCH_META_MAX + 1);
    auto_ptr(json_decref) json_t *record = NULL, *root = NULL;
    int r = volume_record_encode(&e->record, &text, err);

    if (r == 0)
        r = json_parse(text.data, text.len, LAUNCH_META_MAX, &record, err);
    if (r < 0)
        return r;
    root = json_pack("{s:b, s:O}", "internal", (int)e->internal, "record", record);
    if (root == NULL || (e->subnet.prefix != 0 && subnet_encode(root, e) < 0))
        return err_errno(err, -ENOMEM, "network");
    return store_save_network(e->networks->sup->store, e->name, root, err);
}

static int entry_keep(struct network_entry *e, json_t *kept, struct err *err)
{
    const char *name;
    json_t *address;
    int r = 0;

    if (json_object_size(kept) == 0)
        return 0;
    json_object_foreach(kept, name, address) {
        if (!json_is_string(address) || strlen(name) > SPEC_HOST_NAME_MAX)
            return err_set(err, -EINVAL,
                           "auxiliary addresses: must be addresses by names of at most %d bytes",
                           SPEC_HOST_NAME_MAX);
        r = net_lan_keep(&e->subnet, json_string_value(address), err);
        if (r < 0)
            return r;
    }
    e->kept = json_copy(kept);
    return e->kept == NULL ? err_errno(err, -ENOMEM, "network") : 0;
}

static int network_decode(struct network_entry *e, const json_t *root, struct err *err)
{
    auto_free char *text = json_dumps(json_object_get(root, "record"), JSON_COMPACT);
    const char *subnet = json_string_value(json_object_get(root, "subnet"));
    int r = 0;

    if (subnet != NULL)
        r = net_lan_parse(subnet, json_string_value(json_object_get(root, "gateway")),
                          json_string_value(json_object_get(root, "ipRange")), &e->subnet, err);
    if (r == 0 && subnet != NULL)
        r = entry_keep(e, json_object_get(root, "kept"), err);
    if (r < 0)
        return r;
    if (text == NULL || !json_is_boolean(json_object_get(root, "internal")))
        return err_set(err, -EINVAL, "it is no record of a network");
    e->internal = json_is_true(json_object_get(root, "internal"));
    return volume_record_decode(text, strlen(text), &e->record, err);
}

static void on_network_stored(void *data, const char *name, json_t *root)
{
    struct networks *n = data;
    struct network_entry *e = calloc(1, sizeof(*e));
    struct err err = ERR_NONE;

    if (e == NULL || root == NULL || network_decode(e, root, &err) < 0) {
        log_warn("network", "the record of %s: %s, ignoring", name,
                 err.code < 0 ? err.msg : "cannot be read");
        if (e != NULL)
            entry_free(e);
        return;
    }
    (void)snprintf(e->name, sizeof(e->name), "%s", name);
    networks_append(n, e);
}

int networks_open(struct supervisor *sup, struct err *err)
{
    struct networks *n = calloc(1, sizeof(*n));

    if (n == NULL)
        return err_errno(err, -ENOMEM, "networks");
    n->sup = sup;
    n->last = &n->first;
    sup->networks = n;
    return store_each_network(sup->store, on_network_stored, n, err);
}

void networks_close(struct networks *n)
{
    if (n == NULL)
        return;
    while (n->first != NULL) {
        struct network_entry *next = n->first->next;

        entry_free(n->first);
        n->first = next;
    }
    free(n);
}

/* ---- lookup ---- */

struct network_entry *network_find(struct supervisor *sup, const char *name)
{
    struct network_entry *e = sup->networks->first;

    while (e != NULL && strcmp(e->name, name) != 0)
        e = e->next;
    return e;
}

struct network_entry *network_first(struct supervisor *sup)
{
    return sup->networks->first;
}

struct network_entry *network_next(struct network_entry *n)
{
    return n->next;
}

const char *network_name(const struct network_entry *n)
{
    return n->name;
}

int64_t network_created_ms(const struct network_entry *n)
{
    return n->record.created_ms;
}

bool network_is_internal(const struct network_entry *n)
{
    return n->internal;
}

char *const *network_labels(const struct network_entry *n)
{
    static char *const none[] = {NULL};

    return n->record.labels != NULL ? n->record.labels : none;
}

bool network_is_own(const struct network_entry *n, const struct caller *who)
{
    return right_is_own(who, n->record.creator);
}

const struct net_lan_ask *network_subnet(const struct network_entry *n)
{
    return &n->subnet;
}

const json_t *network_kept(const struct network_entry *n)
{
    return n->kept;
}

bool network_may_use(const struct network_entry *n, const struct caller *who)
{
    return right_to(who, n->record.creator, NULL) >= RIGHT_USE;
}

struct network_entry *network_find_for(struct supervisor *sup, const struct caller *who,
                                       const char *name)
{
    struct network_entry *n = network_find(sup, name);

    return n != NULL && network_may_use(n, who) ? n : NULL;
}

/*
 * True if another user's sandbox names a network that no client has created: it is that user's as
 * long as the sandbox exists, and root joins it no more by chance than another member does.
 */
static bool network_of_others(struct supervisor *sup, const char *name, const struct caller *who)
{
    for (const struct sandbox *s = sup->sandboxes; s != NULL; s = s->all.next)
        if (s->spec != NULL && spec_has_net(s->spec, name) && !right_is_own(who, s->made.by))
            return true;
    return false;
}

unsigned network_users(struct supervisor *sup, const char *name, unsigned *ret_live)
{
    unsigned all = 0, live = 0;

    for (const struct sandbox *s = sup->sandboxes; s != NULL; s = s->all.next) {
        if (s->spec == NULL || !spec_has_net(s->spec, name))
            continue;
        all++;
        live += s->state == SANDBOX_STARTING || s->state == SANDBOX_RUNNING ||
                s->state == SANDBOX_PAUSED || s->state == SANDBOX_STOPPING;
    }
    if (ret_live != NULL)
        *ret_live = live;
    return all;
}

/* ---- subnets ---- */

/* Other networks may have the same subnet, as the host knows nothing of either. What would be
 * refused with the first member is refused here already, where the pool is a default one. */
static int check_subnet(const struct net_lan_ask *a, struct err *err)
{
    struct net_rule pool;

    for (const char *const *p = pool_defaults4; *p != NULL; p++)
        if (pool_parse(*p, 4, &pool, NULL) == 0 &&
            (net_same_prefix(a->gateway, pool.bytes, pool.prefix) ||
             (a->range_prefix >= pool.prefix &&
              net_same_prefix(a->range, pool.bytes, pool.prefix))))
            return err_set(err, -EPERM,
                           "invalid pool request: Pool overlaps with other one on this address "
                           "space: %s is rind's own",
                           *p);
    return 0;
}

static int entry_set_subnet(struct network_entry *e, const struct network_params *params,
                            struct err *err)
{
    int r;

    if (params->subnet == NULL)
        return params->gateway == NULL && params->range == NULL &&
                       json_object_size(params->kept) == 0
                   ? 0
                   : err_set(err, -EINVAL,
                             "network: a gateway, an ip-range and auxiliary addresses are of a "
                             "subnet, and there is none");
    r = net_lan_parse(params->subnet, params->gateway, params->range, &e->subnet, err);
    if (r == 0)
        r = entry_keep(e, params->kept, err);
    return r < 0 ? r : check_subnet(&e->subnet, err);
}

int networks_check_spec(struct supervisor *sup, struct spec *spec, const struct caller *who,
                        struct err *err)
{
    const struct network_entry *e, *internal = NULL;
    bool others = false;
    const char *name;
    int r;

    for (size_t i = 0; (name = spec_net(spec, i, NULL)) != NULL; i++) {
        e = network_find(sup, name);
        if (e != NULL ? !network_may_use(e, who) : network_of_others(sup, name, who))
            return err_set(err, -EEXIST, "network: the name '%s' is taken", name);
        if (e != NULL && e->internal)
            internal = e;
        else
            others = true;
    }
    r = networks_find_subnets(sup, spec, err);
    networks_drop_subnets(spec);
    if (r < 0 || internal == NULL || others)
        return r;
    if (spec->network == NET_INTERNET)
        return err_set(err, -EINVAL, "network: '%s' is internal: its members have no internet",
                       internal->name);
    spec->network = NET_NONE;
    return 0;
}

/* ---- creation and removal ---- */

/* Checks that a spec could use the name. */
static int check_name(const char *name, struct err *err)
{
    auto_ptr(spec_free) struct spec *scratch = spec_new();
    int r;

    if (scratch == NULL)
        return err_errno(err, -ENOMEM, "network");
    r = spec_set_network(scratch, name, err);
    if (r == 0 && scratch->net_name == NULL)
        r = err_set(err, -EINVAL, "network '%.64s': is a word for something else", name);
    return r;
}

static int check_room(const struct networks *n, const struct caller *who, struct err *err)
{
    const struct supervisor_limits *limits = &n->sup->limits;
    unsigned own = 0;

    if (n->count >= limits->networks)
        return err_set(err, -EAGAIN, "limit maxNetworks: there are %u networks already", n->count);
    for (const struct network_entry *e = n->first; e != NULL; e = e->next)
        own += e->record.creator == (int64_t)who->uid;
    if (who->limited && own >= limits->networks_per_user)
        return err_set(err, -EUSERS, "limit maxNetworksPerUser: you have %u networks already", own);
    return member_check(n->sup, who, &(struct member_usage){.networks = 1}, err);
}

void networks_usage(const struct supervisor *sup, const struct member_scope *scope,
                    struct member_usage *add)
{
    for (const struct network_entry *e = sup->networks->first; e != NULL; e = e->next)
        add->networks += member_counts(sup, scope, e->record.creator);
}

/* False while sandboxes name the network: it would become its maker's, with them in it. A container
 * of the maker's own that waits for it, as Docker's clients may create one, is no obstacle. */
static bool network_may_be_made(struct supervisor *sup, const char *name, const struct caller *who)
{
    unsigned live;

    (void)network_users(sup, name, &live);
    if (live > 0)
        return false;
    for (const struct sandbox *s = sup->sandboxes; s != NULL; s = s->all.next)
        if (s->spec != NULL && spec_has_net(s->spec, name) &&
            (!right_is_own(who, s->made.by) || !network_spec_is_dockers(s->spec)))
            return false;
    return true;
}

int network_create(struct supervisor *sup, const struct network_params *params,
                   const struct caller *who, struct network_entry **ret, struct err *err)
{
    struct network_entry *e;
    int r = check_name(params->name, err);

    if (r == 0 && network_find(sup, params->name) != NULL)
        r = err_set(err, -EEXIST, "network with name %s already exists", params->name);
    else if (r == 0 && network_of_others(sup, params->name, who))
        r = err_set(err, -EEXIST, "network with name %s already exists", params->name);
    else if (r == 0 && !network_may_be_made(sup, params->name, who))
        r = err_set(
            err, -EEXIST,
            "network with name %s already exists: no client has made it, and it goes with the "
            "last sandbox that names it",
            params->name);
    if (r == 0)
        r = check_room(sup->networks, who, err);
    if (r < 0)
        return r;
    e = calloc(1, sizeof(*e));
    if (e == NULL)
        return err_errno(err, -ENOMEM, "network");
    e->networks = sup->networks;
    (void)snprintf(e->name, sizeof(e->name), "%s", params->name);
    e->internal = params->internal;
    e->record.created_ms = clock_wall_ms();
    e->record.creator = who->uid;
    r = entry_set_subnet(e, params, err);
    if (r == 0)
        r = volume_record_labels(&e->record, params->labels, err);
    if (r == 0)
        r = network_save(e, err);
    if (r < 0) {
        entry_free(e);
        return r;
    }
    networks_append(sup->networks, e);
    events_emit(supervisor_events(sup), "network_create", "", e->name, e->record.creator, NULL);
    *ret = e;
    return 0;
}

int network_remove(struct network_entry *e, struct err *err)
{
    struct networks *n = e->networks;
    struct network_entry **at = &n->first;
    unsigned live;
    int r;

    (void)network_users(n->sup, e->name, &live);
    if (live > 0)
        return err_set(err, -EBUSY, "network %s: %u %s in it", e->name, live,
                       live == 1 ? "sandbox that runs is" : "sandboxes that run are");
    r = store_remove_network(n->sup->store, e->name, err);
    if (r < 0)
        return r;
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    if (n->last == &e->next)
        n->last = at;
    n->count--;
    events_emit(supervisor_events(n->sup), "network_destroy", "", e->name, e->record.creator, NULL);
    entry_free(e);
    return 0;
}
