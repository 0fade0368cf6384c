#pragma once

/*
 * Filters the frames that come out of a link whose peer is administered inside (net_setup's admin).
 * Only IPv4 and IPv6 pass, to be filtered by the table of ruleset.h. All other frames (ARP, VLANs,
 * MPLS, protocols of old networks for which the host may have modules) are dropped at the host's
 * end. Other links send only IP anyway.
 *
 * One table of the family netdev, named NET_TABLE, with a chain per such link; the kernel may
 * remove a chain with its link.
 */

#include <netinet/in.h> /* must come before the kernel's headers of the same names */

struct err;

/* Adds the chain of an existing link, before a process inside can send. Replaces an existing chain.
 */
int frames_add(int sock, const char *link, struct err *err);
/* Returns 1 if its rules exist, 0 if not, or a negative errno. */
int frames_has(int sock, const char *link, struct err *err);
/* Removes the chain; a missing one is no error. */
int frames_remove(int sock, const char *link, struct err *err);
/* Removes the table, when no sandbox is left. */
int frames_remove_all(int sock, struct err *err);
