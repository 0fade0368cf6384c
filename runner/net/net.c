#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "net/egress.h"
#include "net/forward.h"
#include "net/frames.h"
#include "net/lan.h"
#include "net/legacy.h"
#include "net/link.h"
#include "net/net-internal.h"
#include "net/netlink.h"
#include "net/nft.h"
#include "net/pool.h"
#include "net/rate.h"
#include "net/resolv.h"
#include "net/ruleset.h"
#include "net/watch.h"

enum {
    ROUTES_MAX = 1 << 20, /* routes of the host; a full internet routing table has about as many */
    MTU_MIN = 1280,       /* the minimum of IPv6 */
    LOCK_TRY_MS = 5,      /* between two attempts */
};

int net_new(const struct net_config *config, struct net **ret, struct err *err)
{
    struct net *n = calloc(1, sizeof(*n));

    if (n == NULL)
        return err_errno(err, -ENOMEM, "network");
    n->config = *config;
    n->route = n->nft = n->watch = n->watch_routes = n->watch_link = n->watch_resolv =
        n->watch_all = FD_NONE;
    *ret = n;
    return 0;
}

void net_free(struct net *n)
{
    if (n == NULL)
        return;
    const int fds[] = {n->route,      n->nft,          n->watch,    n->watch_routes,
                       n->watch_link, n->watch_resolv, n->watch_all};

    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            (void)close(fds[i]);
    free(n);
}

int net_open_sockets(struct net *n, struct err *err)
{
    if (n->route < 0)
        n->route = nl_open(NETLINK_ROUTE);
    if (n->route < 0)
        return err_errno(err, n->route, "network: routing socket");
    if (n->nft < 0)
        n->nft = nl_open(NETLINK_NETFILTER);
    return n->nft < 0 ? err_errno(err, n->nft, "network: firewall socket (is nf_tables there?)")
                      : 0;
}

int net_take_lock(const struct net *n, int wait_ms, struct err *err)
{
    const struct timespec pause = {.tv_nsec = LOCK_TRY_MS * 1000000L};
    const int64_t until = clock_mono_ms() + wait_ms;
    auto_close int fd = openat(n->config.lock_dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return err_errno(err, -errno, "network: lock");
    while (flock(fd, wait_ms < 0 ? LOCK_EX : LOCK_EX | LOCK_NB) < 0) {
        if (errno == EWOULDBLOCK && clock_mono_ms() >= until)
            return err_set(err, -EBUSY, "network: another rind of the host holds the lock");
        if (errno != EINTR && errno != EWOULDBLOCK)
            return err_errno(err, -errno, "network: lock");
        if (errno == EWOULDBLOCK)
            (void)nanosleep(&pause, NULL);
    }
    return take_fd(&fd);
}

/* ---- the host's routes ---- */

struct routes {
    struct pool_route *list; /* owned */
    size_t count, cap;
};

/* True for a route that cannot overlap a pool: rind's black holes, and the routes of its links. */
bool net_is_own_route(const struct pool_route *r)
{
    char name[IF_NAMESIZE];

    if (r->ours)
        return true;
    if (r->to.prefix < (r->to.family == 4 ? 31 : 127) || r->oif == 0)
        return false;
    return if_indextoname((unsigned)r->oif, name) != NULL &&
           strncmp(name, NET_LINK_PREFIX, sizeof(NET_LINK_PREFIX) - 1) == 0;
}

static int on_host_route(const struct nlmsghdr *h, void *data)
{
    struct routes *all = data;
    struct pool_route route, *more;
    int r = route_parse(h, &route);

    if (r <= 0)
        return r;
    if (!route.configured || route.to.prefix <= 1 || net_is_own_route(&route))
        return 0;
    if (all->count == all->cap) {
        if (all->cap >= ROUTES_MAX)
            return -E2BIG;
        all->cap = all->cap == 0 ? 64 : all->cap * 2;
        more = reallocarray(all->list, all->cap, sizeof(*more));
        if (more == NULL)
            return -ENOMEM;
        all->list = more;
    }
    all->list[all->count++] = route;
    return 0;
}

static int read_routes(struct net *n, int family, struct routes *ret, struct err *err)
{
    const struct rtmsg m = {.rtm_family = (unsigned char)(family == 4 ? AF_INET : AF_INET6)};
    auto_nlreq struct nlreq q;
    int r;

    nlreq_init(&q);
    nlreq_add(&q, RTM_GETROUTE, NLM_F_DUMP, &m, sizeof(m));
    r = nlreq_send(&q, n->route, on_host_route, ret, NULL, err);
    return r < 0 ? err_wrap(err, r, "network: routes") : 0;
}

static int choose_pools(struct net *n, const struct net_setup *servers, struct err *err)
{
    struct routes routes = {.count = 0};
    struct pool_taken taken = {.hosts = servers->dns, .host_count = servers->dns_count};
    int r;

    if (n->have_pools)
        return 0;
    r = read_routes(n, 4, &routes, err);
    if (r == 0)
        r = read_routes(n, 6, &routes, err);
    taken.routes = routes.list;
    taken.route_count = routes.count;
    if (r == 0)
        r = pool_choose(n->config.pools4 != NULL ? n->config.pools4 : pool_defaults4, 4, &taken,
                        &n->pool4, err);
    if (r == 0)
        r = pool_choose(n->config.pools6 != NULL ? n->config.pools6 : pool_defaults6, 6, &taken,
                        &n->pool6, err);
    free(routes.list);
    n->have_pools = r == 0;
    return r;
}

/* ---- name servers ---- */

static void box_take_resolv(struct net_setup *setup, const char *path, bool *stub)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    auto_free char *text = NULL;
    size_t len = 0;

    /* resolv.conf usually is a symbolic link, and the host is trusted. */
    if (fd >= 0 && file_read_fd(fd, RESOLV_TEXT_MAX, &text, &len, NULL) == 0)
        *stub = resolv_take(setup, text, len);
}

