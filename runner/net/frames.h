#pragma once

/*
 * What may come out of a link whose other end is administered from inside (net_box's admin): frames
 * that are IPv4 or IPv6, which the table of ruleset.h then judges. Whatever else (ARP, VLANs, MPLS,
 * protocols of old networks, that modules of the host may listen to) ends at the host's end of the
 * link. A link that is not administered from inside sends nothing else.
 *
 * One table of the family netdev, of the name NET_TABLE, with a chain for each such link, which the
 * kernel may take away along with it.
 */

#include <netinet/in.h> /* in front of the kernel's headers of the same names */

struct err;

/* For a link that is there, before anything inside can send. It may have been there before. */
int frames_add(int sock, const char *link, struct err *err);
/* Whether its rules are there: 1, 0, or a negative errno. */
int frames_has(int sock, const char *link, struct err *err);
/* What is not there is no error. */
int frames_remove(int sock, const char *link, struct err *err);
/* The table, when no sandbox is left. */
int frames_remove_all(int sock, struct err *err);
