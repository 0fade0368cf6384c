#include "net/net.h"

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
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "net/egress.h"
#include "net/forward.h"
#include "net/frames.h"
#include "net/link.h"
#include "net/netlink.h"
#include "net/nft.h"
#include "net/pool.h"
#include "net/resolv.h"
#include "net/ruleset.h"
#include "net/watch.h"

enum {
    ROUTES_MAX = 1 << 20, /* of the host; a full table of the internet has as many */
    MTU_DEFAULT = 1500,
    MTU_MIN = 1280, /* of IPv6 */
    UPLINKS_MAX = 8,
};

struct net {
    struct net_config config;
    int route, nft;                                               /* owned sockets, once needed */
    int watch, watch_routes, watch_link, watch_resolv, watch_all; /* owned; the same; watch_all is
                                                                     an epoll of the others */
    int uplink;     /* that watch_link tells of; 0: none */
    int way4, way6; /* interfaces that lead to the internet; 0: not known yet */
    bool have_pools;
    bool looked; /* for rules that were taken away before we watched */
    struct net_rule pool4, pool6;
    unsigned alive; /* networks that this process has made and not removed */
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

static int open_sockets(struct net *n, struct err *err)
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

/* Closing it unlocks. */
static int take_lock(const struct net *n, struct err *err)
{
    auto_close int fd = openat(n->config.lock_dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return err_errno(err, -errno, "network: lock");
    while (flock(fd, LOCK_EX) < 0)
        if (errno != EINTR)
            return err_errno(err, -errno, "network: lock");
    return take_fd(&fd);
}

/* ---- the host's routes ---- */

struct routes {
    struct route *list; /* owned */
    size_t count, cap;
};

/* Host routes and pairs may be those of links of ours, which are in nobody's way. */
static bool is_ours(const struct route *r)
{
    char name[IF_NAMESIZE];

    if (r->ours)
        return true;
    if (r->to.prefix < (r->to.family == 4 ? 31 : 127) || r->oif == 0)
        return false;
    return if_indextoname((unsigned)r->oif, name) != NULL &&
           strncmp(name, NET_LINK_PREFIX, sizeof(NET_LINK_PREFIX) - 1) == 0;
}

static int on_route(const struct nlmsghdr *h, void *data)
{
    struct routes *all = data;
    struct route route, *more;
    int r = route_parse(h, &route);

    if (r <= 0)
        return r;
    if (!route.configured || route.to.prefix <= 1 || is_ours(&route))
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
    r = nlreq_send(&q, n->route, on_route, ret, NULL, err);
    return r < 0 ? err_wrap(err, r, "network: routes") : 0;
}

static int choose_pools(struct net *n, const struct net_box *servers, struct err *err)
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

/* ---- where packets leave ---- */

struct uplink {
    int index;
    uint32_t mtu;
    char name[NET_LINK_MAX];
};

static int on_answer(const struct nlmsghdr *h, void *data)
{
    struct route route;
    int r = route_parse(h, &route);

    if (r > 0)
        *(int *)data = route.oif;
    return r < 0 ? r : 0;
}

static int on_mtu(const struct nlmsghdr *h, void *data)
{
    struct uplink *u = data;
    const struct nlattr *mtu, *name;

    if (!nlmsg_valid_hdr(h, sizeof(struct ifinfomsg)))
        return -EBADMSG;
    mtu = nlmsg_find_attr((struct nlmsghdr *)(uintptr_t)h, sizeof(struct ifinfomsg), IFLA_MTU);
    name = nlmsg_find_attr((struct nlmsghdr *)(uintptr_t)h, sizeof(struct ifinfomsg), IFLA_IFNAME);
    if (mtu != NULL && nla_len(mtu) == sizeof(u->mtu))
        (void)memcpy(&u->mtu, nla_data(mtu), sizeof(u->mtu));
    if (name != NULL)
        (void)snprintf(u->name, sizeof(u->name), "%.*s", nla_len(name),
                       (const char *)nla_data(name));
    return 0;
}

/* The interface that leads to an address. -ENOENT: none does. */
static int find_uplink(struct net *n, const struct net_addr *to, struct uplink *ret)
{
    const bool v4 = to->family == 4;
    const struct rtmsg m = {.rtm_family = (unsigned char)(v4 ? AF_INET : AF_INET6),
                            .rtm_dst_len = v4 ? 32 : 128};
    const struct ifinfomsg link = {.ifi_family = AF_UNSPEC};
    struct uplink u = {.mtu = MTU_DEFAULT};
    auto_nlreq struct nlreq q;
    struct ifinfomsg get = link;
    int r;

    nlreq_init(&q);
    nlreq_add(&q, RTM_GETROUTE, NLM_F_ACK, &m, sizeof(m));
    nl_put(&q, RTA_DST, to->bytes, v4 ? 4 : 16);
    r = nlreq_send(&q, n->route, on_answer, &u.index, NULL, NULL);
    nlreq_done(&q);
    nlreq_init(&q);
    if (r < 0 || u.index <= 1) /* loopback: an address of the host's own */
        return -ENOENT;
    get.ifi_index = u.index;
    nlreq_add(&q, RTM_GETLINK, NLM_F_ACK, &get, sizeof(get));
    r = nlreq_send(&q, n->route, on_mtu, &u, NULL, NULL);
    if (r < 0)
        return r;
    *ret = u;
    return 0;
}

/* Any address of the internet: it is looked up, never sent to. */
static const struct net_addr somewhere4 = {.family = 4, .bytes = {1, 1, 1, 1}};
static const struct net_addr somewhere6 = {.family = 6, .bytes = {0x26, 0x06, 0x47}};

/* ---- name servers ---- */

static void take_file(struct net_box *box, const char *path, bool *stub)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    auto_free char *text = NULL;
    size_t len = 0;

    /* A link, as a rule: the host's, whom we trust. */
    if (fd >= 0 && file_read_fd(fd, RESOLV_TEXT_MAX, &text, &len, NULL) == 0)
        *stub = resolv_take(box, text, len);
}

static void find_host_dns(struct net_box *box)
{
    bool stub = false;

    take_file(box, WATCH_RESOLV, &stub);
    if (box->dns_count == 0 && stub)
        take_file(box, WATCH_RESOLV_SYSTEMD, &stub);
}

/* The host's, those behind its stub, or public ones: a sandbox's names are never left to its own
 * 127.0.0.53. */
static void find_dns(const struct net *n, struct net_box *box)
{
    static const struct net_addr public_servers[] = {{.family = 4, .bytes = {1, 1, 1, 1}},
                                                     {.family = 4, .bytes = {8, 8, 8, 8}}};
    if (box->dns_count > 0)
        return;
    for (size_t i = 0; i < n->config.dns_count && i < NET_DNS_MAX; i++)
        box->dns[box->dns_count++] = n->config.dns[i];
    if (box->dns_count > 0)
        return;
    box->host_dns = true;
    find_host_dns(box);
    if (box->dns_count > 0)
        return;
    for (size_t i = 0; i < sizeof(public_servers) / sizeof(public_servers[0]); i++)
        box->dns[box->dns_count++] = public_servers[i];
}

/* ---- preparing ---- */

static bool can_route6(struct net *n)
{
    struct uplink up;

    if (find_uplink(n, &somewhere6, &up) < 0)
        return false;
    /* Readable: the kernel has the switch. */
    return forward_get(up.name, 6) >= 0;
}

static void derive(const struct net *n, struct net_box *box)
{
    const uint32_t first = box->slot * 2;

    (void)memset(box->link, 0, sizeof(box->link));
    link_name(box->slot, box->link);
    box->gateway4 = pool_address(&n->pool4, first);
    box->box4 = pool_address(&n->pool4, first + 1);
    box->gateway6 = pool_address(&n->pool6, first);
    box->box6 = pool_address(&n->pool6, first + 1);
}

static uint32_t mtu_for(const struct uplink *up)
{
    enum { MTU_MAX = 65535 };

    return up->mtu < MTU_MIN ? MTU_MIN : up->mtu > MTU_MAX ? MTU_MAX : up->mtu;
}

static void watch_uplink(struct net *n, int ifindex)
{
    if (n->uplink == ifindex)
        return;
    n->uplink = ifindex;
    if (n->watch_link >= 0)
        (void)watch_choose_link(n->watch_link, ifindex);
}

int net_prepare(struct net *n, struct net_box *box, struct err *err)
{
    struct uplink up = {.index = 0};
    int r;

    if (box->slot >= POOL_SLOTS)
        return err_set(err, -ERANGE, "network: slot %u", box->slot);
    r = open_sockets(n, err);
    if (r < 0)
        return r;
    box->route6 = can_route6(n);
    find_dns(n, box);
    r = choose_pools(n, box, err);
    if (r < 0)
        return r;
    box->mtu = find_uplink(n, &somewhere4, &up) == 0 ? mtu_for(&up) : MTU_DEFAULT;
    watch_uplink(n, up.index);
    derive(n, box);
    return 0;
}

/* ---- forwarding ---- */

static void say(const struct net *n, const char *name, const char *how, int family)
{
    char text[128];

    if (n->config.said == NULL)
        return;
    (void)snprintf(text, sizeof(text), "forwarding of %s switched %s for IPv%d", name, how, family);
    n->config.said(text);
}

/* Replies come in at the uplink: they are forwarded, and nothing else that was not before. Where it
 * is switched on by us it is marked and guarded, whenever we end. */
static int forward_on(struct net *n, const char *name, int family, struct err *err)
{
    int now = forward_get(name, family), r;

    if (now == 1)
        return 0;
    r = forward_mark(n->route, name, family, true, err);
    if (r < 0)
        return r;
    r = ruleset_guard(n->nft, name, err);
    if (r == 0)
        r = forward_set(name, family, true, err);
    if (r < 0)
        (void)forward_mark(n->route, name, family, false, NULL);
    else
        say(n, name, "on", family);
    return r;
}

static int forward_to(struct net *n, const struct net_addr *to, struct err *err)
{
    struct uplink up;

    if (find_uplink(n, to, &up) < 0)
        return 0; /* there is no way there now: the sandbox finds that out itself */
    return forward_on(n, up.name, to->family, err);
}

static int forward_all_of(struct net *n, const struct net_box *box, struct err *err)
{
    int r = 0;

    if (box->internet)
        r = forward_to(n, &somewhere4, err);
    if (r == 0 && box->internet && box->route6)
        r = forward_to(n, &somewhere6, err);
    for (size_t i = 0; r == 0 && i < box->access.rule_count; i++) {
        const struct net_rule *rule = &box->access.rules[i];
        struct net_addr to = {.family = rule->family};

        (void)memcpy(to.bytes, rule->bytes, sizeof(to.bytes));
        if (rule->deny || (rule->family == 6 && !box->route6))
            continue;
        if (rule->prefix == 0)
            to = rule->family == 4 ? somewhere4 : somewhere6;
        r = forward_to(n, &to, err);
    }
    for (size_t i = 0; r == 0 && box->internet && i < box->dns_count; i++)
        r = forward_to(n, &box->dns[i], err);
    return r;
}

struct marked {
    struct {
        char name[NET_LINK_MAX];
        int family;
    } list[UPLINKS_MAX];
    unsigned count;
};

static void on_mark(const char *name, int family, void *data)
{
    struct marked *m = data;

    if (m->count == UPLINKS_MAX)
        return;
    (void)snprintf(m->list[m->count].name, NET_LINK_MAX, "%s", name);
    m->list[m->count++].family = family;
}

/* Those whose forwarding rind has switched on, whichever process it was. */
static struct marked find_marked(const struct net *n)
{
    struct marked m = {.count = 0};

