#pragma once

/*
 * What others do to the host's firewall: that they have taken our table away, which opens what it
 * closes, and that they drop what it lets through.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct nlmsghdr;

/* A socket that becomes readable when something of the ruleset of this namespace has changed. */
int watch_open(void);
/* Reads what has come. Whether somebody may have taken something of our table away. own: the port
 * of the socket that we change it with ourselves; 0: none. */
bool watch_read(int fd, uint32_t own);
/* One message, pure: whether it tells that a table of this name is gone, whoever it was, or that
 * somebody else than own has taken from it what closes something: chains, rules, some elements; or
 * has changed its flags, of which one makes it dormant. */
bool watch_is_doubt(const struct nlmsghdr *h, const char *table, uint32_t own);

/* The same for routes of the host; on_route is called for each that is new (pool.h). Whether a
 * default route may have come or gone. */
struct route;
int watch_open_routes(void);
bool watch_read_routes(int fd, void (*on_route)(void *data, const struct route *route), void *data);

/* The same for one interface of the host: what it tells of others stays in the kernel. 0: of none.
 */
int watch_open_link(void);
int watch_choose_link(int fd, int ifindex);
bool watch_read_link(int fd);

/* The same for what the host's name servers are read from (WATCH_RESOLV, and what it leads to, and
 * systemd's), which may come and go. */
#define WATCH_RESOLV         "/etc/resolv.conf"
#define WATCH_RESOLV_SYSTEMD "/run/systemd/resolve/resolv.conf"
int watch_open_resolv(void);
bool watch_read_resolv(int fd);

enum { WATCH_TEXT_MAX = 128 };
/* The first chain of somebody else's that lets no forwarded packets pass but those which a rule of
 * its accepts, by its policy or by a rule about all: 1 and its name, 0, or a negative errno. */
int watch_foreign_drop(int sock, char text[WATCH_TEXT_MAX], struct err *err);
/* One chain's message, pure: whether it is such a chain by its policy, and its name. */
bool watch_is_drop(const struct nlmsghdr *h, char text[WATCH_TEXT_MAX]);
/* One rule's message, pure: whether it refuses all that comes to it, and its chain's name. */
bool watch_refuses_all(const struct nlmsghdr *h, char text[WATCH_TEXT_MAX]);
