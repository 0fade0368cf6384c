/*
 * Restores rules that other programs remove while sandboxes run, and closes networks for which that
 * fails.
 *
 * A network is open while the table is complete and has the network's own rules. When a check finds
 * something missing or fails, it is repaired at once, the table first. Making the table is one
 * transaction, after which no sandbox reaches anything. A network that cannot be repaired is
 * closed: the host's end of the link goes down. That needs no firewall, is recorded in the link's
 * alias, and outlives the process. Repairs are repeated, with a growing delay and whenever the
 * table changes; on success the link goes up.
 *
 *   open    ->  closed   no lock, no sockets, no table, no rules of its own
 *   closed  ->  open     table and rules are complete; closed by any process (the alias tells)
 *
 * Forwarding of the host's interfaces is guarded by the table. It is disabled while there is no
 * table, and enabled again with the next one.
 *
 * Between a removal and its repair (about a millisecond), and while no rind runs, there are no
 * rules; this cannot be prevented here. What begins then does not live on: the new table refuses
 * connections without its label, and before a network is open again they are removed from the
 * host's table of connections, so that a new attempt is a new connection. After rules were taken
 * out of the table, or others added, the label says nothing, and all connections end.
 *
 * Runs in the launcher.
 */
#include <errno.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "net/cut.h"
#include "net/frames.h"
#include "net/link.h"
#include "net/net-internal.h"
#include "net/netlink.h"
#include "net/ruleset.h"
#include "net/watch.h"

enum {
    AGAIN_FIRST_MS = 100,
    AGAIN_MAX_MS = 10000,
    AGAIN_DOUBLINGS = 7, /* AGAIN_FIRST_MS << this exceeds AGAIN_MAX_MS */
    UNWATCHED_MS = 1000, /* interval of checks if the kernel does not report changes */
    LOCK_WAIT_MS = 500,  /* for another rind's lock, which probably repairs the table itself */
    /* when the table is complete, and so refuses everything that is not in it */
    LOCK_LONG_MS = 2000,
};

/* ---- watching ---- */

static int epoll_add(int epoll, int fd)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

    if (fd < 0)
        return -1;
    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev) < 0 && errno != EEXIST ? -1 : 0;
}

static void watch_open_once(int *fd, int (*open_fn)(void))
{
    if (*fd < 0)
        *fd = open_fn();
}

int net_watch(struct net *n)
{
    struct uplink up;

    if (n->watch_all >= 0)
        return n->watch_all;
    /* First the sockets that closing a link needs. */
    (void)net_open_sockets(n, NULL);
    watch_open_once(&n->watch, watch_open);
    watch_open_once(&n->watch_routes, watch_open_routes);
    watch_open_once(&n->watch_link, watch_open_link);
    watch_open_once(&n->watch_resolv, watch_open_resolv);
    /* Sandboxes of an earlier process may exist already. */
    if (n->uplink == 0 && n->route >= 0 && host_find_uplink(n, &host_somewhere4, &up) == 0)
        n->uplink = up.index;
    if (n->watch_link >= 0)
        (void)watch_choose_link(n->watch_link, n->uplink);
    if (n->watch < 0)
        return FD_NONE;
    n->watch_all = epoll_create1(EPOLL_CLOEXEC);
    /* Rules without routes are better than nothing. */
    if (n->watch_all < 0)
        return n->watch;
    if (epoll_add(n->watch_all, n->watch) < 0) {
        (void)close(take_fd(&n->watch_all));
        return n->watch;
    }
    (void)epoll_add(n->watch_all, n->watch_routes);
    (void)epoll_add(n->watch_all, n->watch_link);
    (void)epoll_add(n->watch_all, n->watch_resolv);
    return n->watch_all;
}

