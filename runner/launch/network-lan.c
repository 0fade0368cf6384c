/*
 * Addresses of members in named networks that have a subnet. The launcher chooses them, records
 * them with the rest of the network, and keeps the members' tables (net/lan.h) in step: each has
 * one of its own, inside, so a change of members concerns all of them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "launch/launcher.h"
#include "launch/net-ops.h"
#include "launch/network-number.h"
#include "launch/network.h"
#include "launch/sandbox.h"

enum { PEERS_MAX = NET_GROUPS_MAX * NET_LAN_MEMBERS_MAX };

/* Finds the addresses of other members. -E2BIG: there are too many. */
static int lans_find_taken(const struct launcher *l, const struct net_setup *setup, uint64_t group,
                           uint8_t (*ret)[4], size_t *ret_count, struct err *err)
{
    const struct net_setup *all[IDRANGE_COUNT];
    const size_t count = network_live_setups(l, all);
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        const struct net_lan *lan = net_setup_lan(all[i], group);

        if (lan == NULL || all[i]->slot == setup->slot)
            continue;
        if (used + 1 == NET_LAN_MEMBERS_MAX)
            return err_set(err, -E2BIG,
                           "network: a network with a subnet has at most %d members that run",
                           NET_LAN_MEMBERS_MAX);
        (void)memcpy(ret[used++], lan->address, 4);
    }
    *ret_count = used;
    return 0;
}

/* The address stays while the sandbox is in the network, unless another one is asked for. */
static bool lan_stays(const struct net_lan *was, const struct net_lan_ask *ask)
{
    return was != NULL && net_lan_is_of(was, ask) && memcmp(was->gateway, ask->gateway, 4) == 0 &&
           (!ask->fixed || memcmp(was->address, ask->address, 4) == 0);
}

/* The gateway's address must lead to nothing else than the gateway. */
static int lan_check_pool(const struct net_setup *setup, const struct net_lan *lan, struct err *err)
{
    if (net_same_prefix(setup->sandbox4.bytes, lan->gateway, NET_POOL_PREFIX4))
        return err_set(err, -EADDRINUSE,
                       "network: Pool overlaps with other one on this address space: the gateway's "
                       "address is one of rind's own (network.pool4)");
    for (uint32_t i = 0; i < NET_GROUPS_MAX; i++)
        if (setup->lan[i].prefix != 0 &&
            net_lan_overlap(setup->lan[i].address, setup->lan[i].prefix, lan->address, lan->prefix))
            return err_set(err, -EADDRINUSE,
                           "network: Pool overlaps with other one on this address space: that of "
                           "another network of the sandbox");
    return 0;
}

static int lan_choose_one(const struct launcher *l, struct net_setup *setup, uint32_t place,
                          const struct net_setup *was, const struct net_lan_ask *ask,
                          struct err *err)
{
    const uint64_t group = net_setup_group(setup, place);
    const struct net_lan *old = was != NULL ? net_setup_lan(was, group) : NULL;
    uint8_t members[NET_LAN_MEMBERS_MAX][4];
    struct net_lan_taken taken = {.members = (const uint8_t(*)[4])members,
                                  .pool = setup->sandbox4.bytes,
                                  .dns = setup->dns,
                                  .dns_count = setup->dns_count};
    struct net_lan lan = {.prefix = ask->prefix};
    int r = 0;

    (void)memcpy(lan.gateway, ask->gateway, sizeof(lan.gateway));
    if (lan_stays(old, ask)) {
        lan = *old;
    } else {
        r = lans_find_taken(l, setup, group, members, &taken.count, err);
        if (r == 0)
            r = net_lan_choose(ask, &taken, lan.address, err);
    }
    if (r == 0)
        r = lan_check_pool(setup, &lan, err);
    if (r == 0)
        setup->lan[place] = lan;
    return r;
}

/* Returns the place of a network of the request in setup's order. */
static int lan_place(struct launcher *l, const struct net_setup *setup,
                     const struct launch_request *q, const struct net_lan_ask *ask, struct err *err)
{
    const char *name = ask->index == 0 ? q->net_name : q->net_more[ask->index - 1].name;
    uint64_t group;
    int r = network_number(l, name, &group, err);

    for (uint32_t k = 0; r == 0 && k < net_setup_group_count(setup); k++)
        if (net_setup_group(setup, k) == group)
            return (int)k;
    return r < 0 ? r : err_set(err, -ENOENT, "network: %s", name);
}