static void box_find_host_dns(struct net_setup *setup)
{
    bool stub = false;

    box_take_resolv(setup, WATCH_RESOLV, &stub);
    if (setup->dns_count == 0 && stub)
        box_take_resolv(setup, WATCH_RESOLV_SYSTEMD, &stub);
}

/* Chooses the host's name servers, those behind its local stub, or public ones: the host's
 * 127.0.0.53 does not exist inside a sandbox. */
static void box_find_dns(const struct net *n, struct net_setup *setup)
{
    static const struct net_addr public_servers[] = {{.family = 4, .bytes = {1, 1, 1, 1}},
                                                     {.family = 4, .bytes = {8, 8, 8, 8}}};
    if (setup->dns_count > 0)
        return;
    for (size_t i = 0; i < n->config.dns_count && i < NET_DNS_MAX; i++)
        setup->dns[setup->dns_count++] = n->config.dns[i];
    if (setup->dns_count > 0)
        return;
    setup->host_dns = true;
    box_find_host_dns(setup);
    if (setup->dns_count > 0)
        return;
    for (size_t i = 0; i < sizeof(public_servers) / sizeof(public_servers[0]); i++)
        setup->dns[setup->dns_count++] = public_servers[i];
}

/* ---- preparing ---- */

static bool can_route6(struct net *n)
{
    struct uplink up;

    if (host_find_uplink(n, &host_somewhere6, &up) < 0)
        return false;
    /* If the switch is readable, the kernel has it. */
    return forward_get(up.name, 6) >= 0;
}

static void box_derive(const struct net *n, struct net_setup *setup)
{
    const uint32_t first = setup->slot * 2;

    (void)memset(setup->link, 0, sizeof(setup->link));
    link_name(setup->slot, setup->link);
    setup->gateway4 = pool_address(&n->pool4, first);
    setup->sandbox4 = pool_address(&n->pool4, first + 1);
    setup->gateway6 = pool_address(&n->pool6, first);
    setup->sandbox6 = pool_address(&n->pool6, first + 1);
}

