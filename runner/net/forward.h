#pragma once

/* IP forwarding of the host's interfaces, one by one. */

#include <stdbool.h>

struct err;

/* Whether packets that come in at an interface are forwarded. Negative errno. */
int forward_get(const char *ifname, int family);
/* -EOPNOTSUPP: IPv6 on a kernel that has only the switch for all interfaces at once. */
int forward_set(const char *ifname, int family, bool on, struct err *err);
/* Whether somebody has switched it on for all. */
bool forward_all(int family);

/*
 * That it was rind that has switched it on is an alternative name of the interface,
 * "rind-forwards4-INDEX": it lasts as long as the switch itself, whatever becomes of processes and
 * of the firewall's rules. sock: NETLINK_ROUTE.
 */
int forward_mark(int sock, const char *ifname, int family, bool on, struct err *err);
typedef void forward_mark_fn(const char *ifname, int family, void *data);
int forward_each_mark(int sock, forward_mark_fn *fn, void *data, struct err *err);
