#include "net/watch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "net/nft.h"
#include "net/pool.h"
#include "net/ruleset-table.h"
#include "net/ruleset.h"

/* After nft.h, which includes netinet/in.h before them. */
#include <linux/filter.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nf_tables_compat.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/rtnetlink.h>

enum { TYPE_MASK = 0xff, FOREIGN_MAX = 32 /* other programs' chains of one hook */ };

static const struct nlattr *message_find_attr(const struct nlmsghdr *h, int attr)
{
    return nlmsg_find_attr((struct nlmsghdr *)(uintptr_t)h, sizeof(struct nfgenmsg), attr);
}

/* The kernel's strings end with a NUL. */
static bool attr_text_is(const struct nlattr *a, const char *text)
{
    size_t len = strlen(text) + 1;

    return a != NULL && (size_t)nla_len(a) == len && memcmp(nla_data(a), text, len) == 0;
}

static bool message_is_nft(const struct nlmsghdr *h, int type)
{
    return nlmsg_valid_hdr(h, sizeof(struct nfgenmsg)) &&
           h->nlmsg_type >> 8 == NFNL_SUBSYS_NFTABLES && (h->nlmsg_type & TYPE_MASK) == type;
}

/* True for sets whose elements restrict: removing one opens something. Elements of other sets allow
 * something. */
static bool set_restricts(const struct nlattr *set)
{
    static const char *const sets[] = {SET_PRIVATE4, SET_PRIVATE6, SET_LISTS, SET_GUARDED};

    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
        if (attr_text_is(set, sets[i]))
            return true;
    return false;
}

static bool attr_text_begins(const struct nlattr *a, const char *text)
{
    const size_t len = strlen(text);

    return a != NULL && (size_t)nla_len(a) > len && memcmp(nla_data(a), text, len) == 0;
}

/* True for chains that come and go with sandboxes, and those that ruleset_complete fills. */
static bool chain_is_of_sandbox(const struct nlattr *chain)
{
    static const char *const begins[] = {"box-", "net-", "nets-", "over-", CHAIN_BOUND_ALL};

    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
        if (attr_text_begins(chain, begins[i]))
            return true;
    return false;
}

bool watch_is_doubt(const struct nlmsghdr *h, const char *table, uint32_t own)
{
    const bool others = own == 0 || h->nlmsg_pid != own;

    /* The table's name is the first attribute of each kind of message. */
    if (!nlmsg_valid_hdr(h, sizeof(struct nfgenmsg)) ||
        h->nlmsg_type >> 8 != NFNL_SUBSYS_NFTABLES ||
        !attr_text_is(message_find_attr(h, NFTA_TABLE_NAME), table))
        return false;
    switch (h->nlmsg_type & TYPE_MASK) {
    case NFT_MSG_DELTABLE:
        return true;
    case NFT_MSG_NEWTABLE:
    case NFT_MSG_DELCHAIN:
    case NFT_MSG_DELRULE:
    case NFT_MSG_DELSET:
        return others;
    case NFT_MSG_NEWRULE:
        /* A rule among the table's own. Those of a sandbox or network come with its start. */
        return others && !chain_is_of_sandbox(message_find_attr(h, NFTA_RULE_CHAIN));
    case NFT_MSG_DELSETELEM:
        return others && set_restricts(message_find_attr(h, NFTA_SET_ELEM_LIST_SET));
    default:
        return false;
    }
}

static int open_groups(int protocol, const int *groups, size_t count)
{
    const struct sockaddr_nl any = {.nl_family = AF_NETLINK};
    auto_close int fd = nl_open(protocol);

    if (fd < 0)
        return fd;
    /* bind() assigns a port id. Without one the socket looks like the sender of the kernel's
     * messages, which does not receive them. */
    if (bind(fd, (const struct sockaddr *)&any, sizeof(any)) < 0)
        return -errno;
    for (size_t i = 0; i < count; i++)
        if (setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &groups[i], sizeof(groups[i])) < 0)
            return -errno;
    return take_fd(&fd);
}

int watch_open(void)
{
    static const int groups[] = {NFNLGRP_NFTABLES};

    return open_groups(NETLINK_NETFILTER, groups, 1);
}