static uint32_t mtu_for(const struct uplink *up)
{
    enum { MTU_MAX = 65535 };

    return up->mtu < MTU_MIN ? MTU_MIN : up->mtu > MTU_MAX ? MTU_MAX : up->mtu;
}

int net_prepare(struct net *n, struct net_setup *setup, struct err *err)
{
    struct uplink up = {.index = 0};
    int r;

    if (setup->slot >= POOL_SLOTS)
        return err_set(err, -ERANGE, "network: slot %u", setup->slot);
    r = net_open_sockets(n, err);
    if (r < 0)
        return r;
    setup->route6 = can_route6(n);
    box_find_dns(n, setup);
    r = choose_pools(n, setup, err);
    if (r < 0)
        return r;
    setup->mtu = host_find_uplink(n, &host_somewhere4, &up) == 0 ? mtu_for(&up) : HOST_MTU;
    host_watch_uplink(n, up.index);
    box_derive(n, setup);
    return 0;
}

/* ---- limits ---- */

/* Reads the size of the host's conntrack table; 0 if unknown. The table may exist only after the
 * first start. */
static uint32_t conntrack_max(void)
{
    auto_close int fd = open("/proc/sys/net/netfilter/nf_conntrack_max", O_RDONLY | O_CLOEXEC);
    char text[16] = "";

    if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
        return 0;
    return (uint32_t)strtoul(text, NULL, 10);
}

static uint32_t limit_to(uint32_t value, uint32_t most)
{
    return most == 0 || value < most ? value : most;
}

/* The kernel keeps a closed connection for two minutes, and it does not count in `flows`. So one
 * sandbox can have flows + per_second * CLOSED_S entries, and a burst. These three are at most
 * 1/16, 1/8 and 1/16 of the table. */
struct ruleset_bounds net_bounds(const struct net *n)
{
    enum { CLOSED_S = 120, BURST_S = 10, SHARE = 16 };
    const uint32_t most = conntrack_max();
    struct ruleset_bounds b = {.flows = n->config.flows != 0 ? n->config.flows : NET_FLOWS,
                               .per_second = n->config.flows_per_second != 0
                                                 ? n->config.flows_per_second
                                                 : NET_FLOWS_PER_SECOND};

    if (most != 0) {
        b.flows = limit_to(b.flows, most / SHARE + 1);
        b.per_second = limit_to(b.per_second, most / (SHARE / 2 * CLOSED_S) + 1);
    }
    b.burst = limit_to(b.per_second * BURST_S, most / SHARE + 1);
    return b;
}

/* Limits of all sandboxes together: 3/8 of the table at a time; new or closed connections in two
 * minutes up to 1/4, and a burst of 1/8. So a quarter is left to the host. flows 0: the table's
 * size is unknown. */
static struct ruleset_bounds net_bounds_of_all(const struct net *n)
{
    enum { CLOSED_S = 120, EIGHTHS = 8, BURST_S = 10 };
    const uint32_t most = conntrack_max(), eighth = most / EIGHTHS;
    struct ruleset_bounds b = {.flows = n->config.all_flows,
                               .per_second = n->config.all_flows_per_second};

    if (b.flows == 0)
        b.flows = 3 * eighth;
    b.burst = b.per_second != 0 ? b.per_second * BURST_S : eighth + 1;
    if (b.per_second == 0)
        b.per_second = 2 * eighth / CLOSED_S + 1;
    return b;
}

void net_complete(const struct net *n)
{
    const struct ruleset_bounds all = net_bounds_of_all(n);
    struct err err = ERR_NONE;

    if (ruleset_complete(n->nft, &all, &err) < 0 && n->config.said != NULL)
        n->config.said(err.msg);
}

/* ---- adding and removing ---- */

