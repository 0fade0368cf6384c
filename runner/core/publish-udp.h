#pragma once

/*
 * A UDP port of the host that leads to one of a sandbox. Each peer has a flow: a socket inside the
 * sandbox, connected to its port, so that answers find their way back. Flows are few and end when
 * they are quiet: a peer's address can be forged, and what is made for it must not pile up.
 * limits.maxUdpFlows bounds those of all ports.
 */

#include <stdint.h>

struct err;
struct sandbox;
struct udp_port;

enum {
    UDP_FLOWS_MAX = 1024,    /* peers of one port at a time; further ones are dropped */
    UDP_IDLE_MS = 60 * 1000, /* without a datagram in either direction */
    UDP_SIZE_MAX = 65507,    /* bytes of a datagram: all that IPv4 carries */
    UDP_HELD_MAX = 8, /* datagrams of a new flow that wait for its socket; more are dropped */
    UDP_HELD_BYTES = 4 << 20, /* and the bytes of those of all flows, of all sandboxes */
    UDP_SETTLE_MS = 1000,     /* until somebody is taken to be at 127.0.0.1 who says nothing */
    UDP_BATCH = 64,           /* datagrams of one socket before others get their turn */
};

/* fd: bound, non-blocking; taken on success. */
int udp_port_new(struct sandbox *s, int fd, uint16_t port, struct udp_port **ret, struct err *err);
/* NULL is fine. */
void udp_port_close(struct udp_port *p);
