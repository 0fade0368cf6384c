#pragma once

/*
 * Connects to a TCP port on a sandbox's loopback, with a socket of its net namespace
 * (net-socket.h). Tries 127.0.0.1, then ::1, as servers may listen on either. Runs in the
 * supervisor's event loop.
 */

#include <stdint.h>

struct err;
struct port_connect;
struct sandbox;
struct supervisor;

enum { PORT_CONNECT_MS = 5000 /* a listener with a full queue does not answer */ };

/*
 * Called once, from the loop, never inside port_connect. r = 0: fd is connected, non-blocking and
 * owned by the callee. Else err says why: -ECONNREFUSED: no listener; -ETIMEDOUT; -EBUSY: the
 * sandbox does not run; and others. The handle is freed.
 */
typedef void (*port_cb)(void *data, int r, int fd, const struct err *err);

/*
 * *ret_fd >= 0: connected at once, cb is not called. -1: cb is called later, *ret is the handle.
 * -ECONNREFUSED: no listener, known at once. -EBUSY: the sandbox does not run.
 */
int port_connect(struct sandbox *s, uint16_t port, port_cb cb, void *data,
                 struct port_connect **ret, int *ret_fd, struct err *err);
/*
 * Counts one client connection to the ports of a sandbox, of any kind. Called before port_connect;
 * port_leave when the connection is closed. -EAGAIN: limit maxPortConnections. port_leave allows a
 * sandbox that is gone.
 */
int port_enter(struct sandbox *s, struct err *err);
void port_leave(struct supervisor *sup, const char *id);

/* Cancels: the callback is not called. NULL is allowed. */
void port_connect_cancel(struct port_connect *c);