/* Reports an overlap. It cannot be repaired while sandboxes use these addresses. */
static void on_new_route(void *data, const struct pool_route *route)
{
    const struct net *n = data;
    const struct net_rule *pool = route->to.family == 4 ? &n->pool4 : &n->pool6;
    char theirs[NET_RULE_TEXT_MAX], ours[NET_RULE_TEXT_MAX], text[2 * NET_RULE_TEXT_MAX + 192];

    if (!n->have_pools || !route->configured || route->to.prefix <= 1 || net_is_own_route(route) ||
        !pool_overlap(pool, &route->to) || n->config.said == NULL)
        return;
    net_rule_format(&route->to, theirs);
    net_rule_format(pool, ours);
    (void)snprintf(text, sizeof(text),
                   "the host has a new route to %s, within the addresses of sandboxes (%s): one of "
                   "the two does not reach the other; network.pool%d is what to change",
                   theirs, ours, route->to.family);
    n->config.said(text);
}

static int route_interface(struct net *n, const struct net_addr *to)
{
    struct uplink up;

    return host_find_uplink(n, to, &up) == 0 ? up.index : -1;
}

/* The uplink has changed: replies now arrive at another interface. */
static void restore_follow_uplink(struct net *n, const struct net_setup *const *setups,
                                  size_t count)
{
    const int way4 = route_interface(n, &host_somewhere4),
              way6 = route_interface(n, &host_somewhere6);
    struct err err = ERR_NONE;

    if (way4 == n->way4 && way6 == n->way6)
        return;
    n->way4 = way4;
    n->way6 = way6;
    host_watch_uplink(n, way4 > 0 ? way4 : 0);
    for (size_t i = 0; i < count; i++)
        if (host_forward(n, setups[i], &err) < 0 && n->config.said != NULL)
            n->config.said(err.msg);
}

/* Returns the port id of a netlink socket, which the kernel assigns with the first message. */
static uint32_t socket_port(int fd)
{
    struct sockaddr_nl name = {.nl_family = AF_NETLINK};
    socklen_t len = sizeof(name);

    if (fd < 0 || getsockname(fd, (struct sockaddr *)&name, &len) < 0)
        return 0;
    return name.nl_pid;
}

static void watch_read_all(struct net *n)
{
    n->doubt = (n->watch >= 0 && watch_read(n->watch, socket_port(n->nft))) || n->doubt;
    n->moved =
        (n->watch_routes >= 0 && watch_read_routes(n->watch_routes, on_new_route, n)) || n->moved;
    n->other = (n->watch_link >= 0 && watch_read_link(n->watch_link)) || n->other;
    n->other = (n->watch_resolv >= 0 && watch_read_resolv(n->watch_resolv)) || n->other;
}

/* ---- the table ---- */

static int table_make(struct net *n, struct err *err)
{
    char guards[2 * UPLINKS_MAX][NET_LINK_MAX];
    int r;

    (void)memset(guards, 0, sizeof(guards));
    r = ruleset_make(n->nft, guards, host_guarded(n, guards), err);
    if (r < 0)
        return err_wrap(err, r, "table %s", NET_TABLE);
    net_complete(n);
    return 0;
}

static void table_must_cut(struct net *n, enum net_cut what)
{
    if (n->uncut < what)
        n->uncut = what;
}

/* Returns 1 if the table was made. */
static int table_check(struct net *n, struct err *err)
{
    const uint64_t was = n->print.table;
    int state = ruleset_state(n->nft, &n->print, err), r;

    n->whole = state == RULESET_WHOLE;
    if (n->whole && n->print.table != was)
        table_must_cut(n, CUT_UNLABELLED); /* there may have been none in between */
    if (state < 0 || n->whole)
        return state < 0 ? state : 0;
    table_must_cut(n, state == RULESET_DAMAGED ? CUT_ALL : CUT_UNLABELLED);
    r = table_make(n, err);
    n->whole = r == 0;
    n->print = (struct ruleset_print){.table = 0};
    return r < 0 ? r : 1;
}

int restore_table(struct net *n, struct err *err)
{
    int r;

    watch_read_all(n);
    /* Without a watch it is checked each time. */
    if (n->whole && !n->doubt && n->watch >= 0)
        return 0;
    r = table_check(n, err);
    if (r == 1)
        n->doubt = true; /* the old one may have had other networks */
    if (n->alive == 0 && n->live == 0)
        n->uncut = CUT_NONE; /* it had none of this process */
    return r < 0 ? r : 0;
}

/* ---- networks ---- */

