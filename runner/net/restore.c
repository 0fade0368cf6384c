/*
 * What others take away while sandboxes live, and that the network of one that lives fails closed.
 *
 * A network is open while the table does what it must and its own rules are in it. Whatever of that
 * is found wrong, or cannot be looked at, is put right at once, the table first: one transaction,
 * and nothing reaches anything any more, whatever is missing in it. What cannot be put right is
 * closed: the host's end of the link goes down, which needs no firewall, says so in its alias, and
 * lasts whatever becomes of us. It is tried again after a while, longer each time, and whenever the
 * table changes; then the link comes up.
 *
 *   open    ->  closed   no lock, no sockets, no table, no rules of its own
 *   closed  ->  open     table and rules are there; also of another process's closing, by the alias
 *
 * Forwarding of the host's interfaces, which the table guards against strangers, is switched off
 * while there is no table, and on again with the next one.
 *
 * Between somebody's deletion and our answer (a millisecond or so), and while no rind runs, there
 * are no rules: nothing here can help that.
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
#include "net/frames.h"
#include "net/link.h"
#include "net/net_internal.h"
#include "net/netlink.h"
#include "net/ruleset.h"
#include "net/watch.h"

enum {
    AGAIN_FIRST_MS = 100,
    AGAIN_MAX_MS = 10000,
    AGAIN_DOUBLINGS = 7, /* AGAIN_FIRST_MS << this is more than AGAIN_MAX_MS */
    UNWATCHED_MS = 1000, /* looked at again, where the kernel does not tell */
    LOCK_WAIT_MS = 500,  /* of a rind that most likely puts the table back itself */
    LOCK_LONG_MS = 2000, /* where the table is whole, and refuses what is not in it */
};

/* ---- watching ---- */

static int add_to(int epoll, int fd)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

    if (fd < 0)
        return -1;
    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev) < 0 && errno != EEXIST ? -1 : 0;
}

static void open_once(int *fd, int (*open_fn)(void))
{
    if (*fd < 0)
        *fd = open_fn();
}

int net_watch(struct net *n)
{
    struct uplink up;

    if (n->watch_all >= 0)
        return n->watch_all;
    /* First what closes links. */
    (void)net_open_sockets(n, NULL);
    open_once(&n->watch, watch_open);
    open_once(&n->watch_routes, watch_open_routes);
    open_once(&n->watch_link, watch_open_link);
    open_once(&n->watch_resolv, watch_open_resolv);
    /* Sandboxes of an earlier process may be there already. */
    if (n->uplink == 0 && n->route >= 0 && host_find_uplink(n, &host_somewhere4, &up) == 0)
        n->uplink = up.index;
    if (n->watch_link >= 0)
        (void)watch_choose_link(n->watch_link, n->uplink);
    if (n->watch < 0)
        return FD_NONE;
    n->watch_all = epoll_create1(EPOLL_CLOEXEC);
    /* Without routes is better than without rules. */
    if (n->watch_all < 0)
        return n->watch;
    if (add_to(n->watch_all, n->watch) < 0) {
        (void)close(take_fd(&n->watch_all));
        return n->watch;
    }
    (void)add_to(n->watch_all, n->watch_routes);
    (void)add_to(n->watch_all, n->watch_link);
    (void)add_to(n->watch_all, n->watch_resolv);
    return n->watch_all;
}

/* Nothing can be done about it while sandboxes have these addresses, but it explains much. */
static void on_new_route(void *data, const struct route *route)
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

static int way_to(struct net *n, const struct net_addr *to)
{
    struct uplink up;

    return host_find_uplink(n, to, &up) == 0 ? up.index : -1;
}

/* The host is connected to something else now: replies come in there. */
static void follow_uplink(struct net *n, const struct net_box *const *boxes, size_t count)
{
    const int way4 = way_to(n, &host_somewhere4), way6 = way_to(n, &host_somewhere6);
    struct err err = ERR_NONE;

    if (way4 == n->way4 && way6 == n->way6)
        return;
    n->way4 = way4;
    n->way6 = way6;
    host_watch_uplink(n, way4 > 0 ? way4 : 0);
    for (size_t i = 0; i < count; i++)
        if (host_forward(n, boxes[i], &err) < 0 && n->config.said != NULL)
            n->config.said(err.msg);
}

/* The port of a netlink socket, which the kernel gives it with its first message. */
static uint32_t port_of(int fd)
{
    struct sockaddr_nl name = {.nl_family = AF_NETLINK};
    socklen_t len = sizeof(name);

    if (fd < 0 || getsockname(fd, (struct sockaddr *)&name, &len) < 0)
        return 0;
    return name.nl_pid;
}