int watch_open_routes(void)
{
    static const int groups[] = {RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE};

    return open_groups(NETLINK_ROUTE, groups, 2);
}

struct events_seen {
    uint32_t own;
    bool doubt;
};

static int on_event(const struct nlmsghdr *h, void *data)
{
    struct events_seen *seen = data;

    if (watch_is_doubt(h, NET_TABLE, seen->own))
        seen->doubt = true;
    return 0;
}

/* Returns true if messages were lost or malformed: anything may have happened. */
static bool read_events(int fd, nl_message_fn *fn, void *data)
{
    _Alignas(struct nlmsghdr) char events[NLREPLY_BYTES];
    struct nl_answers unused = {.acks = 0};
    bool lost = false;

    for (;;) {
        ssize_t n = recv(fd, events, sizeof(events), MSG_DONTWAIT);

        if (n <= 0 && !(n < 0 && errno == ENOBUFS))
            return lost;
        if (n < 0 || nl_feed(&unused, events, (size_t)n, fn, data) < 0)
            lost = true;
    }
}

bool watch_read(int fd, uint32_t own)
{
    struct events_seen seen = {.own = own};

    return read_events(fd, on_event, &seen) || seen.doubt;
}

/* ---- routes ---- */

struct routes_seen {
    bool moved;
    void (*on_route)(void *data, const struct pool_route *route);
    void *data;
};

static bool is_default_route(const struct nlmsghdr *h)
{
    struct rtmsg m;

    if ((h->nlmsg_type != RTM_NEWROUTE && h->nlmsg_type != RTM_DELROUTE) ||
        !nlmsg_valid_hdr(h, sizeof(m)))
        return false;
    (void)memcpy(&m, nlmsg_data(h), sizeof(m));
    return m.rtm_dst_len == 0 && m.rtm_type != RTN_MULTICAST && (m.rtm_flags & RTM_F_CLONED) == 0;
}

static int on_route_event(const struct nlmsghdr *h, void *data)
{
    struct routes_seen *seen = data;
    struct pool_route route;

    if (is_default_route(h))
        seen->moved = true;
    else if (route_parse(h, &route) == 1)
        seen->on_route(seen->data, &route);
    return 0;
}

bool watch_read_routes(int fd, void (*on_route)(void *data, const struct pool_route *route),
                       void *data)
{
    struct routes_seen seen = {.on_route = on_route, .data = data};

    return read_events(fd, on_route_event, &seen) || seen.moved;
}

/* ---- a link ---- */

int watch_open_link(void)
{
    static const int groups[] = {RTNLGRP_LINK};
    auto_close int fd = open_groups(NETLINK_ROUTE, NULL, 0);
    int r;

    if (fd < 0)
        return fd;
    r = watch_choose_link(fd, 0); /* before the first message */
    if (r == 0 &&
        setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, groups, sizeof(groups[0])) < 0)
        r = -errno;
    return r < 0 ? r : take_fd(&fd);
}

/* The kernel reports every start and end of a sandbox; the filter keeps these from waking the
 * process. */
int watch_choose_link(int fd, int ifindex)
{
    enum { INDEX_AT = NLMSG_HDRLEN + offsetof(struct ifinfomsg, ifi_index) };
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, INDEX_AT),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl((uint32_t)ifindex), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    const struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) < 0 ? -errno : 0;
}

static int on_link_event(const struct nlmsghdr *h, void *data)
{
    (void)h;
    *(bool *)data = true;
    return 0;
}

bool watch_read_link(int fd)
{
    bool some = false;

    return read_events(fd, on_link_event, &some) || some;
}

/* ---- resolv.conf ---- */

