#pragma once

/*
 * Connects clients on the host to ports of sandboxes: preview URLs on a listener of its own, and
 * requests that the API hands over. gateway/ implements the protocols, exposure.h decides on
 * access, port.h connects to the port. Runs in the supervisor's event loop.
 */

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct gateway;
struct fd_passing_hub;
struct evloop;
struct proxy_config;
struct relay_hub;
struct sandbox;
struct supervisor;

/* config: borrowed; NULL = the proxy's defaults. */
int gateway_new(struct supervisor *sup, const struct proxy_config *config, struct gateway **ret,
                struct err *err);
/*
 * Resets every connection and frees the gateway; the loop must run once more before it ends. NULL
 * is allowed.
 */
void gateway_close(struct gateway *g);

/*
 * Serves preview URLs on fd, a listening TCP socket, taken on success. tls (NULL = none) is taken
 * in any case.
 */
int gateway_listen(struct gateway *g, int fd, SSL_CTX *tls, struct err *err);
/*
 * Asks the launcher for the certificate and the key again, for new connections. On failure, which
 * is logged, the old ones stay in use. Does nothing without TLS.
 */
void gateway_renew(struct gateway *g);
/*
 * Serves one request of an API client for this port. early: bytes already read from it. Takes fd on
 * success. -EBUSY: the sandbox does not run.
 */
int gateway_take(struct gateway *g, struct sandbox *s, uint16_t port, int fd, const char *early,
                 size_t early_len, struct err *err);

/*
 * Returns 0 if gateway_take, the relays and the handovers have room, else -EAGAIN
 * (maxGatewayConnections). The last quarter is reserved for the owner's API clients.
 */
int gateway_room(const struct gateway *g, bool owner, struct err *err);

/* The configuration given to gateway_new; NULL = the defaults. */
const struct proxy_config *gateway_config(const struct gateway *g);
struct evloop *gateway_evloop(struct gateway *g);
struct relay_hub *gateway_hub(struct gateway *g);
struct fd_passing_hub *gateway_handovers(struct gateway *g);
