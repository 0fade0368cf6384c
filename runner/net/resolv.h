#pragma once

/* Parses the host's resolv.conf for sandboxes and for the host itself. Pure. */

#include <stdbool.h>
#include <stddef.h>

#include "policy/net-setup.h"

enum { RESOLV_TEXT_MAX = 64 << 10 };

/*
 * Copies the name servers that a sandbox can use, and search and options lines, into box. Skips
 * loopback addresses, which are the host's local stub, link-local ones, and IPv6 if the sandbox has
 * no IPv6 route. Returns true if the text has a loopback address: then the servers behind the stub
 * are in another file.
 */
bool resolv_take(struct net_setup *setup, const char *text, size_t len);

/* Takes the search and options lines away that were not asked for (net_setup.own_lines). */
void resolv_forget_lines(struct net_setup *setup);

/* Returns name server number `index` as the host uses it, at port 53, including loopback and
 * link-local ones. A text without any means 127.0.0.1. -ENOENT. */
struct sockaddr_storage;
int resolv_nth(const char *text, size_t len, unsigned index, struct sockaddr_storage *ret);
/* scope: of a link-local address, or 0. */
int resolv_server(const struct net_addr *a, unsigned scope, struct sockaddr_storage *ret);
