/* Sets the rate of a link's end. Owns nothing. Runs in the launcher. */
#include "net/rate.h"

#include <errno.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "base/err.h"
#include "net/netlink.h"

enum {
    BURST_MS = 20,        /* of the rate: more than a tick of the slowest kernel clock */
    BURST_MIN = 64 << 10, /* the largest packet before it is cut (GSO) */
    BURST_MAX = 16 << 20,
    QUEUE_MS = 100,
    QUEUE_MAX = 64 << 20,
    ETH_HEAD = 14,
    HANDLE = 0x10000,
};

uint32_t rate_burst(uint64_t rate, uint32_t mtu)
{
    uint64_t burst = rate / 1000 * BURST_MS;
    const uint64_t least = mtu + ETH_HEAD > BURST_MIN ? mtu + ETH_HEAD : BURST_MIN;

    burst = burst < least ? least : burst;
    return (uint32_t)(burst < BURST_MAX ? burst : BURST_MAX);
}

uint32_t rate_queue(uint64_t rate, uint32_t mtu)
{
    const uint64_t queue = rate / 1000 * QUEUE_MS + rate_burst(rate, mtu);

    return (uint32_t)(queue < QUEUE_MAX ? queue : QUEUE_MAX);
}

/* The time that the rate needs for these bytes, in the kernel's ticks of 64 ns. */
static uint32_t ticks_of(uint32_t bytes, uint64_t rate)
{
    const uint64_t ticks = (uint64_t)bytes * 1000000000 / rate / 64;

    return (uint32_t)(ticks < UINT32_MAX ? ticks : UINT32_MAX);
}

int rate_set(int sock, int index, uint64_t rate, uint32_t mtu, struct err *err)
{
    const struct tcmsg msg = {.tcm_family = AF_UNSPEC,
                              .tcm_ifindex = index,
                              .tcm_parent = TC_H_ROOT,
                              .tcm_handle = HANDLE};
    const uint32_t burst = rate_burst(rate, mtu);
    const struct tc_tbf_qopt tbf = {
        .rate = {.linklayer = TC_LINKLAYER_ETHERNET,
                 .rate = rate < UINT32_MAX ? (uint32_t)rate : UINT32_MAX},
        .limit = rate_queue(rate, mtu),
        .buffer = ticks_of(burst, rate),
    };
    struct nlattr *options;
    auto_nlreq struct nlreq q;
    int r;

    nlreq_init(&q);
    nlreq_add(&q, RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK, &msg, sizeof(msg));
    nl_put_string(&q, TCA_KIND, "tbf");
    options = nl_nest(&q, TCA_OPTIONS);
    nl_put(&q, TCA_TBF_PARMS, &tbf, sizeof(tbf));
    if (rate >= UINT32_MAX)
        nl_put(&q, TCA_TBF_RATE64, &rate, sizeof(rate));
    nl_put_u32(&q, TCA_TBF_BURST, burst);
    nl_nest_end(&q, options);
    r = nlreq_send(&q, sock, NULL, NULL, NULL, err);
    if (r == -ENOENT || r == -EOPNOTSUPP)
        return err_set(err, -EOPNOTSUPP,
                       "network rate: this kernel has no token bucket (CONFIG_NET_SCH_TBF)");
    return r < 0 ? err_wrap(err, r, "network rate") : 0;
}