/* Opens a netlink socket in the sandbox's namespace; the thread is there for a few system calls. */
static int inside_socket(int ns_fd, int protocol, struct err *err)
{
    auto_close int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    int fd;

    if (home < 0)
        return err_errno(err, -errno, "network: our own namespace");
    if (setns(ns_fd, CLONE_NEWNET) < 0)
        return err_errno(err, -errno, "network: enter the sandbox's namespace");
    fd = nl_open(protocol);
    if (setns(home, CLONE_NEWNET) < 0) {
        if (fd >= 0)
            (void)close(fd);
        return err_set(err, -ENOTRECOVERABLE, "network: cannot leave a sandbox's namespace");
    }
    return fd < 0 ? err_errno(err, fd, "network: socket in the sandbox") : fd;
}

static int net_add_link(struct net *n, struct net_setup *setup, int ns_fd, struct err *err)
{
    const struct link_config link = {.setup = setup, .forward = true};
    auto_close int inside = inside_socket(ns_fd, NETLINK_ROUTE, err);
    int index = 0, r;

    if (inside < 0)
        return inside;
    r = host_make_holes(n, setup, err);
    if (r == 0)
        r = link_add(n->route, inside, ns_fd, &link, &index, err);
    if (r == 0 && setup->admin)
        r = link_ignore_ra(setup->link, err);
    if (r == 0 && setup->admin)
        r = frames_add(n->nft, setup->link, err);
    if (r == 0)
        r = host_forward(n, setup, err);
    if (r < 0)
        return r;
    if (setup->route6 && forward_get(setup->link, 6) == 0)
        r = forward_set(setup->link, 6, true, err);
    setup->ifindex = index;
    return r;
}

static int net_remove_rules(struct net *n, const struct net_setup *setup, struct err *err)
{
    int r, gone;

    r = ruleset_remove(n->nft, setup, err);
    if (r == -EPERM)
        r = 0; /* a table of this name belongs to another program: it has no rules of rind */
    if (r == 0 && setup->admin)
        r = frames_remove(n->nft, setup->link, err);
    if (r < 0)
        return r;
    if (n->alive > 0)
        return 0;
    /* Under the lock, so no sandbox is added meanwhile. The rules are removed only after the links
     * are down. */
    r = ruleset_used(n->nft, err);
    if (r == 0)
        r = link_down_all(n->route, err);
    if (r != 0)
        return r < 0 ? r : 0;
    gone = ruleset_remove_empty(n->nft, err);
    if (gone == -EPERM)
        gone = 1; /* another program's table */
    if (gone == 1) {
        n->whole = false;
        (void)frames_remove_all(n->nft, NULL); /* usually there is no such table */
        host_forward_off(n);
        host_fill_holes(n);
    }
    return gone < 0 ? gone : 0;
}

/* Another program may remove the table just now, with the whole ruleset: then it is made again. */
static int net_add_rules(struct net *n, const struct net_setup *setup, struct err *err)
{
    /* Against a program that removes it every few ms, on a machine where that one always runs
     * first: a number of tries would depend on how busy it is. */
    enum { ADD_MS = 2000 };
    const struct ruleset_bounds bounds = net_bounds(n);
    const int64_t end = clock_mono_ms() + ADD_MS;
    int r = -ENOENT;

    while (r == -ENOENT && clock_mono_ms() < end) {
        r = restore_table(n, err);
        if (r == 0)
            r = ruleset_add(n->nft, setup, &bounds, err);
        if (r == -ENOENT)
            n->whole = false;
    }
    return r;
}

int net_add(struct net *n, struct net_setup *setup, int ns_fd, struct err *err)
{
    auto_close int lock = FD_NONE;
    int r;

    r = net_open_sockets(n, err);
    if (r < 0)
        return r;
    (void)net_watch(n); /* changes by other programs are reported from here on */
    lock = net_take_lock(n, -1, err);
    if (lock < 0)
        return lock;
    /* The rules exist before the link, so that no packet precedes them. */
    r = net_add_rules(n, setup, err);
    if (r == 0)
        r = net_add_link(n, setup, ns_fd, err);
    if (r < 0) {
        (void)net_remove_rules(n, setup, NULL);
        return r;
    }
    n->alive++;
    restore_unwatched(n);
    return 0;
}