static bool closed_has(const struct closed_nets *c, uint32_t slot)
{
    return slot < POOL_SLOTS && (c->bits[slot / 8] >> slot % 8 & 1) != 0;
}

static void closed_set(struct closed_nets *c, uint32_t slot, bool closed)
{
    const uint8_t bit = (uint8_t)(1u << slot % 8);

    if (slot < POOL_SLOTS)
        c->bits[slot / 8] = (uint8_t)(closed ? c->bits[slot / 8] | bit : c->bits[slot / 8] & ~bit);
}

/* The state of one check of all networks. */
struct restore_look {
    const struct net *net;                 /* borrowed */
    const struct net_setup *const *setups; /* borrowed */
    size_t count;
    bool first; /* the first check of this process */
    struct closed_nets was, now;
    struct closed_nets missing; /* networks that are not in the table */
    bool made;                  /* the table is a new one */
    bool missed;                /* some networks were not in the table */
    struct err why;             /* the first failure */
};

static void look_close_box(struct net *n, struct restore_look *l, const struct net_setup *setup,
                           const struct err *why)
{
    struct err err = ERR_NONE;

    if (l->why.code == 0)
        l->why = *why;
    closed_set(&l->now, setup->slot, true);
    if (n->route < 0)
        n->route = nl_open(NETLINK_ROUTE);
    if (link_close(n->route, setup->link, why->msg, &err) < 0 && n->config.said != NULL &&
        !closed_has(&l->was, setup->slot))
        n->config.said(err.msg);
}

static void look_close_all(struct net *n, struct restore_look *l, const struct err *why)
{
    for (size_t i = 0; i < l->count; i++)
        look_close_box(n, l, l->setups[i], why);
}

/* Checks the frame rules of a link that is administered inside, where it may have been removed. */
static int box_has_frames(const struct net *n, const struct net_setup *setup, struct err *err)
{
    return !setup->admin || if_nametoindex(setup->link) == 0 ? 1
                                                             : frames_has(n->nft, setup->link, err);
}

/* True if nothing needs repair, as most changes concern other programs' tables. This check needs no
 * lock, for which others may compete all the time. *ret_whole: the table is complete. */
static bool look_is_complete(struct net *n, const struct restore_look *l, bool *ret_whole)
{
    struct ruleset_print print = n->print;
    bool there = ruleset_state(n->nft, &print, NULL) == RULESET_WHOLE;

    *ret_whole = there;
    there = there && n->uncut == CUT_NONE &&
            (l->first || print.table == n->print.table || n->print.table == 0);
    if (there)
        n->print = print;
    there = there && host_is_guarded(n) == 1;
    for (size_t i = 0; there && i < l->count; i++)
        there = !closed_has(&l->was, l->setups[i]->slot) &&
                ruleset_has(n->nft, l->setups[i], NULL) == 1 &&
                box_has_frames(n, l->setups[i], NULL) == 1;
    return there;
}

static int box_restore(struct net *n, struct restore_look *l, const struct net_setup *setup,
                       const struct ruleset_bounds *bounds, struct err *err)
{
    const bool closed = closed_has(&l->was, setup->slot);
    int r = ruleset_has(n->nft, setup, err);
    const bool missed = r == 0;

    if (missed)
        r = ruleset_add(n->nft, setup, bounds, err);
    /* The table of frames can be missing alone. */
    if (r >= 0)
        r = box_has_frames(n, setup, err);
    if (r == 0)
        r = frames_add(n->nft, setup->link, err);
    if (r >= 0 && (missed || closed))
        r = host_forward(n, setup, err);
    /* Another process that found no rules may have taken the link for an abandoned one. */
    if (r >= 0 && (missed || closed))
        r = link_open(n->route, setup, err);
    return r < 0 ? r : 0;
}

/* Networks closed by an earlier process must be opened, too. */
static void look_find_closed(struct net *n, struct restore_look *l)
{
    for (size_t i = 0; i < l->count; i++)
        closed_set(&l->was, l->setups[i]->slot,
                   closed_has(&l->was, l->setups[i]->slot) ||
                       link_is_closed(n->route, l->setups[i]->link, NULL) == 1);
}

/* ---- connections that began meanwhile ---- */