static void read_watched(struct net *n)
{
    n->doubt = (n->watch >= 0 && watch_read(n->watch, port_of(n->nft))) || n->doubt;
    n->moved =
        (n->watch_routes >= 0 && watch_read_routes(n->watch_routes, on_new_route, n)) || n->moved;
    n->other = (n->watch_link >= 0 && watch_read_link(n->watch_link)) || n->other;
    n->other = (n->watch_resolv >= 0 && watch_read_resolv(n->watch_resolv)) || n->other;
}

/* ---- the table ---- */

static int make_table(struct net *n, struct err *err)
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

/* 1: it is new. */
static int check_table(struct net *n, struct err *err)
{
    int r = ruleset_state(n->nft, err);

    n->whole = r == RULESET_WHOLE;
    if (r < 0 || n->whole)
        return r < 0 ? r : 0;
    r = make_table(n, err);
    n->whole = r == 0;
    return r < 0 ? r : 1;
}

int restore_table(struct net *n, struct err *err)
{
    int r;

    read_watched(n);
    /* Where nobody tells us it is looked at each time. */
    if (n->whole && !n->doubt && n->watch >= 0)
        return 0;
    r = check_table(n, err);
    if (r == 1)
        n->doubt = true; /* others may have been in it */
    return r < 0 ? r : 0;
}

/* ---- networks ---- */

static bool has(const struct closed_nets *c, uint32_t slot)
{
    return slot < POOL_SLOTS && (c->bits[slot / 8] >> slot % 8 & 1) != 0;
}

static void set(struct closed_nets *c, uint32_t slot, bool closed)
{
    const uint8_t bit = (uint8_t)(1u << slot % 8);

    if (slot < POOL_SLOTS)
        c->bits[slot / 8] = (uint8_t)(closed ? c->bits[slot / 8] | bit : c->bits[slot / 8] & ~bit);
}

/* What one look at all of them has come to. */
struct look {
    const struct net_box *const *boxes; /* borrowed */
    size_t count;
    bool first; /* of this process */
    struct closed_nets was, now;
    bool missed;    /* some were not in the table */
    struct err why; /* the first failure */
};

static void close_box(struct net *n, struct look *l, const struct net_box *box,
                      const struct err *why)
{
    struct err err = ERR_NONE;

    if (l->why.code == 0)
        l->why = *why;
    set(&l->now, box->slot, true);
    if (n->route < 0)
        n->route = nl_open(NETLINK_ROUTE);
    if (link_close(n->route, box->link, why->msg, &err) < 0 && n->config.said != NULL &&
        !has(&l->was, box->slot))
        n->config.said(err.msg);
}

static void close_all(struct net *n, struct look *l, const struct err *why)
{
    for (size_t i = 0; i < l->count; i++)
        close_box(n, l, l->boxes[i], why);
}

/* Of a link that is administered from inside, and may have been taken away there. */
static int has_frames(const struct net *n, const struct net_box *box, struct err *err)
{
    return !box->admin || if_nametoindex(box->link) == 0 ? 1 : frames_has(n->nft, box->link, err);
}

/* Whether nothing is to be done, as most of what others change is their own: for that nobody waits
 * for the lock, which others may want without a pause. *ret_whole: the table is. */
static bool all_is_there(const struct net *n, const struct look *l, bool *ret_whole)
{
    bool there = ruleset_state(n->nft, NULL) == RULESET_WHOLE;

    *ret_whole = there;
    there = there && host_is_guarded(n) == 1;
    for (size_t i = 0; there && i < l->count; i++)
        there = !has(&l->was, l->boxes[i]->slot) && ruleset_has(n->nft, l->boxes[i], NULL) == 1 &&
                has_frames(n, l->boxes[i], NULL) == 1;
    return there;
}

static int put_back(struct net *n, struct look *l, const struct net_box *box,
                    const struct ruleset_bounds *bounds, struct err *err)
{
    const bool closed = has(&l->was, box->slot);
    int r = ruleset_has(n->nft, box, err);
    const bool missed = r == 0;

    l->missed = l->missed || missed;
    if (missed)
        r = ruleset_add(n->nft, box, bounds, err);
    /* The table of frames can be gone alone. */
    if (r >= 0)
        r = has_frames(n, box, err);
    if (r == 0)
        r = frames_add(n->nft, box->link, err);
    if (r >= 0 && (missed || closed))
        r = host_forward(n, box, err);
    /* Whoever found no rules may have taken it for one of nobody. */
    if (r >= 0 && (missed || closed))
        r = link_open(n->route, box, err);
    return r < 0 ? r : 0;
}

/* What an earlier process has closed is to be opened, too. */
static void find_closed(struct net *n, struct look *l)
{
    for (size_t i = 0; i < l->count; i++)
        set(&l->was, l->boxes[i]->slot,
            has(&l->was, l->boxes[i]->slot) ||
                link_is_closed(n->route, l->boxes[i]->link, NULL) == 1);
}