    (void)forward_each_mark(n->route, on_mark, &m, NULL);
    return m;
}

static void forward_off(const struct net *n)
{
    const struct marked m = find_marked(n);

    for (unsigned i = 0; i < m.count; i++) {
        const char *name = m.list[i].name;
        const int family = m.list[i].family;

        /* Whoever has switched it on for all meant this one, too. */
        if (!forward_all(family) && forward_get(name, family) == 1 &&
            forward_set(name, family, false, NULL) == 0)
            say(n, name, "off", family);
        (void)forward_mark(n->route, name, family, false, NULL);
    }
}

/* In a new table: what forwards already, as the one before may have been flushed. */
static void guard_marked(const struct net *n)
{
    const struct marked m = find_marked(n);
    struct err err = ERR_NONE;

    for (unsigned i = 0; i < m.count; i++)
        if (ruleset_guard(n->nft, m.list[i].name, &err) < 0 && n->config.said != NULL)
            n->config.said(err.msg);
}

/* ---- black holes ---- */

/*
 * What comes for a sandbox that has just ended, such as a reply to the last thing that it asked,
 * finds no link any more: it ends here, and does not go out by the host's default route.
 */
static int put_hole(struct net *n, uint16_t type, uint16_t flags, const struct net_rule *pool)
{
    const bool v4 = pool->family == 4;
    const struct rtmsg m = {.rtm_family = (unsigned char)(v4 ? AF_INET : AF_INET6),
                            .rtm_dst_len = pool->prefix,
                            .rtm_table = RT_TABLE_MAIN,
                            .rtm_protocol = ROUTE_PROTOCOL,
                            .rtm_scope = RT_SCOPE_UNIVERSE,
                            .rtm_type = RTN_BLACKHOLE};
    auto_nlreq struct nlreq q;
    int r;

    nlreq_init(&q);
    nlreq_add(&q, type, flags | NLM_F_ACK, &m, sizeof(m));
    nl_put(&q, RTA_DST, pool->bytes, v4 ? 4 : 16);
    r = nlreq_send(&q, n->route, NULL, NULL, NULL, NULL);
    return r == -EEXIST || r == -ESRCH ? 0 : r;
}

static int make_holes(struct net *n, const struct net_box *box, struct err *err)
{
    int r = put_hole(n, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &n->pool4);

    if (r == 0 && box->route6)
        r = put_hole(n, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &n->pool6);
    return r < 0 ? err_errno(err, r, "network: black hole for ended sandboxes") : 0;
}

struct holes {
    struct net_rule list[POOLS_MAX];
    unsigned count;
};

static int on_hole(const struct nlmsghdr *h, void *data)
{
    struct holes *holes = data;
    struct route route;
    int r = route_parse(h, &route);

    if (r > 0 && route.ours && holes->count < POOLS_MAX)
        holes->list[holes->count++] = route.to;
    return r < 0 ? r : 0;
}

static void fill_holes(struct net *n)
{
    struct holes holes = {.count = 0};

    for (int family = 4; family <= 6; family += 2) {
        const struct rtmsg m = {.rtm_family = (unsigned char)(family == 4 ? AF_INET : AF_INET6)};
        auto_nlreq struct nlreq q;

        nlreq_init(&q);
        nlreq_add(&q, RTM_GETROUTE, NLM_F_DUMP, &m, sizeof(m));
        (void)nlreq_send(&q, n->route, on_hole, &holes, NULL, NULL);
    }
    for (unsigned i = 0; i < holes.count; i++)
        (void)put_hole(n, RTM_DELROUTE, 0, &holes.list[i]);
}

/* ---- bounds ---- */

/* Of the whole host; 0: not known. A first start may be what makes the kernel have the table. */
static uint32_t table_of_connections(void)
{
    auto_close int fd = open("/proc/sys/net/netfilter/nf_conntrack_max", O_RDONLY | O_CLOEXEC);
    char text[16] = "";

    if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
        return 0;
    return (uint32_t)strtoul(text, NULL, 10);
}

static uint32_t at_most(uint32_t value, uint32_t most)
{
    return most == 0 || value < most ? value : most;
}

/*
 * The kernel keeps a closed connection for two minutes, and those do not count as flows: so one
 * sandbox has flows + per_second * CLOSED_S entries, and a burst, of which each part is at most
 * 1/16, 1/8 and 1/16 of the table.
 */
static struct ruleset_bounds bounds_of(const struct net *n)
{
    enum { CLOSED_S = 120, BURST_S = 10, SHARE = 16 };
    const uint32_t most = table_of_connections();
    struct ruleset_bounds b = {.flows = n->config.flows != 0 ? n->config.flows : NET_FLOWS,
                               .per_second = n->config.flows_per_second != 0
                                                 ? n->config.flows_per_second
                                                 : NET_FLOWS_PER_SECOND};

