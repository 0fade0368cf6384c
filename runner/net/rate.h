#pragma once

/*
 * The rate of a sandbox's link: a token bucket (tbf) at each of its ends, which delays packets and
 * drops those that find its queue full. The inner end's belongs to the namespace, in which no
 * process of the sandbox has CAP_NET_ADMIN. Both go with the link.
 */

#include <stdint.h>

struct err;

/* sock: NETLINK_ROUTE of the interface's namespace; index: the interface; rate: bytes a second;
 * mtu: of the link. -EOPNOTSUPP: this kernel has no tbf. */
int rate_set(int sock, int index, uint64_t rate, uint32_t mtu, struct err *err);
/* The bytes that may pass at once, and those that wait at most. Pure. */
uint32_t rate_burst(uint64_t rate, uint32_t mtu);
uint32_t rate_queue(uint64_t rate, uint32_t mtu);
