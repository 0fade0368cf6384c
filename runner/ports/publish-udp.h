#pragma once

/*
 * A UDP port of the host that is forwarded to a port of a sandbox. Each peer has a flow: a socket
 * inside the sandbox connected to its port, so that replies can be assigned to the peer. A peer's
 * address can be forged. Flows are therefore bounded, and closed when idle. limits.maxUdpFlows
 * bounds them over all ports. Runs in the supervisor's event loop.
 */

#include <stdint.h>

struct err;
struct sandbox;
struct udp_port;

enum {
    UDP_FLOWS_MAX = 1024,     /* peers of one port at a time; datagrams of others are dropped */
    UDP_IDLE_MS = 60 * 1000,  /* without a datagram in either direction */
    UDP_SIZE_MAX = 65507,     /* largest payload of a datagram over IPv4 */
    UDP_HELD_MAX = 8,         /* datagrams of a new flow queued for its socket; more are dropped */
    UDP_HELD_BYTES = 4 << 20, /* bytes queued for all flows of all sandboxes */
    UDP_SETTLE_MS = 1000,     /* silence after which 127.0.0.1 is taken to be the right address */
    UDP_BATCH = 64,           /* datagrams handled for one socket before other handles are served */
};

/* fd: bound, non-blocking; taken on success. */
int udp_port_new(struct sandbox *s, int fd, uint16_t port, struct udp_port **ret, struct err *err);
/* NULL is allowed. */
void udp_port_close(struct udp_port *p);
