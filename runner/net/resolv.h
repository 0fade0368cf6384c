#pragma once

/* The host's resolv.conf as a source for sandboxes': pure. */

#include <stdbool.h>
#include <stddef.h>

#include "policy/net-box.h"

enum { RESOLV_TEXT_MAX = 64 << 10 };

/*
 * Takes the name servers that a sandbox can ask, and search and options lines, into box. Loopback
 * addresses are the host's own stub, which a sandbox has not; so are link-local ones, and IPv6
 * where the sandbox has no route. Returns whether one of the text's was a loopback address: then
 * the servers behind it are in another file.
 */
bool resolv_take(struct net_box *box, const char *text, size_t len);

/*
 * The index'th name server as the host itself asks it, at port 53: loopback and link-local ones
 * count, too. A text without any means the host's own, at 127.0.0.1. -ENOENT.
 */
struct sockaddr_storage;
int resolv_nth(const char *text, size_t len, unsigned index, struct sockaddr_storage *ret);
/* scope: of a link-local address, or 0. */
int resolv_server(const struct net_addr *a, unsigned scope, struct sockaddr_storage *ret);