    if (most != 0) {
        b.flows = at_most(b.flows, most / SHARE + 1);
        b.per_second = at_most(b.per_second, most / (SHARE / 2 * CLOSED_S) + 1);
    }
    b.burst = at_most(b.per_second * BURST_S, most / SHARE + 1);
    return b;
}

/*
 * Of all sandboxes: 3/8 of the table at a time, and begun, or closed, in two minutes as much as 1/4
 * and a burst of 1/8, so that a quarter is the host's own. flows 0: nobody knows of what.
 */
static struct ruleset_bounds bounds_of_all(const struct net *n)
{
    enum { CLOSED_S = 120, EIGHTHS = 8, BURST_S = 10 };
    const uint32_t most = table_of_connections(), eighth = most / EIGHTHS;
    struct ruleset_bounds b = {.flows = n->config.all_flows,
                               .per_second = n->config.all_flows_per_second};

    if (b.flows == 0)
        b.flows = 3 * eighth;
    b.burst = b.per_second != 0 ? b.per_second * BURST_S : eighth + 1;
    if (b.per_second == 0)
        b.per_second = 2 * eighth / CLOSED_S + 1;
    return b;
}

/* The table is new. What the kernel cannot is said: sandboxes go on without it. */
static void complete(const struct net *n)
{
    const struct ruleset_bounds all = bounds_of_all(n);
    struct err err = ERR_NONE;

    guard_marked(n);
    if (ruleset_complete(n->nft, &all, &err) < 0 && n->config.said != NULL)
        n->config.said(err.msg);
}

/* ---- adding and removing ---- */

/* A netlink socket inside. The process is there for two system calls. */
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

static int add(struct net *n, struct net_box *box, int ns_fd, struct err *err)
{
    const struct link_config link = {.box = box, .forward = true};
    auto_close int inside = inside_socket(ns_fd, NETLINK_ROUTE, err);
    int index = 0, r;

    if (inside < 0)
        return inside;
    r = make_holes(n, box, err);
    if (r == 0)
        r = link_add(n->route, inside, ns_fd, &link, &index, err);
    if (r == 0 && box->admin)
        r = frames_add(n->nft, box->link, err);
    if (r == 0)
        r = forward_all_of(n, box, err);
    if (r < 0)
        return r;
    if (box->route6 && forward_get(box->link, 6) == 0)
        r = forward_set(box->link, 6, true, err);
    box->ifindex = index;
    return r;
}

static int remove_rules(struct net *n, const struct net_box *box, struct err *err)
{
    int r, gone;

    r = ruleset_remove(n->nft, box, err);
    if (r == 0 && box->admin)
        r = frames_remove(n->nft, box->link, err);
    if (r < 0)
        return r;
    if (n->alive > 0)
        return 0;
    /* Under the lock, so nobody comes in between. Rules outlive what they are about. */
    r = ruleset_used(n->nft, err);
    if (r == 0)
        r = link_silence_all(n->route, err);
    if (r != 0)
        return r < 0 ? r : 0;
    gone = ruleset_remove_empty(n->nft, err);
    if (gone == 1) {
        (void)frames_remove_all(n->nft, NULL); /* as a rule nobody had any */
        forward_off(n);
        fill_holes(n);
    }
    return gone < 0 ? gone : 0;
}

int net_add(struct net *n, struct net_box *box, int ns_fd, struct err *err)
{
    struct ruleset_bounds bounds;
    auto_close int lock = FD_NONE;
    int r;

    r = open_sockets(n, err);
    if (r < 0)
        return r;
    lock = take_lock(n, err);
    if (lock < 0)
        return lock;
    /* The rules are there before there is anything that they could be late for. */
    bounds = bounds_of(n);
    r = ruleset_add(n->nft, box, &bounds, err);
    if (r == 1)
        complete(n);
    if (r >= 0)
        r = add(n, box, ns_fd, err);
    if (r < 0) {
        (void)remove_rules(n, box, NULL);
        return r;
    }
    n->alive++;
    return 0;
}

int net_remove(struct net *n, const struct net_box *box, struct err *err)
{
    auto_close int lock = FD_NONE;
    int r;

    r = open_sockets(n, err);
    if (r < 0)
        return r;
    lock = take_lock(n, err);
    if (lock < 0)
        return lock;
    if (n->alive > 0)
        n->alive--;
    return remove_rules(n, box, err);
}

/* ---- what a sandbox sends ---- */

int net_egress(struct net *n, const struct net_box *box, int ns_fd, enum egress_table table,
               struct err *err)
{
    struct egress_net e = {.link = box != NULL, .table = table};
    auto_close int route = FD_NONE, nft = FD_NONE;
    int r;

