#pragma once

/*
 * TCP sockets inside a sandbox's net namespace, which the launcher makes, for connections to its
 * ports. While connections come, some are kept ready, so that a short one waits for nobody: blank
 * ones, bound and connected to nothing, that can do no more than the next one that is asked for.
 * Each holds the namespace, so they are closed when the sandbox's run ends, and when no connection
 * has come for a while.
 */

#include <stdbool.h>

#include "launch/request.h"

struct err;
struct port_socket_wait;
struct sandbox;

enum {
    PORT_SOCKETS = LAUNCH_REPLY_FDS_MAX, /* kept of one family of a sandbox */
    PORT_SOCKETS_MS = 2000,              /* without a connection: closed */
};

/* Called once, from the loop: r is a socket, not connected, non-blocking and the callee's; or a
 * negative errno, and err says why. */
typedef void port_socket_fn(struct port_socket_wait *w, int r, const struct err *err);

/* Somebody who waits for one; all zero: he does not. */
struct port_socket_wait {
    struct port_socket_wait *next, **link;
    struct port_sockets *all; /* NULL = does not wait */
    int family;
    port_socket_fn *cb;
};

/* One that is ready, of family 4 or 6; FD_NONE: none is. */
int port_socket_take(struct sandbox *s, int family);
/* cb follows, unless port_socket_forget comes first. w is the caller's, and holds no reference of
 * the sandbox. */
int port_socket_wait(struct sandbox *s, int family, struct port_socket_wait *w, port_socket_fn *cb,
                     struct err *err);
void port_socket_forget(struct port_socket_wait *w);

/* Its run ends: those that are ready are closed. */
void port_sockets_close(struct sandbox *s);
void port_sockets_free(struct sandbox *s);