/* What is not in the table, or all that can be in it when it is new: other processes' networks,
 * too.
 */
static bool look_cuts(void *data, const struct net_addr *a)
{
    const struct restore_look *l = data;
    const struct net_rule *pool = a->family == 4 ? &l->net->pool4 : &l->net->pool6;

    if (l->made && l->net->have_pools && net_same_prefix(pool->bytes, a->bytes, pool->prefix))
        return true;
    for (size_t i = 0; i < l->count; i++) {
        const struct net_setup *setup = l->setups[i];
        const struct net_addr *own = a->family == 4 ? &setup->sandbox4 : &setup->sandbox6;

        if ((l->made || closed_has(&l->missing, setup->slot)) && own->family == a->family &&
            memcmp(own->bytes, a->bytes, sizeof(own->bytes)) == 0)
            return true;
    }
    return false;
}

/* Ends connections before a network is open again. Without that a network opens only if the rules
 * tell which connections these are. */
static int look_cut(struct net *n, struct restore_look *l, struct err *err)
{
    /* Elements that are missing in a known table: its rules let the sandbox do too much. */
    const bool all = n->uncut != CUT_UNLABELLED || !ruleset_has_labels();
    struct err why = ERR_NONE;
    int r;

    for (size_t i = 0; i < l->count; i++)
        if (ruleset_has(n->nft, l->setups[i], NULL) == 0) {
            closed_set(&l->missing, l->setups[i]->slot, true);
            l->missed = true;
            /* With a part of its elements it could begin the same connections again. */
            (void)ruleset_remove(n->nft, l->setups[i], NULL);
        }
    if (n->uncut == CUT_NONE && !l->missed)
        return 0;
    l->made = n->uncut != CUT_NONE;
    r = connections_cut(n->nft, look_cuts, l, all, &why);
    if (r < 0 && all)
        return err_set(err, r, "%s", why.msg);
    if (r < 0 && n->config.said != NULL)
        n->config.said(why.msg);
    n->uncut = CUT_NONE;
    return 0;
}

/* Called under the lock. The process that comes first makes the table, and knows only its own
 * networks; each process repairs its own. */
static void look_restore_all(struct net *n, struct restore_look *l)
{
    const struct ruleset_bounds bounds = net_bounds(n);
    struct err err = ERR_NONE;
    int r;

    r = table_check(n, &err);
    if (r == 1) /* from here on a change of its rules is seen */
        (void)ruleset_state(n->nft, &n->print, NULL);
    if (r >= 0)
        r = look_cut(n, l, &err);
    if (r < 0) {
        look_close_all(n, l, &err);
        host_forward_pause(n);
        return;
    }
    if (host_forward_resume(n, &err) < 0 && n->config.said != NULL)
        n->config.said(err.msg);
    for (size_t i = 0; i < l->count; i++) {
        err = (struct err)ERR_NONE;
        r = box_restore(n, l, l->setups[i], &bounds, &err);
        if (r < 0)
            look_close_box(n, l, l->setups[i], &err); /* other networks are repaired all the same */
    }
}

/* ---- retries ---- */

static void restore_schedule(struct net *n, bool failed)
{
    const unsigned doublings = n->failures < AGAIN_DOUBLINGS ? n->failures : AGAIN_DOUBLINGS;
    const int64_t wait = (int64_t)AGAIN_FIRST_MS << doublings;

    n->again_ms = 0;
    if (failed)
        n->again_ms = clock_mono_ms() + (wait < AGAIN_MAX_MS ? wait : AGAIN_MAX_MS);
    else if (n->watch < 0)
        n->again_ms = clock_mono_ms() + UNWATCHED_MS;
    n->failures = failed ? n->failures + 1 : 0;
}

int net_wait(const struct net *n)
{
    int64_t left = n->again_ms - clock_mono_ms();

    if (n->doubt)
        return 0; /* net_add has read the change from the watch */
    return n->again_ms == 0 ? -1 : left > 0 ? (int)left : 0;
}

int net_shut(struct net *n, uint32_t slot, const char *why, struct err *err)
{
    char name[NET_LINK_MAX];
    int r = net_open_sockets(n, err);

    link_name(slot, name);
    return n->route < 0 ? r : link_close(n->route, name, why, err);
}