    if (box != NULL) {
        r = open_sockets(n, err);
        if (r == 0)
            r = choose_pools(n, box, err);
        if (r < 0)
            return r;
        e.pool4 = n->pool4;
        e.pool6 = n->pool6;
        e.gateway4 = box->gateway4;
    }
    route = inside_socket(ns_fd, NETLINK_ROUTE, err);
    if (route < 0)
        return route;
    nft = inside_socket(ns_fd, NETLINK_NETFILTER, err);
    return nft < 0 ? nft : egress_make(route, nft, &e, err);
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

/* ---- others ---- */

static int add_to(int epoll, int fd)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

    return fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev) < 0 ? -1 : 0;
}

int net_watch(struct net *n)
{
    struct uplink up;

    if (n->watch_all >= 0)
        return n->watch_all;
    n->watch = watch_open();
    n->watch_routes = watch_open_routes();
    n->watch_link = watch_open_link();
    n->watch_resolv = watch_open_resolv();
    n->watch_all = epoll_create1(EPOLL_CLOEXEC);
    /* Sandboxes of an earlier process may be there already. */
    if (n->uplink == 0 && open_sockets(n, NULL) == 0 && find_uplink(n, &somewhere4, &up) == 0)
        n->uplink = up.index;
    if (n->watch_link >= 0)
        (void)watch_choose_link(n->watch_link, n->uplink);
    /* Without routes is better than without rules. */
    if (n->watch_all >= 0 && add_to(n->watch_all, n->watch) == 0 &&
        add_to(n->watch_all, n->watch_routes) == 0) {
        (void)add_to(n->watch_all, n->watch_link);
        (void)add_to(n->watch_all, n->watch_resolv);
        return n->watch_all;
    }
    return n->watch < 0 ? FD_NONE : n->watch;
}

