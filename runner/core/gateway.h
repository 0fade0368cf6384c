#pragma once

/*
 * What leads from the host to ports of sandboxes: preview URLs on a listener of its own, and
 * requests that the API hands over. Joins the rooms: gateway/ knows the protocols, exposure.h who
 * may come in, port.h how a port is reached.
 */

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct gateway;
struct handover_hub;
struct poller;
struct proxy_config;
struct relay_hub;
struct sandbox;
struct supervisor;

/* config: NULL = the proxy's defaults. */
int gateway_new(struct supervisor *sup, const struct proxy_config *config, struct gateway **ret,
                struct err *err);
/* Resets every connection; the loop has to run before it ends. NULL is fine. */
void gateway_close(struct gateway *g);

/* Serves preview URLs on fd, listening TCP, taken on success; tls (NULL = none) in any case. */
int gateway_listen(struct gateway *g, int fd, SSL_CTX *tls, struct err *err);
/* Reads the certificate and the key anew, for new connections; what cannot be read or used is
 * logged, and the one before stays. Nothing where there is no TLS. */
void gateway_renew(struct gateway *g);
/* Serves one request of a client of the API, for this port. early: what has been read of it. fd is
 * taken on success. -EBUSY: it does not run. */
int gateway_take(struct gateway *g, struct sandbox *s, uint16_t port, int fd, const char *early,
                 size_t early_len, struct err *err);

/* Whether gateway_take, the relays and the handovers have room, of which the last quarter is the
 * owner's, over the API: 0, or -EAGAIN (maxGatewayConnections). */
int gateway_room(const struct gateway *g, bool owner, struct err *err);

/* As gateway_new had it; NULL = the defaults. */
const struct proxy_config *gateway_config(const struct gateway *g);
struct poller *gateway_poller(struct gateway *g);
struct relay_hub *gateway_hub(struct gateway *g);
struct handover_hub *gateway_handovers(struct gateway *g);
