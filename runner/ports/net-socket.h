#pragma once

/*
 * TCP sockets inside a sandbox's net namespace, made by the launcher. Plain ones connect to the
 * sandbox's ports (port.c). Marked ones pass its egress nft table and connect to servers
 * (egress-socket.c).
 *
 * While connections come, a few unconnected sockets are kept ready, so that a short connection need
 * not wait for the launcher. Each holds a reference to the namespace, so they are closed when the
 * sandbox stops, and when no connection has come for NET_SOCKETS_MS. limits.maxSpareSockets bounds
 * them over all sandboxes. Runs in the supervisor's event loop.
 */

#include <stdbool.h>

#include "launch/request.h"

struct err;
struct net_socket_wait;
struct sandbox;

enum {
    NET_SOCKETS_READY = LAUNCH_REPLY_FDS_MAX, /* most ready sockets of one class of a sandbox */
    NET_SOCKETS_MS = 2000,                    /* idle time after which ready sockets are closed */
};

/* Mark and family (4 or 6) are the class of a socket; each class has its own ready sockets. */
enum net_socket_mark { NET_SOCKET_PLAIN, NET_SOCKET_MARKED };

/*
 * Called once, from the loop. r: an unconnected, non-blocking socket owned by the callee, or a
 * negative errno, explained by err.
 */
typedef void net_socket_fn(struct net_socket_wait *w, int r, const struct err *err);

/* A waiter for a socket; zero-initialized: not waiting. */
struct net_socket_wait {
    struct net_socket_wait *next, **link;
    struct net_socket_class *class; /* NULL = not waiting */
    net_socket_fn *cb;
};

/* Returns a ready socket, owned by the caller, or FD_NONE. */
int net_socket_take(struct sandbox *s, int family, enum net_socket_mark mark);
/*
 * Waits for a socket; cb is called once, unless net_socket_forget comes first. The caller owns w,
 * which holds no reference to the sandbox.
 */
int net_socket_wait(struct sandbox *s, int family, enum net_socket_mark mark,
                    struct net_socket_wait *w, net_socket_fn *cb, struct err *err);
void net_socket_forget(struct net_socket_wait *w);

/*
 * Called when the sandbox stops. Closes ready sockets, and discards those still requested. Waiters
 * stay queued for sockets requested later.
 */
void net_sockets_close(struct sandbox *s);
/* As net_sockets_close, for marked sockets only; called when the egress rules are removed. */
void net_sockets_close_marked(struct sandbox *s);
void net_sockets_free(struct sandbox *s);
