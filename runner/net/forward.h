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
