#pragma once

/* IP forwarding of the host's interfaces, each by itself. */

#include <stdbool.h>

struct err;

/* Returns 1 if packets that arrive at an interface are forwarded, 0 if not, or a negative errno. */
int forward_get(const char *ifname, int family);
/* -EOPNOTSUPP: IPv6 on a kernel that has only the switch for all interfaces. */
int forward_set(const char *ifname, int family, bool on, struct err *err);
/* Returns true if the switch for all interfaces is on. */
bool forward_all(int family);

/* Marks an interface whose forwarding rind has switched on, by an alternative name,
 * "rind-forwards4-INDEX". The mark lasts as long as the switch, independent of processes and
 * firewall rules. sock: NETLINK_ROUTE. */
int forward_mark(int sock, const char *ifname, int family, bool on, struct err *err);
typedef void forward_mark_fn(const char *ifname, int family, void *data);
int forward_each_mark(int sock, forward_mark_fn *fn, void *data, struct err *err);