int net_limit(struct net *n, const struct net_setup *setup, int ns_fd, uint64_t rate,
              struct err *err)
{
    auto_close int inside = inside_socket(ns_fd, NETLINK_ROUTE, err);
    int index = 0, r;

    if (inside < 0)
        return inside;
    r = rate_set(n->route, setup->ifindex, rate, setup->mtu, err);
    if (r == 0)
        r = link_index(inside, NET_INSIDE, &index, err);
    return r < 0 ? r : rate_set(inside, index, rate, setup->mtu, err);
}

int net_remove(struct net *n, const struct net_setup *setup, struct err *err)
{
    auto_close int lock = FD_NONE;
    int r;

    r = net_open_sockets(n, err);
    if (r < 0)
        return r;
    lock = net_take_lock(n, -1, err);
    if (lock < 0)
        return lock;
    if (n->alive > 0)
        n->alive--;
    restore_forget(n, setup->slot);
    return net_remove_rules(n, setup, err);
}

int net_change(struct net *n, struct net_setup *setup, const struct net_setup *want,
               struct err *err)
{
    const struct ruleset_bounds bounds = net_bounds(n);
    auto_close int lock = FD_NONE;
    int r;

    r = net_open_sockets(n, err);
    if (r < 0)
        return r;
    lock = net_take_lock(n, -1, err);
    if (lock < 0)
        return lock;
    r = host_forward(n, want, err);
    if (r == 0)
        r = ruleset_change(n->nft, setup, want, &bounds, err);
    if (r < 0)
        return err_wrap(err, r, "network: the rules of its networks");
    *setup = *want;
    return 0;
}

static int net_set_link_lans(const struct net_setup *setup, int ns_fd, struct err *err)
{
    auto_close int route = inside_socket(ns_fd, NETLINK_ROUTE, err);

    return route < 0 ? route : link_set_lans(route, setup, err);
}

int net_lan_set(const struct net_setup *setup, const struct net_lan_peer *peers, size_t count,
                enum net_lan_step step, int ns_fd, struct err *err)
{
    const struct lan_view view = {.setup = setup, .peers = peers, .count = count};
    auto_close int nft = FD_NONE, dump = FD_NONE;
    int r = 0;

    /* Without its addresses a packet that the table translates has no socket, and the other way
     * round it would leave with a source that the host drops: either order is safe. */
    if (step != NET_LAN_PEERS)
        r = net_set_link_lans(setup, ns_fd, err);
    if (r < 0)
        return r;
    nft = inside_socket(ns_fd, NETLINK_NETFILTER, err);
    if (nft < 0)
        return nft;
    r = lan_make(nft, &view, err);
    if (r < 0 || step == NET_LAN_FRESH)
        return r;
    dump = inside_socket(ns_fd, NETLINK_NETFILTER, err);
    return dump < 0 ? dump : lan_flows_renew(dump, nft, &view, err);
}

/* ---- egress ---- */

int net_egress(struct net *n, const struct net_setup *setup, int ns_fd, enum egress_table table,
               struct err *err)
{
    struct egress_net e = {.link = setup != NULL, .table = table};
    auto_close int route = FD_NONE, nft = FD_NONE;
    int r;

    if (setup != NULL) {
        r = net_open_sockets(n, err);
        if (r == 0)
            r = choose_pools(n, setup, err);
        if (r < 0)
            return r;
        e.pool4 = n->pool4;
        e.pool6 = n->pool6;
        e.gateway4 = setup->gateway4;
    }
    route = inside_socket(ns_fd, NETLINK_ROUTE, err);
    if (route < 0)
        return route;
    nft = inside_socket(ns_fd, NETLINK_NETFILTER, err);
    return nft < 0 ? nft : egress_make(route, nft, &e, err);
}

int net_names(int ns_fd, struct err *err)
{
    auto_close int nft = inside_socket(ns_fd, NETLINK_NETFILTER, err);

    return nft < 0 ? nft : egress_make_names(nft, err);
}