int network_lans_choose(struct launcher *l, struct net_setup *setup, const struct net_setup *was,
                        const struct launch_request *q, struct err *err)
{
    (void)memset(setup->lan, 0, sizeof(setup->lan));
    /* It could take the table away, and hold up the launcher by changing its own ones meanwhile. */
    if (setup->admin && q->net_lan_count > 0)
        return err_set(err, -EINVAL,
                       "network: a sandbox that administers its network cannot be in one with a "
                       "subnet");
    for (size_t i = 0; i < q->net_lan_count; i++) {
        int place = lan_place(l, setup, q, &q->net_lans[i], err), r;

        if (place < 0)
            return place;
        r = lan_choose_one(l, setup, (uint32_t)place, was, &q->net_lans[i], err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- tables ---- */

/* Those of its first network come first: of a member of several networks of both, that counts. */
static size_t lan_peers(const struct launcher *l, const struct net_setup *setup,
                        struct net_lan_peer *ret)
{
    const struct net_setup *all[IDRANGE_COUNT];
    const size_t count = network_live_setups(l, all);
    size_t used = 0;

    for (uint32_t k = 0; k < net_setup_group_count(setup); k++)
        for (size_t i = 0; setup->lan[k].prefix != 0 && i < count; i++) {
            const struct net_lan *lan = net_setup_lan(all[i], net_setup_group(setup, k));

            if (lan == NULL || all[i]->slot == setup->slot || used == PEERS_MAX)
                continue;
            (void)memcpy(ret[used].lan, lan->address, 4);
            (void)memcpy(ret[used++].pool, all[i]->sandbox4.bytes, 4);
        }
    return used;
}

bool network_lan_concerns(const struct net_setup *setup, const struct net_setup *was)
{
    return net_setup_has_lan(setup) || (was != NULL && net_setup_has_lan(was));
}

int network_lan_set(const struct launcher *l, const struct net_setup *setup, enum net_lan_step step,
                    int ns_fd, struct err *err)
{
    struct net_lan_peer *peers;
    int r;

    if (l->net->lan == NULL)
        return err_set(err, -EOPNOTSUPP, "network: this launcher makes no subnets");
    peers = calloc(PEERS_MAX, sizeof(*peers));
    if (peers == NULL)
        return err_errno(err, -ENOMEM, "network");
    r = l->net->lan(l->net->data, setup, peers, lan_peers(l, setup, peers), step, ns_fd, err);
    free(peers);
    if (r == -ENOTRECOVERABLE)
        /* the launcher would make all its sockets in the sandbox's namespace from here on */
        abort();
    return r < 0 ? err_wrap(err, r, "network") : 0;
}

void network_lan_renew(const struct launcher *l, const struct launch_sandbox *s)
{
    struct err err = ERR_NONE;

    if (l->net == NULL || s->net == NULL || sandbox_ended(s) || !net_setup_has_lan(s->net))
        return;
    /* Without it the sandbox reaches a new member by the address that rind has given alone. One
     * that has just ended has no namespace to enter. */
    if (network_lan_set(l, s->net, NET_LAN_PEERS, s->pidfd, &err) < 0 && err.code != -ESRCH)
        log_warn("network", "sandbox=%s its table of members: %s", s->id, err.msg);
}

static bool setups_share_lan(const struct net_setup *a, const struct net_setup *b)
{
    for (uint32_t i = 0; i < net_setup_group_count(b); i++)
        if (b->lan[i].prefix != 0 && net_setup_lan(a, net_setup_group(b, i)) != NULL)
            return true;
    return false;
}

/* True for the first sandbox of those that live in its network, of whichever the network is. */
static bool sandbox_is_first(const struct launcher *l, const struct launch_sandbox *s)
{
    const struct launch_sandbox *p = l->sandboxes;

    if (s->net == NULL || sandbox_ended(s))
        return false;
    while (p != s && (p->net == NULL || sandbox_ended(p) || p->net->slot != s->net->slot))
        p = p->all.next;
    return p == s;
}

void network_lan_tell(const struct launcher *l, const struct net_setup *setup)
{
    if (setup == NULL || !net_setup_has_lan(setup))
        return;
    for (const struct launch_sandbox *s = l->sandboxes; s != NULL; s = s->all.next)
        if (s->net != NULL && s->net->slot != setup->slot && setups_share_lan(s->net, setup) &&
            sandbox_is_first(l, s))
            network_lan_renew(l, s);
}
