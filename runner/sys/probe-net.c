/* Probes of the network by netlink, in a net namespace that disappears with the probe's child. The
 * messages are built by hand: a library for three fixed messages would slow down each start of
 * rind. */

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_link.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/auto.h"
#include "sys/probe-internal.h"
#include "sys/probe.h"

enum { MESSAGE_MAX = 512 };

struct probe_message {
    _Alignas(NLMSG_ALIGNTO) unsigned char data[MESSAGE_MAX];
    size_t len;
};

/* Appends bytes, padded with zeros; the fixed messages below always fit. Returns their offset. */
static size_t message_put(struct probe_message *m, const void *data, size_t len)
{
    size_t at = m->len, padded = NLMSG_ALIGN(len);

    if (at + padded > sizeof(m->data))
        return at;
    (void)memset(m->data + at, 0, padded);
    (void)memcpy(m->data + at, data, len);
    m->len = at + padded;
    return at;
}

static size_t message_put_header(struct probe_message *m, uint16_t type, uint16_t flags,
                                 uint32_t seq)
{
    struct nlmsghdr h = {.nlmsg_type = type, .nlmsg_flags = flags, .nlmsg_seq = seq};

    return message_put(m, &h, sizeof(h));
}

/* Sets the length of the header at `at` to cover everything appended since. */
static void message_end_header(struct probe_message *m, size_t at)
{
    uint32_t len = (uint32_t)(m->len - at);

    (void)memcpy(m->data + at + offsetof(struct nlmsghdr, nlmsg_len), &len, sizeof(len));
}

static size_t message_put_attr(struct probe_message *m, uint16_t type, const void *data, size_t len)
{
    struct nlattr a = {.nla_len = (uint16_t)(sizeof(a) + len), .nla_type = type};
    size_t at = message_put(m, &a, sizeof(a));

    if (len > 0)
        (void)message_put(m, data, len);
    return at;
}

static void message_end_attr(struct probe_message *m, size_t at)
{
    uint16_t len = (uint16_t)(m->len - at);

    (void)memcpy(m->data + at + offsetof(struct nlattr, nla_len), &len, sizeof(len));
}

/* Sends, and reads until the acknowledgement of message `seq`: returns its errno. */
static int netlink_request(int family, const struct probe_message *m, uint32_t seq)
{
    const struct timeval wait = {.tv_sec = 1};
    auto_close int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, family);
    _Alignas(struct nlmsghdr) unsigned char reply[4096];

    if (fd < 0)
        return -errno;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) < 0 ||
        send(fd, m->data, m->len, 0) < 0)
        return -errno;
    for (;;) {
        ssize_t n = recv(fd, reply, sizeof(reply), 0);
        size_t left = n > 0 ? (size_t)n : 0, at = 0;

        if (n < 0)
            return -errno;
        while (left >= sizeof(struct nlmsghdr)) {
            const struct nlmsghdr *h = (const void *)(reply + at);
            size_t step = NLMSG_ALIGN((size_t)h->nlmsg_len);

            if (h->nlmsg_len < sizeof(*h) || h->nlmsg_len > left)
                return -EBADMSG;
            if (h->nlmsg_type == NLMSG_ERROR && h->nlmsg_len >= NLMSG_LENGTH(sizeof(int)) &&
                (h->nlmsg_seq == seq || ((const struct nlmsgerr *)NLMSG_DATA(h))->error != 0))
                return ((const struct nlmsgerr *)NLMSG_DATA(h))->error;
            at += step;
            left -= step < left ? step : left;
        }
    }
}

int probe_veth(const struct probe_env *env)
{
    const struct ifinfomsg link = {.ifi_family = AF_UNSPEC};
    struct probe_message m = {.len = 0};
    size_t header, info, data, peer;
    int r;

    r = probe_enter(env, CLONE_NEWNET);
    if (r < 0)
        return r;
    header = message_put_header(&m, RTM_NEWLINK,
                                NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, 1);
    (void)message_put(&m, &link, sizeof(link));
    (void)message_put_attr(&m, IFLA_IFNAME, "rind0", sizeof("rind0"));
    info = message_put_attr(&m, IFLA_LINKINFO | NLA_F_NESTED, NULL, 0);
    (void)message_put_attr(&m, IFLA_INFO_KIND, "veth", sizeof("veth"));
    data = message_put_attr(&m, IFLA_INFO_DATA | NLA_F_NESTED, NULL, 0);
    peer = message_put_attr(&m, VETH_INFO_PEER | NLA_F_NESTED, NULL, 0);
    (void)message_put(&m, &link, sizeof(link));
    (void)message_put_attr(&m, IFLA_IFNAME, "rind1", sizeof("rind1"));
    message_end_attr(&m, peer);
    message_end_attr(&m, data);
    message_end_attr(&m, info);
    message_end_header(&m, header);
    return netlink_request(NETLINK_ROUTE, &m, 1);
}

/* Begins an nftables message; returns the offset of its header, for message_end_header. */
static size_t message_begin_nft(struct probe_message *m, uint16_t type, uint16_t flags,
                                uint32_t seq, uint8_t family, uint16_t resource)
{
    struct nfgenmsg g = {.nfgen_family = family, .version = NFNETLINK_V0};
    size_t header = message_put_header(m, type, (uint16_t)(NLM_F_REQUEST | flags), seq);

    g.res_id = (uint16_t)(resource << 8 | resource >> 8); /* big endian */
    (void)message_put(m, &g, sizeof(g));
    return header;
}

