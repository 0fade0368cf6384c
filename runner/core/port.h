#pragma once

/*
 * Connections to a TCP port inside a sandbox: to its own loopback, by a socket of its net namespace
 * (net-socket.h). 127.0.0.1 first, then ::1, so that it does not matter which of them a
 * server listens on.
 */

#include <stdint.h>

struct err;
struct port_connect;
struct sandbox;
struct supervisor;

enum { PORT_CONNECT_MS = 5000 /* a listener whose queue is full does not answer at all */ };

/*
 * Called once, from the loop, not from within port_connect: fd (r = 0) is connected, non-blocking
 * and the callee's; else err says why: -ECONNREFUSED nobody listens, -ETIMEDOUT, -EBUSY the sandbox
 * does not run, … The handle is dead from then on.
 */
typedef void (*port_cb)(void *data, int r, int fd, const struct err *err);

/*
 * *ret_fd: connected at once, and cb does not come; or -1: it does, and *ret is the handle.
 * -ECONNREFUSED: it is known already that nobody listens. -EBUSY the sandbox does not run, …
 */
int port_connect(struct sandbox *s, uint16_t port, port_cb cb, void *data,
                 struct port_connect **ret, int *ret_fd, struct err *err);
/*
 * Counts one connection of a client's to the ports of a sandbox, whichever way it comes: before
 * port_connect, and until it is closed. -EAGAIN: limit maxPortConnections. The sandbox may be gone
 * by the time of port_leave.
 */
int port_enter(struct sandbox *s, struct err *err);
void port_leave(struct supervisor *sup, const char *id);

/* The callback does not come any more. NULL is fine. */
void port_connect_cancel(struct port_connect *c);