int net_resolver(const struct net *n, unsigned index, struct sockaddr_storage *ret, struct err *err)
{
    auto_close int fd = FD_NONE;
    auto_free char *text = NULL;
    size_t len = 0;
    int r;

    if (n->config.dns_count > 0)
        return index < n->config.dns_count
                   ? resolv_server(&n->config.dns[index], 0, ret)
                   : err_set(err, -ENOENT, "name servers: there are %zu", n->config.dns_count);
    fd = open("/etc/resolv.conf", O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd >= 0 && file_read_fd(fd, RESOLV_TEXT_MAX, &text, &len, NULL) < 0)
        len = 0;
    r = resolv_nth(text != NULL ? text : "", len, index, ret);
    return r < 0 ? err_errno(err, r, "name servers of the host") : 0;
}

/* ---- following the host ---- */

/* The sandbox keeps its name servers while the host has none that it could use. */
static int net_follow_dns(struct net *n, struct net_setup *setup, struct err *err)
{
    struct net_setup now = *setup;
    int r = 0;

    now.dns_count = 0;
    (void)memset(now.dns, 0, sizeof(now.dns));
    resolv_forget_lines(&now);
    box_find_host_dns(&now);
    if (now.dns_count == 0 ||
        (now.dns_count == setup->dns_count &&
         memcmp(now.dns, setup->dns, now.dns_count * sizeof(now.dns[0])) == 0 &&
         strcmp(now.search, setup->search) == 0))
        return 0;
    if (setup->internet)
        r = ruleset_add_dns(n->nft, &now, err);
    for (size_t i = 0; r == 0 && setup->internet && i < now.dns_count; i++)
        r = host_forward_to(n, &now.dns[i], err);
    if (r < 0)
        return r;
    *setup = now;
    return 1;
}

static int net_follow_mtu(struct net *n, struct net_setup *setup, int ns_fd, struct err *err)
{
    auto_close int inside = FD_NONE;
    struct uplink up;
    int r;

    if (host_find_uplink(n, &host_somewhere4, &up) < 0 || mtu_for(&up) == setup->mtu)
        return 0;
    inside = inside_socket(ns_fd, NETLINK_ROUTE, err);
    r = inside < 0 ? inside : link_set_mtu(inside, NET_INSIDE, mtu_for(&up), err);
    if (r == 0)
        r = link_set_mtu(n->route, setup->link, mtu_for(&up), err);
    if (r < 0)
        return r;
    setup->mtu = mtu_for(&up);
    return 1;
}

int net_follow(struct net *n, struct net_setup *setup, int ns_fd, struct err *err)
{
    auto_close int lock = FD_NONE;
    int dns = 0, mtu;
    int r;

    r = net_open_sockets(n, err);
    if (r < 0)
        return r;
    lock = net_take_lock(n, -1, err);
    if (lock < 0)
        return lock;
    if (setup->host_dns)
        dns = net_follow_dns(n, setup, err);
    mtu = net_follow_mtu(n, setup, ns_fd, dns < 0 ? NULL : err);
    if (mtu < 0)
        return mtu;
    return dns != 0 ? dns : mtu;
}

int net_foreign_drop(char *text, size_t size, struct err *err)
{
    auto_close int sock = nl_open(NETLINK_NETFILTER);
    char chain[WATCH_TEXT_MAX];
    int r;

    if (sock < 0)
        return err_errno(err, sock, "firewall socket");
    r = watch_foreign_drop(sock, chain, err);
    if (r == 0)
        r = legacy_foreign_drop(chain, err);
    if (r == 1)
        (void)snprintf(text, size, "%s", chain);
    return r;
}

int net_count_closed(char name[NET_LINK_MAX], struct err *err)
{
    auto_close int sock = nl_open(NETLINK_ROUTE);

    if (sock < 0)
        return err_errno(err, sock, "routing socket");
    return link_count_closed(sock, name, err);
}