static void message_put_text(struct probe_message *m, uint16_t type, const char *text)
{
    (void)message_put_attr(m, type, text, strlen(text) + 1);
}

static void message_put_batch(struct probe_message *m, uint16_t type, uint32_t seq)
{
    message_end_header(m, message_begin_nft(m, type, 0, seq, AF_UNSPEC, NFNL_SUBSYS_NFTABLES));
}

static size_t message_begin_new(struct probe_message *m, uint16_t type, uint32_t seq,
                                uint8_t family, bool last)
{
    return message_begin_nft(m, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type),
                             NLM_F_CREATE | (last ? NLM_F_ACK : 0), seq, family, 0);
}

#define TABLE "rind"
#define CHAIN "probe"

static void message_put_table(struct probe_message *m, uint32_t seq, uint8_t family, bool last)
{
    size_t header = message_begin_new(m, NFT_MSG_NEWTABLE, seq, family, last);

    message_put_text(m, NFTA_TABLE_NAME, TABLE);
    message_end_header(m, header);
}

struct chain {
    const char *type, *device; /* device: NULL = none */
    uint32_t hook;
    int priority;
};

static void message_put_chain(struct probe_message *m, uint32_t seq, uint8_t family, bool last,
                              const struct chain *c)
{
    const uint32_t hook = htonl(c->hook), priority = htonl((uint32_t)c->priority);
    size_t header = message_begin_new(m, NFT_MSG_NEWCHAIN, seq, family, last), nest;

    message_put_text(m, NFTA_CHAIN_TABLE, TABLE);
    message_put_text(m, NFTA_CHAIN_NAME, CHAIN);
    message_put_text(m, NFTA_CHAIN_TYPE, c->type);
    nest = message_put_attr(m, NFTA_CHAIN_HOOK | NLA_F_NESTED, NULL, 0);
    (void)message_put_attr(m, NFTA_HOOK_HOOKNUM, &hook, sizeof(hook));
    (void)message_put_attr(m, NFTA_HOOK_PRIORITY, &priority, sizeof(priority));
    if (c->device != NULL)
        message_put_text(m, NFTA_HOOK_DEV, c->device);
    message_end_attr(m, nest);
    message_end_header(m, header);
}

static void message_put_redirect_rule(struct probe_message *m, uint32_t seq)
{
    size_t header = message_begin_new(m, NFT_MSG_NEWRULE, seq, NFPROTO_INET, true), list, element;

    message_put_text(m, NFTA_RULE_TABLE, TABLE);
    message_put_text(m, NFTA_RULE_CHAIN, CHAIN);
    list = message_put_attr(m, NFTA_RULE_EXPRESSIONS | NLA_F_NESTED, NULL, 0);
    element = message_put_attr(m, NFTA_LIST_ELEM | NLA_F_NESTED, NULL, 0);
    message_put_text(m, NFTA_EXPR_NAME, "redir");
    (void)message_put_attr(m, NFTA_EXPR_DATA | NLA_F_NESTED, NULL, 0);
    message_end_attr(m, element);
    message_end_attr(m, list);
    message_end_header(m, header);
}

int probe_nftables(const struct probe_env *env)
{
    struct probe_message m = {.len = 0};
    int r;

    r = probe_enter(env, CLONE_NEWNET);
    if (r < 0)
        return r;
    message_put_batch(&m, NFNL_MSG_BATCH_BEGIN, 0);
    message_put_table(&m, 1, NFPROTO_INET, true);
    message_put_batch(&m, NFNL_MSG_BATCH_END, 2);
    return netlink_request(NETLINK_NETFILTER, &m, 1);
}

int probe_redirect(const struct probe_env *env)
{
    enum { TABLE_SEQ = 1, CHAIN_SEQ, RULE_SEQ, END_SEQ };
    static const struct chain nat = {
        .type = "nat", .hook = NF_INET_LOCAL_OUT, .priority = NF_IP_PRI_NAT_DST};
    struct probe_message m = {.len = 0};
    int r;

    r = probe_enter(env, CLONE_NEWNET);
    if (r < 0)
        return r;
    message_put_batch(&m, NFNL_MSG_BATCH_BEGIN, 0);
    message_put_table(&m, TABLE_SEQ, NFPROTO_INET, false);
    message_put_chain(&m, CHAIN_SEQ, NFPROTO_INET, false, &nat);
    message_put_redirect_rule(&m, RULE_SEQ);
    message_put_batch(&m, NFNL_MSG_BATCH_END, END_SEQ);
    return netlink_request(NETLINK_NETFILTER, &m, RULE_SEQ);
}

int probe_frames(const struct probe_env *env)
{
    enum { TABLE_SEQ = 1, CHAIN_SEQ, END_SEQ };
    static const struct chain frames = {
        .type = "filter", .device = "lo", .hook = NF_NETDEV_INGRESS, .priority = -1};
    struct probe_message m = {.len = 0};
    int r;

    r = probe_enter(env, CLONE_NEWNET);
    if (r < 0)
        return r;
    message_put_batch(&m, NFNL_MSG_BATCH_BEGIN, 0);
    message_put_table(&m, TABLE_SEQ, NFPROTO_NETDEV, false);
    message_put_chain(&m, CHAIN_SEQ, NFPROTO_NETDEV, true, &frames);
    message_put_batch(&m, NFNL_MSG_BATCH_END, END_SEQ);
    return netlink_request(NETLINK_NETFILTER, &m, CHAIN_SEQ);
}
