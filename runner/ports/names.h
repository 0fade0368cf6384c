#pragma once

/*
 * The name server of named networks: answers programs inside a sandbox for the names of its
 * networks' members, and asks the sandbox's own name servers for others. Programs ask it at
 * NAMES_ADDRESS, which is in the sandbox's resolv.conf. It is open before anything runs in the
 * sandbox, while that is in a named network.
 *
 * A member may have any name, as in its hosts file. Questions for other names leave by sockets of
 * the sandbox's own net namespace, so they go where its own packets may. A sandbox with egress
 * rules has their resolver in place of this one, which gets the members' names from here.
 *
 * Runs in the supervisor's event loop.
 */

#include <stdbool.h>

struct dns_local;
struct dns_question;
struct err;
struct sandbox;

/* Steps of a start and of a reattach (part_step). */
int names_start(struct sandbox *s, struct err *err);
int names_reopen(struct sandbox *s, struct err *err);
void names_close(struct sandbox *s);
/* Call it when a running sandbox has other networks: opens or closes the name server. Returns true
 * if done is called later, from the loop. A failure is logged. */
bool names_follow(struct sandbox *s, void (*done)(void *data), void *data);

/* Answers for a member that the sandbox may know (dns_ops.local). */
bool names_local(struct sandbox *s, const struct dns_question *q, struct dns_local *ret);