/* Nothing can be done about it while sandboxes have these addresses, but it explains much. */
static void on_new_route(void *data, const struct route *route)
{
    const struct net *n = data;
    const struct net_rule *pool = route->to.family == 4 ? &n->pool4 : &n->pool6;
    char theirs[NET_RULE_TEXT_MAX], ours[NET_RULE_TEXT_MAX], text[2 * NET_RULE_TEXT_MAX + 192];

    if (!n->have_pools || !route->configured || route->to.prefix <= 1 || is_ours(route) ||
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

    return find_uplink(n, to, &up) == 0 ? up.index : -1;
}

/* The host is connected to something else now: replies come in there. */
static void follow_uplink(struct net *n, const struct net_box *const *boxes, size_t count)
{
    const int way4 = way_to(n, &somewhere4), way6 = way_to(n, &somewhere6);
    struct err err = ERR_NONE;

    if (way4 == n->way4 && way6 == n->way6)
        return;
    n->way4 = way4;
    n->way6 = way6;
    watch_uplink(n, way4 > 0 ? way4 : 0);
    for (size_t i = 0; i < count; i++)
        if (forward_all_of(n, boxes[i], &err) < 0 && n->config.said != NULL)
            n->config.said(err.msg);
}

/* Who administers a link may have taken it away. */
static int frames_restore(const struct net *n, const struct net_box *box, struct err *err)
{
    return if_nametoindex(box->link) == 0 ? 0 : frames_add(n->nft, box->link, err);
}

/* Whoever comes first makes the table, and knows of his own sandboxes only: each has to look for
 * each of his. 1: some were missing. */
static int restore(struct net *n, const struct net_box *const *boxes, size_t count, struct err *err)
{
    const struct ruleset_bounds bounds = bounds_of(n);
    bool missed = false;
    int first = 0;

    for (size_t i = 0; i < count; i++) {
        int r = ruleset_has(n->nft, boxes[i], err);

        if (r == 0) {
            missed = true;
            r = ruleset_add(n->nft, boxes[i], &bounds, err);
            if (r == 1)
                complete(n);
            /* Whoever found no rules may have taken it for one of nobody. */
            if (r >= 0)
                r = link_revive(n->route, boxes[i], err);
        }
        /* The table of frames can be gone alone. */
        if (r >= 0 && boxes[i]->admin)
            r = frames_restore(n, boxes[i], err);
        if (r < 0 && first == 0)
            first = r; /* the others get theirs all the same */
    }
    return first < 0 ? first : missed;
}

int net_restore(struct net *n, const struct net_box *const *boxes, size_t count, struct err *err)
{
    auto_close int lock = FD_NONE;
    const bool first = !n->looked;
    bool gone, moved, other;
    int r;

    /* What has happened before anybody watched, nobody was told. */
    if (first)
        (void)net_watch(n);
    n->looked = true;
    gone = watch_read(n->watch) || first;
    moved = n->watch_routes >= 0 && watch_read_routes(n->watch_routes, on_new_route, n);
    other = n->watch_link >= 0 && watch_read_link(n->watch_link);
    other = (n->watch_resolv >= 0 && watch_read_resolv(n->watch_resolv)) || other;
    if ((!gone && !moved && !other) || count == 0)
        return 0;
    r = open_sockets(n, err);
    if (r < 0)
        return r;
    lock = take_lock(n, err);
    if (lock < 0)
        return lock;
    if (moved || first)
        follow_uplink(n, boxes, count);
    /* A route through another interface may have another MTU. */
    other = other || moved;
    r = gone ? restore(n, boxes, count, err) : 0;
    if (r < 0)
        return r;
    return (r == 1 ? NET_RESTORED : 0) | (other ? NET_MOVED : 0);
}

/* ---- following the host ---- */

/* A sandbox keeps what it has while the host has none that it could ask. */
static int follow_dns(struct net *n, struct net_box *box, struct err *err)
{
    struct net_box now = *box;
    int r = 0;

    now.dns_count = 0;
    (void)memset(now.dns, 0, sizeof(now.dns));
    (void)memset(now.search, 0, sizeof(now.search));
    find_host_dns(&now);
    if (now.dns_count == 0 || (now.dns_count == box->dns_count &&
                               memcmp(now.dns, box->dns, now.dns_count * sizeof(now.dns[0])) == 0 &&
                               strcmp(now.search, box->search) == 0))
        return 0;
    if (box->internet)
        r = ruleset_add_dns(n->nft, &now, err);
    for (size_t i = 0; r == 0 && box->internet && i < now.dns_count; i++)
        r = forward_to(n, &now.dns[i], err);
    if (r < 0)
        return r;
    *box = now;
    return 1;
}

static int follow_mtu(struct net *n, struct net_box *box, int ns_fd, struct err *err)
{
    auto_close int inside = FD_NONE;
    struct uplink up;
    int r;

    if (find_uplink(n, &somewhere4, &up) < 0 || mtu_for(&up) == box->mtu)
        return 0;
    inside = inside_socket(ns_fd, NETLINK_ROUTE, err);
    r = inside < 0 ? inside : link_set_mtu(inside, NET_INSIDE, mtu_for(&up), err);
    if (r == 0)
        r = link_set_mtu(n->route, box->link, mtu_for(&up), err);
    if (r < 0)
        return r;
    box->mtu = mtu_for(&up);
    return 1;
}

int net_follow(struct net *n, struct net_box *box, int ns_fd, struct err *err)
{
    auto_close int lock = FD_NONE;
    int dns = 0, mtu;
    int r;

    r = open_sockets(n, err);
    if (r < 0)
        return r;
    lock = take_lock(n, err);
    if (lock < 0)
        return lock;
    if (box->host_dns)
        dns = follow_dns(n, box, err);
    mtu = follow_mtu(n, box, ns_fd, dns < 0 ? NULL : err);
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
    if (r == 1)
        (void)snprintf(text, size, "%s", chain);
    return r;
}
