#pragma once

/*
 * TCP sockets inside a sandbox's net namespace, which the launcher makes: for connections to its
 * ports (port.c), and marked ones, which its egress table lets through, for its own connections to
 * servers (egress-socket.c). While connections come, some are kept ready, so that a short
 * connection need not wait for the launcher. They are blank, bound and connected to nothing: they
 * can do no more than a new one. Each holds the namespace, so they are closed when the sandbox's
 * run ends, and when no connection has come for a while. limits.maxSpareSockets bounds those of all
 * sandboxes.
 */

#include <stdbool.h>

#include "launch/request.h"

struct err;
struct net_socket_wait;
struct sandbox;

enum {
    NET_SOCKETS_READY = LAUNCH_REPLY_FDS_MAX, /* of one class of a sandbox */
    NET_SOCKETS_MS = 2000,                    /* without a connection: closed */
};

/* With the family, 4 or 6, the class of a socket: each has its own ready ones. */
enum net_socket_mark { NET_SOCKET_PLAIN, NET_SOCKET_MARKED };

/* Called once, from the loop: r is a socket, not connected, non-blocking and the callee's; or a
 * negative errno, and err says why. */
typedef void net_socket_fn(struct net_socket_wait *w, int r, const struct err *err);

/* A caller that waits for a socket; all zero: it does not. */
struct net_socket_wait {
    struct net_socket_wait *next, **link;
    struct net_socket_class *class; /* NULL = does not wait */
    net_socket_fn *cb;
};

/* One that is ready, the caller's; FD_NONE: none is. */
int net_socket_take(struct sandbox *s, int family, enum net_socket_mark mark);
/* cb follows, unless net_socket_forget comes first. w is the caller's, and holds no reference of
 * the sandbox. */
int net_socket_wait(struct sandbox *s, int family, enum net_socket_mark mark,
                    struct net_socket_wait *w, net_socket_fn *cb, struct err *err);
void net_socket_forget(struct net_socket_wait *w);

/* Its run ends: those that are ready are closed, and of what the launcher has been asked for before
 * nothing is used. Waiting callers go on waiting, for later ones. */
void net_sockets_close(struct sandbox *s);
/* As net_sockets_close, of the marked ones alone: its egress rules are taken off. */
void net_sockets_close_marked(struct sandbox *s);
void net_sockets_free(struct sandbox *s);
