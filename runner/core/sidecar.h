#pragma once

/*
 * The sidecar personality: what Cloudflare's development runtime (workerd) expects of the container
 * "proxy-everything" beside each of its own, played by the supervisor for the network of a sandbox.
 * No program of that image runs; a sandbox stands for it, whose network the app's sandbox joins
 * (`container:` networks), and this is bound to that network.
 *
 *   ingress   a loopback port of the host ("39001/tcp" of the sidecar): CONNECT into the network,
 *             GET /ca, PUT /egress
 *   egress    every TCP connection out of the network goes by HTTP CONNECT to 127.0.0.1:egress_port
 *             on the host, where workerd listens; 200, 202 and errors as it means them
 *   DNS       names that PUT /egress allows; stand-in addresses for those that do not exist
 *
 * UDP (but DNS) and ICMP do not leave a network whose internet is off, and what is not sent to
 * egress_port does not leave at all. All of it ends with the sandbox.
 */

#include <stdbool.h>
#include <stdint.h>

struct err;
struct sandbox;

struct sidecar_config {
    uint16_t egress_port; /* --http-egress-port; workerd's listener on 127.0.0.1. Not 0 */
    uint16_t port;        /* of 127.0.0.1 for the ingress; 0 = one that is free. After a restart of
                             the supervisor: the one that clients know */
    bool tls;             /* --tls-intercept */
    bool dns;             /* --dns-enabled; off: names are asked of the host's servers, and no
                             stand-in addresses are made */
};

/* r < 0: not started, and err says why. port: of 127.0.0.1, listening. */
typedef void sidecar_cb(void *data, int r, uint16_t port, const struct err *err);

/*
 * Starts it for a sandbox whose init runs (sandbox_with_init), before anything of the app does: cb
 * follows once, from the loop, when ingress and egress listen. So an engine that answers its start
 * call from cb needs no readiness retries of workerd's. -EBUSY: the sandbox does not run, or has
 * egress rules of its own, or a sidecar; -EINVAL: its network is another sandbox's, or egress_port
 * is 0. Nothing but cb follows a failure there. cb may be NULL: nobody wants to know.
 *
 * The sandbox must have a network of its own; a link is not needed (workerd dials from the host).
 */
int sidecar_start(struct sandbox *s, const struct sidecar_config *config, sidecar_cb *cb,
                  void *data, struct err *err);

/* Closes the ingress and ends what goes through it; the network is left with no way out. cb of a
 * start under way is called with -ECANCELED. Done by the sandbox's own end, too. Twice is fine. */
void sidecar_stop(struct sandbox *s);

/* The ingress port of 127.0.0.1, for NetworkSettings.Ports["39001/tcp"]; 0 = it does not listen. */
uint16_t sidecar_port(const struct sandbox *s);
