#pragma once

/*
 * Connections to a TCP port inside a sandbox: to its own loopback, by a socket of its net namespace
 * that the launcher makes. 127.0.0.1 first, then ::1, so that it does not matter which of them a
 * server listens on.
 */

#include <stdint.h>

struct err;
struct port_connect;
struct sandbox;

enum { PORT_CONNECT_MS = 5000 /* a listener whose queue is full does not answer at all */ };

/*
 * Called once, from the loop: fd (r = 0) is connected, non-blocking and the callee's; else err says
 * why: -ECONNREFUSED nobody listens, -ETIMEDOUT, -EBUSY the sandbox does not run, … The handle is
 * dead from then on.
 */
typedef void (*port_cb)(void *data, int r, int fd, const struct err *err);

int port_connect(struct sandbox *s, uint16_t port, port_cb cb, void *data,
                 struct port_connect **ret, struct err *err);
/* The callback does not come any more. NULL is fine. */
void port_connect_cancel(struct port_connect *c);
