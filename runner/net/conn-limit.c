#include "net/conn-limit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/err.h"
#include "net/netlink.h"

static int over_configure(int fd, int attr, const void *data, size_t len, struct err *err)
{
    const struct nfgenmsg g = {.version = NFNETLINK_V0, .res_id = htons(CONN_LIMIT_GROUP)};
    auto_nlreq struct nlreq q;

    nlreq_init(&q);
    nlreq_add(&q, NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG, NLM_F_ACK, &g, sizeof(g));
    nl_put(&q, attr, data, len);
    return nlreq_send(&q, fd, NULL, NULL, NULL, err);
}

int conn_limit_open(struct err *err)
{
    const struct nfulnl_msg_config_cmd bind_cmd = {.command = NFULNL_CFG_CMD_BIND};
    const struct nfulnl_msg_config_mode mode = {.copy_range = htonl(CONN_LIMIT_BYTES),
                                                .copy_mode = NFULNL_COPY_PACKET};
    auto_close int fd = nl_open(NETLINK_NETFILTER);
    int r;

    if (fd < 0)
        return err_errno(err, fd, "connections over a bound: socket");
    r = over_configure(fd, NFULA_CFG_CMD, &bind_cmd, sizeof(bind_cmd), err);
    if (r == 0)
        r = over_configure(fd, NFULA_CFG_MODE, &mode, sizeof(mode), err);
    return r < 0 ? err_wrap(err, r, "connections over a bound: listen") : take_fd(&fd);
}

static const struct nlattr *message_find_attr(const struct nlmsghdr *h, int attr)
{
    return nlmsg_find_attr((struct nlmsghdr *)(uintptr_t)h, sizeof(struct nfgenmsg), attr);
}

static bool prefix_bound(const struct nlattr *prefix, enum conn_limit_bound *ret)
{
    static const char *const words[] = {[CONN_LIMIT_BOUND_FLOWS] = CONN_LIMIT_FLOWS,
                                        [CONN_LIMIT_BOUND_RATES] = CONN_LIMIT_RATES,
                                        [CONN_LIMIT_BOUND_ALL] = CONN_LIMIT_ALL};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t len = strlen(words[i]) + 1;

        if ((size_t)nla_len(prefix) == len && memcmp(nla_data(prefix), words[i], len) == 0) {
            *ret = (enum conn_limit_bound)i;
            return true;
        }
    }
    return false;
}

static bool payload_source(const struct nlattr *payload, struct net_addr *ret)
{
    enum { V4_AT = 12, V6_AT = 8 };
    const uint8_t *ip = nla_data(payload);
    const size_t len = (size_t)nla_len(payload);

    *ret = (struct net_addr){.family = 0};
    if (len >= V4_AT + 4 && ip[0] >> 4 == 4) {
        ret->family = 4;
        (void)memcpy(ret->bytes, ip + V4_AT, 4);
    } else if (len >= V6_AT + 16 && ip[0] >> 4 == 6) {
        ret->family = 6;
        (void)memcpy(ret->bytes, ip + V6_AT, 16);
    }
    return ret->family != 0;
}

bool conn_limit_parse(const struct nlmsghdr *h, struct conn_limit_event *ret)
{
    const struct nlattr *prefix, *payload;

    if (!nlmsg_valid_hdr(h, sizeof(struct nfgenmsg)) ||
        h->nlmsg_type != (NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET))
        return false;
    prefix = message_find_attr(h, NFULA_PREFIX);
    payload = message_find_attr(h, NFULA_PAYLOAD);
    return prefix != NULL && payload != NULL && prefix_bound(prefix, &ret->bound) &&
           payload_source(payload, &ret->from);
}

struct reading {
    void (*fn)(void *data, const struct conn_limit_event *o);
    void *data;
};

static int on_message(const struct nlmsghdr *h, void *data)
{
    const struct reading *r = data;
    struct conn_limit_event o;

    if (conn_limit_parse(h, &o))
        r->fn(r->data, &o);
    return 0;
}

void conn_limit_read(int fd, void (*fn)(void *data, const struct conn_limit_event *o), void *data)
{
    _Alignas(struct nlmsghdr) char messages[NLREPLY_BYTES];
    struct reading reading = {.fn = fn, .data = data};
    struct nl_answers unused = {.acks = 0};

    for (;;) {
        ssize_t n = recv(fd, messages, sizeof(messages), MSG_DONTWAIT);

        if (n > 0)
            (void)nl_feed(&unused, messages, (size_t)n, on_message, &reading);
        else if (n == 0 || errno != ENOBUFS)
            return;
    }
}
