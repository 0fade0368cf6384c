#pragma once

/* Detects other programs' changes to the host's firewall: a removed table of rind, which opens what
 * it closed, and rules that drop what it accepts. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct nlmsghdr;

/* Opens a socket that becomes readable when the ruleset of this namespace has changed. */
int watch_open(void);
/* Reads the pending messages. Returns true if another program may have removed a part of rind's
 * table. own: the port id of the socket that rind changes it with; 0: none. */
bool watch_read(int fd, uint32_t own);
/* Checks one message. Pure. True if any process has removed the table of this name. Also if another
 * port than own has removed restricting parts (chains, rules, some elements) or changed its flags;
 * one of these makes it dormant. */
bool watch_is_doubt(const struct nlmsghdr *h, const char *table, uint32_t own);

/* Likewise for routes of the host; on_route is called for each new one (pool.h). Returns true if a
 * default route may have changed. */
struct pool_route;
int watch_open_routes(void);
bool watch_read_routes(int fd, void (*on_route)(void *data, const struct pool_route *route),
                       void *data);

/* Likewise for one interface of the host; a socket filter drops messages about others. 0: none. */
int watch_open_link(void);
int watch_choose_link(int fd, int ifindex);
bool watch_read_link(int fd);

/* Likewise for the files with the host's name servers (WATCH_RESOLV, its link target, and
 * systemd's), which may come and go. */
#define WATCH_RESOLV         "/etc/resolv.conf"
#define WATCH_RESOLV_SYSTEMD "/run/systemd/resolve/resolv.conf"
int watch_open_resolv(void);
bool watch_read_resolv(int fd);

enum { WATCH_TEXT_MAX = 128 };
/* Finds the first chain of another program that, by its policy or by a rule for all packets, drops
 * forwarded packets. Only packets that its other rules accept pass. Returns 1 and its name, 0, or a
 * negative errno. */
int watch_foreign_drop(int sock, char text[WATCH_TEXT_MAX], struct err *err);
/* Checks one chain's message. Pure. True if it is such a chain by its policy; text: its name. */
bool watch_is_drop(const struct nlmsghdr *h, char text[WATCH_TEXT_MAX]);
/* Checks one rule's message. Pure. True if it refuses every packet; text: its chain's name. */
bool watch_refuses_all(const struct nlmsghdr *h, char text[WATCH_TEXT_MAX]);