static const char *path_base(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

/* Watches a file and its directory: the file may be written or replaced, and a link may be changed.
 * Called again after each event: inotify_add_watch is idempotent. */
static void watch_file(int fd, const char *path)
{
    const char *base = path_base(path);
    char dir[PATH_MAX];

    if (base == path || (size_t)(base - path) >= sizeof(dir))
        return;
    (void)memcpy(dir, path, (size_t)(base - path));
    dir[base - path] = '\0';
    (void)inotify_add_watch(fd, path, IN_CLOSE_WRITE);
    (void)inotify_add_watch(fd, dir, IN_CREATE | IN_MOVED_TO | IN_ONLYDIR);
}

static void watch_files(int fd)
{
    auto_free char *target = realpath(WATCH_RESOLV, NULL);

    watch_file(fd, WATCH_RESOLV);
    watch_file(fd, WATCH_RESOLV_SYSTEMD);
    if (target != NULL)
        watch_file(fd, target);
}

int watch_open_resolv(void)
{
    int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

    if (fd < 0)
        return -errno;
    watch_files(fd);
    return fd;
}

/* A directory's events are about any file in it. */
static bool is_about_resolv(const struct inotify_event *ev)
{
    static const char *const names[] = {"resolv.conf", "stub-resolv.conf"};

    if (ev->len == 0 || (ev->mask & IN_Q_OVERFLOW) != 0)
        return (ev->mask & IN_IGNORED) == 0;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strncmp(ev->name, names[i], ev->len) == 0)
            return true;
    return false;
}

bool watch_read_resolv(int fd)
{
    _Alignas(struct inotify_event) char events[4096];
    bool some = false;
    ssize_t n;

    while ((n = read(fd, events, sizeof(events))) > 0)
        for (const char *at = events; at < events + n;) {
            const struct inotify_event *ev = (const struct inotify_event *)(const void *)at;

            some = is_about_resolv(ev) || some;
            at += sizeof(*ev) + ev->len;
        }
    if (some)
        watch_files(fd);
    return some;
}

/* ---- chains of other programs ---- */

