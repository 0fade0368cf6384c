#pragma once

/*
 * The sidecar personality. Cloudflare's development runtime (workerd) expects a helper container
 * "proxy-everything" beside each of its containers. The supervisor plays its part for the network
 * of a sandbox: no program of that image runs. A sandbox represents it; the app's sandbox joins
 * that sandbox's network (`container:` networks). Runs in the supervisor's event loop.
 *
 *   ingress   a loopback port of the host ("39001/tcp" of the sidecar): CONNECT into the network,
 *             GET /ca, PUT /egress
 *   egress    every outgoing TCP connection is forwarded by HTTP CONNECT to 127.0.0.1:egress_port
 *             on the host, where workerd listens; status 200, 202 and errors mean what workerd
 *             defines
 *   DNS       names allowed by PUT /egress; stand-in addresses for names that do not exist
 *
 * TCP leaves the network through egress_port only. With the internet switched off, UDP (except DNS)
 * and ICMP do not leave it. All of it ends with the sandbox.
 */

#include <stdbool.h>
#include <stdint.h>

struct err;
struct sandbox;

struct sidecar_config {
    uint16_t egress_port; /* --http-egress-port: workerd's listener on 127.0.0.1; not 0 */
    uint16_t port;        /* ingress port on 127.0.0.1; 0 = any free one. After a restart of the
                             supervisor: the port that clients know */
    bool tls;             /* --tls-intercept */
    bool dns;             /* --dns-enabled; false: the host's name servers, no stand-in addresses */
};

/* r < 0: not started, and err says why. port: the listening port on 127.0.0.1. */
typedef void sidecar_cb(void *data, int r, uint16_t port, const struct err *err);

/*
 * Starts the sidecar of a sandbox with a running init (sandbox_with_init), before any process of
 * the app runs. cb follows once, from the loop, when ingress and egress listen. An engine that
 * answers its start call from cb spares workerd its readiness retries.
 *
 * -EBUSY: the sandbox does not run, or has egress rules or a sidecar already; -EINVAL: its network
 * belongs to another sandbox, or egress_port is 0. After a failure of cb nothing stays. cb may be
 * NULL.
 *
 * The sandbox must have a network of its own; it needs no link, since workerd connects from the
 * host.
 */
int sidecar_start(struct sandbox *s, const struct sidecar_config *config, sidecar_cb *cb,
                  void *data, struct err *err);

/*
 * Closes the ingress and its connections; nothing leaves the network afterwards. cb of a pending
 * start is called with -ECANCELED. The sandbox's stop calls this, too. Idempotent.
 */
void sidecar_stop(struct sandbox *s);

/* The ingress port on 127.0.0.1, for NetworkSettings.Ports["39001/tcp"]; 0 = not listening. */
uint16_t sidecar_port(const struct sandbox *s);