const char *net_closed(const struct net *n, uint32_t slot)
{
    return closed_has(&n->closed, slot) ? n->why : NULL;
}

void restore_unwatched(struct net *n)
{
    if (n->watch < 0 && n->again_ms == 0)
        n->again_ms = clock_mono_ms() + UNWATCHED_MS;
}

void restore_forget(struct net *n, uint32_t slot)
{
    closed_set(&n->closed, slot, false);
}

/* Returns NET_CLOSED and NET_OPENED if networks have changed. */
static int look_account(struct net *n, const struct restore_look *l)
{
    int turned = 0;

    for (size_t i = 0; i < l->count; i++) {
        const uint32_t slot = l->setups[i]->slot;

        if (closed_has(&l->now, slot) && !closed_has(&n->closed, slot))
            turned |= NET_CLOSED;
        if (!closed_has(&l->now, slot) && closed_has(&l->was, slot))
            turned |= NET_OPENED;
    }
    if (l->why.code != 0)
        (void)snprintf(n->why, sizeof(n->why), "%.*s", CLOSED_TEXT_MAX - 1, l->why.msg);
    n->closed = l->now;
    return turned | (l->missed && l->why.code == 0 ? NET_RESTORED : 0);
}

/* No network is left: those added later are checked then. */
static int restore_forget_all(struct net *n)
{
    n->closed = (struct closed_nets){{0}};
    n->doubt = n->whole = n->moved = n->other = false;
    n->uncut = CUT_NONE;
    n->failures = 0;
    n->again_ms = 0;
    return 0;
}

/* Opens sockets and takes the lock, as far as needed. Negative: neither works. 1: nothing needs
 * repair. */
static int look_prepare(struct net *n, struct restore_look *l, struct err *why, int *ret_lock)
{
    bool whole = true;
    int r = net_open_sockets(n, why);

    if (r < 0)
        return r;
    if (n->doubt && l->first)
        look_find_closed(n, l);
    if (n->doubt && look_is_complete(n, l, &whole) && !l->first) {
        n->whole = true;
        n->doubt = false;
        restore_schedule(n, false);
    }
    if (!n->doubt && !n->moved && !n->other)
        return 1;
    *ret_lock = net_take_lock(n, whole ? LOCK_LONG_MS : LOCK_WAIT_MS, why);
    return *ret_lock < 0 ? *ret_lock : 0;
}

int net_restore(struct net *n, const struct net_setup *const *setups, size_t count, struct err *err)
{
    struct restore_look l = {.net = n,
                             .setups = setups,
                             .count = count,
                             .first = !n->looked,
                             .was = n->closed,
                             .why = ERR_NONE};
    struct err why = ERR_NONE;
    auto_close int lock = FD_NONE;
    int r, ret = 0;

    (void)net_watch(n);
    n->looked = true;
    n->live = (unsigned)count;
    watch_read_all(n);
    /* Changes before the watch began were not reported. */
    n->doubt = n->doubt || l.first || (n->again_ms != 0 && net_wait(n) == 0);
    if (count == 0)
        return restore_forget_all(n);
    if (!n->doubt && !n->moved && !n->other)
        return 0;
    r = look_prepare(n, &l, &why, &lock);
    if (r == 1)
        return 0;
    if (r < 0 && !n->doubt)
        restore_schedule(n, true);
    else if (r < 0)
        look_close_all(n, &l, &why);
    else if (n->doubt)
        look_restore_all(n, &l);
    if (r == 0 && (n->moved || l.first))
        restore_follow_uplink(n, setups, count);
    if (n->doubt) {
        n->doubt = false;
        ret = look_account(n, &l);
        restore_schedule(n, l.why.code != 0);
        r = 0;
    }
    if (err != NULL)
        *err = r < 0 ? why : l.why;
    if (lock < 0)
        return r < 0 ? r : ret; /* the change is followed at the next call */
    /* A route through another interface may have another MTU. */
    ret |= n->moved || n->other ? NET_MOVED : 0;
    n->moved = n->other = false;
    return ret;
}