static uint32_t attr_be32(const struct nlattr *a)
{
    const uint8_t *b = nla_data(a);

    return nla_len(a) != 4
               ? UINT32_MAX
               : (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static const char *family_name(uint8_t family)
{
    return family == NFPROTO_IPV4 ? "ip" : family == NFPROTO_IPV6 ? "ip6" : "inet";
}

static void chain_format_name(char text[WATCH_TEXT_MAX], uint8_t family, const struct nlattr *table,
                              const struct nlattr *chain)
{
    (void)snprintf(text, WATCH_TEXT_MAX, "%s %.*s %.*s", family_name(family), nla_len(table),
                   (const char *)nla_data(table), nla_len(chain), (const char *)nla_data(chain));
}

/* True for a base chain of the forward hook. text: its name; *drops: its policy is drop. */
static bool chain_is_forward(const struct nlmsghdr *h, char text[WATCH_TEXT_MAX], bool *drops)
{
    const struct nlattr *hook, *number, *policy, *table, *name;
    struct nfgenmsg g;

    if (!message_is_nft(h, NFT_MSG_NEWCHAIN))
        return false;
    (void)memcpy(&g, nlmsg_data(h), sizeof(g));
    hook = message_find_attr(h, NFTA_CHAIN_HOOK);
    policy = message_find_attr(h, NFTA_CHAIN_POLICY);
    table = message_find_attr(h, NFTA_CHAIN_TABLE);
    name = message_find_attr(h, NFTA_CHAIN_NAME);
    if (hook == NULL || policy == NULL || table == NULL || name == NULL ||
        attr_text_is(table, NET_TABLE))
        return false;
    if (g.nfgen_family != NFPROTO_IPV4 && g.nfgen_family != NFPROTO_IPV6 &&
        g.nfgen_family != NFPROTO_INET)
        return false;
    number = nla_find(nla_data(hook), nla_len(hook), NFTA_HOOK_HOOKNUM);
    if (number == NULL || attr_be32(number) != NF_INET_FORWARD)
        return false;
    *drops = attr_be32(policy) == NF_DROP;
    chain_format_name(text, g.nfgen_family, table, name);
    return true;
}

bool watch_is_drop(const struct nlmsghdr *h, char text[WATCH_TEXT_MAX])
{
    char chain[WATCH_TEXT_MAX];
    bool drops = false;

    if (!chain_is_forward(h, chain, &drops) || !drops)
        return false;
    (void)memcpy(text, chain, sizeof(chain));
    return true;
}

static const struct nlattr *attr_find(const struct nlattr *a, int attr)
{
    return a != NULL ? nla_find(nla_data(a), nla_len(a), attr) : NULL;
}

static bool verdict_drops(const struct nlattr *data)
{
    const struct nlattr *code = attr_find(
        attr_find(attr_find(data, NFTA_IMMEDIATE_DATA), NFTA_DATA_VERDICT), NFTA_VERDICT_CODE);

    return code != NULL && attr_be32(code) == NF_DROP;
}

/* Counters and logging are no condition; any unknown expression counts as one. */
static bool is_passed_by_all(const char *name)
{
    return strcmp(name, "counter") == 0 || strcmp(name, "log") == 0;
}

static bool expr_refuses(const struct nlattr *name, const struct nlattr *data)
{
    const struct nlattr *target = attr_find(data, NFTA_TARGET_NAME); /* from iptables-nft */

    return attr_text_is(name, "reject") ||
           (attr_text_is(name, "immediate") && verdict_drops(data)) ||
           (attr_text_is(name, "target") &&
            (attr_text_is(target, "REJECT") || attr_text_is(target, "DROP")));
}

bool watch_refuses_all(const struct nlmsghdr *h, char text[WATCH_TEXT_MAX])
{
    const struct nlattr *table, *chain, *all, *e;
    struct nfgenmsg g;
    int left;

    if (!message_is_nft(h, NFT_MSG_NEWRULE))
        return false;
    (void)memcpy(&g, nlmsg_data(h), sizeof(g));
    table = message_find_attr(h, NFTA_RULE_TABLE);
    chain = message_find_attr(h, NFTA_RULE_CHAIN);
    all = message_find_attr(h, NFTA_RULE_EXPRESSIONS);
    if (table == NULL || chain == NULL || all == NULL)
        return false;
    nla_for_each_nested(e, all, left)
    {
        const struct nlattr *name = attr_find(e, NFTA_EXPR_NAME),
                            *data = attr_find(e, NFTA_EXPR_DATA);

        if (name == NULL || nla_len(name) == 0 ||
            ((const char *)nla_data(name))[nla_len(name) - 1] != '\0')
            return false;
        if (expr_refuses(name, data)) {
            chain_format_name(text, g.nfgen_family, table, chain);
            return true;
        }
        if (!is_passed_by_all(nla_data(name)))
            return false;
    }
    return false;
}

struct foreign {
    char chains[FOREIGN_MAX][WATCH_TEXT_MAX]; /* chains of the forward hook */
    size_t count;
    char found[WATCH_TEXT_MAX]; /* "": none yet */
};

static int on_foreign_chain(const struct nlmsghdr *h, void *data)
{
    struct foreign *f = data;
    bool drops = false;

    if (f->found[0] != '\0' || f->count == FOREIGN_MAX ||
        !chain_is_forward(h, f->chains[f->count], &drops))
        return 0;
    if (drops)
        (void)memcpy(f->found, f->chains[f->count], sizeof(f->found));
    f->count++;
    return 0;
}

static int on_foreign_rule(const struct nlmsghdr *h, void *data)
{
    struct foreign *f = data;
    char chain[WATCH_TEXT_MAX];

    if (f->found[0] != '\0' || !watch_refuses_all(h, chain))
        return 0;
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->chains[i], chain) == 0)
            (void)memcpy(f->found, chain, sizeof(f->found));
    return 0;
}

static int nft_dump(int sock, int type, nl_message_fn *fn, struct foreign *f, struct err *err)
{
    const struct nfgenmsg g = {.nfgen_family = NFPROTO_UNSPEC, .version = NFNETLINK_V0};
    auto_nlreq struct nlreq q;

    nlreq_init(&q);
    nlreq_add(&q, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type), NLM_F_DUMP, &g, sizeof(g));
    return nlreq_send(&q, sock, fn, f, NULL, err);
}

int watch_foreign_drop(int sock, char text[WATCH_TEXT_MAX], struct err *err)
{
    struct foreign f = {.count = 0};
    int r = nft_dump(sock, NFT_MSG_GETCHAIN, on_foreign_chain, &f, err);

    if (r >= 0 && f.found[0] == '\0' && f.count > 0)
        r = nft_dump(sock, NFT_MSG_GETRULE, on_foreign_rule, &f, err);
    if (r < 0)
        return r;
    (void)memcpy(text, f.found, sizeof(f.found));
    return text[0] != '\0';
}