/* Under the lock. Whoever comes first makes the table, and knows of his own sandboxes only: each
 * has to look for each of his. */
static void look_at_all(struct net *n, struct look *l)
{
    const struct ruleset_bounds bounds = net_bounds(n);
    struct err err = ERR_NONE;
    int r;

    r = check_table(n, &err);
    if (r < 0) {
        close_all(n, l, &err);
        host_forward_pause(n);
        return;
    }
    if (host_forward_resume(n, &err) < 0 && n->config.said != NULL)
        n->config.said(err.msg);
    for (size_t i = 0; i < l->count; i++) {
        err = (struct err)ERR_NONE;
        r = put_back(n, l, l->boxes[i], &bounds, &err);
        if (r < 0)
            close_box(n, l, l->boxes[i], &err); /* the others get theirs all the same */
    }
}

/* ---- and again ---- */

static void schedule(struct net *n, bool failed)
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
        return 0; /* it was read from the watch in front of a new network */
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
    return has(&n->closed, slot) ? n->why : NULL;
}

void restore_unwatched(struct net *n)
{
    if (n->watch < 0 && n->again_ms == 0)
        n->again_ms = clock_mono_ms() + UNWATCHED_MS;
}

void restore_forget(struct net *n, uint32_t slot)
{
    set(&n->closed, slot, false);
}

/* NET_CLOSED, NET_OPENED: whether some are that were not. */
static int account(struct net *n, const struct look *l)
{
    int turned = 0;

    for (size_t i = 0; i < l->count; i++) {
        const uint32_t slot = l->boxes[i]->slot;

        if (has(&l->now, slot) && !has(&n->closed, slot))
            turned |= NET_CLOSED;
        if (!has(&l->now, slot) && has(&l->was, slot))
            turned |= NET_OPENED;
    }
    if (l->why.code != 0)
        (void)snprintf(n->why, sizeof(n->why), "%.*s", CLOSED_TEXT_MAX - 1, l->why.msg);
    n->closed = l->now;
    return turned | (l->missed && l->why.code == 0 ? NET_RESTORED : 0);
}

/* Nobody lives whose network it could be: what comes later is looked at when it comes. */
static int forget_all(struct net *n)
{
    n->closed = (struct closed_nets){{0}};
    n->doubt = n->whole = n->moved = n->other = false;
    n->failures = 0;
    n->again_ms = 0;
    return 0;
}

/* Sockets and the lock, as far as they are needed. Negative: neither can be worked. 1: all is
 * there, and nothing is to be put back. */
static int prepare(struct net *n, struct look *l, struct err *why, int *ret_lock)
{
    bool whole = true;
    int r = net_open_sockets(n, why);

    if (r < 0)
        return r;
    if (n->doubt && l->first)
        find_closed(n, l);
    if (n->doubt && all_is_there(n, l, &whole) && !l->first) {
        n->whole = true;
        n->doubt = false;
        schedule(n, false);
    }
    if (!n->doubt && !n->moved && !n->other)
        return 1;
    *ret_lock = net_take_lock(n, whole ? LOCK_LONG_MS : LOCK_WAIT_MS, why);
    return *ret_lock < 0 ? *ret_lock : 0;
}

int net_restore(struct net *n, const struct net_box *const *boxes, size_t count, struct err *err)
{
    struct look l = {
        .boxes = boxes, .count = count, .first = !n->looked, .was = n->closed, .why = ERR_NONE};
    struct err why = ERR_NONE;
    auto_close int lock = FD_NONE;
    int r, ret = 0;

    (void)net_watch(n);
    n->looked = true;
    read_watched(n);
    /* What has happened before anybody watched, nobody was told. */
    n->doubt = n->doubt || l.first || (n->again_ms != 0 && net_wait(n) == 0);
    if (count == 0)
        return forget_all(n);
    if (!n->doubt && !n->moved && !n->other)
        return 0;
    r = prepare(n, &l, &why, &lock);
    if (r == 1)
        return 0;
    if (r < 0 && !n->doubt)
        schedule(n, true);
    else if (r < 0)
        close_all(n, &l, &why);
    else if (n->doubt)
        look_at_all(n, &l);
    if (r == 0 && (n->moved || l.first))
        follow_uplink(n, boxes, count);
    if (n->doubt) {
        n->doubt = false;
        ret = account(n, &l);
        schedule(n, l.why.code != 0);
        r = 0;
    }
    if (err != NULL)
        *err = r < 0 ? why : l.why;
    if (lock < 0)
        return r < 0 ? r : ret; /* what has moved is followed later */
    /* A route through another interface may have another MTU. */
    ret |= n->moved || n->other ? NET_MOVED : 0;
    n->moved = n->other = false;
    return ret;
}
